"""The top of the page and its section of report labels."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from label_fixtures import given_like, write_corpus
from page_fixtures import REAL, build, edit, load, words, write_results
from table_fixtures import estimate, write_result

from cxrflow.benchmarks.data import label_agreement as program
from cxrflow.benchmarks.data.settings import LabelAgreementSettings
from cxrflow.config.configuration import Config
from cxrflow.papers import Paper, load_paper
from cxrflow.papers.claims import Lead
from cxrflow.papers.table import Table
from cxrflow.show.page.inputs import RunFolder
from cxrflow.show.page.labels import SENTENCES, agreement
from cxrflow.show.page.overview import _card, _verdict, differing, starts
from cxrflow.show.page.scores import PaperScores
from cxrflow.show.page.training import unlearnt
from cxrflow.show.tables.cells import Cell
from cxrflow.show.tables.results import read_results
from cxrflow.show.tables.tests import Tested as Difference


def card(html: str, model: str) -> str:
    """The part of the page that shows a training."""
    return html.partition(f'id="model-biovil-{model}"')[2].partition("All settings")[0]


def test_a_training_that_did_not_learn_is_said(results):
    term = {
        "loss": 6.899,
        "p": 0.31,
        "permuted": {"value": 6.931, "low": 6.871, "high": 6.984},
        "rank": {"value": 0.517, "low": 0.466, "high": 0.568},
    }
    for model, name in (("biovil", "global_alignment"), ("simclr", "simclr")):
        said = {"differs": False, "terms": {name: term}}
        edit(results / f"models/biovil/{model}/seed0/run.json", permuted_pairs=said)
    html = build(results)
    assert '<span class="chip bad">training not converged</span>' in card(html, "simclr")
    own = card(html, "biovil")
    assert (
        "seed 0: Global alignment (6.899; of permuted pairs one in twenty is below 6.871, p = "
        "0.31). No ranking is taken" in own
    )
    assert "It starts from simclr, which has not learnt." in own
    rank = r"permuted pairs 6.93; rank of the true pair 0.517 \(0.466 to 0.568;"
    assert re.search(rf"validation [\d.]+[^<]*, {rank}", own)
    blameless = card(html, "cxr_bert")
    assert ">training not converged<" not in blameless and "permuted pairs 5.7;" in blameless
    assert "not assessed" not in html
    opening = html.partition("What may not be concluded")[2].partition("</section>")[0]
    assert "by untrained starts, or than permuted ones: simclr, biovil." in opening
    assert re.search(r"<li>simclr is what .*\bbiovil\b.* start from.</li>", opening)
    assert "With fewer than 3 training seeds" in opening


def test_a_joint_training_is_said_to_be_like_its_twins():
    """Its pairs differ from permuted ones, as those of untrained starts do."""
    term = {"loss": 6.9, "p": 0.001, "permuted": {"low": 6.91}, "rank": {"value": 0.52}}
    ranks = {"rank": 0.52, "untrained": [0.48, 0.53]}
    run = {
        "pairs_learnt": False,
        "permuted_pairs": {"differs": True, "terms": {"global_alignment": term, "mlm": term}},
        "twins": {"image and text": {"p": 0.1, "terms": {"global_alignment": ranks}}},
    }
    (words,) = unlearnt({0: SimpleNamespace(run=run, log=[])})
    assert words.startswith(
        "seed 0: Global alignment (rank of the true pair 0.520; of untrained starts 0.480 to "
        "0.530, p = 0.1), "
    )
    assert words.endswith("(6.9; of permuted pairs one in twenty is below 6.91, p = 0.001)")
    assert unlearnt({0: SimpleNamespace(run=run | {"pairs_learnt": True}, log=[])}) == []


def test_what_leads_stands_beside_what_has_learnt_nothing(results):
    """A reference row that is better is said to be; a model's own weights are neither."""
    folder = results / "benchmarks/biovil/phrase_grounding"
    own = json.loads((folder / "biovil/biovil/seed0/metrics.json").read_text())
    for name, value in (("centre", 0.5), ("finding_box", 9.0)):
        metrics = own["metrics"] | {"cnr": {"value": value, "low": 0.1, "high": 9.5, "n": 4}}
        said = own | {"model": f"reference/{name}", "learnt": None, "metrics": metrics}
        place = folder / f"reference/{name}/seed0/metrics.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(said))
    edit(results / "models/biovil/simclr/seed0/run.json", permuted_pairs={}, learnt=False)
    html = build(results)
    assert "was not assessed: a term gives no comparisons" in card(html, "simclr")
    opening = html.partition('id="numbers"')[2].partition('id="scores"')[0]
    leading = opening.partition("Mean CNR")[2].partition("</li>")[0]
    assert '<p class="value">1.270</p>' in leading and "Published: 1.027 ± 0.02" in leading
    assert (
        "Not above the strongest baseline: <b>9.000</b>, Mean boxes of other patients "
        "with the finding</p>" in leading
    )
    assert "Training not converged" not in opening
    assert ">training not converged<" not in card(html, "simclr")


