"""Turns whose memory is measured, and those that are programs of their own, with their start."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from speed.race import Measured, Work

_EVERY = 0.02  # seconds between two looks at the memory
_ROOT = Path(__file__).parents[1]


def _resident(process: int) -> int:
    """Pages a process and all its descendants hold at this moment; 0 once it has ended."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        threads = list(Path(f"/proc/{process}/task").iterdir())
        children = [int(c) for t in threads for c in (t / "children").read_text().split()]
    except (OSError, IndexError):
        return 0
    return pages + sum(map(_resident, children))


def watched(work: Work) -> Measured:
    """Do the work in this process, whose memory, its inputs with it, is looked at meanwhile."""
    peak = _resident(os.getpid())
    with ThreadPoolExecutor(1) as pool:
        turn = pool.submit(work)
        while not turn.done():
            peak = max(peak, _resident(os.getpid()))
            time.sleep(_EVERY)
    return Measured(turn.result(), peak * os.sysconf("SC_PAGE_SIZE") / 1e6)


def run_module(module: str, arguments: Sequence[object], threads: int) -> float:
    """Run ``python -m module arguments``; the peak memory of it and its workers together, in MB.

    Memory is looked at 50 times a second. Pages that two processes share count twice. Raises
    :class:`RuntimeError` with the program's last words where it fails.
    """
    paths = [str(_ROOT / "workflow_scripts"), str(_ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "RAYON_NUM_THREADS": str(threads),
        "TOKENIZERS_PARALLELISM": "true",
    }
    command = [sys.executable, "-m", module, *map(str, arguments)]
    peak = 0
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        while process.poll() is None:
            peak = max(peak, _resident(process.pid))
            time.sleep(_EVERY)
        assert process.stderr is not None
        words = process.stderr.read()
    if process.returncode:
        raise RuntimeError(f"{module}: exit code {process.returncode}: {words[-2000:]}")
    return peak * os.sysconf("SC_PAGE_SIZE") / 1e6
