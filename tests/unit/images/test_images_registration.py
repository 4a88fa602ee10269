"""Registration and the filter before it: geometry, what is found against the truth, bad input."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk
from numpy.typing import NDArray
from scipy.ndimage import affine_transform
from sklearn.metrics import mutual_info_score
from speed.registration_recipe import (
    by_the_recipe,
    gradient_descent,
    regular_steps,
    true_alignment,
)

from cxr_files.errors import InputError
from cxr_hospital.acquisition import sample_acquisition
from cxr_hospital.drawing import draw
from cxr_hospital.patient import make_patient
from cxr_hospital.settings import HospitalSettings
from cxrflow.images import bilateral as module
from cxrflow.images.bilateral import bilateral, range_weights
from cxrflow.images.geometry import Geometry
from cxrflow.images.registration import (
    Alignment,
    RegistrationError,
    as_transform,
    random_starts,
    register,
    warp,
)
from cxrflow.images.settings import PixelSettings, RegistrationSettings
from cxrflow.images.shards import read_images

SETTINGS = RegistrationSettings()
SIZE = 128
HOSPITAL = HospitalSettings(spoilt_share=0.0)
TURNED = Alignment(scale=1.06, rotation=-7.0, shift_x=9.0, shift_y=-5.5)


def drawn_pair(number: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8], Alignment]:
    """A patient's current and prior image, another breath and tone each, and how they truly lie."""
    patient = make_patient(HOSPITAL, number)
    acquisitions = [
        replace(
            sample_acquisition(np.random.default_rng(100 * number + i), HOSPITAL, "image", "PA"),
            aspect=1.0,
        )
        for i in (0, 1)
    ]
    prior, current = (
        np.rint(draw(patient, patient.studies[0], taken, SIZE).image * 255).astype(np.uint8)
        for taken in acquisitions
    )
    return current, prior, true_alignment(*acquisitions, SIZE / 2)


def error(found: Alignment, true: Alignment) -> float:
    return found.distance(true, SIZE)


def test_an_alignment_and_its_inverse() -> None:
    points = np.random.default_rng(0).uniform(-64, 64, (20, 2))
    np.testing.assert_allclose(TURNED.inverse().apply(TURNED.apply(points)), points, atol=1e-9)
    theirs = [as_transform(TURNED).TransformPoint(point) for point in points.tolist()]
    np.testing.assert_allclose(TURNED.apply(points), theirs)
    quarter = Alignment(scale=2.0, rotation=90.0, shift_x=1.0)
    np.testing.assert_allclose(quarter.apply(np.array([[1.0, 0.0]])), [[1.0, 2.0]], atol=1e-12)
    assert error(Alignment(), replace(Alignment(), shift_x=3.0, shift_y=4.0)) == pytest.approx(5.0)


