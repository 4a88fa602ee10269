"""Grey scales: each rule of PixelSettings against its definition."""

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from cxrflow.images.decoded import Decoded
from cxrflow.images.grey import equalise_histogram
from cxrflow.images.settings import PixelSettings

VALUES = np.random.default_rng(1).gamma(3, 200, (80, 70)).astype(np.uint16)


def eight_bit(values: NDArray, settings: PixelSettings) -> NDArray[np.uint8]:
    scale = Decoded(values, "MONOCHROME2", 16, "none").scale(settings)
    return scale.to_bytes(scale.values)


def test_minmax() -> None:
    low, high = int(VALUES.min()), int(VALUES.max())
    expected = np.rint((VALUES.astype(np.float64) - low) / (high - low) * 255)
    np.testing.assert_allclose(eight_bit(VALUES, PixelSettings()), expected, atol=1)
    assert (eight_bit(VALUES, PixelSettings()) == expected).mean() > 0.999


def test_minmax_does_not_depend_on_offset_or_gain() -> None:
    once = eight_bit(VALUES, PixelSettings())
    np.testing.assert_array_equal(
        eight_bit(VALUES.astype(np.int32) * 4 - 1000, PixelSettings()), once
    )


def test_percentile_ignores_outliers() -> None:
    settings = PixelSettings(intensity="percentile", percentiles=(2, 98))
    low, high = np.percentile(VALUES, (2, 98))
    expected = np.rint((np.clip(VALUES, low, high) - low) / (high - low) * 255)
    np.testing.assert_allclose(eight_bit(VALUES, settings), expected, atol=1)
    spoilt = VALUES.copy()
    spoilt[0, 0] = 60000
    difference = eight_bit(spoilt, settings).astype(int) - eight_bit(VALUES, settings)
    assert np.abs(difference[1:]).max() <= 1


def test_percentile_of_a_nearly_uniform_image_keeps_its_range() -> None:
    values = np.full((50, 50), 7, np.uint16)
    values[3, 4] = 9
    stored = eight_bit(values, PixelSettings(intensity="percentile"))
    assert stored[3, 4] == 255 and stored[0, 0] == 0


def literal_equalisation(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """OpenCV's equalizeHist, transcribed: the table is filled level by level."""
    histogram = [int((image == level).sum()) for level in range(256)]
    level = 0
    while histogram[level] == 0:
        level += 1
    scale = 255.0 / (image.size - histogram[level])
    table, total = [0] * 256, 0
    for higher in range(level + 1, 256):
        total += histogram[higher]
        table[higher] = round(total * scale)
    return np.array([[table[value] for value in row] for row in image], dtype=np.uint8)


def test_mimic_jpg_is_minmax_then_equalisation() -> None:
    stretched = eight_bit(VALUES, PixelSettings())
    equalised = eight_bit(VALUES, PixelSettings(intensity="mimic_jpg"))
    np.testing.assert_array_equal(equalised, literal_equalisation(stretched))
    assert equalised.min() == 0 and equalised.max() == 255


def test_equalisation_of_two_levels() -> None:
    image = np.array([[3, 3, 3, 200]], dtype=np.uint8)
    np.testing.assert_array_equal(equalise_histogram(image), [[0, 0, 0, 255]])


def test_settings_say_no() -> None:
    for wrong in ({"percentiles": (99, 1)}, {"intensity": "window"}, {"images_per_shard": 0}):
        with pytest.raises(ValidationError):
            PixelSettings.model_validate(wrong)