def card_of(table, lead, files, **more):
    """The card of a table that a page need not show, by these results."""
    paper = Paper(name="p", tables={lead.table: table})
    return _card(PaperScores(paper, [], read_results(files), {}), lead, **more)


def test_what_leads_stands_beside_what_it_starts_from(results):
    """That is a row whose weights it starts from, or one that is not trained at all."""
    config = load(papers=["convirt"])
    paper = config.library.chosen["convirt"]
    lead = paper.leads[0]
    names = starts(config, paper.tables[lead.table], lead)
    assert {"convirt/imagenet", "convirt/random"} <= names and "convirt/convirt" not in names
    folder = results / "benchmarks/biovil/phrase_grounding/biovil"
    files = [folder / f"{model}/seed0/metrics.json" for model in ("biovil", "baseline_phase2")]
    lead = next(one for one in load_paper("biovil").leads if one.label == "Mean CNR")
    table = load_paper("biovil").tables[lead.table]
    found = card_of(table, lead, files, starts={"biovil/baseline_phase2"})
    assert found is not None
    (start,) = found["compared"]
    assert start["what"] == "what it starts from" and start["judged"]
    assert start["verdict"] in ("Above", "Not clearly above", "Not above")
    own = found["others"][0]
    assert (start["label"], start["value"]) == (own["label"], own["value"])
    found = card_of(table, lead, files)
    assert found is not None and found["compared"] == []


def test_a_seed_without_the_leading_metric_says_nothing_of_it(results):
    folder = results / "benchmarks/biovil/phrase_grounding/biovil/biovil"
    own = json.loads((folder / "seed0/metrics.json").read_text())
    (folder / "seed1").mkdir()
    more = own["metrics"] | {"cnr": own["metrics"]["cnr"] | {"n": 77}}
    (folder / "seed1/metrics.json").write_text(json.dumps(own | {"seed": 1, "metrics": more}))
    lead = next(one for one in load_paper("biovil").leads if one.label == "Mean CNR")
    for without in ({}, {"cnr": {"value": None, "low": None, "high": None, "n": 0}}):
        metrics = {n: v for n, v in own["metrics"].items() if n != "cnr"} | without
        edit(folder / "seed0/metrics.json", metrics=metrics)
        files = sorted(folder.glob("seed*/metrics.json"))
        table = load_paper("biovil").tables[lead.table]
        found = card_of(table, lead, files)
        assert found is not None and found["seeds"] == 1
        assert [n for _, n in found["measured"]] == [77]
        edit(files[1], protocol=own["protocol"] | {"intervals": {"level": 0.9}})
        found = card_of(table, lead, files[1:])
        assert found is not None and found["level"] == "90 %"
        edit(files[1], protocol=own["protocol"])


def test_a_mean_of_columns_may_lead(tmp_path):
    """With the data behind each of its columns."""
    columns = [
        {"key": "a", "label": "A", "metric": "auroc", "task": "t"},
        {"key": "b", "label": "B", "metric": "auroc", "task": "u"},
        {"key": "mean", "label": "Mean", "mean_of": ["a", "b"]},
    ]
    table = Table.model_validate(
        {"title": "T", "source": "S", "task": "t", "columns": columns,
         "rows": [{"label": "Ours", "model": "m"}, {"label": "None", "model": "reference/r"}]}
    )  # fmt: skip
    lead = Lead(table="t", row="Ours", column="mean", label="Mean AUROC")
    files = [
        write_result(tmp_path / f"{task}{number}.json", task, model, 0,
                     {"auroc": estimate(value, 0.1, 0.9, n)}, learnt=None if number else True)
        for task, n in (("t", 29), ("u", 414))
        for number, (model, value) in enumerate({"m": 0.7, "reference/r": 0.5}.items())
    ]  # fmt: skip
    found = card_of(table, lead, files)
    assert found is not None and found["shown"]["value"] == "0.70"  # of 29 no more is known
    assert found["measured"] == [("tiny", 29), ("tiny", 414)]
    (best,) = found["compared"]
    assert (best["value"], best["verdict"], found["level"]) == ("0.50", "Beside", "95 %")


