"""What tables say of their ceilings: where they ask nothing, and what the majority has."""

import pytest
from table_fixtures import estimate, with_rows, write_result

from cxrflow.papers.table import Column
from cxrflow.show.tables.ceilings import notes_on_ceilings, notes_on_majority
from cxrflow.show.tables.cells import make_cells
from cxrflow.show.tables.results import read_results

ROWS = (
    {"label": "Ours", "model": "m"},
    {"label": "Guess", "model": "reference/nothing"},
    {"label": "Rule", "model": "reference/negation"},
    {"label": "Ceiling: told", "model": "reference/oracle", "ceiling": True},
)


def notes(folder, metric, values, rows=ROWS, synthetic=True, **counts):
    """The notes of a table of one metric, by the value and the interval of each model."""
    column = Column(key="a", label="Score", metric=metric, digits=2)
    table = with_rows(*rows, columns=[column])
    files = [
        write_result(folder / f"{n}.json", "grounding", model, 0,
                     {metric: estimate(*ends), **counts}, learnt=None, synthetic=synthetic)
        for n, (model, ends) in enumerate(values.items())
    ]  # fmt: skip
    results = read_results(files)
    told = notes_on_ceilings(table, make_cells(table, results), results)
    return told + notes_on_majority(table, results)


def scores(ceiling, floor):
    """The results of the rows above."""
    return {
        "m": (0.7, 0.6, 0.8), "reference/nothing": (0.5, 0.5, 0.5),
        "reference/negation": floor, "reference/oracle": ceiling,
    }  # fmt: skip


@pytest.mark.parametrize("low", [0.85, 0.78])  # the difference is above 0, though intervals overlap
def test_a_ceiling_above_the_floors_needs_no_word(tmp_path, low):
    assert notes(tmp_path, "auroc", scores((0.9, low, 0.95), (0.7, 0.6, 0.8))) == []


@pytest.mark.parametrize(
    ("learnt", "is_hard"), [((0.72, 0.6, 0.8), True), ((0.9, 0.8, 0.95), False)]
)
def test_what_is_told_succeeds_and_what_learns_does_not(tmp_path, learnt, is_hard):
    learns = {"label": "Ceiling: learnt", "model": "reference/supervised", "ceiling": True}
    values = scores((0.95, 0.9, 1.0), (0.7, 0.6, 0.8)) | {"reference/supervised": learnt}
    told = notes(tmp_path, "auroc", values, rows=(*ROWS, learns))
    hard = "Hard to learn here: “Score”, where “Ceiling: learnt” with 0.72"
    assert [note.startswith(hard) for note in told] == [True] * is_hard


@pytest.mark.parametrize(
    ("metric", "ceiling", "floor"),
    [("auroc", (0.8, 0.7, 0.9), (0.7, 0.6, 0.8)), ("auroc", (0.55, 0.5, 0.6), (0.93, 0.9, 0.95)),
     ("median_rank", (3.0, 2.0, 4.0), (4.0, 3.0, 5.0)),
     ("auroc", (0.9, None, None), (0.9, None, None))],
)  # fmt: skip
def test_a_column_whose_ceiling_is_not_above_the_floors_asks_nothing(
    tmp_path, metric, ceiling, floor
):
    values = scores(ceiling, floor)
    values["reference/nothing"] = (0.5, 0.5, 0.5) if metric == "auroc" else (9.0, 9.0, 9.0)
    [note] = notes(tmp_path, metric, values)
    assert note.startswith("Asks nothing here: “Score”, where “Ceiling: told” with ")
    assert f"does not exceed the baseline “Rule” with {floor[0]:.2f}" in note


@pytest.mark.parametrize("metric", ["majority", "other_study/recall/10", "syn_sim"])
def test_what_no_row_should_raise_is_not_asked(tmp_path, metric):
    assert notes(tmp_path, metric, scores((0.5, 0.4, 0.6), (0.7, 0.6, 0.8))) == []


@pytest.mark.parametrize(("synthetic", "why"), [(True, "was scored"), (False, "is no truth")])
def test_a_table_without_a_ceiling_says_so(tmp_path, synthetic, why):
    values = scores((0.9, 0.85, 0.95), (0.7, 0.6, 0.8))
    del values["reference/oracle"]
    [note] = notes(tmp_path, "auroc", values, synthetic=synthetic)
    assert note.startswith("No row of this table must succeed") and why in note


def test_the_majority_stands_below_accuracies(tmp_path):
    counts = {"auroc": {"value": 0.5, "low": 0.4, "high": 0.6, "n": 100}}
    counts["auroc"] |= {"positives": 30, "negatives": 70}
    counts["auroc"] |= {"positive_patients": 30, "negative_patients": 70}
    values = scores((0.9, 0.85, 0.95), (0.7, 0.6, 0.8))
    assert notes(tmp_path, "accuracy", values, **counts) == [
        "Always answering the more frequent class has: “Score” 0.70."
    ]
