"""The race of linear probes at a small size: it compares, times, and notices a wrong result."""

import pytest
from bench.race import run
from bench.races import linear_sweep


@pytest.fixture(scope="module")
def races():
    return linear_sweep.races(images=150, side=32, epochs=3)


@pytest.mark.parametrize(("number", "peer"), [(0, "run by run"), (1, "scikit-learn")])
def test_race(races, number, peer):
    race = races[number]
    result = run(race, rounds=1)
    assert result["rate"]["unit"] == "run/s" and race.amount == 30
    assert all(ratio > 0 for ratio in result["ratio"].values())
    assert len(result["ratio"]) == 2 - number
    with pytest.raises(AssertionError):
        race.check(race.ours(), race.peers[peer]().flip(0))
