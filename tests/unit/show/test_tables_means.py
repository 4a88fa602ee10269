"""Columns that are means of other columns, and bars of a table's cells (MedCutMix, Figure 2)."""

import json
from statistics import fmean

import pytest
from PIL import Image
from table_fixtures import estimate, write_result

from command_options import options
from cxr_files.errors import InputError
from cxrflow.papers import Paper, load_paper
from cxrflow.papers.table import TableCell
from cxrflow.show.figures import bars
from cxrflow.show.tables.cells import make_cell
from cxrflow.show.tables.notes import notes_on_means
from cxrflow.show.tables.results import NOT_RUN, read_results

TABLE = {
    "title": "Table 9. Test", "source": "Paper", "task": "t",
    "columns": [
        {"key": "one", "label": "One", "metric": "auroc"},
        {"key": "two", "label": "Two", "metric": "auroc", "task": "u"},
        {"key": "mean", "label": "Mean", "mean_of": ["one", "two"]},
    ],
    "rows": [
        {"label": "Ours", "model": "m", "published": {"mean": ["0.7", None]}},
        {"label": "Half", "model": "n"},
        {"label": "Fixed", "model": "reference/nothing"},
    ],
}  # fmt: skip
FIGURE = {
    "kind": "bars", "title": "Figure 9. Test", "table": "table9", "rows": ["Ours", "Half"],
    "panels": [{"y": "AUROC", "columns": ["one", "two"]}, {"y": "Mean", "columns": ["mean"]}],
}  # fmt: skip
SCORES = {
    ("t", "m"): {0: 0.5, 1: 0.7, 2: 0.6}, ("u", "m"): {0: 0.9, 1: 0.8, 3: 0.1},
    ("t", "n"): {0: 0.4},
    ("t", "reference/nothing"): {0: 0.5}, ("u", "reference/nothing"): {0: 0.25},
}  # fmt: skip


def paper(table=TABLE, **changes):
    figures = {"f": FIGURE | changes}
    return Paper.model_validate({"name": "p", "tables": {"table9": table}, "figures": figures})


@pytest.fixture
def files(tmp_path):
    return [
        write_result(
            tmp_path / f"{task}-{number}-{seed}.json", task, model, seed,
            {"auroc": estimate(value, value - 0.1, value + 0.1)},
            learnt=None if model.startswith("reference") else seed != 1,
        )
        for number, ((task, model), values) in enumerate(SCORES.items())
        for seed, value in values.items()
    ]  # fmt: skip


def cell(results, label, key="mean"):
    table = paper().tables["table9"]
    return make_cell(TableCell(table, table.row(label), table.column(key)), results)


def test_a_mean_is_of_the_seeds_that_all_its_columns_have(files):
    results = read_results(files)
    ours = cell(results, "Ours")
    assert ours.by_seed == {0: pytest.approx(0.7), 1: pytest.approx(0.75)}
    assert ours.ours == pytest.approx(fmean(ours.by_seed.values())) and ours.seeds == 2
    assert (ours.published, ours.over, ours.unlearnt) == ("0.7", "seeds", 1)
    assert ours.low < ours.ours < ours.high and ours.ours_sd == pytest.approx(0.05 / 2**0.5)
    fixed = cell(results, "Fixed")
    assert (fixed.ours, fixed.seeds, fixed.low) == (0.375, 0, None)
    half = cell(results, "Half")
    assert (half.ours, half.reason) == (None, NOT_RUN)
    apart = read_results([f for f in files if f.name not in ("u-1-0.json", "u-1-1.json")])
    assert cell(apart, "Ours").reason == "its columns have no seed in common"
    assert notes_on_means(paper().tables["table9"]) == ["“Mean” is the mean of One, Two."]


def test_a_mean_asks_for_the_results_of_its_columns():
    table = paper().tables["table9"]
    assert table.results(["Ours"], ["mean"]) == [("t", "m"), ("u", "m")]
    assert table.result_of(table.row("Ours"), table.column("mean")) is None
    columns = [TABLE["columns"][0], TABLE["columns"][2]]
    with pytest.raises(ValueError, match="mean_of names 'two'; expected keys of columns with a"):
        paper(TABLE | {"columns": columns})
    both = [*TABLE["columns"], {"key": "odd", "label": "Odd"}]
    with pytest.raises(ValueError, match="column 'odd': expected either metric or mean_of"):
        paper(TABLE | {"columns": both})


def test_the_averages_of_medcutmix_are_those_of_the_five_printed_columns():
    for name in ("table1", "table2"):
        table = load_paper("medcutmix").tables[name]
        column = table.column("average")
        for row in (row for row in table.rows if "average" in row.published):
            values = [float(row.published[key][0]) for key in column.mean_of]
            assert fmean(values) == pytest.approx(float(row.published["average"][0]), abs=1e-4)
    best = load_paper("medcutmix").tables["table1"]
    four = {
        row.label: fmean(
            float(row.published[key][0]) for key in best.column("without_rsna").mean_of
        )
        for row in best.rows
        if row.published
    }
    assert max(four, key=four.get) == "N_max = 100" and round(four["N_max = 100"], 4) == 0.7283


def test_bars_are_ours_beside_the_published(tmp_path, monkeypatch, files):
    made = paper()
    monkeypatch.setattr("cxrflow.show.tables.results.load_paper", lambda name: made)
    output = tmp_path / "f.png"
    bars.main(options(paper="p", figure="f", output=output, metrics=files))
    with Image.open(output) as picture:
        assert picture.format == "PNG" and len(picture.convert("RGB").getcolors(9999)) > 10
    found = json.loads(output.with_suffix(".json").read_text())
    assert found["kind"] == "bars" and "synthetic data (tiny)" in found["caption"]
    assert found["lines"][-2:] == [
        "Mean, Ours: ours 0.725, published 0.7", "Mean, Half: ours –, published –",
    ]  # fmt: skip
    assert f"Not drawn: {NOT_RUN}." in found["caption"]
    assert [bar["panel"] for bar in found["bars"]] == [0, 0, 0, 0, 1, 1]
    with pytest.raises(InputError, match="no figure 'g' of the kind bars"):
        bars.main(options(paper="p", figure="g", output=output))
    with pytest.raises(ValueError, match="figures.f: table9 has not: Nobody"):
        paper(rows=["Nobody"])
