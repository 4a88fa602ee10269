"""How a training is started: by itself, by torchrun, by srun and torchrun."""

import os
import subprocess
import sys

import pytest

from cxrflow.errors import InputError
from cxrflow.training.launch import launching

PROGRAM = ["cxrflow.pretrain.joint", "--seed", "0"]


def test_one_process_is_the_program_itself() -> None:
    assert launching(1, 1, PROGRAM, {}) == [sys.executable, "-m", *PROGRAM]


def test_several_processes_are_started_by_torchrun() -> None:
    command = launching(3, 1, PROGRAM, {})
    assert "--nproc-per-node=3" in command and "--standalone" in command
    assert command[-5:] == ["-m", "--", *PROGRAM]


def test_several_nodes_meet_at_the_first() -> None:
    command = launching(4, 2, PROGRAM, {"SLURM_JOB_ID": "20007"})
    assert command[:4] == ["srun", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1"]
    assert "--nnodes=2" in command and "--nproc-per-node=4" in command
    endpoint = next(one for one in command if one.startswith("--rdzv-endpoint="))
    assert endpoint.endswith(":20007") and command[-5:] == ["-m", "--", *PROGRAM]


def test_several_nodes_need_a_slurm_job() -> None:
    with pytest.raises(InputError, match="--nodes is 2, but this is no Slurm job"):
        launching(4, 2, PROGRAM, {})


def test_it_starts_as_many_as_asked_for() -> None:
    """Of a module that prints one line, the machine's name, whatever options it has."""
    launch = ["-m", "cxrflow.training.launch", "--processes", "2"]
    done = subprocess.run(
        [sys.executable, *launch, "platform", "--start", "x"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2
