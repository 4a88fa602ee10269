"""Grounding: the pixels that are compared, and metrics against transcriptions and by hand."""

import math

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter, zoom
from sklearn.metrics import f1_score, jaccard_score

from cxrflow.benchmarks.grounding.region import box_mask, make_window, prepare_grid
from cxrflow.images.geometry import Geometry
from cxrflow.metrics.grounding import miou, of_pixels, overlap, rescale_minmax, signed_cnr

NAN = float("nan")
THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5)


def cnr(similarity, mask):
    return np.abs(signed_cnr(*of_pixels(similarity, mask)))


def iou(similarity, mask, threshold, missed=0):
    return overlap(*of_pixels(similarity, mask), threshold, missed)[0]


def dice(similarity, mask, threshold, missed=0):
    return overlap(*of_pixels(similarity, mask), threshold, missed)[1]


def mean_iou(similarity, mask):
    return miou(*of_pixels(similarity, mask), THRESHOLDS)


def literal_cnr(similarity: np.ndarray, mask: np.ndarray) -> float:
    """BioViL section 4.1, one pixel after the other, in Python floats."""
    groups: dict[bool, list[float]] = {True: [], False: []}
    for value, inside in zip(similarity.ravel(), mask.ravel(), strict=True):
        if not math.isnan(value):
            groups[bool(inside)].append(float(value))
    if not groups[True] or not groups[False]:
        return NAN
    means = {side: math.fsum(v) / len(v) for side, v in groups.items()}
    variances = {
        side: math.fsum((x - means[side]) ** 2 for x in v) / len(v) for side, v in groups.items()
    }
    return abs(means[True] - means[False]) / math.sqrt(variances[True] + variances[False])


@pytest.fixture
def maps() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    similarity = rng.uniform(-1, 1, size=(5, 11, 9))
    mask = rng.random((5, 11, 9)) < 0.3
    similarity[mask] += 0.3
    similarity[2, :3] = NAN
    return similarity, mask


def test_cnr_is_the_equation(maps):
    similarity, mask = maps
    expected = [literal_cnr(s, m) for s, m in zip(similarity, mask, strict=True)]
    np.testing.assert_allclose(cnr(similarity, mask), expected, rtol=1e-13)


def test_cnr_by_hand():
    similarity = [[1.0, 3.0], [0.0, 0.0], [6.0, 2.0]]
    mask = [[True, True], [False, False], [False, False]]
    # inside: mean 2, variance 1; outside: mean 2, variance 6
    assert cnr(similarity, mask) == 0.0
    mask = [[False, False], [True, True], [False, False]]
    # inside: mean 0, variance 0; outside 1, 3, 6, 2: mean 3, variance 3.5
    assert cnr(similarity, mask) == pytest.approx(3 / math.sqrt(3.5))


@pytest.mark.parametrize(("slope", "shift"), [(2.0, 0.0), (-0.5, 3.0), (1e-3, -7.0), (40.0, 1e3)])
def test_cnr_does_not_change_with_a_linear_rescaling(maps, slope, shift):
    similarity, mask = maps
    np.testing.assert_allclose(
        cnr(slope * similarity + shift, mask), cnr(similarity, mask), rtol=1e-8
    )


def test_the_signed_ratio_of_a_map_that_knows_nothing_is_zero_on_average():
    rng = np.random.default_rng(8)
    similarity = rng.normal(size=(4000, 4, 4))
    mask = np.zeros((4000, 4, 4), dtype=bool)
    mask[:, 1:3, 1:3] = True
    signed = signed_cnr(*of_pixels(similarity, mask))
    np.testing.assert_allclose(np.abs(signed), cnr(similarity, mask))
    assert abs(signed.mean()) < 0.03 and cnr(similarity, mask).mean() > 0.2
    turned = signed_cnr(*of_pixels(-similarity[0], mask[0]))
    assert turned == pytest.approx(-float(signed[0]))


