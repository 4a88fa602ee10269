"""The text races at a small size: they compare, time and measure, and notice a wrong result."""

import pytest
from bench.race import run
from bench.races import encoding, vocabulary


@pytest.mark.parametrize("module", [vocabulary, encoding])
def test_race(module):
    (race,) = module.races(megabytes=0.2, size=500)
    result = run(race, rounds=1)
    assert result["ratio"]["tokenizers"] > 0 and result["memory"]["peak_mb"]["tokenizers"] > 10
    wrong = race.peers["tokenizers"]().value[::-1]
    with pytest.raises(AssertionError):
        race.check(race.ours().value, wrong)
