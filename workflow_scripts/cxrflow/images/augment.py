"""Training views of stored images (BioViL Appendix E.2, Table E.1), batched, on the images' device.

Order, as in the authors' public SimCLR settings: affine, crop, flip, brightness and contrast,
elastic warp, blur, occlusion, noise. All geometric steps are composed into one displacement field
and one bilinear resampling, so nothing is interpolated twice; brightness and contrast therefore
come after the warp. What lies outside the image is black. Every number that is drawn depends on
(seed, epoch, sample, view) only (:mod:`cxrflow.compute.keyed_random`).

With ``second_crop`` a further view is a window of the first: of the same draws, at as many pixels,
still in one resampling. Blur and noise are of the pixels of a view; noise is drawn for each.

Shapes: B images, H x W pixels. Coordinates are pixels from the image's centre, y downwards.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from cxrflow.compute.device_copy import sent
from cxrflow.compute.keyed_random import KeyedRandom
from cxrflow.images.settings import AugmentationSettings

# Streams of the keyed generator. Numbers are part of what a seed means: never renumber.
_PARAMETERS, _ELASTIC, _NOISE, _FURTHER, _SECOND_CROP = 0, 1, 2, 3, 4
_PARAMETER_COUNT, _FURTHER_COUNT = 17, 7

#: Lines that are smoothed by one product; see :func:`smoothing`.
BAND = 64


class StoredPixels(NamedTuple):
    """B images as a pixel store keeps them."""

    pixels: Tensor  # uint8 [B, H, W]
    keys: Tensor  # int64 [B], what their augmentation is drawn by
    inside: Tensor | None = None  # [B, 4] left, top, width, height of the image; None: all of it


@dataclass(frozen=True)
class Draws:
    """The random parameters of B images; all [B] unless noted. Angles are radians."""

    angle: Tensor
    shear: Tensor
    crop: Tensor  # [B, 4] left, top, width, height in pixels from the upper left corner
    flip: Tensor  # bool
    brightness: Tensor
    contrast: Tensor
    brightness_first: Tensor  # bool
    elastic: Tensor  # bool
    occlusion: Tensor  # [B, 4] left, top, width, height in whole pixels; no area: none
    noise: Tensor  # standard deviation
    shift: Tensor  # [B, 2] x, y in pixels
    scale: Tensor
    blur: Tensor  # standard deviation; 0: none
    window: Tensor | None = None  # [B, 4] left, top, width, height of the view; None: all of it


class Augmentation:
    """Calling it turns stored images into views; :meth:`centre` is what inference uses.

    A prior image called with the current image's key (seed, epoch and view alike, same size) is
    treated identically, as BioViL-T trains (its Appendix E.1, and "identical transforms" in its
    fine-tuning): the same geometry to the pixel with the same elastic field, the same brightness
    and contrast in the same order (contrast about each image's own mean), the same occlusion, and
    the same noise, pixel by pixel. Images of one batch may share a key for this.
    """

    def __init__(self, settings: AugmentationSettings) -> None:
        self.settings = settings

    @torch.no_grad()
    def __call__(self, stored: StoredPixels, seed: int, epoch: int, view: int = 0) -> Tensor:
        """One view of each image: float32 [B, 1, H, W] in [0, 1].

        What is drawn depends on the keys, never on pixels or the place in the batch. ``view`` tells
        apart the views of an image.
        """
        images, keys, inside = stored
        # Autocast would do the smoothing and the coordinates in half precision.
        with torch.autocast(images.device.type, enabled=False):
            random = first = KeyedRandom(sent(keys, images.device), seed, epoch, view)
            height, width = images.shape[-2:]
            if view > 0 and self.settings.second_crop is not None:
                first = KeyedRandom(sent(keys, images.device), seed, epoch, 0)
                draws = self.cropped(self.draw(first, height, width, inside), random, height, width)
            else:
                draws = self.draw(first, height, width, inside)
            views = self.warp(centre(images), draws, first)
            views = self.jitter(views, draws)
            views = self.blur(views, draws)
            views = self.occlude(views, draws)
            return self.add_noise(views, draws, random)

    @torch.no_grad()
    def moved(self, stored: StoredPixels, seed: int, epoch: int) -> Tensor:
        """The first view's geometry alone, of masks of the images: float32 [B, 1, H, W]."""
        with torch.autocast(stored.pixels.device.type, enabled=False):
            random = KeyedRandom(sent(stored.keys, stored.pixels.device), seed, epoch, 0)
            height, width = stored.pixels.shape[-2:]
            draws = self.draw(random, height, width, stored.inside)
            return self.warp(centre(stored.pixels), draws, random)

    def centre(self, stored: StoredPixels) -> Tensor:
        """The views of validation: the stored square or, with ``size``, its central part."""
        images, _, inside = stored
        side = self.settings.size
        if side is None:
            return centre(images)
        height, width = images.shape[-2:]
        crop = _full(len(images), height, width, images.device) if inside is None else inside
        if self.settings.crop_scale is None:
            crop = _window(crop, side, 0.5, 0.5)
        left, top, crop_width, crop_height = crop[:, :, None].unbind(1)  # [B, 1] each
        places = (torch.arange(side, device=images.device) + 0.5) / side
        x = (left + places * crop_width) / (width / 2) - 1
        y = (top + places * crop_height) / (height / 2) - 1
        grid = [x[:, None, :].expand(-1, side, -1), y[:, :, None].expand(-1, -1, side)]
        return sampled(centre(images), torch.stack(grid, dim=1))

    def view_size(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of the views of [H, W] images."""
        side = self.settings.size
        return (height, width) if side is None else (side, side)

    def draw(
        self, random: KeyedRandom, height: int, width: int, inside: Tensor | None = None
    ) -> Draws:
        """All parameters of a batch of [H, W] images, each in its range of the settings."""
        s = self.settings
        u = random.uniform(_PARAMETERS, _PARAMETER_COUNT).unbind(1)
        v = random.uniform(_FURTHER, _FURTHER_COUNT).unbind(1)
        full = _full(len(u[0]), height, width, u[0].device)
        crop, occlusion = full, torch.zeros_like(full)
        inside = full if inside is None else inside
        if s.crop_scale is not None:
            crop = _rectangle(u[2:6], s.crop_scale, s.crop_ratio, inside)
        elif s.size is not None:
            crop = _window(inside, s.size, v[3], v[4])
        if s.occlusion_scale is not None:
            # The ratio is height over width here, as in torchvision's RandomErasing.
            low, high = s.occlusion_ratio
            view = _full(len(u[0]), *self.view_size(height, width), u[0].device)
            box = _rectangle(u[6:10], s.occlusion_scale, (1 / high, 1 / low), view)
            chosen = u[10] < s.occlusion_probability
            occlusion = torch.where(chosen[:, None], box.round(), occlusion)
        return Draws(
            angle=_spread(u[0], math.radians(s.angle)),
            shear=_spread(u[1], math.radians(s.shear)),
            crop=crop,
            flip=u[11] < s.flip_probability,
            # torchvision's range: [max(0, 1 - b), 1 + b].
            brightness=_between(u[12], max(0.0, 1 - s.brightness), 1 + s.brightness),
            contrast=_between(u[13], max(0.0, 1 - s.contrast), 1 + s.contrast),
            brightness_first=u[14] < 0.5,
            elastic=u[16] < s.elastic_probability,
            occlusion=occlusion,
            noise=torch.where(u[15] < s.noise_probability, s.noise, 0.0),
            shift=_spread(torch.stack(v[:2], dim=1), s.translation) * inside[:, 2:],
            scale=_between(v[2], *(s.scaling or (1.0, 1.0))),
            blur=_between(v[6], *(s.blur_sigma or (0.0, 0.0))) * (v[5] < s.blur_probability),
        )

    def cropped(self, draws: Draws, random: KeyedRandom, height: int, width: int) -> Draws:
        """Return ``draws`` of the first view with a random window of it, occlusion included."""
        s = self.settings
        assert s.second_crop is not None
        view_height, view_width = self.view_size(height, width)
        u = random.uniform(_SECOND_CROP, 2)
        view = sent(torch.tensor([view_width, view_height], dtype=u.dtype), u.device).expand_as(u)
        sides = view * s.second_crop.side
        begin = u * (view - sides)
        corner, box = draws.occlusion.split(2, dim=1)
        occlusion = torch.cat([corner - begin, box], dim=1) / s.second_crop.side
        window = torch.cat([begin, sides], dim=1)
        return replace(draws, window=window, occlusion=occlusion)

    def warp(self, images: Tensor, draws: Draws, random: KeyedRandom) -> Tensor:
        """Affine, crop, flip, elastic warp and window in one resampling of float32 [B, 1, H, W]."""
        s = self.settings
        moves = (s.angle, s.shear, s.crop_scale, s.flip_probability, s.elastic_probability)
        if draws.window is None and not any((*moves, s.translation, s.scaling, s.size)):
            return images  # as stored: a resampling of nothing would round
        height, width = images.shape[-2:]
        view_height, view_width = self.view_size(height, width)
        matrix, offset = source_map(draws, height, width, view_height, view_width)
        # grid_sample wants [-1, 1] from edge to edge.
        half = sent(torch.tensor([width / 2, height / 2]), images.device)
        matrix, offset = matrix / half[:, None], offset / half
        x = torch.arange(view_width, device=images.device) + (0.5 - view_width / 2)
        y = torch.arange(view_height, device=images.device) + (0.5 - view_height / 2)
        if draws.window is not None:  # [B, 1, W] and [B, 1, H], still of the whole view
            left, top, window_width, window_height = draws.window[:, :, None, None].unbind(1)
            x = left + (x + view_width / 2) * (window_width / view_width) - view_width / 2
            y = top + (y + view_height / 2) * (window_height / view_height) - view_height / 2
        columns = matrix[:, :, :1] * x  # [B, 2, W]
        rows = matrix[:, :, 1:] * y + offset[:, :, None]  # [B, 2, H]
        grid = columns[:, :, None, :] + rows[:, :, :, None]  # [B, 2, H, W]
        if s.elastic_probability:
            for batch in chosen_rows(draws.elastic):
                shift = self.displacement(random.rows(batch), view_height, view_width)
                shift *= draws.elastic[batch, None, None, None]
                if draws.window is not None:
                    places = [
                        (x[batch] * (2 / view_width)).expand(-1, view_height, -1),
                        (y[batch] * (2 / view_height)).mT.expand(-1, -1, view_width),
                    ]
                    shift = sampled(shift, torch.stack(places, dim=1), outside="border")
                grid[batch] += (matrix[batch] @ shift.flatten(2)).view_as(shift)
        return sampled(images, grid)

    def displacement(self, random: KeyedRandom, height: int, width: int) -> Tensor:
        """Elastic displacement (Simard et al. 2003): pixels, x then y, float32 [B, 2, H, W].

        Uniform noise in [-1, 1], smoothed by a Gaussian (zero outside the image), times alpha.
        """
        s = self.settings
        x, y = random.uniform_pair(_ELASTIC, height * width)
        noise = torch.stack([x, y], dim=1).mul_(2).sub_(1).view(-1, 2, height, width)
        down = smoothing(height, s.elastic_sigma, noise.device)
        noise = torch.cat([band @ noise[..., lines, :] for lines, band in down], dim=-2)
        across = smoothing(width, s.elastic_sigma, noise.device)
        noise = torch.cat([noise[..., lines] @ band.T for lines, band in across], dim=-1)
        return noise.mul_(s.elastic_alpha)

    def jitter(self, images: Tensor, draws: Draws) -> Tensor:
        """Brightness and contrast in random order, torchvision's ColorJitter; clamped to [0, 1]."""
        if not self.settings.brightness and not self.settings.contrast:
            return images
        first = draws.brightness_first
        brightness, contrast = draws.brightness, draws.contrast
        # Each step is x * factor + (1 - weight) * mean; brightness has no mean: weight 1.
        steps = (
            (torch.where(first, brightness, contrast), torch.where(first, 1.0, contrast)),
            (torch.where(first, contrast, brightness), torch.where(first, contrast, 1.0)),
        )
        for factor, weight in steps:
            shift = ((1 - weight) * images.mean(dim=(1, 2, 3)))[:, None, None, None]
            images = torch.addcmul(shift, images, factor[:, None, None, None]).clamp_(0, 1)
        return images

    def blur(self, images: Tensor, draws: Draws) -> Tensor:
        """Gaussian blur, edges reflected (torchvision); the kernel ends at 4 sigma at most."""
        if self.settings.blur_sigma is None:
            return images
        radius = int(4 * self.settings.blur_sigma[1] + 0.5)
        taps = torch.arange(-radius, radius + 1, device=images.device)
        # Without blur the kernel is 1 at its middle.
        weights = torch.exp(-0.5 * (taps / draws.blur.clamp(min=1e-6)[:, None]) ** 2)
        weights[weights < 1e-20] = 0.0  # subnormal numbers would make a CPU seven times as slow
        weights = (weights / weights.sum(1, keepdim=True))[:, None]  # [B, 1, taps]
        views = F.pad(images[:, 0][None], (radius,) * 4, mode="reflect")
        views = F.conv2d(views, weights[:, :, :, None], groups=len(images))
        return F.conv2d(views, weights[:, :, None, :], groups=len(images))[0][:, None]

    def occlude(self, images: Tensor, draws: Draws) -> Tensor:
        """Black out one rectangle (torchvision's RandomErasing with value 0)."""
        if self.settings.occlusion_scale is None:
            return images
        height, width = images.shape[-2:]
        left, top, box_width, box_height = draws.occlusion[:, :, None].unbind(1)  # [B, 1] each
        x = torch.arange(width, device=images.device) + 0.5
        y = torch.arange(height, device=images.device) + 0.5
        in_columns = (x >= left) & (x < left + box_width)
        in_rows = (y >= top) & (y < top + box_height)
        inside = in_rows[:, None, :, None] & in_columns[:, None, None, :]
        return images.masked_fill(inside, 0.0)

    def add_noise(self, images: Tensor, draws: Draws, random: KeyedRandom) -> Tensor:
        """Add Gaussian noise, clamped to [0, 1]."""
        if not self.settings.noise:
            return images
        views = images.clone()
        for rows in chosen_rows(draws.noise > 0):
            noise = random.rows(rows).normal(_NOISE, images[0].numel()).view_as(images[rows])
            views[rows] = noise.mul_(draws.noise[rows, None, None, None]).add_(images[rows])
        return views.clamp_(0, 1)


def centre(images: Tensor) -> Tensor:
    """The view that inference uses: the stored square, uint8 [B, H, W] -> float32 [B, 1, H, W]."""
    return images[:, None].to(torch.float32).mul_(1 / 255)


def sampled(images: Tensor, grid: Tensor, outside: str = "zeros") -> Tensor:
    """``images`` [B, C, H, W] at places [B, 2, h, w] in [-1, 1] from edge to edge."""
    return F.grid_sample(
        images,
        grid.permute(0, 2, 3, 1),
        mode="bilinear",
        padding_mode=outside,
        align_corners=False,
    )


def source_map(
    draws: Draws, height: int, width: int, view_height: int, view_width: int
) -> tuple[Tensor, Tensor]:
    """Where a pixel of the view comes from: source = matrix [B, 2, 2] @ pixel + offset [B, 2].

    The affine step is torchvision's RandomAffine: the image is sheared along x, then rotated
    about its centre by ``angle`` (positive: clockwise) and scaled, then shifted. A view is made by
    asking backwards, so this is flip, then crop, then the inverses of these.
    """
    cos, sin = torch.cos(draws.angle), torch.sin(draws.angle)
    tan = torch.tan(draws.shear)
    # Forwards: rotation [[cos, -sin], [sin, cos]] after shear [[1, -tan], [0, 1]].
    inverse = torch.stack([cos - tan * sin, sin + tan * cos, -sin, cos], dim=1).view(-1, 2, 2)
    left, top, crop_width, crop_height = draws.crop.unbind(1)
    inverse = inverse / draws.scale[:, None, None]
    scale_x = crop_width / view_width * torch.where(draws.flip, -1.0, 1.0)
    scale_y = crop_height / view_height
    shift = torch.stack([left + (crop_width - width) / 2, top + (crop_height - height) / 2], dim=1)
    shift = shift - draws.shift
    matrix = inverse * torch.stack([scale_x, scale_y], dim=1)[:, None, :]
    return matrix, (inverse @ shift[:, :, None])[:, :, 0]


def chosen_rows(chosen: Tensor) -> Sequence[slice]:
    """The rows to work on for a step that is for the images ``chosen`` [B] (bool) alone.

    On a CPU these are the chosen ones, one by one, as a single image's fields fit its caches. A GPU
    would have to wait to know which they are; there it is all at once, the others by nothing.
    """
    if chosen.device.type != "cpu":
        return [slice(None)]
    return [slice(row, row + 1) for row in chosen.nonzero()[:, 0].tolist()]


@lru_cache(maxsize=8)
def smoothing(size: int, sigma: float, device: torch.device) -> Sequence[tuple[slice, Tensor]]:
    """Gaussian smoothing along an axis of ``size``; the kernel ends at 4 sigma, sums to 1.

    It is a product with a matrix that is zero but for a band: for every ``BAND`` outputs in turn,
    the inputs that they depend on and the part [outputs, inputs] of the matrix between the two.
    """
    radius = int(4 * sigma + 0.5)
    offsets = torch.arange(size, device=device)
    distance = (offsets[:, None] - offsets[None, :]).abs()
    taps = torch.arange(-radius, radius + 1, device=device, dtype=torch.float64)
    total = torch.exp(-0.5 * (taps / sigma) ** 2).sum()
    kernel = torch.exp(-0.5 * (distance.double() / sigma) ** 2) / total
    matrix = torch.where(distance <= radius, kernel, 0.0).float()
    bands = []
    for first in range(0, size, BAND):
        lines = slice(max(0, first - radius), min(size, first + BAND + radius))
        bands.append((lines, matrix[first : first + BAND, lines].contiguous()))
    return bands


def _rectangle(
    u: tuple[Tensor, ...],
    scale: tuple[float, float],
    ratio: tuple[float, float],
    inside: Tensor,
) -> Tensor:
    """A rectangle ``inside`` another: float32 [B, 4] left, top, width, height.

    Area uniform in ``scale`` of the image's, width over height log-uniform in the part of
    ``ratio`` that fits. (torchvision draws both again until they fit, at most ten times.)
    """
    first, second, width, height = inside.unbind(1)
    area = _between(u[0], *scale) * (height * width)
    # width = sqrt(area * ratio) <= W and height = sqrt(area / ratio) <= H.
    low = (area / height**2).clamp(min=ratio[0])
    high = torch.maximum((width**2 / area).clamp(max=ratio[1]), low)
    shape = torch.exp(torch.log(low) + u[1] * (torch.log(high) - torch.log(low)))
    box_width = torch.minimum(torch.sqrt(area * shape), width)
    box_height = torch.minimum(torch.sqrt(area / shape), height)
    left, top = first + u[2] * (width - box_width), second + u[3] * (height - box_height)
    return torch.stack([left, top, box_width, box_height], dim=1)


def _window(inside: Tensor, side: int, u: Tensor | float, v: Tensor | float) -> Tensor:
    """A square of ``side`` at the share (u, v) of the places it can have in a rectangle: [B, 4]."""
    left, top, width, height = inside.unbind(1)
    square = torch.full_like(left, side)
    return torch.stack([left + u * (width - side), top + v * (height - side), square, square], 1)


def _full(count: int, height: int, width: int, device: torch.device) -> Tensor:
    return sent(torch.tensor([0.0, 0.0, width, height]), device).expand(count, 4)


def _spread(u: Tensor, reach: float) -> Tensor:
    return (u * 2 - 1) * reach


def _between(u: Tensor, low: float, high: float) -> Tensor:
    return low + u * (high - low)
