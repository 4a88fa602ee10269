"""The orders that a paper claims: what is said of cells in order, level, reversed, absent."""

import csv
import json

import pytest

from cxrflow.papers import Paper, load_paper
from cxrflow.papers.tables import Column, Ordering
from cxrflow.tables import orderings
from cxrflow.tables.cells import Cell
from cxrflow.tables.orderings import HOLDS, OVERLAP, REVERSED, Compared

MODELS = ("best", "good", "level", "poor", "absent", "twice", "also twice")
RUNS = (  # model, seed, ends of its interval, of which the middle is the value
    ("best", 0, 0.8, 0.9), ("good", 0, 0.6, 0.75), ("level", 0, 0.5, 0.7), ("poor", 0, 0.1, 0.2),
    ("twice", 0, 0.6, 0.8), ("twice", 1, 0.4, 0.6),
    ("also twice", 0, 0.7, 0.74), ("also twice", 1, 0.2, 0.4),
)  # fmt: skip


def table():
    rows = [
        {"label": f"Row {name}", "model": name, "published": {"cnr": [str(place), None]}}
        for place, name in enumerate(MODELS)
    ]
    column = {"key": "cnr", "label": "CNR", "metric": "cnr", "scale": 100, "digits": 0}
    return {"title": "Table 9. Test", "source": "", "task": "g", "columns": [column],
            "rows": rows}  # fmt: skip


def paper(*claims):
    return Paper.model_validate(
        {
            "tables": {"table9": table()},
            "orderings": [
                {"claim": f"Claim {number}", "table": "table9", "column": "cnr",
                 "rows": [f"Row {name}" for name in rows]}
                for number, rows in enumerate(claims)
            ],
        }
    )  # fmt: skip


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Write orderings of these claims; the lines of the CSV and the other texts."""

    def write(*claims):
        made = paper(*claims)
        monkeypatch.setattr(orderings, "load_paper", lambda name: made)
        files = []
        for name, seed, low, high in RUNS:
            entry = {"value": (low + high) / 2, "low": low, "high": high, "n": 9}
            content = {"benchmark": "g", "model": name, "seed": seed, "protocol": {}}
            content["data"] = {"name": "tiny", "synthetic": True, "fingerprint": "f"}
            files.append(tmp_path / f"{name} {seed}.json")
            files[-1].write_text(json.dumps(content | {"metrics": {"cnr": entry}}))
        output = tmp_path / "orderings"
        orderings.main(["--paper", "p", "--metrics", *map(str, files), "--output", str(output)])
        texts = [output.with_suffix(end).read_text() for end in (".csv", ".md", ".html")]
        return list(csv.DictReader(texts[0].splitlines())), *texts[1:]

    return write


def test_neighbours_of_a_claim_are_compared_best_first(written):
    lines, markdown, html = written(("best", "good", "level", "poor"))
    pairs = [(line["better"], line["worse"], line["found"]) for line in lines]
    assert pairs == [
        ("Row best", "Row good", HOLDS),
        ("Row good", "Row level", OVERLAP),
        ("Row level", "Row poor", HOLDS),
    ]
    first = lines[0]
    values = [float(first[f"better_{name}"]) for name in ("ours", "low", "high", "published")]
    assert values == pytest.approx([85, 80, 90, 0])
    assert "2 of the 3 comparisons measured hold" in markdown
    assert markdown.count("Claim 0") == html.count("Claim 0") == 1
    assert "synthetic data (tiny)" in html and html.count("<section") == 1


def test_what_is_reversed_or_absent_is_said(written):
    lines, markdown, html = written(("poor", "best"), ("best", "absent"), ("level", "good"))
    assert [line["found"] for line in lines] == [REVERSED, "not measured", REVERSED]
    assert lines[1]["worse_ours"] == "" and "not run in this configuration" in html
    assert "0 of the 2 comparisons measured hold" in markdown


def test_several_seeds_are_counted_one_by_one():
    column = Column(key="cnr", label="CNR", metric="cnr")
    cells = [
        Cell("Row", "cnr", sum(values) / 3, 0.1, 0.5, 0.6, 3, None, None, None,
             by_seed=dict(enumerate(values)))
        for values in ((3.0, 1.0, 5.0), (2.0, 2.0, 2.0))
    ]  # fmt: skip
    one = Compared("Claim", "Table 9", column, *cells)
    assert one.seeds == (3, 2)
    assert one.finding == f"{OVERLAP} (in order in 2 of 3 seeds)"


def test_seeds_of_both_rows_are_paired(written):
    """A row of seeds 0 and 1 beside one of seed 0: the mean is compared, one seed is common."""
    lines, markdown, html = written(("good", "twice"))
    assert lines[0]["worse_ours"] == "60" and lines[0]["found"] == OVERLAP
    assert (lines[0]["seeds"], lines[0]["seeds_in_order"]) == ("1", "0")
    assert "in order in" not in markdown + html
    lines, markdown, html = written(("twice", "also twice"))
    assert (lines[0]["seeds"], lines[0]["seeds_in_order"]) == ("2", "1")
    for text in (markdown, html):
        assert f"{OVERLAP} (in order in 1 of 2 seeds)" in text and "standard deviation" in text


def test_equal_values_do_not_hold(written):
    assert written(("good", "good"))[0][0]["found"] == REVERSED


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"table": "table8"}, "no table 'table8'"),
        ({"column": "miou"}, "table9 has not: miou"),
        ({"rows": ["Row best", "Row none"]}, "table9 has not: Row none"),
        ({"rows": ["Row best"]}, "at least 2"),
    ],
)
def test_a_claim_names_cells(change, named):
    claim = {"claim": "C", "table": "table9", "column": "cnr", "rows": ["Row best", "Row good"]}
    with pytest.raises(ValueError, match=named):
        Paper.model_validate({"tables": {"table9": table()}, "orderings": [claim | change]})


def published(claim: Ordering) -> list[float]:
    rows = {row.label: row for row in load_paper("biovil").tables[claim.table].rows}
    return [float(rows[label].published[claim.column][0]) for label in claim.rows]


@pytest.mark.parametrize("number", range(len(load_paper("biovil").orderings)))
def test_the_published_values_stand_in_the_order_that_is_claimed(number):
    claim = load_paper("biovil").orderings[number]
    values = published(claim)
    assert values == sorted(values, reverse=True) and len(set(values)) == len(values), claim.claim
