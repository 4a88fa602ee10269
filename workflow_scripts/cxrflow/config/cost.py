"""Estimate how many minutes a run takes on so many cores, from recorded times of its jobs.

    cxrflow cost --cores 2 --target biovil

To be called in the folder of the Snakefile. A dry run of Snakemake says which jobs make a target
from nothing, in what order, with which priorities and threads. The seconds of each job are those of
the demonstration on two CPU cores, which the package keeps (``config/seconds.tsv``), at any scale.
A job without a record counts as its rule does on average, in its own paper if that has records; one
of a rule without any, as the average job: the answer names such rules. ``--record results/timings``
estimates nothing: it puts the times of a run of yours into that file, in place of those of the same
jobs.

At the scale ``paper`` (``--configfile paper.yaml``) it prints GPU-hours by paper and table instead,
with storage and memory: :mod:`cxrflow.config.gpu_hours`. The target is then all, or a paper.
"""

import csv
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean

from cxr_files.errors import InputError
from cxr_files.program import parser, run, whole
from cxr_files.settings import MOST_CORES
from cxr_files.yaml_file import read_yaml
from cxrflow.config.gpu_hours import FullScale, read_tsv
from cxrflow.config.loading import add_files, in_order, load_config, require_checkout, typed_values
from cxrflow.config.plan import require_models

TABLE = Path(__file__).with_name("seconds.tsv")
# A job of a dry run: its rule, then what is said of it, a line a key.
JOB = re.compile(r"^(?:local)?rule (\w+):\n((?:    \w.*\n)+)", re.MULTILINE)
TIMINGS = "timings/"
TABLE_RULE = "make_table"

Seconds = dict[tuple[str, str], float]


@dataclass(frozen=True)
class Job:
    """A job that a run makes."""

    rule: str
    name: str
    inputs: frozenset[str]
    outputs: frozenset[str]
    priority: int
    threads: int

    @classmethod
    def of(
        cls,
        rule: str,
        timing: str,
        inputs: Iterable[str],
        outputs: Iterable[str],
        priority: int,
        threads: int,
    ) -> "Job":
        """Make a job; ``timing`` is the file of its time, which names it."""
        name = timing.partition(TIMINGS)[2].removesuffix(".tsv").removeprefix(f"{rule}/")
        return cls(rule, name, frozenset(inputs), frozenset(outputs), priority, threads)


def read_table(table: Path = TABLE) -> Seconds:
    """The recorded seconds, by rule and name."""
    return {(row["rule"], row["name"]): float(row["seconds"]) for row in read_tsv(table)}


def timed_jobs(timings: Path) -> Iterator[tuple[str, str, list[float]]]:
    """The rule and the name of each job of a run, and its seconds (``<results>/timings``)."""
    for file in timings.rglob("*.tsv"):
        rule, *name = file.relative_to(timings).with_suffix("").parts
        yield rule, "/".join(name), [float(row["s"]) for row in read_tsv(file)]


def recorded(timings: Path, table: Path = TABLE) -> int:
    """Put the timings of a run (``<results>/timings``) into the table; return their number."""
    timed = {(rule, name): fmean(rows) for rule, name, rows in timed_jobs(timings) if rows}
    if not timed:
        raise InputError(f"{timings}: no timings (*.tsv); expected a run's <results>/timings")
    seconds = (read_table(table) if table.is_file() else {}) | timed
    with table.open("w", encoding="utf-8", newline="") as output:
        writer = csv.writer(output, delimiter="\t", lineterminator="\n")
        writer.writerow(("rule", "name", "seconds"))
        writer.writerows((*key, f"{seconds[key]:.1f}") for key in sorted(seconds))
    return len(timed)


def plan(target: str, cores: int, files: Sequence[str], typed: Sequence[str] = ()) -> list[Job]:
    """The jobs of a target in a folder without results."""
    return parse(dry_run([target], cores, files, typed))


def dry_run(
    targets: Sequence[str], cores: int, files: Sequence[str], typed: Sequence[str] = ()
) -> str:
    """What Snakemake says of the jobs of targets in a folder without results."""
    require_checkout(Path("Snakefile"))
    if find_spec("snakemake") is None:
        raise ModuleNotFoundError(name="snakemake")
    command = [sys.executable, "-m", "snakemake", "-n", "--forceall"]
    command += ["--rerun-incomplete", "--cores", str(cores)]
    command += targets
    command += ["--workflow-profile", "none"]  # Snakemake's own words, which are read here
    overlays = [file for file in files if Path(file) != Path("config.yaml")]
    if overlays:
        command += ["--configfile", *overlays]
    if typed:
        command += ["--config", *typed]
    process = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if process.returncode:
        raise InputError(f"{targets[0]}: {process.stdout.strip().splitlines()[-1]}")
    return process.stdout


def described_jobs(text: str) -> Iterator[tuple[str, dict[str, str], list[str], list[str]]]:
    """The rule of each job of a dry run, what is said of it by key, its inputs and outputs."""
    for rule, body in JOB.findall(text):
        lines = dict(line.strip().split(": ", 1) for line in body.splitlines() if ": " in line)
        files = [lines.get(key, "").split(", ") for key in ("input", "output")]
        yield rule, lines, *(list(filter(None, names)) for names in files)


