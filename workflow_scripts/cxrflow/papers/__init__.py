"""Papers as data: ``papers/<paper>.yaml`` holds a paper's models, its tables and its figures.

A *model* is a recipe (settings with the paper's values, each with its section as a comment) and
what it is made from: an earlier model it starts from, a vocabulary, a role of the data. A *table*
is rows x columns with the published values, a *figure* columns of models and a rule that chooses
its examples. ``papers/scales/<scale>.yaml`` overlays sizes on the
recipes; it never changes a method.
"""

from functools import cache
from importlib import resources
from typing import Any, Literal, Self

import yaml
from pydantic import Field, ValidationError, model_validator

from cxrflow.benchmarks.grounding.settings import GroundingFigureSettings
from cxrflow.benchmarks.settings import PairedComparison
from cxrflow.command import Settings, SettingsT, explain
from cxrflow.encoders.released.settings import PROGRAMS, Kind
from cxrflow.errors import InputError

Program = Literal["text", "image", "joint"]


class Recipe(Settings):
    """One model of a paper."""

    program: Program = Field(description="which training program makes it: cxrflow.pretrain.*")
    start: str | None = Field(None, description="text program: model whose weights it goes on from")
    text: str | None = Field(None, description="joint program: the text model")
    image: str | None = Field(None, description="joint program: the image model")
    vocabulary: str | None = Field(None, description="text program: its tokenizer")
    corpora: list[Literal["pubmed", "mimic_iii", "reports"]] = Field(
        default_factory=list,
        description="text program: train on these, packed: data sets of the role `corpora` by "
        "their layout, and the reports",
    )
    pairs: str | None = Field(None, description="role of the cohort whose pairs it is trained on")
    grounding: str = Field(
        "grounding", description="role of the cohort whose phrases it grounds: images of its kind"
    )
    seeds: Literal["shared", "each"] = Field(
        "shared", description="one run for all seeds (the first one's), or one run a seed"
    )
    control: bool = Field(False, description="a control: made by the target `controls` only")
    settings: dict[str, Any] = Field(default_factory=dict, description="what differs from defaults")
    weights: Kind | None = Field(
        None, description="kind of published weights that can stand for it (docs/weights.md)"
    )

    @model_validator(mode="after")
    def _weights_do_what_the_program_does(self) -> Self:
        if self.weights is not None and PROGRAMS[self.weights] != self.program:
            raise ValueError(
                f"weights is '{self.weights}', which stands for a model of the program "
                f"{PROGRAMS[self.weights]}, but program is '{self.program}'"
            )
        return self

    @property
    def parents(self) -> dict[str, str]:
        """The models this one is made from, by the option of the program that takes them."""
        named = {"start": self.start, "text": self.text, "image": self.image}
        return {option: model for option, model in named.items() if model is not None}


class Column(Settings, extra="allow"):
    """A column of a table, as far as the workflow must know it."""

    key: str = ""
    metric: str = Field("", description="name in metrics.json; {vocabulary} becomes the row's")
    benchmark: str | None = Field(None, description="where it is not the table's")
    reason: str | None = Field(None, description="why ours are missing in every row")


class Row(Settings, extra="allow"):
    """A row of a table, as far as the workflow must know it."""

    label: str = ""
    model: str | None = Field(None, description="our model of this row")
    benchmark: str | None = Field(None, description="where it is not the table's")
    vocabulary: str | None = Field(None, description="our vocabulary of this row")
    data: bool = Field(False, description="measured on the data themselves, without a model")
    share: str | None = Field(None, description="labels of a probe, in per cent: <metric>/10")
    variant: str | None = Field(None, description="part of a benchmark: <metric>/<variant>")
    reference: str | None = Field(None, description="row to compare with, if not the table's")
    blank: list[str] = Field(default_factory=list, description="columns without meaning here")

    def metric_of(self, column: "Column") -> str:
        """The name in metrics.json that a cell of this row reads."""
        name = column.metric.format(vocabulary=self.vocabulary or "")
        return "/".join(part for part in (name, self.share, self.variant) if part is not None)


