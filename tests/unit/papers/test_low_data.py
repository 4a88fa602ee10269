"""The low-data study (Windsor et al. 2023): its models, its tables, and the counts of its data."""

import json
import re
import textwrap
from pathlib import Path

import pandas as pd
import pytest
from benchmark_fakes import write_cohort
from config_overlays import table_of
from page_fixtures import load

from cxr_files.atomic import write_json
from cxr_files.errors import InputError
from cxrflow.benchmarks.evaluate import main as evaluate
from cxrflow.config.held_out import overlap_notes
from cxrflow.data.readers.mimic_cxr_jpg import CLASSES, read_labels
from cxrflow.names import name_of_share

SHARES = (1, 5, 10, 20, 50, 100)
READERS = ("biovil/clinical_bert", "biovil/cxr_bert_phase2", "low_data/cxr_bert")
STARTS = {  # Figures 3 and 4 (a): text and image start
    "from_random": ("low_data/bert_base", None),
    "from_imagenet": ("low_data/bert_base", "convirt/imagenet_pretraining"),
    "from_simclr": ("low_data/bert_base", "low_data/simclr"),
    "from_clinical_bert": ("biovil/clinical_bert", "low_data/simclr"),
    "from_cxr_bert": ("biovil/cxr_bert_phase2", "low_data/simclr"),
    "infonce": ("low_data/cxr_bert", "low_data/simclr"),
    "clip": ("low_data/clip_released", "low_data/clip_released"),
    "local": ("low_data/cxr_bert", "low_data/simclr"),
    "both": ("low_data/cxr_bert", "low_data/simclr"),
    # Figures 4 (b) and 7
    "declip": ("low_data/cxr_bert", "low_data/simclr"),
    "ours": ("low_data/cxr_bert", "low_data/simclr"),
    "self_supervision_alone": ("low_data/cxr_bert", "low_data/simclr"),
    "multi_view_alone": ("low_data/cxr_bert", "low_data/simclr"),
    "neighbours_alone": ("low_data/cxr_bert", "low_data/simclr"),
}


@pytest.fixture(scope="module")
def study():
    return load(papers=["low_data"], scale="paper")


def test_every_kind_of_training_is_on_six_shares_of_the_same_pairs(study):
    """Eighty-four of them: nothing but share, starts and loss differs; the starts see all pairs."""
    assert len(STARTS) * len(SHARES) == 84
    for kind, starts in STARTS.items():
        for share in SHARES:
            name = name_of_share(f"low_data/{kind}", share)
            recipe, settings = study.models[name].recipe, study.models[name].settings
            assert settings.training_share == share / 100, name
            assert (recipe.text, recipe.image, recipe.cohort) == (*starts, "low_data/pairs"), name
            training = settings.training
            assert (training.batch_size, training.validate_steps) == (20, 500)
            assert (training.validation_batches, training.stopping.patience) == (100, 10)
            assert training.optimiser.learning_rate == 1e-3
            assert (training.optimiser.name, training.optimiser.betas) == ("adam", (0.9, 0.99))
            assert training.schedule.decay == "constant" and training.schedule.warmup == 0
    for start in ("cxr_bert", "simclr"):
        assert study.models[f"low_data/{start}"].settings.record().get("training_share") is None
        assert study.models[f"low_data/{start}"].recipe.cohort == "low_data/pairs"
    terms = {kind: study.models[f"low_data/{kind}"].settings.terms.named() for kind in STARTS}
    assert [*terms["both"]] == ["global_alignment", "local_alignment"]
    assert [*terms["local"]] == ["local_alignment"] and [*terms["clip"]] == ["global_alignment"]
    assert terms["local"]["local_alignment"] == terms["both"]["local_alignment"]
    assert terms["infonce"]["global_alignment"].temperature == 0.5


#: Eq. 5: weights of the original loss, of L_TSS and L_ISS, of L_MVS and of L_NN.
PARTS = {
    "infonce": (1, 0, 0, 0),
    "both": (1, 0, 0, 0),
    "declip": (0.4, 0.1, 0.2, 0.2),
    "ours": (0.4, 0.1, 0.2, 0.2),
    "self_supervision_alone": (0.5, 0.25, 0, 0),
    "multi_view_alone": (0.5, 0, 0.5, 0),
    "neighbours_alone": (0.5, 0, 0, 0.5),
}
LOSS = 0.5  # of a term: the paper's losses are means of both directions


