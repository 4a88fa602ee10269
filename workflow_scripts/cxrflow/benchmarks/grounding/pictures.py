"""Pictures of phrase grounding: a radiograph with its boxes beside its similarity map (Fig. 3).

Best, median and worst sample by CNR of a few findings, so that failures are shown as well as
successes. Radiological convention: the patient's right is on the left.
"""

import io
from functools import cache
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from cxrflow.benchmarks.grounding.region import make_region, prepare_grid
from cxrflow.benchmarks.grounding.settings import PhraseGroundingSettings
from cxrflow.benchmarks.inputs import Pixels
from cxrflow.benchmarks.result import Figure, slug
from cxrflow.images.geometry import Geometry, Placement

PANEL = 240  # pixels of each of the two panels
MAX_BYTES = 60_000  # a page with some dozens of pictures must still open at once
BOX_COLOUR = (255, 214, 10)
RANKS = ("best", "median", "worst")


def choose_examples(scores: pd.DataFrame, count: int) -> list[tuple[int, str]]:
    """Rows and ranks of up to ``count`` examples: best, median, worst of each of some findings.

    The findings are spread evenly from the one grounded best to the one grounded worst.
    """
    known = scores[np.isfinite(scores["cnr"])]
    order = known.groupby("category")["cnr"].mean().sort_values(ascending=False).index
    if not len(order):
        return []
    findings = min(len(order), -(-count // len(RANKS)))
    spread = np.unique(np.linspace(0, len(order) - 1, findings).round().astype(int))
    chosen: list[tuple[int, str]] = []
    for category in order[spread]:
        of_category = known[known["category"] == category]
        ranked = of_category.sort_values(["cnr", "sample_id"], ascending=False).index
        places = dict(zip((0, len(ranked) // 2, len(ranked) - 1), RANKS, strict=True))
        chosen += [(int(ranked[place]), rank) for place, rank in places.items()]
    return chosen[:count]


def _blend(scaled: NDArray[np.float64], grey: NDArray[np.float64]) -> NDArray[np.float64]:
    """Colours [..., 3] in 0–255 of map values in [0, 1] over grey values in 0–255."""
    from matplotlib import colormaps

    return np.asarray(0.55 * 255 * colormaps["plasma"](scaled)[..., :3] + 0.45 * grey[..., None])


def heat_map(values: NDArray[np.float64], picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Colours [S, S, 3]: the map, least value violet, greatest yellow, over the grey picture."""
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
    colours = np.concatenate([greys, mapped, [BOX_COLOUR, (255, 255, 255)]])
    image = Image.new("P", (1, 1))
    image.putpalette(colours.round().astype(np.uint8).tobytes())
    return image


def dashed_box(draw: ImageDraw.ImageDraw, box: NDArray[np.float64], dash: int = 5) -> None:
    """Draw a box x, y, w, h."""
    x, y, w, h = box
    corners = [(x, y), (x + w, y), (x + w, y + h), (x, y + h), (x, y)]
    for start, end in zip(corners, corners[1:], strict=False):
        length = float(np.hypot(end[0] - start[0], end[1] - start[1]))
        for step in np.arange(0, max(length, 1e-6), 2 * dash):
            ends = np.array([step, min(step + dash, length)]) / max(length, 1e-6)
            line = [tuple(np.add(start, np.subtract(end, start) * share)) for share in ends]
            draw.line(line, fill=BOX_COLOUR, width=2)


def draw_pair(
    picture: NDArray[np.uint8],
    values: NDArray[np.float64],
    boxes: NDArray[np.float64],
) -> bytes:
    """PNG of the radiograph [S, S] and the map [S, S] (NaN: no image), boxes [n, 4] on both."""
    size = picture.shape[0]
    panel = PANEL
    while True:
        sheet = Image.new("RGB", (2 * panel + 4, panel), (255, 255, 255))
        for offset, pixels in (
            (0, np.repeat(picture[..., None], 3, axis=2)),
            (panel + 4, heat_map(values, picture)),
        ):
            view = Image.fromarray(pixels).resize((panel, panel), Image.Resampling.BILINEAR)
            draw = ImageDraw.Draw(view)
            for box in boxes * (panel / size):
                dashed_box(draw, box)
            sheet.paste(view, (offset, 0))
        buffer = io.BytesIO()
        flat = sheet.quantize(palette=palette(), dither=Image.Dither.NONE)
        flat.save(buffer, "PNG", optimize=True)
        if buffer.tell() <= MAX_BYTES or panel <= 96:
            return buffer.getvalue()
        panel -= 24


def stored_map(
    grid: NDArray[np.floating[Any]],
    placement: Placement,
    smoothing_sigma: float | None,
    rescale: Literal["none", "minmax"],
    upsample: Literal["nearest", "bilinear"],
) -> NDArray[np.float64]:
    """A similarity grid [h, w] on the stored square [S, S]; NaN where it shows no image."""
    prepared = prepare_grid(grid, smoothing_sigma, rescale)
    region = make_region(prepared, [], placement, upsample, "stored")
    full = np.full((placement.size, placement.size), np.nan)
    x, y, w, h = (round(value) for value in placement.inside_stored())
    full[y : y + h, x : x + w] = region.similarity
    return full


def draw_examples(
    samples: pd.DataFrame,
    scores: pd.DataFrame,
    grids: NDArray[np.float64],
    pixels: Pixels,
    geometry: Geometry,
    settings: PhraseGroundingSettings,
    rescale: Literal["none", "minmax"],
) -> list[Figure]:
    """Draw the chosen examples; the rows of all arguments correspond."""
    figures = []
    for order, (row, rank) in enumerate(choose_examples(scores, settings.figures)):
        sample, score = samples.iloc[row], scores.iloc[row]
        picture = pixels.read(pixels.rows([sample["image_id"]]))[0]
        placement = geometry.place(int(sample["image_height"]), int(sample["image_width"]))
        values = stored_map(
            grids[row], placement, settings.smoothing_sigma, rescale, settings.upsample
        )
        boxes = placement.boxes([list(map(float, box)) for box in sample["boxes"]])
        category = str(sample["category"])
        subject = str(sample["phrase"]) if settings.figure_phrases else f"sample {row}"
        figures.append(
            Figure(
                name=f"{order:02d}_{slug(category)}_{rank}.png",
                png=draw_pair(picture, values, boxes),
                title=f"{category}: {subject}",
                caption=(
                    f"{rank.capitalize()} by CNR of {category}. CNR {score['cnr']:.2f}, mIoU "
                    f"{score['miou']:.2f}; cosine from {np.nanmin(values):.2f} (violet) to "
                    f"{np.nanmax(values):.2f} (yellow); dashed: the annotated boxes."
                ),
                category=category,
                cnr=float(score["cnr"]),
            )
        )
    return figures
