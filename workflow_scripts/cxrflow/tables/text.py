"""A table as CSV (for programs), Markdown and HTML (for people), all from the same cells.

Ours and the published values are separate lines of a row, so that they cannot be taken for each
other. The difference is only printed where our data are real: on synthetic data it means nothing.
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from typing import Any

import jinja2

from cxrflow.benchmarks.settings import LEAST_SEEDS
from cxrflow.files import atomic_path
from cxrflow.papers.tables import Column, Table
from cxrflow.tables.cells import Cell
from cxrflow.tables.results import NOT_IN_HEADLINE, Results
from cxrflow.tables.tests import CORRECTED, MARK, Tested, Tests

CSV_COLUMNS = (
    "row", "column", "ours", "ours_sd", "low", "high", "seeds", "published", "published_sd",
    "reason",
)  # fmt: skip
TEST_COLUMNS = {
    "difference": "value", "difference_low": "low", "difference_high": "high", "p": "p",
    "p_holm": "p_holm",
}  # fmt: skip
MINUS = "−"
APART = "What has learnt nothing"


def number(value: float, column: Column, sign: bool = False) -> str:
    """A number of ours with the column's decimals and a true minus sign."""
    text = f"{value:{'+' if sign else ''}.{column.digits}f}"
    return text.replace("-", MINUS)