def test_cnr_is_undefined_without_inside_outside_or_variance(maps):
    similarity, mask = maps
    assert np.isnan(cnr(similarity[0], np.zeros_like(mask[0])))
    assert np.isnan(cnr(similarity[0], np.ones_like(mask[0])))
    assert np.isnan(cnr(np.full((4, 4), 0.1), np.eye(4, dtype=bool)))
    assert np.isnan(cnr(np.eye(4) * 0.7, np.eye(4, dtype=bool)))  # two constants: infinite
    assert np.isnan(cnr(np.full((4, 4), NAN), np.eye(4, dtype=bool)))


def test_unseen_pixels_belong_to_neither_side(maps):
    similarity, mask = maps
    hidden = similarity[0].copy()
    hidden[4:] = NAN
    np.testing.assert_allclose(cnr(hidden, mask[0]), cnr(similarity[0, :4], mask[0, :4]))
    np.testing.assert_allclose(mean_iou(hidden, mask[0]), mean_iou(similarity[0, :4], mask[0, :4]))
    # A box that lies wholly in the unseen part cannot be scored.
    below = np.zeros_like(mask[0])
    below[5:] = True
    assert np.isnan(cnr(hidden, below)) and np.isnan(iou(hidden, below, 0.1))
    # ... unless unseen pixels count as not found.
    assert iou(hidden, below, 0.1, missed=int(below.sum())) == 0.0


@pytest.mark.parametrize("threshold", [-0.4, 0.0, 0.1, 0.5])
def test_overlap_agrees_with_sklearn(maps, threshold):
    similarity, mask = maps[0][0], maps[1][0]
    predicted = (similarity > threshold).ravel()
    assert iou(similarity, mask, threshold) == pytest.approx(jaccard_score(mask.ravel(), predicted))
    assert dice(similarity, mask, threshold) == pytest.approx(f1_score(mask.ravel(), predicted))


def test_overlap_by_hand():
    similarity = np.array([[0.9, 0.45, 0.25], [0.15, 0.05, -0.3]])
    mask = np.array([[True, True, False], [True, False, False]])
    # above .1: 4 found, 3 shared, union 4; .2: 3/2/4; .3 and .4: 2/2/3; .5: 1/1/3
    expected = [3 / 4, 2 / 4, 2 / 3, 2 / 3, 1 / 3]
    ious = [float(iou(similarity, mask, t)) for t in THRESHOLDS]
    np.testing.assert_allclose(ious, expected)
    assert mean_iou(similarity, mask) == pytest.approx(np.mean(expected))
    assert dice(similarity, mask, 0.2) == pytest.approx(2 * 2 / (3 + 3))
    # Two annotated pixels outside the crop: the union grows, the shared part does not.
    assert iou(similarity, mask, 0.2, missed=2) == pytest.approx(2 / 6)
    assert dice(similarity, mask, 0.2, missed=2) == pytest.approx(4 / 8)


def test_thresholds_are_strict_and_leading_axes_are_independent(maps):
    assert iou([[0.5, 0.1]], [[True, False]], 0.5) == 0.0
    similarity, mask = maps
    single = [float(mean_iou(s, m)) for s, m in zip(similarity, mask, strict=True)]
    np.testing.assert_allclose(mean_iou(similarity, mask), single)


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="want equal"):
        cnr(np.zeros((3, 4)), np.zeros((4, 3), dtype=bool))


def scores(values, inside, total, missed=0):
    counts = [np.array(row, dtype=np.float64) for row in (values, inside, total)]
    iou, dice = overlap(*counts, 0.6, missed)
    return {"iou": iou, "dice": dice, "signed_cnr": signed_cnr(*counts)}


