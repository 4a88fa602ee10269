"""The orders that a paper claims beside those found here: ``<output>.csv``, ``.md`` and ``.html``.

A claim names cells of a table, best first; each is compared with the next one. Of models trained
with several seeds the means are compared; beside it stands in how many seeds the order holds. An
order holds where the intervals are apart, or, for a ``paired`` claim, where the interval of the
difference on the same samples does not hold zero.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from cxrflow.command import run
from cxrflow.papers import Paper, load_paper
from cxrflow.papers.tables import Address, Column, Ordering
from cxrflow.tables.cells import Cell, make_cell
from cxrflow.tables.results import NOT_RUN, Results, read_results, results_parser
from cxrflow.tables.tests import Tested, Tests, read_tests
from cxrflow.tables.text import (
    csv_text,
    in_ascii,
    markdown_row,
    note_on_data,
    ours_text,
    published_text,
    template,
    write_texts,
)

log = logging.getLogger("cxrflow")

CSV_COLUMNS = (
    "claim", "table", "column", "better", "better_ours", "better_low", "better_high",
    "better_published", "worse", "worse_ours", "worse_low", "worse_high", "worse_published",
    "found", "seeds", "seeds_in_order",
)  # fmt: skip
HOLDS, OVERLAP, UNSURE, REVERSED, ABSENT, UNTESTED = (
    "holds", "holds, intervals overlap", "holds, interval of the difference holds 0",
    "does not hold", "not measured", "not tested",
)  # fmt: skip
SEEDS = (
    "Models trained with several seeds are compared by their means; after ± stands the standard "
    "deviation over seeds, and the interval is the mean of the seeds' ends."
)


@dataclass(frozen=True)
class Side:
    """A cell of a claim, as it is called there."""

    label: str
    column: Column
    cell: Cell

    def of_seed(self, seed: int) -> float:
        """Ours of one training seed; what was not trained is the same for all."""
        return self.cell.by_seed[seed] if self.cell.seeds else float(self.cell.ours or 0.0)


@dataclass(frozen=True)
class Compared:
    """Two cells of a claim, the one that the paper has as better first."""

    claim: Ordering
    table: str
    better: Side
    worse: Side
    tested: Tested | None = None

    def gain(self, better: float, worse: float) -> float:
        """How much better, in the claim's direction."""
        return worse - better if self.claim.smaller else better - worse

    @property
    def found(self) -> str:
        """Whether ours stand in the claimed order, and whether it is more than chance."""
        better, worse = self.better.cell, self.worse.cell
        if not isinstance(better.ours, float) or not isinstance(worse.ours, float):
            return ABSENT
        if self.claim.paired and (self.tested is None or self.tested.value is None):
            return UNTESTED
        if self.gain(better.ours, worse.ours) <= 0:
            return REVERSED
        if self.tested is not None:
            ends = [self.tested.low, self.tested.high]
            return (
                HOLDS if all(end is not None and self.gain(end, 0) > 0 for end in ends) else UNSURE
            )
        if self.claim.smaller:
            better, worse = worse, better
        if better.low is None or worse.high is None:
            return OVERLAP
        return HOLDS if better.low > worse.high else OVERLAP

    @property
    def seeds(self) -> tuple[int, int]:
        """How many training seeds both cells have, and how many of them show the claimed order."""
        trained = [set(one.cell.by_seed) for one in (self.better, self.worse) if one.cell.seeds]
        both = set.intersection(*trained) if trained and self.found != ABSENT else set()
        gains = [self.gain(self.better.of_seed(one), self.worse.of_seed(one)) for one in both]
        return len(both), sum(gain > 0 for gain in gains)

    @property
    def finding(self) -> str:
        """What people read: found, and the seeds where there are several."""
        count, in_order = self.seeds
        return (
            f"{self.found} (in order in {in_order} of {count} seeds)" if count > 1 else self.found
        )


def compare(paper: Paper, results: Results, tests: Tests) -> list[Compared]:
    """All neighbours of all claims of a paper, in the paper's order."""
    return [pair for claim in paper.orderings for pair in _neighbours(paper, claim, results, tests)]


