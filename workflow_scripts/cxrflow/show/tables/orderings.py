"""Compare the rankings that a paper claims with ours: ``<output>.csv``, ``.md``, ``.html``.

A claim names cells of a table, best first. Each is compared with the next: by their difference
over seeds and samples if both are from one task, else by whether their intervals are disjoint. The
number of seeds in which the ranking holds is also given. With fewer than three trainings of a
model no ranking is judged, nor of a mean of columns, whose interval is over seeds alone; none is
taken from a model that does not differ from permuted pairs, or that has a stand-in in the place of
published weights among what it starts from.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from cxr_files.program import run
from cxrflow.benchmarks.settings import LEAST_SEEDS
from cxrflow.names import short_name
from cxrflow.papers import Paper
from cxrflow.papers.claims import Ordering
from cxrflow.papers.table import Address, Column, weights_in_words
from cxrflow.show.tables.cells import Cell, make_cell
from cxrflow.show.tables.notes import note_on_data, note_on_learning, note_on_spread, percent
from cxrflow.show.tables.results import NOT_RUN, Results, read_paper, read_results, results_parser
from cxrflow.show.tables.tests import Tested, Tests, read_tests
from cxrflow.show.tables.text import (
    csv_text,
    in_ascii,
    markdown_row,
    one_line,
    ours_text,
    published_text,
    seeds_text,
    template,
    write_texts,
)

log = logging.getLogger("cxrflow")

CSV_COLUMNS = (
    "claim", "table", "column", "better", "better_ours", "better_low", "better_high",
    "better_published", "worse", "worse_ours", "worse_low", "worse_high", "worse_published",
    "found", "seeds", "seeds_in_order",
)  # fmt: skip
HOLDS, OVERLAP, UNSURE, REVERSED, ABSENT, UNEQUAL = (
    "holds", "in order, intervals overlap", "in order, interval of the difference holds 0",
    "does not hold", "not measured", "not shown: the difference may exceed the margin",
)  # fmt: skip
NOT_JUDGED, NOT_COMPARABLE = "{why}: not judged", "not comparable: {why}"
OF_SEEDS = "a mean of columns, over seeds alone"


@dataclass(frozen=True)
class Side:
    """A cell of a claim, with its label in the claim."""

    label: str
    column: Column
    cell: Cell
    model: str = ""
    stand_ins: str = ""  # of what weights it has stand-ins

    def of_seed(self, seed: int) -> float:
        """Our value of one training seed; it is the same for all if nothing was trained."""
        return self.cell.by_seed[seed] if self.cell.seeds else float(self.cell.ours or 0.0)


@dataclass(frozen=True)
class Compared:
    """Two neighbouring cells of a claim, the one that the paper calls better first."""

    claim: Ordering
    table: str
    better: Side
    worse: Side
    tested: Tested | None = None

    def gain(self, better: float, worse: float) -> float:
        """The difference in the direction of the claim: above 0 if ``better`` is better."""
        worse *= self.claim.factor or 1.0
        return worse - better if self.claim.smaller else better - worse

    @property
    def verdict(self) -> str:
        """The result of the comparison: the claim holds, does not, or cannot be judged."""
        better, worse = self.better.cell, self.worse.cell
        if not isinstance(better.ours, float) or not isinstance(worse.ours, float):
            return ABSENT
        sides = (self.better, self.worse)
        stand_ins = weights_in_words(side.stand_ins for side in sides if side.stand_ins)
        unlearnt = dict.fromkeys(side.model for side in sides if side.cell.unlearnt)
        why = [f"stand-in for {stand_ins}"] if stand_ins else []
        why += [f"training of {' and '.join(unlearnt)} not converged"] if unlearnt else []
        if why:
            return NOT_COMPARABLE.format(why="; ".join(why))
        paired = self.tested if self.tested is not None and self.tested.value is not None else None
        trained = [cell.seeds for cell in (better, worse) if cell.seeds]
        trained += [paired.seeds] if paired and trained else []
        if trained and min(trained) < LEAST_SEEDS:
            return NOT_JUDGED.format(why=seeds_text(min(trained)))
        if paired is not None and paired.reason is not None:
            return NOT_JUDGED.format(why=paired.reason)
        if self.claim.margin is not None:
            if abs(better.ours - worse.ours) >= self.claim.margin:
                return REVERSED
            return HOLDS if paired is not None and paired.is_equivalent else UNEQUAL
        if self.gain(better.ours, worse.ours) <= 0:
            return REVERSED
        if paired is not None:
            ends = [paired.low, paired.high]
            holds = all(end is not None and self.gain(end, 0) > 0 for end in ends)
            return HOLDS if holds else UNSURE
        if any(side.column.mean_of for side in sides):
            return NOT_JUDGED.format(why=OF_SEEDS)
        if self.claim.smaller:
            better, worse = worse, better
        if better.low is None or worse.high is None:
            return OVERLAP
        return HOLDS if better.low > worse.high * (self.claim.factor or 1.0) else OVERLAP

    @property
    def seeds(self) -> tuple[int, int]:
        """The number of common training seeds, and of those that show the claimed order."""
        trained = [set(side.cell.by_seed) for side in (self.better, self.worse) if side.cell.seeds]
        common = set.intersection(*trained) if trained and self.verdict != ABSENT else set()
        gains = [self.gain(self.better.of_seed(seed), self.worse.of_seed(seed)) for seed in common]
        margin = self.claim.margin
        if margin is not None:
            return len(common), sum(abs(gain) < margin for gain in gains)
        return len(common), sum(gain > 0 for gain in gains)

    @property
    def finding(self) -> str:
        """The verdict as people read it: with the seeds, and if the two were not measured alike."""
        count, in_order = self.seeds
        notes = []
        if self.tested is not None and (self.tested.reason or "").startswith("measured"):
            notes.append(str(self.tested.reason))  # on other samples, say
        if count > 1:
            where = "within the margin" if self.claim.margin else "in order"
            notes.append(f"{where} in {in_order} of {count} seeds")
        return f"{self.verdict} ({'; '.join(notes)})" if notes else self.verdict


def compare(paper: Paper, results: Results, tests: Tests) -> list[Compared]:
    """Compare all neighbours of all claims of a paper, in the paper's order."""
    return [pair for claim in paper.orderings for pair in _neighbours(paper, claim, results, tests)]


