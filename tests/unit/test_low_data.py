"""The low-data study (Windsor et al. 2023): its models, its tables, and the counts of its data."""

import json
import textwrap
from pathlib import Path

import pandas as pd
import pytest
from benchmark_fakes import write_cohort
from page_fixtures import load

from cxrflow.benchmarks.evaluate import main as evaluate
from cxrflow.config.held_out import overlap_notes
from cxrflow.errors import InputError
from cxrflow.files.atomic import write_json
from cxrflow.names import name_of_share

SHARES = (1, 5, 10, 20, 50, 100)
STARTS = {  # Figures 3 and 4 (a): text and image start
    "from_random": ("low_data/bert_base", None),
    "from_imagenet": ("low_data/bert_base", "convirt/imagenet_pretraining"),
    "from_simclr": ("low_data/bert_base", "low_data/simclr"),
    "from_clinical_bert": ("biovil/clinical_bert", "low_data/simclr"),
    "from_cxr_bert": ("biovil/cxr_bert_phase2", "low_data/simclr"),
    "infonce": ("low_data/cxr_bert", "low_data/simclr"),
    "clip": ("low_data/clip_pretraining", "low_data/clip_pretraining"),
    "local": ("low_data/cxr_bert", "low_data/simclr"),
    "both": ("low_data/cxr_bert", "low_data/simclr"),
}
ADAPTED = ("from_clinical_bert", "from_cxr_bert", "infonce", "local", "both")


@pytest.fixture(scope="module")
def study():
    return load(papers=["low_data"], scale="paper")


def test_every_kind_of_training_is_on_six_shares_of_the_same_pairs(study):
    """Figures 3 to 5: nothing but share, starts and loss differs; the starts see all pairs."""
    for kind, starts in STARTS.items():
        for share in SHARES:
            name = name_of_share(f"low_data/{kind}", share)
            recipe, settings = study.recipes[name], study.model(name).settings
            assert settings.training_share == share / 100, name
            assert (recipe.text, recipe.image, recipe.cohort) == (*starts, "low_data/pairs"), name
            training = settings.training
            assert (training.batch_size, training.validate_steps) == (20, 500)
            assert (training.validation_batches, training.stopping.patience) == (100, 10)
            assert training.optimiser.learning_rate == 1e-3
            assert (training.optimiser.name, training.optimiser.betas) == ("adam", (0.9, 0.99))
            assert training.schedule.decay == "constant" and training.schedule.warmup == 0
    for start in ("cxr_bert", "simclr"):
        assert study.model(f"low_data/{start}").settings.record().get("training_share") is None
        assert study.recipes[f"low_data/{start}"].cohort == "low_data/pairs"
    terms = {kind: study.model(f"low_data/{kind}").settings.terms.named() for kind in STARTS}
    assert [*terms["both"]] == ["global_alignment", "local_alignment"]
    assert [*terms["local"]] == ["local_alignment"] and [*terms["clip"]] == ["global_alignment"]
    assert terms["local"]["local_alignment"] == terms["both"]["local_alignment"]
    assert terms["infonce"]["global_alignment"].temperature == 0.5


def test_images_are_split_by_their_folder_and_shares_are_of_studies(study):
    cohort = study.known_cohorts["low_data/pairs"].recipe
    assert cohort.split_method == "folders" and cohort.share_unit == "study"
    assert cohort.splits.folders == {"p10": "test", "p11": "validate"}
    assert study.model("low_data/infonce").geometry == "square512"


def test_what_text_encoders_have_read_stands_below_the_tables(study):
    readers = {"biovil/clinical_bert": "from_clinical_bert",
               "biovil/cxr_bert_phase2": "from_cxr_bert, infonce, local, both"}  # fmt: skip
    said = "has read reports of patients that are scored here, never with their images."
    assert sorted(overlap_notes(study, "low_data", "retrieval")) == sorted(
        f"{reader}, from which {models} started, {said}" for reader, models in readers.items()
    )
    assert overlap_notes(study, "low_data", "table1") == []
    twin = study.ancestors("low_data/infonce_unseen")
    assert not any("biovil/" in name for name in twin)


def test_a_demonstration_has_three_of_the_shares():
    demo = load(papers=["low_data"])
    made = [s for s in SHARES if demo.trainable(name_of_share("low_data/both", s))]
    assert made == [1, 10, 100]
    assert not demo.trainable("low_data/biovil") and not demo.trainable("low_data/infonce_unseen")


