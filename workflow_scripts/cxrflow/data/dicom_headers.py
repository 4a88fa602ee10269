"""What a cohort needs from DICOM headers: view, date, size, and whether the file is whole.

Pixels are never read (``stop_before_pixels``); files are scanned by several processes in the order
they are listed, so the result does not depend on how many.
"""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from cxrflow.parallel import chunks, ordered_map
from cxrflow.progress import progress

_TAGS = [
    *("ViewPosition", "StudyDate", "StudyTime", "Rows", "Columns"),
    *("BitsAllocated", "SamplesPerPixel", "NumberOfFrames"),
]
_TEXT = ("view", "study_date", "study_time", "failure")
_SIZE = ("image_height", "image_width")
_CHUNK = 256


def scan(root: Path, paths: Sequence[str], threads: int = 1) -> pd.DataFrame:
    """Read the headers of ``root/path`` for every path.

    Returns:
        One row a path, in order: ``view``, ``study_date``, ``study_time`` (as written, null when
        absent or blank), ``image_height`` and ``image_width`` (pixels), ``failure`` (null, or why
        the file cannot be used).
    """
    parts = ordered_map(
        _read_chunk,
        chunks((root / path for path in paths), _CHUNK),
        threads if len(paths) > _CHUNK else 1,
    )
    rows = [row for part in progress(parts, len(paths), "DICOM header") for row in part]
    frame = pd.DataFrame(rows, columns=[*_TEXT, *_SIZE])
    return frame.astype(dict.fromkeys(_TEXT, "str") | dict.fromkeys(_SIZE, "float64"))


def _read_chunk(paths: list[Path]) -> list[tuple[Any, ...]]:
    with warnings.catch_warnings():
        # pydicom warns about values that break the standard; what matters here is checked below.
        warnings.simplefilter("ignore")
        return [_read(path) for path in paths]


def _read(path: Path) -> tuple[Any, ...]:
    import pydicom
    from pydicom.errors import InvalidDicomError

    try:
        size = os.stat(path).st_size
        if size == 0:
            return _failed("file is empty")
        with open(path, "rb") as handle:
            header = pydicom.dcmread(handle, stop_before_pixels=True, specific_tags=_TAGS)
            # Reading stopped where the pixel data element begins, or at the end without one.
            left = size - handle.tell()
        height, width = int(header.Rows), int(header.Columns)
        view, date, time = (
            str(header.get(tag) or "").strip() or None
            for tag in ("ViewPosition", "StudyDate", "StudyTime")
        )
        pixel_bytes = (
            height
            * width
            * int(header.get("SamplesPerPixel") or 1)
            * int(header.get("NumberOfFrames") or 1)
            * (int(header.get("BitsAllocated") or 8) // 8)
        )
    except FileNotFoundError:
        return _failed("file not found")
    except OSError as error:
        return _failed(f"cannot be read ({error.strerror or error})")
    except InvalidDicomError:
        return _failed("not a DICOM file")
    except AttributeError:
        return _failed("header is cut off or has no Rows and Columns")
    except Exception as error:  # pydicom raises many kinds on damaged headers
        return _failed(f"damaged header ({type(error).__name__})")
    syntax = header.file_meta.get("TransferSyntaxUID")
    if syntax is not None and syntax.is_deflated:  # one compressed stream: no telling from outside
        return view, date, time, None, height, width
    plain = syntax is None or not syntax.is_compressed
    if left == 0 or (plain and left < pixel_bytes):
        return _failed("pixel data is cut off or absent")
    return view, date, time, None, height, width


def _failed(reason: str) -> tuple[Any, ...]:
    return None, None, None, reason, None, None
