"""From metrics.json to CSV, Markdown and HTML."""

import csv
import io
import json
import math
import re
import statistics

import pytest
from html_outline import Outline
from table_fixtures import TABLE, estimate, result, with_rows, write_result

from command_options import options
from cxr_files.errors import InputError
from cxrflow import papers
from cxrflow.papers import Paper
from cxrflow.papers.table import Headline, Table
from cxrflow.show.tables import make_table
from cxrflow.show.tables.cells import COUNTS, make_cells
from cxrflow.show.tables.notes import notes_on_classes
from cxrflow.show.tables.rendering import table_csv, table_html, table_markdown
from cxrflow.show.tables.results import read_results
from cxrflow.show.tables.tests import Tests as Inference
from cxrflow.show.tables.text import unescaped


@pytest.fixture
def files(tmp_path):
    rate, spelling = estimate(0.125), {"spelling/v": estimate("✓", n=1)}
    return [
        *(result(tmp_path, n, value, rate=rate) for n, value in enumerate((1.0, 1.2, 1.1))),
        result(tmp_path, 0, 0.0, task="vocabulary", model="vocabulary", **spelling),
    ]


def cells_of(files):
    results = read_results(files)
    cells = make_cells(TABLE, results)
    return results, cells, {(cell.row, cell.column): cell for cell in cells}


def test_seeds_become_a_mean_a_spread_and_an_interval(files):
    results, _, cell = cells_of(files)
    ours = cell["Ours | both", "avg"]
    assert ours.ours == pytest.approx(1.1) and ours.seeds == 3 and ours.reason is None
    assert ours.ours_sd == pytest.approx(statistics.stdev([1.0, 1.2, 1.1]))
    # Without predictions: Student's of three seeds.
    half = 4.302653 * 0.1 / math.sqrt(3)
    assert (ours.low, ours.high) == (pytest.approx(1.1 - half), pytest.approx(1.1 + half))
    assert ours.over == "seeds" and ours.difference == pytest.approx(1.1 - 1.027)
    text = table_markdown(TABLE, list(cell.values()), results)
    assert "mean of 3 training seeds, ± their standard deviation" in text
    assert "interval over seeds (of one seed: over samples" in text
    rate = cell["Ours | both", "rate"]
    assert rate.ours == pytest.approx(12.5) and rate.low == rate.high == rate.ours
    assert rate.difference == pytest.approx(15.0)
    assert cell["Ours | both", "words"].ours == "✓"


def test_an_interval_ends_where_its_metric_does(tmp_path):
    """Student's of a contrast without sign would begin below 0."""
    _, _, cell = cells_of([result(tmp_path, n, x) for n, x in enumerate((0.01, 0.3, 0.02))])
    ours = cell["Ours | both", "avg"]
    assert ours.low == 0.0 and ours.high > 0.3


def test_the_interval_of_several_seeds_is_over_samples_too(files):
    results = read_results(files)
    intervals = {("grounding", "m"): {"rate": {"low": 0.1, "high": 0.2}}}
    cells = make_cells(TABLE, results, Inference(intervals=intervals))
    rate = next(cell for cell in cells if cell.ours is not None and cell.column == "rate")
    assert (rate.low, rate.high, rate.over) == (10.0, 20.0, "seeds and samples")
    text = table_markdown(TABLE, cells, results)
    assert "12.5 ± 0.0 (10.0 to 20.0)" in text
    assert "95 % interval over seeds and samples or seeds (of one seed" in text


