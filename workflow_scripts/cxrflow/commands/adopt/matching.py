"""Which report belongs to which study, and when it was.

Reports are found by accession number, then study UID, then ids in names.

An accession number that two patients have says nothing alone: such a study is matched where the
table has the headers' patients, and otherwise left out. So is one of images of several days, as a
patient's number is. Of several reports of a study the last in the table counts, with the addenda
behind it.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from cxr_files.errors import InputError
from cxr_labels.label_sources import section_of
from cxrflow.commands.adopt.columns import Columns, Key, levels, plain, same
from cxrflow.commands.adopt.dates import NEAR, Order, numbers_of, order_of, read_dates
from cxrflow.commands.adopt.report_table import ReportTable

ALMOST = "patients whose ids differ in zeros or punctuation alone, and who count as several"
ALIKE = 0.5  # share of equal patients above which both sides number them in one way
PLAIN = "\0"  # stands before ids in their plain form, as in no id
ADDENDUM = re.compile(r"\s*addend", re.I)
HEADINGS = {"findings": "FINDINGS: ", "impression": "IMPRESSION: "}
OF_DAYS = "its id is that of examinations on several days, and the table does not say which"
OF_SEVERAL = "its id is that of several patients, and the table does not say which"
NOT_ITS = "the header of its study names another patient"
NO_IMAGE = "no image has its id"
ANOTHER = "its report is of another patient than the header's"


@dataclass
class Study:
    """A study of the export.

    Attributes:
        name: its accession number, else its UID, else what the names say.
        patient: of the header; of the report where there is none.
        date: the same; None if neither has one.
        images: places in the list of files.
        rows: of its reports, in the order of the table.
        text: of its report; None without one.
        no_report: why it has none.
    """

    name: str
    patient: str | None
    date: pd.Timestamp | None
    images: list[int]
    rows: list[Any] = field(default_factory=list)
    text: str | None = None
    no_report: str | None = None


@dataclass
class Matching:
    """Studies with their reports, and what has no counterpart.

    Attributes:
        studies: with a report or without.
        unmatched: places of images without a study or a patient, with the reason.
        unread: rows of reports that no study has, with the reason.
        counts: what else is to be known, by what is counted.
    """

    studies: list[Study] = field(default_factory=list)
    unmatched: dict[str, str] = field(default_factory=dict)
    unread: dict[Any, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def without_report(self) -> dict[tuple[str, str | None], str]:
        """Why studies have no report, by their names and patients."""
        return {
            (study.name, study.patient): study.no_report
            for study in self.studies
            if study.no_report is not None
        }

    @property
    def matched(self) -> list[Study]:
        """The studies with a report."""
        return [study for study in self.studies if study.text is not None]


def match(archive: pd.DataFrame, table: ReportTable, columns: Columns) -> Matching:
    """Find the reports of the studies of these images.

    Args:
        archive: files as :func:`.read_archive` lists them; studies name places in that list.
        table: the reports.
        columns: which of its columns is what.
    """
    matching = Matching()
    texts = _texts(table.rows, columns.text)
    for row in texts.index[texts.isna()]:
        matching.unread[row] = "report is blank"
    numbered = table.rows[columns.patient] if columns.patient else pd.Series(dtype="str")
    spelled = _first_spellings([archive["patient"], numbered])
    archive = archive.assign(patient=same(archive["patient"]).map(spelled).astype("str"))
    numbered = same(numbered).map(spelled).astype("str")
    files = archive[archive["aside"].isna()]
    paths = levels(archive["place"])
    names = paths.get(columns.level, pd.Series(index=archive.index, dtype="str"))
    studies = _studies(files, names, paths, columns)
    rows = {
        key: _rows_of(table.rows.loc[texts.notna(), column]) for key, column in columns.keys.items()
    }
    ids = {key: _both(names if key == "name" else files[key]) for key in rows}
    order = {row: place for place, row in enumerate(table.rows.index)}
    for study in studies:
        study.rows = sorted(_rows_for(study, ids, rows), key=order.__getitem__)
    _by_patients(studies, plain(same(numbered)).to_dict(), matching)
    _of_one_examination(studies, matching)
    studies = _together(studies)
    for study in studies:
        if study.rows:
            study.text = one_text(texts[study.rows])
            if columns.patient and (study.patient is None or columns.patient_named):
                numbers = numbered[study.rows].dropna().unique()
                study.patient = numbers[0] if len(numbers) == 1 else study.patient
        else:
            study.no_report = study.no_report or "no report has its id"
    _count(studies, matching, table, texts)
    aside = archive["aside"].notna()
    for key in rows:
        ids_aside = _both((names if key == "name" else archive[key])[aside])
        for form in {form for forms in ids_aside.values() for form in forms}:
            for row in rows[key].get(form, ()):
                if matching.unread.get(row) == NO_IMAGE:
                    matching.unread[row] = "its images are set aside"
    for study in (each for each in studies if each.patient is None):
        for place in files.loc[study.images, "place"]:
            matching.unmatched[place] = "patient not known"
    matching.studies = [study for study in studies if study.patient is not None]
    patients = pd.Series(list({study.patient for study in matching.studies}), dtype="str")
    if almost := int(plain(same(patients)).duplicated(keep=False).sum()):
        matching.counts[ALMOST] = almost
    return matching


def _first_spellings(numbers: Sequence[pd.Series]) -> dict[str, str]:
    """The first spelling of each patient's number, by the number as it is compared."""
    texts = pd.concat([each.dropna().str.strip() for each in numbers]).drop_duplicates()
    return dict(zip(same(texts)[::-1], texts[::-1], strict=True))


