"""A checkout of its own for tests that run the workflow, so that they may change and delete."""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from command_options import run_to_end
from cxrflow.config.cost import JOB

from .forked_python import forked_python

ROOT = Path(__file__).parents[2]
CLUSTER = ROOT / "tests/slurm_cluster.sh"
NO_SLURM = 77  # its exit code where Slurm cannot be had
PARTS = ("Snakefile", "rules", "envs", "slurm", "workflow_scripts")
CONFIGS = tuple(path.name for path in ROOT.glob("*.yaml"))


@dataclass(frozen=True)
class Job:
    """A job that a run would make."""

    rule: str
    input: list[str]
    output: list[str]
    wildcards: dict[str, str]
    priority: int


@dataclass(frozen=True)
class Checkout:
    """A copy of the workflow, and the overlays its runs use."""

    folder: Path
    overlays: tuple[str, ...] = ()
    python: ClassVar = sys.executable  # of dry runs

    def command(self, *arguments: str) -> list[str]:
        """The command line of snakemake; its arguments come before the overlays."""
        overlays = ["--configfile", *self.overlays] if self.overlays else []
        return [sys.executable, "-m", "snakemake", *arguments, *overlays]

    def environment(self, **more: str) -> dict[str, str]:
        """The programs of the running Python come first in PATH."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return os.environ | {"PATH": path, "OMP_NUM_THREADS": "1"} | more

    def snakemake(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run snakemake here."""
        command = self.command(*arguments)
        if "-n" in arguments:
            command[0] = self.python
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment(**environment),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )

    def dry_run(self, *arguments: str, **environment: str) -> str:
        """What Snakemake says of the jobs that a run would make now."""
        done = self.snakemake("-n", "--cores", "2", *arguments, **environment)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def plan(self, *arguments: str, **environment: str) -> list[Job]:
        """The jobs that a run would make now."""
        return jobs_of(self.dry_run(*arguments, **environment))

    def planned(self, *arguments: str, **environment: str) -> Counter[str]:
        """How many jobs of each rule a run would make now, targets left out."""
        return Counter(job.rule for job in self.plan(*arguments, **environment) if job.output)

    def refusal(self, **environment: str) -> str:
        """What a dry run says that must fail without a traceback."""
        done = self.snakemake("-n", "--cores", "2", **environment)
        assert done.returncode != 0 and "Traceback" not in done.stdout, done.stdout
        return done.stdout

    def write(self, name: str, values: dict[str, Any]) -> "Checkout":
        """This checkout with one more overlay."""
        (self.folder / name).write_text(yaml.safe_dump(values), encoding="utf-8")
        return Checkout(self.folder, (*self.overlays, name))

    def with_overlay(self, name: str) -> "Checkout":
        """This checkout with one more of its files laid over the others."""
        return Checkout(self.folder, (*self.overlays, name))


def jobs_of(dry_run: str) -> list[Job]:
    """The jobs that a dry run says."""
    return [_job(rule, said) for rule, said in JOB.findall(dry_run)]


def _job(rule: str, said: str) -> Job:
    lines = dict(line.strip().split(": ", 1) for line in said.splitlines() if ": " in line)

    def listed(key: str) -> list[str]:
        return lines[key].split(", ") if key in lines else []

    return Job(
        rule,
        listed("input"),
        listed("output"),
        dict(pair.split("=", 1) for pair in listed("wildcards")),
        int(lines.get("priority", 0)),
    )


def models_of(jobs: list[Job]) -> set[str]:
    """The models that a plan trains, seeds left out."""
    return {job.wildcards["model"] for job in jobs if job.rule.startswith("pretrain_")}


def copy_of(source: Path, folder: Path) -> Path:
    """Copy the workflow and its configurations."""
    skip = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in PARTS:
        copy = shutil.copytree if (source / name).is_dir() else shutil.copy2
        copy(source / name, folder / name, **({"ignore": skip} if copy is shutil.copytree else {}))
    for name in CONFIGS:
        shutil.copy2(source / name, folder / name)
    return folder


def copy_finished(source: Path, folder: Path) -> Path:
    """Copy a finished checkout with its overlays and results, times included.

    No hard links: a shell opens a log in place. With 11 MB in 700 files, copies cost 0.2 s.
    """
    return Path(shutil.copytree(source, folder, dirs_exist_ok=True))


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A fresh checkout."""
    return Checkout(copy_of(ROOT, tmp_path))


@pytest.fixture(scope="session", autouse=True)
def quick() -> Iterator[dict[str, str]]:
    """An environment in which the programs of a run need not import the libraries first.

    A run without it: test_hospital_run.py. Dry runs have it, whatever their environment.
    """
    with forked_python() as folder:
        Checkout.python = str(folder / "python")
        yield {"PATH": f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"}


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, quick: dict[str, str]) -> Checkout:
    """A checkout in which the paper of the tests has been run whole; not to be changed.

    Processes of tests share it: who comes first makes it, others wait.
    """
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    folder = base / "finished"
    made = Checkout(folder, ("tiny.yaml",))
    with (base / "finished.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (base / "finished.whole").exists():
            return made
        shutil.rmtree(folder, ignore_errors=True)  # of one that failed
        folder.mkdir()
        copy_of(ROOT, folder)
        for name in ("tiny.yaml", "toy.yaml"):
            shutil.copy2(Path(__file__).with_name(name), folder / name)
        done = made.snakemake("--cores", "2", "--show-failed-logs", "all", **quick)
        assert done.returncode == 0, done.stdout[-6000:]
        (base / "finished.whole").touch()
    return made


@pytest.fixture
def finished_copy(finished: Checkout, tmp_path: Path) -> Checkout:
    """A copy of the finished checkout that a test may change."""
    return Checkout(copy_finished(finished.folder, tmp_path), finished.overlays)


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A running cluster: the folder with its sbatch, squeue and scancel."""
    failed = request.session.testsfailed
    folder = tempfile.mkdtemp(prefix="slurm")  # short: its path goes into sockets
    done = run_to_end([str(CLUSTER), "start", folder])
    if done.returncode == NO_SLURM:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    try:
        yield Path(done.stdout.strip())
    finally:
        if request.session.testsfailed > failed:  # shown with the failure
            print(*Path(folder, "slurmctld.log").read_text().splitlines()[-200:], sep="\n")
        subprocess.run([str(CLUSTER), "stop", folder], check=False)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def copied(finished: Checkout) -> Iterator[Checkout]:
    """A copy of the finished checkout, on a short path."""
    folder = Path(tempfile.mkdtemp(prefix="cxrflow"))
    yield Checkout(copy_finished(finished.folder, folder), finished.overlays)
    shutil.rmtree(folder, ignore_errors=True)