def test_a_warp_fetches_each_pixel_from_the_prior() -> None:
    _, prior, _ = drawn_pair(3)
    angle, middle = np.deg2rad(TURNED.rotation), (SIZE - 1) / 2
    # scipy counts rows first.
    turn = TURNED.scale * np.array(
        [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
    )
    offset = np.array([TURNED.shift_y, TURNED.shift_x]) + middle - turn @ np.full(2, middle)
    expected = affine_transform(prior.astype(np.float64), turn, offset, order=1, cval=0.0)
    moved = warp(prior, TURNED)
    assert moved.dtype == np.uint8 and moved.shape == prior.shape
    rows, columns = np.indices(prior.shape)
    x, y = TURNED.apply(np.stack([columns.ravel(), rows.ravel()], 1) - middle).T
    inside = (np.maximum(abs(x), abs(y)) < middle - 1).reshape(prior.shape)
    outside = (np.maximum(abs(x), abs(y)) > middle + 1).reshape(prior.shape)
    assert 0.6 < inside.mean() < 1 and outside.any()
    assert np.abs(moved - expected)[inside].max() <= 0.5 + 1e-6
    assert not moved[outside].any()
    np.testing.assert_array_equal(warp(prior, Alignment()), prior)


@pytest.mark.parametrize("true", [TURNED, Alignment(0.92, 11.0, -14.0, 8.0)])
def test_a_known_warp_is_recovered(true: Alignment) -> None:
    current, _, _ = drawn_pair(1)
    prior = warp(current, true.inverse())
    assert error(register(current, prior, SETTINGS), true) < 0.5
    assert error(Alignment(), true) > 15


def test_identical_images_stay_where_they_are() -> None:
    current, _, _ = drawn_pair(2)
    found = register(current, current, SETTINGS)
    assert error(found, Alignment()) < 0.5


def test_the_truth_of_the_hospital() -> None:
    """Another breath is no rigid motion: a pixel or two of 128 are left."""
    pairs = [drawn_pair(number) for number in range(8)]
    left = [error(register(now, before, SETTINGS), true) for now, before, true in pairs]
    before = [error(Alignment(), true) for _, _, true in pairs]
    assert np.median(before) > 8
    assert np.median(left) < 2.5 and max(left) < 6


def test_the_end_is_that_of_ten_whole_runs() -> None:
    now, before, true = drawn_pair(11)
    ours = register(now, before, SETTINGS)
    for optimiser in (gradient_descent, regular_steps):
        recipe = by_the_recipe(now, before, SETTINGS, optimiser)
        assert ours.mutual_information > 0.995 * recipe.mutual_information
        assert error(ours, true) < error(recipe, true) + 0.5


@pytest.mark.skipif("CXR_REAL_DATA" not in os.environ, reason="CXR_REAL_DATA is not set")
def test_real_radiographs_end_where_ten_whole_runs_end() -> None:
    folder = Path(os.environ["CXR_REAL_DATA"], "covid_chestxray", "images")
    geometry = Geometry.parse("shorter256")
    names = ("41591_2020_819_Fig1_HTML.webp-day5.png", "41591_2020_819_Fig1_HTML.webp-day10.png")
    read = read_images([folder / name for name in names], PixelSettings(), geometry)
    before, now = (pixels for _, (pixels,) in read)
    ours = register(now, before, SETTINGS)
    recipe = by_the_recipe(now, before, SETTINGS, regular_steps)
    assert ours.mutual_information > 0.99 * recipe.mutual_information


def test_what_is_maximised_is_mutual_information() -> None:
    """SimpleITK smooths its histogram; of few grey levels a plain one says nearly the same."""
    levels = np.random.default_rng(0).integers(0, 8, (8, 8))
    now, before = (
        np.kron(values, np.ones((16, 16))).astype(np.uint8)
        for values in (levels * 36, 220 - levels // 2 * 60)
    )
    # A narrow filter leaves the steps as they are.
    found = register(now, before, RegistrationSettings(range_sigma=0.5))
    assert error(found, Alignment()) < 2
    plain = mutual_info_score(now.ravel(), before.ravel())
    assert plain > 1 and found.mutual_information == pytest.approx(plain, rel=0.1)


def test_padding_has_no_part_in_it() -> None:
    """Bars of two landscape images lie on top of each other whatever the chest does."""
    current, _, _ = drawn_pair(1)
    true = replace(TURNED, rotation=0.0, scale=1.0, shift_x=0.0, shift_y=12.0)
    prior = warp(current, true.inverse())
    bars, inside = slice(32, 96), (0.0, 32.0, 128.0, 64.0)
    shown = []
    for image in (current, prior):
        padded = np.zeros_like(image)
        padded[bars] = image[bars]
        shown.append(padded)
    found = register(shown[0], shown[1], SETTINGS, (inside, inside))
    assert error(found, true) < 1.5


def test_starts_are_the_same_for_every_pair_and_of_the_seed() -> None:
    assert random_starts(SETTINGS, 128) == random_starts(SETTINGS, 128)
    other = RegistrationSettings(seed=1)
    assert random_starts(other, 128) != random_starts(SETTINGS, 128)
    assert len(random_starts(SETTINGS, 128)) == SETTINGS.starts == 5
    now, before, _ = drawn_pair(5)
    assert register(now, before, SETTINGS) == register(now, before, SETTINGS)


def test_images_that_cannot_be_registered() -> None:
    current, _, _ = drawn_pair(0)
    blank = np.full_like(current, 7)
    with pytest.raises(RegistrationError, match="the prior image is constant or too narrow"):
        register(current, blank, SETTINGS)
    with pytest.raises(RegistrationError, match="the current image is constant"):
        register(blank, current, SETTINGS)
    strip = (60, 0, 3, 128)
    with pytest.raises(RegistrationError, match="constant or too narrow"):
        register(current, current, SETTINGS, (strip, strip))
    with pytest.raises(InputError, match=r"8\) and \(64, 64\) pixels; expected two squares"):
        register(current, current[:64, :64], SETTINGS)
    thin = (0.0, 0.0, 8.0, 128.0), (120.0, 0.0, 8.0, 128.0)
    with pytest.raises(RegistrationError, match="no start leaves enough"):
        register(current, current, RegistrationSettings(starts=1, start_shift=0.0), thin)


def test_scales_of_small_images() -> None:
    assert SETTINGS.levels(512) == [4, 2, 1]
    assert SETTINGS.levels(128) == [2, 1]
    assert SETTINGS.levels(48) == [1]
    with pytest.raises(ValueError, match="must fall to 1"):
        RegistrationSettings(shrink_factors=(1, 2))


RNG = np.random.default_rng(0)
NOISE = RNG.integers(0, 256, (70, 45), dtype=np.uint8)
STEP = np.repeat([[40] * 20 + [215] * 25], 50, axis=0).astype(np.uint8)


@pytest.mark.parametrize("pixels", [NOISE, STEP, NOISE[:7, :60], NOISE[:, :3]], ids=len)
@pytest.mark.parametrize(("domain", "range_"), [(4.0, 50.0), (1.7, 12.0), (2.0, 0.5)])
def test_it_is_simpleitks(pixels: np.ndarray, domain: float, range_: float) -> None:
    image = sitk.GetImageFromArray(pixels.astype(np.float32))
    expected = sitk.GetArrayFromImage(sitk.Bilateral(image, domain, range_))
    np.testing.assert_allclose(bilateral(pixels, domain, range_), expected, atol=2e-3)


def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = bilateral(NOISE, 4.0, 50.0)
    monkeypatch.setattr(module, "ROWS", 5)
    np.testing.assert_allclose(bilateral(NOISE, 4.0, 50.0), whole, atol=1e-3)


def test_it_smooths_noise_and_keeps_edges() -> None:
    grainy = np.clip(STEP + RNG.normal(0, 8, STEP.shape), 0, 255).astype(np.uint8)
    smooth = bilateral(grainy, 4.0, 25.0)
    assert np.abs(smooth - STEP).max() < 8 < np.abs(grainy - STEP.astype(float)).max()


def test_weights_fall_on_both_sides() -> None:
    weights = range_weights(50.0)
    differences = np.arange(-255, 256)
    np.testing.assert_array_equal(weights[differences], weights[-differences])
    assert weights[0] == 1 and weights[100] == pytest.approx(np.exp(-2)) and weights[200] == 0
