"""Compare the rankings that a paper claims with ours: ``<output>.csv``, ``.md``, ``.html``.

A claim names cells of a table, best first. Each is compared with the next: by their difference
over seeds and samples if both are from one task, else by whether their intervals are disjoint. The
number of seeds in which the ranking holds is also given. With fewer than three trainings of a
model no ranking is judged, nor of a mean of columns, whose interval is over seeds alone; none is
taken from a model that has not learnt, or that has a stand-in in the place of
published weights among what it starts from.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
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
from cxrflow.show.tables.results import NOT_RUN as ABSENT
from cxrflow.show.tables.results import Results, read_paper, read_results, results_parser
from cxrflow.show.tables.tests import Tested, Tests, read_tests
from cxrflow.show.tables.text import (
    csv_text,
    in_ascii,
    markdown_heads,
    markdown_row,
    one_line,
    ours_text,
    published_text,
    split_title,
    template,
    write_texts,
)
from cxrflow.show.tables.verdicts import COLUMNS, HOLDS, NOT_RUN, VERDICTS, Comparison, lines

log = logging.getLogger("cxrflow")

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

    @cached_property
    def record(self) -> Comparison:
        """All that the verdict reads, as it is written down."""
        sides, claim = (self.better, self.worse), self.claim
        ours = [side.cell.ours if isinstance(side.cell.ours, float) else None for side in sides]
        stand_ins = weights_in_words(side.stand_ins for side in sides if side.stand_ins)
        unlearnt = dict.fromkeys(side.model for side in sides if side.cell.unlearnt)
        why = [f"stand-in for {stand_ins}"] if stand_ins else []
        why += [f"training of {' and '.join(unlearnt)} not converged"] if unlearnt else []
        tested = self.tested
        paired = tested if tested is not None and tested.value is not None else None
        trained = [side.cell.seeds for side in sides if side.cell.seeds]
        trained += [paired.seeds] if paired and trained else []
        of_seeds = paired is None and any(side.column.mean_of for side in sides)
        seeds, in_order = self.seeds
        cells: list[dict[str, Any]] = [
            {
                name: side.label,
                f"{name}_ours": value,
                f"{name}_low": side.cell.low,
                f"{name}_high": side.cell.high,
                f"{name}_published": side.cell.published,
            }
            for name, side, value in zip(("better", "worse"), sides, ours, strict=True)
        ]
        values: dict[str, Any] = {"not_judged": OF_SEEDS if of_seeds else None}
        if paired is not None:
            values = {
                "difference": paired.value, "low": paired.low, "high": paired.high,
                "between": paired.between, "common": paired.common, "patients": paired.patients,
                "is_equivalent": paired.is_equivalent, "not_judged": paired.reason,
            }  # fmt: skip
        return Comparison(
            claim=claim.title,
            table=self.table,
            column=claim.column,
            digits=self.better.column.digits,
            smaller=claim.smaller,
            margin=claim.margin,
            factor=claim.factor,
            **cells[0],
            **cells[1],
            trained=min(trained) if trained else None,
            seeds=seeds,
            seeds_in_order=in_order,
            not_comparable="; ".join(why) or None,
            **values,
        )

    @property
    def verdict(self) -> str:
        """One of the five words of :mod:`cxrflow.show.tables.verdicts`."""
        return self.record.verdict

    @property
    def seeds(self) -> tuple[int, int]:
        """The number of common training seeds, and of those that show the claimed order."""
        trained = [set(side.cell.by_seed) for side in (self.better, self.worse) if side.cell.seeds]
        measured = all(isinstance(side.cell.ours, float) for side in (self.better, self.worse))
        common = set.intersection(*trained) if trained and measured else set()
        claim = self.claim
        gains = [claim.gain(self.better.of_seed(n), self.worse.of_seed(n)) for n in common]
        if claim.margin is not None:
            return len(common), sum(abs(gain) < claim.margin for gain in gains)
        return len(common), sum(gain > 0 for gain in gains)

    @property
    def finding(self) -> str:
        """The verdict as people read it: with its reason, the seeds, and what would decide it."""
        count, in_order = self.seeds
        verdict, why = self.record.judged
        verdict = f"{verdict}: {why}" if why else verdict
        notes = [f"to decide it: {self.record.decided_by}"] if self.record.decided_by else []
        if self.tested is not None and (self.tested.reason or "").startswith("measured"):
            notes.append(str(self.tested.reason))  # on other samples, say
        if count > 1:
            where = "within the margin" if self.claim.margin else "in order"
            notes.append(f"{where} in {in_order} of {count} seeds")
        return f"{verdict} ({'; '.join(notes)})" if notes else verdict


def compare(paper: Paper, results: Results, tests: Tests) -> list[Compared]:
    """Compare all neighbours of all claims of a paper, in the paper's order."""
    return [pair for claim in paper.orderings for pair in _neighbours(paper, claim, results, tests)]


def _neighbours(paper: Paper, claim: Ordering, results: Results, tests: Tests) -> list[Compared]:
    title, _ = split_title(paper.tables[claim.table].title)
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
        label += f" ({split_title(table.title)[0]})"
    model = short_name(spot.model or row.label)
    return Side(label, column, cell, model, table.stand_ins_of(row, column))


def orderings_csv(compared: Sequence[Compared]) -> str:
    """One line a pair of neighbours."""
    return csv_text(COLUMNS, lines(pair.record for pair in compared))


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
    row = {"label": side.label, "reason": cell.reason or ABSENT, "found": "", "finding": ""}
    return row | {"published": published_text(cell), **ours_text(cell, side.column)}


def _notes(compared: Sequence[Compared], results: Results, alpha: float) -> list[str]:
    measured = [pair for pair in compared if pair.verdict != NOT_RUN]
    counts = Counter(pair.verdict for pair in compared)
    text = ", ".join(f"{word} {counts[word]}" for word in VERDICTS if counts[word])
    cells = [side.cell for pair in measured for side in (pair.better, pair.worse)]
    return [
        note_on_data(results),
        f"Of {len(compared)} comparisons: {text}. A verdict needs at least {LEAST_SEEDS} training "
        "seeds of both.",
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
        text += [f"**{' '.join(claim['claim'].split())}**", "", *markdown_heads(heads)]
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
