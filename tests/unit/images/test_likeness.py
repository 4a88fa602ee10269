"""Copies of radiographs are found whatever their size, format and borders; others are not."""

import io

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from cxrflow.images import likeness as module
from cxrflow.images.likeness import LEAST, alike, likeness, pictures


def radiograph(seed: int, height: int = 240, width: int = 200) -> NDArray[np.uint8]:
    """A smooth field of values with fine structure."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.uniform(20, 235, (12, 10)).astype(np.float32))
    smooth = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC))
    return np.clip(smooth + rng.normal(0, 6, (height, width)), 0, 255).astype(np.uint8)


def saved(values: NDArray, **options: object) -> NDArray[np.uint8]:
    buffer = io.BytesIO()
    Image.fromarray(values).save(buffer, "JPEG", **options)
    return np.asarray(Image.open(buffer))


def resized(values: NDArray, width: int, height: int) -> NDArray[np.uint8]:
    return np.asarray(Image.fromarray(values).resize((width, height), Image.Resampling.LANCZOS))


COPIES = {
    "compressed": lambda v: saved(v, quality=40),
    "a quarter": lambda v: resized(v, 50, 60),
    "larger": lambda v: resized(v, 431, 517),
    "stretched": lambda v: resized(v, 150, 150),
    "padded": lambda v: np.pad(v, ((0, 0), (20, 20))),
    "bright and flat": lambda v: (0.4 * v + 120).astype(np.uint8),
    "16 bits": lambda v: v.astype(np.uint16) * 200 + 31,
    "cut to its central square": lambda v: v[20:220],
    "cut, resized, compressed": lambda v: saved(resized(v[20:220], 64, 64), quality=60),
}


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_is_found(name: str) -> None:
    originals = np.stack([likeness(radiograph(seed)) for seed in range(20)])
    copies = np.stack([likeness(COPIES[name](radiograph(seed))) for seed in range(20)])
    assert {pair[:2] for pair in alike(originals, copies)} == {(n, n) for n in range(20)}
    assert {pair[:2] for pair in alike(copies, originals)} == {(n, n) for n in range(20)}
    assert list(alike(originals)) == []


def test_pairs_are_those_of_all_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks and the coarse cells before lose none."""
    rng = np.random.default_rng(0)
    seeds = rng.integers(0, 30, 70)
    shown = np.stack(
        [
            likeness(saved(radiograph(int(seed)), quality=int(rng.integers(30, 90))))
            for seed in seeds
        ]
    )
    monkeypatch.setattr(module, "ROWS", 16)
    expected = {
        (i, j) for i in range(70) for j in range(i + 1, 70)
        if max((shown[i] @ shown[j].T).ravel()) >= LEAST
    }  # fmt: skip
    assert {pair[:2] for pair in alike(shown)} == expected
    assert expected == {(i, j) for i in range(70) for j in range(i + 1, 70) if seeds[i] == seeds[j]}
    halves = {pair[:2] for pair in alike(shown[:40], shown[40:])}
    assert halves == {(i, j - 40) for i, j in expected if i < 40 <= j}
    numbers = pictures(np.arange(70), shown)
    assert len({*zip(numbers, seeds, strict=True)}) == len({*seeds}) == len({*numbers})
    assert [*pictures(np.zeros(70), shown)] == [0] * 70  # of one file


def test_an_image_of_one_value_is_like_none() -> None:
    blank = np.stack([likeness(np.full((40, 40), value)) for value in (7, 7, 0)])
    assert list(alike(blank)) == [] and pictures(np.arange(3), blank).tolist() == [0, 1, 2]
    assert pictures(np.arange(0), blank[:0]).tolist() == []
