"""What is drawn: findings on their sides, in boxes; true transforms; sheets and a course."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import gaussian_filter, map_coordinates
from speed.registration_recipe import true_alignment

from cxr_files.errors import InputError
from cxr_hospital.acquisition import Acquisition, sample_acquisition
from cxr_hospital.canvas import Canvas
from cxr_hospital.course import DEVICES, FINDINGS, Finding, sample_finding
from cxr_hospital.drawing import draw, finding_boxes
from cxr_hospital.patient import Patient, Study, make_patient
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.sheets import contact
from cxr_hospital.sheets.course import main

SETTINGS = HospitalSettings(spoilt_share=0.0)
SIZE = 192
SIDED = (
    "Atelectasis",
    "Consolidation",
    "Lung Opacity",
    "Pleural Effusion",
    "Pneumonia",
    "Pneumothorax",
    "Lung Lesion",
    "Fracture",
)


def _case(
    index: int, projection: str = "AP", **changed: object
) -> tuple[Patient, Study, Acquisition]:
    rng = np.random.default_rng(index)
    plain = {"noise": 0.0, "collimation": 0.0, "exposure": 0.0, "contrast": 1.0, "gamma": 1.0}
    image = sample_acquisition(rng, SETTINGS, "test", projection)
    image = replace(image, **{**plain, "aspect": 1.0, "rotation": 0.0, "shift_x": 0.0, **changed})
    patient = make_patient(SETTINGS, index)
    return patient, replace(patient.studies[0], findings=(), images=(image,)), image


def _finding(name: str, index: int, **changed: object) -> Finding:
    return replace(sample_finding(np.random.default_rng(index), name, 1), **changed)


def _difference(finding: Finding, index: int, **changed: object) -> tuple[np.ndarray, list]:
    """The absolute difference with and without a finding [H, W], and the finding's boxes."""
    patient, study, image = _case(index, **changed)
    with_it = draw(patient, replace(study, findings=(finding,)), image, SIZE)
    without = draw(patient, study, image, SIZE)
    return np.abs(with_it.image - without.image), with_it.boxes.get(finding.key, [])


def test_drawing_is_reproducible_and_in_range() -> None:
    patient = make_patient(HospitalSettings(), 5)
    for study in patient.studies:
        for image in study.images:
            first, second = (draw(patient, study, image, SIZE) for _ in range(2))
            assert first.image.dtype == np.float32
            assert np.array_equal(first.image, second.image) and first.boxes == second.boxes
            assert first.image.min() >= 0 and first.image.max() <= 1
            assert first.image.std() > 0.1


@pytest.mark.parametrize(
    ("aspect", "shape"), [(1.0, (96, 96)), (1.25, (120, 96)), (0.8, (96, 120))]
)
def test_the_shorter_side_has_the_asked_size(aspect: float, shape: tuple[int, int]) -> None:
    patient, study, image = _case(1, aspect=aspect)
    assert draw(patient, study, image, 96).image.shape == shape


