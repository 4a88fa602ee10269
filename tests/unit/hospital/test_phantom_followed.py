"""Followed patients: others stay as they were; MS-CXR-T and Chest ImaGenome tell the course."""

import hashlib
import json
import zipfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from phantom_fixtures import SETTINGS, digests

from cxr_files.errors import InputError
from cxr_hospital.acquisition import REJECTED, SPOILT, sample_acquisition
from cxr_hospital.draw import writer
from cxr_hospital.drawing import draw, finding_boxes
from cxr_hospital.patient import (
    FIRST_FOLLOWED,
    Patient,
    followed,
    hospital,
    make_patient,
)
from cxr_hospital.progression import (
    FINDINGS,
    good_pairs,
    mentions,
    study_pairs,
    true_directions,
    true_label,
)
from cxr_hospital.report import report_of
from cxr_hospital.settings import FollowedSettings, HospitalSettings
from cxr_hospital.temporal_pairs import CONTRADICTION, PARAPHRASE, SWAPS, temporal_pairs

ADDED = (
    "generic_pictures",
    "captioned_pictures",
    "nih_patients",
    "padchest_patients",
)  # fields that came later
LATER = {"followed": None, **HospitalSettings().model_dump(include=set(ADDED))}
BEFORE = SETTINGS.model_copy(update=LATER)
DEMO = HospitalSettings(followed=FollowedSettings())
# What these settings gave before there were followed patients: state and text, no picture, whose
# last bits may differ between processors. RadNLI's: since its pairs are of equally frequent kinds.
GOLDEN = {
    "state": "af68d4dc6d494de8",
    "mimic_iii": "0c1cad911af47286",
    "radnli": "a7f0a63103c37efb",
    "mednli": "78d42cb30caf11ae",
    "mimic_iv": "9717c545d2d36aa5",
    "stanza_text": "c62bf8fd8829a07c",
}


@pytest.fixture(scope="module")
def patients() -> list[Patient]:
    return [make_patient(DEMO, index) for index in followed(DEMO)]


def test_a_hospital_without_them_is_what_it_was(tmp_path: Path) -> None:
    state_digests = {"state": state(BEFORE)}
    for name in GOLDEN:
        if name != "state":
            writer(name)(BEFORE, tmp_path / name, 1)
            state_digests[name] = folder_digest(tmp_path / name)
    assert state_digests == GOLDEN
    assert not LATER.keys() & BEFORE.record().keys()
    for name in ("ms_cxr_t", "chest_imagenome"):
        with pytest.raises(InputError, match=f"{name}: key 'followed' .* is null; expected"):
            writer(name)(BEFORE, tmp_path / name, 1)


def state(settings: HospitalSettings) -> str:
    """A digest of all patients of the hospital and of their reports."""
    texts = [
        (repr(patient), [report_of(settings, patient, study).text for study in patient.studies])
        for patient in hospital(settings)
    ]
    return hashlib.sha256(repr(texts).encode()).hexdigest()[:16]


def folder_digest(root: Path) -> str:
    digest = hashlib.sha256()
    for name in digests(root):
        digest.update(name.encode())
        digest.update((root / name).read_bytes())
    return digest.hexdigest()[:16]


def test_older_patients_are_in_the_copies_as_they_were(written: Path, tmp_path: Path) -> None:
    for name in ("mimic_cxr", "ms_cxr", "rsna"):
        writer(name)(BEFORE, tmp_path / name, 1)
        old, new = digests(tmp_path / name), digests(written / name)
        # Lists and the zip of reports are longer, the manifest names other settings.
        common = [file for file in old if "/" in file or name in ("ms_cxr", "rsna")]
        differing = {file for file in common if old[file] != new[file]}
        assert differing <= {"MANIFEST.json"} and len(common) > 1
    more = pd.read_csv(written / "mimic_cxr" / "cxr-study-list.csv.gz")
    assert more["subject_id"].nunique() == SETTINGS.patients + len(followed(SETTINGS))


