"""Which cells of the papers' tables a run makes, and what each of the others would need.

    cxrflow plan --configfile paper.yaml
    cxrflow plan --configfile paper.yaml --paper convirt --output plan.tsv

For each paper, table and row: the published cells that have a value of ours in a run of every row,
and for those that have none the reason, with the line of configuration that gives it. Where a run
makes the headline alone, the last lines count its cells. ``--output`` writes a line a cell: paper,
table, row, column, made, reason, lines.
"""

import csv
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from cxr_files.atomic import atomic_path
from cxr_files.errors import InputError
from cxr_files.program import parser, run
from cxrflow.benchmarks.registry import BENCHMARKS
from cxrflow.config.configuration import Config
from cxrflow.config.lacks import Lack, Lacks, distinct
from cxrflow.config.loading import add_files, in_order, load_config
from cxrflow.papers.table import HEADLINE, Column, Result, Row


@dataclass(frozen=True)
class PlannedCell:
    """A cell of a paper's table: where it stands, and what a run lacks for a value of ours."""

    paper: str
    table: str
    row: str
    column: str
    lacks: Lacks
    published: bool = True


BEYOND = Lack("rows beyond the headline", ("extent: all",))


def planned_cells(config: Config, paper: str, extent: str = "all") -> list[PlannedCell]:
    """The published cells of a paper's tables; all cells of ours where nothing is published."""
    content = config.library.chosen[paper]
    spots = [(name, spot) for name, table in content.tables.items() for spot in table.spots]
    published = [(n, spot) for n, spot in spots if spot.column.key in spot.row.published]
    ours = [(name, spot) for name, spot in spots if spot.result is not None]
    headline = {
        (cut.table, label, key)
        for cut in content.headline
        for label in cut.rows or [row.label for row in content.tables[cut.table].rows]
        for key in cut.columns or [column.key for column in content.tables[cut.table].columns]
    }
    cells = []
    for name, (_, row, column) in published or ours:
        lacks = cell_lacks(config, paper, name, row, column)
        within = extent == "all" or (name, row.label, column.key) in headline
        lacks = lacks if within or lacks else (BEYOND,)
        place = (paper, name, row.label, column.key)
        cells.append(PlannedCell(*place, lacks, published=bool(published)))
    return cells


def cell_lacks(config: Config, paper: str, name: str, row: Row, column: Column) -> Lacks:
    """What a run of every row lacks for a value of ours in a cell of the table of this name."""
    if {paper, f"{paper}/{name}"} & {*config.values.leave_out}:
        return (Lack("what `leave_out` names"),)
    table = config.library.chosen[paper].tables[name]
    if column.mean_of is not None:
        columns = [table.column(key) for key in column.mean_of]
        return distinct(
            lack for each in columns for lack in cell_lacks(config, paper, name, row, each)
        )
    result = table.result_of(row, column)
    if result is None:
        return (Lack(row.reason or column.reason or "a row of ours"),)
    task, model = result
    lacks = config.tasks[task].lacks_of(model)
    recipe = config.library.tasks[task]
    if column.reason is not None:
        # Either nothing of ours is ever there, or who the patients are must be known.
        patients = recipe.demographics
        lack = Lack(column.reason) if patients is None else config.data.lack(patients)
        return lacks if lack is None else distinct([*lacks, lack])
    if not BENCHMARKS.measures(recipe.benchmark, row.metric_of(column)):
        return (Lack(f"this metric in {task}"),)
    return lacks


def needs(lacking: Iterable[Lacks]) -> list[tuple[int, Lack]]:
    """Count what cells lack, of which one may lack several; most frequent first.

    Each reason comes once, with the lines that give it to all that lack it. What no line of
    configuration gives comes last.
    """
    groups = list(lacking)
    numbers = Counter(lack.reason for lacks in groups for lack in lacks)
    lacks = distinct(lack for lacks in groups for lack in lacks)
    pairs = [(numbers[lack.reason], lack) for lack in lacks]
    return sorted(pairs, key=lambda pair: (not pair[1].lines, -pair[0]))


def count(cells: Sequence[PlannedCell]) -> str:
    """How many cells are made, of all."""
    filled = sum(not cell.lacks for cell in cells)
    return f"{filled} of {len(cells)} {'published cells' if cells[0].published else 'cells'}"


def sentence(cells: Sequence[PlannedCell]) -> str:
    """Count the cells that are made, of all, and say what the others need."""
    return "; ".join(
        [count(cells), *(_need(*need) for need in needs(cell.lacks for cell in cells))]
    )


def _need(number: int, lack: Lack) -> str:
    if not lack.lines:
        return f"{number} cannot be made ({lack.reason})"
    return f"{number} need {lack.passed_on}"