BUDGETS = {"0": 0.629, "1": 0.7, "100": 0.886}


def carded(tmp_path, rows, values, share=None, count=400, **more):
    """The card of a model of 0.8 (0.75 to 0.85) whose row has a share of labels."""
    lead = Lead(table="t", row="Ours", column="a", label="AUROC")
    own = {"label": "Ours", "model": "m", "share": share, **more}
    column = {"key": "a", "label": "A", "metric": "auroc", "digits": 4}
    table = Table.model_validate(
        {"title": "T", "source": "S", "task": "t", "columns": [column], "rows": [own, *rows]}
    )
    metric = f"auroc/{share}" if share else "auroc"
    files = [
        write_result(
            tmp_path / "m.json",
            "t",
            "m",
            0,
            {metric: estimate(0.8, 0.75, 0.85, count)},
            learnt=True,
        )
    ]
    for number, (model, metrics) in enumerate(values.items()):
        path = tmp_path / f"{number}.json"
        learnt = None if model.startswith("reference") else True
        files.append(write_result(path, "t", model, 0, metrics, learnt=learnt))
    card = card_of(table, lead, files)
    assert card is not None
    return card


@pytest.mark.parametrize(("share", "own"), [("1", 0.7), (None, 0.629)])
def test_a_card_names_the_strongest_baseline_at_any_budget_and_at_its_own(tmp_path, share, own):
    rows = [
        {"label": f"Pixels {budget} %", "model": "reference/pixels", "share": budget}
        for budget in ("1", "100")
    ]
    rows.append({"label": "Brightness", "model": "reference/brightness"})
    values = {
        "reference/pixels": {
            f"auroc/{b}": estimate(BUDGETS[b], BUDGETS[b] - 0.02, BUDGETS[b] + 0.02, 400)
            for b in ("1", "100")
        },
        "reference/brightness": {"auroc": estimate(0.629, 0.6, 0.65, 400)},
    }
    found = carded(tmp_path, rows, values, share)["compared"]
    assert [(b["what"], b["verdict"], b["value"], b["judged"]) for b in found] == [
        ("the strongest baseline at any label budget", "Not above", "0.886", True),
        (
            f"the strongest baseline at the same label budget ({'1 %' if share else 'none'})",
            "Above",
            f"{own:.3f}",
            True,
        ),
    ]


@pytest.mark.parametrize(("high", "word"), [(0.74, "Above"), (0.76, "Not clearly above")])
def test_a_card_compares_with_the_base_and_is_green_only_apart(tmp_path, high, word):
    """The base's interval counts, not only its value; 0.5 is named and decides nothing."""
    rows = [{"label": "Base", "model": "b"}, {"label": "Chance", "model": "reference/chance"}]
    values = {"b": {"auroc": estimate(0.7, 0.65, high, 29)}}
    values["reference/chance"] = {"auroc": estimate(0.5, 0.5, 0.5, 29)}
    card = carded(tmp_path, rows, values, count=29, reference="Base")
    found = card["compared"]
    assert [(b["what"], b["verdict"], b["value"], b["judged"]) for b in found] == [
        ("its base", word, "0.70", True),
        ("the strongest baseline", "Above", "0.50", False),
    ]
    assert (card["shown"]["value"], card["shown"]["interval"]) == ("0.80", "0.75 to 0.85")
    many = carded(tmp_path, rows, values, count=29_000, reference="Base")
    assert many["shown"]["value"] == "0.800"


@pytest.mark.parametrize(
    ("value", "low", "learnt", "word"),
    [(1.0, 0.9, True, "Above"), (1.0, 0.4, True, "Not clearly above"), (0.5, 0.4, True,
     "Not above"), (1.0, None, True, "Not clearly above"), (1.0, 0.9, False, "Beside")],
)  # fmt: skip
def test_what_is_said_of_a_value_beside_one_of_no_learning(value, low, learnt, word):
    cell = Cell("r", "c", value, low=low, seeds=1, unlearnt=0 if learnt else 1)
    assert _verdict(cell, Cell("b", "c", 0.5)) == word


