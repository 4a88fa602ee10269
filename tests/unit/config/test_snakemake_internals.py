"""What rules know of Snakemake beyond its documentation: in one file, for one version."""

import asyncio
import importlib.metadata
import inspect
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import snakemake.api
import snakemake_executor_plugin_slurm as slurm
from config_overlays import ROOT
from snakemake.scheduling.job_scheduler import JobScheduler

INTERNALS = ROOT / "rules/internals.smk"
REACHING = (
    "ruleinfo",
    "_cores",
    "workflow.dag",
    "workflow.rules",
    "dag_settings",
    "pathvars.update",
    "gc.freeze",
    "query_job_status",
    "_schedule_reevalutation",
)


def test_they_hold_for_the_version_that_is_installed() -> None:
    (version,) = re.findall(r'^HOLDS_FOR = "(.+)"$', INTERNALS.read_text(), re.MULTILINE)
    assert f"{snakemake.__version__}.".startswith(f"{version}."), f"read {INTERNALS} again"
    snakefile = (ROOT / "Snakefile").read_text()
    assert re.findall(r'^min_version\("(.+)"\)$', snakefile, re.MULTILINE) == [version]
    workflow = snakemake.workflow
    for owner, names in (
        (snakemake.ruleinfo.RuleInfo(None), ("retries", "threads", "resources")),
        (workflow.DAG, ("jobid", "needrun_jobs")),
        (workflow.Workflow, ("local_exec", "nodes", "cores", "rules", "dag_settings")),
        (snakemake.settings.types.DAGSettings, ("targets",)),
        (snakemake.resources.Resources, ("from_mapping", "update")),
        (snakemake.pathvars.Pathvars, ("from_config", "update")),
    ):
        assert all(hasattr(owner, name) for name in names), owner


def test_it_outlasts_slurm_in_the_version_that_is_installed() -> None:
    (version,) = re.findall(r"slurm that begin with (.+)\.$", INTERNALS.read_text(), re.MULTILINE)
    installed = importlib.metadata.version("snakemake-executor-plugin-slurm")
    assert f"{installed}.".startswith(f"{version}."), f"read {INTERNALS} again"
    for function, names in (
        (slurm.query_job_status, ["command", "logger"]),
        (slurm.Executor.run_job, ["self", "job"]),
        (slurm.Executor.cancel_jobs, ["self", "active_jobs"]),
        (slurm.Executor.check_active_jobs, ["self", "active_jobs"]),
    ):
        assert list(inspect.signature(function).parameters) == names, function


def functions(**names: object) -> dict[str, Any]:
    """The functions that change Snakemake, with ``names`` in the place of what they import."""
    source = INTERNALS.read_text().partition("def look_once_a_second")
    exec("".join(source[1:]), names)
    return names


def test_the_scheduler_looks_once_a_second_however_many_jobs_end() -> None:
    class Scheduler:
        """As the loop of Snakemake's: it asks to look again each time it looks."""

        def __init__(self) -> None:
            self._open_jobs = threading.Semaphore(100)  # as if so many jobs had ended

        def looks(self, number: int) -> int:
            found = 0
            while found < number and self._open_jobs.acquire(timeout=0.1):
                self._schedule_reevalutation(0.02)  # type: ignore[attr-defined]
                found += 1
            return found

    functions(threading=threading, JobScheduler=Scheduler)["look_once_a_second"]()
    scheduler = Scheduler()
    assert scheduler.looks(100) == 100
    start = time.monotonic()
    assert scheduler.looks(5) == 5  # it goes on, by one timer after another
    assert time.monotonic() - start > 4 * 0.02
    assert list(inspect.signature(JobScheduler._schedule_reevalutation).parameters) == [
        "self", "delay",
    ]  # fmt: skip


class Executor:
    """What the plugin's does with its jobs, as far as the rules reach into it."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def run_job(self, job: SimpleNamespace) -> None:
        self.said.append(f"submitted {job.name}")

    def cancel_jobs(self, active_jobs: list[SimpleNamespace]) -> None:
        self.said.append("cancelled")

    async def check_active_jobs(
        self, active_jobs: list[SimpleNamespace]
    ) -> AsyncIterator[SimpleNamespace]:
        states, _ = await sys.modules[slurm.__name__].query_job_status("squeue --all", None)
        for job in active_jobs if states is not None else []:
            yield job

    def report_job_error(self, job: SimpleNamespace, msg: str) -> None:
        self.said.append(msg.strip())


@pytest.fixture
def outlasting(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A plugin that the rules have changed; Slurm gives ``answers``, and to pings ``pings``."""
    slurm_says = SimpleNamespace(answers=[], pings=[])

    async def ask(command: str, logger: object) -> tuple[dict[str, str] | None, float | None]:
        return slurm_says.answers.pop(0), None

    plugin = SimpleNamespace(query_job_status=ask, Executor=type("Executor", (Executor,), {}))
    monkeypatch.setitem(sys.modules, slurm.__name__, plugin)
    names = functions(sys=sys, threading=threading, Counter=Counter, logger=Mock())
    names["outlast_slurm"]()
    names["controller_answers"] = lambda: slurm_says.pings.pop(0) if slurm_says.pings else True
    slurm_says.executor = plugin.Executor()
    return slurm_says


def test_no_answer_of_slurm_loses_no_job(outlasting: SimpleNamespace) -> None:
    """A job that Slurm does not know three times in a row has failed; no answer is not counted."""
    executor, job = outlasting.executor, SimpleNamespace(external_jobid="7")

    async def active() -> list[SimpleNamespace]:
        return [still async for still in executor.check_active_jobs([job])]

    outlasting.answers = [None, {}, {}, {"7_[1-4]": "PENDING"}, {}, {}]
    for _ in range(6):
        assert asyncio.run(active()) == [job]
    assert executor.said == []
    outlasting.answers = [{}]
    assert asyncio.run(active()) == []
    assert executor.said == ["SLURM-job '7' is unknown, SLURM status is: 'FORGOTTEN'."]


def test_a_submission_waits_for_slurm_but_not_after_a_cancellation(
    outlasting: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor, job = outlasting.executor, SimpleNamespace(name="pretrain_joint")
    monkeypatch.setattr(threading.Event, "wait", lambda event, seconds: event.is_set())
    outlasting.pings = [False, False, False]
    executor.run_job(job)
    assert outlasting.pings == [] and executor.said == ["submitted pretrain_joint"]
    executor.cancel_jobs([])
    outlasting.pings = [False]
    executor.run_job(job)
    assert executor.said == ["submitted pretrain_joint", "cancelled"]


def test_no_other_rule_reaches_into_snakemake() -> None:
    for file in (*ROOT.glob("rules/**/*.smk"), ROOT / "Snakefile"):
        text = file.read_text(encoding="utf-8")
        reaching = [word for word in REACHING if word in text]
        assert (reaching == []) == (file != INTERNALS), f"{file}: {reaching}"
