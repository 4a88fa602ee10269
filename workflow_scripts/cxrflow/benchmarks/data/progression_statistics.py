"""How many labels of progression there are, of which kind and of whom (BioViL-T C.1, F.2).

No model: the rows of a cohort are counted, by finding and in all. metrics.json holds ``<name>/
<finding>`` and ``<name>/total``: ``pairs`` (labelled image pairs), ``subjects``, the class
distribution in per cent (``improving``, ``stable``, ``worsening``), and how sure the labels are,
in per cent of those that say so (``one_expert``, ``multiple_experts``, ``disagreement``: where a
second radiologist, blinded, saw it otherwise; Figure A.1).
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
    """All metrics; ``n`` is the number of labels behind one."""
    groups = {slug(str(name)): group for name, group in rows.groupby("finding")}
    metrics: dict[str, Estimate] = {}
    for name, group in {**groups, TOTAL: rows}.items():
        found = {"pairs": float(len(group)), "subjects": float(group["subject_id"].nunique())}
        for kind in DIRECTIONS:
            found[kind] = 100 * float((group["label"] == kind).mean())
        told = group.loc[group["quality"].isin(QUALITY), "quality"]
        for kind in QUALITY:
            found[kind] = 100 * float((told == kind).mean()) if len(told) else float("nan")
        for key, value in found.items():
            size = len(told) if key in QUALITY else len(group)
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