def _neighbours(paper: Paper, claim: Ordering, results: Results, tests: Tests) -> list[Compared]:
    title = paper.tables[claim.table].title.partition(". ")[0]
    sides = [_side(paper, claim, place, results, tests) for place in claim.places()]
    tested = [
        tests.between(paper.spot(better), paper.spot(worse), claim.margin, claim.factor)
        if isinstance(better, Address) and isinstance(worse, Address)
        else None
        for better, worse in pairwise(claim.places())
    ]
    return [
        Compared(claim, title, *neighbours, test)
        for neighbours, test in zip(pairwise(sides), tested, strict=True)
    ]


def _side(
    paper: Paper, claim: Ordering, place: Address | float, results: Results, tests: Tests
) -> Side:
    """Make the cell at an address; a number is a cell too, in the unit of the claim's column."""
    if isinstance(place, float):
        column = paper.tables[claim.table].column(claim.column)
        label, value = format(place, "g"), place
        return Side(label, column, Cell(label, column.key, value, low=value, high=value))
    name, _, key = place
    spot = paper.spot(place)
    table, row, column = spot
    cell, label = make_cell(spot, results, tests), row.label
    if key != claim.column or name != claim.table:
        label += f", {column.label}"
    if name != claim.table:
        label += f" ({table.title.partition('. ')[0]})"
    model = short_name(table.model_of(row, column) or row.label)
    return Side(label, column, cell, model, table.stand_ins_of(row, column))


def orderings_csv(compared: Sequence[Compared]) -> str:
    """One line a pair of neighbours."""
    lines = []
    for pair in compared:
        values: list[Any] = [pair.claim.title, pair.table, pair.claim.column]
        for side in (pair.better, pair.worse):
            cell = side.cell
            values += [side.label, cell.ours, cell.low, cell.high, cell.published]
        lines.append([*values, pair.verdict, *pair.seeds])
    return csv_text(CSV_COLUMNS, lines)


