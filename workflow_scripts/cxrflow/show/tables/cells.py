"""The cells of a table: its definition joined with results, a cell a row and column.

Ours are the mean over training seeds with its sample standard deviation. The interval of one
training is over test samples, or over what its protocol says (``interval_over``); that of several
is over seeds and samples (docs/inference.md), or over seeds alone where a benchmark's metrics do
not follow from its predictions. A mean of columns has one over seeds alone, too.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, stdev

from cxrflow.kinds import MARK
from cxrflow.metrics.crossed import over_trainings
from cxrflow.metrics.record import Over, possible_part
from cxrflow.papers.table import Table, TableCell
from cxrflow.show.tables.results import NOT_RUN, Results
from cxrflow.show.tables.tests import Tested, Tests

UNDEFINED = "could not be computed from this data"
REHEARSED = "rehearsed"  # in the place of a number that is of a slice of the data
LACKING = "its results lack this metric"
SMALLER = ("median_rank", "cross_entropy", "wrong")  # metrics whose smaller values are better
LEVEL = 0.95  # where a protocol states none
COUNTS = ("positives", "negatives", "least_positives", "least_negatives")  # least: of a mean
PATIENTS = ("positive_patients", "negative_patients")
ESTIMATE = ("value", "low", "high", "n")  # all else of a metric counts what is behind it


@dataclass(frozen=True)
class Cell:
    """Ours and the published value; numbers are in the column's unit, text where it has text."""

    row: str
    column: str
    ours: float | str | None = None
    ours_sd: float | None = None
    low: float | None = None
    high: float | None = None
    over: Over = "samples"  # what the interval is of
    level: float = LEVEL  # of the interval
    seeds: int = 0  # of trainings, or random starts; none of data, published weights, references
    unlearnt: int = 0  # trainings that have not learnt
    above: bool = False  # its interval lies beyond the best baseline without learning
    published: str | None = None
    published_sd: str | None = None
    reason: str | None = None
    tested: Tested | None = None
    by_seed: Mapping[int, float] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)  # of positives, boxes, candidates, …

    @property
    def to_find(self) -> dict[str, int]:
        """What else than positives and negatives is counted behind it, by name."""
        return {name: count for name, count in self.counts.items() if name not in COUNTS}

    @property
    def difference(self) -> float | None:
        """Ours minus published, where both are numbers."""
        if isinstance(self.ours, str) or self.ours is None or self.published is None:
            return None
        try:
            return self.ours - float(self.published)
        except ValueError:
            return None


def make_cell(spot: TableCell, results: Results, tests: Tests | None = None) -> Cell:
    """Make a cell: ours over seeds, the published value, and the reason if ours are missing."""
    _, row, column = spot
    published, published_sd = row.published.get(column.key, [None, None])
    cell = Cell(row.label, column.key, published=published, published_sd=published_sd)
    if spot.is_blank:
        return cell
    if column.mean_of is not None:
        return _mean(cell, [make_cell(each, results, tests) for each in spot.parts], tests)
    name, result = spot.metric, spot.result
    runs = results.of(result)
    by_seed = {
        run["seed"]: run["metrics"][name]
        for run in runs
        if run["metrics"].get(name, {}).get("value") is not None
    }
    entries = list(by_seed.values())
    if not entries:
        computed = any(name in run["metrics"] for run in runs)
        reason = None if computed else row.reason or column.reason
        has_source = row.model is not None or row.vocabulary is not None or row.data
        if reason is None and has_source:
            reason = results.left_out.get(result or ("", None), NOT_RUN)
            if runs:
                reason = UNDEFINED if computed else LACKING
                reason = runs[0]["data"].get("refused", reason)
        return replace(cell, reason=reason)
    scored = [run for run in runs if run["seed"] in by_seed]
    learnt = [run["learnt"] for run in scored]
    # Nothing was trained, nor drawn by a seed.
    fixed = len(entries) == 1 and learnt[0] is None and not scored[0].get("drawn", False)
    cell = replace(
        cell,
        seeds=0 if fixed else len(entries),
        unlearnt=learnt.count(False),
        counts={n: count for n, count in entries[0].items() if n not in (*ESTIMATE, *PATIENTS)},
    )
    values = [entry["value"] for entry in entries]
    if str(scored[0]["data"].get("name")).startswith(MARK):
        return replace(cell, ours=REHEARSED)
    if isinstance(values[0], str):
        return replace(cell, ours=values[0])
    interval = tests.intervals.get(result, {}).get(name) if tests and result else None
    protocol, level = scored[0]["protocol"], 1 - (tests or Tests()).alpha
    over: Over = protocol.get("interval_over", "samples")
    if len(entries) == 1:
        level = protocol.get("intervals", {}).get("level", LEVEL)
        ends = [entries[0].get("low"), entries[0].get("high")]
    elif interval is not None:
        ends, over = [interval["low"], interval["high"]], "seeds and samples"
    else:
        low, high, _ = over_trainings(values, level)
        ends, over = [float(low), float(high)], "seeds"
    mean, (low, high) = fmean(values), ends
    if low is not None and high is not None:
        low, high = possible_part(name, mean, low, high)
    return replace(
        cell,
        ours=mean * column.scale,
        ours_sd=stdev(values) * column.scale if len(values) > 1 else None,
        low=None if low is None else low * column.scale,
        high=None if high is None else high * column.scale,
        over=over,
        level=level,
        by_seed={seed: entry["value"] * column.scale for seed, entry in by_seed.items()},
    )


