"""A cohort once built, and its account: what each filter kept and dropped, and why."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from cxr_files.atomic import CHECKSUMS, file_digest, fingerprint, write_checksums, write_json
from cxr_files.drops import Drop, Tally
from cxrflow.data.readers.common_tables import without

Unit = Literal["studies", "images", "patients", "samples", "boxes", "labels"]


class Flow:
    """The steps, checks and notes of ``flow.json``, in order."""

    def __init__(self, source: Path, max_failed_share: float) -> None:
        self.source = source
        self.max_failed_share = max_failed_share
        self.steps: list[dict[str, Any]] = []
        self.checks: list[dict[str, Any]] = []
        self.notes: list[str] = []

    def step(self, name: str, unit: Unit, remaining: int, dropped: Iterable[Drop] = ()) -> None:
        """Record a filter.

        Raises:
            InputError: damage (``Drop.failed``) is above the allowed share of what came in.
        """
        tally = Tally(name, unit, int(remaining), dropped)
        self.steps.append(tally.as_json())
        tally.require_few(self.source, self.max_failed_share)

    def keep(
        self,
        name: str,
        unit: Unit,
        rows: pd.DataFrame,
        names: pd.Series,
        tests: Mapping[str, pd.Series],
        failed: bool = False,
    ) -> pd.DataFrame:
        """Record a filter and return the rows that pass it.

        Takes the arguments of :func:`~cxrflow.data.readers.common_tables.without`.
        """
        remaining_rows, drops = without(rows, names, tests, failed)
        self.step(name, unit, len(remaining_rows), drops)
        return remaining_rows

    def check(self, name: str, detail: str) -> None:
        """Record a check that passed. A check that fails raises where it is done."""
        self.checks.append({"name": name, "passed": True, "detail": detail})


def counts(names: pd.Series) -> dict[str, int]:
    """Count each name, leaving out missing ones; sorted by name."""
    return {str(name): int(count) for name, count in names.value_counts().sort_index().items()}


def label_counts(rows: pd.DataFrame, classes: Sequence[str]) -> dict[str, int]:
    """Count the rows by ``split/class/label``; a label is 1, 0, -1 or unknown."""
    labels = pd.DataFrame(rows["labels"].tolist(), columns=list(classes), index=rows.index)
    # NaN is not equal to itself and could not be counted as a value.
    words = labels.map(lambda value: "unknown" if np.isnan(value) else f"{value:g}")
    return counts(pd.concat([rows["split"] + f"/{name}/" + words[name] for name in classes]))


@dataclass(frozen=True)
class CohortTables:
    """A cohort in memory, as it will be written.

    Attributes:
        rows: ``pairs.parquet`` or ``samples.parquet``.
        images: ``image_id``, ``image_path`` of all images its pixel store needs.
        split: split by patient (index: patient, or study or sample where patients are not known).
        unit: what a row is: studies, images or samples.
        documents: ``document_id``, ``text``, ``split`` of pair cohorts.
        queries: ``query_id``, ``category``, ``text`` of retrieval cohorts.
        extra: further entries of ``flow.json``.
    """

    rows: pd.DataFrame
    images: pd.DataFrame
    split: pd.Series
    unit: str
    documents: pd.DataFrame | None = None
    queries: pd.DataFrame | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def split_sizes(self) -> dict[str, dict[str, int]]:
        """Count rows by split, and patients, studies and images where rows have them.

        Pair cohorts also count the rows ``with_prior``.
        """
        sizes = {}
        for name, rows in self.rows.groupby("split"):
            sizes[str(name)] = {self.unit: len(rows)}
            columns = {"patients": "subject_id", "studies": "study_id", "images": "image_id"}
            for unit, column in columns.items():
                if column in rows:
                    sizes[str(name)][unit] = int(rows[column].nunique())
            if "prior_study_id" in rows:
                sizes[str(name)]["with_prior"] = int(rows["prior_study_id"].notna().sum())
        return sizes


def rewrite_flow(folder: Path, flow: Mapping[str, Any]) -> None:
    """Write the flow of a cohort whose files have changed, its fingerprint and its sums anew."""
    unnamed = ("flow.json", CHECKSUMS)
    files = sorted(path for path in folder.iterdir() if path.name not in unnamed)
    digests = {path.name: file_digest(path) for path in files}
    write_json(folder / "flow.json", {**flow, "fingerprint": fingerprint(digests)})
    write_checksums(folder)
