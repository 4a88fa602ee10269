"""The orders that a paper claims: what is said of cells in order, level, reversed, absent."""

import csv
import json

import pytest

from cxrflow.papers import Paper, load_paper
from cxrflow.papers.tables import Address, Column, Ordering
from cxrflow.tables import orderings
from cxrflow.tables.cells import Cell
from cxrflow.tables.orderings import (
    HOLDS,
    OVERLAP,
    REVERSED,
    UNSURE,
    UNTESTED,
    Compared,
    Side,
)

MODELS = ("best", "good", "level", "poor", "absent", "twice", "also twice")
RUNS = (  # model, seed, ends of its interval, of which the middle is the value
    ("best", 0, 0.8, 0.9), ("good", 0, 0.6, 0.75), ("level", 0, 0.5, 0.7), ("poor", 0, 0.1, 0.2),
    ("twice", 0, 0.6, 0.8), ("twice", 1, 0.4, 0.6),
    ("also twice", 0, 0.7, 0.74), ("also twice", 1, 0.2, 0.4),
)  # fmt: skip


def table(name="Table 9"):
    rows = [
        {"label": f"Row {name}", "model": name, "published": {"cnr": [str(place), None]}}
        for place, name in enumerate(MODELS)
    ]
    columns = [
        {"key": "cnr", "label": "CNR", "metric": "cnr", "scale": 100, "digits": 0},
        {"key": "half", "label": "Half", "metric": "half", "scale": 100, "digits": 0},
    ]
    return {"title": f"{name}. Test", "source": "", "task": "g", "columns": columns, "rows": rows}


