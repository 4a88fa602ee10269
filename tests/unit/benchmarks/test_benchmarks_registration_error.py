"""Registration against the truth: geometry, what is scored, what a wrong convention would score."""

from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmark_fakes import QUICK, metrics_of, store_of, write_cohort
from config_overlays import real
from PIL import Image
from speed.registration_recipe import true_alignment

from command_options import options
from cxr_files.atomic import write_json
from cxr_files.errors import InputError
from cxr_hospital.acquisition import Acquisition, sample_acquisition
from cxr_hospital.canvas import Canvas
from cxr_hospital.drawing import draw
from cxr_hospital.patient import make_patient
from cxr_hospital.settings import HospitalSettings
from cxrflow.benchmarks.evaluate import main
from cxrflow.benchmarks.temporal.registration_error import (
    frame,
    mutual_information,
    statistics,
    true_alignments,
)
from cxrflow.images.geometry import Geometry
from cxrflow.images.registration import Alignment, register
from cxrflow.images.settings import RegistrationSettings
from cxrflow.images.store import PixelStore
from cxrflow.metrics.registration import (
    corner_distance,
    rotation_error,
    scale_error,
    similarities,
)
from cxrflow.papers import load_paper
from cxrflow.show.tables.cells import make_cells
from cxrflow.show.tables.results import Results

HOSPITAL = HospitalSettings(spoilt_share=0.0)
SIZE, PAIRS = 64, 3
SETTINGS = RegistrationSettings(starts=3, least_side=32)


def acquisition(number: int, **values: object) -> Acquisition:
    rng = np.random.default_rng(number)
    return replace(sample_acquisition(rng, HOSPITAL, f"i{number}", "PA"), **values)


