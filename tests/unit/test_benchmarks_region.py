"""From grid and boxes to compared pixels: placement, crops, upsampling, padding."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter, zoom

from cxrflow.benchmarks.grounding.region import box_mask, make_window, prepare_grid
from cxrflow.images.geometry import Geometry
from cxrflow.metrics.grounding import of_pixels, overlap, signed_cnr


def test_box_mask_is_the_union_clipped_to_the_image():
    mask = box_mask([[1, 2, 3, 1], [3, 2, 2, 2], [-5, -5, 6, 6], [8, 0, 9, 1]], 6, 10)
    expected = np.zeros((6, 10), dtype=bool)
    expected[2, 1:4] = expected[2:4, 3:5] = expected[0, 0] = expected[0, 8:10] = True
    np.testing.assert_array_equal(mask, expected)
    assert not box_mask([], 4, 4).any()
    assert not box_mask([[1.2, 1.2, 0.2, 5]], 9, 9).any()  # no pixel centre inside


def test_a_grid_over_an_uncropped_square_is_repeated():
    grid = np.arange(16.0).reshape(4, 4)
    region = make_window((4, 4), [[8, 0, 8, 4]], Geometry.parse("shorter8").place(16, 16))
    np.testing.assert_array_equal(region.pixels(grid), np.kron(grid, np.ones((4, 4))))
    assert region.mask.sum() == 32 and region.mask[:4, 8:].all() and region.missed == 0
    assert region.share == 32 / 256


@pytest.mark.parametrize(("height", "width"), [(48, 32), (32, 48)])
def test_the_crop_is_seen_and_what_lies_outside_is_missed(height, width):
    """Shorter side 32: the central square of the image is covered, 8 pixels at each end not."""
    grid = np.random.default_rng(0).normal(size=(4, 4))
    placement = Geometry.parse("shorter16").place(height, width)
    tall = height > width
    box = [0, 0, 32, 10] if tall else [0, 0, 10, 32]
    region = make_window((4, 4), [box], placement)
    np.testing.assert_array_equal(region.pixels(grid), np.kron(grid, np.ones((8, 8))))
    assert region.missed == 8 * 32 and region.mask.sum() == 2 * 32
    assert region.mask[:2].all() if tall else region.mask[:, :2].all()
    # The same in the stored square, where a pixel is two by two original ones.
    stored = make_window((4, 4), [box], placement, space="stored")
    assert stored.pixels(grid).shape == (16, 16)
    assert stored.missed == 4 * 16 and stored.mask.sum() == 16


def test_a_map_that_copies_the_boxes_scores_perfectly_in_both_spaces():
    """The grid is made from the boxes on the stored square; any slip of scale or offset shows."""
    placement = Geometry.parse("shorter64").place(384, 256)  # scale 1/4, crop 16 rows at the top
    box = [64, 128, 96, 64]  # in the store: x 16, y 16, w 24, h 16: whole cells of 4 pixels
    grid = np.zeros((16, 16))
    grid[4:8, 4:10] = 1.0
    grid += 1e-3 * np.random.default_rng(1).normal(size=grid.shape)
    for space in ("original", "stored"):
        region = make_window((16, 16), [box], placement, space=space)
        pixels, mirrored = (of_pixels(region.pixels(g), region.mask) for g in (grid, grid[:, ::-1]))
        assert overlap(*pixels, 0.5) == (1.0, 1.0), space
        assert signed_cnr(*pixels) > 100, space
        assert overlap(*mirrored, 0.5)[0] < 0.6


def test_padding_is_not_part_of_the_image():
    placement = Geometry.parse("longer16").place(32, 16)
    grid = np.arange(64.0).reshape(8, 8)
    original = make_window((8, 8), [[0, 0, 16, 16]], placement)
    stored = make_window((8, 8), [[0, 0, 16, 16]], placement, space="stored")
    assert original.mask.shape == (32, 16) and stored.mask.shape == (16, 8)
    assert set(np.unique(original.pixels(grid))) == set(grid[:, 2:6].ravel())
    assert original.share == stored.share == 0.5
    assert original.missed == stored.missed == 0


def test_bilinear_upsampling_agrees_with_scipy():
    grid = np.random.default_rng(2).normal(size=(4, 6))
    placement = Geometry.parse("square24").place(24, 24)
    found = make_window((4, 6), [], placement, upsample="bilinear").pixels(grid)
    expected = zoom(grid, (6, 4), order=1, mode="nearest", grid_mode=True)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    one_cell = make_window((1, 1), [], placement, upsample="bilinear")
    np.testing.assert_allclose(one_cell.pixels(np.array([[0.3]])), 0.3)


def test_smoothing_and_rescaling():
    grid = np.random.default_rng(3).normal(size=(5, 5))
    np.testing.assert_array_equal(prepare_grid(grid, None, "none"), grid)
    np.testing.assert_allclose(prepare_grid(grid, 1.5, "none"), gaussian_filter(grid, 1.5))
    rescaled = prepare_grid(grid, 1.5, "minmax")
    assert rescaled.min() == -1 and rescaled.max() == 1


@pytest.mark.parametrize("geometry", ["shorter16", "shorter16crop12", "longer24", "square16"])
@pytest.mark.parametrize(("height", "width"), [(48, 32), (31, 45)])
def test_a_map_of_the_image_is_nan_where_nothing_was_seen(geometry, height, width):
    """Pixel by pixel: its centre on the stored square, and the cell that lies there."""
    grid = np.random.default_rng(0).normal(size=(4, 3))
    placement = Geometry.parse(geometry).place(height, width)
    window = make_window((4, 3), [], placement)
    found = window.whole(grid)
    for y in range(height):
        for x in range(width):
            (corner,) = placement.boxes([[x + 0.5, y + 0.5, 0, 0]])
            across, down = corner[0] / placement.size * 3, corner[1] / placement.size * 4
            if min(across, down) < 0 or across >= 3 or down >= 4:
                assert np.isnan(found[y, x])
            else:
                assert found[y, x] == grid[int(down), int(across)]
    seen = found[np.isfinite(found).any(axis=1)][:, np.isfinite(found).any(axis=0)]
    np.testing.assert_array_equal(seen, window.pixels(grid))


def test_what_no_map_can_be_scored_on_is_said():
    placement = Geometry.parse("shorter16").place(48, 32)
    reasons = [
        make_window((4, 4), boxes, placement).unscored
        for boxes in ([[0, 0, 32, 8]], [[0, 8, 32, 32]], [[0, 8, 32, 31]])
    ]
    assert reasons == ["no box inside the crop", "the boxes cover the whole crop", None]