def csv_text(header: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    """A CSV of these lines; empty where there is nothing."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    for values in lines:
        writer.writerow(
            ["" if v is None else format(v, ".6g") if isinstance(v, float) else v for v in values]
        )
    return buffer.getvalue()


def table_csv(cells: Sequence[Cell]) -> str:
    """One line a cell."""
    return csv_text(
        (*CSV_COLUMNS, *TEST_COLUMNS, "at_chance"),
        (
            [getattr(cell, name) for name in CSV_COLUMNS]
            + [getattr(cell.tested, name, None) for name in TEST_COLUMNS.values()]
            + [cell.at_chance if cell.seeds else None]
            for cell in cells
        ),
    )


def write_texts(prefix: str, texts: Mapping[str, str]) -> None:
    """Write ``prefix`` with each extension, all files or none."""
    with ExitStack() as files:
        for extension, text in texts.items():
            path = files.enter_context(atomic_path(f"{prefix}{extension}"))
            path.write_text(text, encoding="utf-8")


def ours_text(cell: Cell, column: Column) -> dict[str, str]:
    """The parts of our value: ``value``, ``spread``, ``interval`` …; empty when absent."""
    if cell.ours is None:
        return {}
    if isinstance(cell.ours, str):
        return {"value": cell.ours}
    parts = {"value": number(cell.ours, column)}
    if cell.ours_sd is not None:
        parts["spread"] = number(cell.ours_sd, column)
    if cell.low is not None and cell.high is not None:
        parts["interval"] = f"{number(cell.low, column)} to {number(cell.high, column)}"
    if cell.tested is not None and cell.tested.value is not None:
        parts["tested"] = test_text(cell.tested, column)
        parts["mark"] = cell.tested.mark
    if cell.at_chance:
        parts["chance"] = chance_text(cell)
    return parts


def chance_text(cell: Cell) -> str:
    """The badge of a model that did not learn, in all or some of its trainings; else nothing."""
    if not cell.at_chance:
        return ""
    few = f" in {cell.at_chance} of {cell.seeds} seeds" if cell.at_chance < cell.seeds else ""
    return f"at chance{few}"


def seeds_text(count: int) -> str:
    """So many seeds, in words."""
    return "one seed" if count == 1 else f"{count} seeds"


def test_text(tested: Tested, column: Column) -> str:
    """The difference to the reference row in words, for whoever points at a value."""
    text = f"{number(tested.value or 0.0, column, sign=True)} against {tested.reference}"
    if tested.low is not None and tested.high is not None:
        ends = (number(end, column, sign=True) for end in (tested.low, tested.high))
        text += f" ({' to '.join(ends)})"
    if tested.p is None or tested.p_holm is None:
        return f"{text}, {seeds_text(tested.seeds)}: not tested"
    return f"{text}, p = {tested.p:.2g}, corrected {tested.p_holm:.2g}"


def published_text(cell: Cell) -> str:
    """The published value as printed in the paper."""
    if cell.published is None:
        return ""
    value = cell.published.replace("-", MINUS) if cell.difference is not None else cell.published
    return f"{value} ± {cell.published_sd}" if cell.published_sd else value


def note_on_data(results: Results) -> str:
    """Which data our values were measured on."""
    if not results.runs:
        return "None of our models was run for this table."
    names = ", ".join(results.datasets)
    if results.synthetic:
        return (
            f"Our values were measured on synthetic data ({names}); the published ones on real "
            "data. They show that the method works, not how it compares with the paper."
        )
    return f"Our values were measured on real data ({names})."


def note_on_spread(cells: list[Cell]) -> str:
    """What the numbers around our values are, in the words of this table."""
    shown = [cell for cell in cells if isinstance(cell.ours, float)]
    seeds = sorted({cell.seeds for cell in shown if cell.seeds})
    if not seeds:
        return ""
    count = str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    if seeds == [1]:
        return (
            "Ours: one training seed; in small print the 95 % bootstrap interval over test "
            "samples, for this training: another seed may give another value."
        )
    over = sorted({cell.over for cell in shown if cell.seeds > 1}, reverse=True)
    return (
        f"Ours: mean of {count} training seeds, ± their standard deviation; in small print the "
        f"95 % interval over {' or '.join(over)} (of one seed: over samples, for that training)."
    )


def note_on_chance(cells: Sequence[Cell]) -> str:
    """What it means that a model stands at chance."""
    if not any(cell.at_chance for cell in cells):
        return ""
    return (
        "“At chance”: the validation loss of this model's training is that of guessing, or nearly. "
        "It did not learn; its value says nothing of the method, and no order is taken from it."
    )


def note_on_tests(cells: Sequence[Cell], tests: Tests) -> list[str]:
    """What the marks mean, and what could not be tested."""
    found = [(cell, cell.tested) for cell in cells if cell.tested is not None]
    tested = [one for _, one in found if one.value is not None]
    notes = []
    if tested:
        names = {one.reference for one in tested}
        reference = f"“{names.pop()}”" if len(names) == 1 else "its reference row"
        judged = [one for one in tested if one.p is not None]
        marked = sum(bool(one.mark) for one in judged)
        marks = (
            f"{MARK} differs from {reference}, p < {tests.alpha:g} (two-sided, over training seeds "
            f"and test samples, both paired); {CORRECTED} also after Holm's correction for "
            f"{tests.corrected_for} comparisons, which p itself is not corrected for. "
            f"{marked or 'None'} of {len(judged)} {'is' if marked == 1 else 'are'} marked. "
        )
        few = (
            f"With fewer than {LEAST_SEEDS} training seeds of both rows nothing is tested or "
            "marked. "
        )
        notes.append(
            (marks if judged else "")
            + (few if len(judged) < len(tested) else "")
            + f"Point at a value for its difference to {reference}."
        )
    reasons: dict[str, dict[str, None]] = {}
    for cell, one in found:
        if one.reason is not None and cell.ours is not None:
            reasons.setdefault(one.reason, {})[cell.row] = None
    notes += [f"Not tested: {'; '.join(rows)}: {why}." for why, rows in reasons.items()]
    return notes


def _lines(table: Table, cells: list[Cell], results: Results) -> list[dict]:
    """What both renderings print: a line for ours and one for the published values of each row."""
    by_place: Mapping[tuple[str, str], Cell] = {(cell.row, cell.column): cell for cell in cells}
    lines = []
    for row in sorted(table.rows, key=lambda row: row.apart):
        own = [by_place[row.label, column.key] for column in table.columns]
        ours = []
        for cell, column in zip(own, table.columns, strict=True):
            parts = ours_text(cell, column)
            if cell.difference is not None and not results.synthetic:
                parts["difference"] = number(cell.difference, column, sign=True)
            if cell.reason:  # the command that makes it stands in a note
                parts["reason"] = cell.reason.partition("; `")[0]
            ours.append(parts)
        reasons = {parts.get("reason") for parts in ours if parts}
        reason = reasons.pop() if len(reasons) == 1 else None
        lines.append(
            {
                "label": row.label,
                "apart": row.apart,
                "ours": ours,
                "published": [published_text(cell) for cell in own],
                "reason": reason,  # of the whole row: printed once, across it
                "left_out": reason == NOT_IN_HEADLINE,
            }
        )
    return lines


def table_markdown(
    table: Table, cells: list[Cell], results: Results, tests: Tests | None = None
) -> str:
    """A GitHub table with two lines a row, then the notes."""
    heads = ["", "", *(column.label for column in table.columns)]
    text = [f"**{table.title}**", "", markdown_row(heads), markdown_row(["---"] * len(heads))]
    apart = False
    for line in _lines(table, cells, results):
        ours = []
        for parts in line["ours"]:
            shown = parts.get("value", "–") + parts.get("mark", "")
            shown += f" ± {parts['spread']}" if "spread" in parts else ""
            shown += f" ({parts['interval']})" if "interval" in parts else ""
            shown += f" Δ {parts['difference']}" if "difference" in parts else ""
            shown += f" [{parts['chance']}]" if "chance" in parts else ""
            ours.append(shown)
        published = [value or "–" for value in line["published"]]
        if line["apart"] and not apart:
            text.append(markdown_row([f"*{APART}*", *[""] * (len(heads) - 1)]))
        apart = line["apart"]
        text.append(markdown_row([line["label"], "ours", *ours]))
        if not apart:
            text.append(markdown_row(["", "published", *published]))
    notes = [*_notes(table, cells, results, tests), *_reasons(table, cells)]
    return "\n".join([*text, "", *(f"- {note}" for note in notes)]) + "\n"


def markdown_row(values: list[str]) -> str:
    """One line of a GitHub table."""
    return "| " + " | ".join(value.replace("|", "\\|") for value in values) + " |"


def _notes(table: Table, cells: list[Cell], results: Results, tests: Tests | None) -> list[str]:
    notes = [note_on_data(results), note_on_spread(cells)]
    notes += [note_on_chance(cells), *note_on_tests(cells, tests or Tests())]
    notes.append(f"Published: {table.source}")
    return [note for note in [*notes, *table.notes] if note]


def _reasons(table: Table, cells: list[Cell]) -> list[str]:
    """Why ours are missing; columns are named where it is not the whole row."""
    found: dict[str, dict[str, list[str]]] = {}
    labels = {column.key: column.label for column in table.columns}
    for cell in cells:
        if cell.reason:
            rows = found.setdefault(cell.reason, {})
            rows.setdefault(cell.row, []).append(labels[cell.column])
    notes = []
    for reason, rows in found.items():
        places = [
            row if len(columns) == len(labels) else f"{row} ({', '.join(columns)})"
            for row, columns in rows.items()
        ]
        notes.append(f"No value of ours for {'; '.join(places)}: {reason}.")
    return notes


@cache
def template(name: str) -> jinja2.Template:
    """A fragment of a page, by the name of its file beside this one."""
    loader = jinja2.PackageLoader("cxrflow.tables", "")
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(name)


def in_ascii(html: str) -> str:
    """Reads right however it is opened."""
    return html.encode("ascii", "xmlcharrefreplace").decode("ascii")


def table_html(
    name: str,
    table: Table,
    cells: list[Cell],
    results: Results,
    tests: Tests | None = None,
) -> str:
    """A self-contained fragment; ASCII only, so that it reads right however it is opened."""
    left_out = {c.reason for c in cells if c.reason and c.reason.startswith(NOT_IN_HEADLINE)}
    html = template("table.html.jinja").render(
        id=name,
        table=table,
        lines=_lines(table, cells, results),
        apart=APART,
        notes=_notes(table, cells, results, tests) + [f"In grey: {why}." for why in left_out],
        synthetic=bool(results.runs) and results.synthetic,
    )
    return in_ascii(html)
