"""Augmentation: every step against a slow transcription for one image at a time, and what makes
views reproducible: randomness that depends on seed, epoch, sample and view alone."""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from pydantic import ValidationError
from scipy.ndimage import gaussian_filter, gaussian_filter1d, map_coordinates

from cxrflow.compute.keyed_random import KeyedRandom
from cxrflow.images.augment import BAND, Augmentation, Draws, StoredPixels, centre, smoothing
from cxrflow.images.settings import AugmentationSettings
from cxrflow.papers import load_paper

B, H, W = 12, 40, 32
# The columns of BioViL's Table E.1, and nothing at all.
SIMCLR = load_paper("biovil").models["simclr"].settings["augmentation"]
COLUMNS = {
    "joint": AugmentationSettings(),
    "image_only": AugmentationSettings(**SIMCLR),
    "fine_tuning": AugmentationSettings(angle=45, shear=25, flip_probability=0.5),
    "none": AugmentationSettings(angle=0, shear=0, brightness=0, contrast=0),
}


def pictures(count: int = B, height: int = H, width: int = W) -> torch.Tensor:
    generator = torch.Generator().manual_seed(5)
    return torch.randint(0, 256, (count, height, width), generator=generator, dtype=torch.uint8)


def smooth_pictures(height: int = H, width: int = W) -> torch.Tensor:
    rng = np.random.default_rng(5)
    images = np.stack([gaussian_filter(rng.random((height, width)), 2) for _ in range(B)])
    images = (images - images.min()) / (images.max() - images.min())
    return torch.from_numpy(np.rint(images * 255).astype(np.uint8))


def keyed(count: int = B, epoch: int = 0, view: int = 0) -> KeyedRandom:
    return KeyedRandom(torch.arange(count) * 17 + 3, seed=11, epoch=epoch, view=view)


def only(**fields: object) -> AugmentationSettings:
    """Settings with nothing but ``fields`` switched on."""
    base = COLUMNS["none"].model_dump()
    return AugmentationSettings.model_validate({**base, **fields})


def sample(image: NDArray, x: float, y: float) -> float:
    """Bilinear value at continuous pixel coordinates (pixel 0 is centred at 0.5), 0 outside."""
    x, y = x - 0.5, y - 0.5
    left, top = math.floor(x), math.floor(y)
    total = 0.0
    for row, weight_y in ((top, 1 - (y - top)), (top + 1, y - top)):
        for column, weight_x in ((left, 1 - (x - left)), (left + 1, x - left)):
            if 0 <= row < image.shape[0] and 0 <= column < image.shape[1]:
                total += weight_x * weight_y * image[row, column]
    return total


def literal_warp(
    image: NDArray, draws: Draws, i: int, shift: NDArray | None, size: int | None = None
) -> NDArray:
    """Each pixel of the view asks where it comes from: warp, flip, crop, shift, scale, rotation."""
    height, width = image.shape
    rows, columns = (height, width) if size is None else (size, size)
    # torchvision's _get_inverse_affine_matrix, scale 1, shear along x only.
    rotation, shear = float(draws.angle[i]), float(draws.shear[i])
    a, b = math.cos(rotation), -math.cos(rotation) * math.tan(shear) - math.sin(rotation)
    c, d = math.sin(rotation), -math.sin(rotation) * math.tan(shear) + math.cos(rotation)
    inverse = np.linalg.inv(float(draws.scale[i]) * np.array([[a, b], [c, d]]))
    centre_xy = np.array([width / 2, height / 2])
    left, top, crop_width, crop_height = draws.crop[i].tolist()
    view = np.zeros((rows, columns))
    for row in range(rows):
        for column in range(columns):
            x, y = column + 0.5, row + 0.5
            if shift is not None:
                x, y = x + shift[row, column, 0], y + shift[row, column, 1]
            if draws.flip[i]:
                x = columns - x
            x, y = left + x * crop_width / columns, top + y * crop_height / rows
            x, y = inverse @ ([x, y] - centre_xy - draws.shift[i].numpy()) + centre_xy
            view[row, column] = sample(image, x, y)
    return view