def test_an_interval_is_over_what_its_protocol_says(tmp_path):
    """Runs of a head that are listed do not say so: natural language inference lists them, too."""
    table = with_rows({"label": "Ours", "model": "m"}, {"label": "Fixed", "model": "reference/r"})
    scores = {"cnr": estimate(1.0, 0.8, 1.1)}
    for over in ("samples", "runs and samples"):
        protocol = {} if over == "samples" else {"interval_over": over}
        files = [
            write_result(tmp_path / f"{name}{seed}.json", "grounding", model, seed, scores,
                         protocol=protocol, learnt=learnt)
            for name, model, seed, learnt in (
                ("m", "m", 0, True), ("m", "m", 1, True), ("r", "reference/r", 0, None),
            )
        ]  # fmt: skip
        for file in files:
            content = json.loads(file.read_text())
            content["data"]["runs"] = [{"seed": 0}, {"seed": 1}]
            file.write_text(json.dumps(content))
        cells = make_cells(table, results := read_results([files[0], files[2]]))
        assert {cell.over for cell in cells if cell.ours is not None} == {over}
        text = table_markdown(table, cells, results)
        assert f"interval over {over}, for this training" in text
        results = read_results(files)
        text = table_markdown(table, make_cells(table, results), results)
        assert f"over seeds (of one seed: over {over}, for that training)" in text


def test_notes_say_the_level_that_intervals_have(tmp_path):
    """Of one training that of its task, of several that of the table's tests."""
    table = with_rows({"label": "Ours", "model": "m"}, {"label": "Fixed", "model": "reference/r"})

    def text(once, *models):
        files = [
            write_result(tmp_path / f"{number}.json", "grounding", model, number,
                         {"cnr": estimate(1.0 + number, 0.8, 3.1)},
                         protocol={"intervals": {"level": once}},
                         learnt=None if model == "reference/r" else True)
            for number, model in enumerate(models)
        ]  # fmt: skip
        results, tests = read_results(files), Inference(alpha=0.2)
        return table_markdown(table, make_cells(table, results, tests), results, tests)

    assert "in small print the 90 % interval over samples, for" in text(0.9, "m", "reference/r")
    mixed = text(0.9, "m", "m", "reference/r")
    assert "80 % interval over seeds (of one seed: 90 % interval over samples, for that" in mixed
    alike = text(0.8, "m", "m", "reference/r")
    assert "80 % interval over seeds (of one seed: over samples, for that training)" in alike


def test_what_was_not_trained_has_no_seeds(tmp_path):
    _, _, cell = cells_of([result(tmp_path, 0, 1.0, learnt=None)])
    ours = cell["Ours | both", "avg"]
    assert (ours.seeds, ours.ours, ours.low) == (0, 1.0, 0.8)


def test_a_random_start_has_a_seed_like_a_training(tmp_path):
    _, _, cell = cells_of([result(tmp_path, 0, 1.0, learnt=None, drawn=True)])
    ours = cell["Ours | both", "avg"]
    assert (ours.seeds, ours.ours, ours.by_seed) == (1, 1.0, {0: 1.0})


@pytest.mark.parametrize(
    ("learnt", "badge", "count"),
    [((False,), "training not converged", "1"), ((False, False), "training not converged", "2"),
     ((True, False, True), "training not converged in 1 of 3 seeds", "1"), ((True,), "", "0")],
)  # fmt: skip
def test_a_model_that_did_not_learn_wears_a_badge(tmp_path, learnt, badge, count):
    files = [result(tmp_path, seed, 1.0, learnt=one) for seed, one in enumerate(learnt)]
    results, cells, _ = cells_of(files)
    html, text = table_html("t", TABLE, cells, results), table_markdown(TABLE, cells, results)
    assert (f'<small class="unlearnt">{badge}</small>' in html) == bool(badge)
    assert (f"[{badge}]" in text) == ("says nothing of the method" in text) == bool(badge)
    rows = csv.DictReader(table_csv(cells).splitlines())
    assert [row["unlearnt"] for row in rows if row["ours"]] == [count]


