"""Several processes with torch.distributed (gloo, CPU) for one test, and what each one returns."""

import multiprocessing
import os
import pickle
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import distributed

# One server imports once what takes long, before any thread exists, and every process is forked
# from it: about ten times quicker than starting each from nothing.
CONTEXT = multiprocessing.get_context("forkserver")
# The first optimiser of a process imports torch._dynamo.
CONTEXT.set_forkserver_preload(
    ["torch._dynamo", "cxrflow.training.engine", "cxrflow.pretrain.pairs.preparation"]
)


def run_processes(
    world: int, function: Callable[..., Any], *args: Any, seconds: float = 60
) -> list[Any]:
    """What ``function(*args)`` returns in each of ``world`` processes, in order of rank.

    The function must stand at the top of a module. The process group is ready when it starts
    (``torch.distributed.get_rank()``) and torch computes with one thread. Arguments and results
    are pickled. AssertionError with exit codes and tracebacks, the first failure first, if one
    raises or dies, or if they are not done after ``seconds``; the others are killed then.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        work = pickle.dumps((function, args))
        processes = [
            CONTEXT.Process(target=_one_process, args=(rank, world, folder, work, seconds))
            for rank in range(world)
        ]
        for process in processes:
            process.start()
        try:
            _wait(processes, folder, time.monotonic() + seconds)
        finally:
            for process in processes:
                if process.is_alive():
                    process.kill()
                process.join()
        return [pickle.loads((folder / f"result-{rank}").read_bytes()) for rank in range(world)]


def _wait(processes: list[Any], folder: Path, deadline: float) -> None:
    """Return when all have ended well; raise as soon as one has not."""
    while True:
        codes = [process.exitcode for process in processes]
        failures = sorted(folder.glob("failure-*"), key=lambda path: path.stat().st_mtime_ns)
        if failures or any(codes):
            texts = "\n".join(path.read_text(encoding="utf-8") for path in failures)
            raise AssertionError(f"a process failed; exit codes {codes}\n{texts}")
        if all(code == 0 for code in codes):
            return
        assert time.monotonic() < deadline, f"not done in time; exit codes {codes}"
        time.sleep(0.01)


def _one_process(rank: int, world: int, folder: Path, work: bytes, seconds: float) -> None:
    if sys.platform == "linux":  # the machine's own name may lead nowhere
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    try:
        function, args = pickle.loads(work)
        distributed.init_process_group(
            "gloo",
            init_method=f"file://{folder}/store",
            rank=rank,
            world_size=world,
            timeout=timedelta(seconds=seconds),
        )
        result = pickle.dumps(function(*args))
        distributed.barrier()  # nobody leaves while another still needs its connections
        distributed.destroy_process_group()
        (folder / f"result-{rank}").write_bytes(result)
    except BaseException:
        unfinished = folder / f"unfinished-{rank}"
        unfinished.write_text(f"rank {rank}: {traceback.format_exc()}", encoding="utf-8")
        unfinished.rename(folder / f"failure-{rank}")  # whole when it is seen
        sys.exit(1)
