"""Zero-shot classification of findings that the studies' own reports name: no labels are needed.

A report's findings are those that the labeller reads in it (docs/labels.md); its errors are in the
scores. Images and prompts are scored as in :mod:`.zero_shot_classification`.
"""

from dataclasses import replace
from itertools import chain
from typing import Any

import pandas as pd

from cxrflow.benchmarks.classification import zero_shot_classification
from cxrflow.benchmarks.classification.settings import ZeroShotFindingsSettings
from cxrflow.benchmarks.features import Features
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import Predictions
from cxrflow.benchmarks.study_images import STUDY, encode_studies, usable_studies
from cxrflow.reports.labels.labeller import make_labeller
from cxrflow.reports.labels.observations import OBSERVATIONS
from cxrflow.text.sentences import sentences_of

COLUMNS = STUDY


def labelled(table: pd.DataFrame, settings: ZeroShotFindingsSettings) -> pd.DataFrame:
    """Return the studies with their reports' labels: of each observation 1, 0, -1 or NaN."""
    sections = (sentences_of(table, name) for name in settings.sections)
    sentences = [list(chain(*report)) for report in zip(*sections, strict=True)]
    labels = [list(row) for row in make_labeller(settings.labels).label(sentences)]
    return table.assign(
        labels=pd.Series(labels, index=table.index), group_id=table["study_id"], subgroup=None
    )


def label_studies(inputs: ModelInputs, settings: ZeroShotFindingsSettings) -> list[dict[str, Any]]:
    """Make the labelled studies the cohort, and return what was left out."""
    rows = inputs.rows(settings.split)
    studies = usable_studies(rows, inputs.pixels, settings.sections)
    table = labelled(studies.table, settings)
    inputs.cohort = replace(inputs.cohort, table=table, classes=OBSERVATIONS)
    return studies.dropped


def predict(inputs: ModelInputs, settings: ZeroShotFindingsSettings) -> Predictions:
    """Score the studies' images for the prompts of each observation."""
    model, pixels = inputs.model, inputs.pixels
    dropped = label_studies(inputs, settings)
    table = inputs.cohort.table
    by_kind = encode_studies(model, pixels, table, settings.batch_size)
    inputs.features = Features(
        table[["image_id"]], by_kind, str(pixels.geometry), pixels.fingerprint
    )
    predictions = zero_shot_classification.predict(inputs, settings)
    return replace(
        predictions,
        data={**predictions.data, "dropped": [*dropped, *predictions.data["dropped"]]},
        protocol={**predictions.protocol, "reference": "labels of the studies' own reports"},
    )