def test_shares_of_table_c1(patients: list[Patient]) -> None:
    """BioViL-T Table C.1: the class of the most and of the fewest labels, and about how many."""
    published = {
        "Consolidation": (14, 42, 44), "Edema": (31, 26, 43), "Pleural Effusion": (19, 49, 32),
        "Pneumonia": (8, 25, 67), "Pneumothorax": (15, 55, 30),
    }  # fmt: skip
    assert min(len(patient.studies) for patient in patients) >= 2
    pairs = [study for patient in patients for _, study in study_pairs(patient)]
    for finding in FINDINGS:
        counts = Counter(true_label(study, finding) for study in pairs)
        of = [counts[way] for way in ("improving", "stable", "worsening")]
        assert sum(of) > 80
        shares = 100 * np.array(of) / sum(of)
        assert np.abs(shares - published[finding]).max() < 20
        assert np.corrcoef(shares, published[finding])[0, 1] > 0.7


def test_what_a_report_says_of_change_is_true(patients: list[Patient]) -> None:
    """What silver labels miss is what reports pass over; errors are added where they are read."""
    reported, true = 0, 0
    for patient in patients[:120]:
        for _, study in study_pairs(patient):
            report = report_of(DEMO, patient, study)
            statements = mentions(study, [*report.findings, *report.impression])
            directions = true_directions(study)
            for finding in directions:
                mentioned = {
                    mention.direction
                    for mention in statements
                    if mention.finding == finding and mention.of
                }
                assert mentioned <= directions[finding]
                reported, true = reported + bool(mentioned), true + 1
    assert 0.5 < reported / true < 0.85


def test_ms_cxr_t(written: Path) -> None:
    root = written / "ms_cxr_t"
    rows = pd.read_csv(root / "MS_CXR_T_temporal_image_classification_v1.0.0.csv")
    records = pd.read_csv(written / "mimic_cxr" / "cxr-record-list.csv.gz")
    paths = set(records["path"].str.removeprefix("files/").str.removesuffix(".dcm"))
    assert set(rows["dicom_id"]) | set(rows["previous_dicom_id"]) <= paths
    truth = pd.read_parquet(written / "mimic_cxr" / "TRUTH.parquet").set_index("image_id")
    images = pd.concat([rows["dicom_id"], rows["previous_dicom_id"]]).str.split("/").str[-1]
    assert truth.loc[images, "usable"].all() and not truth["usable"].all()
    assert set(truth.index) == set(records["dicom_id"])
    for finding in ("consolidation", "pleural_effusion"):
        labelled = rows[f"{finding}_progression"].notna()
        assert (rows[f"{finding}_label_quality"].notna() == labelled).all()


def test_doubtful_labels_are_those_of_small_changes(tmp_path: Path) -> None:
    settings = DEMO.model_copy(update={"followed": FollowedSettings(second_reading_share=1.0)})
    writer("ms_cxr_t")(settings, tmp_path, 1)
    rows = pd.read_csv(tmp_path / "MS_CXR_T_temporal_image_classification_v1.0.0.csv")
    truth = pd.read_parquet(tmp_path / "TRUTH.parquet")
    truth = truth[truth["finding"] == "Edema"].set_index("image_id")["step"]
    rows.index = pd.Index(rows["dicom_id"].str.split("/").str[-1])
    quality = rows["edema_label_quality"].dropna()
    doubtful = quality == "disagreement"
    assert doubtful.any() and truth[quality.index[doubtful]].max() <= 0.25
    assert set(quality) == {"disagreement", "multiple_experts"}


def test_sentence_pairs_differ_in_progression_alone() -> None:
    pairs = temporal_pairs(DEMO, 361)
    counts = Counter((pair.subset, pair.category) for pair in pairs)
    assert sorted(counts.values()) == [42, 75, 99, 145]  # Table C.2
    assert len({frozenset((pair.first, pair.second)) for pair in pairs}) == 361
    up = {"worse", "worsened", "worsening", "increased", "increasing", "increase", "larger",
          "greater", "enlarged", "enlarging", "progressed", "progression", "growth", "more",
          "advancing"}  # fmt: skip
    for pair in pairs:
        if pair.subset == SWAPS:
            first, second = (set(text.lower().rstrip(".").replace(",", "").split())
                             for text in (pair.first, pair.second))  # fmt: skip
            assert len(first ^ second) <= 4
            same = bool(first & up) == bool(second & up)
            assert same or pair.category == CONTRADICTION
    assert {pair.category for pair in pairs} == {PARAPHRASE, CONTRADICTION}
    assert temporal_pairs(DEMO, 40) == temporal_pairs(DEMO, 40)
    assert len(temporal_pairs(DEMO, 40)) == 40


