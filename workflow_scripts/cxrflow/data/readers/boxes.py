"""Boxes as lists, and those that cannot be truth: without area, not finite or in their image."""

import numpy as np
import pandas as pd

from cxr_files.drops import Drop

#: Longer than the side of any image, and far from where whole numbers end.
_FARTHEST = 1e6


def impossible(boxes: pd.DataFrame, sizes: pd.DataFrame) -> pd.Series:
    """Return why each box cannot be the region of a finding, null if it can.

    A box that reaches out of its image by less than half of its area is as published, and possible.

    Args:
        boxes: ``image_id`` and ``x``, ``y``, ``w``, ``h`` in pixels of the original image.
        sizes: ``image_id``, ``image_width`` and ``image_height``; unknown ones are null.
    """
    sizes_by_image = sizes.drop_duplicates("image_id").set_index("image_id").astype("float64")
    ids = boxes["image_id"]
    width, height = (ids.map(sizes_by_image[name]) for name in ("image_width", "image_height"))
    x, y, w, h = (boxes[name].astype("float64") for name in "xywh")
    within = _overlap(x, w, width) * _overlap(y, h, height)
    far = ~boxes[[*"xywh"]].astype("float64").abs().lt(_FARTHEST).all(axis=1)
    reasons = pd.Series(pd.NA, index=boxes.index, dtype="str")
    for mask, reason in (
        (within < 0.5 * w * h, "box outside the image"),
        # Boxes are kept in whole pixels.
        ((w.round() < 1) | (h.round() < 1), "box without area"),
        (far, "box is not finite, or larger than any image"),
    ):
        reasons = reasons.mask(mask, reason)
    return reasons


def whole_regions(
    boxes: pd.DataFrame, keys: list[str], reasons: pd.Series, names: pd.Series
) -> tuple[pd.DataFrame, list[Drop]]:
    """Keep the regions all of whose boxes are possible; half a region would become its truth.

    Args:
        boxes: a row a box.
        keys: columns that are the same for the boxes of a region.
        reasons: why a box is impossible, null if it is possible.
        names: what a box is called where it is counted.
    """
    drops = [Drop.of(str(reason), ids, failed=True) for reason, ids in names.groupby(reasons)]
    bad = reasons.notna().groupby([boxes[key] for key in keys], dropna=False).transform("any")
    rest = names[bad & reasons.isna()]
    drops.append(Drop.of("another box of its region is impossible", rest, failed=True))
    return boxes[~bad], [drop for drop in drops if drop.count]


def box_lists(boxes: pd.DataFrame, keys: list[str]) -> pd.Series:
    """Return the boxes by ``keys``: lists of x, y, width, height in whole pixels."""
    pixels = boxes[[*"xywh"]].round().astype("int64").to_numpy().tolist()
    rows = boxes[keys].assign(boxes=pd.Series(pixels, index=boxes.index, dtype=object))
    return rows.groupby(keys, sort=False)["boxes"].agg(list)


def _overlap(start: pd.Series, length: pd.Series, side: pd.Series) -> pd.Series:
    """Return the length of an interval inside an image side, in pixels.

    ``side`` may be unknown (NaN).
    """
    end = (start + length).clip(upper=side.fillna(np.inf))
    return (end - start.clip(lower=0)).clip(lower=0)
