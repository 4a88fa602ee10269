"""What is said below a table: on which data, over what, what was tested, why values are missing."""

from collections.abc import Sequence

from cxrflow.benchmarks.settings import LEAST_SEEDS
from cxrflow.papers.table import Table
from cxrflow.tables.cells import Cell
from cxrflow.tables.results import Results
from cxrflow.tables.tests import CORRECTED, MARK, Tests
from cxrflow.tables.text import difference_text


def note_on_data(results: Results) -> str:
    """Which data our values were measured on."""
    if not results.runs:
        return "None of our models was run for this table."
    names = ", ".join(results.datasets)
    if results.synthetic:
        return (
            f"Our values were measured on synthetic data ({names}); the published ones on real "
            "data. Ours say what the code reaches there, not how it compares with the paper."
        )
    return f"Our values were measured on real data ({names})."


def note_on_spread(cells: Sequence[Cell]) -> str:
    """What the numbers around our values are, in the words of this table."""
    shown = [cell for cell in cells if isinstance(cell.ours, float)]
    seeds = sorted({cell.seeds for cell in shown if cell.seeds})
    if not seeds:
        return ""
    count = str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    if seeds == [1]:
        over = sorted({cell.over for cell in shown if cell.seeds})
        return (
            f"Ours: one training seed; in small print the 95 % interval over {' or '.join(over)}, "
            "for this training: another seed may give another value."
        )
    over = sorted({cell.over for cell in shown if cell.seeds > 1}, reverse=True)
    return (
        f"Ours: mean of {count} training seeds, ± their standard deviation; in small print the "
        f"95 % interval over {' or '.join(over)} (of one seed: over samples, for that training)."
    )


def note_on_chance(cells: Sequence[Cell]) -> str:
    """What it means that a model stands near chance."""
    if not any(cell.near_chance for cell in cells):
        return ""
    return (
        "“Near chance”: in this model's training a validation loss is not surely 5 % below that of "
        "guessing. Its value says little of the method, and no ranking is taken from it."
    )


def note_on_tests(cells: Sequence[Cell], tests: Tests) -> list[str]:
    """What the marks mean, and what could not be tested."""
    found = [(cell, cell.tested) for cell in cells if cell.tested is not None]
    tested = [one for _, one in found if one.value is not None]
    notes = []
    if tested:
        names = {one.reference for one in tested}
        reference = f"“{names.pop()}”" if len(names) == 1 else "its reference row"
        judged = [one for one in tested if one.p is not None]
        marked = sum(bool(one.mark) for one in judged)
        marks = (
            f"{MARK} differs from {reference}, p < {tests.alpha:g} (two-sided, over training seeds "
            f"and test samples, both paired); {CORRECTED} also after Holm's correction for "
            f"{tests.corrected_for} comparisons, which p itself is not corrected for. "
            f"{marked or 'None'} of {len(judged)} {'is' if marked == 1 else 'are'} marked. "
        )
        few = (
            f"With fewer than {LEAST_SEEDS} training seeds of both rows nothing is tested or "
            "marked. "
        )
        notes.append(
            (marks if judged else "")
            + (few if len(judged) < len(tested) else "")
            + f"The differences from {reference} stand below."
        )
    untested: dict[str, dict[str, None]] = {}
    for cell, one in found:
        if one.reason is not None and cell.ours is not None:
            untested.setdefault(one.reason, {})[cell.row] = None
    notes += [f"Not tested: {'; '.join(rows)}: {why}." for why, rows in untested.items()]
    return notes


def table_notes(
    table: Table, cells: Sequence[Cell], results: Results, tests: Tests | None
) -> list[str]:
    """All that is said below a table, but for missing values."""
    notes = [note_on_data(results), note_on_spread(cells)]
    notes += [note_on_chance(cells), *note_on_tests(cells, tests or Tests())]
    notes.append(f"Published: {table.source}")
    return [note for note in [*notes, *table.notes] if note]


def reasons(table: Table, cells: Sequence[Cell]) -> list[str]:
    """Why ours are missing; columns are named where it is not the whole row."""
    found: dict[str, dict[str, list[str]]] = {}
    labels = {column.key: column.label for column in table.columns}
    for cell in cells:
        if cell.reason:
            rows = found.setdefault(cell.reason, {})
            rows.setdefault(cell.row, []).append(labels[cell.column])
    notes = []
    for reason, rows in found.items():
        places = [
            row if len(columns) == len(labels) else f"{row} ({', '.join(columns)})"
            for row, columns in rows.items()
        ]
        notes.append(f"No value of ours for {'; '.join(places)}: {reason}.")
    return notes


def differences(table: Table, cells: Sequence[Cell]) -> dict[str, dict[str, str]]:
    """What each row differs by from its reference row, in words: {heading: {row: differences}}."""
    columns = {column.key: column for column in table.columns}
    found: dict[str, dict[str, str]] = {}
    for cell in cells:
        if cell.ours is not None and cell.tested is not None and cell.tested.value is not None:
            rows = found.setdefault(f"Differences from “{cell.tested.reference}”", {})
            before = f"{rows[cell.row]}; " if cell.row in rows else ""
            rows[cell.row] = before + difference_text(cell.tested, columns[cell.column])
    return found
