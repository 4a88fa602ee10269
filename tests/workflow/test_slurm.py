"""The Slurm profile on a real Slurm: a training that is cut off goes on, whatever cut it off."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from command_options import run_to_end

from .conftest import ROOT, Checkout, copy_finished

pytestmark = [pytest.mark.slurm, pytest.mark.slow]
SCRIPT = ROOT / "tests/slurm_cluster.sh"
CANNOT = 77
POLLING = ["--slurm-init-seconds-before-status-checks", "3"]
LONG = 80  # epochs; a test acts within the first of them
TARGET = "results/models/toy/joint/seed0/run.json"
STATE = "results/state/toy/joint/seed0"
LOG = "results/logs/pretrain_joint/toy/joint.seed0.log"
# From images to a score: what is stored again is on it, and what lies beside it is not.
CHAIN = "results/benchmarks/toy/linear_probe/toy/images/seed0/metrics.json"
REMOVED = ("pixels/biovil/rsna", "models/toy/images", "features", "benchmarks")
CHAIN_RULES = {"store_pixels", "pretrain_image", "extract_features", "evaluate"}


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A running cluster: the folder with its sbatch, squeue and scancel."""
    failed = request.session.testsfailed
    folder = tempfile.mkdtemp(prefix="slurm")  # short: its path goes into sockets
    done = run_to_end([str(SCRIPT), "start", folder])
    if done.returncode == CANNOT:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    try:
        yield Path(done.stdout.strip())
    finally:
        if request.session.testsfailed > failed:  # shown with the failure
            print(*Path(folder, "slurmctld.log").read_text().splitlines()[-200:], sep="\n")
        subprocess.run([str(SCRIPT), "stop", folder], check=False)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def copied(finished: Checkout) -> Iterator[Checkout]:
    """A copy of the finished checkout, on a short path."""
    folder = Path(tempfile.mkdtemp(prefix="cxrflow"))
    yield Checkout(copy_finished(finished.folder, folder), finished.overlays)
    shutil.rmtree(folder, ignore_errors=True)


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


def jobs_of(cluster: Path, rule: str) -> list[str]:
    """Numbers of the queued or running jobs of a rule; the plugin names it in the comment."""
    done = subprocess.run(
        [str(cluster / "squeue"), "-h", "-o", "%A %k"], capture_output=True, text=True, check=True
    )
    return [line.split()[0] for line in done.stdout.splitlines() if f"rule_{rule}" in line]


def node_of(cluster: Path, rule: str) -> str:
    """The node on which a rule's job runs; nothing while there is none."""
    running = answer(cluster, "squeue", "-h", "-t", "RUNNING", "-o", "%N %k").splitlines()
    return next((line.split()[0] for line in running if f"rule_{rule}" in line), "")


def wait_until(
    condition: Callable[[], bool], seconds: float, running: subprocess.Popen[str]
) -> None:
    """Poll ``condition``; fail when the workflow ends before, or the time is up."""
    end = time.monotonic() + seconds
    while not condition():
        assert running.poll() is None, (running.communicate()[0] or "it has ended")[-4000:]
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


def tell(cluster: Path, command: str, *node: str) -> None:
    """Lose or return a part of the cluster (tests/slurm_cluster.sh)."""
    subprocess.run([str(SCRIPT), command, str(cluster.parent), *node], check=True)


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


def submissions(output: str) -> int:
    return output.count("has been submitted with SLURM jobid")


def test_a_chain_of_stages_outlasts_the_controller_and_a_node(copied: Checkout, cluster: Path):
    """From images to a score: each rule a job, but features and what is scored with them one.

    Slurm does not answer when the first is submitted, nor when it is asked for afterwards; the last
    is on a node that is lost. No attempt is spent.
    """
    for name in REMOVED:
        shutil.rmtree(copied.folder / "results" / name)
    planned = copied.planned(CHAIN)
    assert planned == dict.fromkeys(CHAIN_RULES, 1)
    said = copied.folder / "said.txt"
    tell(cluster, "lose-controller")
    with said.open("w") as output:
        running = subprocess.Popen(
            copied.command(CHAIN, "--profile", "slurm", *POLLING),
            cwd=copied.folder,
            env=copied.environment(**on(cluster)),
            text=True,
            stdout=output,
            stderr=subprocess.STDOUT,
        )

    def says(words: str) -> Callable[[], bool]:
        return lambda: words in said.read_text()

    try:
        wait_until(says("Slurm does not answer: store_pixels waits"), 120, running)
        tell(cluster, "return-controller")
        wait_until(says("has been submitted"), 60, running)
        tell(cluster, "lose-controller")
        wait_until(says("MinJobAge=None"), 60, running)  # it has been asked
        tell(cluster, "return-controller")
        wait_until(lambda: bool(node_of(cluster, "scores")), 240, running)
        (job,), lost = jobs_of(cluster, "scores"), node_of(cluster, "scores")
        tell(cluster, "lose-node", lost)
        wait_until(lambda: node_of(cluster, "scores") not in ("", lost), 180, running)
        assert running.wait(timeout=120) == 0
    finally:
        if running.poll() is None:
            running.send_signal(signal.SIGINT)
            running.wait(timeout=120)
        print(said.read_text()[-6000:])  # shown with a failure
    tell(cluster, "return-node", lost)
    assert "Restarts=1" in answer(cluster, "scontrol", "show", "job", job)
    assert submissions(said.read_text()) == sum(planned.values()) - 1  # features and score are one
    assert copied.planned(CHAIN) == {}


def test_a_training_on_two_nodes(copied: Checkout, cluster: Path):
    """Two processes on each of two nodes meet; Gloo on one machine's loopback."""
    spread = {"nodes": 2, "processes": 2, "mem_mb": 3000, "runtime": 10}
    checkout = copied.write(
        "tiny_nodes.yaml",
        {
            "models": {"toy/joint": {"training": {"steps": 3}}},
            "resources": {"pretrain_joint": spread},
        },
    )
    loopback = {"GLOO_SOCKET_IFNAME": "lo"} | on(cluster)
    done = checkout.snakemake(TARGET, "--profile", "slurm", *POLLING, **loopback)
    assert done.returncode == 0, done.stdout[-4000:] + log_of(checkout)[-4000:]
    assert json.loads((checkout.folder / TARGET).read_text())["processes"] == 4


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
