"""The same file under several patients, as in folders that people fill: a leak between parts.

A placeholder that was saved for many patients, or one patient under two numbers. Whoever shares a
file stays in one part of a split. Pictures that were saved again are found later, by their pixels
(``images.equal_pictures``).
"""

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd

from cxr_files.atomic import file_digest
from cxr_files.reading import below

_END = 4096  # bytes; headers of DICOM files differ there, though files have one size


def patients_together(root: Path, images: pd.DataFrame, threads: int) -> tuple[dict[str, str], str]:
    """Return who shares files with whom, and a sentence that names some; blank if nobody does.

    Each patient who does has the one that stands for all of them.

    Args:
        root: folder of the data set.
        images: ``image_path``, ``subject_id`` and ``bytes``, the size.
        threads: files that are read at once, times eight.
    """
    rows = images[images["subject_id"].notna() & (images["bytes"] != "0")]
    rows = _of_several(rows.assign(content=rows["bytes"]))
    with ThreadPoolExecutor(max(1, threads * 8)) as pool:
        # Files of one size are compared by their ends, and only those that agree as a whole.
        digests: tuple[Callable[[Path], str], ...] = (_ends, file_digest)
        for digest in digests:
            paths = [below(root, place) for place in rows["image_path"]]
            rows = _of_several(rows.assign(content=list(pool.map(digest, paths))))
    if rows.empty:
        return {}, ""
    together: dict[str, str] = {}
    for _, patients in rows.groupby("content", sort=False)["subject_id"]:
        names = {together.get(name, name) for name in patients}
        first = min(names)
        together |= {name: first for name in {*names, *patients}}
        together |= {name: first for name, other in together.items() if other in names}
    first_picture = rows.loc[rows["content"] == rows["content"].iloc[0], "image_path"]
    return together, (
        f"{len(rows)} image files of {len(together)} patients are the same as one of another "
        f"patient (e.g. {', '.join(first_picture[:3])}); patients who share a file are in one part"
    )


def _of_several(rows: pd.DataFrame) -> pd.DataFrame:
    """Keep the rows whose content several patients have."""
    return rows[rows.groupby("content")["subject_id"].transform("nunique") > 1]


def _ends(path: Path) -> str:
    """The size of a file and a digest of its first and last bytes; its path if it is unreadable."""
    try:
        with open(path, "rb") as file:
            start = file.read(_END)
            size = file.seek(0, 2)
            file.seek(max(0, size - _END))
            return f"{size} {hashlib.sha256(start + file.read()).hexdigest()}"
    except OSError:  # found when it is decoded
        return str(path)
