"""What is said of a paper's cells: rankings (docs/inference.md), numbers that head a page."""

from typing import Self

from pydantic import Field, model_validator

from cxr_files.settings import Settings
from cxrflow.papers.table import Address


class PartialAddress(Settings):
    """A cell in a claim or a figure, which give the table and column that are missing here."""

    row: str
    column: str | None = Field(None, description="key of the column")
    table: str | None = None


def address(place: str | PartialAddress, table: str, column: str) -> Address:
    """Complete the address of a cell given by its row's label, or by more."""
    if isinstance(place, str):
        return Address(table, place, column)
    return Address(place.table or table, place.row, place.column or column)


class Ordering(Settings):
    """A ranking that the paper claims: cells, best first, each against the next one.

    With a ``margin`` it claims that they are equivalent: that neighbours differ by less. With a
    ``factor``, that each is above so much of the next one.
    """

    claim: str = Field(description="in words")
    ours: bool = Field(False, description="of ours, and no claim of the paper")
    table: str
    column: str = Field(description="key of the column")
    rows: list[str | float | PartialAddress] = Field(
        min_length=2,
        description="best first: labels of rows, cells of other columns or tables, or numbers",
    )
    smaller: bool = Field(False, description="smaller values are better")
    margin: float | None = Field(
        None,
        gt=0,
        description="in the column's unit, stated beforehand: neighbours are equivalent if their "
        "difference is surely within ± this (two one-sided tests)",
    )
    factor: float | None = Field(None, gt=0, description="each is above the next one times this")

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.factor is not None and (self.margin is not None or self.smaller):
            raise ValueError("factor is of values of which more is better; expected no more keys")
        return self

    @property
    def title(self) -> str:
        """The claim in words; of one of ours it says so."""
        return f"Ours, which the paper does not claim: {self.claim}" if self.ours else self.claim

    def gain(self, better: float, worse: float) -> float:
        """The difference in the direction of the claim: above 0 if ``better`` is better."""
        worse *= self.factor or 1.0
        return worse - better if self.smaller else better - worse

    def places(self) -> list[Address | float]:
        """The addresses of the cells, best first; a number stays a number."""
        return [
            row if isinstance(row, float) else address(row, self.table, self.column)
            for row in self.rows
        ]

    def addresses(self) -> list[Address]:
        """The cells it names."""
        return [place for place in self.places() if isinstance(place, Address)]


class Lead(Settings):
    """A cell that a page begins with, and its explanation."""

    table: str
    row: str
    column: str
    label: str
    meaning: str = ""
