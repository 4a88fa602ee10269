"""The lines of a run: a job as it starts and as it ends, and once why it failed.

On a terminal the running jobs stand below these lines, with the time left. Snakemake's records are
told apart by ``event``. What is no job's is printed as it is, but for Snakemake's routine.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from logging import WARNING, LogRecord
from pathlib import Path
from typing import Any, TextIO

from cxrflow.console.growing_page import TABLE, GrowingPage
from cxrflow.console.plan import KILLED, Plan, duration, progress, reason, was_interrupted

# What Snakemake says in every run.
ROUTINE = (
    "Assuming unrestricted", "Building DAG", "Using shell", "Provided ", "Rules claiming",
    "Conda environments: ignored", "Singularity containers: ign", "Select jobs", "Execute ",
    "Removing output files of failed", "Trying to restart", "Shutting down", "Reasons:",
    "Some jobs were triggered", "Rules with ", "Config file", "This was a dry-run",
    "Workflow has started",
)  # fmt: skip
# How it ends a run in which a job failed: the reason has been printed.
END = ("Exiting because a job", "WorkflowError:\nAt least one job")
# The reasons it gives, what matters most first, and the same in short.
CAUSES = {
    "Forced execution": "asked for again",
    "Missing output files": "missing",
    "Incomplete output files": "incomplete",
    "Params have changed": "changed settings or code",
    "Set of input files has changed": "other inputs",
    "Code has changed": "changed command",
    "Updated input files": "newer inputs",
    "Input files updated by another job": "its inputs are made again",
}
BY_HAND = "; start the same command again"  # in what a program says that was asked to stop
AGAIN = "not tried again"  # so a program begins that refuses what it has refused before
# Snakemake's own words where a person has mistyped something, and ours.
MISTYPED = (
    (
        r"MissingRuleException:\nNo rule to produce (\S+) \(if you use.*",
        r"error: nothing makes '\1'; `cxrflow targets` lists what can be asked for",
    ),
    (  # what is asked for and cannot be made
        r"InputFunctionException in rule [^\n]*\nError:\s+(?!\w+Error:)(.*?)\nWildcards:.*",
        r"error: \1",
    ),
    (
        r"(?:Error: )?LockException:.*",
        "error: another run works in this folder, or one that was killed has left its lock: wait, "
        "or type `snakemake --unlock` and then the same command",
    ),
    (
        r"Traceback.*load_configfile.*FileNotFoundError: .*(No such file or directory: .*)",
        r"error: --configfile: \1",
    ),
    (
        r"(?:error: )?Config file is not valid JSON or YAML.*",
        "error: a file after --configfile is no YAML; `cxrflow config check --configfile ...` "
        "names the line",
    ),
)
# How a job of Slurm ended, as the plugin says it.
STATE = re.compile(r"SLURM status is: '(\w+)'")
# Lines of ours, not of the user's.
PLACE = re.compile(r"WorkflowError(?: in file [^\n]*)?:\n|\n  File \"[^\n]*")


class Console:
    """Prints the records of one run."""

    def __init__(
        self, stream: TextIO, dry: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.stream, self.dry, self.clock = stream, dry, clock
        self.plan = Plan({}, 1, {})
        self.total = 0
        self.names: dict[int, str] = {}  # of jobs, by Snakemake's number
        self.reasons: dict[int, str] = {}  # of jobs that failed
        self.attempts = Counter[int]()  # that failed
        self.last = ""  # message that is no job's
        self.page: GrowingPage | None = None
        self.live: Any = None  # the part of a terminal that is drawn again
        if stream.isatty() and not dry:
            from rich.console import Console as Terminal
            from rich.live import Live

            terminal = Terminal(file=stream, highlight=False, markup=False)
            self.live = Live(
                console=terminal, get_renderable=self.running, refresh_per_second=1, transient=True
            )

    def handle(self, record: LogRecord) -> None:
        """Print what a record says."""
        event, fields = str(getattr(record, "event", None) or ""), vars(record)
        if "plan" in fields:
            self.begin(fields["plan"])
        elif event == "run_info":
            self.count(fields["stats"])
        elif event == "job_info":
            self.start(fields)
        elif event == "job_finished":
            self.finish(fields["job_id"])
        elif event == "job_error":
            self.fail(fields)
        elif event in ("", "error"):
            self.message(record.getMessage().rstrip(), record.levelno)

    def count(self, stats: Mapping[str, int]) -> None:
        """Take the number of jobs; of a dry run print it by rule, below the jobs."""
        if self.dry and self.total:
            rules = [f"{rule} {count}" for rule, count in stats.items() if rule != "total"]
            self.line(f"{stats['total']} jobs would run: {', '.join(rules)}")
        self.total = stats["total"]

    def begin(self, plan: Plan) -> None:
        """Print how much there is to do."""
        self.plan = plan
        self.page = GrowingPage.of(list(plan.jobs.values()))
        self.line(f"{self.total} jobs, {plan.cores} at once{self.left()}")
        if self.live:
            self.live.start()

    def start(self, fields: Mapping[str, Any]) -> None:
        """Print which job starts; of a dry run also why. An attempt after a failure is no news."""
        number = int(fields["jobid"])
        self.names[number] = name = job_name(fields)
        if self.dry:
            self.line(f"{name}: {cause(fields['reason'])}")
            return
        self.plan.started[number] = self.clock()
        self.plan.logs[number] = Path((fields["log"] or [""])[0])
        if not self.live and number not in self.reasons:
            expected = self.plan.expected(number)
            about = "" if expected is None else f", about {duration(expected)}"
            self.line(f"{now()} start {name}{about}")

    def finish(self, number: int) -> None:
        """Print which job is done, in what time, how many of all are, and the time left."""
        started = self.plan.started.pop(number, self.clock())
        self.plan.lasted[number] = took = self.clock() - started
        self.reasons.pop(number, None)  # of an attempt before
        count = f"{len(self.plan.lasted)} of {self.total} done{self.left()}"
        self.line(f"{now()} done  {self.name(number)}, {duration(took)}; {count}")
        if self.page is not None and number in self.plan.jobs:
            text = self.page.ended(self.plan.jobs[number].rule, self.so_far())
            if text:
                self.line(text)

    def name(self, number: int) -> str:
        """The name of a job; by the plan where its start has not been said (`--quiet rules`)."""
        job = self.plan.jobs.get(number)
        planned = "a job" if job is None else f"{job.rule} {job.name}".rstrip()
        return self.names.get(number, planned)

    def so_far(self) -> str:
        """How much of the tables there is, and when the next one is expected."""
        tables = [number for number, job in self.plan.jobs.items() if job.rule == TABLE]
        made_count = sum(number in self.plan.lasted for number in tables)
        text = f"{now()}: {made_count} of {len(tables)} tables of this run are made"
        waited = [end for job, end in self.plan.ends(self.clock()).items() if job.rule == TABLE]
        if waited:
            text += f", the next one in about {duration(min(waited))}"
        return text + self.left()

    def fail(self, fields: Mapping[str, Any]) -> None:
        """Print why a job failed, once for all attempts that fail so."""
        number = int(fields["jobid"])
        self.plan.started.pop(number, None)
        logs = [str(log).partition(" ")[0] for log in fields["log"]]
        message = str(fields["rule_msg"] or "")
        why = reason(map(Path, logs)) or message or KILLED
        if why == KILLED and (state := STATE.search(message)):
            why = f"{KILLED}; Slurm says {state[1]}"
        self.attempts[number] += 1
        attempt, retries = self.attempts[number], self.plan.retries.get(number, 0)
        interrupted = was_interrupted(map(Path, logs))
        goes_on = interrupted or why.startswith(KILLED)
        is_last = goes_on and 0 < retries < attempt
        if why.startswith(AGAIN) or (why == self.reasons.get(number) and not is_last):
            return
        self.reasons[number] = why
        outcome = "FAILED"
        if goes_on and attempt <= retries:
            # What a person would do is done already; see `resources:` of config.yaml.
            outcome = "STOPPED" if interrupted else outcome
            why = why.partition(BY_HAND)[0]
            why += f"; it is started again by itself, attempt {attempt + 1} of {retries + 1}"
        name = self.names.get(number) or job_name(fields)
        self.line(f"{now()} {outcome} {name}: {why}\n  log: {', '.join(logs)}")

    def message(self, text: str, level: int) -> None:
        """Print what is no job's, unless it is routine or repeats why jobs failed."""
        if text.startswith(END) and self.reasons:
            if text.startswith(END[0]):
                names = ", ".join(map(self.name, self.reasons))
                self.line(f"not made: {names}; {len(self.plan.lasted)} of {self.total} done")
        elif "CalledProcessError" in text:
            pass  # the record of the job follows
        elif text == self.last:
            pass  # Snakemake says every second that it waits for the jobs that run
        elif text and (level >= WARNING or not text.startswith(ROUTINE)):
            self.last = text
            error = "error: " if text.startswith("WorkflowError") else ""
            text = error + PLACE.sub("", text)
            for theirs, ours in MISTYPED:
                text = re.sub(theirs, ours, text, flags=re.DOTALL)
            self.line(text)

    def running(self) -> str:
        """The jobs that run, how long they have, how far they are; how many are done."""
        lines = []
        for number, started in list(self.plan.started.items()):
            expected, (step, remaining_seconds) = (
                self.plan.expected(number),
                progress(self.plan.logs[number]),
            )
            rest = f"{duration(remaining_seconds)} left" if remaining_seconds is not None else ""
            about = f"of about {duration(expected)}" if expected is not None and not rest else ""
            time_of = " ".join(filter(None, (duration(self.clock() - started), about)))
            lines.append("  ".join(filter(None, (f"  {self.names[number]}", time_of, step, rest))))
        return "\n".join([*lines, f"{len(self.plan.lasted)} of {self.total} done{self.left()}"])

    def left(self) -> str:
        """The time left in words; empty at the end, and where no such times are on record."""
        seconds = self.plan.left(self.clock())
        return f", about {duration(seconds)} left" if seconds else ""

    def line(self, text: str) -> None:
        """Print a line, above what is drawn again."""
        if self.live and self.live.is_started:
            self.live.console.print(text)
        else:
            print(text, file=self.stream, flush=True)

    def close(self) -> None:
        """Clear what is drawn again."""
        if self.page is not None:
            self.page.close()
        if self.live:
            self.live.stop()


def job_name(fields: Mapping[str, Any]) -> str:
    """A rule, and what it makes: the values of its wildcards."""
    values = fields.get("wildcards") or {}
    return " ".join([fields["rule_name"], *map(str, dict(values).values())])


def cause(text: str) -> str:
    """Why Snakemake makes something, without the names of files and values of settings."""
    return next((words for phrase, words in CAUSES.items() if phrase in text), text)


def now() -> str:
    """The time of day."""
    return time.strftime("%H:%M:%S")