GEOMETRIC = {
    "rotation": only(angle=30),
    "shear": only(shear=40),
    "rotation and shear": only(angle=180, shear=40),
    "flip": only(flip_probability=0.5),
    "crop": only(crop_scale=(0.3, 0.9)),
    "translation and scaling": only(angle=20, translation=0.2, scaling=(0.8, 1.3)),
    "window": only(size=24),
    "ConVIRT's": only(
        angle=20,
        translation=0.1,
        scaling=(0.95, 1.05),
        crop_scale=(0.6, 1.0),
        size=28,
        flip_probability=0.5,
    ),
    "all": only(angle=180, shear=40, flip_probability=0.5, crop_scale=(0.5, 1.0)),
    "all with elastic": only(
        angle=60,
        shear=20,
        flip_probability=0.5,
        crop_scale=(0.5, 1.0),
        elastic_probability=0.6,
        elastic_sigma=2,
        elastic_alpha=30,
    ),
}


@pytest.mark.parametrize("name", GEOMETRIC)
def test_one_resampling_equals_the_steps_one_after_another(name: str) -> None:
    augmentation, random = Augmentation(GEOMETRIC[name]), keyed(4)
    draws = augmentation.draw(random, H, W)
    images = centre(smooth_pictures()[:4])
    views = augmentation.warp(images, draws, random)[:, 0].numpy()
    shifts = augmentation.displacement(random, H, W).numpy()
    size = GEOMETRIC[name].size
    assert size or not np.allclose(views, images[:, 0].numpy(), atol=0.01)
    for i in range(4):
        shift = shifts[i].transpose(1, 2, 0) if draws.elastic[i] else None
        image = images[i, 0].numpy().astype(np.float64)
        expected = literal_warp(image, draws, i, shift, size)
        np.testing.assert_allclose(views[i], expected, atol=2e-3)


def test_a_translation_is_a_share_of_the_image_without_its_padding() -> None:
    """ConVIRT, Appendix A: at most 0.1 of a side."""
    inside = torch.tensor([[20.0, 0.0, 40.0, 64.0]]).expand(4000, 4)
    shift = Augmentation(only(translation=0.1)).draw(keyed(4000), 64, 80, inside).shift
    assert 3.9 < shift[:, 0].abs().max() <= 4.0 and 6.3 < shift[:, 1].abs().max() <= 6.4


def test_elastic_displacement_is_simards() -> None:
    """alpha x Gaussian-smoothed uniform noise, by SciPy; and it moves pixels as it says."""
    settings = only(elastic_probability=1.0, elastic_sigma=3, elastic_alpha=25)
    augmentation, random = Augmentation(settings), keyed()
    shift = augmentation.displacement(random, H, W).numpy()
    noise = [u.numpy().reshape(B, H, W) * 2 - 1 for u in random.uniform_pair(1, H * W)]
    for i in range(B):
        for axis in range(2):
            smooth = gaussian_filter(noise[axis][i].astype(np.float64), 3, mode="constant")
            np.testing.assert_allclose(shift[i, axis], smooth * 25, atol=1e-4)
    images = centre(smooth_pictures())
    views = augmentation.warp(images, augmentation.draw(random, H, W), random)[:, 0].numpy()
    rows, columns = np.mgrid[:H, :W]
    for i in range(B):
        places = [rows + shift[i, 1], columns + shift[i, 0]]
        expected = map_coordinates(images[i, 0].numpy(), places, order=1)
        inside = (slice(6, -6), slice(6, -6))
        np.testing.assert_allclose(views[i][inside], expected[inside], atol=1e-4)


def test_jitter_is_color_jitter() -> None:
    """torchvision on one image: blend with black or with the mean, clamped after each step."""
    augmentation, random = Augmentation(only(brightness=0.6, contrast=0.7)), keyed()
    draws = augmentation.draw(random, H, W)
    images = centre(pictures())
    views = augmentation.jitter(images, draws)
    orders = set()
    for i in range(B):
        x = images[i, 0].numpy().astype(np.float64)
        bright, contrast = float(draws.brightness[i]), float(draws.contrast[i])
        order = "bc" if draws.brightness_first[i] else "cb"
        orders.add(order)
        for step in order:
            x = bright * x if step == "b" else contrast * x + (1 - contrast) * x.mean()
            x = np.clip(x, 0, 1)
        np.testing.assert_allclose(views[i, 0].numpy(), x, atol=1e-5)
    assert orders == {"bc", "cb"}


def test_occlusion_is_one_black_rectangle() -> None:
    settings = only(occlusion_scale=(0.15, 0.4), occlusion_probability=0.7)
    augmentation = Augmentation(settings)
    count = 400
    draws = augmentation.draw(keyed(count), H, W)
    views = augmentation.occlude(torch.ones(count, 1, H, W), draws)[:, 0].numpy()
    hit = 0
    for i in range(count):
        left, top, width, height = (int(v) for v in draws.occlusion[i])
        expected = np.ones((H, W))
        expected[top : top + height, left : left + width] = 0
        np.testing.assert_array_equal(views[i], expected)
        if width:
            hit += 1
            share = (views[i] == 0).mean()
            assert 0.15 - 0.05 < share < 0.4 + 0.05  # whole pixels
            assert 0.33 * 0.85 < height / width < 3 * 1.15
    assert hit / count == pytest.approx(0.7, abs=0.08)


