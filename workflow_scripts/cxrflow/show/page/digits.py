"""How many digits a number has on a page: no more than so many samples can tell apart."""

from math import log10

from cxrflow.papers.table import Column, TableCell
from cxrflow.show.tables.results import Results

# Of fewer samples a score has two digits: one more or less of them moves the second.
FEW_SAMPLES = 100


def of_few(column: Column, count: int) -> Column:
    """A column with no more digits than so many samples can tell apart."""
    digits = 2 if count < FEW_SAMPLES else 3
    digits = max(digits - round(log10(column.scale)), 0)
    return column.model_copy(update={"digits": min(column.digits, digits)})


def measured_on(spot: TableCell, results: Results) -> list[tuple[str, int]]:
    """The data behind a cell, each with its number of samples; a mean has those of its parts."""
    return list(dict.fromkeys(_measured(part, results) for part in spot.parts))


def samples_behind(spot: TableCell, results: Results) -> int:
    """The fewest samples behind a cell."""
    return min(count for _, count in measured_on(spot, results))


def _measured(spot: TableCell, results: Results) -> tuple[str, int]:
    runs = results.of(spot.result)
    behind = next(
        entry["n"]
        for entry in (run["metrics"].get(spot.metric, {}) for run in runs)
        if entry.get("value") is not None  # a seed may lack it
    )
    return runs[0]["data"]["name"], behind
