"""The report of a rehearsal: what failed, and what the run itself will take.

A training takes the seconds of its representative's quickest step times its own steps, and a third
of that a batch of a validation. What reads a cohort takes as many times longer as the cohort has
more rows than its slice, beyond the seconds of the quickest job of its rule, of evaluations the
middle one; what learns in a benchmark, as many times longer as it is shortened, at most.
Reports are scaled by the length of their list; a corpus of documents, whose length no list tells,
is not.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from cxr_files.atomic import atomic_path, read_json
from cxrflow.benchmarks.registry import BENCHMARKS
from cxrflow.config import Config
from cxrflow.config.cost import described_jobs
from cxrflow.config.gpu_hours import read_tsv
from cxrflow.config.parts import ASK_AS, RULES, Resources
from cxrflow.config.rehearsal import SEEDS, kind_of
from cxrflow.console.plan import duration, reason
from cxrflow.training.settings import TrainingSettings

SCORING = ("evaluate", "score_reference")
LONGEST = 1440  # minutes that a job asks for; a training goes on in the next
SPARE = 1.5  # of what is asked for to what was measured
VALIDATION = 1 / 3  # of the time of a step: the forward pass alone


@dataclass(frozen=True)
class Rehearsed:
    """A job of the rehearsal: what a dry run says of it, and what it left."""

    rule: str
    wildcards: Mapping[str, str]
    inputs: Sequence[Path]
    outputs: Sequence[Path]
    timing: Path | None
    log: Path | None

    @property
    def name(self) -> str:
        """Its rule and what it is of."""
        return " ".join([self.rule, *self.wildcards.values()])

    @property
    def is_done(self) -> bool:
        return all(path.exists() for path in self.outputs)

    @property
    def has_failed(self) -> bool:
        """True if it had all it needs, and left nothing."""
        return not self.is_done and all(path.exists() for path in self.inputs)

    @cached_property
    def measured(self) -> tuple[float, float]:
        """Seconds, and megabytes of memory at most."""
        if self.timing is None or not self.timing.is_file():
            return 0.0, 0.0
        rows = read_tsv(self.timing)
        memory = [float(row["max_rss"]) for row in rows if row["max_rss"] not in ("-", "NA")]
        return sum(float(row["s"]) for row in rows), max(memory, default=0.0)


def jobs_of(dry_run: str) -> list[Rehearsed]:
    """The jobs of a dry run of everything, targets left out."""
    jobs = []
    for rule, lines, *files in described_jobs(dry_run):
        inputs, outputs = ([*map(Path, names)] for names in files)
        pairs = (pair.partition("=") for pair in lines.get("wildcards", "").split(", ") if pair)
        timing, log = (Path(lines[k]) if k in lines else None for k in ("benchmark", "log"))
        if outputs:
            wildcards = {key: value for key, _, value in pairs}
            jobs.append(Rehearsed(rule, wildcards, inputs, outputs, timing, log))
    return jobs


@dataclass(frozen=True)
class Cost:
    """What a job of the run will take, or several alike."""

    rule: str
    name: str
    seconds: float
    memory_mb: float
    gpu_mb: float | None = None
    jobs: int = 1
    storage: float = 0.0  # bytes of each
    detail: str = ""


class Extrapolation:
    """The run itself, ``full``, by the products of its rehearsal."""

    def __init__(self, full: Config, rehearsal: Config, jobs: Sequence[Rehearsed]) -> None:
        self.full, self.short, self.jobs = full, rehearsal, jobs
        self.results = Path(rehearsal.values.results)
        fixed: dict[str, list[float]] = defaultdict(list)
        for job in jobs:
            if job.is_done and job.measured[0]:
                fixed[job.rule].append(job.measured[0])
        # Of most evaluations the start is all: what few rows take beside it is lost in its noise.
        self.fixed = {
            rule: (median if rule in SCORING else min)(seconds) for rule, seconds in fixed.items()
        }

    # --- how much larger the data are ---------------------------------------------------------

    def rows(self, cohort: str, split: str | None = None) -> float:
        """The rows of a cohort, of one part or all, as the whole list of reports will give them."""
        if joined := self.full.cohorts[cohort].joined:
            return sum(self.rows(each.name, split) for each in joined)
        flow = self._flow(cohort)
        counts = {name: n for name, n in flow.get("whole", {}).items() if name != "images"}
        rows = sum(counts.values()) if split is None else counts.get(split, 0)
        return rows * self._reports(self.full.cohorts[cohort].dataset, flow)

    def ratio(self, cohort: str) -> float:
        """How many times larger a cohort is than its slice."""
        flow = self._flow(cohort)
        slice_rows = sum(next(iter(counts.values())) for counts in flow.get("splits", {}).values())
        return max(1.0, self.rows(cohort) / max(slice_rows, 1)) if "whole" in flow else 1.0

    def _flow(self, cohort: str) -> dict[str, Any]:
        path = self.results / "cohorts" / cohort / "flow.json"
        return read_json(path) if path.is_file() else {}

    def _reports(self, dataset: str, flow: Mapping[str, Any]) -> float:
        if flow.get("kind") != "pairs":
            return 1.0
        path = self.results / "corpus" / dataset / "corpus.json"
        corpus = read_json(path) if path.is_file() else {}
        steps = {step["name"]: step for step in corpus.get("steps", ())}
        listing = steps.get("reports listed", {"dropped": ()})
        beyond = sum(d["count"] for d in listing["dropped"] if d["reason"] == "beyond the slice")
        return 1 + beyond / max(corpus.get("reports", 1), 1)

    # --- trainings ----------------------------------------------------------------------------

    def steps(self, name: str) -> tuple[int, float]:
        """The steps of a training, and what its validations take, in steps."""
        model = self.full.models[name]
        training: TrainingSettings = model.settings.training  # type: ignore[attr-defined]
        cohort, batch = model.recipe.cohort, training.batch_size
        epoch, validation = 1, 0
        if cohort is not None:
            epoch = max(1, int(self.rows(cohort, "train") * model.recipe.share / 100) // batch)
            validation = math.ceil(self.rows(cohort, "validate") / batch)
        validation = min(validation, training.validation_batches or validation)
        steps = training.steps or (training.epochs or 0) * epoch
        interval = training.validate_steps or max(1, steps // training.validations)
        return steps, steps // interval * validation * VALIDATION

    def trainings(self) -> Iterator[Cost]:
        """The cost of each training of the run, by the representative of its kind."""
        by_kind = {kind_of(self.full.models[n]): n for n in self.short.selection.models}  # type: ignore[union-attr]
        timed = {
            job.wildcards["model"]: job.measured[1]
            for job in self.jobs
            if "model" in job.wildcards and job.rule == self._rule(job.wildcards["model"])
        }
        for name in self.full.whole.models:
            model = self.full.models[name]
            if not model.trained:
                continue
            kind = kind_of(model)
            stands = name if name in timed else by_kind.get(kind, name)
            folder = self.results / "models" / stands / f"seed{self.short.models[stands].seeds[0]}"
            if not (folder / "run.json").is_file():
                yield Cost(self._rule(name), name, math.nan, 0, jobs=len(model.seeds))
                continue
            record = read_json(folder / "run.json")
            second = step_seconds(folder / "metrics.jsonl")
            steps, more = self.steps(name)
            on_gpu = str(record["device"]).startswith("cuda")
            yield Cost(
                self._rule(name),
                name,
                (steps + more) * second,
                max(timed.get(stands, 0.0), 0 if on_gpu else record["peak_memory_mb"]),
                record["peak_memory_mb"] if on_gpu else None,
                len(model.seeds),
                size_of(folder),
                f"{steps} steps of {second:.3g} s" + ("" if stands == name else f", as {stands}"),
            )

    def _rule(self, model: str) -> str:
        return self.full.models[model].recipe.kind.rule if model in self.full.models else ""

    # --- everything else ----------------------------------------------------------------------

    def others(self) -> Iterator[Cost]:
        """The cost of what trains no model; of an evaluation also for the models left out."""
        models: dict[str, int] = defaultdict(int)
        for task, row in self.full.cells:
            models[task] += len(self.full.models.seeds_of(row)) if row is not None else 1
        rehearsed: dict[str, int] = defaultdict(int)
        for job in self.jobs:
            rehearsed[job.wildcards.get("task", "")] += 1
        for job in self.jobs:
            if job.rule.startswith("pretrain_") or not job.is_done:
                continue
            seconds, memory = job.measured
            cohort, task = job.wildcards.get("cohort", ""), job.wildcards.get("task", "")
            factor, count = 1.0, 1
            if task in self.full.tasks:
                count = max(1, round(models[task] / rehearsed[task]))
                cohort = self.full.tasks[task].cohort
                factor = self._longer(task)
            if job.rule == "process_reports":
                factor = self._reports(job.wildcards["dataset"], {"kind": "pairs"})
            elif cohort in self.full.cohorts and not job.rule.startswith("build_"):
                factor *= self.ratio(cohort)
            fixed = min(self.fixed.get(job.rule, 0.0), seconds)
            lasting = fixed + (seconds - fixed) * factor
            size = sum(size_of(path.parent) for path in {p.parent: p for p in job.outputs}.values())
            storage = size * (factor if job.rule in ("store_pixels", "extract_features") else 1)
            yield Cost(job.rule, job.name, lasting, memory, None, count, storage)

    def _longer(self, task: str) -> float:
        """How many times longer a benchmark learns than in the rehearsal."""
        full = self.full.tasks[task].settings
        short = self.short.tasks[task].settings
        cohort = self.full.tasks[task].cohort
        rows, ratio = self.rows(cohort, "train"), self.ratio(cohort)
        lengths = zip(_lengths(full, rows, ratio), _lengths(short, rows), strict=False)
        return math.prod(after / max(before, 1) for after, before in lengths)


def _lengths(settings: Any, rows: float, ratio: float = 1) -> Iterator[float]:
    """How long each thing in settings learns; of steps less the ``ratio`` that counts for rows."""
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, TrainingSettings):
            epoch = max(1, int(rows) // value.batch_size)
            yield (value.steps or (value.epochs or 1) * epoch) / ratio
        elif hasattr(type(value), "model_fields"):
            yield from _lengths(value, rows, ratio)
        elif name in ("epochs", "max_iterations"):
            yield value
        elif name in SEEDS:
            yield len(value)


def step_seconds(log: Path) -> float:
    """The seconds of a step, the quickest, which neither starts nor saves."""
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    times = [line["time"] for line in lines if line["split"] == "train"]
    return min((after - before for before, after in zip(times, times[1:], strict=False)), default=0)


def size_of(folder: Path) -> float:
    """The bytes below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def resources(costs: Sequence[Cost], config: Config) -> dict[str, dict[str, int]]:
    """What the jobs of each rule, benchmark or training should ask for: the configuration's key."""
    grouped: dict[str, list[Cost]] = defaultdict(list)
    entries: dict[str, Resources] = {}
    configured = config.values.resources
    for cost in costs:
        name = ASK_AS.get(cost.rule, cost.rule)
        if cost.rule in ("evaluate", "measure_data"):
            name = config.library.tasks[cost.name.split()[1]].benchmark
        if name in RULES or name in BENCHMARKS:
            grouped[name].append(cost)
            entries[name] = configured.get(name, configured.get(cost.rule, Resources()))
    requests: dict[str, dict[str, int]] = {}
    for rule, of_rule in sorted(grouped.items()):
        entry = entries[rule]
        values = {"threads": entry.threads, **_request(of_rule), "gpu": entry.gpu}
        if rule.startswith("pretrain_"):
            longest = max((c.seconds for c in of_rule if c.seconds == c.seconds), default=0)
            limits = longest * SPARE / 60 / LONGEST
            values["retries"] = max(entry.retries, math.ceil(limits) + 1)
            for cost in of_rule:
                if cost.seconds == cost.seconds and _request([cost]) != _request(of_rule):
                    requests[cost.name] = _request([cost])
        requests[rule] = values
    return requests


