"""What a run prints: jobs by name, the time left, a failure's reason once."""

import io
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from command_options import run_to_end
from cxrflow.config.cost import Job
from cxrflow.console.console import Console, cause
from cxrflow.console.plan import KILLED, Plan, duration, progress, reason

COMMAND = "python -m cxrflow.pretrain.text --settings '{\"seed\": 0}'"


def record(message: str = "", level: int = logging.INFO, **fields: Any) -> logging.LogRecord:
    made = logging.LogRecord("snakemake", level, "", 0, message, None, None)
    vars(made).update(fields)
    return made


def info(number: int, rule: str, log: Path, **wildcards: str) -> logging.LogRecord:
    fields = {"jobid": number, "rule_name": rule, "wildcards": wildcards, "log": [str(log)]}
    return record(event="job_info", reason=f"Missing output files: {COMMAND}", **fields)


def job(rule: str, name: str, inputs: str = "", threads: int = 1) -> Job:
    return Job.of(rule, f"r/timings/{rule}/{name}.tsv", inputs.split(), [f"{name}.out"], 0, threads)


def failed(console: Console, number: int, rule: str, *logs: Path, said: str = "") -> None:
    """Snakemake's record of a job that failed."""
    fields = {"jobid": number, "rule_name": rule, "rule_msg": said, "log": [*map(str, logs)]}
    console.handle(record("Error", logging.ERROR, event="job_error", **fields))


class Clock:
    """A clock that stands still until it is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def console(clock: Clock) -> Console:
    return Console(io.StringIO(), clock=clock)


def said(console: Console) -> str:
    """What it has printed, without the times of day."""
    lines = console.stream.getvalue().splitlines()  # type: ignore[attr-defined]
    return "\n".join(line[9:] if line[2:3] == ":" else line for line in lines)


@pytest.fixture
def plan() -> Plan:
    """Two trainings of 100 and 200 seconds beside each other, and then a score of 60."""
    jobs = {1: job("train", "a"), 2: job("train", "b"), 3: job("score", "c", "a.out b.out")}
    seconds = {jobs[1]: 100.0, jobs[2]: 200.0, jobs[3]: 60.0}
    return Plan(jobs, 2, seconds)


def test_a_job_is_two_lines_with_how_many_are_done_and_the_time_left(console, clock, plan):
    console.handle(record(event="run_info", stats={"total": 3, "train": 2, "score": 1}))
    console.handle(record(plan=plan))
    console.handle(info(1, "train", Path("none"), model="p/a", seed="0"))
    clock.now = 100
    console.handle(record(event="job_finished", job_id=1))
    assert said(console).splitlines() == [
        "3 jobs, 2 at once, about 4 min left",
        "start train p/a 0, about 2 min",
        "done  train p/a 0, 2 min; 1 of 3 done, about 4 min left",
    ]


def test_a_job_whose_start_is_not_said_has_its_name_from_the_plan(console, plan):
    """As with `--quiet rules`, which keeps Snakemake's record of a start to itself."""
    console.handle(record(event="run_info", stats={"total": 3}))
    console.handle(record(plan=plan))
    console.handle(record(event="job_finished", job_id=1))
    console.handle(record(event="job_finished", job_id=9))
    assert "done  train a, 1 s; 1 of 3 done" in said(console)
    assert "done  a job, 1 s; 2 of 3 done" in said(console)


def test_time_left_follows_the_graph_the_machine_and_the_log_of_a_training(plan, tmp_path):
    assert plan.left(0) == 260  # the longer training, then the score
    plan.started = {1: 0.0, 2: 0.0}
    assert plan.left(50) == 210
    plan.lasted[1] = 360.0  # for 100 on record; a minute counts as recorded
    del plan.started[1]
    assert plan.slowness == (360 + 60) / (100 + 60)
    assert plan.left(360) == pytest.approx((200 + 60) * plan.slowness - 360)
    plan.logs[2] = tmp_path / "b.log"
    plan.logs[2].write_text("INFO step 5/90 loss 2 44 samples/s, 90 s left\n" * 9 + "step 6/90")
    assert progress(plan.logs[2]) == ("step 5/90", 90.0)
    assert plan.left(360) == pytest.approx(90 + 60 * plan.slowness)
    plan.started[2] = -(10.0**6)  # what lasts longer than expected is expected to end soon
    plan.logs = {}
    assert plan.left(360) == pytest.approx((0.1 * 200 + 60) * plan.slowness)


