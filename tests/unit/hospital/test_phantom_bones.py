"""The hospital's bones and its COVIDx copy: layouts, pictures, reports, and no shortcuts."""

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from phantom_fixtures import SETTINGS
from PIL import Image

from cxr_hospital.acquisition import sample_acquisition
from cxr_hospital.anatomy import SIDES
from cxr_hospital.drawing import draw
from cxr_hospital.musculoskeletal.abnormalities import KINDS, sample_abnormality
from cxr_hospital.musculoskeletal.drawing import REGIONS, VIEWS, BoneView, draw_bones
from cxr_hospital.musculoskeletal.report import bone_report, bone_sentences
from cxr_hospital.musculoskeletal.skeleton import sample_build
from cxr_hospital.musculoskeletal.study import bone_patient, bone_studies
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.sheets import contact
from cxr_hospital.writers.covidx import covidx_case, ground_glass
from cxrflow.data.layouts import layout
from cxrflow.data.readers.common_tables import Request, Tables
from cxrflow.data.readers.covidx import CLASSES
from cxrflow.reports.texts import read_texts

DEFAULT = HospitalSettings()
STUDIES = bone_studies(DEFAULT, "musculoskeletal", 600)


def read(root: Path, name: str) -> Tables:
    tables = layout(name).read(root / name, Request())
    assert not any(drop.failed for drops in tables.dropped.values() for drop in drops)
    assert tables.images["failure"].isna().all()
    return tables


def counts(root: Path, name: str) -> dict[str, int]:
    manifest: dict[str, int] = json.loads((root / name / "MANIFEST.json").read_text())["counts"]
    return manifest


def test_the_copies_are_what_their_readers_expect(written: Path) -> None:
    bones = read(written, "musculoskeletal")
    facts = counts(written, "musculoskeletal")
    assert (len(bones.studies), len(bones.images)) == (14, facts["images"])
    reports = list(read_texts("musculoskeletal", written / "musculoskeletal"))
    assert [report.failure for report in reports] == [None] * 14
    assert {report.study_id for report in reports} == set(bones.studies["study_id"])
    mura = read(written, "mura")
    facts = counts(written, "mura")
    assert len(mura.images) == facts["images"] and len(mura.studies) == facts["studies"] == 28
    assert mura.labels["Abnormal"].sum() == facts["abnormal_studies"]
    assert mura.splits is not None and set(mura.splits["split"]) == {"train", "test"}
    paths = [written / "mura" / path for path in mura.images["image_path"]]
    assert {Image.open(path).mode for path in paths} == {"L", "RGB"}
    assert len({Image.open(path).size for path in paths}) > 20
    covidx = read(written, "covidx")
    facts = counts(written, "covidx")
    assert len(covidx.images) == facts["train_images"] + facts["test_images"] == 48
    assert [int(covidx.labels[name].sum()) for name in CLASSES] == [facts[name] for name in CLASSES]
    lines = [
        len(line.split())
        for line in (written / "covidx/labels/test_COVIDx4.txt").read_text().splitlines()
    ]
    assert set(lines) == {3, 4}
    assert covidx.images["subject_id"].nunique() < len(covidx.images)


def film(view: str = "frontal", seed: int = 3) -> BoneView:
    settings = DEFAULT.model_copy(update={"spoilt_share": 0.0})
    image = sample_acquisition(np.random.default_rng(seed), settings, "", "PA")
    return BoneView(view, False, replace(image, noise=0.0, grid=0.0, collimation=0.0, rotation=0.0))


@pytest.mark.parametrize("part", REGIONS)
def test_what_is_wrong_shows(part: str) -> None:
    """At every severity, in the clearer of two films, against the same arm when nothing is."""
    rng = np.random.default_rng(5)
    build = sample_build(rng)
    views = ("frontal", "lateral")
    normal = {view: draw_bones(part, "left", build, (), 1, film(view), 128) for view in views}
    assert np.abs(normal["frontal"] - normal["lateral"]).mean() > 0.003
    for kind in KINDS:
        for _ in range(3):
            defect = sample_abnormality(rng, part, kind)
            images = {
                view: draw_bones(part, "left", build, (defect,), 1, film(view), 128)
                for view in views
            }
            changed = max(int((np.abs(images[view] - normal[view]) > 0.12).sum()) for view in views)
            assert changed > 25, (kind, defect.site.words, defect.severity)


def test_left_is_right_turned_over() -> None:
    build = sample_build(np.random.default_rng(1))
    straight = film()
    centred = replace(straight.acquisition, shift_x=0.0)
    for region in REGIONS:
        a, b = (
            draw_bones(region, side, build, (), 1, replace(straight, acquisition=centred), 96)
            for side in ("left", "right")
        )
        assert np.abs(a - b[:, ::-1]).mean() < 0.02  # the grain is not turned over
        assert region == "finger" or np.abs(a - b).mean() > 0.02


def test_a_patient_does_not_depend_on_how_many_there_are() -> None:
    for hospital in ("musculoskeletal", "mura"):
        few, many = (bone_studies(DEFAULT, hospital, number) for number in (20, 60))
        assert few == many[:20]
    assert bone_patient(DEFAULT, "mura", 3) != bone_patient(DEFAULT, "musculoskeletal", 3)
    assert len({len(bone_patient(DEFAULT, "mura", index)) for index in range(30)}) == 2