def _neighbours(paper: Paper, claim: Ordering, results: Results, tests: Tests) -> list[Compared]:
    table = paper.tables[claim.table]
    column = table.column(claim.column)
    title = table.title.partition(". ")[0]
    sides = [_side(paper, claim, place, results) for place in claim.places()]
    compared = []
    for better, worse in pairwise(sides):
        tested = None
        if claim.paired:
            tested = tests.between(table, table.row(better.label), table.row(worse.label), column)
        compared.append(Compared(claim, title, better, worse, tested))
    return compared


def _side(paper: Paper, claim: Ordering, place: Address | float, results: Results) -> Side:
    """A cell by its place; a number is a cell of its own, in the unit of the claim's column."""
    if isinstance(place, float):
        column = paper.tables[claim.table].column(claim.column)
        label, value = format(place, "g"), place
        return Side(label, column, Cell(label, column.key, value, low=value, high=value))
    name, label, key = place
    table = paper.tables[name]
    column = table.column(key)
    cell = make_cell(table, table.row(label), column, results)
    if key != claim.column or name != claim.table:
        label += f", {column.label}"
    if name != claim.table:
        label += f" ({table.title.partition('. ')[0]})"
    return Side(label, column, cell)


def orderings_csv(compared: Sequence[Compared]) -> str:
    """One line a pair of neighbours."""
    lines = []
    for one in compared:
        values: list[Any] = [one.claim.claim, one.table, one.claim.column]
        for side in (one.better, one.worse):
            cell = side.cell
            values += [side.label, cell.ours, cell.low, cell.high, cell.published]
        lines.append([*values, one.found, *one.seeds])
    return csv_text(CSV_COLUMNS, lines)


def _claims(compared: Sequence[Compared]) -> list[dict[str, Any]]:
    """What both renderings print: each claim with its rows, best first, and what is found."""
    claims: list[dict[str, Any]] = []
    for one in compared:
        if not claims or claims[-1]["last"] is not one.better:
            place = f"{one.table}, {one.better.column.label}"
            place += ", less is better" if one.claim.smaller else ""
            place += ", paired" if one.claim.paired else ""
            claims.append({"claim": one.claim.claim, "place": place, "rows": [_row(one.better)]})
        claims[-1]["rows"].append(_row(one.worse) | {"found": one.found, "finding": one.finding})
        claims[-1]["last"] = one.worse
    return claims


def _row(side: Side) -> dict[str, str]:
    cell = side.cell
    shown = {"label": side.label, "reason": cell.reason or NOT_RUN, "found": "", "finding": ""}
    return shown | {"published": published_text(cell), **ours_text(cell, side.column)}


def _notes(compared: Sequence[Compared], results: Results) -> list[str]:
    measured = [one for one in compared if one.found != ABSENT]
    count = sum(one.found == HOLDS for one in measured)
    paired = any(one.claim.paired for one in measured)
    return [
        note_on_data(results),
        f"{count} of the {len(measured)} comparisons measured hold with intervals that are apart"
        f"{', or where paired, with an interval of the difference without 0' if paired else ''}.",
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
    arguments = results_parser(__doc__)
    arguments.add_argument(
        "--tests", type=Path, nargs="*", default=[], help="paired tests of the tables"
    )
    arguments.add_argument("--output", required=True, help="path without extension")
    options = arguments.parse_args(argv)
    paper, results = load_paper(options.paper), read_results(options.metrics)
    compared = compare(paper, results, read_tests(options.tests))
    texts = {
        ".csv": orderings_csv(compared),
        ".md": orderings_markdown(compared, results),
        ".html": orderings_html(f"{paper.name}-orderings", compared, results),
    }
    write_texts(options.output, texts)
    for one in compared:
        log.info(
            "%s, %s: %s over %s: %s",
            *(one.table, one.better.column.label, one.better.label, one.worse.label, one.found),
        )


if __name__ == "__main__":
    run(main)