@pytest.mark.parametrize(("low", "word"), [(0.1, "Above"), (-0.1, "Not clearly above")])
def test_a_tested_difference_decides(low, word):
    tested = Difference("other", 0.3, low, 0.5, None, None, "", 3, None)
    for own_low in (0.1, 0.6):
        own = Cell("r", "c", 0.8, low=own_low, seeds=3)
        assert _verdict(own, Cell("b", "c", 0.5), tested) == word


def test_why_values_differ_is_said_where_the_numbers_stand(html, synthetic):
    opening = html.partition('id="numbers"')[2].partition('id="scores"')[0]
    assert opening.count('<a href="#why">why they differ</a>') == 3
    why = opening.partition('id="why"')[2].partition("</section>")[0]
    assert "drawn radiographs" in why and "At the scale demo images and encoders" in why
    run = RunFolder.read(synthetic / "report/config.json", synthetic)
    values = run.config.values.model_copy(update={"scale": "paper"})
    paper = replace(run, config=Config(values))
    assert differing(paper, {"mimic_cxr": False}, 200_000) == []
    (pairs, _) = differing(paper, {"mimic_cxr": False}, 1200)
    assert "1,200 pairs" in pairs
    # What to run next stands on the page too, and no title is a paper's key.
    front = html.partition("</html>")[0]
    assert "snakemake --cores all controls" in words(front)
    assert not re.search(r"<(h\d|summary|caption|th|a)\b[^>]*>biovil<", front)


def test_a_leading_model_that_did_not_learn_and_its_interval(results):
    task = "benchmarks/biovil/zero_shot_classification/biovil"
    for model, learnt in (("biovil", False), ("baseline_phase2", False)):
        path = results / f"{task}/{model}/seed0/metrics.json"
        metrics = json.loads(path.read_text())["metrics"]
        poor = {"auroc": metrics["auroc"] | {"low": 0.1}}  # not above the baselines
        edit(path, learnt=learnt, metrics=metrics | poor)
    html = build(results)
    cards = html.partition('<ul class="cards">')[2].partition('id="scores"')[0]
    assert (
        cards.count('<p class="fact"><span class="chip bad">training not converged</span></p>') == 1
    )
    assert cards.count('</b> <span class="chip">training not converged</span></li>') == 1
    assert "over samples" in cards
    edit(results / "tables/biovil/table5.tests.json", cells=[
        {"task": "t", "model": "m", "metrics": {"cnr": {"low": 1.0, "high": 2.0}}}
    ])  # fmt: skip
    run = RunFolder.read(results / "report/config.json", results)
    assert run.tests("biovil", "table5").intervals["t", "m"]["cnr"] == {"low": 1.0, "high": 2.0}
    assert run.tests("biovil", "absent").intervals == {}


REPORTS = {
    "1": ["Pulmonary edema.", "No pneumothorax."],
    "2": ["Pulmonary edema.", "A grey thing is seen."],
    "3": ["Pulmonary edema."],
    "4": ["No pneumothorax."],
}


def made(tmp_path, config: Config | None = None, reports=REPORTS, settings=None, **changes):
    """The section's content for a comparison of ``reports`` with changed labels."""
    corpus = write_corpus(tmp_path / "made", reports)
    given = given_like(corpus, **changes)
    ours = program.CorpusLabels.read(corpus)
    values = {"intervals": {"replicates": 100}} | (settings or {})
    chosen = LabelAgreementSettings.model_validate(values)
    folder = tmp_path / "benchmarks/label_agreement/mimic_cxr/chexpert"
    program.write(folder, *program.compare(ours, given, "chexpert", chosen), engine="scope")
    run = RunFolder(config or load(), {}, tmp_path, {"biovil": "all"})
    return agreement(run, "mimic_cxr", "chexpert")


