"""Numbers and classes of progression labels by finding (BioViL-T Tables C.1 and F.2).

No model: the rows of a cohort are counted, by finding and in all. metrics.json has ``<name>/
<finding>`` and ``<name>/total``: ``pairs`` (labelled image pairs), ``subjects``, the class
distribution in per cent (``improving``, ``stable``, ``worsening``), and the labels' quality in per
cent of those that state it: ``one_expert``, ``multiple_experts``, and ``disagreement`` of a second,
blinded radiologist (Figure A.1).
"""

import pandas as pd

from cxrflow.benchmarks.data.settings import RowStatisticsSettings
from cxrflow.benchmarks.inputs import Inputs
from cxrflow.benchmarks.result import Predictions, slug
from cxrflow.data.readers.common_tables import DIRECTIONS
from cxrflow.metrics.intervals import Estimate

COLUMNS = ("sample_id", "subject_id", "finding", "label", "quality", "split")
QUALITY = ("one_expert", "multiple_experts", "disagreement")
TOTAL = "total"


def count(rows: pd.DataFrame) -> dict[str, Estimate]:
    """Return all metrics; ``n`` is the number of labels."""
    groups = {slug(str(name)): group for name, group in rows.groupby("finding")}
    metrics: dict[str, Estimate] = {}
    for name, group in {**groups, TOTAL: rows}.items():
        values = {"pairs": float(len(group)), "subjects": float(group["subject_id"].nunique())}
        for kind in DIRECTIONS:
            values[kind] = 100 * float((group["label"] == kind).mean())
        quality = group.loc[group["quality"].isin(QUALITY), "quality"]
        for kind in QUALITY:
            values[kind] = 100 * float((quality == kind).mean()) if len(quality) else float("nan")
        for key, value in values.items():
            size = len(quality) if key in QUALITY else len(group)
            metrics[f"{key}/{name}"] = Estimate.counted(value, size)
    return metrics


def predict(inputs: Inputs, settings: RowStatisticsSettings) -> Predictions:
    """Count the labels of the split."""
    rows = inputs.rows(settings.split)
    return Predictions(rows[list(COLUMNS)], estimates=count(rows))
