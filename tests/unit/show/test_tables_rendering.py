"""From metrics.json to CSV, Markdown and HTML."""

import csv
import io
import json
import math
import re
import statistics

import pytest
from html_outline import Outline
from table_fixtures import TABLE, estimate, result, typeset, with_rows, write_result

from command_options import options
from cxr_files.errors import InputError
from cxrflow import papers
from cxrflow.papers import Paper
from cxrflow.papers.table import Headline
from cxrflow.show.tables import make_table
from cxrflow.show.tables.cells import COUNTS, make_cells
from cxrflow.show.tables.notes import notes_on_classes
from cxrflow.show.tables.rendering import table_csv, table_html
from cxrflow.show.tables.results import read_results
from cxrflow.show.tables.tests import Tests as Inference
from cxrflow.show.tables.text import unescaped

OURS_AND_FIXED = with_rows(
    {"label": "Ours", "model": "m"}, {"label": "Fixed", "model": "reference/r"}
)


@pytest.fixture
def files(tmp_path):
    rate, spelling = estimate(0.125), {"spelling/v": estimate("✓", n=1)}
    return [
        *(result(tmp_path, n, value, rate=rate) for n, value in enumerate((1.0, 1.2, 1.1))),
        result(tmp_path, 0, 0.0, task="vocabulary", model="vocabulary", **spelling),
    ]


def ours_of(*files):
    """Our cell of the first column."""
    return typeset(TABLE, files).by_place["Ours | both", "avg"]


def test_seeds_become_a_mean_a_spread_and_an_interval(files):
    made = typeset(TABLE, files)
    cell, text = made.by_place, made.text
    ours = cell["Ours | both", "avg"]
    assert ours.ours == pytest.approx(1.1) and ours.seeds == 3 and ours.reason is None
    assert ours.ours_sd == pytest.approx(statistics.stdev([1.0, 1.2, 1.1]))
    # Without predictions: Student's of three seeds.
    half = 4.302653 * 0.1 / math.sqrt(3)
    assert (ours.low, ours.high) == (pytest.approx(1.1 - half), pytest.approx(1.1 + half))
    assert ours.over == "seeds" and ours.difference == pytest.approx(1.1 - 1.027)
    assert "mean of 3 training seeds, ± their standard deviation" in text
    assert "interval over seeds (of one seed: over samples" in text
    rate = cell["Ours | both", "rate"]
    assert rate.ours == pytest.approx(12.5) and rate.low == rate.high == rate.ours
    assert rate.difference == pytest.approx(15.0)
    assert cell["Ours | both", "words"].ours == "✓"


def test_an_interval_ends_where_its_metric_does(tmp_path):
    """Student's of a contrast without sign would begin below 0."""
    ours = ours_of(*(result(tmp_path, n, x) for n, x in enumerate((0.01, 0.3, 0.02))))
    assert ours.low == 0.0 and ours.high > 0.3


def test_the_interval_of_several_seeds_is_over_samples_too(files):
    intervals = {("grounding", "m"): {"rate": {"low": 0.1, "high": 0.2}}}
    cells, text, _ = typeset(TABLE, files, Inference(intervals=intervals))
    rate = next(cell for cell in cells if cell.ours is not None and cell.column == "rate")
    assert (rate.low, rate.high, rate.over) == (10.0, 20.0, "seeds and samples")
    assert "12.5 ± 0.0 (10.0 to 20.0)" in text
    assert "95 % interval over seeds and samples or seeds (of one seed" in text


