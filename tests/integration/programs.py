"""Running the programs as a user does and looking at their end; damaging what they read.

Programs run in this process as ``python -m`` runs them, command line and exit code included.
"""

import contextlib
import importlib
import io
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

import pandas as pd
import torch

from command_options import run_to_end
from cxr_files.atomic import CHECKSUMS
from cxr_files.program import run
from cxrflow.programs.source_code import full_name
from gloo_processes import CONTEXT

ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


@dataclass(frozen=True)
class End:
    """How a program ended: exit code, what it said on stderr, and its log."""

    code: int
    stderr: str

    @property
    def errors(self) -> list[str]:
        """Lines of stderr that are not log lines or warnings of a library."""
        lines = self.stderr.splitlines()
        start = next((i for i, line in enumerate(lines) if line.startswith("error: ")), len(lines))
        return lines[start:]

    def refuses(self, *words: object) -> None:
        """Exit code 2, and one line that holds every one of ``words``."""
        assert self.code == 2, self.stderr
        assert "Traceback" not in self.stderr
        assert len(self.errors) == 1, self.stderr
        for word in words:
            assert str(word) in self.errors[0], f"{word!r} is not in: {self.errors[0]}"

    def succeeds(self) -> None:
        """Exit code 0 without a traceback."""
        assert self.code == 0, self.stderr
        assert "Traceback" not in self.stderr


def command(
    module: str, settings: Mapping[str, object] | None = None, *words: object, **options: object
) -> list[str]:
    """The command line of ``python -m``, below cxrflow unless the module is another package's.

    ``words`` stand first as they are; ``held_out="x"`` becomes ``--held-out x``, a list several
    words after one option.
    """
    line = [sys.executable, "-m", full_name(module), *map(str, words)]
    if settings is not None:
        line += ["--settings", json.dumps(settings)]
    for name, value in options.items():
        values = value if isinstance(value, list) else [value]
        line += [f"--{name.replace('_', '-')}", *map(str, values)]
    return line


def program(
    module: str,
    settings: Mapping[str, object] | None = None,
    *words: object,
    real: bool = False,
    **options: object,
) -> End:
    """Run a :func:`command`, in this process or (``real``) in one of its own."""
    line = command(module, settings, *words, **options)
    if real:
        done = run_to_end(line, env=ENVIRONMENT)
        return End(done.returncode, done.stderr)
    before, heard, code = sys.argv, io.StringIO(), 0
    try:
        with contextlib.redirect_stderr(heard), contextlib.redirect_stdout(io.StringIO()):
            _run(line)
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.argv = before
    return End(code, heard.getvalue())


def _run(line: list[str]) -> None:
    """Run a :func:`command` in this process."""
    package = importlib.import_module(line[2])
    if not hasattr(package, "main"):
        package = importlib.import_module(f"{line[2]}.__main__")
    sys.argv = [line[2].removeprefix("cxrflow."), *line[3:]]
    run(package.main)


def started(line: list[str], log: Path, **environment: object) -> BaseProcess:
    """Start a :func:`command` in a forked process, which has the libraries already.

    Its stderr goes to ``log``.
    """
    added = {name: str(value) for name, value in environment.items()}
    process = CONTEXT.Process(target=_run_into, args=(line, log, added))
    process.start()
    return process


def _run_into(line: list[str], log: Path, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    with open(log, "w", encoding="utf-8") as file:
        os.dup2(file.fileno(), sys.stderr.fileno())
    torch.set_num_threads(1)
    _run(line)


def absent(path: Path) -> bool:
    """Neither ``path`` nor a half of it was left behind."""
    return not path.exists() and not list(path.parent.glob(f".{path.name}.*.partial"))


def change_parquet(path: Path, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    """Rewrite a parquet file, as somebody does who means it: without checksums."""
    (path.parent / CHECKSUMS).unlink(missing_ok=True)
    change(pd.read_parquet(path)).to_parquet(path, index=False)