def parse(text: str) -> list[Job]:
    """The jobs of a dry run."""
    jobs = []
    for rule, lines, inputs, outputs in described_jobs(text):
        priority, threads = int(lines.get("priority", 0)), int(lines.get("threads", 1))
        timing = lines.get("benchmark", "")
        jobs.append(Job.of(rule, timing, inputs, outputs, priority, threads))
    return jobs


def durations(jobs: Sequence[Job], seconds: Seconds) -> dict[Job, float]:
    """The expected seconds of each job; a target takes none."""
    kin: dict[tuple[str, ...], list[float]] = {}
    for (rule, name), value in seconds.items():
        for key in ((), (rule,), (rule, _paper(name))):
            kin.setdefault(key, []).append(value)
    means = {key: fmean(values) for key, values in kin.items()} or {(): 0.0}

    def expected(job: Job) -> float:
        if not job.name:
            return 0.0
        keys = ((job.rule, _paper(job.name)), (job.rule,), ())
        mean = next(means[key] for key in keys if key in means)
        return seconds.get((job.rule, job.name), mean)

    return {job: expected(job) for job in jobs}


def _paper(name: str) -> str:
    """The paper of a job, which its name begins with."""
    return name.partition("/")[0]


def simulate(lasting: Mapping[Job, float], cores: int) -> dict[Job, float]:
    """The seconds until each job ends, if ready jobs start in order of priority."""
    maker = {path: job for job in lasting for path in job.outputs}
    waits = {job: {maker[path] for path in job.inputs if path in maker} - {job} for job in lasting}
    waiting, running, free, now = list(lasting), list[tuple[float, int, Job]](), cores, 0.0
    place = {job: number for number, job in enumerate(lasting)}  # of what ends together
    waiting.sort(key=lambda job: -job.priority)
    ends: dict[Job, float] = {}
    while waiting or running:
        for job in [job for job in waiting if waits[job] <= ends.keys()]:
            if min(job.threads, cores) <= free:
                free -= min(job.threads, cores)
                waiting.remove(job)
                heappush(running, (now + lasting[job], place[job], job))
        if not running:
            raise InputError(f"{len(waiting)} jobs wait for each other")
        now, _, job = heappop(running)
        free += min(job.threads, cores)
        ends[job] = now
    return ends


def summary(target: str, cores: int, files: Sequence[str], typed: Sequence[str] = ()) -> str:
    """Describe the cost of a target: minutes, by rule, and how many jobs have no record."""
    jobs, seconds = plan(target, cores, files, typed), read_table()
    lasting = durations(jobs, seconds)
    ends = simulate(lasting, cores)
    shortest = max(simulate(lasting, sum(job.threads for job in jobs)).values())
    tables = [end for job, end in ends.items() if job.rule == TABLE_RULE]
    unknown = sum(bool(job.name) and (job.rule, job.name) not in seconds for job in jobs)
    lines = [
        f"{target}: {max(ends.values()) / 60:.1f} minutes on {cores} cores for {len(jobs)} jobs, "
        f"making the environment not counted; at least {shortest / 60:.1f} on any number of cores",
        f"{unknown} jobs have no record and count as their rule does on average, in their paper",
        "minutes of all jobs of a rule together:",
    ]
    layers = [*map(read_yaml, files), typed_values(typed)]
    if tables:
        lines.insert(1, f"the first of {len(tables)} tables after {min(tables) / 60:.1f} minutes")
    scales = [values["scale"] for values in layers if "scale" in values]
    if scales and scales[-1] != "demo":
        lines.insert(1, f"the times are of the demonstration's sizes, the scale is {scales[-1]}")
    guessed = {job.rule for job in jobs if job.name} - {rule for rule, _ in seconds}
    if guessed:
        lines.insert(1, f"nothing is known of {', '.join(sorted(guessed))}: they may take far more")
    rules = {rule: 0.0 for rule in sorted({job.rule for job in jobs})}
    for job, value in lasting.items():
        rules[job.rule] += value
    most = sorted(rules, key=lambda rule: -rules[rule])
    return "\n".join(
        lines + [f"{rules[rule] / 60:6.1f} {rule}" for rule in most if rules[rule] > 3]
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point; see the module's docstring."""
    arguments = parser(__doc__, settings=False)
    add_files(arguments)
    arguments.add_argument(
        "--cores",
        type=whole(1, MOST_CORES),
        default=2,
        metavar="N",
        help="CPU cores of the run (default: 2)",
    )
    arguments.add_argument(
        "--target",
        default="all",
        help="what is made, as Snakemake takes it: all (default), the name of a paper, or a file",
    )
    arguments.add_argument(
        "--record", type=Path, metavar="FOLDER", help="<results>/timings of a run: keep its times"
    )
    options = arguments.parse_args(argv)
    if options.record is not None:
        print(f"{TABLE}: {recorded(options.record)} jobs of {options.record}")
    else:
        config = load_config(in_order(options.configfile), False, options.config)
        papers = list(config.results) if options.target == "all" else [options.target]
        if config.values.scale == "paper" and config.results.keys() >= {*papers}:
            require_models(config, papers)
            extent = config.values.extent if options.target == "all" else "all"
            print(FullScale(config).summary(papers, extent))
            return
        files = list(map(str, options.configfile))
        print(summary(options.target, options.cores, files, options.config))


if __name__ == "__main__":
    run(main)
