"""Make the certificate of released weights: published cells, measured without training, judged.

A cell stands in it if its paper prints a value, and all results that fill it are in ``--metrics``.
``RULE`` is the rule of the verdicts.
"""

import logging
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cxr_files.program import parser, run
from cxrflow.papers import Paper, load_paper
from cxrflow.papers.table import TableCell
from cxrflow.show.tables.cells import REHEARSED, Cell, make_cell
from cxrflow.show.tables.notes import note_on_data
from cxrflow.show.tables.results import Results, read_results
from cxrflow.show.tables.text import (
    csv_text,
    displayed,
    in_ascii,
    markdown_heads,
    markdown_row,
    number,
    one_line,
    ours_text,
    published_text,
    split_title,
    template,
    write_texts,
)

log = logging.getLogger("cxrflow")

EQUAL, SPREAD, INTERVAL = "equal", "within the printed spread", "within our interval"
UNEQUAL, UNMEASURED = "not equal", "not measured"
ROUNDING = 1e-9  # of floating point
RULE = (
    "The rule. Equal: ours rounds to the digits that the paper prints. Within the printed spread: "
    "where the paper prints one, ours is no further than that from the published value. Within our "
    "interval: where it prints none, the published value lies in the interval of ours over "
    "samples, which of few samples is wide. Both limits are widened by half a unit of the last "
    "printed digit. Anything else is not equal, by ours less published."
)
HEADS = ("Row, column", "Published", "Ours", "n", "Verdict", "File")
COLUMNS = (
    *("paper", "table", "row", "column", "published", "published_sd", "ours", "low", "high", "n"),
    *("difference", "verdict", "task", "model", "command"),
)


@dataclass(frozen=True)
class Certified:
    """A published cell with its verdict; ``runs``: the metrics.json that fill it."""

    paper: str
    name: str  # of the table
    spot: TableCell
    cell: Cell
    verdict: str
    runs: Sequence[Mapping[str, Any]]

    @property
    def n(self) -> int | None:
        """How many samples it is of; None of a mean of columns."""
        return self.runs[0]["metrics"].get(self.spot.metric, {}).get("n")

    def of_runs(self, field: str) -> str:
        """A field of the results behind it, each value once."""
        return " ".join(dict.fromkeys(str(run[field]) for run in self.runs))

    @property
    def difference(self) -> float | None:
        """Ours less published, in the column's unit; None where one of them is no number."""
        printed, ours = _printed(self.cell.published), self.cell.ours
        return None if printed is None or not isinstance(ours, float) else ours - printed[0]

    @property
    def said(self) -> str:
        """The verdict; what is not measured with the reason, what is not equal with by how much."""
        if self.verdict == UNMEASURED:
            return f"{UNMEASURED}: {self.cell.reason or self.cell.ours}"
        printed, difference = _printed(self.cell.published), self.difference
        if self.verdict != UNEQUAL or printed is None or difference is None:
            return self.verdict
        column = self.spot.column
        as_printed = column.model_copy(update={"digits": max(column.digits, printed[1])})
        return f"{UNEQUAL}, by {number(difference, as_printed, sign=True)}"


def _printed(text: str | None) -> tuple[float, int] | None:
    """A number as a paper prints it, and its decimals; None of anything else."""
    plain = (text or "").replace(",", "")
    try:
        return float(plain), len(plain.partition(".")[2])
    except ValueError:
        return None


def verdict(cell: Cell) -> str:
    """Judge ours by the published value, as ``RULE`` says."""
    if cell.ours in (None, REHEARSED):
        return UNMEASURED
    printed, spread = _printed(cell.published), _printed(cell.published_sd)
    if printed is None or not isinstance(cell.ours, float):
        return EQUAL if cell.ours == cell.published else UNEQUAL
    published, half = printed[0], 0.5 * 10.0 ** -printed[1] + ROUNDING
    distance = abs(cell.ours - published)
    if distance <= half:
        return EQUAL
    if spread is not None:
        return SPREAD if distance <= spread[0] + half else UNEQUAL
    if cell.low is None or cell.high is None:
        return UNEQUAL
    return INTERVAL if cell.low - half <= published <= cell.high + half else UNEQUAL


def certified(paper: Paper, results: Results) -> list[Certified]:
    """The published cells of a paper's tables that are filled by these results."""
    cells = []
    for name, table in paper.tables.items():
        for spot in table.spots:
            runs = [results.of(part.result) for part in spot.parts]
            if spot.column.key in spot.row.published and all(runs):
                cell = make_cell(spot, results)
                behind = [run for of_part in runs for run in of_part]
                cells.append(Certified(paper.name, name, spot, cell, verdict(cell), behind))
    return cells


