"""Stages of the workflow under faults of the machine (`make faults`): nothing wrong is silent.

CXR_FAULTS says how often each fault is drawn for each stage; without it each fault meets one stage.
"""

import os
from itertools import cycle
from pathlib import Path

import pytest
from faults.calls import unavailable
from faults.faults import FAULTS
from faults.stages import WITHOUT_JOB, Job, cheapest, read_jobs
from faults.table import lines, table
from faults.trial import DEFECTS, Bench, Outcome

from cxrflow.programs.registry import STAGES
from cxrflow.programs.source_code import full_name

from .conftest import ROOT, Checkout

DRAWS = int(os.environ.get("CXR_FAULTS", 0))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(unavailable() is not None, reason=str(unavailable())),
]


@pytest.fixture(scope="module")
def jobs(finished: Checkout) -> list[Job]:
    """All jobs of the run of the tests' own paper."""
    return read_jobs(finished.dry_run("-p", "--forceall", "all"))


def require_no_defect(outcomes: list[Outcome]) -> None:
    assert not [outcome for outcome in outcomes if outcome.kind in DEFECTS], table(outcomes)


def test_every_stage_has_a_row(jobs: list[Job]) -> None:
    tried = {job.module for job in jobs}
    untried = {name for name, module in STAGES.items() if full_name(module) not in tried}
    assert untried == WITHOUT_JOB.keys()


@pytest.mark.skipif(DRAWS > 0, reason="all faults are drawn")
def test_each_fault_meets_a_stage(finished: Checkout, jobs: list[Job], tmp_path: Path) -> None:
    quick = cycle(cheapest(jobs, finished.folder))
    benches = (Bench(job, finished.folder, tmp_path / job.stage) for job in quick)
    # What a library says without memory differs between machines; `make faults` tries it.
    named = [name for name in FAULTS if name != "little memory"]
    require_no_defect([bench.trial(name) for name, bench in zip(named, benches, strict=False)])


@pytest.mark.timeout(0)
@pytest.mark.skipif(DRAWS == 0, reason="hours; `make faults`")
def test_every_stage_under_every_fault(
    finished: Checkout, jobs: list[Job], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes: list[Outcome] = []
    for job in cheapest(jobs, finished.folder):
        bench = Bench(job, finished.folder, tmp_path / "trial")
        outcomes += [bench.trial(name, draw) for name in FAULTS for draw in range(DRAWS)]
        folder = ROOT / "results" / "faults"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "outcomes.tsv").write_text(lines(outcomes), encoding="utf-8")
    with capsys.disabled():
        print(f"\n{table(outcomes)}")
    require_no_defect(outcomes)