def _mean(cell: Cell, cells: Sequence[Cell], tests: Tests | None) -> Cell:
    """The mean of a row's cells, by seed; its interval is over several seeds alone."""
    values = [of_column.ours for of_column in cells if isinstance(of_column.ours, float)]
    if len(values) < len(cells):
        missing = next(of_column for of_column in cells if not isinstance(of_column.ours, float))
        return replace(cell, reason=missing.reason)
    trained = [of_column for of_column in cells if of_column.seeds]
    if not trained:
        return replace(cell, ours=fmean(values))
    common = set.intersection(*(set(of_column.by_seed) for of_column in trained))
    if not common:
        return replace(cell, reason="its columns have no seed in common")
    by_seed = {
        seed: fmean(of_column.by_seed[seed] if of_column.seeds else value
                    for of_column, value in zip(cells, values, strict=True))
        for seed in sorted(common)
    }  # fmt: skip
    means = list(by_seed.values())
    cell = replace(
        cell,
        ours=fmean(means),
        seeds=len(means),
        unlearnt=max(of_column.unlearnt for of_column in trained),
        by_seed=by_seed,
    )
    if len(means) == 1:
        return cell
    level = 1 - (tests or Tests()).alpha
    low, high, _ = over_trainings(means, level)
    cell = replace(cell, ours_sd=stdev(means), low=float(low), high=float(high))
    return replace(cell, over="seeds", level=level)


def make_cells(table: Table, results: Results, tests: Tests | None = None) -> list[Cell]:
    """Make all cells, row by row, with their tests against the reference row."""
    paired = tests or Tests()
    spots = table.spots
    cells = [replace(make_cell(s, results, paired), tested=paired.of(s)) for s in spots]
    baselines: dict[str, list[Cell]] = {}
    for spot, cell in zip(spots, cells, strict=True):
        if spot.row.is_baseline:
            baselines.setdefault(cell.column, []).append(cell)
    return [
        replace(cell, above=above(spot, cell, baselines.get(cell.column, [])))
        for spot, cell in zip(spots, cells, strict=True)
    ]


def above(spot: TableCell, cell: Cell, baselines: Iterable[Cell]) -> bool:
    """Return whether a value's interval lies beyond the best of the baselines without learning."""
    values = [baseline.ours for baseline in baselines if isinstance(baseline.ours, float)]
    if spot.metric.startswith(SMALLER):
        return bool(values) and cell.high is not None and cell.high < min(values)
    return bool(values) and cell.low is not None and cell.low > max(values)