class Table(Settings, extra="allow"):
    """A table, as far as the workflow must know it; :mod:`cxrflow.tables.tables` reads the rest."""

    title: str
    benchmark: str
    columns: list[Column] = Field(default_factory=list)
    rows: list[Row] = Field(default_factory=list)
    reference: str | None = Field(None, description="label of the row that others are tested with")

    def benchmark_of(self, row: Row, column: Column) -> str:
        """The benchmark that fills a cell."""
        return column.benchmark or row.benchmark or self.benchmark

    def comparisons(self) -> list[PairedComparison]:
        """Each cell of ours that has a reference of ours from the same benchmark, in order."""
        by_label = {row.label: row for row in self.rows}
        found: dict[tuple[str, ...], PairedComparison] = {}
        for row in self.rows:
            other = by_label.get(row.reference or self.reference or "")
            if other is None or other.model is None or row.model is None:
                continue
            for column in self.columns:
                benchmark = self.benchmark_of(row, column)
                if benchmark != self.benchmark_of(other, column) or column.reason is not None:
                    continue
                if column.key in (*row.blank, *other.blank):
                    continue
                made = PairedComparison(
                    benchmark=benchmark,
                    model=row.model,
                    metric=row.metric_of(column),
                    reference_model=other.model,
                    reference_metric=other.metric_of(column),
                )
                if (made.model, made.metric) != (made.reference_model, made.reference_metric):
                    found[tuple(made.model_dump().values())] = made
        return list(found.values())

    def cells(self) -> list[tuple[str, str | None]]:
        """Each (benchmark, model) that fills a cell, once; vocabularies and data need no model."""
        found: dict[tuple[str, str | None], None] = {}
        for row in self.rows:
            for column in self.columns:
                benchmark = self.benchmark_of(row, column)
                if column.reason is not None:
                    continue
                if row.data or (benchmark == "vocabulary" and row.vocabulary is not None):
                    found[benchmark, None] = None
                elif benchmark != "vocabulary" and row.model is not None:
                    found[benchmark, row.model] = None
        return list(found)


class Ordering(Settings):
    """An order that the paper claims: cells of one column, best first."""

    claim: str = Field(description="in words")
    table: str
    column: str = Field(description="key of the column")
    rows: list[str] = Field(min_length=2, description="labels of the rows, best first")


class Paper(Settings, extra="allow"):
    """A paper's models, tables, the orders it claims in them, and figures."""

    models: dict[str, Recipe] = Field(default_factory=dict)
    tables: dict[str, Table] = Field(default_factory=dict)
    orderings: list[Ordering] = Field(default_factory=list)
    figures: dict[str, GroundingFigureSettings] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _orderings_name_cells(self) -> Self:
        for one in self.orderings:
            table = self.tables.get(one.table)
            if table is None:
                raise ValueError(f"orderings: '{one.claim}' names no table '{one.table}'")
            labels = [row.label for row in table.rows]
            wrong = sorted({*one.rows} - {*labels})
            if one.column not in [column.key for column in table.columns] or wrong:
                raise ValueError(
                    f"orderings: '{one.claim}' names what {one.table} has not: "
                    f"{', '.join(wrong) or one.column}"
                )
        return self


class Scale(Settings):
    """Sizes laid over recipes: first by program, then by model."""

    programs: dict[Program, dict[str, Any]] = Field(default_factory=dict)
    models: dict[str, dict[str, Any]] = Field(default_factory=dict)


def paper_names() -> list[str]:
    """The papers that can be named in ``papers:`` of the configuration."""
    return _names("")


def scale_names() -> list[str]:
    """The scales that can be named in ``scale:`` of the configuration."""
    return _names("scales")


@cache
def load_paper(name: str) -> Paper:
    """Read ``papers/<name>.yaml``."""
    return _read(Paper, f"{name}.yaml")


@cache
def load_scale(name: str) -> Scale:
    """Read ``papers/scales/<name>.yaml``."""
    return _read(Scale, f"scales/{name}.yaml")


def _names(folder: str) -> list[str]:
    files = resources.files(__name__).joinpath(folder).iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


def _read(kind: type[SettingsT], file: str) -> SettingsT:
    text = resources.files(__name__).joinpath(file).read_text(encoding="utf-8")
    try:
        # libyaml is ten times faster; every job of the workflow reads these files.
        return kind.model_validate(yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except yaml.YAMLError as error:
        raise InputError(f"papers/{file}: not valid YAML ({error})") from None
    except ValidationError as error:
        raise InputError(explain(error, f"papers/{file}")) from None
