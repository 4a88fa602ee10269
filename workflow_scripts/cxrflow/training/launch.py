"""Start a training in one process or in several.

    cxrflow launch --processes 8 cxrflow.pretrain.joint --settings ...

With more than one process, torchrun starts them on this machine. With more than one node, srun
starts a torchrun on each node of a Slurm job; they meet at the first node, where the job's commands
run. This program is replaced by the one it starts, so signals reach that one.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from cxr_files.errors import InputError
from cxr_files.program import EXIT_INTERRUPTED, parser, run, whole
from cxr_files.settings import MOST_CORES
from cxrflow.kinds import REHEARSAL

FIRST_PORT, PORTS = 20000, 20000  # above what services use, below what systems hand out


def launching(
    processes: int, nodes: int, program: Sequence[str], environment: Mapping[str, str]
) -> list[str]:
    """The command that starts ``program`` (a module and its arguments).

    ``processes`` are those of each node. InputError: several nodes outside of a Slurm job.
    """
    if processes == nodes == 1:
        return [sys.executable, "-m", *program]
    torchrun = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}"]
    # Without the dashes torchrun takes a program's --start for one of its own options cut short.
    module = ["-m", "--", *program]
    if nodes == 1:
        return [*torchrun, "--standalone", *module]
    job = environment.get("SLURM_JOB_ID")
    if job is None:
        raise InputError(
            f"--nodes is {nodes}, but this is no Slurm job (SLURM_JOB_ID is not set); "
            "expected 1 node here"
        )
    port = FIRST_PORT + int(job) % PORTS
    return [
        *("srun", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1"),
        *(*torchrun, f"--nnodes={nodes}", f"--rdzv-id={job}", "--rdzv-backend=c10d"),
        *(f"--rdzv-endpoint={socket.gethostname()}:{port}", *module),
    ]


def interrupted_once(command: Sequence[str], program: Sequence[str]) -> int:
    """Run a training that is asked to stop after its first step and started again; its status.

    So a rehearsal saves and resumes once, as a time limit would make it.
    """
    log = Path(program[program.index("--state") + 1], "metrics.jsonl")
    process, cancelled = subprocess.Popen(command), False

    def cancel(*_: object) -> None:
        nonlocal cancelled
        cancelled = True
        process.terminate()

    signal.signal(signal.SIGTERM, cancel)
    while process.poll() is None and not (log.is_file() and log.stat().st_size):
        time.sleep(0.02)
    process.terminate()
    if process.wait() in (EXIT_INTERRUPTED, -signal.SIGTERM) and not cancelled:
        process = subprocess.Popen(command)
    return process.wait()


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__, settings=False)
    arguments.add_argument(
        "--processes",
        type=whole(1, MOST_CORES),
        default=1,
        help="processes a node, one for each GPU",
    )
    arguments.add_argument(
        "--nodes", type=whole(1, 10_000), default=1, help="nodes of this Slurm job"
    )
    arguments.add_argument("program", help="module to run, such as cxrflow.pretrain.joint")
    arguments.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the program")
    options = arguments.parse_args(argv)
    program = [options.program, *options.arguments]
    command = launching(options.processes, options.nodes, program, os.environ)
    # The cores of a node are shared by its processes.
    threads = max(1, int(os.environ.get("OMP_NUM_THREADS", "1")) // options.processes)
    if options.processes > 1:
        os.environ["OMP_NUM_THREADS"] = str(threads)
    sys.stdout.flush()
    if os.environ.get(REHEARSAL):
        sys.exit(interrupted_once(command, program))
    os.execvp(command[0], command)


if __name__ == "__main__":
    run(main)
