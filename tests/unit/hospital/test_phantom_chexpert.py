"""The CheXpert and 8x200 copies: published layout, labels that are true, cases drawn to order."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cohort_fixtures import cohort
from PIL import Image

from cxr_hospital.acquisition import LOOKS
from cxr_hospital.patient import hospital
from cxr_hospital.report import report_of
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.wording.retrieval import QUERIES
from cxr_hospital.writers.chexpert import (
    CATEGORIES,
    LOOK,
    Record,
    labels_of,
    make_chexpert_patient,
    records,
    sizes,
    truth,
)
from cxr_labels.observations import OBSERVATIONS as LABELLED
from cxr_labels.observations import POSITIVE, UNCERTAIN
from cxr_labels.scope.labeller import ScopeLabeller
from cxrflow.data.readers.chexpert import OBSERVATIONS

SETTINGS = HospitalSettings(patients=400)
# Of train.csv and valid.csv, as published.
COLUMNS = ("Path", "Sex", "Age", "Frontal/Lateral", "AP/PA", *OBSERVATIONS)
NAMES = list(OBSERVATIONS)


def lists(written: Path) -> dict[str, pd.DataFrame]:
    names = ("train.csv", "valid.csv", "test_labels.csv")
    return {name: pd.read_csv(written / "chexpert" / name) for name in names}


def test_chexpert_has_the_published_layout(written: Path) -> None:
    tables = lists(written)
    for name in ("train.csv", "valid.csv"):
        assert tuple(tables[name]) == COLUMNS
        assert tables[name]["Path"].str.startswith("CheXpert-v1.0-small/").all()
        lateral = tables[name]["Frontal/Lateral"] == "Lateral"
        assert tables[name].loc[lateral, "AP/PA"].isna().all()
        assert tables[name].loc[~lateral, "AP/PA"].isin(["AP", "PA"]).all()
    assert tuple(tables["test_labels.csv"]) == ("Path", *OBSERVATIONS)
    assert tables["test_labels.csv"]["Path"].str.startswith("test/").all()
    paths = pd.concat(tables.values())["Path"].str.removeprefix("CheXpert-v1.0-small/")
    files = {
        str(p.relative_to(written / "chexpert")) for p in (written / "chexpert").rglob("*.jpg")
    }
    assert sorted(paths) == sorted(files)
    assert Image.open(written / "chexpert" / paths.iloc[0]).mode == "L"
    for name in ("valid.csv", "test_labels.csv"):
        assert tables[name][NAMES].isin([0, 1]).all(axis=None)
    assert set(tables["train.csv"]["No Finding"].dropna()) <= {0, 1}


def test_labels_of_train_are_what_reports_say_and_reports_say_no_untruth() -> None:
    states = []
    for member in records(SETTINGS)[: sizes(SETTINGS).train]:
        patient = make_chexpert_patient(SETTINGS, member)
        for number, study in enumerate(patient.studies):
            labels, true = labels_of(SETTINGS, member, patient, number), truth(study)
            states += [labels[name] for name in NAMES]
            for name in set(NAMES) - {"Lung Opacity", "Cardiomegaly", "No Finding"}:
                if labels[name] in (0, 1):
                    assert labels[name] == true[name], (member, number, name)
    counts = pd.Series(states, dtype="float64").value_counts(dropna=False)
    assert set(counts.dropna().index[~counts.index.isna()]) == {-1, 0, 1}
    assert counts[np.nan] > counts[1.0] > counts[-1.0] > 0


def test_cases_drawn_to_order_show_one_thing(written: Path) -> None:
    root = written / "retrieval_8x200"
    candidates = pd.read_csv(root / "image-retrieval/candidate.csv")
    assert tuple(candidates) == COLUMNS
    assert candidates[NAMES].isin([0, 1]).all(axis=None)
    assert (candidates[NAMES].sum(axis=1) == 1).all()
    assert set(candidates[NAMES].idxmax(axis=1)) == set(CATEGORIES)
    again = (root / "text-retrieval/candidate.csv").read_bytes()
    assert again == (root / "image-retrieval/candidate.csv").read_bytes()
    queries = (root / "image-retrieval/query.csv").read_bytes()
    assert queries.count(b"\r\n") == queries.count(b"\n") == 1 + len(CATEGORIES)
    # CheXpert's own list has them too, with the same labels.
    train = lists(written)["train.csv"].set_index("Path")
    pd.testing.assert_frame_equal(train.loc[candidates["Path"]].reset_index(), candidates)
    image_queries = pd.read_csv(root / "image-retrieval/query.csv")
    assert not set(image_queries["Path"]) & set(candidates["Path"])
    labels = train.loc[image_queries["Path"], NAMES]
    assert (labels.idxmax(axis=1).to_numpy() == image_queries["Variable"].to_numpy()).all()


def test_what_is_drawn_to_order_is_there_in_truth() -> None:
    ordered = [member for member in records(SETTINGS) if member.orders]
    size = sizes(SETTINGS)
    orders = [order for member in ordered for order in member.orders]
    assert len(orders) == len(CATEGORIES) * (size.candidates + size.queries)
    assert sum(len(member.orders) == 2 for member in ordered) == 6
    for member in ordered:
        patient = make_chexpert_patient(SETTINGS, member)
        for number, order in enumerate(member.orders):
            study = patient.studies[number]
            expected = [] if order.category == "No Finding" else [order.category]
            assert [finding.name for finding in study.findings] == expected
            assert len(study.images) == 1 and study.images[0].frontal
            if order.role == "query":
                assert study.images[0].spoilt is None
                assert all(finding.severity >= 0.6 for finding in study.findings)


def test_sizes_follow_the_hospital_up_to_the_published_ones() -> None:
    demo, large = sizes(HospitalSettings()), sizes(HospitalSettings(patients=100_000))
    assert (demo.candidates, demo.queries) == (60, 10)
    assert (large.candidates, large.queries, large.valid, large.test) == (200, 10, 200, 500)
    assert {len(member.orders) for member in records(HospitalSettings())} == {0, 1, 2}


def test_a_patient_depends_on_seed_and_number_alone() -> None:
    patient = make_chexpert_patient(SETTINGS, Record(3, "train"))
    same = make_chexpert_patient(HospitalSettings(patients=2000), Record(3, "train"))
    another = make_chexpert_patient(SETTINGS, Record(4, "train"))
    assert patient == same and patient.seed != another.seed


def test_another_look_than_that_of_the_rsna_copy() -> None:
    """No tone that both hospitals have: every gamma of one is above every one of the other."""
    assert LOOK.gamma[0] > max(look.gamma[1] for look in LOOKS.values())
    images = [
        image
        for member in records(SETTINGS)[:40]
        for study in make_chexpert_patient(SETTINGS, member).studies
        for image in study.images
    ]
    assert all(LOOK.gamma[0] <= image.gamma <= LOOK.gamma[1] for image in images)
    assert all(image.bits == 8 and not image.monochrome1 for image in images)
    assert 0.6 < np.mean([image.collimation > 0 for image in images]) < 0.9


# --- texts ----------------------------------------------------------------------------------------


def test_texts_are_in_sentences_that_no_report_has() -> None:
    queries = [text for texts in QUERIES.values() for text in texts]
    assert set(QUERIES) == set(CATEGORIES) and {len(texts) for texts in QUERIES.values()} == {5}
    assert len(set(queries)) == 40
    sentences = {
        sentence
        for patient in hospital(HospitalSettings(patients=150))
        for study in patient.studies
        for report in [report_of(SETTINGS, patient, study)]
        for sentence in (*report.findings, *report.impression)
    }
    assert not sentences & set(queries)


@pytest.mark.parametrize("category", CATEGORIES)
def test_texts_name_no_other_category(category: str) -> None:
    read = ScopeLabeller().label([[text] for text in QUERIES[category]])
    for text, labels in zip(QUERIES[category], read, strict=True):
        values = dict(zip(LABELLED, labels, strict=True))
        categories = {name for name in CATEGORIES if values[name] in (POSITIVE, UNCERTAIN)}
        assert categories <= {category, "No Finding"}, text


# --- from copy to cohort --------------------------------------------------------------------------


def test_the_copies_are_read_whole(written: Path, tmp_path: Path) -> None:
    def make(layout: str, *options: object, **settings: object) -> pd.DataFrame:
        named = ("--layout", layout, "--root", written / layout, *options)
        flow, rows = cohort(tmp_path / layout, *named, max_failed_share=0, **settings)
        assert flow["synthetic"]
        return rows

    images = ("--images-layout", "chexpert", "--images-root", written / "chexpert")
    searched = make("retrieval_8x200", *images, kind="retrieval")
    assert len(pd.read_parquet(tmp_path / "retrieval_8x200/queries.parquet")) == 40
    splits = {
        "method": "official",
        "parts": {"train": "train", "valid": "test"},
        "validation": {"count": 2},
    }
    option = ("--held-out", f"retrieval_8x200={written / 'retrieval_8x200'}")
    rows = make("chexpert", *option, kind="classification", splits=splits)
    assert not set(rows["subject_id"]) & set(searched["subject_id"])
    assert set(rows["split"]) == {"train", "validate", "test"}
    rows = make("rsna", kind="classification", splits={"method": "official"})
    assert rows["split"].value_counts().to_dict() == {"train": 22, "test": 8, "validate": 2}
    assert {label[0] for label in rows.loc[rows["split"] == "test", "labels"]} == {0, 1}


def test_a_larger_test_part_holds_the_smaller_one() -> None:
    more = SETTINGS.model_copy(update={"chexpert_test_patients": 40})
    parts = [[r for r in records(one) if r.split == "test"] for one in (SETTINGS, more)]
    assert (len(parts[0]), len(parts[1])) == (6, 40) and parts[1][:6] == parts[0]
    assert parts[0] != parts[1] and records(SETTINGS)[:-6] == records(more)[:-40]
    drawn = [make_chexpert_patient(one, parts[0][0]) for one in (SETTINGS, more)]
    assert drawn[0] == drawn[1]
    assert "chexpert_test_patients" not in SETTINGS.record()
    assert "chexpert_test_patients" not in HospitalSettings.fields_of("mimic_cxr")