@pytest.mark.parametrize(("guess", "badge"), [(0.7, False), (0.9, True)])
def test_no_badge_stands_beside_a_score_above_the_baselines(tmp_path, guess, badge):
    """The interval begins at 0.8."""
    files = [result(tmp_path, 0, 1.0, learnt=False)]
    files.append(result(tmp_path, 0, guess, model="reference/centre", learnt=None))
    baseline = {"label": "Guess", "model": "reference/centre"}
    table = with_rows({"label": "Ours", "model": "m"}, baseline)
    results = read_results(files)
    cells = make_cells(table, results)
    html = table_html("t", table, cells, results)
    assert ('<small class="unlearnt">training not converged</small>' in html) == badge
    told = baseline | {"label": "Ceiling: guess", "ceiling": True}
    oracle = with_rows({"label": "Ours", "model": "m"}, told)
    assert not any(cell.above for cell in make_cells(oracle, results))  # it is no baseline
    shown = table_html("t", oracle, make_cells(oracle, results), results)
    assert "Ceilings: what must succeed" in shown and "Baselines without" not in shown
    assert "Baselines without learning" in html and "Training not converged: Ours." in html


@pytest.mark.parametrize(("value", "below"), [(0.2, True), (0.45, False)])
def test_an_auroc_below_chance_says_what_it_means(tmp_path, value, below):
    columns = [{"key": "a", "label": "AUROC (%)", "metric": "auroc/1", "scale": 100, "digits": 1}]
    table = Table.model_validate(TABLE.model_dump() | {"columns": columns, "rows": []} | {
        "rows": [{"label": "Other words", "model": "m"}]})  # fmt: skip
    scores = {"auroc/1": estimate(value, value - 0.1, value + 0.1)}
    results = read_results([result(tmp_path, 0, 1.0, **scores)])
    cells = make_cells(table, results)
    text = table_markdown(table, cells, results)
    assert ("Below chance: Other words (AUROC (%) 20.0). The order" in text) == below
    shown = table_html("t", table, cells, results).partition("<details>")[0]
    assert ("Below chance: Other words" in shown) == below


def test_every_missing_value_has_a_reason(files):
    _, cells, cell = cells_of(files[:3])
    assert cell["Theirs", "avg"].reason == "weights are absent"
    assert cell["Absent", "avg"].reason == "not run in this configuration"
    assert cell["Ours | both", "words"].reason == "no vocabulary"
    assert all((c.ours is None) == (c.reason is not None) for c in cells)
    only = read_results([files[-1]])
    assert {c.row for c in make_cells(TABLE, only) if c.ours is not None} == {"Ours | both"}


def test_rows_outside_of_the_headline_are_folded_with_their_command(files, tmp_path, monkeypatch):
    headline = [Headline(table="table9", rows=["Ours | both"], columns=["avg"])]
    paper = Paper(name="p", tables={"table9": TABLE}, headline=headline)
    monkeypatch.setattr("cxrflow.show.tables.results.load_paper", lambda name: paper)
    output = tmp_path / "table9"
    asked = {"paper": "p", "output": output, "metrics": files[0]}
    make_table.main(options(**asked, table="headline/table9"))
    rows = list(csv.DictReader(output.with_suffix(".csv").read_text().splitlines()))
    reasons = {(row["row"], row["column"]): row["reason"] for row in rows}
    why = "not in the headline; `snakemake --cores all p` makes it"
    assert reasons["Absent", "avg"] == reasons["Absent", "rate"] == why
    assert reasons["Theirs", "avg"] == "weights are absent"
    assert reasons["Ours | both", "avg"] == ""
    html = output.with_suffix(".html").read_text()
    shown, _, folded = html.partition("<details><summary>1 more row with published values alone; ")
    assert folded.startswith("ours by <code>snakemake --cores all p</code></summary>")
    assert "Absent" not in shown and "<span>Absent</span>" in folded
    assert "no vocabulary</td>" in folded  # the reason of its third cell
    assert f"Absent (Avg. CNR, Rate (%)): {why}." in output.with_suffix(".md").read_text()
    make_table.main(options(**asked, table="table9"))
    assert "headline" not in output.with_suffix(".html").read_text()
    narrow = TABLE.model_copy(update={"columns": TABLE.columns[:2]})
    cells = make_cells(narrow, read_results(files[:1], {("grounding", "n"): why}))
    html = table_html("t", narrow, cells, read_results(files[:1]))
    assert html.count("<span>Absent</span>") == 1 and "not in the headline" not in html


