"""What a cohort is once built, before it is written."""

from dataclasses import dataclass, field
from typing import Any

import pandas as pd


@dataclass(frozen=True)
class Cohort:
    """Attributes:
    rows: ``pairs.parquet`` or ``samples.parquet``.
    images: ``image_id``, ``image_path`` of all images its pixel store needs.
    split: split by patient (index: patient, or study or sample where patients are not known).
    unit: what a row is: studies, images or samples.
    documents: ``document_id``, ``text``, ``split`` of pair cohorts.
    extra: further entries of ``flow.json``.
    """

    rows: pd.DataFrame
    images: pd.DataFrame
    split: pd.Series
    unit: str
    documents: pd.DataFrame | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def split_sizes(self) -> dict[str, dict[str, int]]:
        """Rows by split, patients and images where rows have them; with_prior in pair cohorts."""
        sizes = {}
        for name, part in self.rows.groupby("split"):
            sizes[str(name)] = {self.unit: len(part)}
            named = {"patients": "subject_id", "studies": "study_id", "images": "image_id"}
            for unit, column in named.items():
                if column in part:
                    sizes[str(name)][unit] = int(part[column].nunique())
            if "prior_study_id" in part:
                sizes[str(name)]["with_prior"] = int(part["prior_study_id"].notna().sum())
        return sizes
