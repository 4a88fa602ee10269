"""What is said of a paper's cells: the rankings that it claims."""

import csv

import pytest
from table_fixtures import estimate, write_result, write_tests

from command_options import options
from cxrflow.papers import Paper, load_paper
from cxrflow.papers.claims import Ordering
from cxrflow.papers.table import Address, Column
from cxrflow.show.tables import orderings
from cxrflow.show.tables.cells import Cell
from cxrflow.show.tables.orderings import Compared, Side
from cxrflow.show.tables.results import read_results
from cxrflow.show.tables.verdicts import HOLDS, NOT_RUN, NOT_SHOWN, OPPOSITE

# Values of a model's seeds; Student's intervals of three seeds are 0.06, of two 1.3 wide.
SCORES = {
    "best": (0.84, 0.85, 0.86), "good": (0.66, 0.68, 0.67), "level": (0.6, 0.64, 0.63),
    "poor": (0.14, 0.15, 0.16), "absent": (), "once": (0.9,), "twice": (0.9, 1.0),
    "fixed": (0.4,), "flat": (0.3, 0.31, 0.3), "even": (0.3,), "wide": (0.3, 0.7, 0.65),
    "still": (0.1,),
}  # fmt: skip
LEARNT = {"fixed": [None], "still": [None], "flat": [True, False, True], "even": [False]}
CHANCE = "not shown: in order, may be chance"
AGAINST = "not shown: in the opposite order, may be chance"
UNEQUAL = "not shown: the difference may exceed the margin"
FEW = "not shown: {}"


def judged(lines):
    """The verdicts of lines with their reasons."""
    return [": ".join(filter(None, (line["verdict"], line["why"]))) for line in lines]