def test_rows_from_elsewhere_stand_between_ours_and_references(tmp_path):
    """Under a heading of their own; a note says how much their files lack."""
    theirs = {"label": "Theirs", "kind": "external", "model": "x"}
    table = with_rows(
        {"label": "None", "model": "reference/r"}, theirs, {"label": "A", "model": "m"}
    )
    files = [result(tmp_path, 0, 1.0, model=name) for name in ("m", "x", "reference-r")]
    content = json.loads(files[1].read_text()) | {"learnt": None}
    content["data"]["external"] = {"missing": 1200}
    files[1].write_text(json.dumps(content))
    results = read_results(files)
    cells = make_cells(table, results)
    text, html = table_markdown(table, cells, results), table_html("t", table, cells, results)
    order = [
        "| A |",
        "*Run elsewhere, scored here*",
        "| Theirs | scored |",
        "*Baselines without",
        "| None |",
    ]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)
    assert html.count('<tbody class="apart">') == 2
    note = "“Theirs” is scored on fewer samples than others: its file lacks 1,200 of them."
    assert f"- {note}" in text and "was given less" not in text
    content["data"]["external"] = {"missing": 0}
    content["protocol"]["rows_missing"] = {"train": 1200, "validate": 3}
    files[1].write_text(json.dumps(content))
    results = read_results(files)
    text = table_markdown(table, make_cells(table, results), results)
    lacks = "its file lacks 1,200 of the part train, 3 of the part validate."
    assert f"- “Theirs” was given less than others: {lacks}" in text and "fewer" not in text


def test_a_model_that_was_not_run_does_not_borrow_another_s_values(files):
    other = {"label": "other model", "model": "n", "vocabulary": "v"}
    table = with_rows(other, {"label": "no model", "vocabulary": "v"})
    cells = make_cells(table, read_results(files))
    assert [cell.ours for cell in cells] == [None, None, "✓", None, None, "✓"]
    assert {cell.reason for cell in cells if cell.ours is None} == {"not run in this configuration"}


def test_a_row_may_read_another_task_and_a_share_of_the_labels(tmp_path):
    shares = {f"cnr/{share}": estimate(share / 8, 0.0, 1.5) for share in (1, 10)}
    files = [result(tmp_path, 0, 1.0), result(tmp_path, 0, 2.0, task="probe", **shares)]
    probe = {"model": "m", "task": "probe"}
    table = with_rows(
        {"label": "grounding", "model": "m"},
        *(probe | {"label": f"{share} %", "share": share} for share in ("1", "10", "100")),
    )
    cells = [c for c in make_cells(table, read_results(files)) if c.column == "avg"]
    assert [cell.ours for cell in cells] == [1.0, 0.125, 1.25, None]
    assert cells[3].reason == "its results lack this metric"


def test_an_undefined_metric_says_so(tmp_path):
    _, _, cell = cells_of([result(tmp_path, 0, 1.0, rate=estimate(None, n=0))])
    assert cell["Ours | both", "rate"].reason == "could not be computed from this data"


def test_a_mean_without_some_classes_says_so(tmp_path):
    """Of one row, of all, and of a class whose AUROC, but not its own value, is undefined."""
    columns = [{"key": "f1", "label": "F1", "metric": "f1"}]
    table = with_rows({"label": "A", "model": "m"}, {"label": "B", "model": "n"})
    table = Table.model_validate({**table.model_dump(), "columns": columns})

    def notes(**undefined):
        files = []
        for model in "mn":
            none = undefined.get(model, ())
            each = {f"auroc/{c}": estimate(None if c in none else 0.5) for c in ("edema", "a_mass")}
            metrics = {"f1": estimate(0.5), "f1/edema": estimate(1.0), **each}
            path = write_result(tmp_path / f"{model}.json", "grounding", model, 0, metrics)
            content = json.loads(path.read_text())
            content["data"]["classes"] = ["Edema", "A mass"]
            path.write_text(json.dumps(content))
            files.append(path)
        return notes_on_classes(table, read_results(files))

    assert notes() == []
    mass = "is the mean of 1 of 2 classes: a mass lacks a label."
    assert notes(m=["a_mass"], n=["a_mass"]) == [f"“F1” {mass}"]
    assert notes(m=["a_mass"]) == [f"“F1” (A) {mass}"]
    edema = "is the mean of 1 of 2 classes: edema lacks a label."
    assert notes(m=["a_mass"], n=["edema"]) == [f"“F1” (A) {mass}", f"“F1” (B) {edema}"]


