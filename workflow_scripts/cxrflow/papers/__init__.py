"""Papers as data: ``papers/<paper>.yaml`` holds all that a paper says, and nothing repeats it.

*Cohorts* (which studies, which split), *vocabularies*, *models* (recipes with the paper's values,
each with its section as a comment), *external* models (run elsewhere, and scored from files),
*tasks* (a benchmark on a cohort), *tables* with the published values, the *orderings* claimed in
them, rows *beside* those of another paper's tables, *figures*, the *headline*: what the
demonstration makes.
Names belong to their paper (:mod:`cxrflow.names`). A file of the user's own is a paper too. An
entry may start from another, of its file or of another paper (``extends: biovil/table5``), and
stand for several by ``vary`` (:mod:`cxrflow.papers.entries`).
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, ValidationError, model_validator

from cxr_files.errors import InputError
from cxr_files.settings import Settings, problem
from cxr_files.yaml_file import read_yaml
from cxrflow.benchmarks.settings import PairedComparison
from cxrflow.names import Name, ShortName, paper_of, short_name
from cxrflow.papers.claims import Lead, Ordering
from cxrflow.papers.entries import Entries, Overlay
from cxrflow.papers.figures import BarsFigure, CurveFigure, Figure, with_stand_ins
from cxrflow.papers.recipes import CohortRecipe, ExternalModel, Recipe, Task, VocabularyRecipe
from cxrflow.papers.table import Address, Headline, Row, Table, TableCell, comparisons


def check_places(
    key: str,
    tables: Mapping[str, Table],
    table: str,
    rows: Sequence[str],
    columns: Sequence[str],
) -> None:
    """ValueError beginning with ``key`` where there are no such table, rows and columns."""
    if table not in tables:
        raise ValueError(f"{key}: no table '{table}'; there are {', '.join(tables) or 'none'}")
    labels = [row.key for row in tables[table].rows]
    keys = [column.key for column in tables[table].columns]
    wrong = sorted({*rows} - {*labels}) + sorted({*columns} - {*keys})
    if wrong:
        raise ValueError(f"{key}: {table} has not: {', '.join(wrong)}")


def with_rows(table: Table, others: Iterable[Row]) -> Table:
    """A table with rows of another paper, each behind the row whose label it begins with.

    Others stand behind the last row with a published value. ValueError: one does not fit.
    """
    rows = list(table.rows)
    for row in others:
        alike = [n for n, each in enumerate(rows) if row.label.startswith(each.label)]
        published = [n for n, each in enumerate(rows) if each.published]
        rows.insert(1 + max(alike or published or [len(rows) - 1]), row)
    return Table.model_validate({**dict(table), "rows": rows})


class Paper(Settings):
    """A paper. The names of models, tasks and cohorts in it are full names: ``paper/name``."""

    name: ShortName
    title: str = Field("", description="what it is, with authors and year")
    runs: dict[str, Annotated[int, Field(ge=1)]] = Field(
        default_factory=dict,
        description="how many runs, each with a seed of its own, the authors made at a scale: one "
        "where it is not named",
    )
    cohorts: dict[ShortName, CohortRecipe] = Field(default_factory=dict)
    vocabularies: dict[ShortName, VocabularyRecipe] = Field(default_factory=dict)
    models: dict[ShortName, Recipe] = Field(default_factory=dict)
    external: dict[ShortName, ExternalModel] = Field(default_factory=dict)
    tasks: dict[ShortName, Task] = Field(default_factory=dict)
    tables: dict[ShortName, Table] = Field(default_factory=dict)
    beside: dict[Name, list[Row]] = Field(
        default_factory=dict,
        description="rows that stand in tables of other papers, by paper/table, where a run has "
        "both papers: each behind the row whose label its own begins with",
    )
    orderings: list[Ordering] = Field(default_factory=list)
    headline: list[Headline] = Field(default_factory=list)
    leads: list[Lead] = Field(default_factory=list, description="numbers that a page begins with")
    figures: dict[ShortName, Figure] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _places_are_there(self) -> Self:
        for name in self.external.keys() & self.models.keys():
            raise ValueError(f"external: '{name}' is the name of a model; expected another")
        named: list[tuple[str, Sequence[Address | Lead]]] = [("leads", self.leads)]
        named += [(f"orderings: '{claim.claim}'", claim.addresses()) for claim in self.orderings]
        for name, figure in self.figures.items():
            if isinstance(figure, CurveFigure | BarsFigure):
                named.append((f"figures.{name}", figure.addresses()))
        for key, places in named:
            for place in places:
                check_places(key, self.tables, place.table, [place.row], [place.column])
        for cut in self.headline:
            check_places("headline", self.tables, cut.table, cut.rows or [], cut.columns or [])
        return self

    def with_rows_of(self, others: Iterable["Paper"]) -> Self:
        """This paper with the rows that others have beside those of its tables.

        Raises:
            ValueError: a table is not there, or a row does not fit it.
        """
        tables = dict(self.tables)
        for other in others:
            for name, rows in other.beside.items():
                if paper_of(name) == self.name:
                    key = f"{other.name}: beside.{name}"
                    check_places(key, tables, short_name(name), [], [])
                    tables[short_name(name)] = with_rows(tables[short_name(name)], rows)
        return self.model_copy(update={"tables": tables})

    def with_models(self, same: Mapping[str, str], stand_ins: Mapping[str, str]) -> Self:
        """This paper with the models of a run (:meth:`cxrflow.papers.table.Table.with_models`)."""
        tables = {name: each.with_models(same, stand_ins) for name, each in self.tables.items()}
        figures = {n: with_stand_ins(f, tables, stand_ins) for n, f in self.figures.items()}
        return self.model_copy(update={"tables": tables, "figures": figures})

    def comparisons(self, table: str) -> list[PairedComparison]:
        """The paired tests of a table: its own, and those that claims in it are judged by."""
        pairs = self.tables[table].pairs()
        for claim in self.orderings:
            if claim.table == table:
                neighbours = pairwise(claim.places())
                pairs += [
                    (self.spot(better), self.spot(worse), claim.margin, claim.factor)
                    for better, worse in neighbours
                    if isinstance(better, Address) and isinstance(worse, Address)
                ]
        return comparisons(pairs)

    def spot(self, place: Address) -> TableCell:
        """The table, row and column of a place."""
        return self.tables[place.table].cell(place)


@cache
def paper_names() -> tuple[str, ...]:
    """The papers of this package."""
    names = [file.name for file in resources.files(__name__).iterdir()]
    return tuple(sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml")))


@cache
def paper_file(source: str) -> Path:
    """The YAML file of a paper: one of ours by its name, or the path of a user's own."""
    if source.endswith((".yaml", ".yml")):
        return Path(source)
    if source not in paper_names():
        raise InputError(
            f"'{source}' is not known; there are {', '.join(paper_names())}, or give the "
            "path of a YAML file"
        )
    return Path(str(resources.files(__name__).joinpath(f"{source}.yaml")))