def test_blur_is_a_gaussian_of_its_own_width() -> None:
    augmentation, random = Augmentation(only(blur_sigma=(0.5, 2.0), blur_probability=0.6)), keyed()
    draws, images = augmentation.draw(random, H, W), centre(pictures())
    views = augmentation.blur(images, draws)[:, 0].numpy()
    for i, sigma in enumerate(draws.blur.tolist()):
        image = images[i, 0].numpy().astype(np.float64)
        expected = gaussian_filter(image, sigma, mode="mirror", radius=8) if sigma else image
        np.testing.assert_allclose(views[i], expected, atol=1e-5)
    assert 0 < int((draws.blur > 0).sum()) < B and float(draws.blur.max()) <= 2


def test_crops_of_unpadded_images_stay_inside_them() -> None:
    """White images of different places and shapes in black squares: no view shows black."""
    inside = torch.tensor([[6, 0, 20, 32], [0, 5, 32, 22], [0, 0, 32, 32]]).repeat(40, 1).float()
    pixels = torch.zeros(120, 32, 32, dtype=torch.uint8)
    for image, (x, y, w, h) in zip(pixels, inside.int().tolist(), strict=True):
        image[y : y + h, x : x + w] = 255
    stored = StoredPixels(pixels, torch.arange(120), inside)
    for settings in (only(crop_scale=(0.3, 0.9), size=16), only(size=18)):
        augmentation = Augmentation(settings)
        views = augmentation(stored, seed=0, epoch=0)
        assert views.shape == (120, 1, settings.size, settings.size)
        # At its rim a crop that reaches the image's edge is half beyond it.
        assert float(views[..., 1:-1, 1:-1].min()) > 0.999
        assert float(Augmentation(settings)(stored._replace(inside=None), 0, 0).min()) == 0
        assert float(augmentation.centre(stored)[..., 1:-1, 1:-1].min()) > 0.999


def test_validation_sees_the_central_window_or_the_whole_image() -> None:
    images, keys = smooth_pictures(32, 32), torch.arange(B)
    window = Augmentation(only(size=20)).centre(StoredPixels(images, keys))
    torch.testing.assert_close(window[:, 0], images[:, 6:26, 6:26] / 255, atol=1e-5, rtol=0)
    inside = torch.tensor([[4.0, 0.0, 24.0, 32.0]]).expand(B, 4)
    cropped = Augmentation(only(size=16, crop_scale=(0.6, 1)))
    whole = cropped.centre(StoredPixels(images, keys, inside))
    image = images[3].numpy() / 255
    for row, column in ((0, 0), (7, 3), (15, 15)):
        expected = sample(image, 4 + (column + 0.5) * 24 / 16, (row + 0.5) * 2)
        assert float(whole[3, 0, row, column]) == pytest.approx(expected, abs=1e-5)


def test_noise_has_its_width_and_share() -> None:
    augmentation, random = Augmentation(only(noise=0.05, noise_probability=0.5)), keyed(200)
    draws = augmentation.draw(random, 64, 64)
    grey = torch.full((200, 1, 64, 64), 0.5)
    views = augmentation.add_noise(grey, draws, random)
    widths = (views - 0.5).std(dim=(1, 2, 3))
    noisy = widths > 0.01
    assert torch.equal(noisy, draws.noise > 0)
    assert float(noisy.float().mean()) == pytest.approx(0.5, abs=0.12)
    assert float(widths[noisy].mean()) == pytest.approx(0.05, rel=0.02)


@pytest.mark.parametrize("scale", [(0.75, 1.0), (0.08, 1.0)])
def test_crops_keep_their_area_and_stay_inside(scale: tuple[float, float]) -> None:
    draws = Augmentation(only(crop_scale=scale)).draw(keyed(2000), H, W)
    left, top, width, height = draws.crop.double().unbind(1)
    share = width * height / (H * W)
    assert float(share.min()) > scale[0] - 1e-4 and float(share.max()) < scale[1] + 1e-4
    assert float(share.mean()) == pytest.approx(sum(scale) / 2, abs=0.02)
    assert bool((left >= 0).all() and (top >= 0).all())
    assert bool((left + width <= W + 1e-3).all() and (top + height <= H + 1e-3).all())
    # A crop of nearly everything must have nearly the image's own shape, whatever the ratio.
    shape = width / height
    allowed = (shape > 3 / 4 - 1e-4) & (shape < 4 / 3 + 1e-4) | (share > 0.9)
    assert bool(allowed.all())


