"""The text races at a small size: they compare, time and measure, and notice a wrong result."""

import pytest
from bench.race import run
from bench.races import encoding, mlm_step, section_step, vocabulary

from cxrflow.encoders.settings import TextEncoderSettings


@pytest.mark.parametrize("module", [vocabulary, encoding])
def test_race(module):
    (race,) = module.races(megabytes=0.2, size=500)
    result = run(race, rounds=1)
    assert result["ratio"]["tokenizers"] > 0 and result["memory"]["peak_mb"]["tokenizers"] > 10
    wrong = race.peers["tokenizers"]().value[::-1]
    with pytest.raises(AssertionError):
        race.check(race.ours().value, wrong)


@pytest.mark.parametrize("module", [mlm_step, section_step])
def test_step_race(module):
    """Loss and gradients are those of transformers, or the race would not begin."""
    encoder = TextEncoderSettings(layers=2, width=64, heads=2, feed_forward=128)
    race = module.races(encoder, 4)[0]
    assert run(race, rounds=1)["ratio"]["transformers"] > 0
