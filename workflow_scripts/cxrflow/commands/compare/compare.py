"""Lay two folders of results side by side: the cells that both have, and their difference.

    cxrflow compare results earlier/results
    cxrflow compare results earlier/results --output both.html

A cell is a row and a column of a table of a paper, read from `tables/` of a results folder or from
a recorded run. Of each it prints both values with their intervals, the second less the first, and
whether the intervals are apart. What only one folder has is counted. `--output` writes a page that
filters and sorts, or a CSV.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from cxr_files.atomic import atomic_path, read_object
from cxr_files.csv_table import require_root
from cxr_files.errors import InputError
from cxr_files.program import parser, run
from cxrflow.commands.templates import rendered
from cxrflow.papers.table import HEADLINE
from cxrflow.show.page.living import LivingColumn, json_text, living_table
from cxrflow.show.tables.text import MINUS, csv_lines, csv_text

RECORD = "run.json"  # in the folder of a recorded run
NO_TABLE = "orderings.csv"
FIELDS = ("row", "column", "ours", "low", "high")
HEADS = ("paper", "table", "row", "score")
CSV = (*HEADS, "first", "first_low", "first_high", "second", "second_low", "second_high",
       "difference", "apart")  # fmt: skip


class Place(NamedTuple):
    """A cell by the names of its paper, table, row and column."""

    paper: str
    table: str
    row: str
    column: str


class Score(NamedTuple):
    """A value and its interval, where it has one."""

    value: float
    low: float | None
    high: float | None

    @property
    def text(self) -> str:
        """The value with its interval."""
        if self.low is None or self.high is None or self.low == self.high:
            return _text(self.value)
        return f"{_text(self.value)} ({_text(self.low)} to {_text(self.high)})"


@dataclass(frozen=True)
class Pair:
    """A cell in both folders."""

    place: Place
    first: Score
    second: Score

    @property
    def difference(self) -> float:
        """The second less the first."""
        return self.second.value - self.first.value

    @property
    def apart(self) -> bool | None:
        """Whether the intervals have nothing in common; None where one has none."""
        first, second = self.first, self.second
        if first.low is None or first.high is None or second.low is None or second.high is None:
            return None
        return first.high < second.low or second.high < first.low

    @property
    def apart_text(self) -> str:
        """The same in words."""
        return {True: "apart", False: "overlap", None: ""}[self.apart]


@dataclass(frozen=True)
class Comparison:
    """Two folders: cells of both, how many only one has, and the scale of each where known."""

    names: tuple[str, str]
    pairs: list[Pair]
    only: tuple[int, int]
    scales: tuple[str | None, str | None] = (None, None)

    @property
    def counts(self) -> str:
        """One line about all cells."""
        apart = Counter(pair.apart for pair in self.pairs)
        first, second = self.names
        scale, other = self.scales
        unlike = (
            f". The runs are of different scale: {scale} and {other}"
            if scale and other and scale != other
            else ""
        )
        return (
            f"{len(self.pairs)} cells in both, intervals apart in {apart[True]}, overlapping in "
            f"{apart[False]}; {self.only[0]} only in {first}, {self.only[1]} only in {second}"
            f"{unlike}"
        )


def _text(value: float, sign: bool = False) -> str:
    return f"{value:{'+' if sign else ''}.4g}".replace("-", MINUS)


def read_scores(folder: Path) -> dict[Place, Score]:
    """The measured numbers of a results folder, or of a recorded run.

    A table that was made whole stands for its headline. Texts, such as how a word is cut, are no
    numbers and left out.

    Raises:
        InputError: there are no tables, or one lacks a column, has a cell twice, or an end of an
            interval that is no number.
    """
    root = require_root(folder)
    tables = root if (root / RECORD).is_file() else root / "tables"
    headlines = sorted(tables.glob(f"*/{HEADLINE}*.csv"))
    files = [*headlines, *sorted(tables.glob("*/*.csv"))]
    files = [file for file in files if file.name != NO_TABLE]
    if not files:
        raise InputError(f"{tables}: no tables; expected a finished run's results, or its record")
    scores: dict[Place, Score] = {}
    for file in files:
        scores |= _table(file, file.relative_to(tables).parts[0])
    return scores


def _table(file: Path, paper: str) -> dict[Place, Score]:
    scores: dict[Place, Score] = {}
    for number, line in csv_lines(file, FIELDS):
        value = _number(line["ours"])
        if value is None:
            continue
        ends = {name: _number(line[name]) for name in ("low", "high")}
        for name, end in ends.items():
            if end is None and line[name]:
                raise InputError(
                    f"{file}:{number}: {name} is {line[name]!r:.40}; expected a number or a blank"
                )
        place = Place(paper, file.stem, line["row"], line["column"])
        if place in scores:
            raise InputError(
                f"{file}:{number}: row '{place.row}', column '{place.column}' stands there twice; "
                "expected each cell once"
            )
        scores[place] = Score(value, ends["low"], ends["high"])
    return scores


def _number(text: str) -> float | None:
    """A finite number; None where the text is another."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def read_scale(folder: Path) -> str | None:
    """The scale of a recorded run or of a results folder with a page; None where none is said.

    Raises:
        InputError: the record is damaged.
    """
    if (folder / RECORD).is_file():
        return str(read_object(folder / RECORD, {"scale": str})["scale"])
    configuration = folder / "report/config.json"
    if not configuration.is_file():
        return None
    values = read_object(configuration, {"values": dict})["values"]
    return str(values["scale"]) if "scale" in values else None