@pytest.mark.parametrize("slower", [0.5, 2.0])
def test_time_left_comes_to_fit_a_machine_of_another_speed(console, clock, slower, tmp_path):
    """Replayed: twenty jobs of 30 seconds on record one after another, all of another speed."""
    jobs = {n: job("train", str(n)) for n in range(20)}
    console.handle(record(event="run_info", stats={"total": 20}))
    console.handle(record(plan=Plan(jobs, 1, dict.fromkeys(jobs.values(), 30.0))))
    off = []
    for number in jobs:
        console.handle(info(number, "train", tmp_path / "none.log", name=str(number)))
        clock.now += 30 * slower
        console.handle(record(event="job_finished", job_id=number))
        left, remaining = console.plan.left(clock.now), 30 * slower * (19 - number)
        assert said(console).endswith(f", about {duration(left)} left" if left else "20 of 20 done")
        off.append(abs(left / remaining - 1) if remaining else left)
    assert off == sorted(off, reverse=True) and off[0] > 0.3 > off[4] > 0.1 > off[18] > off[19] == 0


def test_of_other_sizes_no_time_is_known():
    plan = Plan.of({1: job("train", "a")}, 2, recorded=False, retries={})
    assert plan.left(0) is None and plan.expected(1) is None
    assert (
        Plan.of({1: job("train", "a")}, 2, recorded=True, retries={}).left(0) > 0
    )  # as its rule or any


def fail(console: Console, log: Path, why: str) -> None:
    log.write_text(f"2026-01-01 INFO reads\nerror: {why}\n", encoding="utf-8")
    console.handle(info(7, "build", log, cohort="p/c"))
    command = f"CalledProcessError in file x.smk, line 3:\nCommand '{COMMAND}' returned 2"
    console.handle(record(command, logging.ERROR, event="error", exception="CalledProcessError"))
    failed(console, 7, "build", log)
    console.handle(record("Trying to restart job 7."))


def test_why_a_job_failed_is_said_first_and_once(console, tmp_path):
    log = tmp_path / "c.log"
    console.handle(record(event="run_info", stats={"total": 3}))
    for why in ("x.csv: no column 'id'", "not tried again, since …: x.csv: no column 'id'"):
        fail(console, log, why)
    console.handle(record("Exiting because a job execution failed. Look above", logging.ERROR))
    console.handle(record("WorkflowError:\nAt least one job did not", logging.ERROR, event="error"))
    assert said(console).splitlines() == [
        "start build p/c",
        "FAILED build p/c: x.csv: no column 'id'",
        f"  log: {log}",
        "not made: build p/c; 0 of 3 done",
    ]
    fail(console, log, "another reason")
    assert "FAILED build p/c: another reason" in said(console)


def test_a_defect_shows_the_end_of_its_log_and_a_missing_log_is_no_failure(tmp_path):
    log = tmp_path / "x.log"
    log.write_text("\n".join(map(str, range(9999))) + "\nValueError: seven\n")
    lines = reason([log, tmp_path / "none"]).splitlines()
    assert lines[-1] == "ValueError: seven" and len(lines) == 12
    assert reason([tmp_path / "none"]) == ""


def test_a_killed_job_is_told_from_a_defect_and_said_once(console, tmp_path):
    log = tmp_path / "c.log"
    for step in (100, 200):  # the attempt after it breaks off elsewhere
        line = f"2026-01-01 10:00:{step // 10} INFO mimic_cxr: {step} of 2000, 2.3 cases a second\n"
        first = "2026-01-01 10:00:00 WARNING 3 studies without a report\n"
        log.write_text(first + line if step > 100 else "")  # at first before it said anything
        failed(console, 7, "build", log)
    assert said(console) == f"FAILED build: {KILLED}\n  log: {log}"


