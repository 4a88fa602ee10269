"""What trainings and evaluations ask of cohorts, each broken on purpose where one is built."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cohort_fixtures import make
from data_fixtures import IMAGES, corpus, mimic_cxr

from cxr_files.atomic import write_json
from cxr_files.attempts import FOLDER
from cxr_files.errors import InputError
from cxrflow.config.demands import asked_rows
from cxrflow.data.cohorts.demands import Demand, check, note
from cxrflow.pretrain.registry import TRAINING_PROGRAMS

TRAINING = {"batch_size": 8, "steps": 10}
JOINT = {"terms": {"global_alignment": {}}, "augmentation": {}, "training": TRAINING}
SIMCLR = {"terms": {"simclr": {}}, "augmentation": {}, "training": TRAINING}
TEXT = "No acute disease of the heart or lungs is seen."
CLASSES = ["Opacity", "Effusion"]


def write(folder: Path, file: str, frame: pd.DataFrame, **flow: Any) -> Path:
    folder = folder / "mine" / "cohort"
    folder.mkdir(parents=True, exist_ok=True)
    frame.to_parquet(folder / f"{file}.parquet")
    write_json(folder / "flow.json", {"dataset": "x", "cohort": "x", "synthetic": True, **flow})
    return folder


def pairs(folder: Path, train: int = 40, validate: int = 8, **columns: Any) -> Path:
    """A cohort of pairs, of a patient each; the share of the n-th row is n hundredths."""
    ids = [f"s{number}" for number in range(train + validate)]
    frame = pd.DataFrame({"subject_id": ids, "study_id": ids, "image_id": ids})
    parts = ["train"] * train + ["validate"] * validate
    frame = frame.assign(findings="clear", impression=TEXT, split=parts, prior_image_id=None)
    frame = frame.assign(study_time="2100-01-01", share=np.arange(len(ids)) / 100)
    return write(folder, "pairs", frame.assign(**columns))


def samples(folder: Path, labels: Any = None, **columns: Any) -> Path:
    """Images of two classes, or other labels of these; twelve in each part."""
    names = [f"i{number}" for number in range(36)]
    parts = np.repeat(["train", "validate", "test"], 12)
    labels = np.stack([np.arange(36) % 2, np.arange(36) % 3 == 0], 1) if labels is None else labels
    frame = pd.DataFrame({"sample_id": names, "subject_id": names, "group_id": names})
    frame = frame.assign(image_id=names, image_path=names, subgroup=None, split=parts)
    frame = frame.assign(labels=list(np.asarray(labels, float)), boxes=[[]] * 36)
    return write(folder, "samples", frame.assign(**columns), classes=CLASSES)


def changes(folder: Path, labels: list[str]) -> Path:
    """Pairs of images of one finding: four of each label in each part, or in train alone."""
    rows = [
        {"finding": "edema", "label": label, "split": part}
        for part in ("train", "validate", "test")
        for label in (labels if part == "test" else ["improving", "stable", "worsening"]) * 4
    ]
    frame = pd.DataFrame(rows)
    ids = [f"s{number}" for number in range(len(rows))]
    frame = frame.assign(sample_id=ids, subject_id=ids, image_id=ids, prior_image_id=ids)
    return write(folder, "samples", frame, classes=["improving", "stable", "worsening"])


def sentences(folder: Path, labels: list[str], split: Any = "test") -> Path:
    names = [f"n{number}" for number in range(len(labels))]
    frame = pd.DataFrame({"sample_id": names, "premise": "a", "hypothesis": "b", "label": labels})
    return write(folder, "samples", frame.assign(split=split))


@pytest.fixture(autouse=True)
def everything_is_checked(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert not [r for r in caplog.get_records("call") if "is not checked" in r.getMessage()]


def trained(folder: Path, settings: Any, program: str = "joint", *askers: str, **more: Any) -> None:
    askers = askers or ("mine/model",)
    check(folder, [Demand("pretrain", program, settings, list(askers), more)])


def scored(folder: Path, benchmark: str, more: Any = None, **settings: Any) -> None:
    check(folder, [Demand("benchmarks", benchmark, settings, ["mine/task"], more or {})])


# --- trainings ------------------------------------------------------------------------------------


def test_a_share_leaves_a_batch(tmp_path: Path) -> None:
    folder = pairs(tmp_path)
    curve = JOINT | {"training_share": 0.08}
    trained(folder, curve)
    named = ("mine/low", "mine/lower", "mine/lowest")
    with pytest.raises(InputError) as refused:
        trained(folder, curve | {"training_share": 0.05}, "joint", *named)
    assert str(refused.value) == (
        f"{folder}/pairs.parquet: settings key 'training_share' is 0.05, which leaves 5 training "
        "rows; expected at least a batch of 8; mine/low and 2 more need it, so nothing is trained; "
        "expected `models: {mine/low: {training: {batch_size: 4}}}` or "
        "`leave_out: [mine/low, mine/lower, mine/lowest]` in the configuration"
    )


OF_STUDIES = {*TRAINING_PROGRAMS} - {"initial", "supervised", "sentence_pairs"}


@pytest.mark.parametrize("program", sorted(OF_STUDIES))
def test_every_program_reads_both_parts(program: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "text": {"terms": {"section_matching": {}, "mlm": {}}, "training": TRAINING},
        "image": SIMCLR,
        "report": {"terms": {"report_likelihood": {}}, "augmentation": {}, "training": TRAINING},
        "caption": {
            "terms": {"report_likelihood": {}},
            "augmentation": {},
            "training": TRAINING,
            "decoder": {"kind": "captioning_lstm"},
        },
    }.get(program, JOINT)
    trained(pairs(tmp_path / "whole"), settings, program)
    with pytest.raises(InputError, match=r"no row of split 'validate'.*`cohorts: \{mine/cohort: "):
        trained(pairs(tmp_path / "cut", validate=0), settings, program)


def test_sentence_pairs_are_of_every_relation(tmp_path: Path) -> None:
    settings = {"terms": {"entailment": {}}, "training": TRAINING}
    labels, parts = ["entailment", "neutral", "contradiction"] * 2, ["train"] * 3 + ["validate"] * 3
    trained(sentences(tmp_path / "whole", labels, parts), settings, "sentence_pairs")
    with pytest.raises(InputError, match=r"no row of split 'validate'.*`cohorts: \{mine/cohort: "):
        trained(sentences(tmp_path / "cut", labels, "train"), settings, "sentence_pairs")
    with pytest.raises(InputError, match="'train' has the label contradiction; expected pairs of"):
        trained(
            sentences(tmp_path / "two", [*labels[:2], *labels[1:5]], parts),
            settings,
            "sentence_pairs",
        )
    with pytest.raises(InputError, match="column 'sample_id' is missing"):
        trained(pairs(tmp_path / "reports"), settings, "sentence_pairs")


def test_packed_corpora_are_validated_on_the_cohort_alone(tmp_path: Path) -> None:
    settings = {"terms": {"mlm": {}}, "training": TRAINING}
    trained(pairs(tmp_path / "a", train=0), settings, "text", packed=True)
    with pytest.raises(InputError, match="no row of split 'validate'"):
        trained(pairs(tmp_path / "b", validate=0), settings, "text", packed=True)


def test_what_training_samples_must_be(tmp_path: Path) -> None:
    folder = pairs(tmp_path)
    one_patient = ["p"] * 30 + [f"p{number}" for number in range(18)]
    queue = JOINT | {"terms": {"global_alignment": {}, "neighbours": {"queue": 2}}}
    uneven = JOINT["training"] | {"sampler": {"name": "of_kinds", "shares": 1}}
    for settings, program, columns, message in (
        (JOINT | {"shuffled_pairs": True}, "joint", {"subject_id": one_patient}, "to one patient"),
        (JOINT, "joint", {"impression": None}, "no text in impression"),
        (SIMCLR, "image", {"image_id": None}, r"no image \(40\)"),
        (queue, "joint", {}, "terms.neighbours.queue' is 2 with 40 training samples"),
        (JOINT | {"training": uneven}, "joint", {}, "samples are of one kind"),
    ):
        pairs(tmp_path, **columns)
        with pytest.raises(InputError, match=message):
            trained(folder, settings, program)
    with pytest.raises(InputError, match="contrastive objectives need at least 2"):
        trained(pairs(tmp_path / "few", validate=1), JOINT)


def test_a_supervised_training_has_images_of_one_class_each(tmp_path: Path) -> None:
    settings = SIMCLR | {"terms": {"classification": {}}}
    trained(samples(tmp_path, np.eye(2)[np.arange(36) % 2]), settings, "supervised")
    with pytest.raises(
        InputError, match="12 of 12 samples are not of exactly one class.*expected `leave_out"
    ):
        trained(samples(tmp_path, np.arange(72).reshape(36, 2) % 4 < 2), settings, "supervised")
    findings = {"terms": {"findings": {"classes": ["Edema"]}}}
    with pytest.raises(InputError, match="terms.findings names 'Edema'; the cohort has Opacity"):
        trained(samples(tmp_path), SIMCLR | findings, "supervised")


# --- evaluations ----------------------------------------------------------------------------------


@pytest.mark.parametrize("benchmark", ["linear_probe", "linear_classification"])
def test_a_probe_has_parts_with_both_labels(benchmark: str, tmp_path: Path) -> None:
    settings = {
        "classes": ["Opacity"],
        **({"geometry": "shorter64"} if "class" in benchmark else {}),
    }
    scored(samples(tmp_path), benchmark, **settings)
    labels = np.zeros((36, 2))
    labels[:24, 0] = np.arange(24) % 2
    with pytest.raises(InputError, match="'test': .*no positive of Opacity"):
        scored(samples(tmp_path, labels), benchmark, **settings)
    with pytest.raises(InputError, match="no row has split 'test'.*`cohorts: "):
        scored(samples(tmp_path, split="train"), benchmark, **settings)
    with pytest.raises(InputError, match="key 'classes' names 'Edema'.*`leave_out: .mine/task.`"):
        scored(samples(tmp_path), benchmark, **settings | {"classes": ["Edema"]})


def test_zero_shot_classification_has_the_part_that_thresholds_are_from(tmp_path: Path) -> None:
    settings = {"classes": ["Opacity"], "threshold": "best_f1", "threshold_part": "validate"}
    scored(samples(tmp_path), "zero_shot_classification", **settings)
    with pytest.raises(InputError, match="no row has split 'validate'"):
        split = np.repeat(["train", "test"], 18)
        scored(samples(tmp_path, split=split), "zero_shot_classification", **settings)


def test_segmentation_has_boxes(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="column 'boxes' is empty in all 12 rows of split train"):
        columns = {"image_width": 8, "image_height": 8}
        scored(samples(tmp_path, **columns), "segmentation")


def test_changes_of_a_finding_have_every_class(tmp_path: Path) -> None:
    settings = {"findings": ["edema"]}
    every = ["improving", "stable", "worsening"]
    scored(changes(tmp_path, every), "temporal_classification", **settings)
    with pytest.raises(InputError, match="no finding is left: .*not every class has a test pair"):
        scored(changes(tmp_path, ["stable"]), "temporal_classification", **settings)


def test_pairs_of_sentences_have_the_labels_that_are_compared(tmp_path: Path) -> None:
    both = ["entailment", "contradiction"]
    scored(sentences(tmp_path, both), "sentence_similarity")
    with pytest.raises(InputError, match="no row has the label contradiction"):
        scored(sentences(tmp_path, both[:1]), "sentence_similarity")
    folds = {"split": "test", "folds": 3}
    with pytest.raises(InputError, match="at least one for each of the 3 folds"):
        scored(
            sentences(tmp_path, ["paraphrase", "contradiction"]), "paraphrase_detection", **folds
        )
    with pytest.raises(InputError, match="no row has split 'train'"):
        scored(sentences(tmp_path, both), "natural_language_inference", {"learnt": True})


# --- which of them a run has ----------------------------------------------------------------------


def test_a_cohort_that_is_built_is_checked_by_what_the_run_has_noted(tmp_path, monkeypatch):
    """By the program that builds it, before anything can read it; nothing without notes."""
    monkeypatch.setenv(FOLDER, str(tmp_path / "run"))
    studies = [*dict.fromkeys(image.study for image in IMAGES)]
    texts = corpus(tmp_path / "corpus", studies)
    hospital = ["--layout", "mimic_cxr", "--root", mimic_cxr(tmp_path / "mimic"), "--corpus", texts]
    make(tmp_path / "mine" / "free", *hospital, share_unit="study")
    note("mine/asked", [Demand("pretrain", "image", SIMCLR, ["mine/simclr"])])
    with pytest.raises(InputError, match=r"mine/asked/pairs.parquet: no row of.*mine/simclr needs"):
        make(tmp_path / "mine" / "asked", *hospital, share_unit="study")


def test_a_run_asks_for_what_its_models_and_tasks_read(overlay):
    config = overlay({"papers": ["low_data"]})
    asked = asked_rows(config, config.whole.models, config.whole.tasks)
    of_pairs = {name: each for each in asked["low_data/pairs"] for name in each["askers"]}
    shares = {
        name: each["settings"]["training_share"]
        for name, each in of_pairs.items()
        if each["room"] == "pretrain" and "training_share" in each["settings"]
    }
    assert min(shares.values()) < 1 and set(asked) <= set(config.cohorts)
    trained_here = [name for name in config.whole.models if config.models[name].trained]
    named = {name for demands in asked.values() for each in demands for name in each["askers"]}
    with_cohort = {name for name in trained_here if config.models[name].recipe.cohort}
    assert with_cohort <= named
    # Equal demands are one, whatever the length of the training.
    assert len(asked["low_data/pairs"]) < len(of_pairs)


def test_the_folders_of_mimic_cxr_are_asked_of_no_other_data_set(overlay, tmp_path):
    """Before anything runs where the layout says how its patients are numbered."""
    (tmp_path / "studies.csv").touch()
    mine = {"layout": "hospital", "root": str(tmp_path), "in_place_of": "mimic_cxr"}
    values = {"papers": ["low_data"], "datasets": {"mine": mine}}
    refused = (
        r"splits.method' is folders, .* patients of 'mine' \(layout hospital\) are not numbered"
    )
    with pytest.raises(InputError, match=refused):
        overlay(values)
    splits = {"cohorts": {"low_data/pairs": {"splits": {"method": "patients"}}}}
    assert "low_data/pairs" in overlay({**values, **splits}).whole.cohorts
