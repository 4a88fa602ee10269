"""Maps over radiographs: colours that let the picture through, a contour, a bar with the scale.

Maps that are compared have one scale. Low values are transparent, so that the radiograph is seen;
the contour stands at three quarters of the scale.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
Scale = tuple[float, float]  # of the least and the greatest value

WHITE, BLACK = (255, 255, 255), (0, 0, 0)
OPAQUE = 0.6  # share of the colour where a map is greatest
CONTOUR = 0.75  # of the scale
BAR, BAR_GAP, BAR_TEXT = 10, 4, 40  # pixels: the bar's width, the gap before its numbers, those


def scale_of(maps: Iterable[NDArray[np.float64]]) -> Scale:
    """Return the least and the greatest value of maps; NaN is no value."""
    arrays = [values for values in maps if np.isfinite(values).any()]
    if not arrays:
        return 0.0, 1.0
    low = float(min(np.nanmin(values) for values in arrays))
    high = float(max(np.nanmax(values) for values in arrays))
    return low, high if high > low else low + 1.0


def colours(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return colours [..., 3] in 0–255 of shares of a scale: violet, red, yellow."""
    from matplotlib import colormaps

    return np.asarray(255 * colormaps["plasma"](shares)[..., :3])


def resized(values: NDArray[np.float64], size: tuple[int, int]) -> NDArray[np.float64]:
    """Return a map on ``size`` (width, height) pixels, smooth; NaN stays where it was."""
    empty = np.isnan(values)
    filled = np.where(empty, np.nanmin(values), values).astype(np.float32)
    smooth = np.asarray(Image.fromarray(filled).resize(size, Image.Resampling.BICUBIC))
    nowhere = np.asarray(Image.fromarray(empty).resize(size, Image.Resampling.NEAREST))
    return np.where(nowhere, np.nan, smooth.astype(np.float64))


def heat_map(
    values: NDArray[np.float64], picture: NDArray[np.uint8], scale: Scale
) -> NDArray[np.uint8]:
    """Colours [H, W, 3] of a map [H, W] over a grey picture [H, W]; NaN leaves it grey."""
    low, high = scale
    shares = np.nan_to_num(((values - low) / (high - low)).clip(0, 1))
    opacity = (OPAQUE * shares)[..., None]
    mixed = opacity * colours(shares) + (1 - opacity) * picture[..., None].astype(np.float64)
    mixed[outline(shares >= CONTOUR)] = WHITE
    return mixed.round().astype(np.uint8)


def outline(inside: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the pixels [H, W] of an area that touch the outside; the picture's edge does not."""
    padded = np.pad(inside, 1, mode="edge")
    core = padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
    return np.asarray(inside & ~core)


def draw_bar(
    sheet: Image.Image, corner: tuple[int, int], height: int, scale: Scale, font: Font
) -> None:
    """Draw the bar of a scale with its ends in numbers, the greatest on top."""
    x, y = corner
    shades = colours(np.linspace(1, 0, height))[:, None].repeat(BAR, axis=1)
    sheet.paste(Image.fromarray(shades.round().astype(np.uint8)), (x, y))
    draw = ImageDraw.Draw(sheet)
    level = y + round((1 - CONTOUR) * (height - 1))
    draw.line((x, level, x + BAR - 1, level), WHITE)
    for value, anchor, place in ((scale[1], "la", y), (scale[0], "ld", y + height)):
        # The font of pictures has a hyphen, no minus.
        draw.text((x + BAR + BAR_GAP, place), f"{value:.2f}", BLACK, font, anchor=anchor)
