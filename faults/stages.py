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
#: Stages of which the tests' own run has no job, and what stands for them.
WITHOUT_JOB = {
    "launch": "the training that it starts",
    "import_weights": "pretrain_text: a model folder, written by the same function",
    "pretrain_image_reports": "pretrain_joint: the same engine",
    "pretrain_sentence_pairs": "pretrain_text: the same engine",
    "make_certificate": "check_orderings: a table of three files",
    "draw_bars": "draw_figure: a picture and its JSON",
    "draw_curve": "draw_figure: a picture and its JSON",
    "join_cohorts": "build_pairs, build_samples: the same tables and accounts",
}


class Job(NamedTuple):
    """A job: its stage (a rule, of an evaluation with its benchmark), module, options, outputs.

    ``timing``: the file in which the workflow has written how long it took.
    """

    stage: str
    module: str
    options: tuple[str, ...]
    outputs: tuple[str, ...]
    timing: str

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
        fields = (line.strip().partition(": ") for line in lines)
        said = {name: text for name, _, text in fields}
        module, *options = command
        if module == LAUNCHER:
            first = next(n for n, word in enumerate(options) if word.startswith("cxrflow."))
            module, *options = options[first:]
        stage = f"{name} {options[0]}" if name in ("evaluate", "draw_figure") else name
        made = tuple(said["output"].split(", "))
        jobs.append(Job(stage, module, tuple(options), made, said["benchmark"]))
    return jobs


def cheapest(jobs: list[Job], folder: Path) -> list[Job]:
    """Of each stage the job that took the shortest time in a finished run, the shortest first."""
    by_stage: dict[str, tuple[float, Job]] = {}
    for job in jobs:
        lines = (folder / job.timing).read_text().splitlines()
        seconds = float(lines[1].split("\t")[0])
        if job.stage not in by_stage or seconds < by_stage[job.stage][0]:
            by_stage[job.stage] = seconds, job
    return [job for _, job in sorted(by_stage.values(), key=lambda pair: pair[0])]


def _command(lines: list[str]) -> list[str] | None:
    """The words after ``python -m``, less what sends its words into a log."""
    for number, line in enumerate(lines):
        if line.strip().startswith("python -m "):
            words = shlex.split("\n".join(lines[number:]).replace("\\\n", " "))
            end = next((n for n, word in enumerate(words) if word.startswith((">", "2>"))), None)
            return words[2:end]
    return None
