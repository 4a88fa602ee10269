"""A second view that is a crop of the first one: where it lies, and what both share."""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from pydantic import ValidationError
from test_images_augment import (
    COLUMNS,
    GEOMETRIC,
    B,
    H,
    W,
    keyed,
    only,
    pictures,
    sample,
    smooth_pictures,
)
from torch import Tensor

from cxrflow.images.augment import Augmentation, Draws, StoredPixels, centre
from cxrflow.images.settings import AugmentationSettings

CROP = {"second_crop": {}}


def with_crop(settings: AugmentationSettings, **crop: object) -> AugmentationSettings:
    return AugmentationSettings.model_validate({**settings.model_dump(), "second_crop": crop})


def both_draws(augmentation: Augmentation, size: tuple[int, int] = (H, W)) -> tuple[Draws, Draws]:
    """What is drawn of the first view, and of the second."""
    draws = augmentation.draw(keyed(), *size)
    return draws, augmentation.cropped(draws, keyed(view=1), *size)


def literal_view(
    image: NDArray, draws: Draws, i: int, shift: NDArray | None, size: tuple
) -> NDArray:
    """Each pixel of the second view asks where it lies in the first, and that where it is from."""
    height, width = image.shape
    rows, columns = size
    tan, angle = math.tan(float(draws.shear[i])), float(draws.angle[i])
    forwards = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    forwards = float(draws.scale[i]) * forwards @ np.array([[1, -tan], [0, 1]])
    half = np.array([width / 2, height / 2])
    crop, window = draws.crop[i].tolist(), draws.window[i].tolist()
    view = np.zeros(size)
    for row in range(rows):
        for column in range(columns):
            x = window[0] + (column + 0.5) / columns * window[2]
            y = window[1] + (row + 0.5) / rows * window[3]
            if shift is not None:  # of the first view, which it does not leave
                at = (min(max(x, 0.5), columns - 0.5), min(max(y, 0.5), rows - 0.5))
                x, y = x + sample(shift[0], *at), y + sample(shift[1], *at)
            if draws.flip[i]:
                x = columns - x
            x, y = crop[0] + x * crop[2] / columns, crop[1] + y * crop[3] / rows
            place = np.linalg.solve(forwards, [x, y] - half - draws.shift[i].numpy()) + half
            view[row, column] = sample(image, *place)
    return view


@pytest.mark.parametrize("name", [*GEOMETRIC, "nothing"])
def test_one_resampling_equals_a_crop_of_the_augmented_image(name: str) -> None:
    settings = GEOMETRIC.get(name, only())
    augmentation = Augmentation(with_crop(settings))
    images = smooth_pictures()
    _, draws = both_draws(augmentation)
    size = (H, W) if settings.size is None else (settings.size, settings.size)
    shifts: Tensor | None = None
    if settings.elastic_probability:
        shifts = augmentation.displacement(keyed(), *size) * draws.elastic[:, None, None, None]
    views = augmentation.warp(centre(images), draws, keyed())
    for i in range(B):
        shift = None if shifts is None else shifts[i].numpy()
        wanted = literal_view(images[i].numpy() / 255, draws, i, shift, size)
        np.testing.assert_allclose(views[i, 0].numpy(), wanted, atol=1e-4)


@pytest.mark.parametrize(("crop", "side"), [({}, math.sqrt(0.5)), ({"of": "side"}, 0.5)])
def test_the_second_view_lies_inside_the_first(crop: dict[str, str], side: float) -> None:
    augmentation = Augmentation(with_crop(only(), **crop))
    windows = []
    for epoch in range(200):
        draws = augmentation.draw(keyed(epoch=epoch), H, W)
        windows.append(augmentation.cropped(draws, keyed(epoch=epoch, view=1), H, W).window)
    left, top, width, height = torch.cat([one for one in windows if one is not None]).unbind(1)
    assert float(width.min()) == float(width.max()) == pytest.approx(side * W)
    assert float(height.min()) == float(height.max()) == pytest.approx(side * H)  # same aspect
    for begin, length, whole in ((left, width, W), (top, height, H)):
        assert float(begin.min()) >= 0 and float((begin + length).max()) <= whole + 1e-4
        # Everywhere as likely.
        room = whole * (1 - side)
        assert float(begin.mean()) == pytest.approx(room / 2, rel=0.05)
        assert float(begin.max()) > 0.99 * room and float(begin.min()) < 0.01 * room


def test_it_shows_what_the_first_shows_there() -> None:
    """In the first view's light; a second interpolation differs at the rims of the image."""
    settings = only(angle=20, brightness=0.4)
    augmentation = Augmentation(with_crop(settings))
    stored = StoredPixels(smooth_pictures(), torch.arange(B) * 17 + 3)
    first, second = (augmentation(stored, 11, 0, view)[:, 0] for view in (0, 1))
    window = both_draws(augmentation)[1].window
    assert window is not None
    close = []
    for i in range(B):
        left, top, width, height = window[i].tolist()
        for row in range(1, H - 1):
            for column in range(1, W - 1):
                x, y = left + (column + 0.5) / W * width, top + (row + 0.5) / H * height
                wanted = sample(first[i].numpy(), x, y)
                close.append(abs(float(second[i, row, column]) - wanted) < 0.03)
    assert np.mean(close) > 0.97


def test_occlusion_is_cropped_with_the_view() -> None:
    settings = only(occlusion_scale=(0.15, 0.4), occlusion_probability=0.7)
    augmentation = Augmentation(with_crop(settings, of="side"))
    draws, cropped = both_draws(augmentation)
    first, second = (
        augmentation.occlude(torch.ones(B, 1, H, W), one)[:, 0] for one in (draws, cropped)
    )
    window = cropped.window
    assert window is not None
    rows, columns = torch.arange(H) + 0.5, torch.arange(W) + 0.5
    for i in range(B):
        y = (window[i, 1] + rows / 2).long()
        x = (window[i, 0] + columns / 2).long()
        assert torch.equal(second[i], first[i][y][:, x])
    assert 0 < float((second == 0).float().mean()) < 0.6


@pytest.mark.parametrize("name", COLUMNS)
def test_the_first_view_is_what_it_is_without(name: str) -> None:
    stored = StoredPixels(pictures(), torch.arange(B) * 17 + 3)
    plain, cropping = Augmentation(COLUMNS[name]), Augmentation(with_crop(COLUMNS[name]))
    assert torch.equal(plain(stored, 11, 2), cropping(stored, 11, 2))
    assert torch.equal(plain.centre(stored), cropping.centre(stored))


def test_a_second_view_depends_on_seed_epoch_and_image_alone() -> None:
    augmentation = Augmentation(with_crop(COLUMNS["image_only"]))
    stored = StoredPixels(pictures(), torch.arange(B) * 17 + 3)
    whole, rows = augmentation(stored, 11, 2, 1), torch.tensor([7, 2, 9])
    part = augmentation(StoredPixels(stored.pixels[rows], stored.keys[rows]), 11, 2, 1)
    torch.testing.assert_close(part, whole[rows], atol=1e-6, rtol=0)
    for other in ((12, 2, 1), (11, 3, 1), (11, 2, 2)):
        assert not torch.allclose(augmentation(stored, *other), whole)


def test_the_crop_is_recorded_where_it_is_set() -> None:
    assert "second_crop" not in AugmentationSettings().record()
    recorded = AugmentationSettings.model_validate(CROP).record()
    assert recorded["second_crop"] == {"share": 0.5, "of": "area"}
    with pytest.raises(ValidationError, match="greater than 0"):
        AugmentationSettings.model_validate({"second_crop": {"share": 0}})
