"""The true transform between two images of a patient, against where the drawing puts the chest."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter, map_coordinates
from speed.registration_recipe import true_alignment

from cxrflow.phantom.acquisition import Acquisition, sample_acquisition
from cxrflow.phantom.canvas import Canvas
from cxrflow.phantom.drawing import draw
from cxrflow.phantom.patient import make_patient
from cxrflow.phantom.settings import HospitalSettings

SETTINGS = HospitalSettings(spoilt_share=0.0)


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
