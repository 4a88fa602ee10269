"""Position and extent of MS-CXR's boxes by finding: the axes of BioViL's Figure C.1 as numbers.

Appendix C shows examples of "spatial extent", "multiple pathologies" and "multiple spatial
locations". Counted here over all pairs of a phrase and an image: the share of the image that the
union of the phrase's boxes covers, the share of pairs with several boxes, and a map of how often
each place is inside.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxrflow.benchmarks.grounding.region import box_mask
from cxrflow.benchmarks.result import Figure, png_of
from cxrflow.data.readers.common_tables import Tables

SIDE = 64  # cells of a map; coordinates are shares of the image's width and height


def union_maps(tables: Tables) -> pd.DataFrame:
    """Return ``image_id``, ``category``, number of ``boxes``, ``map`` [SIDE, SIDE] of each pair."""
    images = tables.images.set_index("image_id")
    size = images.reindex(tables.boxes["image_id"])[["image_width", "image_height"]].to_numpy()
    boxes = tables.boxes[[*"xywh"]].to_numpy() * SIDE / np.tile(size, 2)
    numbered = tables.boxes.assign(number=np.arange(len(boxes)))
    pairs = numbered.groupby(["image_id", "category", "phrase"], sort=False)["number"].agg(list)
    table = pairs.reset_index()[["image_id", "category"]]
    table["boxes"] = pairs.map(len).to_numpy()
    maps = [box_mask(boxes[rows], SIDE, SIDE) for rows in pairs]
    return table.assign(map=pd.Series(maps, dtype=object))


def spread(maps: pd.DataFrame) -> dict[str, float]:
    """Return the mean and median share of the image covered, and the share with several boxes."""
    shares = np.array([mask.mean() for mask in maps["map"]])
    if not len(shares):
        return {}
    return {
        "box_share": float(shares.mean()),
        "box_share_median": float(np.median(shares)),
        "several_boxes": float((maps["boxes"] > 1).mean()),
    }


def draw(maps: dict[str, pd.DataFrame]) -> Figure:
    """Draw the mean map of each finding that has pairs, all on one colour scale."""
    from matplotlib.figure import Figure as Canvas

    groups = {name: group for name, group in maps.items() if len(group)}
    canvas = Canvas(figsize=(2.2 * min(4, len(groups)), 2.5 * -(-len(groups) // 4)))
    for number, (name, group) in enumerate(groups.items(), 1):
        axes = canvas.add_subplot(-(-len(groups) // 4), min(4, len(groups)), number)
        mean: NDArray[np.float64] = np.mean(np.stack(group["map"].to_list()), axis=0)
        axes.imshow(mean, vmin=0, vmax=1, extent=(0, 1, 1, 0))
        axes.set_title(f"{name} ({len(group)})", fontsize="small")
        axes.set_axis_off()
    caption = (
        "How often each place of the image is inside the boxes of a phrase, by finding; the "
        "number of phrases in brackets. Images are brought to one square."
    )
    return Figure("box_positions.png", png_of(canvas), "Where MS-CXR's boxes lie", caption)