def test_an_interval_is_over_what_its_protocol_says(tmp_path):
    """Runs of a head that are listed do not say so: natural language inference lists them, too."""
    scores, runs = {"cnr": estimate(1.0, 0.8, 1.1)}, {"runs": [{"seed": 0}, {"seed": 1}]}
    for over in ("samples", "runs and samples"):
        protocol = {} if over == "samples" else {"interval_over": over}
        files = [
            write_result(tmp_path / f"{number}.json", "grounding", model, seed, scores, data=runs,
                         protocol=protocol, learnt=learnt)
            for number, (model, seed, learnt) in enumerate(
                [("m", 0, True), ("m", 1, True), ("reference/r", 0, None)]
            )
        ]  # fmt: skip
        cells, text, _ = typeset(OURS_AND_FIXED, [files[0], files[2]])
        assert {cell.over for cell in cells if cell.ours is not None} == {over}
        assert f"interval over {over}, for this training" in text
        text = typeset(OURS_AND_FIXED, files).text
        assert f"over seeds (of one seed: over {over}, for that training)" in text


def test_notes_say_the_level_that_intervals_have(tmp_path):
    """Of one training that of its task, of several that of the table's tests."""

    def text(once, *models):
        files = [
            write_result(tmp_path / f"{number}.json", "grounding", model, number,
                         {"cnr": estimate(1.0 + number, 0.8, 3.1)},
                         protocol={"intervals": {"level": once}},
                         learnt=None if model == "reference/r" else True)
            for number, model in enumerate(models)
        ]  # fmt: skip
        return typeset(OURS_AND_FIXED, files, Inference(alpha=0.2)).text

    assert "in small print the 90 % interval over samples, for" in text(0.9, "m", "reference/r")
    mixed = text(0.9, "m", "m", "reference/r")
    assert "80 % interval over seeds (of one seed: 90 % interval over samples, for that" in mixed
    alike = text(0.8, "m", "m", "reference/r")
    assert "80 % interval over seeds (of one seed: over samples, for that training)" in alike


def test_what_was_not_trained_has_no_seeds(tmp_path):
    ours = ours_of(result(tmp_path, 0, 1.0, learnt=None))
    assert (ours.seeds, ours.ours, ours.low) == (0, 1.0, 0.8)


def test_a_random_start_has_a_seed_like_a_training(tmp_path):
    ours = ours_of(result(tmp_path, 0, 1.0, learnt=None, drawn=True))
    assert (ours.seeds, ours.ours, ours.by_seed) == (1, 1.0, {0: 1.0})


@pytest.mark.parametrize(
    ("learnt", "badge", "count"),
    [((False,), "training not converged", "1"), ((False, False), "training not converged", "2"),
     ((True, False, True), "training not converged in 1 of 3 seeds", "1"), ((True,), "", "0")],
)  # fmt: skip
def test_a_model_that_did_not_learn_wears_a_badge(tmp_path, learnt, badge, count):
    files = [result(tmp_path, seed, 1.0, learnt=one) for seed, one in enumerate(learnt)]
    cells, text, html = typeset(TABLE, files)
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
    html = typeset(with_rows({"label": "Ours", "model": "m"}, baseline), files).html
    assert ('<small class="unlearnt">training not converged</small>' in html) == badge
    told = baseline | {"label": "Ceiling: guess", "ceiling": True}
    cells, _, shown = typeset(with_rows({"label": "Ours", "model": "m"}, told), files)
    assert not any(cell.above for cell in cells)  # it is no baseline
    assert "Ceilings: what must succeed" in shown and "Baselines without" not in shown
    assert "Baselines without learning" in html and "Training not converged: Ours." in html


@pytest.mark.parametrize(("value", "below"), [(0.2, True), (0.45, False)])
def test_an_auroc_below_chance_says_what_it_means(tmp_path, value, below):
    columns = [{"key": "a", "label": "AUROC (%)", "metric": "auroc/1", "scale": 100, "digits": 1}]
    table = with_rows({"label": "Other words", "model": "m"}, columns=columns)
    scores = {"auroc/1": estimate(value, value - 0.1, value + 0.1)}
    _, text, html = typeset(table, [result(tmp_path, 0, 1.0, **scores)])
    assert ("Below chance: Other words (AUROC (%) 20.0). The order" in text) == below
    shown = html.partition("<details>")[0]
    assert ("Below chance: Other words" in shown) == below


