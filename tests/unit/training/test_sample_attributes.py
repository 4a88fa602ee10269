"""Attributes of samples: from the cohort's table to samplers and terms."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cohort_fixtures import make
from data_fixtures import IMAGES, corpus, mimic_cxr, mimic_cxr_jpg, rsna, write_csv
from small_programs import terms_program
from torch import Tensor

from cxr_files.atomic import write_json
from cxr_files.errors import InputError
from cxrflow.data.cohorts.filters import unit_hash
from cxrflow.data.cohorts.pairs import COLUMNS
from cxrflow.data.cohorts.settings import TrainingShare
from cxrflow.data.cohorts.splits import training_shares
from cxrflow.pretrain.inputs import Pairs
from cxrflow.pretrain.objective import Encoders, Term, Views
from cxrflow.pretrain.settings import ImagePretrainingSettings
from cxrflow.training import sampler
from cxrflow.training.samples import SampleTable
from cxrflow.training.settings import SamplerSettings

STUDIES = [*dict.fromkeys(image.study for image in IMAGES)]
LABELS = ["Edema", "Fracture"]


@pytest.fixture
def hospital(tmp_path: Path) -> list[object]:
    texts = corpus(tmp_path / "corpus", STUDIES)
    labels = {"study_id": STUDIES[1:], "Edema": 1.0, "Fracture": [*[-1.0] * 3, *[np.nan] * 3]}
    pd.DataFrame(labels).to_parquet(texts / "labels.parquet")
    root = mimic_cxr(tmp_path / "mimic")
    return ["--layout", "mimic_cxr", "--root", root, "--corpus", texts]


def test_a_cohort_has_the_attributes_that_it_asks_for(hospital, tmp_path):
    plain = make(tmp_path / "plain", *hospital)
    assert not {"share_unit", "labels"} & set(plain["settings"]) and "classes" not in plain
    before = pd.read_parquet(tmp_path / "plain/pairs.parquet")
    assert list(before) == list(COLUMNS)
    flow = make(tmp_path / "out", *hospital, share_unit="study", labels="reports")
    rows = pd.read_parquet(tmp_path / "out/pairs.parquet")
    pd.testing.assert_frame_equal(rows[list(COLUMNS)], before)
    assert list(rows)[len(COLUMNS) :] == ["labels", "share"] and flow["classes"] == LABELS
    labels = dict(zip(rows["study_id"], rows["labels"].map(list), strict=True))
    assert labels["50000001"] == [1.0, -1.0] and np.isnan(labels["50000009"]).all()
    assert sum(flow["labels"].values()) == 2 * len(rows)
    for share, study in zip(rows["share"], rows["study_id"], strict=True):
        assert share == unit_hash("training share", 0, study)


def test_the_publishers_labels_come_with_either_edition(hospital, tmp_path):
    jpg = mimic_cxr_jpg(tmp_path / "jpg")
    images = ["--images-layout", "mimic_cxr_jpg", "--images-root", jpg]
    with pytest.raises(InputError, match="'labels' is 'published', but no labels of studies"):
        make(tmp_path / "no", *hospital, *images, labels="published")
    from cxrflow.data.readers.mimic_cxr_jpg import CLASSES

    table = [("10000001", study, *[1.0] * 13, None) for study in STUDIES]
    write_csv(jpg / "mimic-cxr-2.0.0-chexpert.csv", ("subject_id", "study_id", *CLASSES), table)
    flow = make(tmp_path / "out", *hospital, *images, labels="published")
    labels = np.stack(pd.read_parquet(tmp_path / "out/pairs.parquet")["labels"].to_list())
    assert flow["classes"] == list(CLASSES)
    assert (labels[:, :13] == 1).all() and np.isnan(labels[:, 13]).all()
    assert not any("have no labels" in note for note in flow["notes"])
    write_csv(jpg / "mimic-cxr-2.0.0-chexpert.csv", ("subject_id", "study_id", *CLASSES), table[1:])
    (note,) = make(tmp_path / "short", *hospital, *images, labels="published")["notes"]
    assert note.startswith(f"1 of {len(labels)} rows have no labels") and STUDIES[0] in note
    others = [("10000001", "59999999", *[1.0] * 14)]
    write_csv(jpg / "mimic-cxr-2.0.0-chexpert.csv", ("subject_id", "study_id", *CLASSES), others)
    with pytest.raises(InputError, match="none of the . studies has a row of labels; expected nam"):
        make(tmp_path / "other", *hospital, *images, labels="published")


@pytest.mark.parametrize(("kind", "field"), [("nli", "share_unit"), ("classification", "labels")])
def test_attributes_that_a_kind_cannot_have_are_refused(kind, field, hospital, tmp_path):
    value = {"share_unit": "study", "labels": "reports"}[field]
    with pytest.raises(InputError, match=f"{field} of a cohort of kind {kind}: expected null"):
        make(tmp_path / "no", *hospital, kind=kind, **{field: value})


def test_labelled_images_have_a_share_by_study_or_patient(tmp_path: Path) -> None:
    root = rsna(tmp_path / "rsna")
    make(tmp_path / "out", "--layout", "rsna", "--root", root, kind="classification",
         share_unit="patient", seed=3)  # fmt: skip
    rows = pd.read_parquet(tmp_path / "out/samples.parquet")
    names = rows["subject_id"].fillna(rows["group_id"]).fillna(rows["sample_id"])
    assert rows["share"].tolist() == [unit_hash("training share", 3, name) for name in names]


def test_a_share_belongs_to_the_sample_and_smaller_ones_are_nested() -> None:
    ids = [f"s{number}" for number in range(20_000)]
    rows = pd.DataFrame({"study_id": ids, "subject_id": [name[:4] for name in ids]})
    shares = training_shares(rows, "study", 0)
    shuffled = rows.sample(frac=0.3, random_state=0)
    np.testing.assert_array_equal(training_shares(shuffled, "study", 0), shares[shuffled.index])
    for share in (0.01, 0.05, 0.1, 0.2, 0.5):
        error = 4 * np.sqrt(len(ids) * share * (1 - share))  # four standard deviations
        assert abs((shares < share).sum() - share * len(ids)) < error
    by_patient = pd.Series(training_shares(rows, "patient", 0)).groupby(rows["subject_id"])
    assert by_patient.nunique().eq(1).all()
    # The training part of a split by patient has low shares, too.
    split = np.array([unit_hash(0, name) for name in ids])
    assert abs(np.corrcoef(split, shares)[0, 1]) < 0.03


def pairs_table(folder: Path, rows: int = 40, **columns: Any) -> Path:
    """A table of pairs, the last eight for validation, with labels and shares."""
    folder.mkdir()
    ids = [f"s{number}" for number in range(rows)]
    frame = pd.DataFrame({"subject_id": ids, "study_id": ids, "image_id": ids})
    frame = frame.assign(findings="a", impression="b", split="train")
    frame.loc[rows - 8 :, "split"] = "validate"
    labels = np.stack([np.arange(rows) % 2, np.full(rows, np.nan)], axis=1)
    frame = frame.assign(labels=list(labels), share=training_shares(frame, "study", 0), **columns)
    frame.to_parquet(folder / "pairs.parquet")
    flow = {"dataset": "x", "cohort": "x", "synthetic": True, "classes": LABELS}
    write_json(folder / "flow.json", flow)
    return folder / "pairs.parquet"


def test_a_training_share_leaves_the_other_rows_of_train_out(tmp_path: Path) -> None:
    path = pairs_table(tmp_path / "cohort")
    sizes = {}
    for share in (1.0, 0.5, 0.2):
        pairs = Pairs(path, TrainingShare(share))
        sizes[share] = set(pairs.split("train")["study_id"])
        assert len(pairs.split("validate")) == 8
        left_out = 32 - len(sizes[share])
        drops = [(f"beyond the training share of {share:g}", left_out)] if left_out else []
        assert [(drop.reason, drop.count) for drop in pairs.dropped] == drops
    assert sizes[0.2] < sizes[0.5] < sizes[1.0] and len(sizes[1.0]) == 32
    frame = pd.read_parquet(path)
    frame.drop(columns="share").to_parquet(path)
    assert len(Pairs(path).split("train")) == 32
    with pytest.raises(
        InputError, match="column 'share' is missing; settings key 'training_share'"
    ):
        Pairs(path, TrainingShare(0.5)).split("train")


def test_the_share_of_all_is_not_in_the_settings_of_a_training() -> None:
    values: dict[str, Any] = {
        "training": {"batch_size": 2, "epochs": 1},
        "augmentation": {},
        "terms": {"simclr": {}},
    }
    dumps = [
        ImagePretrainingSettings.model_validate(values | share).record()
        for share in ({}, {"training_share": 1.0}, {"training_share": 0.1})
    ]
    assert dumps[0] == dumps[1] and dumps[2] == {**dumps[0], "training_share": 0.1}


class Labelled(Term):
    """A term that reads the labels and groups of its batch."""

    compares = False

    def __init__(self, settings: Any, encoders: Encoders) -> None:
        super().__init__(settings, encoders)
        self.groups: set[str] = set()

    def loss(self, views: Views) -> Tensor:
        self.groups |= set(views.batch.groups)
        return views.batch.labels[:, 0].mean()


def program_of(path: Path, share: float, monkeypatch: pytest.MonkeyPatch, **training: Any) -> Any:
    """A program with one term, which reads labels."""
    pairs = Pairs(path, TrainingShare(share))
    samples = {name: pairs.samples(pairs.split(name)) for name in ("train", "validate")}
    program = terms_program(monkeypatch, samples, {"mlm": Labelled}, **training)
    monkeypatch.setattr(program, "views", lambda split, batch: Views(batch))
    return program


def test_a_term_reads_the_labels_of_its_samples(tmp_path, monkeypatch):
    path = pairs_table(tmp_path / "cohort")
    groups = {}
    for share in (1.0, 0.5):
        program = program_of(path, share, monkeypatch)
        table = program.samples["train"]
        for index in range(program.batches_per_epoch):
            rows = program.sampler.rows(0, index)
            loss = program.losses(program.prepare(0, index), 0, 1).total
            assert float(loss) == np.mean([int(table.ids[row][1:]) % 2 for row in rows])
        groups[share] = program.terms["mlm"].groups
        assert program.validate()["mlm"] == 0.5
        assert table.classes == tuple(LABELS) and np.isnan(table.labels[:, 1]).all()
    nested = {name for name in groups[1.0] if unit_hash("training share", 0, name) < 0.5}
    assert groups[0.5] - {f"s{number}" for number in range(32, 40)} <= nested
    frame = pd.read_parquet(path)
    frame.drop(columns="labels").to_parquet(path)
    with pytest.raises(InputError, match="reads labels, but the cohort has none"):
        program = program_of(path, 1.0, monkeypatch)
        program.losses(program.prepare(0, 0), 0, 1)


class ByLabel:
    """Batches of one label each, after the samples' attributes."""

    def __init__(self, samples: SampleTable, batch_size: int) -> None:
        assert samples.labels is not None
        self.order = np.argsort(samples.labels[:, 0], kind="stable")
        self.batch_size, self.batches_per_epoch = batch_size, len(samples) // batch_size

    def rows(self, epoch: int, index: int) -> np.ndarray:
        return self.order[index * self.batch_size :][: self.batch_size]


def test_a_sampler_that_is_added_draws_by_labels(tmp_path, monkeypatch):
    monkeypatch.setitem(
        sampler.SAMPLERS, "by_label", lambda settings, samples, size, *_: ByLabel(samples, size)
    )
    settings = SamplerSettings.model_construct(name="by_label", shares=None)
    program = program_of(pairs_table(tmp_path / "cohort"), 1.0, monkeypatch, sampler=settings)
    losses = [float(program.losses(program.prepare(0, index), 0, 1).total) for index in range(8)]
    assert losses == [0, 0, 0, 0, 1, 1, 1, 1]