def test_a_mean_of_thresholded_or_of_rare_classes_says_which_it_is_of(tmp_path):
    """A threshold that could not be chosen leaves its class out of F1, and not of the AUROC."""
    metrics = ("auroc", "f1", "auroc_rare", "auroc_common", "rare_less_common")
    columns = [{"key": name, "label": name, "metric": name} for name in metrics]
    table = with_rows({"label": "A", "model": "m"})
    table = Table.model_validate({**table.model_dump(), "columns": columns})
    each = {f"auroc/{c}": estimate(0.5) for c in ("edema", "lung_mass", "pleural_thickening")}
    each |= {f"f1/{c}": estimate(0.5) for c in ("lung_mass", "pleural_thickening")}
    each |= {"f1/edema": estimate(None)}

    def notes(**undefined):
        values = {name: estimate(0.5) for name in metrics} | each | undefined
        path = write_result(tmp_path / "m.json", "grounding", "m", 0, values)
        content = json.loads(path.read_text())
        content["data"]["classes"] = ["Edema", "Lung Mass", "Pleural_Thickening"]
        content["protocol"]["rare"] = ["Pleural_Thickening", "Lung Mass"]
        path.write_text(json.dumps(content))
        return notes_on_classes(table, read_results([path]))

    f1 = "“f1” is the mean of 2 of 3 classes: edema lacks a label or a threshold."
    assert notes() == [f1]
    assert notes(**{"auroc/lung_mass": estimate(None)}) == [
        "“auroc” is the mean of 2 of 3 classes: lung mass lacks a label.",
        "“f1” is the mean of 1 of 3 classes: lung mass, edema lack a label or a threshold.",
        "“auroc_rare” is the mean of 1 of 2 classes: lung mass lacks a label.",
    ]


def test_csv_has_the_contract_s_columns(files):
    _, cells, _ = cells_of(files)
    rows = list(csv.DictReader(table_csv(cells).splitlines()))
    assert list(rows[0]) == [
        "row", "column", "ours", "ours_sd", "low", "high", "seeds", "published", "published_sd",
        "reason", "difference", "difference_low", "difference_high", "p", "p_holm", "unlearnt",
        "positives", "negatives", "least_positives", "least_negatives", "to_find",
    ]  # fmt: skip
    assert len(rows) == 9
    assert rows[0]["published"] == "0.70" and rows[0]["ours"] == "" and rows[0]["seeds"] == "0"
    ours = rows[3]
    assert (ours["row"], ours["column"], ours["ours"]) == ("Ours | both", "avg", "1.1")
    assert (ours["ours_sd"], ours["published_sd"], ours["seeds"]) == ("0.1", "0.02", "3")
    assert ours["positives"] == ours["least_positives"] == ""


def test_csv_counts_positives(tmp_path):
    rate = estimate(0.125) | {"least_positives": 4, "least_negatives": 30, "boxes": 12, "x": 3}
    run = result(tmp_path, 0, 1.0, rate=rate)
    counts = {"positives": 30, "negatives": 70, "positive_patients": 9, "negative_patients": 9}
    content = json.loads(run.read_text())
    content["metrics"]["cnr"] |= counts
    run.write_text(json.dumps(content))
    rows = [*csv.DictReader(table_csv(cells_of([run])[1]).splitlines())]
    assert {row["to_find"] for row in rows} == {"", "boxes 12; x 3"}
    counts = [[row[name] for name in COUNTS] for row in rows if row["ours"]]
    assert ["30", "70", "", ""] in counts and ["", "", "4", "30"] in counts