def _command(file: str, overlays: Sequence[str]) -> str:
    """What measures a cell again."""
    return " ".join(["snakemake --cores all --force", file, *_configured(overlays)])


def _configured(overlays: Sequence[str]) -> list[str]:
    return ["--configfile", *map(shlex.quote, overlays)] if overlays else []


def _shown(file: Path) -> str:
    """A file's path for readers: without the folders of this machine, as pages are passed on."""
    if not file.is_absolute():
        return str(file)
    _, folder, below = str(file).rpartition("/benchmarks/")
    return f"…{folder}{below}" if folder else f"…/{file.name}"


def certificate_csv(cells: Sequence[Certified], overlays: Sequence[str]) -> str:
    """One line a cell."""
    lines = []
    for entry in cells:
        values = [getattr(entry.cell, name) for name in COLUMNS[2:9]]
        values += [
            entry.n,
            entry.difference,
            entry.verdict,
            entry.of_runs("task"),
            entry.of_runs("model"),
        ]
        lines.append([entry.paper, entry.name, *values, _command(entry.of_runs("file"), overlays)])
    return csv_text(COLUMNS, lines)


def _lines(cells: Sequence[Certified]) -> list[dict[str, Any]]:
    """The tables with their cells as text."""
    tables: dict[tuple[str, str], dict[str, Any]] = {}
    for entry in cells:
        title, _ = split_title(entry.spot.table.title)
        table = tables.setdefault(
            (entry.paper, entry.name), {"title": f"{entry.paper}: {title}", "cells": []}
        )
        values = {
            "label": f"{entry.cell.row}, {entry.spot.column.label}",
            "published": published_text(entry.cell),
            "ours": ours_text(entry.cell, entry.spot.column),
            "n": "" if entry.n is None else f"{entry.n:,}",
            "verdict": entry.said,
            "holds": entry.verdict in (EQUAL, SPREAD),
            "file": " ".join(dict.fromkeys(_shown(run["file"]) for run in entry.runs)),
        }
        table["cells"].append(values)
    return list(tables.values())


def certificate_notes(
    cells: Sequence[Certified], results: Results, overlays: Sequence[str], more: Sequence[str]
) -> list[str]:
    """What was measured on which data, the count of each verdict, the rule, the command."""
    counts = Counter(entry.verdict for entry in cells)
    counted = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    return [
        note_on_data(results),
        f"{len(cells)} published cells that need no training: {counted}.",
        RULE,
        f"A file is measured again by `{_command('FILE', list(map(displayed, overlays)))}`.",
        *more,
    ]


def certificate_markdown(cells: Sequence[Certified], notes: Sequence[str]) -> str:
    """A GitHub table for each table of a paper, below the notes."""
    text = ["# Certificate of released weights", "", *(f"- {note}" for note in notes)]
    for table in _lines(cells):
        text += ["", f"**{table['title']}**", "", *markdown_heads(HEADS)]
        for line in table["cells"]:
            values = (line["label"], line["published"], one_line(line["ours"]), line["n"])
            text.append(markdown_row([*values, line["verdict"], f"`{line['file']}`"]))
    return "\n".join(text) + "\n"


def certificate_html(cells: Sequence[Certified], notes: Sequence[str], synthetic: bool) -> str:
    """A self-contained fragment, ASCII only."""
    return in_ascii(
        template("certificate.html.jinja").render(
            tables=_lines(cells), notes=notes, synthetic=synthetic, heads=HEADS
        )
    )


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__, settings=False)
    arguments.add_argument(
        "--papers", nargs="+", required=True, help="names of papers of ours, or YAML files"
    )
    arguments.add_argument(
        "--metrics", type=Path, nargs="+", required=True, help="metrics.json of released models"
    )
    arguments.add_argument("--notes", nargs="*", default=[], help="sentences for below the others")
    arguments.add_argument(
        "--overlays", nargs="*", default=[], help="configuration files of the commands it names"
    )
    arguments.add_argument("--output", required=True, help="output path without extension")
    options = arguments.parse_args(argv)
    results = read_results(options.metrics)
    cells = [cell for paper in options.papers for cell in certified(load_paper(paper), results)]
    overlays, synthetic = options.overlays, results.synthetic
    notes = certificate_notes(cells, results, overlays, options.notes)
    texts = {
        ".csv": certificate_csv(cells, overlays),
        ".md": certificate_markdown(cells, notes),
        ".html": certificate_html(cells, notes, synthetic),
    }
    write_texts(options.output, texts)
    log.info("%s", notes[1])


if __name__ == "__main__":
    run(main)
