"""Sheets of heat maps: radiographs side by side with headings, as one PNG.

After BioViL Figures 3, A.1 and A.2: similarity laid over the image, annotated boxes dashed. Unlike
in Figure 3, images are not mirrored: the patient's right is on the left.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image, ImageDraw, ImageFont

from cxrflow.benchmarks.figures.maps import (
    BAR,
    BAR_GAP,
    BAR_TEXT,
    BLACK,
    WHITE,
    Font,
    Scale,
    draw_bar,
    heat_map,
    resized,
    scale_of,
)

GAP = 4
DASH = 5  # pixels
TEXT = 12  # pixels of the letters
LINE = 15
HEADING_LINES = 3
BOX_COLOUR = (94, 234, 212)  # not among the colours of maps


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
    """Panels that belong together, all of one size, under a heading, each with a label.

    ``scale`` is that of their maps, drawn as a bar behind the last.
    """

    heading: str
    panels: Sequence[Image.Image]
    labels: Sequence[str]
    scale: Scale | None = None


def panel(
    picture: NDArray[np.uint8],
    values: NDArray[np.float64] | None = None,
    boxes: ArrayLike = (),
    crop: tuple[float, float, float, float] | None = None,
    longer: int | None = None,
    scale: Scale | None = None,
) -> Image.Image:
    """A radiograph [H, W], over it a smooth map (NaN: none there) and boxes x, y, w, h [n, 4].

    ``scale`` is that of the map, its own if None; ``crop`` a box drawn in full, what the model saw;
    ``longer`` the panel's longer side.
    """
    height, width = picture.shape
    share = 1.0 if longer is None else longer / max(height, width)
    size = (max(1, round(width * share)), max(1, round(height * share)))
    grey = np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.BILINEAR))
    # Of a long strip the model may have seen less than a pixel.
    if values is None or np.isnan(values).all():
        view = Image.fromarray(grey).convert("RGB")
    else:
        view = Image.fromarray(heat_map(resized(values, size), grey, scale or scale_of([values])))
    draw = ImageDraw.Draw(view)
    if crop is not None:
        x, y, w, h = (value * share for value in crop)
        # A long narrow image may show less than a pixel of what the model saw.
        draw.rectangle((x, y, max(x, x + w - 1), max(y, y + h - 1)), outline=WHITE)
    for box in np.asarray(boxes, dtype=np.float64).reshape(-1, 4) * share:
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
    bar = BAR + BAR_GAP + BAR_TEXT if any(strip.scale for strip in strips) else 0
    strip_width = across * (wide + GAP) + bar
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
        if strip.scale is not None:
            corner = (x_start + across * (wide + GAP), above + top + GAP)
            draw_bar(sheet, corner, high, strip.scale, font)
    buffer = io.BytesIO()
    sheet.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
