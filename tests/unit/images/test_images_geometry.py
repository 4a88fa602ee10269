"""Geometries: sizes as torchvision has them, boxes by round trips and by drawing them."""

import numpy as np
import pytest
import torch

from cxr_files.errors import InputError
from cxrflow.images.geometry import Geometry
from cxrflow.images.resize import WEIGHT_BITS, blocks, resize

SHAPES = [(3056, 2544), (2544, 3056), (512, 512), (1024, 1024), (37, 911), (100, 99), (301, 255)]
NAMES = [
    *("shorter128", "shorter128crop112", "longer96", "square64", "shorter97", "longer97"),
    *("longer96crop80", "longer96unpadded"),
]


def torchvision_resized(height: int, width: int, side: int) -> tuple[int, int]:
    """torchvision's rule for ``Resize(side)``, written out."""
    short, long = min(height, width), max(height, width)
    new_long = int(side * long / short)
    return (side, new_long) if height <= width else (new_long, side)


@pytest.mark.parametrize("shape", SHAPES)
def test_shorter_is_resize_and_centre_crop_of_torchvision(shape: tuple[int, int]) -> None:
    placed = Geometry.parse("shorter128crop112").place(*shape)
    height, width = torchvision_resized(*shape, 128)
    assert (placed.resized_height, placed.resized_width) == (height, width)
    assert placed.top == int(round((height - 112) / 2.0))
    assert placed.left == int(round((width - 112) / 2.0))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", NAMES)
