"""Filters on images: usable file, frontal view, one image a study; each says what it dropped.

BioViL §4.1 keeps AP and PA views; BioViL-T says of BioViL that it took one image at random where a
visit has several. A blank ViewPosition is not frontal: neither paper says, and blanks are 4 %.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
import pandas as pd

from cxr_files.drops import Drop

#: Column of an image list: curation found a better image of the study (BioViL-T section 3.3).
REJECTED = "rejected"


def usable(images: pd.DataFrame) -> tuple[pd.DataFrame, list[Drop]]:
    """Keep the images without a ``failure``."""
    bad = images["failure"].notna()
    drops = [
        Drop.of(str(reason), rows["image_path"].fillna(rows["image_id"]), failed=True)
        for reason, rows in images[bad].groupby("failure")
    ]
    return images[~bad], drops


def frontal(images: pd.DataFrame, views: Sequence[str] | None) -> tuple[pd.DataFrame, list[Drop]]:
    """Keep the images whose view is in ``views``, compared in upper case; None keeps all."""
    if views is None:
        return images, []
    view = images["view"].str.strip().str.upper()
    keep = view.isin([name.upper() for name in views])
    drops = [
        Drop.of("view not known" if name == "" else f"view {name}", rows["image_id"])
        for name, rows in images[~keep].groupby(view[~keep].fillna(""))
    ]
    return images[keep], sorted(drops, key=lambda drop: -drop.count)


def single(images: pd.DataFrame) -> tuple[pd.DataFrame, list[Drop]]:
    """Keep the images that are the only one of their study."""
    several = images["study_id"].duplicated(keep=False)
    reason = "its study has several frontal images"
    return images[~several], [Drop.of(reason, images.loc[several, "image_id"])]


def one_per_study(
    images: pd.DataFrame, choose: str, views: Sequence[str] | None, seed: int
) -> pd.DataFrame:
    """Choose one image for each study, in the order of the list.

    ``random`` draws by a hash of seed, study and image: the same image is chosen whatever other
    studies are in the list. Images that curation ``rejected``, where there is such a column, come
    last.
    """
    ranks: list[np.ndarray] = []
    if choose != "first":
        # Only studies with several images need the draw.
        several = images["study_id"].duplicated(keep=False).to_numpy()
        draw = np.zeros(len(images))
        draw[several] = [
            unit_hash(seed, study, image)
            for study, image in images.loc[several, ["study_id", "image_id"]].itertuples(
                index=False
            )
        ]
        ranks = [draw]
    if choose == "preferred":
        place = {name.upper(): rank for rank, name in enumerate(views or ())}
        ranks.append(images["view"].str.strip().str.upper().map(place).to_numpy())
    # The last key counts first in a lexicographic sort: rejected images rank behind all others.
    if REJECTED in images:
        ranks.append(images[REJECTED].to_numpy())
    order = np.lexsort([np.arange(len(images)), *ranks])
    ranked = images.iloc[order]
    return ranked[~ranked["study_id"].duplicated()].sort_index()


def unit_hash(*key: object) -> float:
    """Return a number in [0, 1) that depends on ``key`` alone, the same on every machine."""
    digest = hashlib.blake2b("\x1f".join(map(str, key)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