@pytest.mark.parametrize("kind", PARTS)
def test_the_losses_are_weighted_by_equation_5(study, kind):
    terms = study.models[f"low_data/{kind}"].settings.terms
    original, self_supervised, multi_view, neighbours = PARTS[kind]
    local = kind not in ("infonce", "declip")
    losses = {"global_alignment": True, "local_alignment": local}
    for name, is_there in losses.items():
        term = getattr(terms, name)
        assert (term is not None) == is_there
        assert term is None or term.weight == pytest.approx(original * LOSS)
    weights = {
        "simclr": self_supervised, "mlm": self_supervised,
        "multi_view": multi_view, "neighbours": neighbours,
    }  # fmt: skip
    found = {name: getattr(terms, name) for name in weights}
    assert {name: term.weight for name, term in found.items() if term is not None} == {
        name: weight for name, weight in weights.items() if weight
    }
    for name, base in (("multi_view", losses), ("neighbours", losses | {"local_alignment": False})):
        if found[name] is not None:
            inner = found[name].base.named()
            assert {*inner} == {term for term, is_there in base.items() if is_there}
            for term, settings in inner.items():
                plain = getattr(terms, term).model_dump(exclude={"weight", "model_similarity"})
                assert settings.weight == LOSS
                assert settings.model_dump(exclude={"weight", "model_similarity"}) == plain


def test_images_are_split_by_their_folder_and_shares_are_of_studies(study):
    cohort = study.cohorts["low_data/pairs"].recipe
    assert cohort.split_method == "folders" and cohort.share_unit == "study"
    assert cohort.splits.folders == {"p10": "test", "p11": "validate"}
    assert study.models["low_data/infonce"].geometry == "square512"


def test_what_text_encoders_have_read_stands_below_the_tables(study):
    start = [kind for kind, (text, _) in STARTS.items() if text in READERS[1:]]
    readers = {
        "biovil/clinical_bert": {"from_clinical_bert"},
        "biovil/cxr_bert_phase2": {*start, "ours_protected", "infonce_phase3"},
    }
    said = "has read reports of patients that are scored here, never with their images."
    notes = overlap_notes(study, "low_data", "retrieval")
    assert len(notes) == 2 and all(note.endswith(f"started, {said}") for note in notes)
    for note in notes:
        reader, _, models = note.partition(" started")[0].partition(", from which ")
        assert {*models.split(", ")} == readers[reader]
    assert overlap_notes(study, "low_data", "table1") == []
    twin = study.models["low_data/infonce_unseen"].ancestors
    assert not any("biovil/" in name for name in twin)


def test_the_lack_of_wordnet_stands_below_the_tables(study):
    (note,) = study.results["low_data"].own_synonyms("figure5")
    assert note.startswith("The augmented texts of ours have synonyms of a short list of ours")
    (note,) = study.results["low_data"].own_synonyms("retrieval")
    assert note.partition(" have")[0] == (
        "The augmented texts of declip, ours, ours_protected, multi_view_alone"
    )
    assert study.results["low_data"].own_synonyms("table1") == []
    named = {"low_data/ours": {"text_augmentation": {"wordnet": "/wordnet"}}}
    results = load(papers=["low_data"], models=named).results["low_data"]
    assert results.own_synonyms("figure5") == []
    assert "declip" in results.own_synonyms("retrieval")[0]


def test_the_text_adaptation_is_trained_as_section_3_says(study):
    """Or, by name, as BioViL trains its phase III; the loss is the same."""
    ours, phase3 = (study.models[f"low_data/{n}"].settings for n in ("cxr_bert", "cxr_bert_phase3"))
    assert ours.training == study.models["low_data/infonce"].settings.training
    adamw, training = phase3.training.optimiser, phase3.training
    assert (adamw.name, adamw.learning_rate) == ("adamw", 2e-5)
    assert (training.batch_size, training.epochs) == (256, 100) and phase3.terms == ours.terms
    assert study.models["low_data/infonce_phase3"].recipe.text == "low_data/cxr_bert_phase3"
    demo = load(papers=["low_data"]).models["low_data/cxr_bert"].settings.training
    sizes = {"steps", "validate_steps"}
    assert demo.model_dump(exclude=sizes) == ours.training.model_dump(exclude=sizes)


def test_a_demonstration_has_three_of_the_shares():
    demo = load(papers=["low_data"])
    made = [s for s in SHARES if demo.models[name_of_share("low_data/both", s)].trainable]
    assert made == [1, 10, 100]
    assert (
        not demo.models["low_data/biovil"].trainable
        and not demo.models["low_data/infonce_unseen"].trainable
    )


def test_figure_5_and_table_4_are_all_there(study):
    """338 values of Table 4, 24 of Figure 5; what contradicts what is in a note."""
    tables = study.library.chosen["low_data"].tables
    zero, probe = tables["table4_zero_shot"], tables["table4_probe"]
    for table in (zero, probe):
        rows = [row for row in table.rows if row.published]
        assert len(rows) == 13 and all(len(row.published) == 13 for row in rows)
        for model in ("low_data/clip", "low_data/ours"):
            assert [row.pairs for row in rows if row.model == model] == [*SHARES]
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
    drawn = study.library.chosen["low_data"].figures["figure5"].addresses()
    assert [(place.row, place.column) for place in drawn] == [
        (row.label, column.key) for column in figure.columns[1:] for row in figure.rows
    ]
    assert figure.columns[0].metric == "samples"  # the run's own pairs, beside the published ones
    counts = [row.published["pairs"][0] for row in figure.rows]
    assert counts == ["1448", "7239", "14478", "28956", "72390", "144781"]