def test_size_of_the_set_and_of_its_reports() -> None:
    """ConVIRT, section 4.1: 2.5 images and 8.0 sentences a study."""
    assert abs(np.mean([len(study.films) for study in STUDIES]) - 2.5) < 0.1
    texts = [
        sum(map(len, bone_sentences(study, np.random.default_rng(number))))
        for number, study in enumerate(STUDIES)
    ]
    assert abs(np.mean(texts) - 8.0) < 0.5
    assert {defect.kind for study in STUDIES for defect in study.defects} == set(KINDS)
    assert {study.region for study in STUDIES} == set(REGIONS)


#: What affirms a thing, where the sentence is no denial.
AFFIRMED = {
    "fracture": r"fracture",
    "hardware": r"plate|hardware|fixation",
    "lytic lesion": r"(lytic|lucent) lesion|lucency",
    "dislocation": r"dislocat",
    "degeneration": r"degenerative|osteoarthritis|osteophytes",
}


def test_reports_say_what_is_there_and_nothing_else() -> None:
    settings = DEFAULT.model_copy(update={"typo_share": 0.0})
    for study in STUDIES[:250]:
        text = bone_report(settings, study)
        findings, impression = re.split(r"IMPRESSION:", text.split("FINDINGS:")[1])
        kinds = {one.kind for one in study.defects}
        for section in (findings, impression):
            sentences = re.split(r"(?<=\.)\s+", " ".join(section.split()))
            positive = " ".join(one for one in sentences if not one.startswith("No "))
            affirmed = {
                kind for kind, words in AFFIRMED.items() if re.search(words, positive, re.I)
            }
            assert affirmed == kinds, text
        for one in study.defects:
            assert one.site.words in " ".join(findings.split())
        assert study.side in text.lower() and study.region in text.lower()


def test_films_do_not_tell_what_is_wrong() -> None:
    """Pose, tone, number of films and markers are drawn without regard to the findings."""
    studies = bone_studies(DEFAULT, "mura", 1500)
    abnormal = np.array([bool(study.defects) for study in studies])
    assert 0.41 < abnormal.mean() < 0.49
    first = [study.films[0] for study in studies]
    values = {
        "films": [len(study.films) for study in studies],
        "marked": [view.marked for view in first],
        **{
            name: [getattr(view.acquisition, name) for view in first]
            for name in ("gamma", "contrast", "noise", "aspect", "rotation", "scale", "shift_x")
        },
    }
    for name, column in values.items():
        numbers = np.asarray(column, dtype=float)
        assert abs(np.corrcoef(numbers, abnormal)[0, 1]) < 0.09, name
    for group in ([study.region for study in studies], [study.side for study in studies]):
        shares = pd.Series(abnormal).groupby(group).mean()
        assert shares.max() - shares.min() < 0.17


def test_ground_glass_is_on_both_sides_at_the_wall() -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        hazes = ground_glass(rng)
        assert {opacity.side for opacity in hazes} == set(SIDES) and len(hazes) >= 8
        assert min(opacity.across for opacity in hazes) > 0.6  # outwards, of half a zone's width
    case = next(
        case
        for case in (covidx_case(DEFAULT, index) for index in range(99))
        if case.label == "COVID-19"
    )
    bare = replace(case.study, findings=())
    image = replace(case.study.images[0], noise=0.0, shift_x=0.0, rotation=0.0, spoilt=None)
    with_it, without = (draw(case.patient, study, image, 128).image for study in (case.study, bare))
    haze = (with_it - without).clip(0).sum(axis=0)
    width = len(haze)
    across = np.abs(np.arange(width) + 0.5 - width / 2) / (width / 2)
    assert 0.3 < haze[: width // 2].sum() / haze.sum() < 0.7
    assert (haze * across).sum() / haze.sum() > 0.4  # lungs go from 0.1 to 0.75


def test_covidx_looks_are_apart_from_the_class_unless_asked() -> None:
    def table(settings: HospitalSettings) -> pd.DataFrame:
        cases = [covidx_case(settings, index) for index in range(900)]
        return pd.DataFrame(
            {
                "covid": [case.label == "COVID-19" for case in cases],
                "gamma": [case.study.images[0].gamma for case in cases],
                "png": [case.file.endswith("png") for case in cases],
                "frontal": [case.study.images[0].projection == "AP" for case in cases],
                "aspect": [case.study.images[0].aspect for case in cases],
            }
        ).astype(float)

    correlations = table(DEFAULT).corr()["covid"].drop("covid")
    assert (correlations.abs() < 0.12).all(), correlations
    confused = table(DEFAULT.model_copy(update={"covidx_shortcut": True})).corr()["covid"]
    assert confused["gamma"] > 0.7 and confused["png"] < -0.9 and confused["frontal"] > 0.9
    tested = [case for case in (covidx_case(DEFAULT, n) for n in range(240)) if case.tested]
    shares = Counter(case.label for case in tested)
    assert max(shares.values()) - min(shares.values()) <= 3
    person = {
        case.patient_id: case.tested for case in map(lambda n: covidx_case(DEFAULT, n), range(240))
    }
    assert len(person) < 240 and all(person[case.patient_id] for case in tested)


@pytest.mark.parametrize("sheet", ["bones", "views", "covidx"])
def test_class_sheet(tmp_path: Path, sheet: str) -> None:
    output = tmp_path / "sheet.png"
    size = ["--tile", "32", "--pixels", "48"]
    contact.main(["--sheet", sheet, "--output", str(output), *size])
    rows, columns = (2 * len(CLASSES), 7) if sheet == "covidx" else (len(REGIONS), 6)
    assert len(VIEWS) * 2 == 1 + len(KINDS) == 6
    assert Image.open(output).size == (columns * 32, rows * (32 + 13))


def test_small_hospitals_have_every_part() -> None:
    small = bone_studies(SETTINGS, "mura", 60)
    assert {study.region for study in small} == set(REGIONS)
