"""What lies in a folder of the layout `hospital`, as the trainings will find it.

The readers are those of the workflow: `cxrflow config check` says before a run what its cohorts
will count, and `cxrflow adopt` says the same of the folder that it has written.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import pandas as pd

from cxr_files.csv_table import read_csv, require_file
from cxr_files.drops import EXAMPLES, Drop
from cxr_files.errors import InputError
from cxr_files.progress import rows_in_chunks
from cxr_labels.parsing import ReportParser
from cxr_labels.settings import ReportSettings
from cxrflow.commands.adopt.dates import numbers_of
from cxrflow.data.cohorts.filters import frontal
from cxrflow.data.cohorts.priors import find_priors
from cxrflow.data.cohorts.settings import CohortSettings
from cxrflow.data.layouts import layout
from cxrflow.data.readers.common_tables import Request, Tables, among
from cxrflow.data.readers.hospital import LISTS
from cxrflow.reports.texts import Reference, list_reports, open_reader

NAME = "hospital"
SECTIONS = ("findings", "impression")
CHUNK = 500


@dataclass(frozen=True)
class Contents:
    """A folder's studies, images and reports.

    Attributes:
        tables: of its reader.
        reports: ``study_id``, ``outcome`` (which sections it has, or why none can be read),
            ``findings`` and ``impression`` (whether there is one).
    """

    tables: Tables
    reports: pd.DataFrame

    @cached_property
    def images(self) -> pd.DataFrame:
        """The images of studies that are listed and of files that are not empty."""
        images = self.tables.images
        return images[
            among(images["study_id"], self.tables.studies["study_id"]) & images["failure"].isna()
        ]

    def of_cohort(self, require: Sequence[str], views: Sequence[str] | None) -> pd.DataFrame:
        """The studies that have an image in one of the views, a report and the required sections.

        Returns ``study_id`` and ``reason`` (why it has no prior; null where it has one).
        """
        pictured, _ = frontal(self.images, views)
        candidates = self.tables.studies
        candidates = candidates[among(candidates["study_id"], pictured["study_id"])]
        text = self.reports[list(SECTIONS)]
        fits = {"text": text.any(axis=1), **{name: text[name] for name in SECTIONS}}
        reports = self.reports[text.any(axis=1)]
        for name in require:
            reports = reports[fits.get(name, fits["text"])[reports.index]]
        priors = find_priors(candidates)
        return priors.loc[among(priors["study_id"], reports["study_id"]), ["study_id", "reason"]]

    def lines(self, examples: bool = True) -> Iterator[str]:
        """What is there, in a few lines; ``examples``: of ids as well."""
        studies, images = self.tables.studies, self.tables.images
        yield (
            f"{len(studies):,} studies of {studies['subject_id'].nunique():,} patients, "
            f"{len(images):,} images, {len(self.reports):,} reports"
        )
        counts = Counter(self.reports["outcome"])
        said = (f"{outcome} {count:,}" for outcome, count in counts.most_common())
        yield f"sections: {', '.join(said)}"
        dated = int(studies["order"].notna().sum())
        yield f"dates: {dated:,} of {len(studies):,} studies have one"
        if examples:
            yield from self.tables.notes
        for drop in self.without_counterpart():
            if drop.count:
                named = f" (e.g. {', '.join(drop.examples[:2])})" if examples else ""
                yield f"{drop.reason}: {drop.count:,}{named}"

    def without_counterpart(self) -> list[Drop]:
        """Studies without a report or an image, and what belongs to no study of the list."""
        studies, images = self.tables.studies["study_id"], self.tables.images["study_id"]
        reports = self.reports["study_id"]
        damage = [drop for drops in self.tables.dropped.values() for drop in drops]
        return [
            Drop.of("studies without a report", studies[~among(studies, reports)]),
            Drop.of("studies without an image", studies[~among(studies, images)]),
            Drop.of("reports of studies that are not listed", reports[~among(reports, studies)]),
            Drop.of("images of studies that are not listed", images[~among(images, studies)]),
            *damage,
        ]


def read_contents(root: Path, settings: ReportSettings, threads: int = 1) -> Contents:
    """Read the list, the names of the images, and the sections of all reports.

    Raises:
        InputError: a list or folder is not there or has other columns; see the readers.
    """
    tables = layout(NAME).read(root, Request(headers=False))
    references = list_reports(NAME, root).references
    read = partial(_sections_of, root, settings.of_layout(NAME))
    rows = rows_in_chunks(read, references, CHUNK, threads, "report")
    return Contents(tables, pd.DataFrame(rows, columns=["study_id", "outcome", *SECTIONS]))


def _sections_of(
    root: Path, settings: ReportSettings, references: Sequence[Reference]
) -> list[tuple[str, str, bool, bool]]:
    """Read reports, and say of each its outcome and which sections it has."""
    reader, parser = open_reader(NAME, root), ReportParser(settings, NAME, root)
    rows = []
    for reference in references:
        parsed = parser.parse(reader.read(reference))
        sections = parsed.content.sections if parsed.content and not parsed.failure else {}
        outcome = parsed.failure or (parsed.content.outcome if parsed.content else "")
        findings, impression = (bool(sections.get(name)) for name in SECTIONS)
        rows.append((reference.study_id, outcome, findings, impression))
    return rows


def require_dates(root: Path, model: str) -> None:
    """Refuse a list whose dates cannot put studies in order.

    Args:
        root: of the folder.
        model: that compares a study with the one before, named in errors.

    Raises:
        InputError: there is no column, or it holds what is no date.
    """
    path = require_file(root, *LISTS["studies"])
    rows, _ = read_csv(path, {"study_id": "id"}, {"date": "text"})
    texts = rows["date"].str.strip().replace("", None)
    expected = "expected 2026-01-31 or 2026-01-31T12:30, or a blank where there is none"
    if texts.isna().all():
        raise InputError(
            f"{path}: no study has a date (column 'date'), and {model} compares a study with the "
            f"one before it; {expected}"
        )
    unread = (
        texts.notna() & pd.to_datetime(texts, format="ISO8601", errors="coerce", utc=True).isna()
    )  # as the reader reads them
    if unread.any():
        numbers = numbers_of(texts[unread])
        mixed = (
            f", {numbers.day} as 13/02/2019 beside {numbers.month} as 02/13/2019"
            if numbers.mixed
            else ""
        )
        names = ", ".join(rows.loc[unread, "study_id"].head(EXAMPLES))
        raise InputError(
            f"{path}: column 'date' of {int(unread.sum())} of {len(rows)} studies is no date{mixed}"
            f" (studies {names}), and {model} compares a study with the one before it; {expected}; "
            "`cxrflow adopt` writes them so"
        )


def account(
    root: Path,
    settings: ReportSettings,
    cohorts: Mapping[str, CohortSettings],
    compares: str | None,
) -> Iterator[str]:
    """Say what a folder holds and what each cohort will have of it.

    Args:
        root: of the folder.
        settings: how its reports are read.
        cohorts: those of the run that are read from it, of kind pairs.
        compares: a model of the run that needs the study before.

    Raises:
        InputError: the folder is of another form, or its dates do not do.
    """
    contents = read_contents(root, settings)
    if compares is not None:
        require_dates(root, compares)
    yield from contents.lines()
    for name, cohort in cohorts.items():
        rows = contents.of_cohort(cohort.require, cohort.views)
        wanted = " and ".join(cohort.require) or "text"
        yield (
            f"{name}: {len(rows):,} studies have {wanted}; "
            f"{int(rows['reason'].isna().sum()):,} of them have a prior"
        )
