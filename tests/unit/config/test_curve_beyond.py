"""What a curve of shares says of more pairs than there are."""

from dataclasses import replace

import numpy as np
import pytest

from cxrflow.papers.figures import CurveFigure
from cxrflow.papers.table import Column
from cxrflow.show.figures.curve import beyond, beyond_words, draw
from cxrflow.show.tables.cells import Cell
from cxrflow.show.tables.notes import note_on_learning

SHARES = [10.0, 20.0, 50.0, 100.0]
COLUMN = Column(key="auroc", label="AUROC", metric="auroc")
FIGURE = CurveFigure(
    kind="curve",
    title="Retrieval",
    table="retrieval",
    column="auroc",
    x={"label": "pairs", "values": SHARES, "log": True},
    series=[{"label": "adapted", "cells": ["a", "b", "c", "d"]}],
    power_law=True,
)


def cells(rise: float, spread: float, shares: list[float], seeds: int = 3) -> list[Cell]:
    """Trainings about 0.9 - rise * share ^ -0.5."""
    rng = np.random.default_rng(0)
    means = 0.9 - rise * np.asarray(shares) ** -0.5
    return [
        Cell("row", "auroc", by_seed={n: mean + spread * rng.normal() for n in range(seeds)})
        for mean in means
    ]


def test_twice_and_four_times_the_pairs_are_said_and_drawn() -> None:
    more = beyond(SHARES, cells(1.0, 0.002, SHARES))
    assert [point["x"] for point in more["points"]] == [100, 200, 400]
    for point in more["points"]:
        assert point["low"] < 0.9 - point["x"] ** -0.5 < point["high"]
    words = beyond_words({"label": "adapted", "more": more}, COLUMN)
    assert words.startswith("adapted: expected of 2 times the pairs 0.8")
    assert "of 4 times the pairs" in words and "exponent of" in words
    points = [{"x": x, "ours": 0.8, "low": 0.7, "high": 0.9, "published": None} for x in SHARES]
    drawn, plain = (
        draw(FIGURE, [{"label": "adapted", "points": points, **extra}], "AUROC", "ours")
        for extra in ({"more": more}, {})
    )
    assert drawn.startswith(b"\x89PNG") and drawn != plain


@pytest.mark.parametrize(
    ("given", "shares", "reason"),
    [
        (cells(0.0, 0.01, SHARES), SHARES, "too flat"),
        (cells(1.0, 0.01, SHARES[:2]), SHARES[:2], "too short"),
        ([Cell("row", "auroc", reason="not run")] * 4, SHARES, "too short: 0 trainings"),
    ],
)
def test_a_curve_that_does_not_say_is_said_to_be_one(given, shares, reason) -> None:
    more = beyond(shares, given)
    assert reason in more["doubt"]
    words = beyond_words({"label": "adapted", "more": more}, COLUMN)
    assert words.startswith("adapted: does not say what more pairs would give; too")


def test_twice_the_pairs_are_twice_all_of_them() -> None:
    """Without a training on all pairs, twice the most that were trained on is not said to be it."""
    unscored = Cell("row", "auroc", reason="not run")
    more = beyond(SHARES, [*cells(1.0, 0.002, SHARES)[:3], unscored])
    assert more == {"doubt": "too short: no score at 100"}
    assert beyond(SHARES, cells(1.0, 0.002, SHARES)[:1]) == {
        "doubt": "too short: 1 number of pairs"
    }
    values = FIGURE.model_dump() | {"x": {"label": "pairs", "values": [10, 20, 25, 50]}}
    with pytest.raises(ValueError, match="the last of x.values is 50; expected 100"):
        CurveFigure.model_validate(values)


def test_nothing_is_expected_of_trainings_that_have_not_learnt() -> None:
    given = cells(1.0, 0.002, SHARES)
    at_chance = [*given[:3], replace(given[3], unlearnt=2)]
    assert beyond(SHARES, at_chance) == {
        "doubt": "too early: 2 of 3 trainings at 100 do not differ from permuted pairs"
    }
    assert beyond(SHARES, [replace(given[0], unlearnt=3), *given[1:]])["doubt"] is None


def test_no_score_above_the_greatest_is_expected() -> None:
    rng = np.random.default_rng(0)

    def trained(means, spread):
        return [
            Cell("row", "auroc", by_seed={n: mean + spread * rng.normal() for n in range(3)})
            for mean in means
        ]

    share = np.asarray(SHARES)
    logarithm = trained(0.9 + 0.04 * np.log(share / 10), 0.001)
    assert beyond(SHARES, logarithm)["points"][2]["value"] > 1
    assert "the law passes 1, the greatest" in beyond(SHARES, logarithm, 1.0)["doubt"]
    near = trained(1 - 0.4 * share**-0.5, 0.006)
    free, bounded = (beyond(SHARES, near, most)["points"] for most in (None, 1.0))
    assert free[2]["high"] > 1 == bounded[2]["high"]
    assert free[0] == bounded[0] and free[2]["value"] == bounded[2]["value"]


def test_a_figure_without_a_law_is_recorded_as_before() -> None:
    assert "power_law" not in FIGURE.model_copy(update={"power_law": False}).record()


def test_the_legend_has_what_is_drawn(monkeypatch) -> None:
    """No line for a series that was not run, none for published values where there are none."""
    legends = []
    monkeypatch.setattr(
        "matplotlib.axes.Axes.legend",
        lambda axes, handles, **style: legends.append([line.get_label() for line in handles]),
    )
    missing = {"low": None, "high": None}
    values = {"adapted": (0.8, None), "printed": (None, 0.7), "general": (None, None)}
    series = [
        {"label": name, "points": [{"x": 10, "ours": ours, "published": published, **missing}]}
        for name, (ours, published) in values.items()
    ]
    draw(FIGURE, series, "AUROC", "ours")
    draw(FIGURE, series[::2], "AUROC", "ours")
    more = "expected of more pairs"
    assert legends == [
        ["adapted", "printed", "ours", "published", more], ["adapted", "ours", more]
    ]  # fmt: skip


def test_a_note_says_which_shares_were_not_learnt() -> None:
    """Of a row whose columns are shares of the pairs, each another model."""
    columns = [
        Column(key=f"s{share}", label=f"{share} %", metric="auroc", pairs=share)
        for share in (1, 10)
    ]
    ours = [
        Cell("ours", "s1", ours=0.5, seeds=3, unlearnt=3),
        Cell("ours", "s10", ours=0.7, seeds=3),
        Cell("theirs", "s1", reason="not run"),
        Cell("theirs", "s10", ours=0.5, seeds=3, unlearnt=1),
    ]
    words = note_on_learning(ours, columns)
    assert words.startswith("Training not converged: ours (1 %); theirs. The validation loss")
    assert note_on_learning(ours[1:2], columns) == ""
