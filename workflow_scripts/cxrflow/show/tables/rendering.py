"""A table as CSV (for programs), Markdown and HTML (for people), all from the same cells.

Ours and the published values are separate lines of a row, so that they cannot be taken for each
other. The difference is only printed where our data are real: on synthetic data it means nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from cxrflow.papers.table import Row, Table
from cxrflow.show.tables.ceilings import notes_on_ceilings
from cxrflow.show.tables.cells import COUNTS, Cell
from cxrflow.show.tables.notes import differences, lacking, notes_below_chance, reasons, table_notes
from cxrflow.show.tables.results import NOT_IN_HEADLINE, Results
from cxrflow.show.tables.tests import Tests
from cxrflow.show.tables.text import (
    csv_text,
    in_ascii,
    markdown_heads,
    markdown_row,
    number,
    one_line,
    ours_text,
    published_text,
    template,
)

CSV_COLUMNS = (
    "row", "column", "ours", "ours_sd", "low", "high", "seeds", "published", "published_sd",
    "reason",
)  # fmt: skip
TEST_COLUMNS = {
    "difference": "value", "difference_low": "low", "difference_high": "high", "p": "p",
    "p_holm": "p_holm",
}  # fmt: skip
EXTERNAL, FLOORS = "Run elsewhere, scored here", "Baselines without learning"
CEILINGS = "Ceilings: what must succeed"
# Widths in em of a wide font: of a character (BOLD times as wide in values of ours), of a column's
# padding, of the words "ours" and "published". A table that has not the room is stacked.
CHARACTER, BOLD, PADDING, SOURCE = 0.5, 1.3, 0.95, 6.5
IN_LINE = ("value", "spread", "interval")
# The least width of rows' labels beside the values, and that of a table on a desktop.
LABEL, DESKTOP = 12.0, 66.0


def table_csv(cells: Sequence[Cell]) -> str:
    """One line a cell."""
    return csv_text(
        (*CSV_COLUMNS, *TEST_COLUMNS, "unlearnt", *COUNTS, "to_find"),
        (
            [getattr(cell, name) for name in CSV_COLUMNS]
            + [getattr(cell.tested, name, None) for name in TEST_COLUMNS.values()]
            + [cell.unlearnt if cell.seeds else None]
            + [cell.counts.get(side) for side in COUNTS]
            + ["; ".join(f"{name} {count}" for name, count in cell.to_find.items()) or None]
            for cell in cells
        ),
    )


def _value(texts: Mapping[str, str]) -> str | None:
    return texts.get("value")


def _section(row: Row) -> str:
    """The heading that a row stands under; empty of a paper's own."""
    if row.is_reference:
        return CEILINGS if row.ceiling else FLOORS
    return EXTERNAL if row.is_external else ""


def _lines(table: Table, cells: Sequence[Cell], results: Results) -> list[dict[str, Any]]:
    """The content of both renderings: our values and the published ones of each row."""
    by_place: Mapping[tuple[str, str], Cell] = {(cell.row, cell.column): cell for cell in cells}
    lines = []
    for row in sorted(table.rows, key=lambda r: (r.is_reference, r.ceiling, r.is_external)):
        row_cells = [by_place[row.label, column.key] for column in table.columns]
        ours = []
        for cell, column in zip(row_cells, table.columns, strict=True):
            texts = ours_text(cell, column)
            if cell.difference is not None and not results.synthetic:
                texts["difference"] = number(cell.difference, column, sign=True)
            if cell.reason:  # the command that makes it stands below
                texts["reason"] = cell.reason.partition("; `")[0]
            ours.append(texts)
        row_reasons = {texts.get("reason") for texts in ours if texts}
        reason = next(iter(row_reasons)) if len(row_reasons) == 1 else None
        lines.append(
            {
                "label": row.label + lacking(table, row, results),
                "section": _section(row),
                "source": "scored" if row.is_external else "ours",
                "ours": ours,
                "published": [published_text(cell) for cell in row_cells],
                "reason": reason,  # of the whole row: printed once, beside its name
                "left_out": NOT_IN_HEADLINE in row_reasons and not any(map(_value, ours)),
            }
        )
    return lines


def table_markdown(
    table: Table, cells: Sequence[Cell], results: Results, tests: Tests | None = None
) -> str:
    """A GitHub table with two lines a row, then the notes."""
    heads = ["", "", *(column.label for column in table.columns)]
    text = [f"**{' '.join(table.title.split())}**", "", *markdown_heads(heads)]
    section = ""
    for line in _lines(table, cells, results):
        if line["section"] != section:
            section = line["section"]
            text.append(markdown_row([f"*{section}*", *[""] * (len(heads) - 1)]))
        text.append(markdown_row([line["label"], line["source"], *map(one_line, line["ours"])]))
        if any(line["published"]):
            text.append(
                markdown_row(["", "published", *(value or "–" for value in line["published"])])
            )
    notes = [*table_notes(table, cells, results, tests), *reasons(table, cells)]
    text += ["", *(f"- {note}" for note in notes)]
    for heading, rows in differences(table, cells).items():
        text += [
            "",
            f"{heading}:",
            "",
            *(f"- {row}: {difference}" for row, difference in rows.items()),
        ]
    return "\n".join(text) + "\n"


def _width(table: Table, lines: Sequence[Mapping[str, Any]], in_line: bool = False) -> float:
    """The width in em at which the table shows all its columns beside each other.

    ``in_line``: intervals stand behind their values, not below.
    """
    width = SOURCE
    for place, column in enumerate(table.columns):
        sizes: list[float] = [len(word) for word in column.label.split()]
        for line in lines:
            texts = line["ours"][place]
            sizes += [len(line["published"][place]), BOLD * len(texts.get("value", ""))]
            sizes += [len(f"± {texts['spread']}")] if "spread" in texts else []
            if in_line:
                sizes.append(len(" ".join(texts.get(key, "") for key in IN_LINE)))
            reason = "" if line["reason"] else texts.get("reason", "")
            sizes += map(len, reason.replace(NOT_IN_HEADLINE, "").split())
        width += CHARACTER * max(sizes) + PADDING
    return width


def _layout(table: Table, lines: Sequence[Mapping[str, Any]]) -> tuple[float, str]:
    """The width in em below which a table is stacked, and what stands beside what above it."""
    for in_line, name in ((True, "labels-beside intervals-beside"), (False, "labels-beside")):
        width = LABEL + _width(table, lines, in_line)
        if width <= DESKTOP:
            return round(width, 1), name
    return round(_width(table, lines), 1), ""


def table_html(
    name: str,
    table: Table,
    cells: Sequence[Cell],
    results: Results,
    tests: Tests | None = None,
) -> str:
    """A self-contained fragment; ASCII only, so that it reads right however it is opened."""
    left_out = (c.reason for c in cells if c.reason and c.reason.startswith(NOT_IN_HEADLINE))
    lines = _lines(table, cells, results)
    command = next(left_out, "").partition("`")[2].partition("`")[0]
    width, layout = _layout(table, lines)
    warnings = [*notes_below_chance(table, cells), *notes_on_ceilings(table, cells, results)]
    notes = table_notes(table, cells, results, tests)
    html = template("table.html.jinja").render(
        id=name,
        table=table,
        lines=[line for line in lines if not line["left_out"]],
        left_out=[line for line in lines if line["left_out"]],
        command=command,
        elsewhere=NOT_IN_HEADLINE,
        width=width,
        layout=layout,
        warnings=warnings,
        notes=[note for note in notes if note not in warnings],
        differences=differences(table, cells),
        synthetic=bool(results.runs) and results.synthetic,
    )
    return in_ascii(html)
