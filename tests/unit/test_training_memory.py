"""Memory that a step frees and the next one asks for again."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
from cxrflow.training.memory import keep_freed_memory

if sys.argv[1] == "keep":
    keep_freed_memory()
import torch

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def step():
    return torch.empty(2**24).fill_(1)  # 64 MiB; from 32 on glibc maps every tensor by itself

for _ in range(20):  # until the heap has its size
    step()
before = faults()
for _ in range(5):
    step()
print(faults() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's malloc")
def faults(how: str) -> int:
    command = [sys.executable, "-c", PROGRAM, how]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_memory_that_is_freed_stays_with_the_process() -> None:
    pages = 5 * 64 * 2**20 // 4096
    assert faults("keep") < pages // 10
    if faults("leave") < pages // 2:
        pytest.skip("this C library keeps it by itself, or has pages of another size")
