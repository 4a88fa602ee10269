"""Orchestration: the workflow's jobs by Snakemake and by a plain shell script, one after the other.

The script is what somebody without a workflow engine would write: the shell commands of the same
configuration, as ``snakemake --dry-run --printshellcmds`` lists them, each after those whose files
it needs, under ``set -e``. Both sides start in folders without any product, with one core, and
must make the same products. What they differ by in time is what Snakemake costs: its start, its
graph, its bookkeeping.

The project's gate is an overhead of at most 5 % for the demonstration. Snakemake's time hardly
depends on how long a job takes, its share does; so the race is run over the graph of the
workflow's tests (the demo's jobs on tiny data), and a note says what share of the last demo that
is. On a busy machine two turns differ by more than Snakemake costs; so the note takes what lies
within one turn: its seconds without those of its jobs, as Snakemake itself times them. This, a
job, times the jobs in ``results/timings``, by the sum of their durations, is the share. The gate
itself is only put to jobs of the demo's own length. One turn compares, so that each side runs once
more than there are rounds:

    python -m speed orchestration                      # 4 turns of some minutes
    BENCH_GRAPH=demo python -m speed orchestration     # 4 turns of some 20 minutes
"""

import csv
import hashlib
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from pathlib import Path
from tempfile import TemporaryDirectory

from speed.race import Race

ROOT = Path(__file__).parents[2]
OVERHEAD = 0.05  # the largest share of the plain script's time that Snakemake may add to the demo
# Products that hold times, process numbers or folders: they must be there on both sides, no more.
# Of a shard's record that is the age of the images; a splitter keeps where it was first written.
PASSING = ("run.json", "metrics.jsonl", "index.html", "*.log", "*.tfevents", "shard-*.json", "*.pt")
# Snakemake's own; the script has no need of them.
BOOKKEEPING = "timings"


@dataclass(frozen=True)
class Job:
    """A shell command, the files it needs and makes, its log among the latter."""

    command: str
    needs: tuple[str, ...]
    makes: tuple[str, ...]


@dataclass
class Side:
    """One way to run the graph: a folder of its own, what is run there, seconds of each turn.

    ``outside`` is the part of these seconds in which no job ran that Snakemake timed. ``holder``
    keeps the folder on disk for as long as the side is there.
    """

    holder: TemporaryDirectory[str]
    folder: Path
    command: Sequence[str]
    seconds: list[float] = field(default_factory=list)
    outside: list[float] = field(default_factory=list)

    def turn(self) -> Path:
        """Run everything from nothing; the folder of the products."""
        for name in ("results", ".snakemake"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        start = time.perf_counter()
        run_in(self.folder, self.command)
        self.seconds.append(time.perf_counter() - start)
        results = self.folder / "results"
        self.outside.append(self.seconds[-1] - sum(finished_jobs(results / BOOKKEEPING)))
        return results


# What Snakemake says by itself, which is read here, and not what our console says.
OWN_WORDS = ("--workflow-profile", "none")


def run_in(folder: Path, command: Sequence[str]) -> str:
    """Run a command with one thread and this Python's programs; what it printed.

    Raises :class:`RuntimeError` with its last words where it fails.
    """
    paths = {
        "PATH": [str(Path(sys.executable).parent), os.environ["PATH"]],
        "PYTHONPATH": [str(ROOT / "workflow_scripts"), os.environ.get("PYTHONPATH", "")],
    }
    environment = {name: os.pathsep.join(filter(None, found)) for name, found in paths.items()}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]}: exit code {done.returncode}: {done.stdout[-2000:]}")
    return done.stdout


def planned_jobs(dry_run: str) -> list[Job]:
    """The jobs that a dry run with printed commands lists, each after those whose files it needs.

    A target rule without a command is no job.

    Raises:
        ValueError: it lists none.
    """
    jobs = []
    listing = dry_run.rpartition("\nJob stats:")[0]  # printed again after the last job
    for block in re.split(r"^\[\w+ \w+ +\d+ [\d:]+ \d+\]$", listing, flags=re.MULTILINE)[1:]:
        facts, _, command = block.partition("Shell command:")
        if command.strip() not in ("", "None"):
            listed = dict(re.findall(r"^    (\w+): (.+)$", facts, re.MULTILINE))
            needs, outputs, log = (listed.get(key, "") for key in ("input", "output", "log"))
            makes = (*outputs.split(", "), *filter(None, [log]))
            jobs.append(Job(command.strip(), tuple(needs.split(", ")), makes))
    if not jobs:
        raise ValueError(f"no jobs in what Snakemake says: {dry_run[-300:]!r}")
    maker = {file: job for job in jobs for file in job.makes}
    needed = {job: {maker[file] for file in job.needs if file in maker} for job in jobs}
    return list(TopologicalSorter(needed).static_order())


def script(jobs: Sequence[Job]) -> str:
    """A Bash script of these jobs that stops at the first failure."""
    lines = ["set -euo pipefail"]
    for job in jobs:
        folders = dict.fromkeys(str(Path(file).parent) for file in job.makes)
        lines += [shlex.join(["mkdir", "-p", *folders]), job.command]
    return "\n".join(lines) + "\n"