def test_counts_of_pixels_by_hand():
    """Four cells of 10, 10, 10 and 0 pixels; 8, 2, 0 and 0 of them are annotated."""
    metrics = scores([0.9, 0.7, 0.1, 5.0], [8, 2, 0, 0], [10, 10, 10, 0])
    # Above 0.6 are 20 pixels, 10 of them among the 10 that are annotated.
    assert metrics["iou"] == pytest.approx(10 / 20)
    assert metrics["dice"] == pytest.approx(2 * 10 / 30)
    # Inside: 8 x 0.9, 2 x 0.7. Outside: 2 x 0.9, 8 x 0.7, 10 x 0.1.
    inside, outside = [0.9] * 8 + [0.7] * 2, [0.9] * 2 + [0.7] * 8 + [0.1] * 10
    signed = (0.86 - 0.42) / np.sqrt(np.var(inside) + np.var(outside))
    assert metrics["signed_cnr"] == pytest.approx(signed)
    missed = scores([0.9, 0.7, 0.1, 5.0], [8, 2, 0, 0], [10, 10, 10, 0], missed=10)
    assert missed["iou"] == pytest.approx(10 / 30) and missed["dice"] == pytest.approx(20 / 40)
    dark = scores([0.1, 0.2, 0.9, 0.0], [8, 2, 0, 0], [10, 10, 10, 0])
    assert dark["signed_cnr"] < 0 and dark["iou"] == dark["dice"] == 0


def test_what_cannot_be_said_of_counts_is_nan():
    nothing = scores([0.1, 0.9], [0, 0], [4, 4])
    assert all(np.isnan(value) for value in nothing.values())
    everything = scores([0.1, 0.9], [4, 4], [4, 4])
    assert np.isnan(everything["signed_cnr"]) and everything["iou"] == 0.5
    flat = scores([0.3, 0.3, 0.3], [4, 1, 0], [4, 4, 4])
    assert np.isnan(flat["signed_cnr"]) and flat["iou"] == 0
    unseen = scores([0.1, 0.9], [0, 0], [4, 4], missed=3)
    assert unseen["iou"] == unseen["dice"] == 0 and np.isnan(unseen["signed_cnr"])


@pytest.mark.parametrize("space", ["original", "stored"])
@pytest.mark.parametrize(
    ("geometry", "height", "width"),
    [("shorter64", 96, 64), ("shorter64", 131, 171), ("longer48", 100, 70), ("square40", 55, 80)],
)
def test_counts_by_cell_give_the_scores_of_the_pixels(space, geometry, height, width):
    maps = np.random.default_rng(height).random((3, 7, 5))
    boxes = [[10, 20, 30, 25], [30, 5.4, 20.7, 44]]
    placement = Geometry.parse(geometry).place(height, width)
    window = make_window((7, 5), boxes, placement, space=space)
    inside, total = (counts.ravel() for counts in window.cell_counts())
    assert total.sum() == window.mask.size and inside.sum() == window.mask.sum()
    metrics = scores(maps.reshape(3, -1), inside, total, window.missed)
    pixels = of_pixels(np.stack([window.pixels(grid) for grid in maps]), [window.mask] * 3)
    for name, values in scores(*pixels, window.missed).items():
        np.testing.assert_allclose(metrics[name], values, rtol=1e-6, atol=1e-12, err_msg=name)


def test_minmax_rescaling():
    values = np.array([[0.2, 0.4], [NAN, 0.6]])
    np.testing.assert_allclose(rescale_minmax(values), [[-1, 0], [NAN, 1]], atol=1e-15)
    np.testing.assert_allclose(rescale_minmax(np.full((2, 2), 0.3)), np.zeros((2, 2)))


def test_a_flat_map_has_an_overlap_and_no_contrast() -> None:
    mask = np.zeros((4, 4), dtype=bool)
    mask[:2, :2] = True
    maps = np.stack([np.full((4, 4), value) for value in (0.0, 0.25, 0.9)])
    masks = np.stack([mask] * 3)
    # None of the thresholds, two of five, all: a quarter of the image is the mask.
    np.testing.assert_allclose(mean_iou(maps, masks), [0, 0.25 * 2 / 5, 0.25])
    assert np.isnan(cnr(maps, masks)).all()


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
