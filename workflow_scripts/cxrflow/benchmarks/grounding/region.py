"""From a similarity grid and boxes to the pixels that are compared (BioViL section 4.3).

The grid covers the stored square. It is brought either to the pixels of the image the boxes were
drawn on (``original``, as the released inference code does) or kept to those of the stored square
(``stored``). Pixels the model never saw, outside its crop, are not part of the returned window;
pixels that are padding are not part of the image. The annotation is the union of a phrase's boxes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import gaussian_filter

from cxrflow.images.geometry import Placement
from cxrflow.metrics.grounding import rescale_minmax

Floats = NDArray[np.float64]
Space = Literal["original", "stored"]
SIZES = ("small", "medium", "large")  # of boxes, as a share of the image; not in the paper


def prepare_grid(
    grid: ArrayLike, sigma: float | None, rescale: Literal["none", "minmax"]
) -> Floats:
    """Smooth (``sigma`` in cells, edges reflected) and rescale a similarity grid [h, w]."""
    values = np.asarray(grid, dtype=np.float64)
    if sigma is not None:
        values = gaussian_filter(values, sigma=sigma)
    return rescale_minmax(values) if rescale == "minmax" else values


def by_box_size(shares: ArrayLike, limits: tuple[float, float]) -> dict[str, NDArray[np.bool_]]:
    """Return which of N samples have small, medium and large boxes (:attr:`Window.share`).

    Named as in metrics: ``size_small`` is below the first of ``limits``.
    """
    size = np.digitize(np.asarray(shares, dtype=np.float64), limits)
    groups = {f"size_{name}": size == number for number, name in enumerate(SIZES)}
    return {name: chosen for name, chosen in groups.items() if chosen.any()}


def box_mask(boxes: ArrayLike, height: int, width: int) -> NDArray[np.bool_]:
    """Union of boxes [n, 4] x, y, w, h: pixels whose centre lies in one, clipped to the image."""
    mask = np.zeros((height, width), dtype=bool)
    for x, y, w, h in np.asarray(boxes, dtype=np.float64).reshape(-1, 4):
        x_start, x_end = np.ceil(np.array([x, x + w]) - 0.5).clip(0, width).astype(int)
        top, bottom = np.ceil(np.array([y, y + h]) - 0.5).clip(0, height).astype(int)
        mask[top:bottom, x_start:x_end] = True
    return mask


def _axis_weights(centres: Floats, size: int, cells: int, upsample: str) -> Floats:
    """Weights [pixels, cells] that take one axis of the grid to pixel centres in [0, size)."""
    position = centres / size * cells - 0.5  # cell c is centred on c
    if upsample == "nearest":
        below = np.floor(position + 0.5).clip(0, cells - 1).astype(int)
        return np.eye(cells)[below]
    # Beyond the centres of the outer cells the outer value goes on, as with align_corners=False.
    position = position.clip(0, cells - 1)
    below = np.minimum(np.floor(position).astype(int), max(cells - 2, 0))
    share = (position - below)[:, None]
    above = np.minimum(below + 1, cells - 1)
    return (1 - share) * np.eye(cells)[below] + share * np.eye(cells)[above]


def _pixel_centres(placement: Placement) -> tuple[Floats, Floats]:
    """Centres x [W] and y [H] of the original image's pixels, in stored pixels."""
    x0, y0, step_x, step_y = placement.boxes([[0, 0, 1, 1]])[0]
    return (
        x0 + (np.arange(placement.original_width) + 0.5) * step_x,
        y0 + (np.arange(placement.original_height) + 0.5) * step_y,
    )


@dataclass(frozen=True)
class Window:
    """The seen pixels [H, W] of one image, and how a grid [h, w] is brought to them."""

    rows: Floats  # [H, h] weights
    columns: Floats  # [W, w] weights
    seen_y: NDArray[np.bool_]  # which rows of the whole image, or of the stored square
    seen_x: NDArray[np.bool_]
    mask: NDArray[np.bool_]  # [H, W], the annotation's seen part
    missed: int  # annotated pixels outside the window
    share: float  # annotated part of the whole image

    @property
    def unscored(self) -> str | None:
        """Why no map of this window can be scored, if that is so."""
        if not self.mask.any():
            return "no box inside the crop"
        return "the boxes cover the whole crop" if self.mask.all() else None

    def pixels(self, grid: Floats) -> Floats:
        """A grid [h, w] at the window's pixels [H, W]."""
        return self.rows @ grid @ self.columns.T

    def whole(self, grid: Floats) -> Floats:
        """The same on the whole image, or the stored square; NaN where nothing was seen.

        As the released inference code pads.
        """
        full = np.full((len(self.seen_y), len(self.seen_x)), np.nan)
        full[np.ix_(self.seen_y, self.seen_x)] = self.pixels(grid)
        return full

    def cell_counts(self) -> tuple[Floats, Floats]:
        """Annotated and all pixels of every cell [h, w], where ``upsample`` is ``nearest``."""
        # Single precision counts exactly up to 2**24.
        rows, columns = self.rows.astype(np.float32), self.columns.astype(np.float32)
        inside = rows.T @ self.mask.astype(np.float32) @ columns
        return inside.astype(np.float64), np.outer(self.rows.sum(0), self.columns.sum(0))


def make_window(
    cells: tuple[int, ...],
    boxes: Sequence[Sequence[float]],
    placement: Placement,
    upsample: Literal["nearest", "bilinear"] = "nearest",
    space: Space = "original",
) -> Window:
    """Return the pixels on which a grid of ``cells`` (h, w) is scored against boxes of the image.

    In ``original`` space the window is the part of the image inside the stored square; in
    ``stored`` space the part of the square that shows the image.
    """
    size = placement.size
    if space == "original":
        height, width = placement.original_height, placement.original_width
        centres_x, centres_y = _pixel_centres(placement)
        mask = box_mask(boxes, height, width)
        full_mask = mask
        seen_x, seen_y = ((c >= 0) & (c < size) for c in (centres_x, centres_y))
    else:
        centres_x = centres_y = np.arange(size, dtype=np.float64) + 0.5
        x, y, w, h = placement.inside_stored()
        mask = box_mask(placement.boxes(boxes), size, size)
        # What a crop cut off can only be counted on the resized image as a whole.
        shift = np.array([placement.left, placement.top, 0, 0])
        full_mask = box_mask(
            placement.boxes(boxes) + shift, placement.resized_height, placement.resized_width
        )
        seen_x = (x <= centres_x) & (centres_x < x + w)
        seen_y = (y <= centres_y) & (centres_y < y + h)
    rows = _axis_weights(centres_y[seen_y], size, cells[0], upsample)
    columns = _axis_weights(centres_x[seen_x], size, cells[1], upsample)
    visible = mask[np.ix_(seen_y, seen_x)]
    missed = int(full_mask.sum() - visible.sum())
    return Window(rows, columns, seen_y, seen_x, visible, missed, float(full_mask.mean()))
