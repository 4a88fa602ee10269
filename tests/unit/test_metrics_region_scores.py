"""Scores from counts of pixels: a case by hand, and the pixels' own scores."""

import numpy as np
import pytest

from cxrflow.benchmarks.grounding.region import make_region, make_window
from cxrflow.images.geometry import Geometry
from cxrflow.metrics import grounding
from cxrflow.metrics.region_scores import region_scores


def test_a_case_by_hand():
    """Four cells of 10, 10, 10 and 0 pixels; 8, 2, 0 and 0 of them are annotated."""
    found = region_scores([0.9, 0.7, 0.1, 5.0], [8, 2, 0, 0], [10, 10, 10, 0], 0.6)
    # Above 0.6 are 20 pixels, 10 of them among the 10 that are annotated.
    assert found["iou"] == pytest.approx(10 / 20)
    assert found["dice"] == pytest.approx(2 * 10 / 30)
    # Inside: 8 x 0.9, 2 x 0.7. Outside: 2 x 0.9, 8 x 0.7, 10 x 0.1.
    inside, outside = [0.9] * 8 + [0.7] * 2, [0.9] * 2 + [0.7] * 8 + [0.1] * 10
    signed = (0.86 - 0.42) / np.sqrt(np.var(inside) + np.var(outside))
    assert found["signed_cnr"] == pytest.approx(signed)
    assert found["cnr"] == pytest.approx(signed)
    missed = region_scores([0.9, 0.7, 0.1, 5.0], [8, 2, 0, 0], [10, 10, 10, 0], 0.6, missed=10)
    assert missed["iou"] == pytest.approx(10 / 30) and missed["dice"] == pytest.approx(20 / 40)
    assert missed["cnr"] == found["cnr"]
    dark = region_scores([0.1, 0.2, 0.9, 0.0], [8, 2, 0, 0], [10, 10, 10, 0], 0.6)
    assert dark["signed_cnr"] < 0 < dark["cnr"]
    assert dark["iou"] == dark["dice"] == 0


def test_what_cannot_be_said_is_nan():
    nothing = region_scores([0.1, 0.9], [0, 0], [4, 4], 0.6)
    assert all(np.isnan(value) for value in nothing.values())
    everything = region_scores([0.1, 0.9], [4, 4], [4, 4], 0.6)
    assert np.isnan(everything["cnr"]) and everything["iou"] == 0.5
    flat = region_scores([0.3, 0.3, 0.3], [4, 1, 0], [4, 4, 4], 0.6)
    assert np.isnan(flat["cnr"]) and flat["iou"] == 0
    unseen = region_scores([0.1, 0.9], [0, 0], [4, 4], 0.6, missed=3)
    assert unseen["iou"] == unseen["dice"] == 0 and np.isnan(unseen["cnr"])
    with pytest.raises(ValueError, match=r"want equal \[\.\.\., P\]"):
        region_scores([0.1, 0.9], [0, 0, 0], [4, 4, 4], 0.6)


@pytest.mark.parametrize("space", ["original", "stored"])
@pytest.mark.parametrize(
    ("geometry", "height", "width"),
    [("shorter64", 96, 64), ("shorter64", 131, 171), ("longer48", 100, 70), ("square40", 55, 80)],
)
def test_counts_by_cell_give_the_scores_of_the_pixels(space, geometry, height, width):
    rng = np.random.default_rng(height)
    maps = rng.random((3, 7, 5))
    boxes = [[10, 20, 30, 25], [30, 5.4, 20.7, 44]]
    placement = Geometry.parse(geometry).place(height, width)
    window = make_window((7, 5), boxes, placement, space=space)
    inside, total = window.cell_counts()
    found = region_scores(maps.reshape(3, -1), inside.ravel(), total.ravel(), 0.6, window.missed)
    for number, grid in enumerate(maps):
        region = make_region(grid, boxes, placement, space=space)
        assert total.sum() == region.mask.size and inside.sum() == region.mask.sum()
        pixels = {
            "iou": grounding.iou(region.similarity, region.mask, 0.6, region.missed),
            "dice": grounding.dice(region.similarity, region.mask, 0.6, region.missed),
            "cnr": grounding.cnr(region.similarity, region.mask),
            "signed_cnr": grounding.signed_cnr(region.similarity, region.mask),
        }
        for name, value in pixels.items():
            assert found[name][number] == pytest.approx(value, abs=1e-12), name
