"""Temporal image classification without labels: the next word of a report decoder.

BioViL-T section 4.2 and Appendix F.4: after "[FINDING] is" the decoder's posterior of the words of
Table F.3 is summed by class and normalised over the three classes; the likeliest class is the
answer. Scores and control are those of temporal classification.

Shapes: N pairs, B of a batch, C classes, W words.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch.nn.functional import one_hot

from cxr_files.errors import InputError
from cxrflow.benchmarks.inputs import Pixels, read_cohort, read_frames
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import Predictions
from cxrflow.benchmarks.temporal.image_pairs import ImagePairs
from cxrflow.benchmarks.temporal.scores import OTHER_PRIOR, OWN_PRIOR, columns_of_run
from cxrflow.benchmarks.temporal.settings import TemporalPromptingSettings
from cxrflow.benchmarks.temporal.temporal_classification import PAIR_COLUMNS, predictions_of, usable
from cxrflow.encoders.next_words import next_words
from cxrflow.encoders.report_decoder import FOLDER
from cxrflow.text.report_prompts import PRIOR_STUDY, ReportPrompts, prior_texts
from cxrflow.text.tokenizer import VocabularyInfo

COLUMNS = (*PAIR_COLUMNS, PRIOR_STUDY)
PRIOR_REPORT = "prior_report"  # empty without a prior study, or without --training


def pieces_of(model: Any, text: str, key: str) -> list[int]:
    """Return the ids of a text's pieces; InputError if the vocabulary lacks one."""
    ids: list[int] = model.tokenizer.encode(text, add_special_tokens=False).ids
    if not ids or VocabularyInfo.from_tokenizer(model.tokenizer).unknown in ids:
        raise InputError(
            f"settings: key '{key}' has {text!r}, which the vocabulary of {model.folder} has no "
            "pieces for; expected words that it can write"
        )
    return ids


def posterior(
    model: Any,
    begin: Sequence[int],
    words: Sequence[Sequence[Sequence[int]]],
    pairs: ImagePairs,
    pixels: Pixels,
    settings: TemporalPromptingSettings,
) -> NDArray[np.float32]:
    """Return class probabilities [N, C] of pairs, normalised over the classes.

    ``begin``: the ids of the prefix; ``words``: those of each word of each class.
    """
    words_W = [word for class_words in words for word in class_words]
    class_W = torch.arange(len(words)).repeat_interleave(torch.tensor(list(map(len, words))))
    class_WC = one_hot(class_W).float()
    if settings.pooled == "mean":
        class_WC = class_WC / class_WC.sum(0)
    prompts = ReportPrompts(
        pairs.table[PRIOR_REPORT].tolist(), model.tokenizer, model.decoder.settings
    ).prompts
    batches = []
    for first in range(0, len(pairs), settings.batch_size):
        rows = slice(first, first + settings.batch_size)
        prior = pairs.prior[rows] if _sees_prior(model) else None
        frames = read_frames(pixels, pairs.current[rows], prior)
        patches_BMP = model.encode_image(frames).unnormalised_patches.flatten(1, 2)
        prefixes = [[*prompt, *begin] for prompt in prompts[rows]]
        words_BW = next_words(model.decoder, prefixes, words_W, patches_BMP)
        batches.append(words_BW.cpu() @ class_WC)
    class_NC = torch.cat(batches)
    return (class_NC / class_NC.sum(1, keepdim=True)).numpy()


def _sees_prior(model: Any) -> bool:
    return bool(model.takes_prior and model.decoder.settings.prior_image)


class PromptedScores(NamedTuple):
    """What scores pairs of images, and says what of it.

    ``scorer`` gives class probabilities [N, C] of a finding's pairs; ``prior_reports`` are those of
    rows, empty where there is none.
    """

    scorer: Callable[[str, ImagePairs], NDArray[Any]]
    protocol: Mapping[str, Any]
    prior_reports: Callable[[pd.DataFrame], list[str]] = lambda rows: [""] * len(rows)


def scores(inputs: ModelInputs, settings: TemporalPromptingSettings) -> PromptedScores:
    """By the next word of a model's decoder."""
    options, cohort, model = inputs.options, inputs.cohort, inputs.model
    if model.decoder is None:
        raise InputError(f"{model.folder}: holds no {FOLDER}/config.json; it writes no reports")
    begins = {
        finding: pieces_of(model, settings.template.replace("{}", finding), "findings")
        for finding in settings.findings
    }
    words = [
        [pieces_of(model, word, f"words.{name}") for word in settings.words[name]]  # type: ignore[index]
        for name in cohort.classes
    ]
    reports = None
    if options.training is not None:
        reports = read_cohort(options.training, "pairs.parquet", ("study_id",)).table

    def earlier(rows: pd.DataFrame) -> list[str]:
        if reports is None:
            return [""] * len(rows)
        return [text or "" for text in prior_texts(rows, reports, model.decoder.settings.sections)]

    def scorer(finding: str, pairs: ImagePairs) -> NDArray[np.float32]:
        return posterior(model, begins[finding], words, pairs, inputs.pixels, settings)

    protocol = {
        "prior_image": _sees_prior(model),
        "prior_report": reports is not None,
        "prompt": model.decoder.settings.model_dump(mode="json"),
    }
    return PromptedScores(scorer, protocol, earlier)


def predict(inputs: ModelInputs, settings: TemporalPromptingSettings) -> Predictions:
    """Classify every pair of each finding."""
    scorer, protocol, prior_reports = inputs.ask(scores, settings)
    cohort, pixels = inputs.cohort, inputs.pixels
    samples, dropped = usable(inputs, pixels, settings.findings, [settings.split])
    tested = samples[settings.split]
    tested = tested.assign(**{PRIOR_REPORT: prior_reports(tested)})
    tables, left_out = [], {}
    for finding in settings.findings:
        pairs = ImagePairs.of(tested[tested["finding"] == finding], pixels, cohort.classes)
        if len(set(pairs.labels.tolist())) < len(cohort.classes):
            left_out[finding] = "not every class has a test pair"
            continue
        tests = {OWN_PRIOR: pairs, OTHER_PRIOR: pairs.other_priors()}
        of_tests = {name: scorer(finding, pairs_of_test) for name, pairs_of_test in tests.items()}
        columns = columns_of_run(of_tests, pairs.labels, cohort.classes, 0)
        tables.append(pairs.table.assign(**columns))
    with_report = int((tested[PRIOR_REPORT] != "").sum())
    data = {"with_prior_report": with_report, "left_out": left_out, "dropped": dropped}
    return predictions_of(inputs, pixels, tables, settings, data, protocol)