def test_ranges_of_table_e1_are_used_to_their_ends() -> None:
    draws = Augmentation(COLUMNS["image_only"]).draw(keyed(4000), H, W)
    for values, low, high in (
        (torch.rad2deg(draws.angle), -180, 180),
        (torch.rad2deg(draws.shear), -40, 40),
        (draws.brightness, 0.8, 1.2),
        (draws.contrast, 0.8, 1.2),
    ):
        reach = high - low
        assert low - 1e-4 <= float(values.min()) <= low + 0.01 * reach
        assert high - 0.01 * reach <= float(values.max()) <= high + 1e-4
        assert float(values.mean()) == pytest.approx((low + high) / 2, abs=0.03 * reach)
    assert float(draws.flip.float().mean()) == pytest.approx(0.5, abs=0.03)
    assert float(draws.elastic.float().mean()) == pytest.approx(0.4, abs=0.03)


def test_joint_training_keeps_left_left() -> None:
    """A bright mark in the left half stays there under the joint column, for every sample."""
    images = torch.zeros(500, 64, 64, dtype=torch.uint8)
    images[:, 28:36, 8:16] = 255
    views = Augmentation(COLUMNS["joint"])(StoredPixels(images, torch.arange(500)), seed=1, epoch=0)
    columns = torch.arange(64) + 0.5
    weight = (views[:, 0] - views[:, 0].amin(dim=(1, 2), keepdim=True)).sum(1)
    middle = (weight * columns).sum(1) / weight.sum(1)
    assert bool((middle < 32).all())
    flipped = Augmentation(COLUMNS["fine_tuning"])(StoredPixels(images, torch.arange(500)), 1, 0)
    assert bool((flipped[:, 0, :, 32:].amax(dim=(1, 2)) > 0.5).any())


@pytest.mark.parametrize("column", COLUMNS)
def test_views_are_float_in_unit_range(column: str) -> None:
    augmentation = Augmentation(COLUMNS[column])
    views = augmentation(StoredPixels(pictures(), torch.arange(B)), seed=0, epoch=0)
    assert views.shape == (B, 1, H, W) and views.dtype == torch.float32
    assert float(views.min()) >= 0 and float(views.max()) <= 1
    assert bool(views.isfinite().all())


def test_no_augmentation_is_the_centre_view() -> None:
    images = pictures()
    views = Augmentation(COLUMNS["none"])(StoredPixels(images, torch.arange(B)), seed=0, epoch=0)
    assert torch.equal(views, centre(images))
    torch.testing.assert_close(views[:, 0], images / 255)


@pytest.mark.parametrize("column", list(COLUMNS)[:3])
def test_a_view_depends_on_its_own_key_only(column: str) -> None:
    """The same sample alone, in another order, in a larger batch: the same draws and pixels."""
    augmentation = Augmentation(COLUMNS[column])
    images, keys = pictures(), torch.arange(B) * 1_000_003
    whole = augmentation(StoredPixels(images, keys), seed=3, epoch=2)
    assert torch.equal(whole, augmentation(StoredPixels(images, keys), seed=3, epoch=2))
    order = torch.randperm(B, generator=torch.Generator().manual_seed(0))
    views = augmentation(StoredPixels(images[order], keys[order]), seed=3, epoch=2)
    torch.testing.assert_close(views, whole[order], atol=1e-6, rtol=0)
    parts = [StoredPixels(images[i : i + 5], keys[i : i + 5]) for i in range(0, B, 5)]
    halves = [augmentation(part, seed=3, epoch=2) for part in parts]
    torch.testing.assert_close(torch.cat(halves), whole, atol=1e-6, rtol=0)
    large, small = (augmentation.draw(KeyedRandom(k, 3, 2, 0), H, W) for k in (keys, keys[4:5]))
    drawn = {name: value for name, value in vars(large).items() if value is not None}
    assert vars(small).keys() - drawn.keys() == {"window"}
    for name, value in drawn.items():
        assert torch.equal(value[4:5], getattr(small, name)), name


