"""Jobs of a Slurm of plain processes on this machine, as the tests of the profile see them."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from .conftest import CLUSTER

POLLING = ["--slurm-init-seconds-before-status-checks", "3"]


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
    subprocess.run([str(CLUSTER), command, str(cluster.parent), *node], check=True)


def submissions(output: str) -> int:
    return output.count("has been submitted with SLURM jobid")
