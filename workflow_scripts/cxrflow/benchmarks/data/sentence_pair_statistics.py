"""Numbers of sentence pairs by label and subset (BioViL-T Table C.2).

No model: the rows of a cohort are counted, by the publisher's subsets and in all. metrics.json has
``<label>/<subset>``, ``all/<subset>`` and the same for ``total``.
"""

import logging
from argparse import Namespace

import pandas as pd

from cxrflow.benchmarks.data.settings import RowStatisticsSettings
from cxrflow.benchmarks.inputs import read_cohort
from cxrflow.benchmarks.language.sentence_pair_rows import PAIR_COLUMNS
from cxrflow.benchmarks.result import Result, slug
from cxrflow.metrics.intervals import Estimate

log = logging.getLogger("cxrflow")

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


def score(options: Namespace, settings: RowStatisticsSettings) -> Result:
    cohort = read_cohort(options.cohort, "samples.parquet", PAIR_COLUMNS, settings.split)
    metrics = count(cohort.table)
    log.info("%d pairs of sentences", len(cohort.table))
    rows = cohort.table[["sample_id", "label"]]
    protocol = settings.model_dump(mode="json")
    return Result("sentence_pair_statistics", cohort.data, protocol, metrics, rows)
