"""What a curve of shares says of more pairs than there are."""

from dataclasses import replace

import numpy as np
import pytest

from cxr_files.atomic import write_json
from cxrflow.papers.figures import CurveFigure
from cxrflow.papers.table import Column
from cxrflow.show.figures.curve import Trainings, beyond, beyond_words, draw
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
    forecast=True,
)


def cells(rise: float, spread: float, shares: list[float], seeds: int = 3) -> list[Cell]:
    """Trainings about 0.9 - rise * share ^ -0.5."""
    rng = np.random.default_rng(0)
    means = 0.9 - rise * np.asarray(shares) ** -0.5
    return [
        Cell("row", "auroc", by_seed={n: mean + spread * rng.normal() for n in range(seeds)})
        for mean in means
    ]


def line(more, pairs: int | None = None):
    points = [{"x": x, "ours": 0.8, "low": 0.7, "high": 0.9, "published": None} for x in SHARES]
    return {"label": "adapted", "points": points, "more": more, "pairs": pairs}


def test_twice_the_pairs_are_said_and_drawn() -> None:
    more = beyond(SHARES, cells(1.0, 0.002, SHARES), separate=[True, True, True, False])
    assert [point["x"] for point in more["points"]] == [100, 200]
    for point in more["points"]:
        assert point["low"] < 0.9 - point["x"] ** -0.5 < point["high"]
    drawn, plain = (
        draw(FIGURE, [line(more) | extra], "AUROC", "ours")
        for extra in ({}, {"more": {"doubt": "x"}})
    )
    assert drawn.startswith(b"\x89PNG") and drawn != plain


def test_what_more_pairs_give_is_said_in_pairs_and_in_scores() -> None:
    ends = {"value": 0.82, "low": 0.80, "high": 0.83}
    more = {"doubt": None, "families": ["power law", "logistic"], "points": [{"x": 200, **ends}]}
    column = COLUMN.model_copy(update={"digits": 2})
    assert beyond_words(line(more, 603), column) == (
        "adapted: about 600 more pairs for +0.02 (+0.00 to +0.03): from 0.80 to 0.82 "
        "(0.80 to 0.83), by power law, logistic."
    )
    assert beyond_words(line(more), column).startswith("adapted: as many pairs again for +0.02")


@pytest.mark.parametrize(
    ("given", "shares", "reason"),
    [
        (cells(0.0, 0.01, SHARES), SHARES, "it would take larger shares"),
        (cells(1.0, 0.01, SHARES[:2]), SHARES[:2], "2 numbers of pairs from 10 to 20; expected 3"),
        (cells(1.0, 0.01, SHARES, 1), SHARES, "1 training(s) on 10 pairs; expected 3 or more"),
        ([Cell("row", "auroc", reason="not run")] * 4, SHARES, "no score at 100"),
    ],
)
def test_a_curve_that_does_not_say_is_said_to_be_one(given, shares, reason) -> None:
    more = beyond(shares, given)
    assert reason in more["doubt"]
    words = beyond_words(line(more), COLUMN)
    assert words.startswith("adapted: too few points to say what more pairs would give: ")


def test_twice_the_pairs_are_twice_all_of_them() -> None:
    """Without a training on all pairs, twice the most that were trained on is not said to be it."""
    unscored = Cell("row", "auroc", reason="not run")
    more = beyond(SHARES, [*cells(1.0, 0.002, SHARES)[:3], unscored])
    assert more == {"doubt": "no score at 100"}
    assert beyond(SHARES, cells(1.0, 0.002, SHARES)[:1]) == {"doubt": "1 number of pairs"}
    values = FIGURE.model_dump() | {"x": {"label": "pairs", "values": [10, 20, 25, 50]}}
    with pytest.raises(ValueError, match="the last of x.values is 50; expected 100"):
        CurveFigure.model_validate(values)


def test_nothing_is_expected_of_trainings_that_have_not_learnt() -> None:
    given = cells(1.0, 0.002, SHARES)
    at_chance = [*given[:3], replace(given[3], unlearnt=2)]
    doubt = beyond(SHARES, at_chance)["doubt"]
    assert doubt.startswith("2 of 3 trainings at 100 have not learnt; it would")
    assert beyond(SHARES, [replace(given[0], unlearnt=3), *given[1:]])["doubt"] is None


def test_no_score_above_the_greatest_is_expected() -> None:
    near = cells(4.0, 0.004, SHARES)
    near = [replace(c, by_seed={k: v + 0.38 for k, v in c.by_seed.items()}) for c in near]
    free, bounded = (beyond(SHARES, near, most)["points"] for most in (None, 1.0))
    assert free[1]["high"] > 1 == bounded[1]["high"]
    assert free[1]["low"] == bounded[1]["low"] < 1


def test_what_each_training_has_read_is_known_from_its_record(tmp_path) -> None:
    """Published weights have no number of pairs; a training's subset stands in its settings."""
    records = {
        "mine/base": ({"train_samples": 603}, {}),
        "mine/base_share10": ({"train_samples": 61}, {"training_subset": "each"}),
        "mine/weights": ({"name": "published weights"}, {}),
    }
    files = []
    for name, (data, settings) in records.items():
        path = tmp_path / name.replace("/", "_") / "run.json"
        path.parent.mkdir()
        write_json(path, {"model": name, "data": data, "settings": settings})
        files.append(path)
    trainings = Trainings.read(files)
    assert trainings.pairs == {"mine/base": 603, "mine/base_share10": 61}
    assert trainings.separate == {"mine/base_share10"}


def test_a_figure_without_a_forecast_is_recorded_as_before() -> None:
    assert "forecast" not in FIGURE.model_copy(update={"forecast": False}).record()


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
    assert words.startswith("Training not converged: ours (1 %); theirs. Pairs are told")
    assert note_on_learning(ours[1:2], columns) == ""
