"""Joining a table's definition with results: one cell a (row, column).

Ours are the mean over training seeds with its sample standard deviation. The interval is over test
samples: the mean, over the seeds, of the ends of each seed's bootstrap interval.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from cxrflow.errors import InputError
from cxrflow.files import read_object
from cxrflow.papers.tables import Column, Result, Row, Table
from cxrflow.tables.tests import Tested, Tests

FIELDS = ("benchmark", "model", "seed", "data", "protocol", "metrics")
NOT_RUN = "not run in this configuration"
UNDEFINED = "could not be computed from this data"


@dataclass(frozen=True)
class Cell:
    """Ours and the published value; numbers are in the column's unit, text where it has text."""

    row: str
    column: str
    ours: float | str | None = None
    ours_sd: float | None = None
    low: float | None = None
    high: float | None = None
    seeds: int = 0  # of trainings; data have none
    published: str | None = None
    published_sd: str | None = None
    reason: str | None = None
    tested: Tested | None = None
    by_seed: Mapping[int, float] = field(default_factory=dict)

    @property
    def difference(self) -> float | None:
        """Ours minus published, where both are numbers."""
        if isinstance(self.ours, str) or self.ours is None or self.published is None:
            return None
        try:
            return self.ours - float(self.published)
        except ValueError:
            return None


@dataclass(frozen=True)
class Results:
    """All metrics.json of a table, by task and model."""

    runs: Mapping[tuple[str, str], list[dict[str, Any]]]

    @property
    def synthetic(self) -> bool:
        """Whether they were measured on synthetic data (never a mixture, see read_results)."""
        return any(run["data"].get("synthetic") for runs in self.runs.values() for run in runs)

    @property
    def datasets(self) -> list[str]:
        """Names of the data they were measured on."""
        return sorted({str(run["data"]["name"]) for runs in self.runs.values() for run in runs})

    def of(self, result: Result | None) -> list[dict[str, Any]]:
        """What fills a cell, one a seed; without a model what was measured of the task at all."""
        if result is None:
            return []
        task, model = result
        if model is not None:
            return self.runs.get((task, model), [])
        return [run for (name, _), runs in self.runs.items() if name == task for run in runs]


def read_results(files: Sequence[Path]) -> Results:
    """Read metrics.json files; refuse what must not stand in one table.

    InputError: a field is missing, one seed of a model comes twice, the seeds of a model followed
    different protocols, or synthetic and real data are mixed.
    """
    runs: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    sources: dict[bool, Path] = {}
    for file in files:
        found = read_object(file, FIELDS)
        sources.setdefault(bool(found["data"].get("synthetic")), file)
        if len(sources) == 2:
            raise InputError(
                f"{sources[True]} is on synthetic data and {sources[False]} on real data: "
                "they cannot stand in one table"
            )
        same = runs[str(found.get("task", found["benchmark"])), str(found["model"])]
        for other in same:
            if other["seed"] == found["seed"]:
                raise InputError(f"{file}: seed {found['seed']} of {found['model']} is given twice")
            if other["protocol"] != found["protocol"]:
                raise InputError(
                    f"{file}: field 'protocol' differs from that of seed {other['seed']}; "
                    "expected one protocol for all seeds of a model"
                )
        same.append(found)
    return Results(dict(runs))


def _mean_or_none(values: Sequence[Any]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def make_cell(table: Table, row: Row, column: Column, results: Results) -> Cell:
    """One cell: ours over seeds, the published value, and the reason where ours are missing."""
    published, published_sd = row.published.get(column.key, [None, None])
    cell = Cell(row.label, column.key, published=published, published_sd=published_sd)
    if column.key in row.blank:
        return cell
    name = row.metric_of(column)
    runs = results.of(table.result_of(row, column))
    by_seed = {
        run["seed"]: run["metrics"][name]
        for run in runs
        if run["metrics"].get(name, {}).get("value") is not None
    }
    entries = list(by_seed.values())
    if not entries:
        reason = (
            None if any(name in run["metrics"] for run in runs) else row.reason or column.reason
        )
        wanted = row.model is not None or row.vocabulary is not None or row.data
        if reason is None and wanted:
            reason = UNDEFINED if runs else NOT_RUN
        return replace(cell, reason=reason)
    cell = replace(cell, seeds=0 if row.data else len(entries))
    values = [entry["value"] for entry in entries]
    if isinstance(values[0], str):
        return replace(cell, ours=values[0])
    ends = [_mean_or_none([entry.get(end) for entry in entries]) for end in ("low", "high")]
    low, high = (None if end is None else end * column.scale for end in ends)
    return replace(
        cell,
        ours=fmean(values) * column.scale,
        ours_sd=stdev(values) * column.scale if len(values) > 1 else None,
        low=low,
        high=high,
        by_seed={seed: entry["value"] * column.scale for seed, entry in by_seed.items()},
    )


def make_cells(table: Table, results: Results, tests: Tests | None = None) -> list[Cell]:
    """All cells, row by row, with what was tested against a reference row."""
    known = tests or Tests()
    return [
        replace(make_cell(table, row, column, results), tested=known.of(table, row, column))
        for row in table.rows
        for column in table.columns
    ]
