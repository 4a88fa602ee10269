"""The bilateral filter: SimpleITK's, at any size and width, and pixel by pixel."""

import numpy as np
import pytest
import SimpleITK as sitk

from cxrflow.images import bilateral as module
from cxrflow.images.bilateral import bilateral, range_weights

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
