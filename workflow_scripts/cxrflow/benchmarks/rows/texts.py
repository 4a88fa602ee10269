"""Baselines of texts: what wording alone reaches, without a model (not of the papers).

*Reports* ignore the image: ``most_frequent``, the most frequent training report, for all studies;
``typical``, the training report with the highest BLEU-4 to a sample of training reports, for all;
``random``, a training report drawn for each study; ``prior_report``, the report of the patient's
prior study, empty where there is none. ``states``, the ceiling, is the training report of the study
whose state is nearest to the one behind the image: no image says more than its state.

*Masked words*: their pieces are the whole words of the training reports, as a baseline has no
vocabulary; accuracies of different vocabularies are of different targets in any case.
``most_frequent`` always answers the word most frequent among the training reports' targets.
``random`` draws a word as often as it stands in training reports. ``neighbours`` answers the word
that stands there most often between the same two words, else after the same word, else before it.
``oracle``, the ceiling, does so by the reports that are scored.
"""

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from cxr_files.errors import InputError
from cxrflow.benchmarks.generation.report_generation import training_reports
from cxrflow.benchmarks.inputs import Inputs
from cxrflow.benchmarks.language.mask_prediction import (
    Answer,
    MaskedReports,
    MaskedWords,
    mask_reports,
)
from cxrflow.benchmarks.language.settings import MaskPredictionSettings
from cxrflow.benchmarks.rows.row import Row
from cxrflow.benchmarks.rows.truth import ORACLE, STATES, nearest, states
from cxrflow.metrics.report_text import bleu, bleu_counts
from cxrflow.text.report_batch import MaskedBatch
from cxrflow.text.report_prompts import report_texts
from cxrflow.text.tokenizer import SPECIAL_TOKENS, bert_tokenizer
from cxrflow.text.words import words_of

Ints = NDArray[np.int64]

_COMPARED = 200  # training reports for `typical`: BLEU of all pairs grows with the square


# --- reports --------------------------------------------------------------------------------------


class Reports(Row):
    """Texts that ignore the image."""

    def reports(self, inputs: Inputs, samples: pd.DataFrame, settings: Any) -> pd.Series:
        """A text for each of the samples."""
        self.protocol["writes"] = self.name
        training = training_reports(inputs, settings)
        if not training:
            raise InputError(f"{inputs.options.cohort}: no training report")
        if self.name == STATES:
            return reports_of_states(inputs, samples, settings)
        return pd.Series(reference_reports(self.name, training, samples), index=samples.index)


def reference_reports(name: str, training: list[str], studies: pd.DataFrame) -> list[str]:
    """Return a reference row's text for each of the studies."""
    draw = np.random.default_rng(0)
    if name == "random":
        return [training[place] for place in draw.integers(0, len(training), len(studies))]
    if name == "prior_report":
        return studies["prior_report"].tolist()
    if name == "most_frequent":
        counts = Counter(training)
        text = min(counts, key=lambda report: (-counts[report], report))
    else:
        sample = draw.permutation(len(training))[:_COMPARED]
        words = [words_of(training[place]) for place in sample]
        scores = [float(bleu(bleu_counts(words, [report] * len(words)), 4)) for report in words]
        text = training[sample[int(np.argmax(scores))]]
    return [text] * len(studies)


def reports_of_states(inputs: Inputs, samples: pd.DataFrame, settings: Any) -> pd.Series:
    """The training report of the state that is nearest to each sample's."""
    table = inputs.cohort.table
    training = table[table["split"] == "train"]
    training = training.assign(text=report_texts(training, settings.sections))
    training = training[training["text"] != ""]
    folder = inputs.options.truth
    states_N, states_M = (states(folder, each, inputs.source) for each in (samples, training))
    texts = training["text"].to_numpy()[nearest(states_N, states_M)]
    return pd.Series(texts, index=samples.index)


# --- masked words ---------------------------------------------------------------------------------


class Words(Row):
    """Answers masked words by what stands in training reports."""

    def scores(self, inputs: Inputs, settings: MaskPredictionSettings) -> MaskedWords:
        """Whole words for pieces, and the answer to a masked one."""
        words = training_words(inputs, settings)
        numbers = {word: number for number, word in enumerate(words)}

        def answer_of(baseline: MaskedReports, frequent: int) -> Answer:
            if self.name == "most_frequent":
                return lambda masked, _: np.full(len(masked.positions), frequent, dtype=np.int64)
            if self.name == ORACLE:
                reports = inputs.rows(settings.split)
                baseline = mask_reports(reports, tokenizer, settings.max_length, settings)
            read = triples(baseline, settings)
            if self.name in ("neighbours", ORACLE):
                return Neighbours(read, len(words), frequent)
            draw = np.random.default_rng(0)
            return lambda masked, _: read[draw.integers(0, len(read), len(masked.positions)), 1]

        tokenizer = bert_tokenizer(numbers, lowercase=True)
        return MaskedWords(tokenizer, settings.max_length, answer_of)


def training_words(inputs: Inputs, settings: MaskPredictionSettings) -> list[str]:
    """Return the special tokens and the words of the training reports, the frequent ones first."""
    texts = report_texts(inputs.rows(settings.baseline_split), settings.sections)
    counts = Counter(word for text in texts for word in words_of(text))
    words = sorted(counts.keys() - set(SPECIAL_TOKENS), key=lambda word: (-counts[word], word))
    return [*SPECIAL_TOKENS, *words]


def triples(reports: MaskedReports, settings: MaskPredictionSettings) -> Ints:
    """Return every word of the reports with its left and right neighbour [N, 3], unmasked."""
    batches = []
    for section in settings.sections:
        for _, masked, attention in reports.batches(section, 4 * settings.batch_size):
            ids = masked.input_ids.flatten().clone()
            ids[masked.positions] = masked.targets
            rows = ids.view_as(masked.input_ids).numpy()
            windows = np.lib.stride_tricks.sliding_window_view(rows, 3, axis=1)
            batches.append(windows[attention[:, 2:].numpy().astype(bool)])
    return np.concatenate(batches).astype(np.int64)


def most_frequent_by(context: Ints, word: Ints, size: int) -> tuple[Ints, Ints]:
    """Return the distinct contexts [K], ascending, and the most frequent of V words in each [K]."""
    keys, counts = np.unique(context * size + word, return_counts=True)
    order = np.lexsort((keys, -counts, keys // size))
    contexts, first = np.unique(keys[order] // size, return_index=True)
    return contexts, keys[order][first] % size


class Neighbours:
    """Answers by the words beside a masked place."""

    def __init__(self, left_word_right: Ints, size: int, frequent: int) -> None:
        left, word, right = left_word_right.T
        self.size, self.frequent = size, frequent
        contexts = (right, left, left * size + right)  # the last that is known counts
        self.tables = [most_frequent_by(context, word, size) for context in contexts]

    def __call__(self, masked: MaskedBatch, attention: torch.Tensor) -> Ints:
        ids, places = masked.input_ids.flatten().numpy(), masked.positions.numpy()
        left, right = ids[places - 1], ids[places + 1]
        answers = np.full(len(places), self.frequent, dtype=np.int64)
        contexts = (right, left, left * self.size + right)
        for context, (keys, words) in zip(contexts, self.tables, strict=True):
            place = np.searchsorted(keys, context).clip(max=len(keys) - 1)
            answers = np.where(keys[place] == context, words[place], answers)
        return answers
