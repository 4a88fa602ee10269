"""Which column of a table of reports is what: by how much it has of the export, and by its name.

What is proposed is shown with its reason, and a person says yes to it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Literal

import pandas as pd

from cxr_files.csv_text import is_sentence, shown
from cxr_files.errors import InputError
from cxr_labels.label_sources import section_of
from cxrflow.commands.adopt.dates import are_dates
from cxrflow.commands.adopt.report_table import PARTS, ReportTable

Key = Literal["accession", "study_uid", "name"]
NAMES = {
    "study": re.compile(r"accession|acc\b|\bstudy|\bexam|order", re.I),
    "patient": re.compile(r"patient|\bpat\b|\bpid\b|\bmrn\b|subject|person", re.I),
    "date": re.compile(r"date|datum|\bday\b|performed", re.I),
    "text": re.compile(r"report|text|befund|narrative|dictation", re.I),
}
# Of several dates that of the examination; nobody is examined on the day of birth.
OF_EXAMINATION = re.compile(r"stud|exam|perform|acqui|image|scan", re.I)
OF_BIRTH = re.compile(r"birth|dob|born|death|geburt", re.I)
NO_NUMBER = re.compile(r"name|birth|sex|age\b|class|location", re.I)  # of a patient
FEWEST_WORDS = 4  # of a column of reports, in the middle
LEAST_DATES = 0.8  # share of a column's values
# Of the ids of a column or of the export, whichever are fewer: less may be chance.
LEAST_IDS, LEAST_PATIENTS = 0.1, 0.5
SUFFIXES = (".dcm", ".dicom", ".png", ".jpg", ".jpeg")  # other dots are part of a name
OF_FLOAT = re.compile(r"^(\d+)\.0$")
NUMBERED = re.compile(r"[_\s.-]+\d{1,4}$")  # s101_2 is the second image of s101


@dataclass
class Columns:
    """What is read from a table of reports, and why.

    Attributes:
        keys: by what studies are found, in the order in which they are tried, each with its column.
        level: what of an image's path is held against the column of ``keys["name"]``.
        text: the columns of the text, one or one a section.
        patient_named: a person has named that column, which then counts before the headers.
        patient_level: what of an image's path the patient is, where neither header nor table say.
        reasons: in words, by what is proposed.
    """

    keys: dict[Key, str] = field(default_factory=dict)
    level: str | None = None
    text: tuple[str, ...] = ()
    patient: str | None = None
    patient_named: bool = False
    patient_level: str | None = None
    date: str | None = None
    reasons: dict[str, str] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """A line a column, for the preview."""
        for key, column in self.keys.items():
            yield f"study    '{shown(column)}': {self.reasons[key]}"
        for kind in ("patient", "date"):
            column = getattr(self, kind)
            named = f"'{shown(column)}': " if column else ""
            yield f"{kind:8} {named}{self.reasons[kind]}"
        yield f"text     {', '.join(repr(shown(n)) for n in self.text)}: {self.reasons['text']}"


def compared(name: str) -> str:
    """Return an id as it is compared: without blanks, case and the ``.0`` of a spreadsheet."""
    return OF_FLOAT.sub(r"\1", name.strip()).casefold()


def same(ids: pd.Series) -> pd.Series:
    """Return ids as they are compared."""
    return ids.map(compared, na_action="ignore").astype("str")


def plain(ids: pd.Series) -> pd.Series:
    """Return ids without leading zeros and punctuation, which spreadsheets and exports change."""
    return ids.str.replace(r"[\W_]+", "", regex=True).str.replace(r"^0+(?=.)", "", regex=True)


def levels(places: pd.Series) -> pd.DataFrame:
    """What the paths of images say, by level: the file's name, its parts, the folders around it."""
    rows = []
    for place in map(PurePosixPath, places):
        stem = place.stem if place.suffix.lower() in SUFFIXES else place.name
        row = {"file name": stem, "file name without its number": NUMBERED.sub("", stem)}
        pieces = [piece for piece in PARTS.split(stem) if piece]
        row |= {f"file name, part {n}": piece for n, piece in enumerate(pieces, start=1)}
        for n, folder in enumerate(reversed(place.parent.parts), start=1):
            row["folder" if n == 1 else f"folder {n} levels up"] = folder
        rows.append(row)
    return pd.DataFrame(rows, index=places.index, dtype="str")


