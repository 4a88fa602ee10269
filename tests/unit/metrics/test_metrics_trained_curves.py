"""Forecasts beside trainings: how holds, misses and doubts are counted, and what is trained."""

import json
import sys

import numpy as np
import pytest
import torch
from scipy.stats import binomtest
from simulations import small_trainings, trained_curves
from simulations.small_trainings import METRICS, Hospital, Study
from simulations.trained_curves import GRIDS, LATER, judge, recipe, report, wilson

SHORT = GRIDS["short"]
TWICE = 0.8 + 0.05 * np.log(2)  # what the curves below come to


def record(number: int, spread: float = 0.002, comes: float = TWICE, unlearnt: int = 0):
    """A set whose metrics all follow a logarithm, and what comes of twice the pairs."""
    rng = np.random.default_rng(0)
    of_share = [
        0.8 + 0.05 * np.log(share / 100) + spread * rng.normal(size=3) for share in SHORT.shares
    ]
    later = comes + 0.002 * rng.normal(size=LATER)
    return {
        "number": number,
        "recipe": recipe(SHORT, number)._asdict(),
        "scores": {metric: [scores.tolist() for scores in of_share] for metric in METRICS},
        "later": {metric: later.tolist() for metric in METRICS},
        "unlearnt": unlearnt,
        "seconds": 30.0,
    }


def test_a_curve_holds_what_comes_or_misses_it_or_says_nothing() -> None:
    held, missed = (judge(record(0, comes=comes), METRICS[0]) for comes in (TWICE, 0.7))
    assert held.doubt is None and held.holds == (True, True) and not held.clear
    assert missed.doubt is None and missed.holds == (False, False) and missed.clear
    assert held.width == pytest.approx(missed.width) and 0 < held.width < 0.1
    assert "power law" in held.kinds["families"]
    assert "1 of 3 trainings at 100 have not learnt" in str(
        judge(record(0, unlearnt=1), METRICS[0]).doubt
    )
    noisy, off = (judge(record(0, 0.1, comes), METRICS[0]) for comes in (TWICE, -9.0))
    assert "wider than the rise" in str(noisy.doubt) and noisy.holds == (True, True)
    assert off.doubt == noisy.doubt and off.holds == (False, False) and off.clear


def test_the_mean_of_three_is_what_an_interval_is_of() -> None:
    """The last two of five alone are far off."""
    off = record(0)
    off["later"] = {metric: [TWICE] * 3 + [0.5] * 2 for metric in METRICS}
    assert judge(off, METRICS[0]).holds == (True, False)


def test_refused_curves_are_no_coverage_and_a_set_counts_once() -> None:
    sets = [record(0), record(1), record(2, comes=0.7), record(3, unlearnt=2), record(4, 0.1)]
    lines = report(sets)
    low, high = wilson(2 / 3, 3)
    assert lines[2].startswith(f"| all | 15 | 9 | 0.667 ({low:.2f} to {high:.2f}) | 0.667 | 3 |")
    assert lines[2].endswith(" | 3 | 1.000 |")
    assert f"| metric {METRICS[0]} | 5 | 3 | 0.667 " in "\n".join(lines)
    assert lines[-3:] == [
        "3 curves say nothing: not learnt",
        "3 curves say nothing: wider than the rise",
        "5 sets of trainings in 2.5 minutes of a core",
    ]
    of_none = report([record(3, unlearnt=2)])
    assert of_none[2] == "| all | 3 | 0 | - | - | - | - | 0 | - |"


@pytest.mark.parametrize(("held", "n"), [(0, 5), (27, 30), (30, 30)])
def test_wilsons_interval(held: int, n: int) -> None:
    expected = binomtest(held, n).proportion_ci(method="wilson")
    assert wilson(held / n, n) == pytest.approx((expected.low, expected.high), abs=1e-4)


@pytest.fixture
def hospital(monkeypatch: pytest.MonkeyPatch) -> Hospital:
    """Words that follow from the images by a linear map."""
    monkeypatch.setattr(small_trainings, "VALIDATION", 64)
    monkeypatch.setattr(small_trainings, "TEST", 64)
    random = torch.Generator().manual_seed(0)
    image_N = torch.randn(768, 12, generator=random)
    word_NV = (image_N @ torch.randn(12, 20, generator=random) > 2).float()
    prompts = torch.eye(20)[:4].reshape(2, 2, 20)
    return Hospital({"pixels": image_N}, word_NV, word_NV[:, [1, 3]].long(), prompts)


def small(grid, number: int):
    """The recipe of a set, made small."""
    learnt = {"image": "pixels", "temperature": None, "rate": 0.005, "steps": 40, "epochs": None}
    return recipe(grid, number)._replace(pairs=320, **learnt)


def test_subsets_are_nested_and_each_seeds_own_below_all_pairs(hospital: Hospital) -> None:
    study, shares = Study(small(SHORT, 0), hospital, 0), (*SHORT.shares, 200)
    rows = {(s, seed): set(study.rows(s, seed).tolist()) for s in shares for seed in range(3)}
    sizes = [{len(rows[share, seed]) for seed in range(3)} for share in shares]
    assert sizes == [{32}, {64}, {160}, {320}, {640}]
    assert rows[10, 1] < rows[20, 1] < rows[50, 1] < rows[100, 1] < rows[200, 1]
    assert rows[10, 0] != rows[10, 1] and rows[100, 0] == rows[100, 1]
    assert not rows[200, 0] & {*study.validation.tolist(), *study.test.tolist()}


def test_models_that_are_trained_together_are_those_trained_alone(hospital: Hospital) -> None:
    study = Study(small(SHORT, 1), hospital, 1)
    together = study.fit([(10, 0), (100, 1)], 40)
    for place, training in enumerate([(10, 0), (100, 1)]):
        for name, weight in study.fit([training], 40).items():
            torch.testing.assert_close(weight[0], together[name][place], rtol=1e-3, atol=1e-4)
    untrained, trained = study.ranks(study.starts([0, 1])), study.ranks(together)
    assert trained[1] > trained[0] > max(untrained) and trained[1] > 0.7


def test_sets_in_the_file_are_not_trained_again(
    hospital: Hospital, monkeypatch: pytest.MonkeyPatch, tmp_path, capsys
) -> None:
    monkeypatch.setattr(trained_curves, "recipe", small)
    monkeypatch.setattr(trained_curves, "kept_hospital", lambda folder, seed: hospital)

    def program(sets: int) -> str:
        options = ["--grid", "short", "--sets", str(sets), "--output", str(tmp_path)]
        monkeypatch.setattr(sys, "argv", ["", *options])
        trained_curves.main()
        return capsys.readouterr().out

    assert "1 sets of trainings" in program(1)
    first = (tmp_path / "short.jsonl").read_text()
    assert "| all | 6 |" in program(2)
    lines = (tmp_path / "short.jsonl").read_text()
    assert lines.startswith(first) and lines.count("\n") == 2
    scores = json.loads(first)["scores"]["retrieval AUROC"]
    assert [len(of_share) for of_share in scores] == [3] * 4 and np.mean(scores[-1]) > 0.6
    other = small(SHORT, 0)._replace(pairs=256)
    monkeypatch.setattr(trained_curves, "recipe", lambda grid, number: other)
    with pytest.raises(SystemExit):
        program(1)
    assert "set 0 is of another recipe; expected Recipe(" in capsys.readouterr().err