def test_every_missing_value_has_a_reason(files):
    made = typeset(TABLE, files[:3])
    cell = made.by_place
    assert cell["Theirs", "avg"].reason == "weights are absent"
    assert cell["Absent", "avg"].reason == "not run in this configuration"
    assert cell["Ours | both", "words"].reason == "no vocabulary"
    assert all((c.ours is None) == (c.reason is not None) for c in made.cells)
    only = typeset(TABLE, files[-1:]).cells
    assert {c.row for c in only if c.ours is not None} == {"Ours | both"}


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
    files = [result(tmp_path, 0, 1.0, model=name) for name in ("m", "reference-r")]

    def set_with(missing, **lacking):
        told = {"data": {"external": {"missing": missing}}, "protocol": lacking}
        theirs = result(tmp_path, 0, 1.0, model="x", learnt=None, **told)
        return typeset(table, [*files, theirs])

    _, text, html = set_with(1200)
    order = ["| A |", "*Run elsewhere, scored here*", "| Theirs | scored |", "*Baselines without"]
    order.append("| None |")
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)
    assert html.count('<tbody class="apart">') == 2
    note = "“Theirs” is scored on fewer samples than others: its file lacks 1,200 of them."
    assert f"- {note}" in text and "was given less" not in text
    text = set_with(0, rows_missing={"train": 1200, "validate": 3}).text
    lacks = "its file lacks 1,200 of the part train, 3 of the part validate."
    assert f"- “Theirs” was given less than others: {lacks}" in text and "fewer" not in text


def test_a_model_that_was_not_run_does_not_borrow_another_s_values(files):
    other = {"label": "other model", "model": "n", "vocabulary": "v"}
    table = with_rows(other, {"label": "no model", "vocabulary": "v"})
    cells = typeset(table, files).cells
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
    cells = [cell for cell in typeset(table, files).cells if cell.column == "avg"]
    assert [cell.ours for cell in cells] == [1.0, 0.125, 1.25, None]
    assert cells[3].reason == "its results lack this metric"


def test_an_undefined_metric_says_so(tmp_path):
    cell = typeset(TABLE, [result(tmp_path, 0, 1.0, rate=estimate(None, n=0))]).by_place
    assert cell["Ours | both", "rate"].reason == "could not be computed from this data"


def test_a_mean_without_some_classes_says_so(tmp_path):
    """Of one row, of all, and of a class whose AUROC, but not its own value, is undefined."""
    columns = [{"key": "f1", "label": "F1", "metric": "f1"}]
    rows = ({"label": "A", "model": "m"}, {"label": "B", "model": "n"})
    table = with_rows(*rows, columns=columns)

    def notes(**undefined):
        files = []
        for model in "mn":
            none = undefined.get(model, ())
            each = {f"auroc/{c}": estimate(None if c in none else 0.5) for c in ("edema", "a_mass")}
            metrics = {"f1": estimate(0.5), "f1/edema": estimate(1.0), **each}
            classes = {"classes": ["Edema", "A mass"]}
            files.append(result(tmp_path, 0, 1.0, model=model, data=classes, **metrics))
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
    table = with_rows({"label": "A", "model": "m"}, columns=columns)
    each = {f"auroc/{c}": estimate(0.5) for c in ("edema", "lung_mass", "pleural_thickening")}
    each |= {f"f1/{c}": estimate(0.5) for c in ("lung_mass", "pleural_thickening")}
    each |= {"f1/edema": estimate(None)}

    def notes(**undefined):
        values = {name: estimate(0.5) for name in metrics} | each | undefined
        classes = ["Edema", "Lung Mass", "Pleural_Thickening"]
        told = {"data": {"classes": classes}, "protocol": {"rare": classes[:0:-1]}}
        return notes_on_classes(table, read_results([result(tmp_path, 0, 1.0, **told, **values)]))

    f1 = "“f1” is the mean of 2 of 3 classes: edema lacks a label or a threshold."
    assert notes() == [f1]
    assert notes(**{"auroc/lung_mass": estimate(None)}) == [
        "“auroc” is the mean of 2 of 3 classes: lung mass lacks a label.",
        "“f1” is the mean of 1 of 3 classes: lung mass, edema lack a label or a threshold.",
        "“auroc_rare” is the mean of 1 of 2 classes: lung mass lacks a label.",
    ]


