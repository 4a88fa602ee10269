"""The races of linear heads at a small size: they compare, time, and notice a wrong result."""

import pytest
from speed.race import run
from speed.races import linear_sweep, stopped_sweep

PEERS = [
    ("linear_optimum", "scikit-learn", 30),
    ("stopped_sweep", "run by run", 15),
]


@pytest.fixture(scope="module")
def races():
    made = linear_sweep.races(images=150, side=32)
    return {race.name: race for race in made + stopped_sweep.races(150, 32, 3)}


@pytest.mark.parametrize(("name", "peer", "amount"), PEERS)
def test_race(races, name, peer, amount):
    race = races[name]
    result = run(race, rounds=1)
    assert result["rate"]["unit"] == "run/s" and race.amount == amount
    assert all(ratio > 0 for ratio in result["ratio"].values())
    assert len(result["ratio"]) == len(race.peers)
    with pytest.raises(AssertionError):
        race.check(race.ours(), race.peers[peer]().flip(0))
