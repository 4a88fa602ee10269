"""Tables of a paper: rows x columns, published values, and the tasks and models behind ours.

Read from ``papers/<paper>.yaml``. Published values are kept as the paper prints them (text, so that
0.70 stays 0.70): ``"0.70"``, or ``["0.70", "0.02"]`` with its spread; a cell that the paper leaves
empty is not listed. A cell of ours is a metric of a *task* (a benchmark on a cohort) and a model.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple, Self

from pydantic import Field, PrivateAttr, field_validator, model_validator

from cxr_files.settings import Settings
from cxrflow.benchmarks.settings import PairedComparison
from cxrflow.names import Name, is_reference, name_of_share

# Tables cut to a paper's headline have a folder of their own.
HEADLINE = "headline/"
CEILING = "Ceiling: "  # before the label of a row that must succeed
#: Behind the label of what is, or starts from, a stand-in: a model trained here in the place of
#: published weights. Which these are follows from a run (``ResolvedModel.stand_ins``).
STAND_IN = " (stand-in here)"


def stand_in_label(label: str, has_stand_in: object) -> str:
    """A label, with the word where what it names has a stand-in."""
    return f"{label}{STAND_IN}" if has_stand_in else label


def weights_in_words(stand_ins: Iterable[str]) -> str:
    """The weights that there are stand-ins of, each once, joined by "and"."""
    names = (name for text in stand_ins if text for name in text.split(" and "))
    return " and ".join(dict.fromkeys(names))


Result = tuple[str, str | None]  # task and model; None: of the data or vocabularies themselves


class Column(Settings):
    """A column: which metric of which task, and how it is printed."""

    key: str
    label: str
    metric: str | None = Field(
        None, description="name in metrics.json; {vocabulary} becomes the row's"
    )
    mean_of: list[str] | None = Field(
        None,
        min_length=2,
        description="keys of the columns whose mean it shows, in place of a metric",
    )
    task: Name | None = Field(None, description="where it is not the row's or the table's")
    pairs: float | None = Field(
        None, description="per cent of the training pairs: which of a model's `shares` is meant"
    )
    reason: str | None = Field(None, description="why ours are missing in every row")
    scale: float = Field(1.0, description="ours are multiplied by this (100: per cent)")
    digits: int = Field(3, ge=0, description="decimals of ours")

    @model_validator(mode="after")
    def _a_metric_or_a_mean(self) -> Self:
        if (self.metric is None) == (self.mean_of is None):
            raise ValueError(f"column '{self.key}': expected either metric or mean_of")
        return self

    @property
    def of_vocabularies(self) -> bool:
        """True if it reads the comparison of all vocabularies instead of a model's results."""
        return "{vocabulary}" in (self.metric or "")


class Row(Settings):
    """A row: a model of ours, the published values, or both."""

    label: str
    kind: Literal["external"] | None = Field(
        None, description="external: its models were run elsewhere, and are scored from files"
    )
    model: Name | None = Field(None, description="our model of this row, or an external one")
    models: dict[str, Name] = Field(
        default_factory=dict, description="other models of ours, by the key of their column"
    )
    pairs: float | None = Field(
        None, description="per cent of the training pairs, where the columns do not say it"
    )
    task: Name | None = Field(None, description="where it is not the table's")
    vocabulary: str | None = Field(None, description="our vocabulary of this row")
    data: bool = Field(False, description="measured on the data themselves, without a model")
    share: str | None = Field(
        None, description="labels of a probe, in per cent: <metric>/10, <metric>/10/<class>"
    )
    variant: str | None = Field(None, description="part of a task: <metric>/<variant>")
    reference: str | None = Field(None, description="row to compare with, if not the table's")
    blank: list[str] = Field(default_factory=list, description="columns without meaning here")
    ceiling: bool = Field(False, description="a row that must succeed; no model is ranked with it")
    reason: str | None = Field(None, description="why there is no value of ours")
    published: dict[str, list[str | None]] = Field(default_factory=dict)

    @property
    def key(self) -> str:
        """The label by which claims, figures and headlines name it, whatever it starts from."""
        return self.label.removesuffix(STAND_IN)

    @property
    def is_external(self) -> bool:
        """True of a row whose models were run elsewhere, shown below the paper's rows."""
        return self.kind == "external"

    @property
    def is_reference(self) -> bool:
        """True of a row that has learnt nothing: not the paper's, shown below its rows."""
        return is_reference(self.model)

    @property
    def is_baseline(self) -> bool:
        """True of a row that has learnt nothing and that a model should be above."""
        return self.is_reference and not self.ceiling

    @field_validator("published", mode="before")
    @classmethod
    def _value_and_spread(cls, cells: Any) -> Any:
        if not isinstance(cells, Mapping):
            return cells
        pairs = {
            key: [cell, None] if isinstance(cell, str) else cell for key, cell in cells.items()
        }
        for key, cell in pairs.items():
            if not isinstance(cell, list) or len(cell) != 2 or not isinstance(cell[0], str):
                raise ValueError(f"'{key}' is {cell}; expected a value or [value, spread], quoted")
        return pairs

    @property
    def named(self) -> list[str]:
        """The models of all its columns."""
        return [name for name in (self.model, *self.models.values()) if name is not None]

    @model_validator(mode="after")
    def _ours_or_a_reason(self) -> Self:
        if self.model is None and self.vocabulary is None and self.reason is None and not self.data:
            raise ValueError(f"row '{self.label}' has neither model, vocabulary, data nor reason")
        if self.ceiling != self.label.startswith(CEILING):
            raise ValueError(f"row '{self.label}': 'ceiling' must go with a label “{CEILING}…”")
        return self

    def metric_of(self, column: Column) -> str:
        """The name in metrics.json that a cell of this row reads."""
        metric, *rest = (column.metric or "").format(vocabulary=self.vocabulary or "").split("/")
        return "/".join(filter(None, (metric, self.share, *rest, self.variant)))


