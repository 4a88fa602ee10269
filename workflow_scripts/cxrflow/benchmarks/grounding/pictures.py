"""Pictures of phrase grounding: a radiograph beside its similarity map with the boxes (Fig. 3).

Best, median and worst sample by CNR of a few findings, so that failures are shown as well as
successes. Radiological convention: the patient's right is on the left.
"""

from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxrflow.benchmarks.figures.maps import scale_of
from cxrflow.benchmarks.figures.sheet import Strip, draw_sheet, panel
from cxrflow.benchmarks.grounding.region import make_window, prepare_grid
from cxrflow.benchmarks.grounding.settings import PhraseGroundingSettings
from cxrflow.benchmarks.inputs import Pixels
from cxrflow.benchmarks.result import Figure, slug
from cxrflow.images.geometry import Geometry, Placement

PANEL = 240  # pixels of each of the two panels
RANKS = ("best", "median", "worst")


def choose_examples(scores: pd.DataFrame, count: int) -> list[tuple[int, str]]:
    """Rows and ranks of up to ``count`` examples: best, median, worst of each of some findings.

    The findings are spread evenly from the one grounded best to the one grounded worst.
    """
    scored = scores[np.isfinite(scores["cnr"])]
    order = scored.groupby("category")["cnr"].mean().sort_values(ascending=False).index
    if not len(order):
        return []
    findings = min(len(order), -(-count // len(RANKS)))
    spread = np.unique(np.linspace(0, len(order) - 1, findings).round().astype(int))
    chosen: list[tuple[int, str]] = []
    for category in order[spread]:
        of_category = scored[scored["category"] == category]
        ranked = of_category.sort_values(["cnr", "sample_id"], ascending=False).index
        places = dict(zip((0, len(ranked) // 2, len(ranked) - 1), RANKS, strict=True))
        chosen += [(int(ranked[place]), rank) for place, rank in places.items()]
    return chosen[:count]


def draw_pair(
    picture: NDArray[np.uint8],
    values: NDArray[np.float64],
    boxes: NDArray[np.float64],
) -> bytes:
    """PNG of the radiograph [S, S], and the map [S, S] (NaN: no image) with boxes [n, 4] on it."""
    panels = [panel(picture, longer=PANEL), panel(picture, values, boxes, longer=PANEL)]
    return draw_sheet([Strip("", panels, ["", ""], scale_of([values]))], 1)


def stored_map(
    grid: NDArray[np.floating[Any]],
    placement: Placement,
    smoothing_sigma: float | None,
    rescale: Literal["none", "minmax"],
) -> NDArray[np.float64]:
    """A similarity grid [h, w] on the stored square [S, S]; NaN where it shows no image.

    It is interpolated for the eye, whatever the protocol scores.
    """
    prepared = prepare_grid(grid, smoothing_sigma, rescale)
    return make_window(prepared.shape, [], placement, "bilinear", "stored").whole(prepared)


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
        values = stored_map(grids[row], placement, settings.smoothing_sigma, rescale)
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
                    f"{score['miou']:.2f}; cosine from {np.nanmin(values):.2f} to "
                    f"{np.nanmax(values):.2f}; dashed: the annotated boxes."
                ),
                category=category,
                cnr=float(score["cnr"]),
            )
        )
    return figures