def require_matched(matching: Matching, table: ReportTable) -> None:
    """Refuse to go on without a study that has a patient and a report.

    Raises:
        InputError: it says why there is none.
    """
    if not matching.matched:
        reasons = {*matching.without_report.values(), *matching.unmatched.values()}
        advice = (
            "; expected PatientID in the headers, or --patient-column" if matching.unmatched else ""
        )
        raise InputError(f"{table.source}: no study has a report ({', '.join(reasons)}){advice}")


def _texts(rows: pd.DataFrame, columns: Sequence[str]) -> pd.Series:
    """The reports; a column of a section gets its heading."""
    sections = []
    for name in columns:
        heading = HEADINGS[section] if (section := section_of(name)) else ""
        text = rows[name].fillna("").str.strip()
        sections.append(text.where(text == "", heading + text))
    texts = sections[0]
    for section_text in sections[1:]:
        texts = (texts + "\n\n" + section_text).str.strip()
    return texts.where(texts != "")


def one_text(texts: Iterable[str]) -> str:
    """Return the last of a study's reports, with the addenda behind it."""
    distinct = list(dict.fromkeys(texts))
    reports = [text for text in distinct if not ADDENDUM.match(text)]
    return "\n\n".join([*reports[-1:], *(text for text in distinct if ADDENDUM.match(text))])


def _studies(
    files: pd.DataFrame, names: pd.Series, paths: pd.DataFrame, columns: Columns
) -> list[Study]:
    """The images by study: of one accession number or UID and one patient, else of one name."""
    by_header = files["accession"].fillna(files["study_uid"])
    patient = files["patient"]
    if columns.patient_level:
        patient = patient.fillna(paths[columns.patient_level])
    study_names = by_header.fillna(names).fillna(files["place"])
    groups: dict[tuple[str, str | None], list[int]] = defaultdict(list)
    numbers = patient.astype(object).where(patient.notna(), None)
    dates = files["date"].dropna().to_dict()
    for place, name, number in zip(files.index, study_names, numbers, strict=True):
        groups[name, number].append(place)
    return [
        Study(name, number, min((dates[n] for n in places if n in dates), default=None), places)
        for (name, number), places in groups.items()
    ]


def _both(ids: pd.Series) -> dict[int, tuple[str, str]]:
    """The id of each image as it is compared, and marked in its plain form.

    Of ids with one plain form, as 0012 and 12, each is but itself.
    """
    exact = same(ids).dropna()
    forms = plain(exact)
    alone = forms.map(exact.groupby(forms).nunique()) == 1
    marked = (PLAIN + forms).where(alone, exact)
    return dict(zip(exact.index, zip(exact, marked, strict=True), strict=True))


def _rows_of(ids: pd.Series) -> dict[str, list[Any]]:
    """Rows by their id, and by its marked plain form where only one id has that."""
    exact = same(ids).dropna()
    rows: dict[str, list[Any]] = defaultdict(list)
    for row, name in exact.items():
        rows[name].append(row)
    distinct = pd.Series(list(rows), dtype="str")
    forms = plain(distinct)
    single = ~forms.duplicated(keep=False) & (forms != "")
    for name, short in zip(distinct[single], forms[single], strict=True):
        rows[PLAIN + short] = rows[name]
    return rows


def _rows_for(
    study: Study,
    ids: dict[Key, dict[int, tuple[str, str]]],
    rows: dict[Key, dict[str, list[Any]]],
) -> set[Any]:
    """The reports of a study by the first key that finds any."""
    for key, by_id in rows.items():
        ids_of_images = [ids[key][place] for place in study.images if place in ids[key]]
        for names in zip(*ids_of_images, strict=True):
            matches = {row for name in set(names) for row in by_id.get(name, ())}
            if matches:
                return matches
    return set()