def propose(table: ReportTable, images: pd.DataFrame, chosen: Mapping[str, str | None]) -> Columns:
    """Propose columns for a table of reports beside these images.

    Args:
        table: the reports.
        images: ``place``, ``patient``, ``accession``, ``study_uid``, ``date`` of each radiograph.
        chosen: columns that a person has named, as ``study``, ``patient``, ``date``, ``text``.

    Raises:
        InputError: a named column is not there, or no column has the ids or the text.
    """
    for role, name in chosen.items():
        if name is not None and name not in table.rows:
            raise InputError(f"{table.source}: no column '{name}' ({role}); found {table.columns}")
    columns = Columns()
    _text(columns, table, chosen.get("text"))
    remaining = table.rows.drop(columns=list(columns.text))
    _keys(columns, table, remaining, images, chosen.get("study"))
    _patient(columns, remaining, images, chosen.get("patient"))
    assigned = {*columns.keys.values(), columns.patient}
    _date(
        columns, remaining[[name for name in remaining if name not in assigned]], chosen.get("date")
    )
    return columns


def _text(columns: Columns, table: ReportTable, column: str | None) -> None:
    words = {
        str(name): table.rows[name].fillna("").str.count(r"\S+").median() for name in table.rows
    }
    if column is not None:
        columns.text, columns.reasons["text"] = (column,), "named by --text-column"
        return
    if sentences := [name for name in words if is_sentence(name)]:
        raise InputError(
            f"{table.source}: its first row holds {shown(sentences[0])}; expected a header with "
            "the names of the columns, or --text-column"
        )
    of_section = {section_of(name): name for name in words if section_of(name)}
    sections = [of_section[name] for name in ("findings", "impression") if name in of_section]
    long = [n for n, count in words.items() if count >= FEWEST_WORDS and n not in sections]
    whole = [name for name in long if NAMES["text"].search(name)] or ([] if sections else long)
    if whole:
        best = max(whole, key=lambda name: words[name])
        columns.text = (best,)
        columns.reasons["text"] = f"{words[best]:.0f} words in the middle"
    elif sections:
        columns.text = tuple(sections)
        columns.reasons["text"] = "a column a section, by their names"
    else:
        raise InputError(
            f"{table.source}: no column holds reports, of {FEWEST_WORDS} words or more; found "
            f"{table.columns}; name it with --text-column"
        )


def _keys(
    columns: Columns,
    table: ReportTable,
    remaining: pd.DataFrame,
    images: pd.DataFrame,
    column: str | None,
) -> None:
    """The columns by which reports are found, each the one that has most of the export's ids."""
    candidates = remaining if column is None else table.rows[[column]]
    ids = {str(name): same(candidates[name]) for name in candidates}
    header_keys: tuple[tuple[Key, str], ...] = (
        ("accession", "accession numbers"), ("study_uid", "study UIDs")
    )  # fmt: skip
    for key, words in header_keys:
        counts = _counts(ids, same(images[key]), LEAST_IDS)
        best = _best(counts, "study")
        if best:
            columns.keys[key] = best
            columns.reasons[key] = (
                f"{counts[best]:,} of {ids[best].nunique():,} are {words} of the export"
            )
    known = pd.Series(False, index=images.index)
    for key, name in columns.keys.items():
        known |= plain(same(images[key])).isin(plain(ids[name].dropna()))
    rest = images[~known]  # of whose headers no id is found
    of_level = {
        (str(level), name): count
        for level, values in levels(rest["place"]).items()
        for name, count in _counts(ids, same(values), LEAST_IDS).items()
    }
    best_pair = max(of_level, key=lambda pair: of_level[pair], default=None)
    if best_pair:
        columns.level, columns.keys["name"] = best_pair
        columns.reasons["name"] = (
            f"{of_level[best_pair]:,} are in the paths of {len(rest):,} images ({best_pair[0]})"
        )
    if not columns.keys:
        raise InputError(_nothing_alike(table, candidates, images))


def _counts(ids: Mapping[str, pd.Series], targets: pd.Series, least: float) -> dict[str, int]:
    """How many of the wanted ids each column has that has more than chance would give."""
    distinct, counts = set(plain(targets.dropna())), {}
    for name, values in ids.items():
        values_of_column = set(plain(values.dropna()))
        common = len(values_of_column & distinct)
        if common and common >= least * min(len(values_of_column), len(distinct)):
            counts[name] = common
    return counts


