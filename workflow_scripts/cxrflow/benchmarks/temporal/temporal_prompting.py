"""Temporal image classification without labels: the next word of a report decoder.

BioViL-T section 4.2 and Appendix F.4: after "[FINDING] is" the decoder's posterior of the words of
Table F.3 is summed by class and normalised over the three classes; the likeliest class is the
answer. Scores and control are those of temporal classification.

Shapes: N pairs, B of a batch, C classes, W words.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch.nn.functional import one_hot

from cxrflow.benchmarks.inputs import Pixels, read_cohort, read_frames
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import Predictions
from cxrflow.benchmarks.temporal.image_pairs import ImagePairs
from cxrflow.benchmarks.temporal.settings import TemporalPromptingSettings
from cxrflow.benchmarks.temporal.temporal_classification import (
    OTHER_PRIOR,
    OWN_PRIOR,
    PAIR_COLUMNS,
    answer_column,
    statistic,
    usable,
)
from cxrflow.encoders.next_words import next_words
from cxrflow.encoders.report_decoder import FOLDER
from cxrflow.errors import InputError
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
    prior = pairs.prior if _sees_prior(model) else np.full(len(pairs), -1)
    batches = []
    for first in range(0, len(pairs), settings.batch_size):
        rows = slice(first, first + settings.batch_size)
        frames = read_frames(pixels, pairs.current[rows], prior[rows])
        patches_BMP = model.encode_image(frames).unnormalised_patches.flatten(1, 2)
        prefixes = [[*prompt, *begin] for prompt in prompts[rows]]
        words_BW = next_words(model.decoder, prefixes, words_W, patches_BMP)
        batches.append(words_BW.cpu() @ class_WC)
    class_NC = torch.cat(batches)
    return (class_NC / class_NC.sum(1, keepdim=True)).numpy()


def _sees_prior(model: Any) -> bool:
    return bool(model.takes_prior and model.decoder.settings.prior_image)


def predict(inputs: ModelInputs, settings: TemporalPromptingSettings) -> Predictions:
    """Classify every pair by the decoder's next word."""
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
    pixels = inputs.pixels
    samples, dropped = usable(inputs, pixels, settings.findings, [settings.split])
    tested = samples[settings.split].assign(**{PRIOR_REPORT: ""})
    if options.training is not None:
        reports = read_cohort(options.training, "pairs.parquet", ("study_id",)).table
        texts = prior_texts(tested, reports, model.decoder.settings.sections)
        tested[PRIOR_REPORT] = [text or "" for text in texts]
    tables, left_out = [], {}
    for finding in settings.findings:
        pairs = ImagePairs.of(tested[tested["finding"] == finding], pixels, cohort.classes)
        if len(set(pairs.labels.tolist())) < len(cohort.classes):
            left_out[finding] = "not every class has a test pair"
            continue
        answers: dict[str, Any] = {}
        for name, tests in ((OWN_PRIOR, pairs), (OTHER_PRIOR, pairs.other_priors())):
            class_NC = posterior(model, begins[finding], words, tests, pixels, settings)
            likeliest = [cohort.classes[place] for place in class_NC.argmax(1)]
            answers[answer_column(name, 0)] = likeliest
            if name == OWN_PRIOR:
                answers |= dict(zip(cohort.classes, class_NC.T, strict=True))
        tables.append(
            pairs.table[["sample_id", "subject_id", "finding", "label"]].assign(**answers)
        )
    if not tables:
        raise InputError(f"{inputs.source}: no finding is left: {left_out}")
    predictions = pd.concat(tables, ignore_index=True)
    return Predictions(
        predictions,
        statistic(predictions, settings),
        {
            "pictures": pixels.fingerprint,
            "pairs": len(predictions),
            "with_prior_report": int((tested[PRIOR_REPORT] != "").sum()),
            "left_out": left_out,
            "dropped": dropped,
        },
        {
            "geometry": str(pixels.geometry),
            "prior_image": _sees_prior(model),
            "prior_report": options.training is not None,
            "prompt": model.decoder.settings.model_dump(mode="json"),
            "score": "mean of the classes' recalls",
        },
    )
