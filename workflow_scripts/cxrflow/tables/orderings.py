"""The orders that a paper claims beside those found here: ``<output>.csv``, ``.md`` and ``.html``.

A claim names cells of one column of a table, best first; each is compared with the next one. Of
models trained with several seeds the means are compared; beside it stands in how many seeds the
order holds.
"""

import argparse
import csv
import io
import logging
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from cxrflow.command import run
from cxrflow.files import atomic_path
from cxrflow.papers import Paper, load_paper
from cxrflow.papers.tables import Column, Ordering
from cxrflow.tables.cells import NOT_RUN, Cell, Results, make_cell, read_results
from cxrflow.tables.text import (
    in_ascii,
    markdown_row,
    note_on_data,
    ours_text,
    published_text,
    template,
)

log = logging.getLogger("cxrflow")

CSV_COLUMNS = (
    "claim", "table", "column", "better", "better_ours", "better_low", "better_high",
    "better_published", "worse", "worse_ours", "worse_low", "worse_high", "worse_published",
    "found", "seeds", "seeds_in_order",
)  # fmt: skip
HOLDS, OVERLAP, REVERSED, ABSENT = (
    "holds", "holds, intervals overlap", "does not hold", "not measured",
)  # fmt: skip
SEEDS = (
    "Models trained with several seeds are compared by their means; after ± stands the standard "
    "deviation over seeds, and the interval is the mean of the seeds' ends."
)


@dataclass(frozen=True)
class Compared:
    """Two cells of a claim, the one that the paper has as better first."""

    claim: str
    table: str
    column: Column
    better: Cell
    worse: Cell

    @property
    def found(self) -> str:
        """Whether ours stand in the claimed order, and whether their intervals are apart."""
        better, worse = self.better, self.worse
        if not isinstance(better.ours, float) or not isinstance(worse.ours, float):
            return ABSENT
        if better.ours <= worse.ours:
            return REVERSED
        if better.low is None or worse.high is None:
            return OVERLAP
        return HOLDS if better.low > worse.high else OVERLAP

    @property
    def seeds(self) -> tuple[int, int]:
        """How many training seeds both cells have, and how many of them show the claimed order."""
        better, worse = self.better.by_seed, self.worse.by_seed
        both = better.keys() & worse.keys()
        return len(both), sum(better[seed] > worse[seed] for seed in both)

    @property
    def finding(self) -> str:
        """What people read: found, and the seeds where there are several."""
        count, in_order = self.seeds
        return (
            f"{self.found} (in order in {in_order} of {count} seeds)" if count > 1 else self.found
        )


def compare(paper: Paper, results: Results) -> list[Compared]:
    """All neighbours of all claims of a paper, in the paper's order."""
    return [pair for claim in paper.orderings for pair in _neighbours(paper, claim, results)]


def _neighbours(paper: Paper, claim: Ordering, results: Results) -> list[Compared]:
    table = paper.tables[claim.table]
    column = table.column(claim.column)
    cells = [make_cell(table, table.row(label), column, results) for label in claim.rows]
    title = table.title.partition(". ")[0]
    return [Compared(claim.claim, title, column, *pair) for pair in pairwise(cells)]


def orderings_csv(compared: Sequence[Compared]) -> str:
    """One line a pair of neighbours; empty where there is nothing."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for one in compared:
        sides = [
            value
            for cell in (one.better, one.worse)
            for value in (cell.row, cell.ours, cell.low, cell.high, cell.published)
        ]
        values = [one.claim, one.table, one.column.key, *sides, one.found, *one.seeds]
        writer.writerow(
            ["" if v is None else format(v, ".6g") if isinstance(v, float) else v for v in values]
        )
    return buffer.getvalue()


def _claims(compared: Sequence[Compared]) -> list[dict[str, Any]]:
    """What both renderings print: each claim with its rows, best first, and what is found."""
    claims: list[dict[str, Any]] = []
    for one in compared:
        place = f"{one.table}, {one.column.label}"
        if not claims or claims[-1]["last"] is not one.better:
            claims.append({"claim": one.claim, "place": place, "rows": [_row(one.better, one)]})
        claims[-1]["rows"].append(
            _row(one.worse, one) | {"found": one.found, "finding": one.finding}
        )
        claims[-1]["last"] = one.worse
    return claims


def _row(cell: Cell, one: Compared) -> dict[str, str]:
    shown = {"label": cell.row, "reason": cell.reason or NOT_RUN, "found": "", "finding": ""}
    return shown | {"published": published_text(cell), **ours_text(cell, one.column)}


def _notes(compared: Sequence[Compared], results: Results) -> list[str]:
    measured = [one for one in compared if one.found != ABSENT]
    count = sum(one.found == HOLDS for one in measured)
    return [
        note_on_data(results),
        f"{count} of the {len(measured)} comparisons measured hold with intervals that are apart.",
        "Intervals are 95 % bootstrap intervals over test samples, given these trainings: another "
        "seed of a training may move a value by more. Tables hold the paired tests.",
        *([SEEDS] if any(one.seeds[0] > 1 for one in measured) else []),
    ]


def orderings_markdown(compared: Sequence[Compared], results: Results) -> str:
    """A GitHub table a claim, best first, then the notes."""
    text = []
    for claim in _claims(compared):
        heads = [claim["place"], "ours", "published", "below the row above?"]
        text += [f"**{claim['claim']}**", "", markdown_row(heads), markdown_row(["---"] * 4)]
        for row in claim["rows"]:
            value = row.get("value", "–")
            value += f" ± {row['spread']}" if "spread" in row else ""
            value += f" ({row['interval']})" if "interval" in row else ""
            text.append(
                markdown_row([row["label"], value, row["published"] or "–", row["finding"]])
            )
        text.append("")
    return "\n".join([*text, *(f"- {note}" for note in _notes(compared, results))]) + "\n"


def orderings_html(name: str, compared: Sequence[Compared], results: Results) -> str:
    """A self-contained fragment, ASCII only."""
    return in_ascii(
        template("orderings.html.jinja").render(
            id=name,
            claims=_claims(compared),
            notes=_notes(compared, results),
            synthetic=bool(results.runs) and results.synthetic,
            holds=HOLDS,
        )
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--paper", required=True, help="name of papers/<paper>.yaml")
    arguments.add_argument(
        "--metrics", type=Path, nargs="*", default=[], help="metrics.json of any models and seeds"
    )
    arguments.add_argument("--output", type=Path, required=True, help="path without extension")
    options = arguments.parse_args(argv)
    results = read_results(options.metrics)
    compared = compare(load_paper(options.paper), results)
    texts = {
        ".csv": orderings_csv(compared),
        ".md": orderings_markdown(compared, results),
        ".html": orderings_html(f"{options.paper}-orderings", compared, results),
    }
    with ExitStack() as files:  # all three or none
        for extension, text in texts.items():
            temporary = files.enter_context(atomic_path(f"{options.output}{extension}"))
            temporary.write_text(text, encoding="utf-8")
    for one in compared:
        log.info(
            "%s, %s: %s over %s: %s",
            *(one.table, one.column.label, one.better.row, one.worse.row, one.found),
        )


if __name__ == "__main__":
    run(main)
