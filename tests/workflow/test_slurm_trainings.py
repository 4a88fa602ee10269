"""The Slurm profile on a real Slurm: a training that is cut off goes on, whatever cut it off.

A file of its own: most of it is waiting, beside which other tests have a process.
"""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from .conftest import Checkout
from .slurm_jobs import POLLING, answer, jobs_of, on, submissions, tell, wait_until

pytestmark = [pytest.mark.slurm, pytest.mark.slow]
LONG = 80  # epochs; a test acts within the first of them
TARGET = "results/models/toy/joint/seed0/run.json"
STATE = "results/state/toy/joint/seed0"
LOG = "results/logs/pretrain_joint/toy/joint.seed0.log"


def lengthened(checkout: Checkout, epochs: int) -> Checkout:
    """The checkout with so much left to train of one model, on a GPU."""
    longer = {"epochs": epochs, "steps": None, "save_minutes": 0.02}
    return checkout.write(
        "tiny_long.yaml",
        {
            "models": {"toy/joint": {"training": longer}},
            "resources": {"pretrain_joint": {"gpu": 1, "mem_mb": 2000, "runtime": 10}},
        },
    )


@contextmanager
def training(
    checkout: Checkout, cluster: Path, *options: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The workflow with joint training running and once saved, and that job's number."""
    running = subprocess.Popen(
        checkout.command(TARGET, *options, "--profile", "slurm", *POLLING),
        cwd=checkout.folder,
        env=checkout.environment(**on(cluster)),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        wait_until(lambda: bool(last_saved(checkout)), 180, running)
        (job,) = jobs_of(cluster, "pretrain_joint")
        yield running, job
    finally:
        if running.poll() is None:
            running.send_signal(signal.SIGINT)
            running.communicate(timeout=120)


def last_saved(checkout: Checkout) -> str:
    """Name of the newest state; names stand in the order of their steps."""
    return max((path.name for path in (checkout.folder / STATE).glob("step-*.pt")), default="")


def log_of(checkout: Checkout) -> str:
    return (checkout.folder / LOG).read_text()


def resumption(checkout: Checkout) -> str:
    """The line of the log, which is new with every start, that says where the training goes on."""
    try:
        said = log_of(checkout).splitlines()
    except FileNotFoundError:
        return ""
    return next((line for line in said if "resuming at step" in line), "")


def resumed(checkout: Checkout, before: str, running: subprocess.Popen[str]) -> str:
    """Wait until the training goes on once more, and has saved since; what it said then."""
    wait_until(lambda: resumption(checkout) not in ("", before), 180, running)
    saved = last_saved(checkout)
    wait_until(lambda: last_saved(checkout) > saved, 60, running)
    return resumption(checkout)


def went_on(checkout: Checkout, running: subprocess.Popen[str]) -> str:
    """Wait for the end, assert that the training was continued; gives Snakemake's output."""
    output, _ = running.communicate(timeout=300)
    assert running.returncode == 0, output[-4000:]
    assert "resuming at step" in log_of(checkout)
    record = json.loads((checkout.folder / TARGET).read_text())
    wanted = yaml.safe_load((checkout.folder / "tiny_long.yaml").read_text())["models"]["toy/joint"]
    assert record["settings"]["training"]["epochs"] == wanted["training"]["epochs"]
    return output


def test_a_training_goes_on_whatever_cuts_it_off(copied: Checkout, cluster: Path):
    """One training that is cancelled, then preempted, then on a node that is lost."""
    checkout = lengthened(copied, LONG)
    with training(checkout, cluster, "--cores", "all") as (running, first):
        detail = answer(cluster, "scontrol", "show", "job", first)
        assert "gres/gpu=1" in detail or "gres:gpu:1" in detail
        answer(cluster, "scancel", first)
        # It is submitted again: another job.
        wait_until(lambda: bool({*jobs_of(cluster, "pretrain_joint")} - {first}), 120, running)
        (job,) = {*jobs_of(cluster, "pretrain_joint")} - {first}
        again = resumed(checkout, "", running)
        # Both of these queue the same job again.
        urgent = ["-p", "urgent", "--gpus", "1", "--mem", "100", "--wrap", "sleep 3"]
        answer(cluster, "sbatch", "-o", "/dev/null", *urgent)
        again = resumed(checkout, again, running)
        assert "Restarts=1" in answer(cluster, "scontrol", "show", "job", job)
        tell(cluster, "lose-node", "gpu1")  # the controller has to find out by itself
        waits = ["squeue", "-h", "-t", "PENDING", "-o", "%A"]
        wait_until(lambda: job in answer(cluster, *waits).split(), 120, running)
        tell(cluster, "return-node", "gpu1")
        output = went_on(checkout, running)
    assert resumption(checkout) != again
    assert "Restarts=2" in answer(cluster, "scontrol", "show", "job", job)
    assert "CANCELLED" in output and submissions(output) == 2


def test_a_training_longer_than_its_time_limit_goes_on(copied: Checkout, cluster: Path):
    """One minute, Slurm's shortest limit, waited for; then Ctrl-C, which leaves no job behind."""
    checkout = lengthened(copied, 50 * LONG)
    limit = ["--set-resources", "pretrain_joint:runtime=1"]
    with training(checkout, cluster, *limit) as (running, first):
        wait_until(lambda: jobs_of(cluster, "pretrain_joint") not in ([], [first]), 240, running)
        before = last_saved(checkout)
        wait_until(lambda: last_saved(checkout) > before, 60, running)
        assert "resuming at step" in log_of(checkout)
        running.send_signal(signal.SIGINT)
        output, _ = running.communicate(timeout=120)
    assert "TIMEOUT" in output
    assert submissions(output) == 2
    assert "RUNNING" not in answer(cluster, "squeue", "-h", "-t", "all", "-o", "%T")