def test_no_row_is_a_formula_of_a_spreadsheet(tmp_path):
    """Nor does a label of several lines break a Markdown table."""
    labels = ["+ more data", "=1+1", "@x", "- 5 %", "-5", "-1+x", "'tis", "two\nlines"]
    table = with_rows(*({"label": label, "reason": "="} for label in labels), title="A\nB")
    cells = make_cells(table, read_results([]))
    lines = list(csv.DictReader(io.StringIO(table_csv(cells))))
    written = ["'+ more data", "'=1+1", "'@x", "'- 5 %", "-5", "'-1+x", "'tis", "two\nlines"]
    assert list(dict.fromkeys(line["row"] for line in lines)) == written
    assert {line["reason"] for line in lines} == {"'="}
    again = list(map(unescaped, lines))
    assert list(dict.fromkeys(line["row"] for line in again)) == labels
    text = table_markdown(table, cells, read_results([]))
    assert text.startswith("**A B**\n\n| ") and "| two lines |" in text


def test_markdown_keeps_ours_and_published_on_their_own_lines(files):
    results, cells, _ = cells_of(files)
    text = table_markdown(TABLE, cells, results)
    assert "| Ours \\| both | ours | 1.100 ± 0.100 (0.852 to 1.348) Δ +0.073 | 12.5" in text
    assert "|  | published | 1.027 ± 0.02 | −2.50 | – |" in text
    assert "|  | published | 0.70 ± 0.03 | – | op-acity |" in text
    assert "measured on real data (tiny)" in text and "- A note." in text
    assert "No value of ours for Theirs: weights are absent." in text
    results, cells, _ = cells_of(files[:3])
    text = table_markdown(TABLE, cells, results)
    assert "No value of ours for Ours | both (Word); Absent (Word): no vocabulary." in text
    widths = {line.replace("\\|", "").count("|") for line in text.splitlines() if "|" in line[:1]}
    assert len(widths) == 1


def test_html_is_a_well_formed_accessible_fragment(files):
    results, cells, _ = cells_of(files)
    html = table_html("paper-table9", TABLE, cells, results)
    outline = Outline(html)
    assert outline.open == [] and outline.elements[0][0] == "section"
    assert outline.of("caption") and html.isascii()
    assert "&lt;Test&gt;" in html and "<Test>" not in html
    heads = outline.of("th")
    assert all("scope" in attributes for attributes in heads)
    groups = [a for a in heads if a["scope"] == "rowgroup"]
    # Beside the values; of two lines where ours and the published stand below each other.
    assert [a.get("rowspan") for a in groups] == [None, "2", None]
    for word in ("http", "src=", "<script", "url("):
        assert word not in html  # nothing from outside
    assert 'class="synthetic"' not in html and "+0.073" in html


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("data", [], "field 'data' is []"),
        ("data", {}, "field 'data.name' is missing"),
        ("metrics", 1, "field 'metrics' is 1"),
        ("metrics", {"a": 0.5}, "field 'metrics.a' is 0.5"),
        ("metrics", {"a": estimate([1])}, "metric 'a': value is [1]; expected a number"),
        ("metrics", {"a": estimate(1, "x")}, "field 'metrics.a.low' is 'x'"),
    ],
)
def test_damaged_metrics_are_one_line(tmp_path, field, value, said):
    path = result(tmp_path, 0, 1.0)
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    with pytest.raises(InputError) as error:
        read_results([path])
    assert str(error.value).startswith(f"{path}: ") and said in str(error.value)


def test_synthetic_results_are_marked_and_not_compared(tmp_path):
    results, cells, _ = cells_of([result(tmp_path, 0, 1.0, synthetic=True)])
    html, text = table_html("t", TABLE, cells, results), table_markdown(TABLE, cells, results)
    assert 'class="synthetic"' in html and "synthetic data (tiny)" in html
    assert "&#916;" not in html and "Δ" not in text
    assert "Ours: one training seed;" in text and "for this training" in text