def compare(first: Path, second: Path) -> Comparison:
    """Compare two folders, in the order of the first.

    Raises:
        InputError: as :func:`read_scores`, or they are one folder, or have no cell in common.
    """
    if first.resolve() == second.resolve():
        raise InputError(f"{second}: is {first}, too; expected two folders")
    ours, others = read_scores(first), read_scores(second)
    pairs = [Pair(place, ours[place], others[place]) for place in ours if place in others]
    if not pairs:
        raise InputError(
            f"{first} and {second} have no cell in common: {len(ours)} and {len(others)} cells; "
            "expected tables of the same papers"
        )
    only = (len(ours) - len(pairs), len(others) - len(pairs))
    return Comparison(
        (str(first), str(second)), pairs, only, (read_scale(first), read_scale(second))
    )


def comparison_text(compared: Comparison) -> str:
    """A line a cell, columns below each other, and the counts."""
    lines = [("paper", "table", "row", "score", *compared.names, "difference", "intervals")]
    lines += [
        (*pair.place, pair.first.text, pair.second.text, _text(pair.difference, sign=True),
         pair.apart_text)
        for pair in compared.pairs
    ]  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = ("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)
    return "\n".join([*texts, compared.counts])


def comparison_csv(compared: Comparison) -> str:
    """A line a cell, numbers as the tables have them."""
    return csv_text(
        CSV,
        (
            [*pair.place, *pair.first, *pair.second, pair.difference, pair.apart_text]
            for pair in compared.pairs
        ),
    )


def comparison_html(compared: Comparison) -> str:
    """A page of one table, which needs no server and no library."""
    first, second = compared.names
    columns = [
        LivingColumn("Paper", "paper", pick=True),
        LivingColumn("Table", "table", pick=True),
        LivingColumn("Row", "row"),
        LivingColumn("Score", "score"),
        LivingColumn(first, by=8),
        LivingColumn(second, by=11),
        LivingColumn("Difference", by=14),
        LivingColumn("Intervals", "intervals", pick=True),
        *(LivingColumn(csv=name) for name in CSV[len(HEADS) : -1]),
    ]
    lines = [
        [
            *pair.place, pair.first.text, pair.second.text, _text(pair.difference, sign=True),
            pair.apart_text, *pair.first, *pair.second, float(f"{pair.difference:.6g}"),
        ]
        for pair in compared.pairs
    ]  # fmt: skip
    table = json_text(living_table(columns, lines, "comparison.csv"))
    places = ("cxrflow.commands.compare", "cxrflow.show.page/templates")
    return rendered("comparison.html.jinja", *places, compared=compared, lines=table)


def main(argv: Sequence[str] | None = None) -> None:
    """Print the comparison, or write it."""
    arguments = parser(__doc__, settings=False)
    arguments.add_argument("first", type=Path, help="results folder, or folder of a record")
    arguments.add_argument("second", type=Path, help="the one that is compared with it")
    arguments.add_argument("--output", type=Path, help="a page (.html) or a table (.csv) to write")
    options = arguments.parse_args(argv)
    renderings = {".html": comparison_html, ".csv": comparison_csv}
    output: Path | None = options.output
    if output is not None and output.suffix not in renderings:
        raise InputError(f"--output is {output}; expected a name that ends with .html or .csv")
    compared = compare(options.first, options.second)
    if output is None:
        print(comparison_text(compared))
        return
    with atomic_path(output) as temporary:
        temporary.write_text(renderings[output.suffix](compared), encoding="utf-8")
    print(f"{output}: {compared.counts}")


if __name__ == "__main__":
    run(main)
