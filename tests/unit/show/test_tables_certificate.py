"""The certificate of released weights: its rule, and its cells in three forms."""

import csv
from dataclasses import replace

import pytest
from html_outline import Outline
from table_fixtures import estimate, result, with_rows, write_result

from command_options import options
from cxrflow.papers import Paper
from cxrflow.show.tables import certificate
from cxrflow.show.tables.cells import Cell
from cxrflow.show.tables.certificate import verdict

PRINTED = Cell("Ours", "auroc", published="0.831", low=0.80, high=0.82)
SPREAD = replace(PRINTED, published_sd="0.02")


@pytest.mark.parametrize(
    ("cell", "ours", "expected"),
    [
        (PRINTED, 0.8312, "equal"),
        (PRINTED, 0.8305, "equal"),  # half a unit: as well 0.831 as 0.830
        (PRINTED, 0.81, "not equal"),
        (replace(PRINTED, high=0.8304), 0.81, "not equal"),
        (replace(PRINTED, high=0.8306), 0.81, "within our interval"),
        (SPREAD, 0.8114, "within the printed spread"),
        (SPREAD, 0.8509, "within the printed spread"),
        (SPREAD, 0.8521, "not equal"),
        # Where a spread is printed, our interval is no excuse.
        (replace(SPREAD, low=0.7, high=0.9), 0.8, "not equal"),
        (replace(PRINTED, low=None), 0.80, "not equal"),
        (replace(PRINTED, published="28,996"), 28996.0, "equal"),
        (replace(PRINTED, published=".542"), 0.5424, "equal"),
        (replace(PRINTED, published="✓"), "✓", "equal"),
        (replace(PRINTED, published="✓"), "op-acity", "not equal"),
        (PRINTED, None, "not measured"),
        (PRINTED, "rehearsed", "not measured"),
    ],
)
def test_the_rule(cell, ours, expected):
    assert verdict(replace(cell, ours=ours)) == expected


@pytest.fixture
def made(tmp_path, monkeypatch):
    """The certificate of a table: two rows with results, one without, a mean, a missing metric."""
    columns = [
        {"key": "avg", "label": "Avg. CNR", "metric": "cnr"},
        {"key": "rate", "label": "Rate (%)", "metric": "rate", "scale": 100, "digits": 1},
        {"key": "mean", "label": "Mean", "mean_of": ["avg", "rate"]},
        {"key": "lost", "label": "Lost", "metric": "lost"},
        {"key": "other", "label": "Other", "metric": "cnr", "task": "other"},
    ]
    table = with_rows(
        {"label": "Released", "model": "m", "published": {
            "avg": ["1.027", "0.02"], "rate": "12.75", "mean": "6.8", "lost": "1", "other": "2"}},
        {"label": "Unpublished", "model": "m"},
        {"label": "Trained", "model": "n", "published": {"avg": "1.0"}},
        {"label": "Data", "data": True, "task": "counts", "published": {"avg": "1,153"}},
    ).model_dump() | {"columns": columns}  # fmt: skip
    paper = Paper.model_validate({"name": "mine", "tables": {"table9": table}})
    monkeypatch.setattr(certificate, "load_paper", lambda source: paper)

    def make(synthetic=False, **more):
        metrics = [
            result(tmp_path, 0, 1.04, learnt=None, synthetic=synthetic, rate=estimate(0.125, n=40)),
            write_result(tmp_path / "counts.json", "counts", "data", 0,
                         {"cnr": estimate(1153, n=1)}, synthetic=synthetic, learnt=None),
        ]  # fmt: skip
        prefix = tmp_path / "certificate"
        certificate.main(options(papers=["mine"], metrics=metrics, output=prefix, **more))
        texts = {end: prefix.with_suffix(f".{end}").read_text() for end in ("csv", "md", "html")}
        return texts, {
            (r["row"], r["column"]): r for r in csv.DictReader(texts["csv"].splitlines())
        }

    return make


def test_published_cells_with_results_stand_in_it(made):
    texts, rows = made(overlays=["paper.yaml", "my weights.yaml"], notes=["More need weights."])
    assert {key: row["verdict"] for key, row in rows.items()} == {
        ("Released", "avg"): "within the printed spread",
        ("Released", "rate"): "not equal",
        ("Released", "mean"): "equal",
        ("Released", "lost"): "not measured",
        ("Data", "avg"): "equal",
    }
    rate = rows["Released", "rate"]
    assert (rate["paper"], rate["table"], rate["task"]) == ("mine", "table9", "grounding")
    assert (rate["model"], rate["n"], rate["difference"]) == ("m", "40", "-0.25")
    assert rate["command"].startswith("snakemake --cores all --force /")
    assert rate["command"].endswith(" --configfile paper.yaml 'my weights.yaml'")
    # A row has one printed digit more than the table's column.
    assert "| not equal, by −0.25 |" in texts["md"]
    assert "1.040 (0.840 to 1.140) | 50 | within the printed spread" in texts["md"]
    assert "not measured: its results lack this metric" in texts["md"]
    assert "5 published cells that need no training: 2 equal, 1 " in texts["md"]
    assert "real data" in texts["md"] and "- More need weights." in texts["md"]
    assert certificate.RULE in texts["md"] and certificate.RULE in texts["html"]
    assert Outline(texts["html"]).open == []
    assert texts["html"].isascii() and 'class="synthetic"' not in texts["html"]
    assert texts["html"].count('<td class="verdict holds">') == 3


def test_pages_are_passed_on_without_folders_of_the_machine(made, tmp_path):
    texts, rows = made(overlays=["/home/me/weights.yaml"])
    for end in ("md", "html"):
        assert str(tmp_path) not in texts[end] and "/home/me" not in texts[end]
    command = rows["Data", "avg"]["command"]
    assert str(tmp_path) in command and command.endswith("/home/me/weights.yaml")


def test_on_synthetic_data_it_says_so_first(made):
    texts, _ = made(synthetic=True)
    assert '<p class="synthetic">Our values were measured on synthetic data' in texts["html"]
    assert texts["md"].splitlines()[2].startswith("- Our values were measured on synthetic data")
