"""The paper of the tests, whole: it runs, runs again to no effect, and reruns what it must."""

import json
import os
from collections import Counter
from pathlib import Path

import pytest
import yaml

from cxrflow.benchmarks.registry import BENCHMARKS

from .conftest import Checkout

pytestmark = pytest.mark.slow


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def test_every_stage_leaves_its_product(finished: Checkout) -> None:
    results = finished.folder / "results"
    assert (results / "report/toy/index.html").stat().st_size > 10_000
    paper = yaml.safe_load((finished.folder / "toy.yaml").read_text())
    for table in (*paper["tables"], "orderings"):
        for ending in ("csv", "md", "html"):
            assert (results / f"tables/toy/{table}.{ending}").stat().st_size > 0
    for name, figure in paper["figures"].items():
        picture = results / f"figures/toy/{name}.png"
        if figure["kind"] == "reports":
            assert read(picture.with_suffix(".json"))["rows"]
            continue
        if figure["kind"] == "picture":
            task = results / f"benchmarks/toy/{figure['task']}"
            picture = task / f"toy/{figure['model']}/seed0/figures/{figure['file']}"
        else:
            assert read(picture.with_suffix(".json"))["data"]["synthetic"] is True
        assert picture.stat().st_size > 1000
    found = [read(path) for path in (results / "benchmarks").rglob("metrics.json")]
    # Forty patients have not every class of a progression: tests/unit/test_benchmarks_temporal*.py.
    # They have no truth of findings either: tests/unit/test_mixed_pairs.py.
    run = {*BENCHMARKS, "label_agreement"}
    run -= {"temporal_classification", "temporal_prompting", "mixed_pairs"}
    assert {one["benchmark"] for one in found} == run
    assert all(one["data"]["synthetic"] and one["metrics"] for one in found)
    for reference in ("chexpert", "negbio"):
        labels = results / f"benchmarks/label_agreement/mimic_cxr/{reference}"
        assert read(labels / "metrics.json")["metrics"]["micro_f1/positive"]["value"] > 0.8
        assert (labels / "disagreements.parquet").is_file()
        page = results / "report/toy/index_files/data-and-trainings.html"
        assert f'id="labels-mimic_cxr-{reference}"' in page.read_text()


def test_no_training_leaves_state_behind(finished: Checkout) -> None:
    """What untrained starts score is kept for trainings of other seeds."""
    left = [path for path in (finished.folder / "results/state").rglob("*") if path.is_file()]
    assert left and {path.parent.name for path in left} == {"twins"}


def test_a_second_run_does_nothing(finished: Checkout) -> None:
    done = finished.snakemake("--cores", "2", "all")
    assert done.returncode == 0, done.stdout
    assert "Nothing to be done" in done.stdout


def test_what_changes_no_result_reruns_nothing(finished_copy: Checkout) -> None:
    """Files touched, settings that nobody uses, what a job asks for; more: test_reruns.py."""
    package = finished_copy.folder / "workflow_scripts/cxrflow"
    for source in package.rglob("*.py"):
        os.utime(source)
    settings = package / "pretrain/settings.py"
    settings.write_text(
        settings.read_text() + "\n\nclass OtherSettings(Settings):\n    x: int = 1\n"
    )
    seldom = {"training": {"log_steps": 7, "save_minutes": 99}}
    often = {"max_failed_share": 0.5}
    more = finished_copy.write(
        "tiny_more.yaml",
        {
            "resources": {"pretrain_joint": {"runtime": 99}},
            "models": {"toy/joint": seldom},
            "cohorts": {"toy/clean": often},
            **{"pixels": often, "corpora": often, "reports": often},
        },
    )
    assert more.planned().keys() <= {"record_config", "make_page"}


def test_a_changed_source_reruns_its_stage(finished_copy: Checkout) -> None:
    source = finished_copy.folder / "workflow_scripts/cxrflow/show/tables/make_table.py"
    source.write_text(source.read_text() + "\nCHANGED = True\n")
    tables = len(yaml.safe_load((finished_copy.folder / "toy.yaml").read_text())["tables"])
    assert finished_copy.planned() == {"make_table": tables, "make_page": 1}


def test_a_changed_setting_reruns_only_what_depends_on_it(finished_copy: Checkout) -> None:
    changed = finished_copy.write(
        "tiny_changed.yaml", {"models": {"toy/joint": {"training": {"batch_size": 12}}}}
    )
    jobs = changed.plan()
    trained = [job for job in jobs if job.rule.startswith("pretrain_")]
    assert [job.wildcards["model"] for job in trained] == ["toy/joint"]
    scored = Counter(job.wildcards["model"] for job in jobs if job.rule == "evaluate")
    assert scored == {"toy/joint": 11}
    assert {job.rule for job in jobs if job.output} == {
        "pretrain_joint", "extract_features", "evaluate", "compare_rows", "make_table",
        "check_orderings", "draw_curve", "draw_figure", "make_page", "record_config",
    }  # fmt: skip


def test_snakemakes_own_report(finished_copy: Checkout) -> None:
    done = finished_copy.snakemake("--report", "report.zip")
    assert done.returncode == 0, done.stdout
    assert (finished_copy.folder / "report.zip").stat().st_size > 100_000
