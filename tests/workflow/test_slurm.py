"""The Slurm profile on a real Slurm: a training that is cut off goes on, whatever cut it off."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .conftest import ROOT, Checkout, copy_finished

pytestmark = [pytest.mark.slurm, pytest.mark.slow]
SCRIPT = ROOT / "tests/slurm_cluster.sh"
CANNOT = 77
EPOCHS = 60
TARGET = "results/models/biovil/seed0/run.json"
STATE = "results/state/biovil/seed0"


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
def long_copy(finished: Checkout) -> Iterator[Checkout]:
    """A copy of the finished checkout in which BioViL's training takes some time."""
    folder = Path(tempfile.mkdtemp(prefix="cxrflow"))
    copied = Checkout(
        copy_finished(finished.folder, folder), (*finished.overlays, "tiny_long.yaml")
    )
    copied.write(
        "tiny_long.yaml",
        {
            "models": {"biovil": {"training": {"epochs": EPOCHS, "save_minutes": 0.02}}},
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


def wait_until(
    condition: Callable[[], bool], seconds: float, running: subprocess.Popen[str]
) -> None:
    """Poll ``condition``; fail when the workflow ends before, or the time is up."""
    end = time.monotonic() + seconds
    while not condition():
        assert running.poll() is None, running.communicate()[0][-4000:]
        assert time.monotonic() < end, "timed out"
        time.sleep(0.2)


def on(cluster: Path) -> dict[str, str]:
    """The environment in which the cluster's commands and this Python's programs come first."""
    return {"PATH": f"{cluster}:{Path(sys.executable).parent}:{os.environ['PATH']}"}


def answer(cluster: Path, command: str, *arguments: str) -> str:
    """What one of the cluster's commands prints."""
    done = subprocess.run(
        [str(cluster / command), *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout


@contextmanager
def training(
    checkout: Checkout, cluster: Path, *options: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The workflow with BioViL's training running and once saved, and that job's number."""
    running = subprocess.Popen(
        [sys.executable, "-m", "snakemake", TARGET, *options, "--profile", "slurm"]
        + ["--slurm-init-seconds-before-status-checks", "3"]
        + ["--configfile", *checkout.overlays],
        cwd=checkout.folder,
        env=os.environ | on(cluster),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        wait_until(lambda: any((checkout.folder / STATE).glob("step-*.pt")), 180, running)
        (job,) = jobs_of(cluster, "pretrain_joint")
        yield running, job
    finally:
        if running.poll() is None:
            running.terminate()
            running.wait(60)


def went_on(checkout: Checkout, running: subprocess.Popen[str]) -> str:
    """Wait for the end, assert that the training was continued; gives Snakemake's output."""
    output, _ = running.communicate(timeout=180)
    assert running.returncode == 0, output[-4000:]
    log = (checkout.folder / "results/logs/pretrain_joint/biovil.seed0.log").read_text()
    assert "resuming at step" in log
    record = json.loads((checkout.folder / TARGET).read_text())
    assert record["settings"]["training"]["epochs"] == EPOCHS
    return output


def test_a_profile_with_cores_is_the_same(finished: Checkout, cluster: Path):
    """The tests below start the other form, without ``--cores``."""
    done = finished.snakemake(
        "-n", "--cores", "all", "--profile", "slurm", "--forcerun", "make_page", **on(cluster)
    )
    assert done.returncode == 0, done.stdout
    assert "make_page" in done.stdout


def test_a_cancelled_training_goes_on(long_copy: Checkout, cluster: Path):
    with training(long_copy, cluster) as (running, job):
        detail = answer(cluster, "scontrol", "show", "job", job)
        assert "gres/gpu=1" in detail or "gres:gpu:1" in detail
        answer(cluster, "scancel", job)
        output = went_on(long_copy, running)
    assert "CANCELLED" in output
    assert output.count("has been submitted with SLURM jobid") == 2


def test_a_requeued_training_goes_on_as_the_same_job(long_copy: Checkout, cluster: Path):
    """What Slurm does to a job that it preempts with requeue, asked for by hand."""
    with training(long_copy, cluster, "--cores", "all") as (running, job):
        answer(cluster, "scontrol", "requeue", job)
        output = went_on(long_copy, running)
    assert output.count("has been submitted with SLURM jobid") == 1
    assert "Restarts=1" in answer(cluster, "scontrol", "show", "job", job)


def test_a_training_that_is_warned_of_its_limit_goes_on(long_copy: Checkout, cluster: Path):
    """The SIGTERM that `--signal=TERM@120` asks for reaches the job's steps, as this one does."""
    with training(long_copy, cluster) as (running, job):
        answer(cluster, "scancel", "--signal=TERM", job)
        # It saves and ends with code 75. The rule's retries hold inside the job too, so it may go
        # on in what is left of the allocation before Slurm is asked for another.
        went_on(long_copy, running)
