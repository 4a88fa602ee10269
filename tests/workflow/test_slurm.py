"""The Slurm profile on a real Slurm: stages that outlast what is lost, a training on two nodes."""

import json
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Checkout
from .slurm_jobs import POLLING, answer, jobs_of, node_of, on, submissions, tell, wait_until

pytestmark = [pytest.mark.slurm, pytest.mark.slow]
TARGET = "results/models/toy/joint/seed0/run.json"
LOG = "results/logs/pretrain_joint/toy/joint.seed0.log"
# From images to a score: what is stored again is on it, and what lies beside it is not.
CHAIN = "results/benchmarks/toy/linear_probe/toy/images/seed0/metrics.json"
REMOVED = ("pixels/biovil/rsna", "models/toy/images", "features", "benchmarks")
CHAIN_RULES = {"store_pixels", "pretrain_image", "extract_features", "evaluate"}


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
    assert done.returncode == 0, done.stdout[-4000:] + (checkout.folder / LOG).read_text()[-4000:]
    assert json.loads((checkout.folder / TARGET).read_text())["processes"] == 4
