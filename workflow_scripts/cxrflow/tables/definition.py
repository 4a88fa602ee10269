"""What a table of a paper is: rows x columns, published values, and where ours come from.

Read from ``papers/<paper>.yaml``. Published values are kept as written in the paper (text, so that
0.70 stays 0.70), each as ``[value, spread]``; a cell the paper leaves empty is not listed.
"""

from pydantic import Field, ValidationError, field_validator, model_validator

from cxrflow.command import Settings, explain
from cxrflow.errors import InputError
from cxrflow.papers import Column as PaperColumn
from cxrflow.papers import Row as PaperRow
from cxrflow.papers import load_paper


class Column(PaperColumn, extra="forbid"):
    """A column: which metric of which benchmark, and how it is printed."""

    key: str
    label: str
    metric: str = Field(description="name in metrics.json; {vocabulary} becomes the row's")
    scale: float = Field(default=1.0, description="ours are multiplied by this (100: per cent)")
    digits: int = Field(default=3, ge=0, description="decimals of ours")


class Row(PaperRow, extra="forbid"):
    """A row: a model of ours, the published values, or both."""

    label: str
    reason: str | None = Field(default=None, description="why there is no value of ours")
    published: dict[str, list[str | None]] = Field(default_factory=dict)

    @field_validator("published")
    @classmethod
    def _value_and_spread(cls, cells: dict[str, list[str | None]]) -> dict[str, list[str | None]]:
        for key, cell in cells.items():
            if len(cell) != 2 or cell[0] is None:
                raise ValueError(
                    f"'{key}' is {cell}; expected [value, spread or null], both quoted"
                )
        return cells

    @model_validator(mode="after")
    def _ours_or_a_reason(self) -> "Row":
        if self.model is None and self.vocabulary is None and self.reason is None and not self.data:
            raise ValueError(
                f"row '{self.label}' has neither model nor vocabulary nor data nor reason"
            )
        return self


class TableDefinition(Settings):
    """One table of one paper."""

    title: str
    source: str = Field(description="where the published values stand in the paper")
    benchmark: str
    columns: list[Column] = Field(min_length=1)
    rows: list[Row] = Field(min_length=1)
    reference: str | None = Field(
        default=None, description="label of the row that the others are tested against"
    )
    notes: list[str] = Field(default_factory=list, description="printed below the table")

    @model_validator(mode="after")
    def _names_fit(self) -> "TableDefinition":
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
            unknown = sorted(set(row.published) - set(keys))
            if unknown:
                raise ValueError(f"row '{row.label}' has published values for unknown {unknown}")
        for name in (self.reference, *(row.reference for row in self.rows)):
            if name is not None and name not in labels:
                raise ValueError(f"reference '{name}' is no row; expected a row's label")
        return self


def read_table_definition(paper: str, table: str) -> TableDefinition:
    """Read one table of a paper; an InputError names the file and the key that is wrong."""
    tables = load_paper(paper).tables
    if table not in tables:
        raise InputError(f"papers/{paper}.yaml: no table '{table}'; found {sorted(tables)}")
    try:
        return TableDefinition.model_validate(tables[table].model_dump())
    except ValidationError as error:
        raise InputError(explain(error, f"papers/{paper}.yaml, tables.{table}")) from None
