"""The jobs of a finished run of the workflow: of each stage the cheapest, as a command."""

import os
import random
import runpy
import shlex
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

LAUNCHER = "cxrflow.training.launch"  # puts the training in its own place


class Job(NamedTuple):
    """A job: its stage (a rule, of an evaluation with its benchmark), module, options, outputs."""

    stage: str
    module: str
    options: tuple[str, ...]
    outputs: tuple[str, ...]

    def main(self, folder: Path, enter: Callable[[], None]) -> Callable[[], int]:
        """What runs the program in ``folder``, for a forked process; ``enter`` comes first."""

        def run() -> int:
            os.chdir(folder)
            sys.argv = [self.module, *self.options]
            sys.stdout = open(1, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115
            sys.stderr = open(2, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115
            random.seed()
            np.random.seed()
            code: object = 0
            try:
                enter()
                runpy.run_module(self.module, run_name="__main__", alter_sys=True)
            except SystemExit as end:
                code = end.code
            except BaseException:
                traceback.print_exc()
                code = 1
            threading._shutdown()  # waits for threads that write, as Python's own end does
            sys.stdout.flush()
            sys.stderr.flush()
            return code if isinstance(code, int) else int(code is not None)

        return run


def read_jobs(plan: str) -> list[Job]:
    """The jobs of a dry run that prints its commands (``snakemake -n -p --forceall``)."""
    jobs = []
    for part in plan.split("\n\n"):
        lines = part.split("\n")
        rule = next((line for line in lines if line.startswith(("rule ", "localrule "))), None)
        command = _command(lines)
        if rule is None or command is None:
            continue
        name = rule.split()[1].rstrip(":")
        outputs = next(line for line in lines if line.startswith("    output: "))
        module, *options = command
        if module == LAUNCHER:
            first = next(n for n, word in enumerate(options) if word.startswith("cxrflow."))
            module, *options = options[first:]
        stage = f"{name} {options[0]}" if name in ("evaluate", "draw_figure") else name
        made = outputs.removeprefix("    output: ").split(", ")
        jobs.append(Job(stage, module, tuple(options), tuple(made)))
    return jobs


def _command(lines: list[str]) -> list[str] | None:
    """The words after ``python -m``, less what sends its words into a log."""
    for number, line in enumerate(lines):
        if line.strip().startswith("python -m "):
            words = shlex.split("\n".join(lines[number:]).replace("\\\n", " "))
            end = next((n for n, word in enumerate(words) if word.startswith((">", "2>"))), None)
            return words[2:end]
    return None