class Table(Settings):
    """A table of a paper."""

    title: str
    source: str = Field(description="where in the paper the published values are")
    task: Name
    columns: list[Column] = Field(min_length=1)
    rows: list[Row] = Field(min_length=1)
    reference: str | None = Field(
        None, description="label of the row that the others are tested against"
    )
    notes: list[str] = Field(default_factory=list, description="printed below the table")
    _same: Mapping[str, str] = PrivateAttr(default_factory=dict)
    _stand_ins: Mapping[str, str] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _names_fit(self) -> Self:
        keys = [column.key for column in self.columns]
        labels = [row.label for row in self.rows]
        for kind, names in (("column key", keys), ("row label", labels)):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"{kind} {twice} stands more than once")
        for row in self.rows:
            wrong = sorted(set(row.blank) - set(keys))
            if wrong or set(row.blank) & set(row.published):
                raise ValueError(f"row '{row.label}': 'blank' has unknown or published columns")
            unknown = sorted({*row.published, *row.models} - set(keys))
            if unknown:
                raise ValueError(f"row '{row.label}' has values or models for unknown {unknown}")
        for name in (self.reference, *(row.reference for row in self.rows)):
            if name is not None and name not in labels:
                raise ValueError(f"reference '{name}' is no row; expected a row's label")
        measured = [column.key for column in self.columns if column.mean_of is None]
        for column in self.columns:
            strange = [key for key in column.mean_of or () if key not in measured]
            if strange:
                raise ValueError(
                    f"column '{column.key}': mean_of names '{strange[0]}'; expected keys of "
                    f"columns with a metric, {', '.join(measured)}"
                )
        return self

    def row(self, label: str) -> Row:
        """The row with this label."""
        return next(row for row in self.rows if row.key == label)

    def column(self, key: str) -> Column:
        """The column with this key."""
        return next(column for column in self.columns if column.key == key)

    def task_of(self, row: Row, column: Column) -> str:
        """The task that fills a cell."""
        return column.task or row.task or self.task

    def model_of(self, row: Row, column: Column) -> str | None:
        """The model of a cell: the row's, or another of this column, of the share it names."""
        model = row.models.get(column.key, row.model)
        share = column.pairs if row.pairs is None else row.pairs
        if model is None:
            return None
        if share is not None and not row.is_external and not is_reference(model):
            model = name_of_share(model, share)
        return self._same.get(model, model)

    def with_models(self, same: Mapping[str, str], stand_ins: Mapping[str, str]) -> Self:
        """This table with the models of a run, and the word for stand-ins in labels of rows.

        ``same``: by a model the one whose training it is. ``stand_ins``: by a model, or the short
        name of a vocabulary, the weights that it has stand-ins of.
        """
        table = self.model_copy()
        table._same, table._stand_ins = same, stand_ins
        rows = [
            row.model_copy(update={"label": stand_in_label(row.key, table.stand_ins_of(row))})
            for row in self.rows
        ]
        return table.model_copy(update={"rows": rows})

    def stand_ins_of(self, row: Row, column: Column | None = None) -> str:
        """Of what weights a cell, or any of a row, has stand-ins, in words; empty without any."""
        columns = self.columns if column is None else [column]
        names = [self.model_of(row, each) for each in columns if each.key not in row.blank]
        names += [row.vocabulary] if row.model is None else []
        return weights_in_words(self._stand_ins.get(name or "", "") for name in names)

    @property
    def spots(self) -> "list[TableCell]":
        """All its cells, row by row."""
        return [TableCell(self, row, column) for row in self.rows for column in self.columns]

    def cell(self, place: "Address") -> "TableCell":
        """The cell at an address."""
        return TableCell(self, self.row(place.row), self.column(place.column))

    def result_of(self, row: Row, column: Column) -> Result | None:
        """The result that a cell reads; None where nothing of ours can fill it."""
        if row.data or (column.of_vocabularies and row.vocabulary is not None):
            return self.task_of(row, column), None
        model = self.model_of(row, column)
        if model is None or column.of_vocabularies or column.mean_of is not None:
            return None
        return self.task_of(row, column), model

    def results(
        self,
        rows: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        with_references: bool = False,
    ) -> list[Result]:
        """Each (task, model) that fills a cell of these rows and columns (None: of all), once.

        A mean is filled by its columns. With ``with_references`` the rows that have learnt nothing
        are among them.
        """
        if columns is not None:
            means = [self.column(key).mean_of or () for key in columns]
            columns = [*columns, *(key for keys in means for key in keys)]
        results = dict.fromkeys(
            spot.result
            for spot in self.spots
            if rows is None or spot.row.key in rows or (with_references and spot.row.is_reference)
            if columns is None or spot.column.key in columns
            if spot.column.reason is None and not spot.is_blank
        )
        return [result for result in results if result is not None]

    def reference_of(self, row: Row) -> Row | None:
        """The row that a row is tested against, if any."""
        name = row.reference or self.reference
        return None if name is None else self.row(name)

    def pairs(self) -> list["TestedPair"]:
        """Pair each row's cells with those of its reference row; a ceiling is not tested."""
        return [
            (spot, spot._replace(row=reference), None, None)
            for spot in self.spots
            if not spot.row.ceiling and (reference := self.reference_of(spot.row))
        ]