def _best(counts: Mapping[str, int], role: str) -> str | None:
    """The column with most ids; by its name among equals."""
    return max(
        counts, key=lambda name: (counts[name], bool(NAMES[role].search(name))), default=None
    )


def _nothing_alike(table: ReportTable, candidates: pd.DataFrame, images: pd.DataFrame) -> str:
    """Say what the ids of both sides look like, digits as 9 and letters as A."""
    of_table = [f"'{name}' {form(candidates[name])}" for name in candidates]
    of_export = [
        f"{words} {form(values)}"
        for words, values in (
            ("accession numbers", images["accession"]),
            ("study UIDs", images["study_uid"]),
            ("names", levels(images["place"])["file name"]),
        )
        if values.notna().any()
    ]
    return (
        f"{table.source}: no column has an accession number, a study UID or a name of the export; "
        f"found {', '.join(of_table[:8])} (digits as 9, letters as A), and in the export "
        f"{', '.join(of_export)}; name the column with --study-column"
    )


def form(ids: pd.Series) -> str:
    """Return the commonest form of ids, which says nothing of one: ``AA9999``; long ones cut."""
    forms = ids.dropna().str.slice(0, 24).str.replace(r"\d", "9", regex=True)
    forms = forms.str.replace(r"[^\W\d_]", "A", regex=True)
    return "blank" if forms.empty else str(forms.mode().iloc[0])


def _patient(
    columns: Columns, remaining: pd.DataFrame, images: pd.DataFrame, column: str | None
) -> None:
    """The column of patients: named so, or with the numbers of the headers."""
    if column is not None:
        columns.patient, columns.patient_named = column, True
        columns.reasons["patient"] = "named by --patient-column, before the headers"
        return
    free = [str(name) for name in remaining if name not in columns.keys.values()]
    ids = {name: same(remaining[name]) for name in free}
    counts = _counts(ids, same(images["patient"]), LEAST_PATIENTS)
    best = _best(counts, "patient")
    by_name = [name for name in free if NAMES["patient"].search(name)]
    by_name = [name for name in by_name if not NO_NUMBER.search(name)]
    if best:
        columns.patient = best
        columns.reasons["patient"] = f"{counts[best]:,} are patients of the export's headers"
    elif by_name:
        columns.patient, columns.reasons["patient"] = by_name[0], "by its name"
    else:
        has_number = images["patient"].notna()
        columns.reasons["patient"] = (
            f"by the headers of {has_number.sum():,} of {len(has_number):,} images"
        )
        if not has_number.all():
            columns.patient_level = _shared_level(ids, levels(images.loc[~has_number, "place"]))
            if columns.patient_level:
                columns.reasons["patient"] = f"by the paths of images ({columns.patient_level})"


def _shared_level(ids: Mapping[str, pd.Series], paths: pd.DataFrame) -> str | None:
    """The folders of images that reports lie in as well, where a folder has several of both."""
    for level in (name for name in paths if str(name).startswith("folder")):
        folders = same(paths[level]).dropna()
        for values in ids.values():
            if values.nunique() < len(values) and set(values.dropna()) & set(folders):
                return str(level)
    return None


def _date(columns: Columns, remaining: pd.DataFrame, column: str | None) -> None:
    if column is not None:
        columns.date, columns.reasons["date"] = column, "named by --date-column"
        return
    shares = {
        str(name): are_dates(remaining[name])
        for name in remaining
        if not OF_BIRTH.search(str(name))
    }
    called = [name for name in shares if NAMES["date"].search(name)]
    unread = "".join(
        f"; '{shown(name)}' is none: {shares[name]:.0%} of it are dates in a form that is read "
        f"(expected {LEAST_DATES:.0%}, or --date-column)"
        for name in sorted(called, key=lambda name: -shares[name])[:1]
    )
    ranked = sorted(
        (name for name, share in shares.items() if share >= LEAST_DATES),
        key=lambda n: (bool(OF_EXAMINATION.search(n)), bool(NAMES["date"].search(n)), shares[n]),
        reverse=True,
    )
    columns.date = next(iter(ranked), None)
    columns.reasons["date"] = (
        f"{shares[ranked[0]]:.0%} are dates" if ranked else f"the table has none{unread}"
    )