def test_classes_findings_and_confusion_stand_in_their_order(tmp_path):
    found = made(tmp_path, s2={"Edema": -1.0, "Lung Opacity": 1.0})
    assert found["classes"] == ["positive", "negative", "uncertain"]
    totals = [f"{row['name']}{row['words']}" for row in found["totals"]]
    assert totals == ["positive", "positive, without No Finding", "negative", "uncertain"]
    names = [row["name"] for row in found["rows"]]
    assert names[0] == "Edema"  # most given
    assert {*names, *found["absent"]} == {*program.OBSERVATIONS} and "Fracture" in found["absent"]
    recalls = [cell[1]["value"] for cell in found["rows"][0]["cells"]]
    assert recalls == [1.0, None, 0.0]  # none is given negative
    no_finding = next(row for row in found["rows"] if row["name"] == "No Finding")
    assert no_finding["cells"][1:] == [None, None]
    positive = found["confusion"][0]
    assert positive["given"] == ["positive", "negative", "uncertain", "blank"]
    assert [cell["count"] for cell in positive["cells"]] == [2, 0, 1, 0]
    assert [cell["share"] for cell in positive["cells"]] == [2 / 3, 0, 1, 0]
    assert [cell["same"] for cell in positive["cells"]] == [True, False, False, False]


def test_sentences_with_a_rule_and_those_without_are_apart(tmp_path):
    found = made(tmp_path, s2={"Edema": -1.0, "Lung Opacity": 1.0}, s3={"Edema": -1.0})
    (read,) = found["read"]
    assert (read["sentence"], read["studies"]) == ("Pulmonary edema.", 3)
    mention = {"finding": "Edema", "ours": "positive", "given": "uncertain", "rule": "mention"}
    assert read["readings"] == [mention | {"count": 2}]
    (unread,) = found["unread"]
    assert unread["sentence"] == "A grey thing is seen." and unread["studies"] == 1
    assert unread["readings"][0]["rule"] == "nothing read"
    assert found["more"] == 0


def test_a_long_list_is_cut_and_the_rest_counted(tmp_path):
    reports = {str(n): [f"Pulmonary edema number {n}."] for n in range(SENTENCES + 3)}
    changes = {f"s{n}": {"Edema": np.nan} for n in range(SENTENCES + 3)}
    found = made(tmp_path, reports=reports, **changes)
    assert len(found["read"]) == SENTENCES and found["unread"] == []
    assert found["more"] == 3


@pytest.mark.parametrize("allowed", [True, False, "auto"])
def test_text_is_taken_only_where_privacy_allows(tmp_path, allowed):
    config = load(privacy={"show_text": allowed})
    found = made(tmp_path, config, s2={"Edema": -1.0}, s3={"Edema": -1.0})
    assert found["show_text"] is bool(allowed)  # synthetic
    assert bool(found["read"]) == bool(allowed)
    said = repr({key: value for key, value in found.items() if key not in ("read", "unread")})
    assert "edema." not in said
    if not allowed:
        assert found["readings"] == [
            {"finding": "Edema", "ours": "positive", "given": "uncertain", "rule": "mention",
             "count": 2}
        ]  # fmt: skip


def test_a_comparison_that_agrees_in_everything_or_is_of_positives(tmp_path):
    found = made(tmp_path)
    assert (found["read"], found["unread"], found["more"]) == ([], [], 0)
    found = made(tmp_path / "second", settings={"positives_only": True})
    assert found["classes"] == ["positive"]
    assert [len(row["cells"]) for row in found["rows"]] == [1] * len(found["rows"])
    assert found["confusion"][0]["given"] == ["positive", "blank"]


def test_the_section_is_there_only_where_labels_are_compared(tmp_path):
    write_results(tmp_path / "with", load(**REAL))
    html = build(tmp_path / "with")
    assert 'id="labels-open_i-terms"' in html and 'href="#labels"' in html
    assert "The reference states only what is there." in html
    write_results(tmp_path / "without", load(label_agreement={"comparisons": []}))
    html = build(tmp_path / "without")
    assert "Report labels" not in html and 'href="#labels"' not in html


def test_the_confusion_is_that_of_the_file(tmp_path):
    found = made(tmp_path, s1={"Pneumothorax": 1.0})
    table = pd.read_csv(tmp_path / "benchmarks/label_agreement/mimic_cxr/chexpert/confusion.csv")
    table = table[table["finding"] != "No Finding"]
    counts = [cell["count"] for row in found["confusion"] for cell in row["cells"]]
    assert sum(counts) == table["studies"].sum()