def test_figure_5_and_table_4_are_all_there(study):
    """338 values of Table 4, 24 of Figure 5; what contradicts what is in a note."""
    tables = study.chosen["low_data"].tables
    zero, probe = tables["table4_zero_shot"], tables["table4_probe"]
    for table in (zero, probe):
        rows = [row for row in table.rows if not row.is_reference]
        assert len(rows) == 13 and all(len(row.published) == 13 for row in rows)
        assert [row.pairs for row in rows if row.model == "low_data/clip"] == [*SHARES]
    figure = tables["figure5"]
    assert [row.pairs for row in figure.rows] == [*SHARES]
    differ = [
        (row.pairs, key, row.published[key][0], cell[0])
        for row in figure.rows
        for key, table, label in (
            ("clip_zero", zero, "CLIP’s start"),
            ("ours_zero", zero, "Ours"),
            ("clip_probe", probe, "CLIP’s start"),
            ("ours_probe", probe, "Ours"),
        )
        if (cell := table.row(f"{label}, {row.pairs:g} %").published["mean"])[0]
        != row.published[key][0]
    ]
    assert differ == [
        (1, "ours_probe", "70.1", "68.9"),
        (10, "ours_zero", "66.4", "66.5"),
        (50, "ours_probe", "73.7", "73.6"),
    ]
    assert all(value in figure.notes[0] for _, _, *values in differ for value in values)


def measured(folder, benchmark, *options):
    output = folder / "out"
    evaluate([benchmark, "--output", str(output), *map(str, options)])
    found = json.loads((output / "metrics.json").read_text())
    return {name: one["value"] for name, one in found["metrics"].items()}


def test_pairs_and_patients_are_counted_by_part(tmp_path):
    rows = [("1", "a", "train"), ("1", "b", "train"), (None, "c", "train"), ("2", "d", "test")]
    table = pd.DataFrame(rows, columns=["subject_id", "study_id", "split"])
    cohort = write_cohort(tmp_path / "cohort", "pairs.parquet", table)
    settings = ("--settings", '{"split": null}')
    assert measured(tmp_path, "pair_statistics", "--cohort", cohort, *settings) == {
        "pairs/total": 4, "subjects/total": 3, "pairs/train": 3, "subjects/train": 2,
        "pairs/validate": 0, "subjects/validate": 0, "pairs/test": 1, "subjects/test": 1,
    }  # fmt: skip


def test_the_hours_of_a_training_are_those_it_has_noted(tmp_path):
    table = pd.DataFrame({"study_id": ["a"], "split": "test"})
    cohort = write_cohort(tmp_path / "cohort", "pairs.parquet", table)
    run = {
        "model": "p/m", "seconds": 7200.0, "samples_per_second": 12.5, "device": "cpu",
        "processes": 1, "steps": 9, "data": {"train_samples": 620},
    }  # fmt: skip
    (tmp_path / "model").mkdir()
    write_json(tmp_path / "model/run.json", run)
    options = ("--cohort", cohort, "--model", tmp_path / "model", "--settings", "{}")
    values = measured(tmp_path, "training_time", *options)
    assert values == {"hours": 2, "samples_per_second": 12.5, "samples": 620}
    write_json(tmp_path / "model/run.json", run | {"data": {}})  # of texts alone
    assert "samples" not in measured(tmp_path, "training_time", *options)
    write_json(tmp_path / "model/run.json", {"model": "p/m"})
    with pytest.raises(InputError, match=r"run.json: .*seconds"):
        measured(tmp_path, "training_time", *options)


def test_the_documented_table_of_shares_is_one(overlay, paper):
    page = (Path(__file__).parents[2] / "docs/configuration.md").read_text(encoding="utf-8")
    block = page.partition("by `pairs`, in per cent:\n\n")[2].partition("\n\nThe cohort says")[0]
    config = overlay({"papers": [paper(textwrap.dedent(block))]})
    mine = [f"mine/{name}" for name in ("mine_share1", "mine_share10", "mine")]
    theirs = [name.replace("mine/mine", "low_data/infonce") for name in mine]
    assert config.table_cells("mine", "pairs") == [
        ("low_data/retrieval", name) for name in (*mine, *theirs)
    ]
    assert config.model(mine[0]).settings.training_share == 0.01