def block(cells: Sequence[PlannedCell]) -> list[str]:
    """The same in lines: the count, and below it each need with all lines that give it."""
    lines = [count(cells)]
    for number, lack in needs(cell.lacks for cell in cells):
        if not lack.lines:
            lines.append(f"  {number} cannot be made: {lack.reason}")
            continue
        lines.append(f"  {number} need {lack.lines[0]}")
        lines += [f"    or {line}" for line in lack.lines[1:]]
    return lines


def table_notes(config: Config, paper: str, table: str) -> list[str]:
    """What a table says of the cells that a line of configuration would make; often nothing."""
    name = table.removeprefix(HEADLINE)
    cells = [cell for cell in planned_cells(config, paper) if cell.table == name]
    if not any(lack.lines for cell in cells for lack in cell.lacks):
        return []
    return [f"{sentence(cells)}."]


def cells_without(config: Config, results: Collection[Result]) -> str:
    """The cells of tables that wait for these results, counted by paper and table; often none."""
    papers = []
    for paper, content in config.library.chosen.items():
        counts = {
            name: sum(
                not {*table.results([s.row.label], [s.column.key], True)}.isdisjoint(results)
                for s in table.spots
            )
            for name, table in content.tables.items()
        }
        tables = [f"{name} {number}" for name, number in counts.items() if number]
        if tables:
            papers.append(f"{paper} {sum(counts.values())} ({', '.join(tables)})")
    return "; ".join(papers)


def require_models(config: Config, papers: Iterable[str]) -> None:
    """Refuse papers that show models that learn, none of which this run makes.

    Raises:
        InputError: with the lines that make them, for the first such paper.
    """
    for paper in papers:
        content = config.library.chosen[paper]
        names = {m for table in content.tables.values() for _, m in table.results() if m}
        learning = [config.models[name] for name in sorted(names) if name in config.models]
        learning = [model for model in learning if model.recipe.kind.learns]
        models = [m for m in learning if not {m.name, paper} & {*config.values.leave_out}]
        if not models or any(model.trainable for model in models):
            continue
        needed = [lack for _, lack in needs(model.lacks for model in models) if lack.lines]
        raise InputError(
            f"none of the {len(models)} models of {paper} that learn can be made; they need "
            f"{' and '.join(lack.remedy for lack in needed)}; or `leave_out: [{paper}]`",
        )


def lines(cells: Sequence[PlannedCell]) -> Iterator[str]:
    """A block a paper, a line a table and a line a row."""
    for paper, of_paper in groupby(cells, key=lambda cell: cell.paper):
        paper_cells = list(of_paper)
        yield f"{paper}: " + "\n".join(block(paper_cells))
        for table, of_table in groupby(paper_cells, key=lambda cell: cell.table):
            table_cells = list(of_table)
            yield f"  {table}: {count(table_cells)}"
            for row, of_row in groupby(table_cells, key=lambda cell: cell.row):
                yield f"    {row}: {sentence(list(of_row))}"


def announcement(config: Config, extents: Mapping[str, str]) -> str:
    """What a run of these papers makes, in their extents: what it says before it starts."""
    text = ["what this run makes (`cxrflow plan` says it by row):"]
    for paper, extent in extents.items():
        cells = planned_cells(config, paper, extent)
        if cells:
            text.append(f"{paper}: " + "\n".join(block(cells)))
    return "\n".join(text)


def write_tsv(cells: Iterable[PlannedCell], file: Path) -> None:
    """Write a line a cell."""
    with atomic_path(file) as partial, partial.open("w", encoding="utf-8", newline="") as output:
        writer = csv.writer(output, delimiter="\t", lineterminator="\n")
        writer.writerow(("paper", "table", "row", "column", "made", "reason", "lines"))
        for cell in cells:
            place = (cell.paper, cell.table, cell.row, cell.column)
            reasons = "; ".join(lack.reason for lack in cell.lacks)
            needed = " and ".join(" or ".join(lack.lines) for lack in cell.lacks if lack.lines)
            writer.writerow((*place, "no" if cell.lacks else "yes", reasons, needed))


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point; see the module's docstring."""
    arguments = parser(__doc__, settings=False)
    add_files(arguments)
    arguments.add_argument("--paper", help="only this one (default: all of `papers:`)")
    arguments.add_argument("--output", type=Path, metavar="FILE", help="TSV, a line a cell")
    options = arguments.parse_args(argv)
    config = load_config(in_order(options.configfile), typed=options.config)
    papers = [options.paper] if options.paper else list(config.library.chosen)
    cells = [cell for paper in papers for cell in planned_cells(config, paper)]
    if options.output is not None:
        write_tsv(cells, options.output)
    print("\n".join(lines(cells)))
    if config.values.extent == "headline":
        papers_cells = [planned_cells(config, paper, "headline") for paper in papers]
        print("with `extent: headline`, as here, a run makes of these:")
        print("\n".join(f"  {each[0].paper}: {count(each)}" for each in papers_cells if each))


if __name__ == "__main__":
    run(main)