def test_chest_imagenome(written: Path) -> None:
    root = written / "chest_imagenome"
    with zipfile.ZipFile(root / "silver_dataset" / "scene_graph.zip") as archive:
        graphs = [json.loads(archive.read(name)) for name in archive.namelist()]
    lists = [
        pd.read_csv(root / "silver_dataset" / "splits" / f"{name}.csv", index_col=0)
        for name in ("train", "valid", "test")
    ]
    frontal = pd.concat(lists)
    assert {graph["image_id"] for graph in graphs} == set(frontal["dicom_id"])
    assert set(frontal["ViewPosition"]) == {"AP", "PA"}
    assert sum(one["subject_id"].nunique() for one in lists) == frontal["subject_id"].nunique()
    names = set(frontal["dicom_id"])
    for graph in graphs:
        for one in graph["objects"]:
            assert 0 <= one["x1"] < one["x2"] <= 224 and 0 <= one["y1"] < one["y2"] <= 224
            assert one["original_width"] == one["original_x2"] - one["original_x1"] > 0
        for one in graph["relationships"]:
            current, prior = (one[key].split("_")[0] for key in ("subject_id", "object_id"))
            assert current == graph["image_id"] and prior in names - {current}
    avoid = pd.read_csv(root / "silver_dataset" / "splits" / "images_to_avoid.csv")
    gold = pd.read_csv(
        root / "gold_dataset" / "gold_object_comparison_with_coordinates.txt", sep="\t"
    )
    assert set(gold["patient_id"]) <= set(avoid["subject_id"])
    close = {make_patient(SETTINGS, index).subject_id for index in followed(SETTINGS)}
    assert not close & set(avoid["subject_id"]) and close & set(frontal["subject_id"])


def test_gold_is_the_truth_and_silver_nearly(tmp_path: Path) -> None:
    settings = DEMO.model_copy(
        update={"patients": 150, "followed": FollowedSettings(patients=80, gold_share=0.3)}
    )
    writer("chest_imagenome")(settings, tmp_path, 1)
    from cxrflow.data.readers.common_tables import Request
    from cxrflow.data.readers.progressions import chest_imagenome

    progressions = chest_imagenome.read(tmp_path, Request()).progressions
    truth = pd.read_parquet(tmp_path / "TRUTH.parquet")
    keys = ["image_id", "prior_image_id", "finding"]
    unique = progressions[~progressions.duplicated([*keys, "quality"], keep=False)]
    joined = unique.merge(truth, on=keys, suffixes=("", "_true"))
    joined = joined[joined["label_true"] != "several"]
    right = joined["label"] == joined["label_true"]
    by_quality = right.groupby(joined["quality"]).agg(["mean", "size"])
    assert by_quality.loc["gold", "mean"] == 1.0 and by_quality.loc["gold", "size"] > 20
    assert 0.93 < by_quality.loc["silver", "mean"] < 1.0


@pytest.mark.parametrize("kind", REJECTED)
def test_a_spoilt_image_is_not_the_good_one(kind: str) -> None:
    patient = make_patient(DEMO, FIRST_FOLLOWED + 3)
    study = patient.studies[0]
    settings = DEMO.model_copy(update={"spoilt_share": 0.0})
    good, bad = (
        replace(sample_acquisition(np.random.default_rng(5), settings, "image", "AP", spoilt=one),
                aspect=1.0)
        for one in (None, kind)
    )  # fmt: skip
    assert bad.spoilt == kind and bad.view == good.view
    first, second = (draw(patient, study, one, 64) for one in (good, bad))
    assert first.image.shape == second.image.shape
    assert np.abs(first.image - second.image).mean() > 0.02
    assert second.boxes == finding_boxes(patient, study, bad, 64)


def test_what_spoils_images_is_more_varied_in_followed_patients(patients: list[Patient]) -> None:
    kinds = {image.spoilt for p in patients for s in p.studies for image in s.images}
    assert kinds == {None, *REJECTED}
    usual = {i.spoilt for n in range(400) for s in make_patient(DEMO, n).studies for i in s.images}
    assert usual == {None, *SPOILT}
    for patient in patients[:40]:
        for pair in good_pairs(patient):
            assert not pair.prior.spoilt and not pair.current.spoilt
            assert pair.prior_study.time < pair.study.time
