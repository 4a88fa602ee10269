"""The race of orchestration on a graph of three small jobs: it compares, times and relates."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from speed.race import run
from speed.races.orchestration import (
    Job,
    check,
    finished_jobs,
    planned_jobs,
    race,
    run_in,
    script,
)
from speed.races.planning import check as same_jobs
from speed.races.planning import plain

SNAKEFILE = """
configfile: "config.yaml"

rule all:
    input: "results/joined/all.txt",

rule join:
    input: ["results/one.txt", "results/two.txt"],
    output: "results/joined/all.txt",
    log: "results/logs/join.log",
    benchmark: "results/timings/join.tsv",
    shell: "cat {input:q} >{output:q} 2>{log:q}; sleep 1; date +%N >results/joined/run.json"

rule make:
    output: "results/{name}.txt",
    params: text=config["text"],
    shell:
        r'''
        printf '%s of {wildcards.name}\\n' \\
            {params.text:q} >{output:q}
        '''
"""
LISTED = """
Job stats:
job      count

[Sat Nov 21 09:32:05 2026]
rule second:
    input: first.txt, given.txt
    output: out/second.txt, out/third.txt
    log: logs/second.log
    jobid: 1
Shell command: cp first.txt out/second.txt
[Sat Nov 21 09:32:05 2026]
rule first:
    output: first.txt
Shell command:
        echo '[1, 2]' \\
            >first.txt

[Sat Nov 21 09:32:05 2026]
rule all:
    input: out/second.txt
Shell command: None
Job stats:
job      count
"""


def test_jobs_come_after_those_whose_files_they_need() -> None:
    first, second = planned_jobs(LISTED)
    assert first.command.split() == ["echo", "'[1,", "2]'", "\\", ">first.txt"]
    assert second.needs == ("first.txt", "given.txt")
    assert second.makes == ("out/second.txt", "out/third.txt", "logs/second.log")
    lines = script([first, second]).splitlines()
    assert lines[-2:] == ["mkdir -p out logs", "cp first.txt out/second.txt"]
    assert "set -e" in lines[0]


def test_the_plain_side_of_planning_has_the_same_jobs() -> None:
    jobs = planned_jobs(LISTED)
    rules, last = plain(jobs).split("\n\n"), ["out/second.txt", "out/third.txt", "logs/second.log"]
    assert rules[0] == f"rule all:\n    input: {last}"
    # What no job makes is no input: it would have to be there.
    assert "input: ['first.txt']" in rules[2] and "given.txt" not in plain(jobs)
    same_jobs(jobs, jobs)
    with pytest.raises(AssertionError, match=r"\['first.txt'\]"):
        same_jobs(jobs, [jobs[1], replace(jobs[1], needs=())])


def test_a_small_race(tmp_path: Path) -> None:
    pytest.importorskip("snakemake")
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    files = {"config.yaml": "text: overwritten", "over.yaml": "text: it's part"}
    found = race("small", tmp_path / "Snakefile", files, [100.0, 200.0], {"shell script": 0.9})
    result = run(found, rounds=1)
    assert result["what"].startswith("3 jobs") and result["rate"]["unit"] == "job/s"
    assert 0 < result["ratio"]["shell script"] < 0.9 and not result["reached"]["shell script"]
    # Of three jobs one is timed.
    taken = result["median_seconds"]
    took, script_took, outside, share = map(
        float,
        re.fullmatch(
            r"Snakemake took ([\d.]+) s, the script ([\d.]+) s for 3 jobs; outside its jobs "
            r"Snakemake took ([\d.]+) s, \d+ ms a job, its start included; the 2 jobs of "
            r"results/timings took 300 s one by one, of which as much a job is ([\d.]+)% .*",
            result["notes"][-1],
        ).groups(),
    )
    assert took == pytest.approx(taken["ours"], abs=0.2)
    assert script_took == pytest.approx(taken["shell script"], abs=0.2)
    assert 0 < outside < took - 0.9  # the timed job sleeps for a second
    assert share == pytest.approx(100 * outside / 3 * 2 / 300, abs=0.02)
    theirs = found.peers["shell script"]()
    assert (theirs / "joined/all.txt").read_text() == "it's part of one\nit's part of two\n"


def test_products_are_compared_by_name_and_unless_they_hold_what_passes_by_content(tmp_path):
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    for side in (mine, theirs):
        for name in ("models/run.json", "logs/make.log", "tables/one.csv", "tables/two.csv"):
            (side / name).parent.mkdir(parents=True, exist_ok=True)
            (side / name).write_text(f"{side.name if 'tables' not in name else name}\n")
        (side / f"models/events.out.tfevents.17.{side.name}").write_text(side.name)
    (mine / "timings").mkdir()
    (mine / "timings/make.tsv").write_text("s\th:m:s\n1.5\t0:00:01\n2.0\t0:00:02\n")
    assert finished_jobs(mine / "timings") == [1.5, 2.0]
    assert finished_jobs(theirs / "timings") == []
    check(mine, theirs)
    (theirs / "tables/two.csv").write_text("other\n")
    with pytest.raises(AssertionError, match=r"\['tables/two.csv'\]"):
        check(mine, theirs)
    (theirs / "models/run.json").unlink()
    with pytest.raises(AssertionError, match=r"\['models/run.json'\]"):
        check(mine, theirs)


def test_a_script_ends_at_the_first_job_that_fails(tmp_path: Path) -> None:
    (tmp_path / "jobs.sh").write_text(script([Job("echo no >&2; false", (), ("a/b",))] * 2))
    with pytest.raises(RuntimeError, match="bash: exit code 1: no\n$"):
        run_in(tmp_path, ["bash", "jobs.sh"])
