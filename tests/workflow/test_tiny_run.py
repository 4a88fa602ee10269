"""The whole graph at a tiny scale: it runs, runs again to no effect, and reruns what it must."""

import json
import os
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def test_every_stage_leaves_its_product(finished):
    results = finished.folder / "results"
    assert (results / "report/index.html").stat().st_size > 10_000
    for table in ("table1", "table3", "table5", "table6", "table_c1"):
        for ending in ("csv", "md", "html"):
            assert (results / f"tables/biovil/{table}.{ending}").stat().st_size > 0
    scores = json.loads(
        (results / "benchmarks/phrase_grounding/biovil/seed0/metrics.json").read_text()
    )
    assert scores["data"]["synthetic"] is True
    assert scores["metrics"]["cnr"]["n"] > 0
    assert (results / "benchmarks/phrase_grounding/biovil/seed0/grids.npy").stat().st_size > 0
    for figure in ("figure3", "figure_a1", "figure_a2"):
        drawn = json.loads((results / f"figures/biovil/{figure}.json").read_text())
        assert drawn["data"]["synthetic"] is True and drawn["examples"]
        assert (results / f"figures/biovil/{figure}.png").stat().st_size > 1000
    for reference in ("chexpert", "negbio"):
        labels = results / f"benchmarks/label_agreement/mimic_cxr/{reference}"
        scores = json.loads((labels / "metrics.json").read_text())
        assert scores["metrics"]["micro_f1/positive"]["value"] > 0.8
        assert (labels / "disagreements.parquet").is_file()
        assert f'id="labels-mimic_cxr-{reference}"' in (results / "report/index.html").read_text()


def test_no_training_leaves_state_behind(finished):
    left = [path for path in (finished.folder / "results/state").rglob("*") if path.is_file()]
    assert left == []


def test_a_second_run_does_nothing(finished):
    done = finished.snakemake("--cores", "2")
    assert done.returncode == 0, done.stdout
    assert "Nothing to be done" in done.stdout


def test_touched_sources_rerun_nothing(finished_copy):
    for source in (finished_copy.folder / "workflow_scripts").rglob("*.py"):
        os.utime(source)
    assert finished_copy.planned() == {}


def test_a_changed_source_reruns_its_stage(finished_copy):
    source: Path = finished_copy.folder / "workflow_scripts/cxrflow/tables/tables.py"
    source.write_text(source.read_text() + "\n# changed\n")
    planned = finished_copy.planned()
    assert planned.pop("make_table") >= 4
    assert planned == {"make_page": 1}


def test_a_changed_setting_reruns_only_what_depends_on_it(finished_copy):
    finished_copy.write(
        "tiny_changed.yaml", {"models": {"biovil": {"training": {"batch_size": 12}}}}
    )
    changed = type(finished_copy)(
        finished_copy.folder, (*finished_copy.overlays, "tiny_changed.yaml")
    )
    planned = changed.planned()
    assert planned.pop("pretrain_joint") == 1
    assert planned.pop("evaluate_phrase_grounding") == 1
    assert planned.pop("draw_figure") == 3
    assert planned.pop("extract_features") == 1
    assert planned.pop("evaluate_zero_shot_classification") == 1
    assert planned.pop("evaluate_linear_probe") == 1
    assert planned.pop("evaluate_segmentation") == 1
    assert planned.keys() <= {
        "evaluate_mask_prediction",
        "compare_rows",
        "evaluate_natural_language_inference",
        "evaluate_sentence_similarity",
        "make_table",
        "check_orderings",
        "make_page",
        "record_config",
    }


def test_changed_resources_rerun_no_stage(finished_copy):
    finished_copy.write("tiny_changed.yaml", {"resources": {"pretrain_joint": {"runtime": 99}}})
    changed = type(finished_copy)(
        finished_copy.folder, (*finished_copy.overlays, "tiny_changed.yaml")
    )
    assert changed.planned().keys() <= {"record_config", "make_page"}


def test_snakemakes_own_report(finished_copy):
    done = finished_copy.snakemake("--report", "report.zip")
    assert done.returncode == 0, done.stdout
    assert (finished_copy.folder / "report.zip").stat().st_size > 100_000