def test_a_job_that_goes_on_by_itself_is_stopped_and_not_failed(console, tmp_path):
    """`scancel`, a time limit: its state is saved, and while there are retries it is submitted."""
    log = tmp_path / "c.log"
    console.handle(record(event="run_info", stats={"total": 2}))
    console.handle(record(plan=Plan({}, 1, {}, retries={7: 2})))
    state = "SLURM-job '34' failed, SLURM status is: 'CANCELLED by 0'. "
    by_hand = "saved in results/state; start the same command again to go on"
    for step in (5, 9, 11):
        log.write_text(f"interrupted: state of step {step} of 300 {by_hand}\n")
        failed(console, 7, "pretrain_joint", log, said=state)
    first, _, second, _, third, _ = said(console).splitlines()[1:]
    again = "saved in results/state; it is started again by itself, attempt"
    assert first == f"STOPPED pretrain_joint: state of step 5 of 300 {again} 2 of 3"
    assert second == f"STOPPED pretrain_joint: state of step 9 of 300 {again} 3 of 3"
    assert third == f"FAILED pretrain_joint: state of step 11 of 300 {by_hand}"
    # So is one that is killed without a word; when no attempt is left that is said again.
    console.plan.retries = {8: 1}
    log.write_text("2026-01-01 10:00:00 INFO at work\n")
    for _ in range(2):
        failed(console, 8, "build", log)
    first, _, second, _ = said(console).splitlines()[7:]
    assert first == f"FAILED build: {KILLED}; it is started again by itself, attempt 2 of 2"
    assert second == f"FAILED build: {KILLED}"


def test_a_job_that_was_made_after_all_is_not_listed_as_not_made(console, tmp_path):
    log = tmp_path / "c.log"
    log.write_text("interrupted: state of step 5 saved\n")
    console.handle(record(plan=Plan({}, 1, {}, retries={7: 1})))
    for number in (7, 8):
        failed(console, number, f"rule{number}", log)
    console.handle(record(event="job_finished", job_id=7))
    console.handle(record("Exiting because a job execution failed. Look above", logging.ERROR))
    assert "not made: a job; 1 of 0 done" in said(console)


def test_a_job_lost_with_its_node_is_not_taken_for_one_that_was_asked_to_stop(console, tmp_path):
    """Its log breaks off after an earlier stop; Slurm's follows, and so does what Slurm says."""
    log, of_slurm = tmp_path / "c.log", tmp_path / "34.log"
    work = "2026-01-01 10:00:00 INFO resuming at step 2 of 300\n"
    log.write_text(f"interrupted: state of step 2 saved\n{work}")
    of_slurm.write_text("Select jobs to execute...\n")
    state = (
        "SLURM-job '34' failed due to a node failure, SLURM status is: 'NODE_FAIL'. Failed nodes"
    )
    failed(console, 7, "build", log, of_slurm, said=state)
    assert said(console).startswith(f"FAILED build: {KILLED}; Slurm says NODE_FAIL\n")
    log.write_text(f"{work}interrupted: state of step 9 saved\n")
    assert reason([log, of_slurm]) == "state of step 9 saved"


def test_bash_prints_no_command_of_a_killed_program():
    rules = (Path(__file__).parents[3] / "rules/common.smk").read_text("utf-8")
    (trap,) = re.findall(r'"(trap : .*; )"', rules)
    for signal in (9, 11):
        program = f"python3 -c 'import os; os.kill(os.getpid(), {signal})' --settings long"
        done = run_to_end(["bash", "-c", f"{trap}set -e; {program} >/dev/null 2>&1"])
        assert done.returncode == 128 + signal
        assert len(done.stderr.split()) < 3 and "settings" not in done.stderr


