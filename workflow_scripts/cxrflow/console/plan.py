"""The jobs of a run: what is done, what runs, and how long the rest takes by recorded times."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from cxrflow.config.cost import Job, durations, read_table, simulate

FIRST = 10**9  # priority of a job that runs already
STEADY = (
    60.0  # seconds that count as if they had been as recorded, so that the first jobs decide little
)
LATE = 0.1  # of its recorded time a job still takes that has lasted longer
TAIL = 4096  # bytes at the end of a log
PROGRESS = re.compile(r"step (\d+/\d+) .*?(\d+) s left")
WORK = re.compile(r"\d{4}-\d\d-\d\d [\d:]+ (?:INFO|WARNING) ")  # a line of one that works
KILLED = "it ended without a word, as one that the system kills (memory, time limit, a lost node)"


@dataclass
class Plan:
    """The jobs of a run by Snakemake's numbers, and the time of each.

    ``seconds`` are the recorded ones; empty where none are of this run's sizes. ``retries``: how
    often a job that failed is started again.
    """

    jobs: Mapping[int, Job]
    cores: int
    seconds: Mapping[Job, float]
    started: dict[int, float] = field(default_factory=dict)
    lasted: dict[int, float] = field(default_factory=dict)
    logs: dict[int, Path] = field(default_factory=dict)
    retries: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, jobs: Mapping[int, Job], cores: int, recorded: bool, retries: Mapping[int, int]
    ) -> "Plan":
        """Make a plan; ``recorded``: the run has the sizes whose times are on record."""
        seconds = durations(list(jobs.values()), read_table()) if recorded else {}
        return cls(jobs, cores, seconds, retries=retries)

    def expected(self, number: int) -> float | None:
        """The recorded seconds of a job, times how much slower than on record this machine is."""
        job = self.jobs.get(number)
        seconds = None if job is None else self.seconds.get(job)
        return None if seconds is None else seconds * self.slowness

    @property
    def slowness(self) -> float:
        """Seconds that a recorded second takes here, by the jobs that are done."""
        recorded = sum(self.seconds.get(self.jobs[n], 0.0) for n in self.lasted if n in self.jobs)
        lasted = sum(seconds for n, seconds in self.lasted.items() if n in self.jobs)
        return (lasted + STEADY) / (recorded + STEADY)

    def left(self, now: float) -> float | None:
        """Return the seconds until the last job ends; None where nothing is recorded."""
        ends = self.ends(now)
        return max(ends.values(), default=0.0) if self.seconds else None

    def ends(self, now: float) -> dict[Job, float]:
        """The seconds until each job ends that is not done; empty where nothing is recorded."""
        if not self.seconds:
            return {}
        slowness, lasting = self.slowness, {}
        for number, job in self.jobs.items():
            seconds = self.seconds[job] * slowness
            if number in self.started:
                _, rest = progress(self.logs.get(number))
                lasted = now - self.started[number]
                rest = max(seconds - lasted, LATE * seconds) if rest is None else rest
                lasting[replace(job, inputs=frozenset(), priority=FIRST)] = rest
            elif number not in self.lasted:
                lasting[job] = seconds
        return simulate(lasting, self.cores)


def progress(log: Path | None) -> tuple[str, float | None]:
    """Return how far a training says it is, and the seconds that it says are left."""
    steps = PROGRESS.findall(tail(log))
    return (f"step {steps[-1][0]}", float(steps[-1][1])) if steps else ("", None)


def reason(logs: Iterable[Path]) -> str:
    """Return why a job failed, by the first log that says anything.

    The line of a refusal, or of an interruption after which it did not go on, else the last lines.
    Where the log breaks off in the middle of the work, that it was killed.
    """
    lines = next(filter(None, (tail(log).rstrip() for log in logs)), "").splitlines()
    worked = max((n for n, line in enumerate(lines) if WORK.match(line)), default=-1)
    refusals = [line for line in lines if line.startswith("error: ")]
    refusals = refusals or [
        line for line in lines[worked + 1 :] if line.startswith("interrupted: ")
    ]
    if refusals:
        return refusals[-1].partition(": ")[2]
    return KILLED if lines and worked == len(lines) - 1 else "\n".join(lines[-12:])


def was_interrupted(logs: Iterable[Path]) -> bool:
    """Return whether a job was asked to stop, and has said that it has saved its state."""
    lines = next(filter(None, (tail(log).rstrip() for log in logs)), "").splitlines()
    return bool(lines) and lines[-1].startswith("interrupted: ")


def tail(log: Path | None) -> str:
    """Return the end of a log; nothing of one that is not there."""
    try:
        with open(log or "", "rb") as file:
            file.seek(max(0, file.seek(0, 2) - TAIL))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def duration(seconds: float) -> str:
    """A time in words: ``8 s``, ``3 min``, ``1 h 20 min``."""
    if seconds < 90:
        return f"{max(1.0, seconds):.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
