"""GPU-hours at the papers' own scale: updates, the measured step of each, what is not known."""

import re
import subprocess

import pytest
from config_overlays import DEMO, ROOT

from cxr_files.errors import InputError
from cxrflow.config import cost, load_config
from cxrflow.config.gpu_hours import FullScale, read_rows, updates

ALL = ["biovil", "biovil_t", "convirt", "low_data", "medcutmix"]


@pytest.fixture(scope="module")
def whole():
    typed = [f"papers={ALL}", "scale=paper", "seeds=null", "extent=all"]
    return FullScale(load_config([DEMO], typed=typed))


def test_updates_are_the_recipes_or_those_of_the_published_rows(whole):
    models = whole.models
    assert updates(models["biovil/cxr_bert_phase2"]) == 250_000
    assert updates(models["biovil/biovil"]) == 50 * (146_700 // 240)
    assert updates(models["biovil/biovil_more"]) == 50 * (176_000 // 240)
    assert updates(models["biovil_t/biovil_t_clean"]) is None


def test_a_model_counts_as_the_measured_one_that_it_differs_least_from(whole):
    alike = {
        "convirt/batch_128": "convirt/convirt",
        "biovil/baseline_phase2": "biovil/biovil",
        "low_data/ours_share10": "low_data/ours",
        "low_data/from_random": "low_data/infonce",
        "medcutmix/medcutmix_layer5": "medcutmix/medcutmix_50",
    }
    steps = read_rows("gpu_steps.tsv")
    assert {name: whole.alike(name, steps) for name in alike} == alike
    assert whole.step("biovil/report_labels") is None  # no model of its program was measured
    one, larger = (whole.hours_of(f"convirt/{name}")[0] for name in ("convirt", "batch_128"))
    assert larger == pytest.approx(4 * one)


def test_what_patience_may_end_takes_the_authors_hours_at_most(whole):
    """The most is 500,000 steps at 0.121 and 0.279 seconds, whatever the share."""
    hours = {
        name: whole.hours_of(f"low_data/{name}") for name in ("infonce", "ours", "ours_share5")
    }
    assert [most for most, _ in hours.values()] == pytest.approx([16.8, 38.75, 38.75], abs=0.01)
    assert [expected for _, expected in hours.values()] == [9, 36, 9]  # of 10 %, the next larger
    assert len(set(whole.hours_of("biovil/biovil"))) == 1


def test_seeds_count_and_what_is_shared_counts_once(whole):
    model, text = "biovil/biovil", "biovil/cxr_bert"
    (most, _), (shared, _) = whole.hours_of(model), whole.hours_of(text)
    together = whole.total([model, text, "biovil/report_labels", "convirt/random"])
    assert together.trainings == 4 + 1 + 4 and together.unknown == ["biovil/report_labels"]
    assert together.most == pytest.approx(4 * most + shared)
    both = whole.models_of([("one", model), ("other", "biovil_t/biovil_t"), ("data", None)])
    assert len(both) == len(set(both)) and {model, text, "biovil_t/biovil_t"} <= {*both}


def test_the_measured_steps_are_those_of_the_recipes_and_of_the_documentation(whole):
    """Each row's batch is its recipe's; its seconds and memory stand in docs/performance.md."""
    page = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
    row_of_step = r"^\|[^|]*\| ([\d,]+)[^|]*\| ([\d.]+) \|[^|]*\| (\d+) \|"
    lines = re.findall(row_of_step, page, re.MULTILINE)
    shown = {(int(batch.replace(",", "")), float(s), int(gb)) for batch, s, gb in lines}
    for name, (row,) in read_rows("gpu_steps.tsv").items():
        batch = whole.models[name].settings.training.batch_size
        assert (batch, float(row["seconds"]), int(row["memory_gb"])) in shown, name
        assert int(row["batch"]) == batch
    library = whole.config.library
    assert read_rows("cohort_rows.tsv").keys() <= library.cohorts.keys()
    assert read_rows("training_hours.tsv").keys() <= library.models.keys()


def test_the_command_needs_no_dry_run_at_the_papers_scale(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(subprocess, "run", None)
    of_run = ["--config", "scale=paper", "papers=[biovil, convirt]", "seeds=null", "extent=all"]
    cost.main(of_run)
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("everything") and int(lines[2][40:50]) > 60
    names = {line[:40].partition(" (")[0].rstrip() for line in lines}
    assert {"biovil", "convirt", "  table5"} <= names
    cost.main([*of_run, "--target", "convirt"])
    shown = capsys.readouterr().out
    assert "biovil/report_labels" not in shown and "convirt/convirt_supervised" in shown
    assert "main claim" in shown and "53 GB of a GPU's memory" in shown


def test_what_is_left_out_is_not_counted_and_said(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("CXR_DATA", str(tmp_path))
    for name in ("mimic-cxr/2.0.0", "mimic-cxr-jpg/2.1.0", "pubmed/baseline"):
        (tmp_path / name).mkdir(parents=True)
    asked = ["--configfile", "paper.yaml", "--config", "papers=[biovil, medcutmix]"]
    with pytest.raises(InputError, match="none of the 18 models of medcutmix that learn can be"):
        cost.main(asked)
    cost.main([*asked, "leave_out=[medcutmix]"])
    said = capsys.readouterr().out
    assert (
        re.search(r"^biovil \(\d+ of 415 published cells\) ", said, re.M) and "medcut" not in said
    )