def products(results: Path) -> Iterator[tuple[str, str]]:
    """Every product by its path in ``results``, with its SHA-256 unless it holds what passes."""
    for path in sorted(results.rglob("*")):
        name = path.relative_to(results)
        if path.is_file() and name.parts[0] != BOOKKEEPING:
            # The names of TensorBoard's files go on with the time and the process.
            name = name.with_name(re.sub(r"(\.tfevents)\..*", r"\1", name.name))
            passing = any(name.match(pattern) for pattern in PASSING)
            yield str(name), "" if passing else hashlib.sha256(path.read_bytes()).hexdigest()


def check(mine: Path, theirs: Path) -> None:
    """The same files, and equal bytes in all that are not :data:`PASSING`."""
    ours, other = dict(products(mine)), dict(products(theirs))
    assert ours.keys() == other.keys(), sorted(ours.keys() ^ other.keys())[:5]
    differing = [name for name in ours if ours[name] != other[name]]
    assert not differing, differing[:5]


def finished_jobs(timings: Path) -> list[float]:
    """Seconds of every job that Snakemake timed in this folder."""
    found = []
    for path in sorted(timings.rglob("*.tsv")):
        with open(path, encoding="utf-8", newline="") as rows:
            found += [float(row["s"]) for row in csv.DictReader(rows, delimiter="\t")]
    return found


def in_words(ours: Side, plain: Side, jobs: int, demo: Sequence[float]) -> str:
    """What Snakemake took more, and what of its turns were no job's; the latter as the demo's."""
    # The first turn of each side is the comparison's: it also compiles the modules.
    took, script_took, outside = (
        statistics.median(taken[1:] or taken)
        for taken in (ours.seconds, plain.seconds, ours.outside)
    )
    said = (
        f"Snakemake took {took:.1f} s, the script {script_took:.1f} s for {jobs} jobs; outside "
        f"its jobs Snakemake took {outside:.2f} s, {1000 * outside / jobs:.0f} ms a job, its "
        "start included"
    )
    if not demo:
        return f"{said}; no finished demo in results/timings to relate this to"
    share = outside / jobs * len(demo) / sum(demo)
    return (
        f"{said}; the {len(demo)} jobs of results/timings took {sum(demo):.0f} s one by one, of "
        f"which as much a job is {share:.2%} (for the demo at most {OVERHEAD:.0%})"
    )


def race(
    name: str,
    snakefile: Path,
    configuration: Mapping[str, str],
    demo: Sequence[float],
    gates: Mapping[str, float],
    papers: Mapping[str, str] | None = None,
) -> Race:
    """Snakemake against the script, on files of ``configuration`` by name, overlays last.

    ``papers`` are files that the configuration names. ``demo`` holds the seconds of a finished
    demo's jobs. Both folders live as long as the race.
    """
    root = TemporaryDirectory(prefix="cxrflow-race-")
    engine = [sys.executable, "-m", "snakemake", "--snakefile", str(snakefile), "--cores", "1"]
    sides = []
    for side, command in (
        ("snakemake", [*engine, "--configfile", *configuration]),
        ("shell", ["bash", "jobs.sh"]),
    ):
        folder = Path(root.name) / side
        folder.mkdir()
        for file, text in {**configuration, **(papers or {})}.items():
            (folder / file).write_text(text, encoding="utf-8")
        sides.append(Side(root, folder, command))
    ours, plain = sides
    listed = run_in(ours.folder, [*ours.command, "--dry-run", "--printshellcmds", *OWN_WORDS])
    jobs = planned_jobs(listed)
    (plain.folder / "jobs.sh").write_text(script(jobs), encoding="utf-8")
    notes = [
        "compared: which files there are, and every byte of those without times, process numbers "
        "and folders: data, weights, tables, scores",
        "Snakemake's side also measures every job's time and memory (benchmark:)",
        "no turn yet",
    ]

    def shell() -> Path:
        found = plain.turn()
        if ours.seconds:
            notes[-1] = in_words(ours, plain, len(jobs), demo)
        return found

    return Race(
        name=name,
        what=f"{len(jobs)} jobs from nothing to the report page on one core",
        ours=ours.turn,
        peers={"shell script": shell},
        check=check,
        gates=gates,
        amount=len(jobs),
        unit="job",
        notes=notes,
        most_rounds=1,
    )


def races() -> list[Race]:
    """The tests' tiny graph, or with ``BENCH_GRAPH=demo`` the demo's own."""
    graph = os.environ.get("BENCH_GRAPH", "tiny")
    if graph not in ("tiny", "demo"):
        raise SystemExit(f"BENCH_GRAPH is {graph!r}, expected tiny or demo")
    files = {"config.yaml": (ROOT / "config.yaml").read_text("utf-8")}
    papers = {}
    if graph == "tiny":
        tests = ROOT / "tests/workflow"
        files["tiny.yaml"] = (tests / "tiny.yaml").read_text("utf-8")
        papers["toy.yaml"] = (tests / "toy.yaml").read_text("utf-8")
    demo = finished_jobs(ROOT / "results/timings")
    gates = {"shell script": 1 / (1 + OVERHEAD)} if graph == "demo" else {}
    return [race(f"orchestration_{graph}", ROOT / "Snakefile", files, demo, gates, papers)]
