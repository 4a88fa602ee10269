"""The Slurm profile on a real Slurm: jobs are submitted, a cancelled training goes on."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import ROOT, Checkout, copy_finished

pytestmark = [pytest.mark.slurm, pytest.mark.slow]
SCRIPT = ROOT / "tests/slurm_cluster.sh"
CANNOT = 77


@pytest.fixture(scope="module")
def cluster() -> Iterator[Path]:
    """A running cluster: the folder with its sbatch, squeue and scancel."""
    folder = tempfile.mkdtemp(prefix="slurm")  # short: its path goes into sockets
    done = subprocess.run(
        [str(SCRIPT), "start", folder], capture_output=True, text=True, check=False
    )
    if done.returncode == CANNOT:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    try:
        yield Path(done.stdout.strip())
    finally:
        subprocess.run([str(SCRIPT), "stop", folder], check=False)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def short_copy(finished: Checkout) -> Iterator[Checkout]:
    """A copy of the finished checkout in which BioViL's training takes some time."""
    folder = Path(tempfile.mkdtemp(prefix="cxrflow"))
    copied = Checkout(
        copy_finished(finished.folder, folder), (*finished.overlays, "tiny_long.yaml")
    )
    copied.write(
        "tiny_long.yaml",
        {
            "models": {"biovil": {"training": {"epochs": 60, "save_minutes": 0.02}}},
            "resources": {"pretrain_joint": {"gpu": 1, "mem_mb": 2000, "runtime": 10}},
        },
    )
    yield copied
    shutil.rmtree(folder, ignore_errors=True)


def jobs_of(cluster: Path, rule: str) -> list[str]:
    """Numbers of the queued or running jobs of a rule; the plugin names it in the comment."""
    done = subprocess.run(
        [str(cluster / "squeue"), "-h", "-o", "%A %k"], capture_output=True, text=True, check=True
    )
    return [line.split()[0] for line in done.stdout.splitlines() if f"rule_{rule}" in line]


def wait_until(condition, seconds: float, running: subprocess.Popen[str]) -> None:
    """Poll ``condition``; fail when the workflow ends before, or the time is up."""
    end = time.monotonic() + seconds
    while not condition():
        assert running.poll() is None, running.communicate()[0][-4000:]
        assert time.monotonic() < end, "timed out"
        time.sleep(0.2)


def test_a_cancelled_training_goes_on(short_copy: Checkout, cluster: Path):
    results = short_copy.folder / "results"
    target = "results/benchmarks/phrase_grounding/biovil/seed0/metrics.json"
    running = subprocess.Popen(
        [sys.executable, "-m", "snakemake", target, "--profile", "slurm"]
        + ["--slurm-init-seconds-before-status-checks", "3"]
        + ["--configfile", *short_copy.overlays],
        cwd=short_copy.folder,
        env=os.environ | {"PATH": f"{cluster}:{Path(sys.executable).parent}:{os.environ['PATH']}"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        state = results / "state/biovil/seed0"
        wait_until(lambda: any(state.glob("step-*.pt")), 180, running)
        (job,) = jobs_of(cluster, "pretrain_joint")
        detail = subprocess.run(
            [str(cluster / "scontrol"), "show", "job", job],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert "gres/gpu=1" in detail or "gres:gpu:1" in detail
        subprocess.run([str(cluster / "scancel"), job], check=True)
        output, _ = running.communicate(timeout=420)
    finally:
        if running.poll() is None:
            running.terminate()
            running.wait(60)
    assert running.returncode == 0, output[-4000:]
    assert "CANCELLED" in output
    log = (results / "logs/pretrain_joint/biovil.seed0.log").read_text()
    assert "resuming at step" in log
    record = json.loads((results / "models/biovil/seed0/run.json").read_text())
    assert record["settings"]["training"]["epochs"] == 60
    assert (short_copy.folder / target).is_file()
