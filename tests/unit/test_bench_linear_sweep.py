"""The race of linear probes at a small size: it compares, times, and notices a wrong result."""

import pytest
from bench.race import run
from bench.races import linear_sweep


def test_race():
    (race,) = linear_sweep.races(images=150, side=32, epochs=3)
    result = run(race, rounds=1)
    assert result["rate"]["unit"] == "run/s" and race.amount == 30
    assert all(ratio > 0 for ratio in result["ratio"].values()) and len(result["ratio"]) == 2
    with pytest.raises(AssertionError):
        race.check(race.ours(), race.peers["run by run"]().flip(0))
