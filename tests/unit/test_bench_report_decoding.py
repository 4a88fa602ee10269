"""The race of report decoding: what both write is the same."""

from speed.race import run
from speed.races.report_decoding import races

from cxrflow.encoders.settings import TextEncoderSettings


def test_reports_are_the_same() -> None:
    sizes = TextEncoderSettings(layers=1, width=16, heads=2, feed_forward=16)
    for race in races(sizes, studies=6, longest=8):
        found = run(race, 1)
        assert len(found["ratio"]) == 2 and found["rate"]["ours"] > 0