def paper(*claims):
    """Claims of rows by the names of their models, or with what else a claim says."""
    full = [claim if isinstance(claim, dict) else {"rows": claim} for claim in claims]
    return Paper.model_validate(
        {
            "name": "p",
            "tables": {"table9": table(), "table10": table("Table 10")},
            "orderings": [
                {"claim": f"Claim {number}", "table": "table9", "column": "cnr", **claim,
                 "rows": [f"Row {row}" if isinstance(row, str) else row for row in claim["rows"]]}
                for number, claim in enumerate(full)
            ],
        }
    )  # fmt: skip


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Write orderings of these claims; the lines of the CSV and the other texts."""

    def write(*claims, tests=()):
        made = paper(*claims)
        monkeypatch.setattr(orderings, "load_paper", lambda name: made)
        files = []
        for name, seed, low, high in RUNS:
            entry = {"value": (low + high) / 2, "low": low, "high": high, "n": 9}
            half = {key: value / 2 for key, value in entry.items()}
            content = {"task": "g", "model": name, "seed": seed, "protocol": {}}
            content["data"] = {"name": "tiny", "synthetic": True, "fingerprint": "f"}
            files.append(tmp_path / f"{name} {seed}.json")
            metrics = {"metrics": {"cnr": entry, "half": half}}
            files[-1].write_text(json.dumps(content | metrics))
        tested = tmp_path / "table9.tests.json"
        protocol = {"level": 0.95, "replicates": 1000}
        tested.write_text(json.dumps({"protocol": protocol, "comparisons": tests}))
        output = tmp_path / "orderings"
        orderings.main(
            ["--paper", "p", "--metrics", *map(str, files), "--tests", str(tested)]
            + ["--output", str(output)]
        )
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
    sides = [
        Side("Row", column, Cell("Row", "cnr", sum(values) / 3, low=0.5, high=0.6, seeds=3,
                                 by_seed=dict(enumerate(values))))
        for values in ((3.0, 1.0, 5.0), (2.0, 2.0, 2.0))
    ]  # fmt: skip
    (claim,) = paper(("best", "good")).orderings
    one = Compared(claim, "Table 9", *sides)
    assert one.seeds == (3, 2)
    assert one.finding == f"{OVERLAP} (in order in 2 of 3 seeds)"


def test_smaller_may_be_better(written):
    lines, markdown, _ = written({"rows": ("poor", "level", "good", "best"), "smaller": True})
    assert [line["found"] for line in lines] == [HOLDS, OVERLAP, HOLDS]
    assert "less is better" in markdown
    assert written({"rows": ("best", "poor"), "smaller": True})[0][0]["found"] == REVERSED


def test_cells_of_other_columns_and_tables_and_numbers_are_compared(written):
    other = {"row": "Row best", "column": "half"}
    elsewhere = {"row": "Row poor", "table": "table10"}
    lines, markdown, _ = written({"rows": ("level", other, elsewhere, 0)}, ("twice", 50))
    assert [(line["better"], line["worse"], line["found"]) for line in lines] == [
        ("Row level", "Row best, Half", HOLDS),
        ("Row best, Half", "Row poor, CNR (Table 10)", HOLDS),
        ("Row poor, CNR (Table 10)", "0", HOLDS),
        ("Row twice", "50", OVERLAP),
    ]
    assert lines[1]["better_ours"] == "42.5" and lines[2]["worse_high"] == "0"
    assert (lines[3]["seeds"], lines[3]["seeds_in_order"]) == ("2", "1")  # of 70 and 50, over 50
    assert "(in order in 1 of 2 seeds)" in markdown


def comparison(better, worse, low, high):
    entry = {"task": "g", "model": better, "metric": "cnr", "reference_model": worse}
    entry |= {"reference_metric": "cnr", "reason": None, "p": 0.01, "p_holm": 0.01}
    ends = {"difference": (low + high) / 2, "difference_low": low, "difference_high": high}
    return entry | ends


def test_a_paired_claim_is_judged_by_the_tests_of_its_rows(written):
    claim = {"rows": ("good", "level", "poor", "best"), "paired": True}
    assert [tuple(one.model_dump().values()) for one in paper(claim).comparisons("table9")] == [
        ("g", "good", "cnr", "level", "cnr"),
        ("g", "level", "cnr", "poor", "cnr"),
        ("g", "poor", "cnr", "best", "cnr"),
    ]
    assert paper(claim).comparisons("table10") == []
    lines, markdown, _ = written(claim, tests=[
        comparison("good", "level", 0.1, 0.2), comparison("poor", "level", -0.2, 0.1),
    ])  # fmt: skip
    assert [line["found"] for line in lines] == [HOLDS, UNSURE, UNTESTED]
    assert "CNR, paired" in markdown and "interval of the difference without 0" in markdown
    reverse = comparison("level", "good", -0.2, -0.1)
    small = comparison("poor", "level", -0.2, -0.1)
    assert (
        written({"rows": ("good", "level"), "paired": True}, tests=[reverse])[0][0]["found"]
        == HOLDS
    )
    down = {"rows": ("poor", "level"), "paired": True, "smaller": True}
    assert written(down, tests=[small])[0][0]["found"] == HOLDS
    assert written(("good", "level"), tests=[reverse])[0][0]["found"] == OVERLAP


def test_a_paired_claim_is_of_one_column():
    with pytest.raises(ValueError, match="paired; expected rows of one column"):
        paper({"rows": ("good", 0), "paired": True})


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
        ({"rows": ["Row best", {"row": "Row best", "column": "miou"}]}, "table9 has not: miou"),
    ],
)
def test_a_claim_names_cells(change, named):
    claim = {"claim": "C", "table": "table9", "column": "cnr", "rows": ["Row best", "Row good"]}
    with pytest.raises(ValueError, match=named):
        Paper.model_validate(
            {"name": "p", "tables": {"table9": table()}, "orderings": [claim | change]}
        )


def published(claim: Ordering) -> list[float]:
    tables = load_paper("biovil").tables
    return [
        float(tables[place.table].row(place.row).published[place.column][0])
        if isinstance(place, Address)
        else place
        for place in claim.places()
    ]


@pytest.mark.parametrize(
    "claim", [one for one in load_paper("biovil").orderings if "(ours)" not in one.claim]
)
def test_the_published_values_stand_in_the_order_that_is_claimed(claim):
    values = published(claim)
    assert values == sorted(values, reverse=not claim.smaller) and len(set(values)) == len(
        values
    ), claim.claim
