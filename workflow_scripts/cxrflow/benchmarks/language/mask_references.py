"""Reference rows of masked-token prediction: what neighbours and frequencies tell, without a model.

Their pieces are the whole words of the training reports, as a reference row has no vocabulary;
accuracies of different vocabularies are of different targets in any case. ``most_frequent`` always
answers the word most frequent among the training reports' targets. ``random`` draws a word as often
as it stands in training reports. ``neighbours`` answers the word that stands there most often
between the same two words, else after the same word, else before it. Not in the paper.
"""

from collections import Counter

import numpy as np
import torch
from numpy.typing import NDArray

from cxrflow.benchmarks.inputs import Inputs
from cxrflow.benchmarks.language.mask_prediction import Answer, MaskedReports, predictions_of
from cxrflow.benchmarks.language.settings import MaskPredictionSettings
from cxrflow.benchmarks.result import Predictions
from cxrflow.text.report_batch import MaskedBatch
from cxrflow.text.report_prompts import report_texts, words_of
from cxrflow.text.tokenizer import SPECIAL_TOKENS, bert_tokenizer

Ints = NDArray[np.int64]


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


def predict(name: str, inputs: Inputs, settings: MaskPredictionSettings) -> Predictions:
    """Answer the masked words of the reports as a reference row does (docs/references.md)."""
    words = training_words(inputs, settings)
    tokenizer = bert_tokenizer({word: number for number, word in enumerate(words)}, lowercase=True)

    def answer_of(baseline: MaskedReports, frequent: int) -> Answer:
        if name == "most_frequent":
            return lambda masked, _: np.full(len(masked.positions), frequent, dtype=np.int64)
        read = triples(baseline, settings)
        if name == "neighbours":
            return Neighbours(read, len(words), frequent)
        draw = np.random.default_rng(0)
        return lambda masked, _: read[draw.integers(0, len(read), len(masked.positions)), 1]

    return predictions_of(inputs, tokenizer, settings.max_length, answer_of, settings)