def test_an_error_of_the_configuration_stands_without_our_files(console):
    text = 'WorkflowError in file "/w/rules/common.smk", line 57:\nconfig.yaml: unknown key "a"\n'
    text += '  File "/w/rules/common.smk", line 57, in <module>'
    console.handle(record(text, logging.ERROR, event="error", exception="WorkflowError"))
    console.handle(record("Building DAG of jobs..."))
    console.handle(record("Nothing to be done"))
    assert said(console) == 'error: config.yaml: unknown key "a"\nNothing to be done'


def test_what_a_person_mistyped_is_one_line(console):
    for text in (
        "MissingRuleException:\nNo rule to produce biovll (if you use input functions make sure).",
        "Traceback (most recent call last):\n\n    load_configfile(f)\n    ^^^\n\n"
        "FileNotFoundError: [Errno 2] No such file or directory: 'x.yaml'",
        "WorkflowError:\nConfig file is not valid JSON or YAML. In case of YAML, make sure to.",
        'InputFunctionException in rule p in file "/w/rules/t.smk", line 16:\nError:\n'
        "      no model of p is made\nWildcards:\n\nTraceback:",
        "LockException:\nError: Directory cannot be locked. Please make sure that",
        "Will exit after finishing currently running jobs (scheduler).",
        "Will exit after finishing currently running jobs (scheduler).",
    ):
        console.handle(record(text, logging.ERROR, event="error"))
    missing, absent, no_yaml, refused, locked, waits = said(console).splitlines()
    assert missing == "error: nothing makes 'biovll'; `cxrflow targets` lists what can be asked for"
    assert absent == "error: --configfile: No such file or directory: 'x.yaml'"
    assert no_yaml.startswith("error: a file after --configfile is no YAML; `cxrflow config check")
    assert locked.startswith("error: another run works") and "snakemake --unlock" in locked
    assert refused == "error: no model of p is made" and waits.startswith("Will exit")


def test_a_dry_run_gives_reasons_without_settings_and_counts_once():
    console = Console(io.StringIO(), dry=True)
    stats = record(event="run_info", stats={"train": 1, "total": 1})
    for one in (stats, info(1, "train", Path("none"), model="p/a"), stats):
        console.handle(one)
    assert said(console) == "train p/a: missing\n1 jobs would run: train 1"
    params = "Updated input files: a; Params have changed since last execution: {'a': 1} now: {}"
    assert cause(params) == "changed settings or code"


def test_a_terminal_shows_what_runs(clock, plan, tmp_path):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    console = Console(Terminal(), clock=clock)
    console.handle(record(event="run_info", stats={"total": 3}))
    console.handle(record(plan=plan))
    log = tmp_path / "a.log"
    console.handle(info(1, "train", log, model="p/a"))
    console.handle(info(2, "train", tmp_path / "none", model="p/b"))
    clock.now = 30
    log.write_text("INFO step 30/100 loss 2 44 samples/s, 70 s left\n")
    assert console.running().splitlines() == [
        "  train p/a  30 s  step 30/100  70 s left",
        "  train p/b  30 s of about 3 min",
        "0 of 3 done, about 4 min left",
    ]
    console.handle(record(event="job_finished", job_id=1))
    console.close()
    assert "done  train p/a, 30 s; 1 of 3 done" in console.stream.getvalue()


@pytest.mark.parametrize(("seconds", "words"), [(8, "8 s"), (200, "3 min"), (9000, "2 h 30 min")])
def test_durations(seconds, words):
    assert duration(seconds) == words


def test_snakemake_finds_the_logger():
    from snakemake_interface_logger_plugins.registry import LoggerPluginRegistry

    handler = LoggerPluginRegistry().get_plugin("cxrflow").log_handler

    class Output:
        stdout, dryrun = False, True

    made = handler(Output(), None)
    assert made.writes_to_stream and not made.writes_to_file
    made.emit(record("Building DAG of jobs..."))
    made.close()