def _by_patients(studies: list[Study], patients: dict[Any, Any], matching: Matching) -> None:
    """Keep the reports of a study's own patient, where both sides number patients in one way."""
    patients = {row: number for row, number in patients.items() if pd.notna(number)}
    numbers = plain(same(pd.Series([study.patient for study in studies], dtype="str")))
    equal = unequal = 0
    for study, number in zip(studies, numbers, strict=True):
        if study.patient is not None:
            of_rows = [patients[row] == number for row in study.rows if row in patients]
            equal, unequal = equal + sum(of_rows), unequal + len(of_rows) - sum(of_rows)
    alike = equal > 0 and equal >= ALIKE * (equal + unequal)
    if equal + unequal:
        matching.counts["reports whose patient is that of the header"] = equal
        matching.counts["reports whose patient is another, or numbered in another way"] = unequal
    claims: dict[Any, set[str | None]] = defaultdict(set)
    for study, number in zip(studies, numbers, strict=True):
        if alike and study.patient is not None:
            remaining = [row for row in study.rows if patients.get(row, number) == number]
            if study.rows and not remaining:
                study.no_report = ANOTHER
                matching.unread |= dict.fromkeys(study.rows, NOT_ITS)
            study.rows = remaining
        for row in study.rows:
            claims[row].add(study.patient)
    for study in studies:
        if any(len(claims[row]) > 1 for row in study.rows):
            matching.unread |= dict.fromkeys(study.rows, OF_SEVERAL)
            study.no_report = OF_SEVERAL
            study.rows = []


def _of_one_examination(studies: list[Study], matching: Matching) -> None:
    """Leave out reports that studies of several days claim: their id is that of more than one."""
    days: dict[Any, list[pd.Timestamp]] = defaultdict(list)
    for study in studies:
        if study.date is not None:
            for row in study.rows:
                days[row].append(study.date)
    for study in studies:
        if any(days[row] and max(days[row]) - min(days[row]) > NEAR for row in study.rows):
            matching.unread |= dict.fromkeys(study.rows, OF_DAYS)
            study.no_report = OF_DAYS
            study.rows = []


def _together(studies: list[Study]) -> list[Study]:
    """Join studies of one patient that have the same reports, as two UIDs of one examination."""
    joined: dict[tuple[Any, ...], Study] = {}
    for study in studies:
        key = (study.patient, *study.rows) if study.rows else (study.patient, "name", study.name)
        first = joined.setdefault(key, study)
        if first is not study:
            first.images += study.images
            dates = [each for each in (first.date, study.date) if each is not None]
            first.date = min(dates, default=None)
    return list(joined.values())


def _count(studies: list[Study], matching: Matching, table: ReportTable, texts: pd.Series) -> None:
    """Count several reports of a study, and say which reports no study has."""
    several = [study for study in studies if len(study.rows) > 1]
    matching.counts["studies with several reports, of which the last counts"] = len(several)
    identical = sum(texts[study.rows].nunique() == 1 for study in several)
    matching.counts["of these with one text"] = identical
    rows_of_studies = {row for study in studies for row in study.rows}
    for row in table.rows.index:
        if row in rows_of_studies:  # of a study, though not of another of its number
            matching.unread.pop(row, None)
        else:
            matching.unread.setdefault(row, NO_IMAGE)


def date_studies(
    matching: Matching, table: ReportTable, columns: Columns, typed: Order | None
) -> Mapping[str, int]:
    """Fill in dates that headers lack from the table; return counts of where dates come from.

    Args:
        matching: its studies get their dates.
        table: the reports.
        columns: which of its columns is the date; what is odd about it is added to its reason.
        typed: the order of day and month that a person has named.

    Raises:
        InputError: dates of the table are needed, and nothing says which number is the day.
    """
    studies = matching.studies
    by_header = [study for study in studies if study.date is not None]
    counts = {"studies dated by their header": len(by_header)}
    without = [study for study in matching.matched if study.date is None]
    if columns.date is not None:
        texts = table.rows[columns.date]
        headers = pd.Series(
            {study.rows[-1]: study.date for study in by_header if study.rows},
            dtype="datetime64[us]",
        ).reindex(texts.index)
        order: Order | None = typed
        numbers = numbers_of(texts)
        if typed and numbers.mixed:
            columns.reasons["date"] += (
                f"; it has both 13/02/2019 and 02/13/2019: {numbers.either} such as 03/02/2019 "
                f"are read {typed} first"
            )
        try:
            order = typed or order_of(texts, headers, f"{table.source}: column '{columns.date}'")
        except InputError:
            if without:
                raise
            columns.reasons["date"] += (
                "; not read: nothing says which number is the day, and all headers have a date"
            )
        if order is not None:
            times = read_dates(texts, order)
            apart = (times - headers.dt.normalize()).abs() > NEAR
            counts[f"reports dated more than {NEAR.days} days from the header"] = int(apart.sum())
            named = 0
            for study in without:
                date = times[study.rows[-1]]
                study.date = None if pd.isna(date) else date
                named += study.date is not None
            counts["studies dated by the table"] = named
            unread = texts.fillna("").str.strip().ne("") & times.isna()
            counts["texts of the table that are no date"] = int(unread.sum())
    counts["studies without a date"] = sum(study.date is None for study in studies)
    return counts
