"""The races at a small size: they compare, time and measure, and notice a wrong result."""

import json
import sys
from pathlib import Path

import pytest
from speed import training_cost
from speed.race import run
from speed.races import (
    dicom,
    fold_probe,
    grounding,
    intervals,
    linear_sweep,
    mlm_step,
    report_decoding,
    report_labels,
    report_metrics,
    section_step,
    stopped_sweep,
)

from cxrflow.benchmarks.settings import IntervalSettings
from cxrflow.encoders.settings import ResNetSettings, TextEncoderSettings

TEXT = TextEncoderSettings(layers=2, width=64, heads=2, feed_forward=128)


def test_grounding():
    (race,) = grounding.races(TEXT, ResNetSettings(layers=(1, 1, 1, 1), width=8), 64)
    (peer,) = race.peers
    assert run(race, rounds=1)["ratio"][peer] > 0
    with pytest.raises(AssertionError, match="cosines"):
        race.check(-race.ours(), race.peers[peer]())


@pytest.fixture(scope="module")
def heads():
    races = linear_sweep.races(images=150, side=32) + stopped_sweep.races(150, 32, 3)
    return {race.name: race for race in races}


@pytest.mark.parametrize(
    ("name", "peer", "amount"),
    [("linear_optimum", "scikit-learn", 30), ("stopped_sweep", "run by run", 15)],
)
def test_linear_heads(heads, name, peer, amount):
    race = heads[name]
    result = run(race, rounds=1)
    assert result["rate"]["unit"] == "run/s" and race.amount == amount
    assert all(ratio > 0 for ratio in result["ratio"].values())
    assert len(result["ratio"]) == len(race.peers)
    with pytest.raises(AssertionError):
        race.check(race.ours(), race.peers[peer]().flip(0))


def test_probes_of_all_classes_and_folds():
    (race,) = fold_probe.races(rows=200, width=30)
    assert run(race, rounds=1)["ratio"]["scikit-learn"] > 0
    with pytest.raises(AssertionError):
        race.check(race.ours(), race.ours().flip(0))


def test_intervals_are_of_the_same_resamples():
    race = intervals.race("small", 300, 5, 2, 100, IntervalSettings(replicates=100))
    result = run(race, rounds=1)
    assert all(ratio > 0 for ratio in result["ratio"].values()) and len(result["ratio"]) == 2
    assert result["memory"]["peak_mb"]["ours"] > 20
    # A peer does a tenth of the resamples; its time is that of all.
    assert race.shares == dict.fromkeys(race.peers, 0.1)
    for peer in race.peers.values():
        with pytest.raises(AssertionError):
            race.check({k: 1 - v for k, v in race.ours().value.items()}, peer().value)


def test_decoded_reports_are_the_same():
    sizes = TextEncoderSettings(layers=1, width=16, heads=2, feed_forward=16)
    for race in report_decoding.races(sizes, studies=6, longest=8):
        result = run(race, 1)
        assert len(result["ratio"]) == 2 and result["rate"]["ours"] > 0


def test_labelling_processes_agree_and_a_missing_peer_is_no_race(monkeypatch):
    for name in ("CXR_REAL_DATA", "BENCH_MEDSPACY"):
        monkeypatch.delenv(name, raising=False)
    engine, command = report_labels.races(40, 120)
    alone = run(engine, 1)
    assert alone["ratio"] == {} and alone["rate"]["ours"] > 0
    assert "40 reports of the synthetic hospital" in alone["what"]
    both = run(command, 1)
    assert both["ratio"].keys() == {"one process"}
    assert both["memory"]["peak_mb"]["ours"] > 20


@pytest.mark.parametrize(
    ("module", "names"),
    [(report_metrics, []), (dicom, ["dicom"]), (intervals, ["nih", "padchest"])],
)
def test_a_package_that_is_not_there_is_no_race(module, names, monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert [race.name.removeprefix("intervals_") for race in module.races()] == names
    assert "not installed, no race" in capsys.readouterr().out


def test_pillow_comes_to_the_same_pixels():
    (race, *_) = dicom.races()
    (peer,) = race.peers.values()
    race.check(race.ours()[:1], peer()[:1])
    with pytest.raises(AssertionError, match="levels apart"):
        race.check(race.ours()[:1], peer()[1:2])


def test_report_metrics_are_those_of_the_peer(monkeypatch):
    """A peer's scorer stands in that gives what we give, or a little more."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: True)
    races = {race.name: race for race in report_metrics.races(40)}
    assert set(races) == {"bleu", "rouge_l", "cider_d"}
    references = races["bleu"].ours()
    assert 0 < references[0] < 1 and len(races["rouge_l"].ours()) == 40

    class Scorer:
        def compute_score(self, references, hypotheses):
            assert references.keys() == hypotheses.keys() and references[0] != hypotheses[0]
            return 0.0, races["rouge_l"].ours() + more

    monkeypatch.setattr(report_metrics, "scorer", lambda name: Scorer)
    more = 0.0
    assert run(races["rouge_l"], 1)["ratio"]["pycocoevalcap"] > 0
    more = 1e-3
    with pytest.raises(AssertionError):
        run(races["rouge_l"], 1)


@pytest.mark.parametrize("module", [mlm_step, section_step])
def test_text_step(module):
    """Loss and gradients are those of transformers, or the race would not begin."""
    race = module.races(TEXT, 4)[0]
    assert run(race, rounds=1)["ratio"]["transformers"] > 0


ROOT = Path(__file__).parents[3]


def test_steps_are_timed_and_stand_for_the_whole_training(tmp_path, monkeypatch):
    monkeypatch.setattr(training_cost, "DOCUMENTS", 300)
    words = ["--configfile", str(ROOT / "config.yaml"), "--images", "80", "--processes", "1"]
    words += ["--models", "biovil/cxr_bert_phase2", "biovil_t/biovil_t"]
    words += ["--steps", "2", "--warm-up", "1", "--output", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["training_cost", *words, "--work", str(tmp_path / "work")])
    training_cost.main()
    measured, failed = json.loads((tmp_path / "training_cost.json").read_text())["rows"]
    assert measured["samples_per_second"] == pytest.approx(
        measured["batch"] / measured["seconds_per_step"], rel=0.01
    )
    hours = measured["whole_steps"] * measured["seconds_per_step"] / 3600
    assert measured["whole_hours"] == pytest.approx(hours, rel=0.01, abs=0.006)
    assert "biovil/biovil, which is not in" in failed["failed"]
