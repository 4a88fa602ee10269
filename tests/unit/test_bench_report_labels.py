"""The race of report labels: the turns agree, and without a peer there is a rate."""

import pytest
from speed.race import run
from speed.races.report_labels import races


def test_processes_agree_and_a_missing_peer_is_no_race(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CXR_REAL_DATA", "BENCH_MEDSPACY"):
        monkeypatch.delenv(name, raising=False)
    engine, command = races(40, 120)
    alone = run(engine, 1)
    assert alone["ratio"] == {} and alone["rate"]["ours"] > 0
    assert "40 reports of the synthetic hospital" in alone["what"]
    both = run(command, 1)
    assert both["ratio"].keys() == {"one process"}
    assert both["memory"]["peak_mb"]["ours"] > 20
