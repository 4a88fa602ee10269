"""Numbers of a cohort's rows, which no model is needed for: they are counted, by part and in all.

metrics.json has ``<name>/<part>`` and ``<name>/total``; ``n`` is the number of a part's rows.
"""

from collections.abc import Mapping

import pandas as pd

from cxrflow.benchmarks.data.settings import RowStatisticsSettings
from cxrflow.benchmarks.inputs import Inputs
from cxrflow.benchmarks.language.sentence_pair_rows import PAIR_COLUMNS
from cxrflow.benchmarks.result import Predictions, slug
from cxrflow.data.cohorts.settings import SPLITS
from cxrflow.data.readers.common_tables import DIRECTIONS
from cxrflow.metrics.intervals import Estimate

TOTAL = "total"
QUALITY = ("one_expert", "multiple_experts", "disagreement")


def parts_by(rows: pd.DataFrame, column: str) -> dict[str, pd.DataFrame]:
    """The rows of each value of a column, if there is one, and all of them."""
    groups = rows.groupby(column) if column in rows else ()
    return {**{slug(str(name)): group for name, group in groups}, TOTAL: rows}


def counted(values: Mapping[str, float], part: str, n: int) -> dict[str, Estimate]:
    """The metrics of one part."""
    return {f"{name}/{part}": Estimate.counted(value, n) for name, value in values.items()}


class PairRows:
    """``pairs`` and ``subjects`` by part of the split (Windsor et al. 2023, Table 1).

    A study whose patient is unknown counts as a patient of its own.
    """

    COLUMNS = ("subject_id", "study_id", "split")

    @staticmethod
    def predict(inputs: Inputs, settings: RowStatisticsSettings) -> Predictions:
        """Count the pairs of the split."""
        rows = inputs.rows(settings.split)
        patients = rows["subject_id"].fillna(rows["study_id"])
        metrics: dict[str, Estimate] = {}
        for part in (TOTAL, *SPLITS):
            inside = rows["split"].notna() if part == TOTAL else rows["split"] == part
            pairs = int(inside.sum())
            values = {"pairs": pairs, "subjects": patients[inside].nunique()}
            metrics |= counted(values, part, pairs)
        table = rows[[*PairRows.COLUMNS]].assign(sample_id=rows["study_id"])
        return Predictions(table, estimates=metrics)


class ProgressionRows:
    """Progression labels by finding (BioViL-T Tables C.1 and F.2).

    ``pairs`` (labelled image pairs), ``subjects``, the class distribution in per cent
    (``improving``, ``stable``, ``worsening``), and the labels' quality in per cent of those that
    state it: ``one_expert``, ``multiple_experts``, and ``disagreement`` of a second, blinded
    radiologist (Figure A.1).
    """

    COLUMNS = ("sample_id", "subject_id", "finding", "label", "quality", "split")

    @staticmethod
    def predict(inputs: Inputs, settings: RowStatisticsSettings) -> Predictions:
        """Count the labels of the split."""
        rows = inputs.rows(settings.split)
        metrics: dict[str, Estimate] = {}
        for name, part in parts_by(rows, "finding").items():
            values = {"pairs": float(len(part)), "subjects": float(part["subject_id"].nunique())}
            values |= {way: 100 * float((part["label"] == way).mean()) for way in DIRECTIONS}
            metrics |= counted(values, name, len(part))
            stated = part.loc[part["quality"].isin(QUALITY), "quality"]
            shares = {kind: 100 * float((stated == kind).mean()) for kind in QUALITY}
            metrics |= counted(shares, name, len(stated))
        return Predictions(rows[[*ProgressionRows.COLUMNS]], estimates=metrics)


class SentencePairRows:
    """Sentence pairs of each label, and ``all``, by the publisher's subset (BioViL-T Table C.2)."""

    COLUMNS = PAIR_COLUMNS

    @staticmethod
    def predict(inputs: Inputs, settings: RowStatisticsSettings) -> Predictions:
        """Count the pairs of the split."""
        rows = inputs.rows(settings.split)
        metrics: dict[str, Estimate] = {}
        for name, part in parts_by(rows, "subset").items():
            values = {
                label: int((part["label"] == label).sum()) for label in rows["label"].unique()
            }
            metrics |= counted({**values, "all": len(part)}, name, len(part))
        return Predictions(rows[["sample_id", "label"]], estimates=metrics)
