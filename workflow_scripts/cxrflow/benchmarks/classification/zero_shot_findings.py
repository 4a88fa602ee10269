"""Zero-shot classification of findings on pairs of images and reports.

The labels of a study are what the labeller reads in its report (docs/labels.md). So no label table
is needed, but the labeller's errors are in the scores. Or they are those of the cohort's label
table. Images and prompts are scored as in :mod:`.zero_shot_classification`.
"""

from dataclasses import replace
from itertools import chain
from types import SimpleNamespace
from typing import Any

import pandas as pd

from cxr_files.errors import InputError
from cxr_labels.labeller import make_labeller
from cxr_labels.observations import OBSERVATIONS
from cxrflow.benchmarks.classification import zero_shot_classification
from cxrflow.benchmarks.classification.probe_settings import FoldProbeSettings
from cxrflow.benchmarks.classification.settings import ZeroShotFindingsSettings
from cxrflow.benchmarks.features import Features
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import Predictions
from cxrflow.benchmarks.study_images import STUDY, encode_studies, usable_studies
from cxrflow.text.sentences import sentences_of

COLUMNS = STUDY

LabelledReports = ZeroShotFindingsSettings | FoldProbeSettings


def read_in_reports(table: pd.DataFrame, settings: LabelledReports) -> pd.Series:
    """Return the labels of the studies' reports: 1, 0, -1 or NaN for each observation."""
    sections = (sentences_of(table, name) for name in settings.sections)
    sentences = [list(chain(*report)) for report in zip(*sections, strict=True)]
    labels = [list(row) for row in make_labeller(settings.labels).label(sentences)]
    return pd.Series(labels, index=table.index)


def label_studies(inputs: ModelInputs, settings: LabelledReports) -> list[dict[str, Any]]:
    """Make the labelled studies the cohort, and return what was left out."""
    splits = settings.parts if isinstance(settings, ZeroShotFindingsSettings) else [settings.split]
    rows = pd.concat([inputs.rows(split) for split in splits], ignore_index=True)
    studies = usable_studies(rows, inputs.pixels, settings.sections)
    table = studies.table.assign(group_id=studies.table["study_id"], subgroup=None)
    if settings.label_source == "reports":
        table = table.assign(labels=read_in_reports(table, settings))
        inputs.cohort = replace(inputs.cohort, table=table, classes=OBSERVATIONS)
        return studies.dropped
    if "labels" not in table:
        raise InputError(
            f"{inputs.source}: column 'labels' is missing; expected it, as a cohort with "
            "`labels: published` has it, or `label_source: reports`"
        )
    inputs.cohort = replace(inputs.cohort, table=table)
    return studies.dropped


def compared_globally(model: Any) -> Any:
    """The model as it compares whole images with whole texts."""
    names = ("encode_image", "encode_texts", "takes_prior")
    similarity = model.similarity.whole
    return SimpleNamespace(similarity=similarity, **{name: getattr(model, name) for name in names})


def source_words(settings: LabelledReports) -> str:
    """Return whose labels are taken for the truth, in words for the protocol."""
    if settings.label_source == "reports":
        return "labels of the studies' own reports"
    return "labels of the cohort"


def predict(inputs: ModelInputs, settings: ZeroShotFindingsSettings) -> Predictions:
    """Score the studies' images for the prompts of each observation."""
    inputs.load()
    pixels = inputs.pixels
    if inputs.row is None and settings.matching == "global":
        inputs.model = compared_globally(inputs.model)
    dropped = label_studies(inputs, settings)
    if inputs.row is None:
        table = inputs.cohort.table
        by_kind = encode_studies(inputs.model, pixels, table, settings.batch_size)
        inputs.features = Features(
            table[["image_id"]], by_kind, str(pixels.geometry), pixels.fingerprint
        )
    predictions = zero_shot_classification.predict(inputs, settings)
    return replace(
        predictions,
        data={**predictions.data, "dropped": [*dropped, *predictions.data["dropped"]]},
        protocol={**predictions.protocol, "reference": source_words(settings)},
    )