def paired_views(settings: AugmentationSettings, current: torch.Tensor, prior: torch.Tensor):
    """Views of both with the same keys, from two calls; one call gives the same."""
    augmentation, keys = Augmentation(settings), torch.arange(len(current)) * 31 + 5
    views = [augmentation(StoredPixels(images, keys), 4, 1) for images in (current, prior)]
    both = StoredPixels(torch.cat([current, prior]), torch.cat([keys, keys]))
    torch.testing.assert_close(augmentation(both, 4, 1), torch.cat(views), atol=1e-6, rtol=0)
    return views


def test_a_prior_image_is_moved_and_occluded_like_the_current_one() -> None:
    """Warps and occlusion are linear: an image and its negative add up to the view of white."""
    changes = {"brightness": 0, "contrast": 0, "noise": 0, "elastic_probability": 0.5}
    settings = COLUMNS["image_only"].model_copy(update=changes)
    current, white = pictures(), torch.full((B, H, W), 255, dtype=torch.uint8)
    first, second = paired_views(settings, current, 255 - current)
    wanted = paired_views(settings, current, white)[1]
    torch.testing.assert_close(first + second, wanted, atol=1e-5, rtol=0)
    moved = StoredPixels(255 - current, torch.arange(B) + 999)
    other = Augmentation(settings)(moved, seed=4, epoch=1)
    assert ((first + other) > 1.01).flatten(1).any(1).all()


def test_a_prior_image_gets_the_light_and_noise_of_the_current_one() -> None:
    """On even images the factor and the noise that were used can be read off."""
    dark, light = (torch.full((B, H, W), grey, dtype=torch.uint8) for grey in (80, 140))
    bright = only(brightness=0.2, contrast=0.2)
    first, second = paired_views(bright, dark, light)
    torch.testing.assert_close(first / 80, second / 140, atol=1e-6, rtol=0)
    assert first.flatten(1)[:, 0].unique().numel() > B // 2
    first, second = paired_views(only(noise=0.05), dark, light)
    torch.testing.assert_close(first - 80 / 255, second - 140 / 255, atol=1e-6, rtol=0)
    assert (first - 80 / 255).abs().max() > 0.05


def test_smoothing_in_bands_is_the_whole_gaussian() -> None:
    """More lines than a band has, fewer and more than the kernel reaches."""
    for size, sigma in ((200, 3.0), (BAND + 1, 3.0), (150, 34.0)):
        parts = smoothing(size, sigma, torch.device("cpu"))
        assert len(parts) == math.ceil(size / BAND)
        matrix = np.zeros((size, size))
        for i, (lines, part) in enumerate(parts):
            matrix[i * BAND : i * BAND + len(part), lines] = part.numpy()
        expected = gaussian_filter1d(np.eye(size), sigma, axis=0, mode="constant")
        np.testing.assert_allclose(matrix, expected, atol=1e-7)


PARTS = ("key", "seed", "epoch", "view")


@pytest.mark.parametrize("change", PARTS)
def test_each_part_of_the_key_matters(change: str) -> None:
    augmentation = Augmentation(COLUMNS["joint"])
    images = pictures()[:1].expand(B, H, W)
    first, second = (
        augmentation(StoredPixels(images, torch.arange(B) + 100 * key), seed, epoch, view)
        for key, seed, epoch, view in ([0] * 4, [int(change == part) for part in PARTS])
    )
    assert bool(((first - second).abs().amax(dim=(1, 2, 3)) > 0.01).all())


def test_autocast_changes_nothing() -> None:
    augmentation = Augmentation(COLUMNS["image_only"])
    images, keys = pictures(), torch.arange(B)
    plain = augmentation(StoredPixels(images, keys), seed=0, epoch=0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(augmentation(StoredPixels(images, keys), seed=0, epoch=0), plain)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("column", COLUMNS)
def test_a_gpu_gives_the_same_views(column: str) -> None:
    augmentation = Augmentation(COLUMNS[column])
    images, keys = smooth_pictures(), torch.arange(B)
    expected = augmentation(StoredPixels(images, keys), seed=0, epoch=0)
    found = augmentation(StoredPixels(images.cuda(), keys.cuda()), seed=0, epoch=0).cpu()
    torch.testing.assert_close(found, expected, atol=2e-3, rtol=0)


def test_settings_say_no() -> None:
    for wrong in (
        {"crop_scale": (1.0, 0.5)},
        {"occlusion_ratio": (0.33, 0.3)},
        {"occlusion_scale": (0.1, 1.5)},
        {"flip_probability": 1.5},
        {"flip": 0.5},
        {"scaling": (1.1, 0.9)},
        {"blur_sigma": (0, 1)},
    ):
        with pytest.raises(ValidationError):
            AugmentationSettings.model_validate(wrong)