class TableCell(NamedTuple):
    """A cell: its table, row and column."""

    table: Table
    row: Row
    column: Column

    @property
    def metric(self) -> str:
        """The name in metrics.json that it reads."""
        return self.row.metric_of(self.column)

    @property
    def model(self) -> str | None:
        """The model behind it."""
        return self.table.model_of(self.row, self.column)

    @property
    def is_blank(self) -> bool:
        """True where its column has no meaning in its row."""
        return self.column.key in self.row.blank

    @property
    def parts(self) -> list["TableCell"]:
        """The cells that it is the mean of; itself if it is none."""
        keys = self.column.mean_of or [self.column.key]
        return [self._replace(column=self.table.column(key)) for key in keys]

    @property
    def result(self) -> Result | None:
        """The result that it reads; None where nothing of ours can fill it."""
        return self.table.result_of(self.row, self.column)

    def against(
        self, reference: "TableCell", margin: float | None = None, factor: float | None = None
    ) -> PairedComparison | None:
        """With another cell, times ``factor``; None where not both are a model's, in one unit.

        They are of one task; with a ``margin``, in the column's unit, they may be of two.
        """
        if any(cell.is_blank or cell.column.reason is not None for cell in (self, reference)):
            return None
        result, reference_result = self.result, reference.result
        if result is None or reference_result is None:
            return None
        (task, model), (reference_task, reference_model) = result, reference_result
        if margin is None and task != reference_task:
            return None
        if model is None or reference_model is None:
            return None
        if self.column.scale != reference.column.scale:
            return None
        compared = PairedComparison(
            task=task,
            model=model,
            metric=self.metric,
            reference_model=reference_model,
            reference_metric=reference.metric,
            reference_task=None if task == reference_task else reference_task,
            margin=None if margin is None else margin / abs(self.column.scale),
            factor=factor,
        )
        same = compared.metric == compared.reference_metric and result == reference_result
        return None if same else compared


# Two cells, and of a claim the margin within which they are equal, or the factor of the second.
TestedPair = tuple[TableCell, TableCell, float | None, float | None]


def comparisons(pairs: Iterable[TestedPair]) -> list[PairedComparison]:
    """The paired tests of these cells in order; a pair that comes twice, either way round, once."""
    tested: list[PairedComparison] = []
    for spot, reference, margin, factor in pairs:
        compared = spot.against(reference, margin, factor)
        turned = reference.against(spot, margin) if factor is None else None
        if compared and not {compared, turned} & {*tested}:
            tested.append(compared)
    return tested


class Headline(Settings):
    """The rows and columns of a table that ``extent: headline`` makes."""

    table: str
    rows: list[str] | None = Field(None, description="labels of rows; null: all")
    columns: list[str] | None = Field(None, description="keys of columns; null: all")


class Address(NamedTuple):
    """A cell by the names of its table, row and column."""

    table: str
    row: str
    column: str


def cells_of(tables: Mapping[str, Table], headline: Sequence[Headline] | None) -> list[Result]:
    """Each (task, model) that fills a cell of the tables, or with ``headline`` of its cells, once.

    What the headline makes may fill cells of other rows and tables as well.
    """
    if headline is None:
        headline = [Headline(table=name) for name in tables]
    results = (tables[cut.table].results(cut.rows, cut.columns, True) for cut in headline)
    return list(dict.fromkeys(chain.from_iterable(results)))