def test_rows_of_data_and_blank_cells(tmp_path):
    counted = {f"cnr/{name}": estimate(3.0) for name in "xy"}
    files = [result(tmp_path, 0, 1.0, task="grounding", model="counts", learnt=None, **counted)]
    table = with_rows(
        {"label": "X", "data": True, "variant": "x", "blank": ["rate", "words"]},
        {"label": "Y", "data": True, "variant": "y"},
    )
    results = read_results(files)
    cells = make_cells(table, results)
    assert [cell.ours for cell in cells] == [3.0, None, None, 3.0, None, None]
    assert [cell.reason for cell in cells] == [
        None, None, None, None, "its results lack this metric", "no vocabulary",
    ]  # fmt: skip
    assert "training" not in table_markdown(table, cells, results)  # nothing was trained


def test_a_count_has_no_interval_and_its_thousands_apart(tmp_path):
    count = estimate(20.0, 20.0, 20.0, 2000)
    results, cells, _ = cells_of([result(tmp_path, 0, 1.0, rate=count)])
    text = table_markdown(TABLE, cells, results)
    assert "| 2,000.0 Δ +2,002.5 |" in text and "to 2,000" not in text


def test_what_stands_between_backticks_is_code(tmp_path):
    table = TABLE.model_copy(update={"notes": ["Where `weights:` names <them>."]})
    results = read_results([])
    html = table_html("t", table, make_cells(table, results), results)
    assert "Where <code>weights:</code> names &lt;them&gt;." in html and "`" not in html


def test_no_text_of_a_paper_cites_by_number():
    for name in ("biovil", "biovil_t", "convirt"):
        paper = papers.load_paper(name)
        assert not re.search(r"\[\d+\]", json.dumps(paper.model_dump(mode="json")["tables"]))
        for table in paper.tables.values():
            keys = [column.key for column in table.columns]
            assert "avg" not in keys[1:], table.title  # the average comes first


def test_what_must_not_stand_together_is_refused(tmp_path, files):
    with pytest.raises(InputError, match="cannot stand in one table"):
        read_results([*files, result(tmp_path, 7, 1.0, synthetic=True)])
    with pytest.raises(InputError, match="seed 0 of m is given twice"):
        read_results([files[0], files[0]])
    other = result(tmp_path, 8, 1.0)
    other.write_text(other.read_text().replace("true", "false", 1).replace('"crop"', '"pad"'))
    with pytest.raises(InputError, match="field 'protocol' differs"):
        read_results([files[0], other])
    # What its solver found is each training's own.
    probes = [result(tmp_path, 10 + seed, 1.0) for seed in range(2)]
    for probe, iterations in zip(probes, (28, 34), strict=True):
        content = json.loads(probe.read_text())
        content["protocol"]["solution"] = {"1": {"iterations": iterations}}
        probe.write_text(json.dumps(content))
    assert [len(runs) for runs in read_results(probes).runs.values()] == [2]
    other.write_text('{"task": "b"}')
    with pytest.raises(InputError, match="field 'benchmark' is missing"):
        read_results([other])


def test_the_program_writes_three_files(files, tmp_path, monkeypatch):
    paper = Paper(name="p", tables={"table9": TABLE})
    monkeypatch.setattr("cxrflow.show.tables.results.load_paper", lambda name: paper)
    output = tmp_path / "made" / "table9"
    make_table.main(options(paper="biovil", table="table9", output=output, metrics=files))
    names = sorted(path.name for path in output.parent.iterdir())
    assert names == ["table9.csv", "table9.html", "table9.md"]
    with pytest.raises(InputError, match="no table 'table8'"):
        make_table.main(options(paper="biovil", table="table8", output=output))


def test_all_tables_of_biovil_are_made_without_any_result(tmp_path):
    for name in papers.load_paper("biovil").tables:
        make_table.main(options(paper="biovil", table=name, output=tmp_path / name))
        assert "None of our models was run" in (tmp_path / f"{name}.html").read_text()
