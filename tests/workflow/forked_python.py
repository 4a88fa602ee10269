"""A Python whose programs start at once: they are forked from a server that has the libraries.

A job of the workflow at the tests' size spends most of its time on importing torch, pandas and
scikit-learn. A process of this Python has them already, and imports our package as ever, from where
PYTHONPATH says. It has the arguments, environment, folder and open files of its caller
(:mod:`python_call`), gets the caller's signals, and dies with it.

Run as a program, this file is the server: its argument is the folder of the socket.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import random
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import F_DUPFD, fcntl
from pathlib import Path

import numpy as np

LIBRARIES = (
    *("torch", "torch._dynamo", "torch.utils.tensorboard", "torch.utils.flop_counter"),
    *("transformers", "tokenizers", "safetensors.torch", "stanza", "pandas", "pyarrow.parquet"),
    *("scipy.stats", "scipy.optimize", "sklearn.linear_model", "sklearn.metrics"),
    *("matplotlib.pyplot", "PIL.Image", "pydicom", "pydantic", "yaml", "jinja2", "tqdm"),
    "snakemake.cli",
)
ABOVE = 200  # numbers of files that no caller uses


@contextmanager
def forked_python() -> Iterator[Path]:
    """Yield a folder for PATH: its ``python -m`` and ``python -c`` are forked, the rest is not."""
    with tempfile.TemporaryDirectory(prefix="python") as name:  # short: its path goes into a socket
        folder = Path(name)
        caller = Path(__file__).with_name("python_call.py").read_text(encoding="utf-8")
        (folder / "python").write_text(f"#!{sys.executable} -IS\n{caller}", encoding="utf-8")
        (folder / "python").chmod(0o755)
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        server = subprocess.Popen(
            [sys.executable, __file__, folder], stdin=subprocess.PIPE, env=environment
        )
        try:
            while not (folder / "socket").exists():
                assert server.poll() is None, "the server of forked processes has ended"
                time.sleep(0.05)
            yield folder
        finally:
            server.communicate()  # it ends with its standard input


def serve(folder: Path) -> None:
    """Fork a process for each call, until standard input ends; return in that process."""
    places = sys.path[1:]
    for name in LIBRARIES:
        importlib.import_module(name)
    # Snakemake has loaded our plugin for its console; a call has the package of its own PYTHONPATH.
    for name in [name for name in sys.modules if "cxrflow" in name.partition(".")[0]]:
        del sys.modules[name]
    gc.freeze()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "unfinished"))
    listener.listen(64)
    (folder / "unfinished").rename(folder / "socket")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while listener in select.select([listener, sys.stdin], [], [])[0]:
        call, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            watch(call)
            sys.executable = str(folder / "python")
            packages = os.environ.get("PYTHONPATH", "").split(os.pathsep)
            sys.path[:] = [os.getcwd(), *filter(None, packages), *places]
            return
        call.close()
    sys.exit()


def watch(call: socket.socket) -> None:
    """Return in the process of a call; stay until it, or the caller, has ended."""
    _, files, _, _ = socket.recv_fds(call, 1, 250)
    arguments, place, environment, numbers = json.load(call.makefile())
    process = os.fork()
    if process:
        for file in files:
            os.close(file)
        call.sendall(f"{process}\n".encode())
        ends = select.poll()
        ends.register(call, 0)  # closed by the caller's death
        ends.register(os.pidfd_open(process), select.POLLIN)
        if call.fileno() in dict(ends.poll()):
            os.kill(process, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        with contextlib.suppress(OSError):
            call.sendall(f"{code}\n".encode())
        os._exit(0)
    call.close()
    for file, number in zip([fcntl(file, F_DUPFD, ABOVE) for file in files], numbers, strict=True):
        os.dup2(file, number)
        os.close(file)
    for file in {*files} - {*numbers}:
        os.close(file)
    os.chdir(place)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = arguments
    random.seed()
    np.random.seed()


def run(option: str, program: str) -> int:
    """Run a module or code as Python does, exit handlers included; return its exit code."""
    code: object = 0
    try:
        if option == "-m":
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            exec(program, {"__name__": "__main__"})
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    if not isinstance(code, int | None):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return code or 0


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
    option = sys.argv.pop(0)
    os._exit(run(option, sys.argv[0]))  # to free the libraries' objects takes most of a second