def _request(costs: Sequence[Cost]) -> dict[str, int]:
    """The memory and the minutes that the largest of these needs, half as much again."""
    minutes = max((c.seconds for c in costs if c.seconds == c.seconds), default=0) / 60
    memory = math.ceil(max(c.memory_mb for c in costs) * SPARE / 500) * 500
    runtime = min(max(10, math.ceil(minutes * SPARE)), LONGEST)
    return {"mem_mb": max(memory, 1000), "runtime": runtime}


def report(full: Config, rehearsal: Config, dry_run: str, files: Sequence[str]) -> str:
    """Write ``report.md``, ``costs.tsv`` and ``resources.yaml``; return what ``report.md`` says."""
    jobs = jobs_of(dry_run)
    run = Extrapolation(full, rehearsal, jobs)
    trainings, stages = list(run.trainings()), list(run.others())
    failed = [job for job in jobs if job.has_failed]
    waiting = [job for job in jobs if not job.is_done and not job.has_failed]
    rehearsal_sizes = rehearsal.values.rehearsal
    assert rehearsal_sizes is not None
    size = (
        f"batches of {rehearsal_sizes.batch} at most"
        if rehearsal_sizes.batch
        else "the papers' batches"
    )
    size += f" and images of {rehearsal_sizes.image} pixels" if rehearsal_sizes.image else ""
    lines = [
        f"# Rehearsal of {' + '.join(files)}",
        "",
        f"{len(jobs)} jobs on {rehearsal_sizes.samples} samples a part, trainings of "
        f"{rehearsal_sizes.steps} steps "
        f"with {size}. Nothing in this folder is a result.",
        "",
        f"## {len(failed)} jobs failed" + (f", {len(waiting)} wait for these" if waiting else ""),
        "",
    ]
    for job in failed:
        why = reason([job.log] if job.log else [])
        message = why.splitlines()[-1] if why else "it was not started, or left no log"
        lines.append(f"- {job.name}: {message} ({job.log})")
    hours = duration(sum(c.seconds * c.jobs for c in trainings if c.seconds == c.seconds))
    rest = duration(sum(c.seconds * c.jobs for c in stages))
    storage = sum(c.storage * c.jobs for c in [*trainings, *stages]) / 1e9
    largest = max([*trainings, *stages], key=lambda c: c.memory_mb, default=None)
    on_gpu = [cost.gpu_mb for cost in trainings if cost.gpu_mb is not None]
    lines += [
        "",
        "## The run",
        "",
        f"- {sum(c.jobs for c in trainings)} trainings: {hours} on this machine",
        f"- everything else: {rest}, one job after the other",
        f"- {storage:.1f} GB of results",
    ]
    if largest is not None:
        lines.append(f"- most memory: {largest.memory_mb:.0f} MB ({largest.name})")
    lines.append(f"- of the GPU: {max(on_gpu):.0f} MB" if on_gpu else "- no GPU was used")
    unknown = [cost.name for cost in trainings if cost.seconds != cost.seconds]
    if unknown:
        lines.append(f"- not known, as its kind failed: {', '.join(unknown)}")
    lines += ["", "| training | jobs | each | memory, MB | steps |", "|---|---|---|---|---|"]
    for cost in sorted(trainings, key=lambda c: -c.seconds if c.seconds == c.seconds else 0):
        each = duration(cost.seconds) if cost.seconds == cost.seconds else "?"
        row = (cost.name, cost.jobs, each, f"{cost.gpu_mb or cost.memory_mb:.0f}", cost.detail)
        lines.append(f"| {' | '.join(map(str, row))} |")
    rules: dict[str, list[Cost]] = defaultdict(list)
    for cost in stages:
        rules[cost.rule].append(cost)
    lines += ["", "| stage | jobs | together | middle job |", "|---|---|---|---|"]
    for rule, costs in sorted(rules.items(), key=lambda i: -sum(c.seconds * c.jobs for c in i[1])):
        together = duration(sum(c.seconds * c.jobs for c in costs))
        middle = duration(median(c.seconds for c in costs))
        lines.append(f"| {rule} | {sum(c.jobs for c in costs)} | {together} | {middle} |")
    asked_for = yaml.safe_dump({"resources": resources([*trainings, *stages], full)})
    text = "\n".join(lines) + "\n"
    folder = Path(rehearsal.values.results)
    table = [("rule", "name", "jobs", "seconds", "memory_mb", "gpu_mb", "storage_bytes")]
    for c in [*trainings, *stages]:
        gpu = "" if c.gpu_mb is None else f"{c.gpu_mb:.0f}"
        sizes = (f"{c.seconds:.0f}", f"{c.memory_mb:.0f}", gpu, f"{c.storage:.0f}")
        table.append((c.rule, c.name, str(c.jobs), *sizes))
    for name, content in (
        ("report.md", text),
        ("resources.yaml", asked_for),
        ("costs.tsv", "".join("\t".join(row) + "\n" for row in table)),
    ):
        with atomic_path(folder / name) as path:
            path.write_text(content, encoding="utf-8")
    return text
