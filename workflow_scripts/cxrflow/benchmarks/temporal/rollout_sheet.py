"""Examples of attention rollout on one sheet (BioViL-T Figures 3, A.3 and A.5)."""

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from cxrflow.benchmarks.figures.maps import Scale, scale_of
from cxrflow.benchmarks.figures.sheet import BOX_COLOUR, Strip, draw_sheet, panel
from cxrflow.benchmarks.inputs import PRIOR
from cxrflow.benchmarks.result import Figure
from cxrflow.benchmarks.temporal.rollout_places import (
    Places,
    PriorTransforms,
    Rollouts,
    cell_places,
    rotated,
)
from cxrflow.benchmarks.temporal.settings import AttentionRolloutSettings
from cxrflow.images.store import PixelStore
from cxrflow.metrics.intervals import Floats

FILE = "rollout.png"
SIDE = 168  # pixels of a panel
ARM = 5  # of a cross


def choose_rows(predictions: pd.DataFrame, count: int) -> list[int]:
    """Return the row of the median ``in_box`` of each of the ``count`` most frequent findings."""
    scored = predictions[np.isfinite(predictions["in_box"])]
    rows = []
    for category in scored["category"].value_counts().index[:count]:
        ranked = scored[scored["category"] == category].sort_values(["in_box", "sample_id"])
        rows.append(int(ranked.index[len(ranked) // 2]))
    return rows


def draw(
    predictions: pd.DataFrame,
    rollouts: dict[float, Rollouts],
    transforms: PriorTransforms,
    boxes: NDArray[np.float64],
    starts: NDArray[np.int64],
    grid: tuple[int, int],
    store: PixelStore,
    settings: AttentionRolloutSettings,
) -> Figure:
    """Draw a line for each finding: the current image, the prior, the rotated priors."""
    size, patches = store.size, grid[0] * grid[1]
    place: Places = cell_places(size, grid)[starts]
    prior_place = transforms(place[:, None])[:, 0]
    strips = []
    for row in choose_rows(predictions, settings.figures):
        sample = predictions.loc[row]
        current, prior = store.read(store.rows([str(sample["image_id"]), str(sample[PRIOR])]))
        maps = [rollouts[0.0].from_start[row, :patches]]
        maps += [turned.from_start[row, patches:] for turned in rollouts.values()]
        scale = scale_of(map(np.nan_to_num, maps))
        panels = [_panel(current, maps[0], grid, place[row], scale, [boxes[row]])]
        for angle, turned in zip(rollouts, maps[1:], strict=True):
            pixels = torch.from_numpy(prior)[None, None].float()
            picture = rotated(pixels, angle)[0, 0].round().byte().numpy() if angle else prior
            mark = prior_place[row] * np.exp(1j * np.deg2rad(angle))
            panels.append(_panel(picture, turned, grid, mark, scale))
        angles = [f"prior, {angle:+g} degrees" if angle else "prior" for angle in rollouts]
        strips.append(Strip(str(sample["category"]), panels, ["current", *angles], scale))
    caption = (
        "The median of each finding by the share of attention in the box. The patch of the cross "
        "on the current image takes its difference features from what is yellow; dashed: the "
        "annotated box. On the prior the cross is the same place of the chest, as far as it is "
        "known."
    )
    return Figure(FILE, draw_sheet(strips, 1), "Attention rollout", caption)


def _panel(
    picture: NDArray[np.uint8],
    attention_L: Floats,
    grid: tuple[int, int],
    mark: complex,
    scale: Scale,
    boxes: list[NDArray[np.float64]] | None = None,
) -> Image.Image:
    size = len(picture)
    values = np.nan_to_num(attention_L).reshape(grid)
    view = panel(picture, values, np.array(boxes or []), longer=SIDE, scale=scale)
    x, y = (np.array([mark.real, mark.imag]) / size + 0.5) * SIDE
    pen = ImageDraw.Draw(view)
    for arm in ((ARM, 0), (0, ARM)):
        ends = (x - arm[0], y - arm[1], x + arm[0], y + arm[1])
        pen.line(ends, fill=BOX_COLOUR, width=2)
    return view