def table(name="Table 9"):
    rows = [
        {"label": f"Row {name}", "model": name, "published": {"cnr": [str(place), None]}}
        for place, name in enumerate(SCORES)
    ]
    columns = [
        {"key": "cnr", "label": "CNR", "metric": "cnr", "scale": 100, "digits": 0},
        {"key": "half", "label": "Half", "metric": "half", "scale": 100, "digits": 0},
        {"key": "mean", "label": "Mean", "mean_of": ["cnr", "half"], "digits": 0},
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

    def write(*claims, tests=(), **more):
        made = paper(*claims)
        monkeypatch.setattr("cxrflow.show.tables.results.load_paper", lambda name: made)
        files = []
        runs = [(name, *run) for name, scores in SCORES.items() for run in enumerate(scores)]
        for name, seed, value in runs:
            cnr = estimate(value, value - 0.01, value + 0.01)
            metrics = {
                "cnr": cnr,
                "half": {key: v if key == "n" else v / 2 for key, v in cnr.items()},
            }
            learnt, path = LEARNT.get(name, [True] * 3)[seed], tmp_path / f"{name} {seed}.json"
            files.append(write_result(path, "g", name, seed, metrics, learnt=learnt))
        tested = write_tests(tmp_path / "table9.tests.json", tests)
        output = tmp_path / "orderings"
        orderings.main(options(paper="p", metrics=files, tests=tested, output=output, **more))
        texts = [output.with_suffix(end).read_text() for end in (".csv", ".md", ".html")]
        return list(csv.DictReader(texts[0].splitlines())), *texts[1:]

    return write


def test_neighbours_of_a_claim_are_compared_best_first(written):
    lines, markdown, html = written(("best", "good", "level", "poor"))
    pairs = [(line["better"], line["worse"], line["verdict"]) for line in lines]
    assert pairs == [
        ("Row best", "Row good", HOLDS),
        ("Row good", "Row level", NOT_SHOWN),
        ("Row level", "Row poor", HOLDS),
    ]
    first = lines[0]
    assert (float(first["better_ours"]), first["better_published"]) == (pytest.approx(85), "0")
    half = 100 * 4.302653 * 0.01 / 3**0.5  # over seeds alone: no predictions were given
    ends = (float(first["better_low"]), float(first["better_high"]))
    assert ends == pytest.approx((85 - half, 85 + half), abs=1e-3)
    assert "Of 3 comparisons: holds 2, not shown 1." in markdown
    assert "(in order in 3 of 3 seeds)" in markdown
    assert markdown.count("Claim 0") == html.count("Claim 0") == 1
    assert "synthetic data (tiny)" in html and html.count("<section") == 1


def test_what_is_reversed_or_absent_is_said(written):
    lines, markdown, html = written(("poor", "best"), ("best", "absent"), ("level", "good"))
    assert [line["verdict"] for line in lines] == [OPPOSITE, NOT_RUN, NOT_SHOWN]
    assert judged(lines)[2] == AGAINST
    assert lines[1]["worse_ours"] == "" and "not run in this configuration" in html
    assert "Of 3 comparisons: opposite 1, not shown 1, not run 1." in markdown


def test_what_starts_from_a_stand_in_is_not_comparable(written):
    stand_ins = ["best=BERT and ImageNet", "flat=ImageNet"]
    lines, *texts = written(("best", "good", "poor"), ("flat", "best"), stand_ins=stand_ins)
    why = "not comparable: stand-in for "
    flat = f"{why}ImageNet and BERT; training of flat not converged"
    assert judged(lines) == [f"{why}BERT and ImageNet", HOLDS, flat]
    assert lines[0]["better"] == "Row best (stand-in here)" and lines[0]["worse"] == "Row good"
    for text in texts:
        assert f"{why}BERT and ImageNet (in order in 3 of 3 seeds)" in text
        assert "Of 3 comparisons: holds 1, not comparable 2." in text


def test_fewer_than_three_seeds_are_not_judged(written):
    lines, markdown, html = written(("once", "poor"), ("poor", "once"), ("twice", "best", "once"))
    assert judged(lines) == [FEW.format(n) for n in ("one seed", "one seed", "2 seeds", "one seed")]
    assert (lines[2]["seeds"], lines[2]["seeds_in_order"]) == ("2", "2")
    for text in (markdown, html):
        assert "not shown: 2 seeds (to decide it: 3 seeds; in order in 2 of 2 seeds)" in text
        assert "Of 4 comparisons: not shown 4. A verdict needs at least 3 training" in text
    # Nor by a test over the one seed that both have.
    test = comparison("best", "once", 0.1, 0.2, seeds=1)
    assert judged(written(("best", "once"), tests=[test])[0]) == [FEW.format("one seed")]


def test_what_was_not_trained_needs_no_seeds(written):
    lines, _, _ = written(("best", "fixed", 0), ("poor", "fixed"))
    assert [line["verdict"] for line in lines] == [HOLDS, HOLDS, OPPOSITE]
    assert (lines[0]["seeds"], lines[0]["seeds_in_order"]) == ("3", "3")
    assert lines[1]["seeds"] == "0"


def test_rows_whose_heads_differ_by_run_are_not_judged(written):
    by_run = {"reason": "runs of a head differ", "p": None, "p_holm": None}
    tests = [comparison("fixed", "still", 0.1, 0.5, seeds=0)]
    assert judged(written(("fixed", "still"), tests=tests)[0]) == [HOLDS]
    tests = [tests[0] | by_run]
    lines, markdown, _ = written(("fixed", "still"), tests=tests)
    assert judged(lines) == [FEW.format("runs of a head differ")]
    assert "Of 1 comparisons: not shown 1." in markdown
    claim = {"rows": ("fixed", "still"), "margin": 60}
    tests = [tests[0] | {"margin": 0.6, "p_equivalent": None}]
    assert judged(written(claim, tests=tests)[0]) == [FEW.format("runs of a head differ")]


def test_a_mean_of_columns_is_not_judged_over_seeds_alone(written):
    """Apart as the intervals may be, samples have no part in them."""
    mean = [{"row": f"Row {name}", "column": "mean"} for name in ("best", "poor", "fixed")]
    alone = FEW.format("a mean of columns, over seeds alone")
    lines, markdown, _ = written({"rows": mean[:2]}, {"rows": mean[1::-1]}, {"rows": ("best", 50)})
    assert judged(lines) == [alone, alone, HOLDS]
    assert f"{alone} (in order in 3 of 3 seeds)" in markdown
    assert "Of 3 comparisons: holds 1, not shown 2." in markdown
    assert judged(written({"rows": mean[::2]})[0]) == [alone]
    assert judged(written({"rows": [mean[0], 50]})[0]) == [alone]


def test_no_ranking_is_taken_from_a_model_that_did_not_learn(written):
    lines, markdown, html = written(("best", "flat"), ("flat", "poor"), ("once", "flat"))
    assert {*judged(lines)} == {"not comparable: training of flat not converged"}
    for text in (markdown, html):
        assert "not comparable: training of flat not converged" in text
        assert "training not converged in 1 of 3 seeds" in text
        assert "says nothing of the method" in text
    assert "Of 3 comparisons: not comparable 3." in markdown
    assert judged(written(("even", "flat"))[0]) == [
        "not comparable: training of even and flat not converged"
    ]


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
    assert one.finding == f"{CHANCE} (in order in 2 of 3 seeds)"


def test_smaller_may_be_better(written):
    lines, markdown, _ = written({"rows": ("poor", "level", "good", "best"), "smaller": True})
    assert [line["verdict"] for line in lines] == [HOLDS, NOT_SHOWN, HOLDS]
    assert "less is better" in markdown
    assert judged(written({"rows": ("best", "poor"), "smaller": True})[0]) == [OPPOSITE]


def test_cells_of_other_columns_and_tables_and_numbers_are_compared(written):
    other = {"row": "Row best", "column": "half"}
    elsewhere = {"row": "Row poor", "table": "table10"}
    lines, markdown, _ = written({"rows": ("level", other, elsewhere, 0)}, ("wide", 50))
    assert [(line["better"], line["worse"], line["verdict"]) for line in lines] == [
        ("Row level", "Row best, Half", HOLDS),
        ("Row best, Half", "Row poor, CNR (Table 10)", HOLDS),
        ("Row poor, CNR (Table 10)", "0", HOLDS),
        ("Row wide", "50", NOT_SHOWN),
    ]
    assert lines[1]["better_ours"] == "42.5" and lines[2]["worse_high"] == "0"
    assert (lines[3]["seeds"], lines[3]["seeds_in_order"]) == ("3", "2")  # 30, 70 and 65 over 50
    assert "(in order in 2 of 3 seeds)" in markdown


def comparison(better, worse, low, high, seeds=3, reason=None):
    entry = {"task": "g", "model": better, "metric": "cnr", "reference_model": worse}
    entry |= {"reference_metric": "cnr", "reason": reason, "seeds": seeds}
    ends = {"difference": (low + high) / 2, "difference_low": low, "difference_high": high}
    return entry | (dict.fromkeys(ends) if reason else {"p": 0.01, "p_holm": 0.01} | ends)


def test_cells_of_one_task_are_judged_by_their_difference(written):
    claim = {"rows": ("good", "level", "poor", "best")}
    assert [
        tuple(one.model_dump(exclude_none=True).values())
        for one in paper(claim).comparisons("table9")
    ] == [
        ("g", "good", "cnr", "level", "cnr"),
        ("g", "level", "cnr", "poor", "cnr"),
        ("g", "poor", "cnr", "best", "cnr"),
    ]
    assert paper(claim).comparisons("table10") == []
    tests = [comparison("good", "level", 0.01, 0.09), comparison("level", "poor", -0.01, 0.5)]
    lines, markdown, _ = written(claim, tests=tests)
    assert judged(lines) == [HOLDS, CHANCE, OPPOSITE]
    assert "95 % interval of their difference" in markdown
    reverse = comparison("level", "good", -0.2, -0.1)
    assert judged(written(("good", "level"), tests=[reverse])[0]) == [HOLDS]
    down = {"rows": ("poor", "level"), "smaller": True}
    small = comparison("poor", "level", -0.2, -0.1)
    assert judged(written(down, tests=[small])[0]) == [HOLDS]


def test_where_no_difference_could_be_tested_intervals_judge(written):
    why = comparison("good", "level", 0, 0, reason="measured on different samples")
    lines, markdown, _ = written(("good", "level"), tests=[why])
    assert judged(lines) == [CHANCE]
    assert f"{CHANCE} (measured on different samples; in order in 3 of 3 seeds)" in markdown


def test_neighbours_in_other_tables_are_paired_where_task_and_unit_are_the_same():
    other = {"row": "Row best", "table": "table10"}
    half = {"row": "Row good", "column": "half", "table": "table10"}
    asked = paper({"rows": ("level", other, half, 0.5)}).comparisons("table9")
    assert [tuple(one.model_dump(exclude_none=True).values()) for one in asked] == [
        ("g", "level", "cnr", "best", "cnr"),
        ("g", "best", "cnr", "good", "half"),
    ]


def test_a_claim_of_equality_is_judged_by_its_margin(written):
    """In the column's unit: 100 times the metric here."""
    claim = {"rows": ("good", "level"), "margin": 6}
    (asked,) = paper(claim).comparisons("table9")
    assert asked.margin == pytest.approx(0.06)

    def verdict(p, **changes):
        test = comparison("good", "level", -0.02, 0.1) | {"margin": 0.06, "p_equivalent": p}
        return judged(written({**claim, **changes}, tests=[test])[0])

    assert verdict(0.01) == [HOLDS] and verdict(0.2) == [UNEQUAL] == verdict(None)
    assert judged(written(claim)[0]) == [UNEQUAL]  # no test of both
    assert judged(written({"rows": ("best", "level"), "margin": 6})[0]) == [OPPOSITE]
    lines, markdown, html = written(claim)
    assert (lines[0]["seeds"], lines[0]["seeds_in_order"]) == ("3", "2")  # 6, 4 and 5 apart
    assert "within the margin in 2 of 3 seeds" in markdown and "equal within ± 6" in markdown


def test_a_claim_of_a_part_is_judged_by_that_part_of_the_next(written):
    """0.67 is more than 0.7 of 0.85, and less than 0.85 of it; the paired test decides."""
    claims = [{"rows": ("good", "best"), "factor": factor, "ours": True} for factor in (0.7, 0.85)]
    lines, markdown, _ = written(*claims)
    assert [(line["verdict"], line["seeds_in_order"]) for line in lines] == [
        (HOLDS, "3"),
        (OPPOSITE, "0"),
    ]
    assert "**Ours, which the paper does not claim: Claim 0**" in markdown
    assert "| Table 9, CNR, above 0.7 of the next |" in markdown
    test = comparison("good", "best", -0.01, 0.2)
    assert judged(written(claims[0], tests=[test])[0]) == [HOLDS]  # the test is of another factor
    assert judged(written(claims[0], tests=[test | {"factor": 0.7}])[0]) == [CHANCE]
    assert paper(claims[0]).comparisons("table9")[0].factor == 0.7
    with pytest.raises(ValueError, match="factor is of values of which more is better"):
        paper(claims[0] | {"margin": 1.0})


def test_the_notes_say_the_level_of_the_tests():
    text = orderings.orderings_markdown([], read_results([]), 0.2)
    assert "by the 80 % interval of their difference" in text and "tests at 20 %." in text


def test_equal_values_do_not_hold(written):
    assert judged(written(("good", "good"))[0]) == ["not shown: no difference"]


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
    "claim",
    [one for one in load_paper("biovil").orderings if not one.ours and "(ours)" not in one.claim],
)
def test_the_published_values_stand_in_the_order_that_is_claimed(claim):
    values = published(claim)
    assert values == sorted(set(values), reverse=not claim.smaller), claim.claim


@pytest.mark.parametrize(("name", "count"), [("medcutmix", 12), ("low_data", 12)])
def test_published_values_are_in_the_claimed_order(name, count):
    """Of claims with printed numbers; those that the numbers do not carry say so."""
    paper, printed = load_paper(name), 0
    for claim in paper.orderings:
        spots = [paper.spot(place) for place in claim.places()]
        published = [row.published.get(column.key, [None])[0] for _, row, column in spots]
        if None in published:
            assert set(published) == {None}, claim.claim
            continue
        printed += 1
        values = list(map(float, published))
        in_order = values == sorted(set(values), reverse=True)
        assert in_order or "do not carry it" in claim.claim, claim.claim
    assert printed == count
