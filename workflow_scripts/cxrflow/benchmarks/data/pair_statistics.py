"""Numbers of patients and of pairs by part of the split (Windsor et al. 2023, Table 1).

No model is needed: the rows of a cohort of pairs are counted. metrics.json has ``pairs/<part>`` and
``subjects/<part>``, for each part and for the ``total``. A study whose patient is unknown counts as
a patient of its own.
"""

import pandas as pd

from cxrflow.benchmarks.data.settings import RowStatisticsSettings
from cxrflow.benchmarks.inputs import Inputs
from cxrflow.benchmarks.result import Predictions
from cxrflow.data.cohorts.settings import SPLITS
from cxrflow.metrics.intervals import Estimate

COLUMNS = ("subject_id", "study_id", "split")
TOTAL = "total"


def count(rows: pd.DataFrame) -> dict[str, Estimate]:
    """Return all metrics; ``n`` is the number of pairs."""
    patients = rows["subject_id"].fillna(rows["study_id"])
    masks = {TOTAL: rows["split"].notna(), **{split: rows["split"] == split for split in SPLITS}}
    metrics = {}
    for name, inside in masks.items():
        pairs = int(inside.sum())
        metrics[f"pairs/{name}"] = Estimate.counted(pairs, pairs)
        metrics[f"subjects/{name}"] = Estimate.counted(patients[inside].nunique(), pairs)
    return metrics


def predict(inputs: Inputs, settings: RowStatisticsSettings) -> Predictions:
    """Count the pairs of the split."""
    rows = inputs.rows(settings.split)
    table = rows[[*COLUMNS]].assign(sample_id=rows["study_id"])
    return Predictions(table, estimates=count(rows))
