"""What the image files of an audit show: damage, equal files, and pictures that are alike."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from cxr_files.atomic import file_digest
from cxr_files.parallel import guarded_map
from cxr_files.progress import progress
from cxr_files.reading import OutsideError, below
from cxrflow.commands.audit.sets import AuditedSet
from cxrflow.images.decode import decode
from cxrflow.images.decoded import DecodeError
from cxrflow.images.likeness import CELLS, Floats, likeness, pictures

SECONDS = 60.0  # of processor time that a file may take
NO_PATH = "its list names no file"


class Look(NamedTuple):
    """What a file shows: why it cannot be used, or its digest and likeness [3, 256]."""

    reason: str | None
    digest: str = ""
    likeness: Floats | None = None


def look(root: Path, place: str | float) -> Look:
    """Read a file."""
    if not isinstance(place, str):
        return Look(NO_PATH)
    try:
        path = below(root, place) if not Path(place).is_absolute() else Path(place)
        values = decode(path).values
        if min(values.shape) < CELLS:
            return Look(f"image of {values.shape[0]} x {values.shape[1]} pixels")
        return Look(None, file_digest(path), likeness(values).astype(np.float16))
    except (DecodeError, OutsideError) as error:
        return Look(str(error))


def with_pictures(sets: Sequence[AuditedSet], threads: int) -> pd.DataFrame:
    """All images of the sets, and what their files show.

    Returns: ``set``, ``image``, ``path``, ``patient``, ``part``; ``reason`` why a file cannot be
    used; ``digest`` of a file; ``picture``, a number that files which are alike share (-1 of what
    cannot be used).
    """
    tables, likenesses = [], []
    for each in sets:
        looks: list[Look] = [Look("its images lie elsewhere")] * len(each.images)
        if each.pictured:
            places = each.images["path"].tolist()
            work = partial(look, each.root)
            read = guarded_map(work, places, threads, lambda _, reason: Look(reason), SECONDS)
            looks = list(progress(read, len(places), "image", lambda _: 1, each.name))
        digests = [one.digest for one in looks]
        reasons = pd.Series([one.reason for one in looks], dtype="str", index=each.images.index)
        tables.append(each.images.assign(set=each.name, reason=reasons, digest=digests))
        likenesses += [one.likeness for one in looks if one.likeness is not None]
    rows = pd.concat(tables, ignore_index=True)
    usable = np.flatnonzero(rows["reason"].isna())
    picture = np.full(len(rows), -1)
    if len(usable):
        picture[usable] = pictures(rows["digest"].to_numpy()[usable], np.stack(likenesses))
    return rows.assign(picture=picture)
