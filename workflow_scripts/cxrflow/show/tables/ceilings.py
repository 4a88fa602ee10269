"""Notes about the rows without a model: does a table ask anything, and what has the majority?

A floor is what a score is without learning, a ceiling a row that must succeed. Where the ceiling is
not above the best floor, no model can show anything.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from cxrflow.papers.table import Column, Row, Table, TableCell
from cxrflow.show.tables.cells import SMALLER, Cell
from cxrflow.show.tables.results import Results
from cxrflow.show.tables.text import number

Scored = tuple[Row, Cell, float]
#: Metrics that no row should raise: what data have, similarities by themselves, effects.
UNORDERED = (
    *("majority", "most_frequent_accuracy", "chance", "classes", "verbatim", "verbatim_reference"),
    *("syn_sim", "contradiction_sim", "neutral_sim", "map_shift", "delta", "prompts_spread"),
    "rare_less_common",
)
NONE = "No row of this table must succeed, so it does not show whether anything could: "
ON_REAL_DATA = "what people have written down is no truth that a row must reach."
NOT_SCORED = "no ceiling was scored."


def notes_on_ceilings(table: Table, cells: Iterable[Cell], results: Results) -> list[str]:
    """Sentences about columns whose ceiling is not above the floors, or of a table without one."""
    scored = _by_metric(table, cells)
    rows = [row for of_metric in scored.values() for row, _, _ in of_metric]
    notes: dict[str, None] = {}
    for (label, _, metric), of_metric in scored.items():
        floors = [each for each in of_metric if each[0].is_baseline]
        ceilings = [each for each in of_metric if each[0].ceiling]
        if floors and ceilings and _is_ordered(metric) and not _above(metric, ceilings, floors):
            best_floor, best_ceiling = (_best(metric, rows) for rows in (floors, ceilings))
            column = table.column(best_floor[1].column)
            texts = [_told(each, column) for each in (best_ceiling, best_floor)]
            sentence = f"Asks nothing here: {label}, where {texts[0]} does not exceed {texts[1]}."
            notes[sentence] = None
    if any(row.is_baseline for row in rows) and not any(row.ceiling for row in rows):
        notes[NONE + (NOT_SCORED if results.synthetic else ON_REAL_DATA)] = None
    return list(notes)


def _by_metric(table: Table, cells: Iterable[Cell]) -> Mapping[tuple[str, str, str], list[Scored]]:
    """The numbers of rows without a model by label of column, task and metric."""
    rows = {row.label: row for row in table.rows if row.is_reference}
    scored: dict[tuple[str, str, str], list[Scored]] = {}
    for cell in cells:
        if cell.row in rows and isinstance(cell.ours, float):
            row, column = rows[cell.row], table.column(cell.column)
            if column.metric is not None:
                key = (f"“{column.label}”", table.task_of(row, column), row.metric_of(column))
                scored.setdefault(key, []).append((row, cell, cell.ours))
    return scored


def _is_ordered(metric: str) -> bool:
    """False of a metric that no row should raise: of data, a control, a similarity by itself."""
    return metric.split("/")[0] not in UNORDERED and "other_" not in metric


def _best(metric: str, rows: list[Scored]) -> Scored:
    sign = -1 if metric.startswith(SMALLER) else 1
    return max(rows, key=lambda each: sign * each[2])


def _above(metric: str, ceilings: list[Scored], floors: list[Scored]) -> bool:
    """Whether the best ceiling's interval lies beyond the best floor's."""
    ceiling, floor = (_best(metric, rows)[1] for rows in (ceilings, floors))
    of_ceiling, of_floor = (
        [end for end in (cell.low, cell.high, cell.ours) if isinstance(end, float)]
        for cell in (ceiling, floor)
    )
    if metric.startswith(SMALLER):
        return max(of_ceiling) < min(of_floor)
    return min(of_ceiling) > max(of_floor)


def _told(scored: Scored, column: Column) -> str:
    row, cell, value = scored
    ends = ""
    if cell.low is not None and cell.high is not None:
        ends = f" ({number(cell.low, column)} to {number(cell.high, column)})"
    kind = "" if row.ceiling else "the baseline "
    return f"{kind}“{row.label}” with {number(value, column)}{ends}"


def notes_on_majority(table: Table, results: Results) -> list[str]:
    """Sentences about what always answering the more frequent class has where accuracy stands."""
    shares: dict[tuple[str, str], None] = {}
    for row in table.rows:
        for column in table.columns:
            spot = TableCell(table, row, column)
            for run in results.of(spot.result):
                share = _majority(run, row.metric_of(column))
                if share is not None and column.key not in row.blank:
                    shares[f"“{column.label}”", number(share * column.scale, column)] = None
    text = "; ".join(f"{label} {value}" for label, value in shares)
    return [f"Always answering the more frequent class has: {text}."] if text else []


def _majority(run: Mapping[str, Any], metric: str) -> float | None:
    """The share of the more frequent of two classes behind an accuracy, if it is known."""
    name, slash, rest = metric.partition("/")
    if name != "accuracy" or metric not in run["metrics"]:
        return None
    counts = run["metrics"].get(f"auroc{slash}{rest}", {})
    sides = [counts.get("positives"), counts.get("negatives")]
    return None if None in sides or not any(sides) else float(max(sides) / sum(sides))
