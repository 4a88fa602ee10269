"""Numbers and classes of progression labels by finding (BioViL-T Tables C.1 and F.2).

No model: the rows of a cohort are counted, by finding and in all. metrics.json has ``<name>/
<finding>`` and ``<name>/total``: ``pairs`` (labelled image pairs), ``subjects``, the class
distribution in per cent (``improving``, ``stable``, ``worsening``), and the labels' quality in per
cent of those that state it: ``one_expert``, ``multiple_experts``, and ``disagreement`` of a second,
blinded radiologist (Figure A.1).
"""

import logging
from argparse import Namespace

import pandas as pd

from cxrflow.benchmarks.data.settings import RowStatisticsSettings
from cxrflow.benchmarks.inputs import read_cohort
from cxrflow.benchmarks.result import Result, slug
from cxrflow.data.readers.common_tables import DIRECTIONS
from cxrflow.metrics.intervals import Estimate

log = logging.getLogger("cxrflow")

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


def score(options: Namespace, settings: RowStatisticsSettings) -> Result:
    columns = ("sample_id", "subject_id", "finding", "label", "quality", "split")
    cohort = read_cohort(options.cohort, "samples.parquet", columns, settings.split)
    metrics = count(cohort.table)
    log.info(
        "%d labels of %d patients", *(metrics[f"{n}/total"].value for n in ("pairs", "subjects"))
    )
    rows = cohort.table[list(columns)]
    protocol = settings.model_dump(mode="json")
    return Result("progression_statistics", cohort.data, protocol, metrics, rows)
