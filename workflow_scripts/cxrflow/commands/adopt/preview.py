"""What a person sees before anything is written: counts, the columns, and some pairs.

Pairs, of which headers and first words are shown, are for the person's own terminal, and with
their pictures for a page that the person asks for.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from cxrflow.commands.adopt.columns import Columns
from cxrflow.commands.adopt.matching import Matching
from cxrflow.commands.adopt.report_table import ReportTable
from cxrflow.commands.audit.page import thumbnail
from cxrflow.commands.templates import rendered
from cxrflow.images.decoded import DecodeError

PAIRS = 10
WORDS, CHARACTERS = 12, 70  # of a report
SIDE = 320  # pixels of the longer side of a picture


def preview(
    files: pd.DataFrame, table: ReportTable, columns: Columns, matching: Matching
) -> Iterator[str]:
    """What was found and what is proposed; no id and no text."""
    kept = files["aside"].isna()
    yield f"{len(files):,} files, {int(kept.sum()):,} of them frontal radiographs"
    for reason, count in files.loc[~kept, "aside"].value_counts().items():
        yield f"  set aside {count:,}: {reason}"
    unknown = int(files.loc[kept, "view"].isna().sum())
    if unknown:
        yield f"  {unknown:,} do not say how they were taken, and count as frontal"
    yield f"{len(table.rows):,} reports: {table.kind}"
    for drop in table.dropped:
        yield f"  set aside {drop.count:,}: {drop.reason}"
    yield from (f"  {line}" for line in columns.lines())
    patients = {study.patient for study in matching.studies}
    yield (
        f"{len(matching.matched):,} of {len(matching.studies):,} studies of {len(patients):,} "
        "patients have a report"
    )
    for side, reasons in (
        ("studies", matching.without_report),
        ("reports", matching.unread),
        ("images", matching.unmatched),
    ):
        for reason, count in pd.Series(list(reasons.values()), dtype="str").value_counts().items():
            yield f"  {count:,} {side}: {reason}"
    yield from (f"  {count:,} {what}" for what, count in matching.counts.items() if count)


class Pair(NamedTuple):
    """A study and its report as a person compares them."""

    place: str  # of its first image, below the export
    header: list[str]  # of the image: study, patient, day, view
    beside: list[str]  # the same of the table's row
    text: str


def some_pairs(
    files: pd.DataFrame, table: ReportTable, columns: Columns, matching: Matching
) -> Iterator[Pair]:
    """Up to ten pairs, evenly among all."""
    matched = matching.matched
    for study in matched[:: max(1, len(matched) // PAIRS)][:PAIRS]:
        day = "no date" if study.date is None else f"{study.date:%Y-%m-%d}"
        row = table.rows.loc[study.rows[-1]]
        first = files.loc[study.images[0]]
        header = [study.name, study.patient, day, _known(first["view"]) or "view not known"]
        named = dict.fromkeys([*columns.keys.values(), columns.patient, columns.date])
        beside = [_known(row[name]) or "blank" for name in named if name]
        yield Pair(str(first["place"]), list(map(str, header)), beside, study.text or "")


def lines_of(pair: Pair, with_text: bool) -> Iterator[str]:
    """A pair for a terminal: the header's ids and date, the table's, the text's first words."""
    yield shown(f"image   {'  '.join(pair.header)}  {pair.place}")
    yield shown(f"report  {'  '.join(pair.beside)}")
    if with_text and pair.text:
        yield f"        {shown(' '.join(pair.text.split()[:WORDS]))[:CHARACTERS]}"


def pairs_page(export: Path, chosen: Sequence[Pair], with_text: bool) -> str:
    """A self-contained page of pairs with their pictures, for the person's own browser alone."""
    compared = [(pair, *_picture(export / pair.place)) for pair in chosen]
    values = {"compared": compared, "with_text": with_text}
    return rendered("pairs.html.jinja", "cxrflow.commands.adopt", **values)


def _picture(path: Path) -> tuple[str, str]:
    """The source of a picture, or why there is none."""
    try:
        return thumbnail(path, SIDE), ""
    except DecodeError as error:
        return "", str(error)


def _known(value: object) -> str | None:
    return value if isinstance(value, str) else None


def shown(text: str) -> str:
    """Return a text as any terminal can show it: no control characters."""
    return "".join(mark if mark.isprintable() else " " for mark in text)