def _claims(compared: Sequence[Compared]) -> list[dict[str, Any]]:
    """The content of both renderings: each claim with its rows, best first, and the verdicts."""
    claims: list[dict[str, Any]] = []
    for pair in compared:
        if not claims or claims[-1]["last"] is not pair.better:
            place = f"{pair.table}, {pair.better.column.label}"
            place += ", less is better" if pair.claim.smaller else ""
            place += f", equal within ± {pair.claim.margin:g}" if pair.claim.margin else ""
            place += f", above {pair.claim.factor:g} of the next" if pair.claim.factor else ""
            claims.append({"claim": pair.claim.title, "place": place, "rows": [_row(pair.better)]})
        claims[-1]["rows"].append(
            _row(pair.worse) | {"found": pair.verdict, "finding": pair.finding}
        )
        claims[-1]["last"] = pair.worse
    return claims


def _row(side: Side) -> dict[str, str]:
    cell = side.cell
    row = {"label": side.label, "reason": cell.reason or NOT_RUN, "found": "", "finding": ""}
    return row | {"published": published_text(cell), **ours_text(cell, side.column)}


def _notes(compared: Sequence[Compared], results: Results, alpha: float) -> list[str]:
    measured = [pair for pair in compared if pair.verdict != ABSENT]
    count = sum(pair.verdict == HOLDS for pair in measured)
    judged = sum(pair.verdict in (HOLDS, OVERLAP, UNSURE, REVERSED, UNEQUAL) for pair in measured)
    cells = [side.cell for pair in measured for side in (pair.better, pair.worse)]
    return [
        note_on_data(results),
        f"{count} of the {len(measured)} comparisons measured hold; {judged} were judged, which "
        f"needs {LEAST_SEEDS} training seeds of both.",
        f"Cells of one task are compared by the {percent(1 - alpha)} interval of their difference "
        "over training seeds and test samples, both paired; it is not corrected for the number of "
        "claims. Others are compared by whether their intervals are apart. A claim of equality "
        "holds if the difference is within a margin stated beforehand, by two one-sided tests at "
        f"{percent(alpha)}.",
        *filter(None, [note_on_spread(cells), note_on_learning(cells)]),
    ]


def orderings_markdown(compared: Sequence[Compared], results: Results, alpha: float) -> str:
    """A GitHub table a claim, best first, then the notes."""
    text = []
    for claim in _claims(compared):
        heads = [claim["place"], "ours", "published", "below the row above?"]
        text += [f"**{claim['claim']}**", "", markdown_row(heads), markdown_row(["---"] * 4)]
        for row in claim["rows"]:
            values = [row["label"], one_line(row), row["published"] or "–", row["finding"]]
            text.append(markdown_row(values))
        text.append("")
    return "\n".join([*text, *(f"- {note}" for note in _notes(compared, results, alpha))]) + "\n"


def orderings_html(name: str, compared: Sequence[Compared], results: Results, alpha: float) -> str:
    """A self-contained fragment, ASCII only."""
    return in_ascii(
        template("orderings.html.jinja").render(
            id=name,
            claims=_claims(compared),
            notes=_notes(compared, results, alpha),
            synthetic=bool(results.runs) and results.synthetic,
            holds=HOLDS,
        )
    )


def main(argv: Sequence[str] | None = None) -> None:
    arguments = results_parser(__doc__)
    arguments.add_argument("--output", required=True, help="output path without extension")
    options = arguments.parse_args(argv)
    paper, results = read_paper(options), read_results(options.metrics)
    tests = read_tests(options.tests)
    compared = compare(paper, results, tests)
    texts = {
        ".csv": orderings_csv(compared),
        ".md": orderings_markdown(compared, results, tests.alpha),
        ".html": orderings_html(f"{paper.name}-orderings", compared, results, tests.alpha),
    }
    write_texts(options.output, texts)
    for pair in compared:
        log.info(
            "%s, %s: %s over %s: %s",
            *(
                pair.table,
                pair.better.column.label,
                pair.better.label,
                pair.worse.label,
                pair.verdict,
            ),
        )


if __name__ == "__main__":
    run(main)
