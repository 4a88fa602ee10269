"""What holds for all tests."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

# Processes of tests share two cores: libraries that each take both wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Many small fits do not end in minutes if OpenBLAS's threads wait for each other.
os.environ["OPENBLAS_NUM_THREADS"] = "1"


def pytest_configure() -> None:
    """Let Ctrl-C reach what the tests start.

    A shell makes its background jobs ignore SIGINT, and so do all programs started from them.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class ByFile(LoadScopeScheduling):
    """Of several processes one runs the workflow's tests.

    Those of Slurm wait for most of their time: each of their files has a process. The other files
    go to whichever is free.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        slurm = Path(file).name.startswith("test_slurm")
        workflow = "workflow" in Path(file).parts and not slurm
        return "workflow" if workflow else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """How `make test` shares out the tests."""
    return ByFile(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The workflow's tests take longest and come first."""
    items.sort(key=lambda item: "workflow" not in item.path.parts)