_LOADING: set[Path] = set()  # the files of papers that are being read


@cache
def load_paper(source: str) -> Paper:
    """Read a paper by its name, or from a YAML file, whose name without ending is the paper's."""
    file = paper_file(source)
    name = file.stem
    ours = file.parent.name == "papers" and source == name
    if not ours and name in paper_names():
        raise InputError(f"{file}: a paper of ours is called '{name}'; give the file another name")
    entries = paper_entries(file)
    tables = entries.values.get("tables")
    # A paper that names no headline is its own.
    headline = [{"table": table} for table in tables] if isinstance(tables, dict) else []
    values = {"name": name, "headline": headline, **entries.values}
    try:
        return Paper.model_validate(values, context={"paper": name})
    except ValidationError as error:
        places = ((item, *entries.place(item["loc"])) for item in error.errors())
        lines = dict.fromkeys(problem(item, str(path), key) for item, path, key in places)
        raise InputError("\n".join(lines)) from None


@cache
def paper_entries(file: Path) -> Entries:
    """The entries of a paper's file, each with what it extends."""

    def foreign_entry(kind: str, paper: str, name: str) -> Overlay | None:
        beside = file.parent / f"{paper}.yaml"  # a user's own, where it is none of ours
        source = paper if paper in paper_names() or not beside.is_file() else str(beside)
        base = getattr(load_paper(source), kind).get(name)
        if base is None:
            return None
        below = paper_entries(paper_file(source))
        values = below.as_base(kind, name, base.model_dump(exclude_unset=True))
        return Overlay(values, (kind, name), below)

    if file in _LOADING:
        raise InputError(f"{file}: extends itself, alone or by way of another paper")
    _LOADING.add(file)
    try:
        return Entries(file, read_yaml(file), foreign_entry)
    finally:
        _LOADING.discard(file)
