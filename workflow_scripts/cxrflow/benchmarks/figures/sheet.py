"""Sheets of heat maps: radiographs side by side with headings, as one small PNG.

After BioViL Figures 3, A.1 and A.2: similarity laid over the image, annotated boxes dashed. Unlike
in Figure 3, images are not mirrored: the patient's right is on the left.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image, ImageDraw, ImageFont

GAP = 4
DASH = 5  # pixels
TEXT = 12  # pixels of the letters
LINE = 15
HEADING_LINES = 3
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
WHITE, BLACK, BOX_COLOUR = (255, 255, 255), (0, 0, 0), (255, 214, 10)


def _blend(scaled: NDArray[np.float64], grey: NDArray[np.float64]) -> NDArray[np.float64]:
    """Colours [..., 3] in 0–255 of map values in [0, 1] over grey values in 0–255."""
    from matplotlib import colormaps

    return np.asarray(0.55 * 255 * colormaps["plasma"](scaled)[..., :3] + 0.45 * grey[..., None])


def heat_map(values: NDArray[np.float64], picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Colours [S, S, 3]: the map, least value violet, greatest yellow, over the grey picture."""
    if np.isnan(values).all():  # of a long strip the model may have seen less than a pixel
        return np.repeat(picture[..., None], 3, axis=2)
    low, high = np.nanmin(values), np.nanmax(values)
    scaled = (np.nan_to_num(values, nan=low) - low) / (high - low if high > low else 1.0)
    grey = picture.astype(np.float64)
    coloured = np.where(np.isnan(values)[..., None], grey[..., None], _blend(scaled, grey))
    return coloured.astype(np.uint8)


@cache
def palette() -> Image.Image:
    """The colours of a sheet: greys, map colours over greys, the boxes' colour, white.

    Fixed rather than fitted, so that grey stays grey and pictures can be compared.
    """
    greys = np.repeat(np.linspace(0, 255, 64)[:, None], 3, axis=1)
    scaled, grey = np.meshgrid(np.linspace(0, 1, 20), np.linspace(0, 255, 9))
    mapped = _blend(scaled.ravel(), grey.ravel())
    colours = np.concatenate([greys, mapped, [BOX_COLOUR, WHITE]])
    image = Image.new("P", (1, 1))
    image.putpalette(colours.round().astype(np.uint8).tobytes())
    return image


def dashed_box(draw: ImageDraw.ImageDraw, box: NDArray[np.float64]) -> None:
    """Draw a box x, y, w, h."""
    x, y, w, h = box
    corners = [(x, y), (x + w, y), (x + w, y + h), (x, y + h), (x, y)]
    for start, end in zip(corners, corners[1:], strict=False):
        length = float(np.hypot(end[0] - start[0], end[1] - start[1]))
        for step in np.arange(0, max(length, 1e-6), 2 * DASH):
            ends = np.array([step, min(step + DASH, length)]) / max(length, 1e-6)
            line = [tuple(np.add(start, np.subtract(end, start) * share)) for share in ends]
            draw.line(line, fill=BOX_COLOUR, width=2)


@dataclass(frozen=True)
class Strip:
    """Panels that belong together, all of one size, under a heading, each with a label."""

    heading: str
    panels: Sequence[Image.Image]
    labels: Sequence[str]


def panel(
    picture: NDArray[np.uint8],
    values: NDArray[np.float64] | None = None,
    boxes: ArrayLike = (),
    crop: tuple[float, float, float, float] | None = None,
    longer: int | None = None,
) -> Image.Image:
    """A radiograph [H, W] with a map [H, W] over it (NaN: none there) and boxes x, y, w, h [n, 4].

    ``crop`` is a box drawn in full, what the model saw; ``longer`` the panel's longer side.
    """
    height, width = picture.shape
    coloured = (
        np.repeat(picture[..., None], 3, axis=2) if values is None else heat_map(values, picture)
    )
    scale = 1.0 if longer is None else longer / max(height, width)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    view = Image.fromarray(coloured).resize(size, Image.Resampling.BILINEAR)
    draw = ImageDraw.Draw(view)
    if crop is not None:
        x, y, w, h = (value * scale for value in crop)
        # A long narrow image may show less than a pixel of what the model saw.
        draw.rectangle((x, y, max(x, x + w - 1), max(y, y + h - 1)), outline=WHITE)
    for box in np.asarray(boxes, dtype=np.float64).reshape(-1, 4) * scale:
        dashed_box(draw, box)
    return view


def _wrapped(text: str, width: int, font: Font, lines: int) -> list[str]:
    """The text in lines of at most ``width`` pixels; what does not fit into them is cut off."""
    wrapped: list[str] = [""]
    for word in text.split():
        longer = f"{wrapped[-1]} {word}".strip()
        if font.getlength(longer) <= width or not wrapped[-1]:
            wrapped[-1] = longer
        else:
            wrapped.append(word)
    if len(wrapped) > lines:
        wrapped = [*wrapped[: lines - 1], f"{wrapped[lines - 1]} ..."]
    return wrapped


def draw_sheet(strips: Sequence[Strip], per_line: int) -> bytes:
    """PNG of the strips, ``per_line`` of them side by side; all have panels of equal number."""
    font = ImageFont.load_default(TEXT)
    sizes = [view.size for strip in strips for view in strip.panels]
    wide, high = max(w for w, _ in sizes), max(h for _, h in sizes)
    across = max(len(strip.panels) for strip in strips)
    strip_width = across * (wide + GAP)
    headings = [_wrapped(strip.heading, strip_width - GAP, font, HEADING_LINES) for strip in strips]
    top = max(map(len, headings)) * LINE
    label = LINE if any(any(strip.labels) for strip in strips) else 0
    strip_height = top + high + label + 2 * GAP
    lines = -(-len(strips) // per_line)
    width = min(per_line, len(strips)) * (strip_width + 2 * GAP)
    sheet = Image.new("RGB", (width, lines * strip_height), WHITE)
    draw = ImageDraw.Draw(sheet)
    for number, (strip, heading) in enumerate(zip(strips, headings, strict=True)):
        x_start = number % per_line * (strip_width + 2 * GAP) + GAP
        above = number // per_line * strip_height
        for line, text in enumerate(heading):
            draw.text((x_start, above + line * LINE), text, BLACK, font)
        for column, (view, text) in enumerate(zip(strip.panels, strip.labels, strict=True)):
            x = x_start + column * (wide + GAP)
            sheet.paste(view, (x, above + top + GAP))
            (label_line,) = _wrapped(text, wide, font, 1)
            draw.text((x, above + top + GAP + high), label_line, BLACK, font)
    return flat_png(sheet)


def flat_png(sheet: Image.Image) -> bytes:
    """PNG of a sheet; fixed colours make the file a quarter, and keep grey grey."""
    buffer = io.BytesIO()
    flat = sheet.quantize(palette=palette(), dither=Image.Dither.NONE)
    flat.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
