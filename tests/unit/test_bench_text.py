"""The text races at a small size: they compare, time and measure, and notice a wrong result."""

import pytest
from speed.race import run
from speed.races import mlm_step, section_step

from cxrflow.encoders.settings import TextEncoderSettings


@pytest.mark.parametrize("module", [mlm_step, section_step])
def test_step_race(module):
    """Loss and gradients are those of transformers, or the race would not begin."""
    encoder = TextEncoderSettings(layers=2, width=64, heads=2, feed_forward=128)
    race = module.races(encoder, 4)[0]
    assert run(race, rounds=1)["ratio"]["transformers"] > 0