def measured(folder, benchmark, *options):
    output = folder / "out"
    evaluate([benchmark, "--output", str(output), *map(str, options)])
    found = json.loads((output / "metrics.json").read_text())
    return {name: one["value"] for name, one in found["metrics"].items()}


def test_a_label_table_of_other_columns_is_named(tmp_path):
    """Of the CheXpert labeller's table one class lacks, or a value is none."""
    path = tmp_path / "mimic-cxr-2.0.0-chexpert.csv"
    table = pd.DataFrame({"study_id": [1, 2], **{name: [1.0, None] for name in CLASSES}})
    table.to_csv(path, index=False)
    assert len(read_labels(tmp_path, "chexpert")[0]) == 2
    table.rename(columns={"Edema": "Oedema"}).to_csv(path, index=False)
    with pytest.raises(InputError, match=rf"{path.name}: column 'Edema' is missing; expected stud"):
        read_labels(tmp_path, "chexpert")
    table.assign(Edema=[1.0, 2.0]).to_csv(path, index=False)
    with pytest.raises(InputError, match=rf"{path.name}: Edema holds 2; expected 1, 0, -1 or bl"):
        read_labels(tmp_path, "chexpert")


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


def mine(model=None, task="low_data/retrieval", metric="auroc", **values):
    """A paper with a model `m`, which is scored by the study's retrieval or another task."""
    table = table_of(task, metric, "m")
    model = {"extends": "low_data/declip", "shares": [100], **(model or {})}
    return {"models": {"m": model}, "tables": {"t": table}, **values}


def test_wordnet_is_missed_before_anything_runs(overlay, paper, tmp_path):
    for folder, problem in (
        ("/nowhere", "is '/nowhere': no such folder"),
        (str(tmp_path), f"is '{tmp_path}/index.noun': no such file"),
    ):
        settings = {"text_augmentation": {"wordnet": folder}}
        file = paper(mine({"settings": settings}), f"words{len(folder)}.yaml")
        refused = f"/m.settings.text_augmentation.wordnet' {problem}"
        with pytest.raises(InputError, match=re.escape(refused)):
            overlay({"papers": [file]}, check_roots=True)


def test_a_term_that_reads_augmented_texts_is_refused_before_anything_runs(overlay, paper):
    """Where nothing says how they are made."""
    for terms, refused in (({"multi_view": {}}, True), ({"neighbours": {}}, False)):
        model = {"extends": "low_data/infonce", "settings": {"terms": terms}}
        file = paper(mine(model), f"{[*terms][0]}.yaml")
        if not refused:
            assert overlay({"papers": [file]}).models["neighbours/m"].settings.terms.neighbours
            continue
        message = "m': terms.multi_view reads augmented texts, but text_augmentation is null"
        with pytest.raises(InputError, match=message):
            overlay({"papers": [file]})


@pytest.mark.parametrize("task", ["zero_shot", "probe"])
def test_labels_that_a_cohort_lacks_are_missed_before_anything_runs(overlay, paper, task):
    cohorts = {"c": {"extends": "low_data/pairs", "labels": None}}
    for source in ("cohort", "reports"):
        settings = {"label_source": source}
        tasks = {"z": {"extends": f"low_data/{task}", "cohort": "c", "settings": settings}}
        more = {"cohorts": cohorts, "tasks": tasks}
        values = mine({"cohort": "c"}, "z", "balanced_accuracy", **more)
        file = paper(values, f"labels_{source}.yaml")
        if source == "reports":
            assert overlay({"papers": [file]}).tasks["labels_reports/z"]
            continue
        refused = "/z.label_source' is 'cohort', but cohort 'labels_cohort/c' has no labels; exp"
        with pytest.raises(InputError, match=refused):
            overlay({"papers": [file]})


def test_the_documented_table_of_shares_is_one(overlay, paper):
    page = (Path(__file__).parents[3] / "docs/configuration.md").read_text(encoding="utf-8")
    block = re.search(r"(?:    .*\n)*    .*extends: low_data/infonce.*\n(?:    .*\n)*", page)[0]
    config = overlay({"papers": [paper(textwrap.dedent(block))]})
    mine = [f"mine/{name}" for name in ("mine_share1", "mine_share10", "mine")]
    theirs = [name.replace("mine/mine", "low_data/infonce") for name in mine]
    assert config.results["mine"].cells("pairs") == [
        ("low_data/retrieval", name) for name in (*mine, *theirs)
    ]
    assert config.models[mine[0]].settings.training_share == 0.01
