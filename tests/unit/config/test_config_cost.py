"""What a run costs: recorded seconds, the order of jobs on some cores, the budgets."""

import pytest
from config_overlays import ROOT

from cxr_files.errors import InputError
from cxrflow.config.cost import Job, durations, main, parse, plan, read_table, recorded, simulate

SAID = """
[Sun Nov 22 07:30:16 2026]
rule draw:
    output: results/a, results/b
    log: results/logs/draw/x.log
    benchmark: results/timings/draw/x.tsv
    reason: Missing output files: results/a
    priority: 100
    threads: 2
    resources: tmpdir=/tmp, runtime=30

localrule all:
    input: results/a, results/c
    jobid: 0
"""


def last_of(lasting, cores):
    return max(simulate(lasting, cores).values())


def job(name, needs="", priority=0, threads=1):
    """A job that makes a file of its name from files of other names."""
    return Job("rule", name, frozenset(needs), frozenset(name), priority, threads)


def test_the_jobs_of_a_dry_run():
    draw, target = parse(SAID)
    assert draw == Job("draw", "x", frozenset(), frozenset({"results/a", "results/b"}), 100, 2)
    assert (target.rule, target.name, target.threads) == ("all", "", 1)
    assert target.inputs == {"results/a", "results/c"}


def test_jobs_wait_for_what_they_read_and_for_cores():
    a, b, c, d = job("a"), job("b", "a"), job("c"), job("d", threads=2)
    lasting = {a: 3.0, b: 4.0, c: 5.0}
    assert last_of(lasting, 1) == 12
    assert last_of(lasting, 2) == last_of(lasting, 9) == 7
    assert last_of(lasting | {d: 1.0}, 2) == 8  # both cores: when the others are done
    assert last_of({d: 1.0}, 1) == 1  # no more than there are
    with pytest.raises(InputError, match="2 jobs wait for each other"):
        simulate({job("a", "b"): 1, job("b", "a"): 1}, 1)


@pytest.mark.parametrize(("urgent", "minutes"), [("c", 6), ("a", 9)])
def test_urgent_jobs_come_first(urgent, minutes):
    """The long chain c, d first, or last."""
    jobs = {"a": (3, ""), "b": (3, ""), "c": (3, ""), "d": (3, "c")}
    lasting = {
        job(name, needs, priority=10 * (name == urgent) + (name == "b" and urgent == "a")): seconds
        for name, (seconds, needs) in jobs.items()
    }
    assert last_of(lasting, 2) == minutes


def test_a_job_without_a_record_is_as_long_as_its_rule():
    target = Job("all", "", frozenset("a"), frozenset(), 0, 1)
    new = Job("new", "x", frozenset(), frozenset(), 0, 1)
    lasting = durations([job("a"), job("z"), new, target], {("rule", "a"): 1, ("rule", "b"): 3})
    assert list(lasting.values()) == [1, 2, 2, 0]


def test_a_job_without_a_record_is_as_long_as_its_rule_in_its_paper():
    seconds = {("rule", "biovil/a"): 9, ("rule", "convirt/b"): 1, ("rule", "convirt/c"): 3}
    names = ("convirt/new", "biovil_t/new")
    lasting = durations([Job("rule", n, frozenset(), frozenset(), 0, 1) for n in names], seconds)
    assert list(lasting.values()) == [2, 13 / 3]


def test_the_timings_of_a_run_are_taken_up(tmp_path, capsys, monkeypatch):
    timings, table = tmp_path / "timings", tmp_path / "seconds.tsv"
    table.write_text("rule\tname\tseconds\nkept\tx\t1.0\nevaluate\tt/m.seed0\t1.0\n")
    for name, seconds in (("evaluate/t/m.seed0", "2.5"), ("store/a.b", "3.25")):
        file = timings / f"{name}.tsv"
        file.parent.mkdir(parents=True)
        file.write_text(f"s\th:m:s\tcpu_time\n{seconds}\t0:00:02\tNA\n")
    assert recorded(timings, table) == 2
    assert read_table(table) == {
        ("evaluate", "t/m.seed0"): 2.5, ("kept", "x"): 1.0, ("store", "a.b"): 3.2,
    }  # fmt: skip
    with pytest.raises(InputError, match="nothing: no timings"):
        recorded(tmp_path / "nothing", table)


def test_one_paper_of_the_demonstration_has_its_budget(monkeypatch, tmp_path):
    """16 minutes, with the environment; the encoder that learns the labels alone takes one of them.

    More: tests/workflow/test_dry_run.py.
    """
    monkeypatch.chdir(ROOT)
    overlay = tmp_path / "papers.yaml"
    overlay.write_text("papers: [biovil]")
    jobs, seconds = plan("all", 2, ["config.yaml", str(overlay)]), read_table()
    assert sum((one.rule, one.name) in seconds for one in jobs) > len(jobs) / 2
    assert last_of(durations(jobs, seconds), 2) / 60 <= 16 - 1.7


def test_cost_says_minutes_and_refuses_what_is_no_target(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    with pytest.raises(InputError, match="nothing: .*nothing"):
        main(["--target", "nothing"])
    monkeypatch.setattr("cxrflow.config.cost.plan", lambda *_: parse(SAID))
    main(["--cores", "1"])
    said = capsys.readouterr().out
    assert " minutes on 1 cores for 2 jobs" in said and "1 jobs have no record" in said
    assert "nothing is known of draw:" in said
