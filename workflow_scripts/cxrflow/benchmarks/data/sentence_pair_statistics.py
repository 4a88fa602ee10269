"""Numbers of sentence pairs by label and subset (BioViL-T Table C.2).

No model: the rows of a cohort are counted, by the publisher's subsets and in all. metrics.json has
``<label>/<subset>``, ``all/<subset>`` and the same for ``total``.
"""

import pandas as pd

from cxrflow.benchmarks.data.settings import RowStatisticsSettings
from cxrflow.benchmarks.inputs import Inputs
from cxrflow.benchmarks.language.sentence_pair_rows import PAIR_COLUMNS
from cxrflow.benchmarks.result import Predictions, slug
from cxrflow.metrics.intervals import Estimate

COLUMNS = PAIR_COLUMNS
TOTAL, ALL = "total", "all"


def count(rows: pd.DataFrame) -> dict[str, Estimate]:
    """Return all metrics; subsets are counted if the rows have the column."""
    groups = {TOTAL: rows}
    if "subset" in rows:
        groups |= {slug(str(name)): group for name, group in rows.groupby("subset")}
    metrics = {}
    for name, group in groups.items():
        numbers = {label: int((group["label"] == label).sum()) for label in rows["label"].unique()}
        for key, number in {**numbers, ALL: len(group)}.items():
            metrics[f"{key}/{name}"] = Estimate.counted(number, len(group))
    return metrics


def predict(inputs: Inputs, settings: RowStatisticsSettings) -> Predictions:
    """Count the pairs of the split."""
    rows = inputs.rows(settings.split)
    return Predictions(rows[["sample_id", "label"]], estimates=count(rows))
