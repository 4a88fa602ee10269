"""Charts, the outline of what was made from what, and the arithmetic of the flow charts."""

import re
from xml.etree import ElementTree

import pytest

from cxrflow.page.cohorts import lanes, sums_check
from cxrflow.page.inputs import Training
from cxrflow.page.svg import ChartLine, line_chart, ticks
from cxrflow.page.training import POINTS, curve, outline, speed, term_names, thinned


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1, [0, 0.25, 0.5, 0.75, 1]),
        (0, 600, [0, 200, 400, 600]),
        (-1.2, 1.2, [-1, 0, 1]),
        (3, 3, [3]),
    ],
)
def test_ticks_are_round_and_inside(low, high, expected):
    assert ticks(low, high) == pytest.approx(expected)


def test_a_line_chart_places_the_ends_of_a_line_at_the_ends_of_its_axes():
    chart = line_chart([ChartLine("a", "train", [0, 10], [0, 1])], "said", "step", y_range=(0, 1))
    root = ElementTree.fromstring(str(chart))
    assert root.get("aria-label") == "said"
    line = next(one for one in root if one.get("class") == "line train")
    start, end = re.findall(r"([\d.]+),([\d.]+)", line.get("d"))
    axis = next(one for one in root if one.get("class") == "axis").get("d")
    left, bottom, right = map(float, re.match(r"M(\S+) (\S+)H(\S+)", axis).groups())
    assert (float(start[0]), float(start[1])) == pytest.approx((left, bottom))
    assert float(end[0]) == pytest.approx(right)
    assert float(end[1]) < bottom


def test_charts_escape_names():
    bad = '<script>"'
    chart = line_chart([ChartLine(bad, "train", [1], [1])], bad, bad)
    ElementTree.fromstring(str(chart))
    assert "<script" not in chart


def test_constant_values_and_a_single_point_can_be_drawn():
    ElementTree.fromstring(str(line_chart([ChartLine("a", "train", [5], [2.0])], "x", "step")))
    flat = line_chart([ChartLine("a", "train", [1, 2], [0.0, 0.0])], "x", "step")
    assert "nan" not in flat


def test_thinning_keeps_the_mean_and_the_last_step():
    xs = list(range(1, 1001))
    ys = [float(x % 7) for x in xs]
    thin_x, thin_y = thinned(xs, ys)
    assert len(thin_x) <= POINTS
    assert thin_x[-1] == 1000
    group = -(-len(xs) // POINTS)
    assert thin_y[0] == pytest.approx(sum(ys[:group]) / group)
    assert thinned([1, 2], [3.0, 4.0]) == ([1, 2], [3.0, 4.0])


def test_a_single_term_that_is_the_objective_is_shown_once():
    assert term_names([[{"step": 1, "split": "train", "mlm": 2.0, "loss": 2.0}]]) == ["mlm"]
    weighted = [[{"step": 1, "split": "train", "mlm": 2.0, "loss": 1.0}]]
    assert term_names(weighted) == ["loss", "mlm"]


def test_no_curve_without_values():
    assert curve({}, "loss") is None


def test_a_loss_that_is_not_finite_has_no_place_in_the_curve():
    log = [{"step": 1, "split": "train", "loss": 3.0}, {"step": 2, "split": "train", "loss": 2.0}]
    validated = enumerate((2.5, float("nan"), float("inf")), start=1)
    log += [{"step": step, "split": "validate", "loss": loss} for step, loss in validated]
    found = curve({0: Training({"validation": {}}, log)}, "loss")
    assert found is not None and "nan" not in str(found["chart"])
    assert found["rows"][0]["validate"] == 2.5


RATES = {"samples_per_second": 4321.4, "tokens_per_second": 0.0}


def test_speed_in_the_words_of_the_page():
    found = speed({**RATES, "flops_per_second": 2.5e8, "mfu": None, "data_wait_share": 0.02})
    assert (found["samples_rate"], found["tokens_rate"]) == ("4,321", "–")
    assert (found["gigaflops_rate"], found["mfu"], found["data_wait_share"]) == ("0.25", None, 0.02)


def test_what_a_run_did_not_record_is_none():
    found = speed(RATES)
    assert [found[name] for name in ("mfu", "data_wait_share", "precision")] == [None] * 3
    assert found["gigaflops_rate"] == "–"


def test_a_model_stands_below_and_to_the_right_of_what_it_started_from():
    parents = {
        "joint": ("bert", "simclr"),
        "phase2": (),
        "simclr": (),
        "bert": ("phase2",),
        "baseline": ("phase2", "simclr", "another paper's"),
    }
    assert list(outline(parents).items()) == [
        ("phase2", 0), ("bert", 1), ("joint", 2), ("baseline", 1), ("simclr", 0),
    ]  # fmt: skip


def test_lanes_follow_each_unit_through_its_own_filters():
    steps = [
        {"name": "listed", "unit": "images", "kept": 10, "dropped": [{"reason": "a", "count": 2}]},
        {"name": "studies", "unit": "studies", "kept": 6, "dropped": []},
        {"name": "frontal", "unit": "images", "kept": 5, "dropped": [{"reason": "b", "count": 4}]},
    ]
    images, studies = lanes(steps)
    assert [step["name"] for step in images["steps"]] == ["listed", "frontal"]
    assert images["steps"][0]["came"] == 12
    assert images["steps"][1]["came"] == 10
    assert images["steps"][1]["silent"] == 1  # neither kept nor dropped: shown as such
    assert images["steps"][1]["share"] == pytest.approx(5 / 12)
    assert studies["unit"] == "studies"
    assert sums_check([images, studies])["passed"]


def test_a_step_that_lets_out_more_than_came_in_fails_the_check():
    steps = [
        {"name": "listed", "unit": "images", "kept": 3, "dropped": []},
        {"name": "joined", "unit": "images", "kept": 4, "dropped": [{"reason": "a", "count": 1}]},
    ]
    check = sums_check(lanes(steps))
    assert not check["passed"]
    assert check["detail"] == "'joined' keeps 4 and drops 1 of 3 images"
