"""Tests in several processes notice when one of them fails."""

import os
import time

import pytest
import torch
from torch import distributed

from gloo_processes import run_processes


def sum_of_ranks(offset: torch.Tensor) -> tuple[int, torch.Tensor]:
    total = offset + distributed.get_rank()
    distributed.all_reduce(total)
    return distributed.get_rank(), total


def fail_in_one(way: str) -> None:
    if distributed.get_rank() == 1:
        if way == "raises":
            raise ValueError("what went wrong")
        if way == "dies":
            os._exit(3)
        time.sleep(60)
    distributed.barrier()


@pytest.mark.parametrize("world", [1, 3])
def test_results_are_in_the_order_of_ranks(world: int) -> None:
    found = run_processes(world, sum_of_ranks, torch.tensor(10.0))
    total = torch.tensor(10.0 * world + sum(range(world)))
    assert found == [(rank, total) for rank in range(world)]


@pytest.mark.parametrize(
    ("way", "seconds", "message"),
    [
        ("raises", 60, "rank 1: Traceback(.|\n)*ValueError: what went wrong"),
        ("dies", 60, r"exit codes \[.*3"),
        ("hangs", 2, "not done in time|Timed out"),
    ],
)
def test_a_failure_of_one_process_fails(way: str, seconds: float, message: str) -> None:
    begin = time.monotonic()
    with pytest.raises(AssertionError, match=message):
        run_processes(2, fail_in_one, way, seconds=seconds)
    assert time.monotonic() - begin < 30
