"""The notes below a table: data, spread, tests, and the reasons of missing values."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cxrflow.benchmarks.settings import LEAST_SEEDS
from cxrflow.metrics.rare_classes import counts_text, found_text
from cxrflow.papers.table import Column, Row, Table
from cxrflow.show.tables.ceilings import notes_on_ceilings, notes_on_majority
from cxrflow.show.tables.cells import COUNTS, Cell
from cxrflow.show.tables.results import Results
from cxrflow.show.tables.tests import CORRECTED, MARK, Tests
from cxrflow.show.tables.text import difference_text, number

RowsByWords = dict[tuple[str, str], dict[str, None]]  # labels of rows, by column and words
NAMED = 6  # classes that a note names
STAND_INS = (
    "Stand-ins: ours are, start from or have the vocabulary of models trained here in the place of "
    "published weights, of which they say nothing; no verdict about the paper is taken from them."
)
WRONG_WAY = "The order is the wrong way round: what should score low scores high."
BELOW_CHANCE = (
    f"{WRONG_WAY} Of two sentences, "
    "such as “pneumonia” and “no pneumonia”, that happens where a text encoder reads the name of "
    "the finding and hardly the “no”."
)


def note_on_data(results: Results) -> str:
    """A sentence about the data that our values were measured on."""
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
    """A sentence about the deviations and intervals of our values."""
    numeric = [cell for cell in cells if isinstance(cell.ours, float)]
    seeds = sorted({cell.seeds for cell in numeric if cell.seeds})
    if not seeds:
        return ""
    count = str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    if seeds == [1]:
        interval = _interval([cell for cell in numeric if cell.seeds])
        return (
            f"Ours: one training seed; in small print the {interval}, for this training: another "
            "seed may give another value."
        )
    interval = _interval([cell for cell in numeric if cell.seeds > 1])
    once = _interval([cell for cell in numeric if cell.seeds <= 1]) or "over samples"
    once = once.removeprefix(interval.partition("over")[0])  # a level is said once
    return (
        f"Ours: mean of {count} training seeds, ± their standard deviation; in small print the "
        f"{interval} (of one seed: {once}, for that training)."
    )


def _interval(cells: Sequence[Cell]) -> str:
    """The levels of intervals, and what they are over, in words; empty without any cell."""
    cells = [cell for cell in cells if cell.low is not None] or cells
    levels = " or ".join(sorted({percent(cell.level) for cell in cells}))
    over = " or ".join(sorted({cell.over for cell in cells}, reverse=True))
    return f"{levels} interval over {over}" if cells else ""


def percent(share: float) -> str:
    """A share in per cent, with its sign."""
    return f"{100 * share:g} %"


def note_on_learning(cells: Sequence[Cell], columns: Sequence[Column] = ()) -> str:
    """A sentence about models that have not learnt; empty if there is none.

    Of a row with several models, as of several shares of the pairs, it names their ``columns``.
    """
    rows: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell.ours is not None:
            rows.setdefault(cell.row, []).append(cell)
    labels = {column.key: column.label for column in columns}
    places = []
    for row, of_row in rows.items():
        keys = [cell.column for cell in of_row if cell.unlearnt]
        column_labels = (
            [labels[key] for key in keys if key in labels] if len(keys) < len(of_row) else []
        )
        places += [f"{row} ({', '.join(column_labels)})" if column_labels else row] if keys else []
    if not places:
        return ""
    return (
        f"Training not converged: {'; '.join(places)}. Pairs are told apart no better than by "
        "untrained starts, or than permuted ones (at 5 %), so the value says nothing of the "
        "method, and no ranking is taken from it."
    )


def notes_on_stand_ins(table: Table) -> list[str]:
    """A sentence about the rows that have stand-ins, and of what weights."""
    rows: dict[str, list[str]] = {}
    for row in table.rows:
        if weights := table.stand_ins_of(row):
            rows.setdefault(weights, []).append(row.key)
    places = [f"{weights}: {', '.join(labels)}" for weights, labels in rows.items()]
    return [f"{STAND_INS} For {'; for '.join(places)}."] if places else []


def notes_below_chance(table: Table, cells: Sequence[Cell]) -> list[str]:
    """Sentences about AUROCs that are surely below chance: what that means, and of which rows."""
    columns = {column.key: column for column in table.columns}
    rows: dict[str, None] = {}
    for cell in cells:
        column = columns[cell.column]
        if below_chance(cell, column):
            value = number(float(cell.ours or 0.0), column)
            rows[f"{cell.row} ({column.label} {value})"] = None
    return [f"Below chance: {'; '.join(rows)}. {BELOW_CHANCE}"] if rows else []


def below_chance(cell: Cell, column: Column) -> bool:
    """Return whether the interval of an AUROC lies below one half."""
    is_auroc = (column.metric or "").split("/")[0].endswith("auroc")
    return is_auroc and cell.high is not None and cell.high < 0.5 * column.scale


def notes_on_classes(table: Table, results: Results) -> list[str]:
    """Sentences about means that classes are left out of; of which rows, where rows differ."""
    rows_by_words: dict[str, dict[str, dict[str, None]]] = {}  # of each column
    for spot in table.spots:
        for run in results.of(spot.result):
            if spot.metric in run["metrics"] and "/" not in spot.metric:
                of_column = rows_by_words.setdefault(spot.column.label, {})
                of_column.setdefault(_without_value(run, spot.metric), {})[spot.row.label] = None
    notes = []
    for label, of_column in rows_by_words.items():
        for words, rows in of_column.items():
            where = f" ({'; '.join(rows)})" if len(of_column) > 1 else ""
            notes += [f"“{label}”{where} is the mean of {words}."] if words else []
    return notes


def notes_on_positives(table: Table, cells: Iterable[Cell], results: Results) -> list[str]:
    """Sentences about the positives and negatives of AUROCs, and about what else is to be found."""
    sides: RowsByWords = {}
    for spot in table.spots:
        for run in results.of(spot.result):
            words = counts_text(run["metrics"].get(spot.metric, {}))
            if words and "auroc" in spot.metric.split("/")[0]:
                sides.setdefault((spot.column.label, words), {})[spot.row.label] = None
    to_find: RowsByWords = {}
    for cell in cells:
        if cell.to_find and not cell.counts.keys() & {*COUNTS}:
            place = table.column(cell.column).label, found_text(cell.to_find)
            to_find.setdefault(place, {})[cell.row] = None
    return [*_counted("Positives and negatives", sides), *_counted("To be found", to_find)]


def _counted(title: str, rows_by_words: RowsByWords) -> list[str]:
    """A sentence of what is counted, by column; of which rows, where rows differ."""
    columns = [label for label, _ in rows_by_words]
    places: dict[str, list[str]] = {}
    for (label, words), rows in rows_by_words.items():
        where = f" ({'; '.join(rows)})" if columns.count(label) > 1 else ""
        places.setdefault(words, []).append(f"“{label}”{where}")
    notes = [f"{', '.join(names)}: {words}" for words, names in places.items()]
    return [f"{title}: {'; '.join(notes)}."] if notes else []


def notes_on_means(table: Table) -> list[str]:
    """Sentences about the columns that are means of other ones."""
    labels = {column.key: column.label for column in table.columns}
    return [
        f"“{column.label}” is the mean of {', '.join(labels[key] for key in column.mean_of)}."
        for column in table.columns
        if column.mean_of is not None
    ]


def _without_value(run: Mapping[str, Any], metric: str) -> str:
    """The classes that a mean is of, and those without a value; empty if it is of all.

    A class whose threshold could not be chosen has an AUROC, but no other value.
    """
    metrics = run["metrics"]
    classes = _classes_of(run, metric)
    lacking = {
        start: [
            name
            for name in classes
            if metrics.get(f"{start}/{name.replace(' ', '_')}", {"value": 0})["value"] is None
        ]
        for start in ("auroc", metric)
    }
    names = list(dict.fromkeys([*lacking["auroc"], *lacking[metric]]))
    if len(run["data"].get("classes", ())) < 2 or not names:
        return ""
    few = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" * (len(names) > NAMED))
    lack = "lack" if len(names) > 1 else "lacks"
    missing_input = "a label" if len(names) == len(lacking["auroc"]) else "a label or a threshold"
    return f"{len(classes) - len(names)} of {len(classes)} classes: {few} {lack} {missing_input}"


def _classes_of(run: Mapping[str, Any], metric: str) -> list[str]:
    """The classes, in words, that a metric is the mean of; none of a difference of two means."""
    names = [" ".join(n.lower().replace("_", " ").split()) for n in run["data"].get("classes", ())]
    rare = {n.lower().replace("_", " ") for n in run["protocol"].get("rare") or ()}
    if metric == "rare_less_common":
        return []
    if metric in ("auroc_rare", "auroc_common"):
        return [name for name in names if (name in rare) == (metric == "auroc_rare")]
    return names


def lacking(table: Table, row: Row, results: Results) -> str:
    """What stands behind the label of a row whose file lacks rows of its task; else nothing."""
    runs = _runs_of(row, table, results)
    files = [file for run in runs if (file := run["data"].get("external", {})).get("lacks")]
    worst = max(files, key=lambda file: file["lacks"] / file["of"], default=None)
    return f" (its file lacks {worst['lacks']:,} of {worst['of']:,} rows)" if worst else ""


def _runs_of(row: Row, table: Table, results: Results) -> list[dict[str, Any]]:
    return [run for column in table.columns for run in results.of(table.result_of(row, column))]


def notes_on_files(table: Table, results: Results) -> list[str]:
    """Sentences about rows from elsewhere whose files lack some of the samples."""
    notes = []
    for row in table.rows:
        runs = _runs_of(row, table, results)
        lacking = [run["data"].get("external", {}).get("missing", 0) for run in runs]
        if any(lacking):
            notes.append(
                f"“{row.label}” is scored on fewer samples than others: its file lacks "
                f"{max(lacking):,} of them."
            )
        missing_by_part: dict[str, int] = {}  # that are not scored
        for run in runs:
            for part, count in run["protocol"].get("rows_missing", {}).items():
                missing_by_part[part] = max(count, missing_by_part.get(part, 0))
        if missing_by_part:
            counts = ", ".join(
                f"{count:,} of the part {part}" for part, count in missing_by_part.items()
            )
            notes.append(f"“{row.label}” was given less than others: its file lacks {counts}.")
    return notes


def note_on_tests(cells: Sequence[Cell], tests: Tests) -> list[str]:
    """Sentences about the marks, and about comparisons that could not be tested."""
    compared = [(cell, cell.tested) for cell in cells if cell.tested is not None]
    tested = [test for _, test in compared if test.value is not None]
    notes = []
    if tested:
        names = {test.reference for test in tested}
        reference = f"“{names.pop()}”" if len(names) == 1 else "its reference row"
        judged = [test for test in tested if test.p is not None]
        marked = sum(bool(test.mark) for test in judged)
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
            + (few if any(test.p is None and test.reason is None for test in tested) else "")
            + f"The differences from {reference} stand below."
        )
    untested: dict[str, dict[str, None]] = {}
    for cell, test in compared:
        if test.reason is not None and cell.ours is not None:
            untested.setdefault(test.reason, {})[cell.row] = None
    notes += [f"Not tested: {'; '.join(rows)}: {why}." for why, rows in untested.items()]
    return notes


def table_notes(
    table: Table, cells: Sequence[Cell], results: Results, tests: Tests | None
) -> list[str]:
    """All notes below a table, except those on missing values."""
    notes = [note_on_data(results), note_on_spread(cells)]
    notes += [
        note_on_learning(cells, table.columns),
        *notes_below_chance(table, cells),
        *notes_on_means(table),
        *notes_on_stand_ins(table),
    ]
    notes += notes_on_classes(table, results)
    notes += notes_on_positives(table, cells, results)
    notes += notes_on_majority(table, results)
    notes += notes_on_ceilings(table, cells, results)
    notes += notes_on_files(table, results)
    notes += note_on_tests(cells, tests or Tests())
    notes.append(f"Published: {table.source}")
    return [note for note in [*notes, *table.notes] if note]


def reasons(table: Table, cells: Sequence[Cell]) -> list[str]:
    """The reasons of missing values, by row; with columns if only some of a row are missing."""
    rows_by_reason: dict[str, dict[str, list[str]]] = {}
    labels = {column.key: column.label for column in table.columns}
    for cell in cells:
        if cell.reason:
            rows = rows_by_reason.setdefault(cell.reason, {})
            rows.setdefault(cell.row, []).append(labels[cell.column])
    notes = []
    for reason, rows in rows_by_reason.items():
        places = [
            row if len(columns) == len(labels) else f"{row} ({', '.join(columns)})"
            for row, columns in rows.items()
        ]
        notes.append(f"No value of ours for {'; '.join(places)}: {reason}.")
    return notes


def differences(table: Table, cells: Sequence[Cell]) -> dict[str, dict[str, str]]:
    """The differences of each row from its reference row in words: {heading: {row: text}}."""
    columns = {column.key: column for column in table.columns}
    by_reference: dict[str, dict[str, str]] = {}
    for cell in cells:
        if cell.ours is not None and cell.tested is not None and cell.tested.value is not None:
            rows = by_reference.setdefault(f"Differences from “{cell.tested.reference}”", {})
            before = f"{rows[cell.row]}; " if cell.row in rows else ""
            rows[cell.row] = before + difference_text(cell.tested, columns[cell.column])
    return by_reference