@pytest.mark.parametrize("name", SIDED)
@pytest.mark.parametrize("side", ["right", "left"])
def test_a_finding_is_on_its_own_side(name: str, side: str) -> None:
    """The patient's right is on the image's left."""
    for index in range(4):
        change, boxes = _difference(_finding(name, index, side=side), index)
        a, b = change[:, : SIZE // 2].mean(), change[:, SIZE // 2 :].mean()
        assert (a > 5 * b) if side == "right" else (b > 5 * a)
        assert len(boxes) == 1
        middle = boxes[0][0] + boxes[0][2] / 2
        assert (middle < SIZE / 2) == (side == "right")


@pytest.mark.parametrize("name", ["Consolidation", "Pneumonia", "Lung Opacity", "Lung Lesion"])
def test_zones_follow_each_other_downwards(name: str) -> None:
    for index in range(4):
        heights = []
        for zone in ("upper", "middle", "lower"):
            _, boxes = _difference(_finding(name, index, side="right", zone=zone), index)
            heights.append(boxes[0][1] + boxes[0][3] / 2)
        assert heights[0] + 0.08 * SIZE < heights[1] < heights[2] - 0.08 * SIZE


@pytest.mark.parametrize("name", [name for name in FINDINGS if name != "Support Devices"])
def test_more_severe_is_larger(name: str) -> None:
    for index in range(4):
        areas, sums = [], []
        for severity in (0.2, 0.4, 0.6, 0.8, 1.0):
            change, _ = _difference(_finding(name, index, severity=severity), index)
            areas.append(int((change > 0.04).sum()))
            sums.append(float(change.sum()))
        assert areas[0] > 0.001 * SIZE**2, "the mildest must still be visible"
        assert areas == sorted(areas) or np.all(np.diff(areas) > -0.06 * areas[-1])
        assert sums == sorted(sums) and sums[-1] > 1.15 * sums[0]


@pytest.mark.parametrize("projection", ["AP", "PA", "LATERAL"])
@pytest.mark.parametrize("name", FINDINGS)
def test_boxes_hold_what_changed(name: str, projection: str) -> None:
    """At least nine tenths of the squared difference lie in the boxes, a little dilated."""
    if name == "Fracture" and projection == "LATERAL":
        return
    kinds = DEVICES if name == "Support Devices" else ("",) * 6
    margin = round(0.02 * SIZE)
    for index, kind in enumerate(kinds):
        finding = _finding(name, index, **({"kind": kind, "side": "right"} if kind else {}))
        change, boxes = _difference(
            finding, index, projection=projection, rotation=4.0, shift_x=0.05, gamma=0.9
        )
        inside = np.zeros_like(change, dtype=bool)
        for x, y, w, h in boxes:
            assert x >= 0 and y >= 0 and x + w <= SIZE and y + h <= SIZE and w > 2 and h > 2
            inside[max(y - margin, 0) : y + h + margin, max(x - margin, 0) : x + w + margin] = True
        energy = change**2
        assert energy[inside].sum() >= 0.9 * energy.sum(), (finding, boxes)
        assert inside.mean() < 0.5


@pytest.mark.parametrize("name", ["Pleural Effusion", "Atelectasis", "Pneumonia", "Edema"])
def test_both_sides_have_a_box_each(name: str) -> None:
    _, boxes = _difference(_finding(name, 2, side="both"), 2)
    assert len(boxes) == 2
    assert (
        min(x + w / 2 for x, _, w, _ in boxes) < SIZE / 2 < max(x + w / 2 for x, _, w, _ in boxes)
    )


def test_boxes_without_drawing_are_those_of_the_drawing() -> None:
    for index in range(8):
        patient = make_patient(HospitalSettings(), index)
        for study in patient.studies:
            for image in study.images:
                boxes = draw(patient, study, image, SIZE).boxes
                assert finding_boxes(patient, study, image, SIZE) == boxes


def test_a_lateral_view_is_not_symmetric() -> None:
    for index in range(3):
        likeness = {}
        for projection in ("PA", "LATERAL"):
            image = draw(*_case(index, projection, marker=""), SIZE).image[: SIZE * 2 // 3]
            likeness[projection] = np.corrcoef(image.ravel(), image[:, ::-1].ravel())[0, 1]
        assert likeness["PA"] > 0.8 > 0.6 > likeness["LATERAL"]


def test_a_fracture_does_not_show_from_the_side() -> None:
    change, boxes = _difference(_finding("Fracture", 1), 1, projection="LATERAL")
    assert change.max() == 0 and boxes == []


@pytest.mark.parametrize(("letter", "expected"), [("L", 1), ("R", -1)])
def test_a_marker_stands_on_its_side_near_the_edge(letter: str, expected: int) -> None:
    for height in ("upper", "middle"):
        patient, study, image = _case(3, marker=letter, marker_height=height)
        change = (
            draw(patient, study, image, SIZE).image
            - draw(patient, study, replace(image, marker=""), SIZE).image
        )
        rows, columns = np.nonzero(np.abs(change) > 0.1)
        assert 0 < len(rows) < 0.01 * SIZE**2
        assert np.sign(columns.mean() - SIZE / 2) == expected
        assert abs(columns.mean() / SIZE - 0.5) > 0.38
        assert (rows.mean() < 0.2 * SIZE) == (height == "upper")


def test_spoilt_images_are_spoilt() -> None:
    patient, study, plain = _case(4)
    good = draw(patient, study, plain, SIZE).image

    def spoilt(how: str) -> np.ndarray:
        image = sample_acquisition(np.random.default_rng(4), SETTINGS, "x", "AP", spoilt=how)
        names = ("shift_x", "shift_y", "scale", "rotation", "exposure", "blur")
        changed = {field: getattr(image, field) for field in names}
        return draw(patient, study, replace(plain, **changed, marker=""), SIZE).image

    assert spoilt("overexposed").mean() < good.mean() - 0.15
    sharpness = np.abs(np.diff(good, axis=0)).mean()
    assert np.abs(np.diff(spoilt("blurred"), axis=0)).mean() < 0.75 * sharpness
    for how in ("clipped", "rotated"):
        assert np.abs(spoilt(how) - good).mean() > 0.08


@pytest.mark.parametrize("sheet", ["findings", "lateral", "variety", "categories"])
def test_contact_sheet(tmp_path: Path, sheet: str) -> None:
    output = tmp_path / "sheet.png"
    size = ["--tile", "64", "--pixels", "64"]
    contact.main(["--sheet", sheet, "--output", str(output), *size])
    with Image.open(output) as sheet:
        assert sheet.width >= 8 * 64 and len(np.unique(np.asarray(sheet))) > 20


def acquisition(seed: int) -> Acquisition:
    return sample_acquisition(np.random.default_rng(seed), SETTINGS, "image", "AP")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("side", [128, 512])
def test_it_is_where_the_canvas_puts_the_chest(seed: int, side: int) -> None:
    prior, current = acquisition(seed), acquisition(seed + 100)
    chest = np.random.default_rng(seed).uniform(-1, 1, (30, 2))
    errors = []
    for image in (prior, current):
        canvas = Canvas(image, side)
        errors.append(canvas.pixels(chest) - [canvas.width / 2, canvas.height / 2])
    alignment = true_alignment(prior, current, side / 2)
    np.testing.assert_allclose(alignment.apply(errors[1]), errors[0], atol=1e-9)


def test_the_warped_prior_is_the_current_image() -> None:
    """Same breath and projection: what is left of the difference is resampling and noise."""
    patient = make_patient(SETTINGS, 4)
    alike = {"aspect": 1.0, "inspiration": 0.7, "gamma": 1.0, "contrast": 1.0, "marker": ""}
    clean = dict.fromkeys(("noise", "grid", "exposure", "blur", "collimation"), 0.0)
    prior, current = (replace(acquisition(seed), **alike, **clean) for seed in (5, 6))
    before, after = (
        gaussian_filter(draw(patient, patient.studies[0], image, 128).image, 1.0)
        for image in (prior, current)
    )
    back, middle = true_alignment(prior, current, 64), np.array([63.5, 63.5])
    rows, columns = np.indices(after.shape).reshape(2, -1)
    x, y = (back.apply(np.stack([columns, rows], 1) - middle) + middle).T
    warped = map_coordinates(before, [y, x], order=1, cval=np.nan).reshape(after.shape)
    inside = np.isfinite(warped)
    assert inside.mean() > 0.5
    error = np.abs(warped - after)[inside].mean()
    assert error < 0.2 * np.abs(before - after)[inside].mean()


DOCS = Path(__file__).parents[3] / "docs"


def test_the_page_in_docs_is_as_the_program_writes_it(tmp_path: Path) -> None:
    main(["--output", str(tmp_path / "patient_course.png"), "--page", str(tmp_path / "page.md")])
    written = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert written == (DOCS / "patient_course.md").read_text(encoding="utf-8")
    sizes = {Image.open(f / "patient_course.png").size for f in (tmp_path, DOCS / "images")}
    assert len(sizes) == 1
    assert "**resolved**" in written and "**new**" in written and "**improved**" in written


def test_another_hospital_and_a_patient_without_a_good_image(tmp_path: Path) -> None:
    settings = '{"seed": 7, "lateral_only_share": 1.0}'
    with pytest.raises(InputError, match="has no good frontal image; try another"):
        main(["--settings", settings, "--output", str(tmp_path / "x.png")])
