"""What can be known before anything runs: the graph, the lints, one-line errors."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_dry_run_of_the_demo(checkout):
    began = time.monotonic()
    planned = checkout.planned()
    assert time.monotonic() - began < 60  # 5 s on an idle machine; others may be busy
    for rule in ("draw_phantom", "build_pairs", "store_pixels", "pretrain_joint", "make_page"):
        assert planned[rule] >= 1
    assert planned["draw_phantom"] == 11
    assert planned["evaluate_ms_cxr_statistics"] == 1
    assert planned["compare_rows"] >= 6  # the tables with two rows of ours to compare
    assert planned["evaluate_label_agreement"] == 2
    assert planned["draw_figure"] == 3


def test_parsing_writes_nothing(checkout):
    before = sorted(path for path in checkout.folder.rglob("*") if "__pycache__" not in str(path))
    checkout.planned()
    after = sorted(
        path
        for path in checkout.folder.rglob("*")
        if "__pycache__" not in str(path) and ".snakemake" not in str(path)
    )
    assert after == before


def test_dry_run_of_real_data(checkout, tmp_path):
    for name in ("open_i", "covid_chestxray"):
        (tmp_path / "data" / name).mkdir(parents=True)
    done = type(checkout)(checkout.folder, ("real.yaml",)).snakemake(
        "-n", "--cores", "2", CXR_REAL_DATA=str(tmp_path / "data")
    )
    assert done.returncode == 0, done.stdout
    assert "results/real/report/index.html" in done.stdout
    assert "draw_phantom" not in done.stdout
    assert "evaluate_phrase_grounding" not in done.stdout
    assert "results/real/benchmarks/label_agreement/open_i/terms/metrics.json" in done.stdout


def test_labels_are_compared_without_any_model(checkout):
    planned = checkout.planned("labels")
    assert planned.pop("evaluate_label_agreement") == 2
    assert planned.keys() == {
        "draw_phantom", "train_sentence_splitter", "process_reports", "labels",
    }  # fmt: skip


def test_labels_of_ones_own_are_an_input(checkout):
    (checkout.folder / "mine.csv").write_text("study_id,Edema\n")
    mine = {"dataset": "mimic_cxr", "reference": "mine", "file": "mine.csv"}
    name = checkout.write("own.yaml", {"benchmarks": {"label_agreement": {"comparisons": [mine]}}})
    done = type(checkout)(checkout.folder, (name,)).snakemake("-n", "--cores", "2", "labels")
    assert done.returncode == 0, done.stdout
    assert "label_agreement/mimic_cxr/mine/metrics.json" in done.stdout
    assert "mine.csv" in done.stdout and "phantom/mimic_cxr_jpg" not in done.stdout


@pytest.mark.parametrize("target", ["biovil", "controls", "demo"])
def test_targets_exist(checkout, target):
    assert checkout.planned(target)["pretrain_joint"] >= 1


def test_three_seeds_train_the_joint_models_three_times(checkout):
    name = checkout.write("seeds.yaml", {"seeds": [0, 1, 2]})
    one, three = checkout.planned(), type(checkout)(checkout.folder, (name,)).planned()
    assert three["pretrain_joint"] == 3 * one["pretrain_joint"]
    assert three["pretrain_text"] == one["pretrain_text"]


def test_a_misspelt_key_is_one_line(checkout):
    name = checkout.write("overlay.yaml", {"pixels": {"geometri": "shorter128"}})
    done = type(checkout)(checkout.folder, (name,)).snakemake("-n", "--cores", "2")
    assert done.returncode != 0
    assert "overlay.yaml: unknown key 'pixels.geometri'" in done.stdout
    assert "Traceback" not in done.stdout


def test_the_overlay_is_named_where_it_replaces_a_value(checkout):
    name = checkout.write("overlay.yaml", {"seeds": "one"})
    done = type(checkout)(checkout.folder, (name,)).snakemake("-n", "--cores", "2")
    assert "overlay.yaml: key 'seeds' is 'one'" in done.stdout


def test_a_missing_root_is_one_line(checkout):
    done = type(checkout)(checkout.folder, ("real.yaml",)).snakemake(
        "-n", "--cores", "2", CXR_REAL_DATA="/nowhere"
    )
    assert done.returncode != 0
    assert "real.yaml: key 'datasets.open_i.root' is '/nowhere/open_i'" in done.stdout
    assert "Traceback" not in done.stdout


def test_the_slurm_profile_is_found_and_needs_no_cores(checkout):
    done = checkout.snakemake("-n", "--profile", "slurm")
    assert done.returncode == 0, done.stdout


def test_lint(checkout):
    done = checkout.snakemake("--lint")
    assert done.returncode == 0, done.stdout


def test_format():
    done = subprocess.run(
        [sys.executable, "-m", "snakefmt", "--check", "Snakefile", "rules"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