def test_boxes_go_there_and_back(name: str, shape: tuple[int, int]) -> None:
    placed = Geometry.parse(name).place(*shape)
    rng = np.random.default_rng(3)
    boxes = rng.random((50, 4)) * [shape[1], shape[0], shape[1], shape[0]]
    np.testing.assert_allclose(placed.to_original(placed.boxes(boxes)), boxes, atol=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", NAMES)
def test_the_visible_part_lies_in_both_images(name: str, shape: tuple[int, int]) -> None:
    geometry = Geometry.parse(name)
    placed = geometry.place(*shape)
    x, y, w, h = placed.inside_original()
    assert x >= -1e-9 and y >= -1e-9
    assert x + w <= shape[1] + 1e-9 and y + h <= shape[0] + 1e-9
    sx, sy, sw, sh = placed.inside_stored()
    np.testing.assert_allclose(placed.boxes([[x, y, w, h]])[0], [sx, sy, sw, sh], atol=1e-9)
    if geometry.rule == "shorter":
        assert (sx, sy, sw, sh) == (0, 0, geometry.size, geometry.size)
    elif geometry.size == geometry.side:
        assert (x, y, w, h) == pytest.approx((0, 0, shape[1], shape[0]))


@pytest.mark.parametrize("shape", [(610, 508), (508, 610), (512, 512), (700, 300), (90, 120)])
@pytest.mark.parametrize("name", NAMES)
def test_a_drawn_box_is_where_the_mapping_says(name: str, shape: tuple[int, int]) -> None:
    """Area and centre of mass of a bright box after resizing are those of the mapped box."""
    height, width = shape
    box = [round(width * 0.38), round(height * 0.41), round(width * 0.2), round(height * 0.15)]
    x, y, w, h = box
    drawn = np.zeros(shape)
    drawn[y : y + h, x : x + w] = 1
    placed = Geometry.parse(name).place(*shape)
    stored, _ = placed.apply(drawn)
    sx, sy, sw, sh = placed.boxes([box])[0]
    assert stored.sum() == pytest.approx(sw * sh, rel=0.02)
    centres = np.arange(stored.shape[0]) + 0.5
    tolerance = 0.12 if stored.shape[0] < max(shape) else 0.25  # pixels
    assert (stored.sum(0) @ centres) / stored.sum() == pytest.approx(sx + sw / 2, abs=tolerance)
    assert (stored.sum(1) @ centres) / stored.sum() == pytest.approx(sy + sh / 2, abs=tolerance)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_crop_of_a_padded_square_is_its_middle(shape: tuple[int, int]) -> None:
    values = np.random.default_rng(0).random(shape)
    whole, _ = Geometry.parse("longer96").place(*shape).apply(values)
    part, _ = Geometry.parse("longer96crop80").place(*shape).apply(values)
    np.testing.assert_array_equal(part, whole[8:88, 8:88])


def test_padding_is_marked_and_zero() -> None:
    stored, inside = Geometry.parse("longer64").place(100, 50).apply(np.ones((100, 50)))
    assert inside.sum() == 64 * 32
    assert inside[:, 16:48].all()
    assert (stored[~inside] == 0).all() and np.allclose(stored[inside], 1)


@pytest.mark.parametrize("size", [(128, 107), (611, 107), (700, 640), (3, 5)])
def test_resize_agrees_with_torch_antialiased_bilinear(size: tuple[int, int]) -> None:
    """As near as weights in steps of 2^-18 come: 1e-5 of the range, 0.003 of a grey level."""
    values = np.random.default_rng(0).integers(0, 4096, (611, 509)).astype(np.uint16)
    tensor = torch.from_numpy(values.astype(np.float64))[None, None]
    theirs = torch.nn.functional.interpolate(
        tensor, size, mode="bilinear", antialias=True, align_corners=False
    )
    np.testing.assert_allclose(resize(values, *size), theirs[0, 0].numpy(), atol=1e-5 * 4096)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16"])
def test_resize_is_exact(dtype: str) -> None:
    """Integers of Python give the same to the last bit: no order of summation can matter."""
    info = np.iinfo(dtype)
    values = np.random.default_rng(0).integers(info.min, info.max + 1, (61, 47)).astype(dtype)
    values[:20] = info.max  # the largest sums there can be
    unit = 2**WEIGHT_BITS
    matrices = []
    for length, resized in ((61, 13), (47, 11)):
        matrix = np.zeros((resized, length), dtype=object)
        for first, start, stop, weights in blocks(length, resized, range(resized)):
            whole = (weights * unit).astype(int)
            assert (whole == weights * unit).all() and (whole.sum(1) == unit).all()
            matrix[first : first + len(whole), start:stop] = whole
        matrices.append(matrix)
    sums = matrices[0] @ values.astype(object) @ matrices[1].T
    expected = np.array([[total / unit**2 for total in row] for row in sums]).astype(np.float32)
    np.testing.assert_array_equal(resize(values, 13, 11), expected)


@pytest.mark.parametrize("size", [(128, 107), (61, 50), (200, 47)])
def test_a_part_of_the_result_is_a_part_of_the_result(size: tuple[int, int]) -> None:
    values = np.random.default_rng(0).integers(0, 4096, (200, 150)).astype(np.uint16)
    rows, columns = range(7, 60), range(3, 46)
    part = resize(values, *size, rows, columns)
    np.testing.assert_array_equal(part, resize(values, *size)[7:60, 3:46])
    np.testing.assert_array_equal(resize(values, 200, 150, rows, columns), values[7:60, 3:46])


@pytest.mark.parametrize("name", NAMES)
def test_names_come_back(name: str) -> None:
    assert str(Geometry.parse(name)) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "512",
        "shorter",
        "shorter0",
        "Shorter512",
        "square64crop32",
        "shorter64crop65",
        "square64unpadded",
        "longer64crop32unpadded",
    ],
)
def test_wrong_names(name: str) -> None:
    with pytest.raises(InputError, match="geometry"):
        Geometry.parse(name)


@pytest.mark.parametrize(("length", "resized"), [(448, 160), (868, 155), (1344, 480), (3444, 615)])
def test_lines_of_a_block_are_those_of_its_weights(length: int, resized: int) -> None:
    """Five times the scale is a whole number that rounding misses."""
    for _, start, stop, weights in blocks(length, resized, range(resized)):
        assert weights.shape[1] == stop - start
    ramp = np.arange(length, dtype=np.float64)[:, None].repeat(4, axis=1)
    lines = resize(ramp, resized, 4)[:, 0]
    inside = slice(1, -1)  # a triangle at the border is cut off
    expected = (np.arange(resized) + 0.5) * length / resized - 0.5
    np.testing.assert_allclose(lines[inside], expected[inside], atol=0.1)
