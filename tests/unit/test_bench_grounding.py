"""The grounding race at a small size: it compares, and notices a wrong result."""

import pytest
from speed.race import run
from speed.races import grounding

from cxrflow.encoders.settings import ResNetSettings, TextEncoderSettings


def test_race():
    text = TextEncoderSettings(layers=2, width=64, heads=2, feed_forward=128)
    image = ResNetSettings(layers=(1, 1, 1, 1), width=8)
    (race,) = grounding.races(text, image, 64)
    result = run(race, rounds=1)
    (peer,) = race.peers
    assert result["ratio"][peer] > 0
    with pytest.raises(AssertionError, match="cosines"):
        race.check(-race.ours(), race.peers[peer]())
