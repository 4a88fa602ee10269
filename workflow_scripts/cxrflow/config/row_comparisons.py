"""Which cells of a table are tested against its reference row in a run."""

from typing import TYPE_CHECKING

from cxrflow.benchmarks.settings import PairedComparison
from cxrflow.config.benchmarks import PAIRED_BENCHMARKS
from cxrflow.papers import load_paper

if TYPE_CHECKING:
    from cxrflow.config.schema import Config


def row_comparisons(config: "Config", paper: str, table: str) -> list[PairedComparison]:
    """The comparisons of a table of which this run measures both sides, in the table's order."""
    measured = set(config.table_cells(paper, table))
    return [
        one
        for one in load_paper(paper).comparisons(table)
        if one.task in PAIRED_BENCHMARKS
        and {(one.task, one.model), (one.task, one.reference_model)} <= measured
    ]