def truth_of(images: list[Acquisition]) -> pd.DataFrame:
    names = ("image_id", "shift_x", "shift_y", "scale", "rotation")
    rows = [{name: getattr(image, name) for name in names} for image in images]
    return pd.DataFrame(rows).assign(usable=True)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pairs of images of a patient each, drawn by the hospital, their pose and their store."""
    folder = tmp_path_factory.mktemp("registration")
    images, rows = [], []
    for number in range(PAIRS):
        patient = make_patient(HOSPITAL, number)
        for place in (2 * number, 2 * number + 1):
            taken = acquisition(place, aspect=1.0)
            image = draw(patient, patient.studies[0], taken, 128).image
            Image.fromarray(np.rint(image * 255).astype(np.uint8)).save(folder / f"i{place}.png")
            images.append(taken)
        pair = {"image_id": f"i{2 * number + 1}", "prior_image_id": f"i{2 * number}"}
        rows += [{**pair, "subject_id": f"p{number}", "sample_id": f"{number}/{n}"} for n in "ab"]
    write_cohort(folder / "cohort", "samples.parquet", pd.DataFrame(rows).assign(split="test"))
    truth_of(images).to_parquet(folder / "TRUTH.parquet")
    store_of(folder, (image.image_id for image in images), root=".")
    return folder


Way = Callable[[Path, str, str, Alignment], Alignment | None]


def scored(world: Path, output: Path, way: Way, **changed: pd.DataFrame) -> dict:
    """metrics.json of alignments that ``way`` makes of each pair and its truth."""
    store = PixelStore(world / "pixels")
    table = pd.read_parquet(world / "cohort" / "samples.parquet").drop_duplicates("image_id")
    truth = pd.read_parquet(world / "TRUTH.parquet").set_index("image_id")
    rows = []
    for pair, true in zip(table.itertuples(), true_alignments(table, truth, store), strict=True):
        said = way(world, pair.image_id, pair.prior_image_id, true)
        values = asdict(said or Alignment(*[np.nan] * 5))
        ids = {"image_id": pair.image_id, "prior_image_id": pair.prior_image_id}
        rows.append({**ids, **values, "failure": None if said else "no overlap"})
    output.mkdir()
    pd.DataFrame(rows).astype({"failure": "str"}).to_parquet(output / "alignments.parquet")
    content = {"size": SIZE, "geometry": f"shorter{SIZE}", "pixels": store.fingerprint}
    write_json(output / "registration.json", content | {"settings": SETTINGS.model_dump()})
    changed.get("truth", truth.reset_index()).to_parquet(output / "TRUTH.parquet")
    read = {"cohort": world / "cohort", "pixels": world / "pixels", "truth": output}
    read |= {"registration": output, "settings": {**QUICK, "geometry": f"shorter{SIZE}"}}
    return metrics_of(main, "registration_error", **read, task="t", output=output / "out")


def values_of(said: dict) -> dict[str, float]:
    return {name: one["value"] for name, one in said["metrics"].items()}


def registered(world: Path, current: str, prior: str, true: Alignment) -> Alignment:
    store = PixelStore(world / "pixels")
    return register(*store.read(store.rows([current, prior])), SETTINGS)


def test_errors_are_those_of_the_geometry() -> None:
    rng = np.random.default_rng(0)
    values = rng.uniform([0.8, -170, -9, -9], [1.2, 170, 9, 9], (2, 20, 4))
    said, true = (similarities(one[:, 0], one[:, 1], one[:, 2:]) for one in values)
    pairs = [[Alignment(*row) for row in one.tolist()] for one in values]
    expected = [a.distance(b, 100) for a, b in zip(*pairs, strict=True)]
    np.testing.assert_allclose(corner_distance(said, true, 100), expected)
    apart = np.abs(values[0, :, 1] - values[1, :, 1])
    np.testing.assert_allclose(rotation_error(said, true), np.minimum(apart, 360 - apart))
    ratio = values[0, :, 0] / values[1, :, 0]
    np.testing.assert_allclose(scale_error(said, true), np.exp(np.abs(np.log(ratio))) - 1)


@pytest.mark.parametrize("geometry", ["shorter64", "longer64", "longer80crop64"])
def test_the_truth_is_in_stored_pixels(geometry: str) -> None:
    """Of portrait and landscape images: a point of the chest is where boxes of it would be."""
    images = [acquisition(1, aspect=1.25), acquisition(2, aspect=0.8)]
    chest = np.random.default_rng(0).uniform(-1, 1, (30, 2))
    placements, stored = {}, []
    for row, taken in enumerate(images):
        canvas = Canvas(taken, 512)
        placed = Geometry.parse(geometry).place(canvas.height, canvas.width)
        assert canvas.height != canvas.width
        placements[row] = placed
        points = np.column_stack([canvas.pixels(chest), np.zeros((30, 2))])
        stored.append(placed.boxes(points)[:, :2] - placed.size / 2)
    store = Namespace(placement=placements.get, rows=lambda ids: [int(i[1:]) - 1 for i in ids])
    table = pd.DataFrame({"image_id": ["i2"], "prior_image_id": ["i1"]})
    (true,) = true_alignments(table, truth_of(images).set_index("image_id"), store)
    # A side is truncated to whole pixels, the scale of the other one is exact.
    np.testing.assert_allclose(true.apply(stored[1]), stored[0], atol=0.6)
    relative = true_alignment(*images, 1)
    half = [frame(placements[row])[0] for row in (0, 1)]
    assert true.rotation == pytest.approx(relative.rotation)
    assert true.scale == pytest.approx(relative.scale * half[0] / half[1])


def test_what_is_true_has_no_error(world: Path, tmp_path: Path) -> None:
    said = scored(world, tmp_path / "true", lambda world, now, before, true: true)
    values = values_of(said)
    for name in ("corner", "corner_90", "rotation", "scale"):
        assert values[f"{name}/registered"] == pytest.approx(0, abs=1e-5)
    assert values["corner/identity"] > 2 and values["worse/registered"] == 0
    assert values["mutual_information/registered"] == values["mutual_information/true"]
    assert said["metrics"]["corner/registered"]["n"] == PAIRS  # not once a finding
    assert said["task"] == "t" and said["data"]["not_registered"] == 0


def test_registration_comes_near_and_wrong_conventions_do_not(world: Path, tmp_path: Path) -> None:
    right = values_of(scored(world, tmp_path / "right", registered))
    assert right["corner/registered"] < 2 < right["corner/identity"] / 2
    assert right["rotation/registered"] < 0.7 and right["scale/registered"] < 3
    information = [right[f"mutual_information/{way}"] for way in ("identity", "true", "registered")]
    assert information[0] < 0.9 * min(information[1:])

    def there_and_back(world: Path, now: str, before: str, true: Alignment) -> Alignment:
        return registered(world, now, before, true).inverse()

    def turned(world: Path, now: str, before: str, true: Alignment) -> Alignment:
        said = registered(world, now, before, true)
        return replace(said, rotation=-said.rotation)

    wrong = values_of(scored(world, tmp_path / "wrong", there_and_back))
    assert wrong["corner/registered"] > 1.5 * wrong["corner/identity"]
    assert wrong["worse/registered"] == 100
    other = values_of(scored(world, tmp_path / "other", turned))
    assert other["rotation/registered"] > 3 * right["rotation/registered"]


def test_mutual_information_is_that_of_the_registration(world: Path) -> None:
    found = registered(world, "i1", "i0", Alignment())
    pairs = (("i1", "i0"), (found, Alignment()))
    there, here = mutual_information(world / "pixels", pairs, SETTINGS)
    assert there == pytest.approx(found.mutual_information, rel=0.01) and here < there
    far = replace(found, shift_x=1000.0)
    assert np.isnan(mutual_information(world / "pixels", (("i1", "i0"), (far,)), SETTINGS)).all()


def test_what_cannot_be_scored(world: Path, tmp_path: Path) -> None:
    truth = pd.read_parquet(world / "TRUTH.parquet")
    spoilt = truth.assign(usable=truth["image_id"] != "i3")[truth["image_id"] != "i4"]
    said = scored(world, tmp_path / "lost", lambda *_: None, truth=spoilt)
    reasons = {drop["reason"]: drop["count"] for drop in said["data"]["dropped"]}
    assert reasons == {"the truth lacks an image": 1, "an image is spoilt": 1}
    # A pair that was not registered stays as it was.
    values = values_of(said)
    assert said["data"]["not_registered"] == 1
    assert values["corner/registered"] == values["corner/identity"] > 0
    record = {"size": SIZE, "geometry": "shorter64", "pixels": "others", "settings": {}}
    write_json(tmp_path / "lost" / "registration.json", record)
    read = {"cohort": world / "cohort", "pixels": world / "pixels", "truth": world}
    read |= {"registration": tmp_path / "lost", "settings": {"geometry": "shorter64"}}
    with pytest.raises(InputError, match=r"made from other pixels.*expected one store"):
        main(["registration_error", *options(**read, output=tmp_path / "none")])


def test_quantiles_of_resamples() -> None:
    whole = [f"{n}/registered" for n in ("corner", "rotation", "scale", "mutual_information")]
    names = [*whole, *(name.replace("registered", "identity") for name in whole)]
    names += ["mutual_information/true"]
    errors = np.arange(10.0)[::-1]
    rows = pd.DataFrame(dict.fromkeys(names, errors)).assign(**{"corner/identity": 4.5})
    counts = np.stack([np.ones(10), np.eye(10)[0] * 10, np.arange(10) % 2 * 2.0])
    found = statistics(rows, counts)
    np.testing.assert_array_equal(found["corner/registered"], [4, 9, 4])
    np.testing.assert_array_equal(found["corner_90/registered"], [8, 9, 8])
    np.testing.assert_array_equal(found["worse/registered"], [50, 100, 40])
    np.testing.assert_array_equal(found["mutual_information/true"], [4.5, 9, 4])


def test_real_images_have_no_truth(overlay: Callable) -> None:
    config = overlay({"papers": ["biovil_t"]})
    assert "biovil_t/registration_error" in config.tasks.available
    assert ("biovil_t/progression", "shorter128") in config.whole.stores
    names = ("mimic_cxr", "mimic_cxr_jpg", "ms_cxr", "ms_cxr_t", "chest_imagenome")
    published = overlay({"papers": ["biovil_t"], "datasets": real(*names)}, check_roots=False)
    assert "biovil_t/temporal_classification_registered" in published.tasks.available
    assert "biovil_t/registration_error" not in published.tasks.available
    table = load_paper("biovil_t").tables["registration"]
    reasons = {cell.reason for cell in make_cells(table, Results({}, {}))}
    assert reasons == {None, table.rows[0].reason} and "not known" in str(table.rows[0].reason)