def test_csv_has_the_contract_s_columns(files):
    rows = list(csv.DictReader(table_csv(typeset(TABLE, files).cells).splitlines()))
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
    counts = {"positives": 30, "negatives": 70, "positive_patients": 9, "negative_patients": 9}
    cells = typeset(TABLE, [result(tmp_path, 0, 1.0, rate=rate, cnr=counts)]).cells
    rows = [*csv.DictReader(table_csv(cells).splitlines())]
    assert {row["to_find"] for row in rows} == {"", "boxes 12; x 3"}
    counts = [[row[name] for name in COUNTS] for row in rows if row["ours"]]
    assert ["30", "70", "", ""] in counts and ["", "", "4", "30"] in counts


def test_no_row_is_a_formula_of_a_spreadsheet(tmp_path):
    """Nor does a label of several lines break a Markdown table."""
    labels = ["+ more data", "=1+1", "@x", "- 5 %", "-5", "-1+x", "'tis", "two\nlines"]
    table = with_rows(*({"label": label, "reason": "="} for label in labels), title="A\nB")
    cells, text, _ = typeset(table, [])
    lines = list(csv.DictReader(io.StringIO(table_csv(cells))))
    written = ["'+ more data", "'=1+1", "'@x", "'- 5 %", "-5", "'-1+x", "'tis", "two\nlines"]
    assert list(dict.fromkeys(line["row"] for line in lines)) == written
    assert {line["reason"] for line in lines} == {"'="}
    again = list(map(unescaped, lines))
    assert list(dict.fromkeys(line["row"] for line in again)) == labels
    assert text.startswith("**A B**\n\n| ") and "| two lines |" in text


def test_markdown_keeps_ours_and_published_on_their_own_lines(files):
    text = typeset(TABLE, files).text
    assert "| Ours \\| both | ours | 1.100 ± 0.100 (0.852 to 1.348) Δ +0.073 | 12.5" in text
    assert "|  | published | 1.027 ± 0.02 | −2.50 | – |" in text
    assert "|  | published | 0.70 ± 0.03 | – | op-acity |" in text
    assert "measured on real data (tiny)" in text and "- A note." in text
    assert "No value of ours for Theirs: weights are absent." in text
    text = typeset(TABLE, files[:3]).text
    assert "No value of ours for Ours | both (Word); Absent (Word): no vocabulary." in text
    widths = {line.replace("\\|", "").count("|") for line in text.splitlines() if "|" in line[:1]}
    assert len(widths) == 1


def test_html_is_a_well_formed_accessible_fragment(files):
    html = typeset(TABLE, files).html
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
    _, text, html = typeset(TABLE, [result(tmp_path, 0, 1.0, synthetic=True)])
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
    cells, text, _ = typeset(table, files)
    assert [cell.ours for cell in cells] == [3.0, None, None, 3.0, None, None]
    assert [cell.reason for cell in cells] == [
        None, None, None, None, "its results lack this metric", "no vocabulary",
    ]  # fmt: skip
    assert "training" not in text  # nothing was trained


def test_a_count_has_no_interval_and_its_thousands_apart(tmp_path):
    count = estimate(20.0, 20.0, 20.0, 2000)
    text = typeset(TABLE, [result(tmp_path, 0, 1.0, rate=count)]).text
    assert "| 2,000.0 Δ +2,002.5 |" in text and "to 2,000" not in text


def test_what_stands_between_backticks_is_code(tmp_path):
    table = TABLE.model_copy(update={"notes": ["Where `weights:` names <them>."]})
    html = typeset(table, []).html
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
    probes = [
        result(tmp_path, seed, 1.0, protocol={"solution": {"1": {"iterations": iterations}}})
        for seed, iterations in ((10, 28), (11, 34))
    ]
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
