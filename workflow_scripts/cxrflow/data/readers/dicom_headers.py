"""DICOM headers as cohorts need them: view, date, size, and whether the file is whole.

What the pixel store would read is taken here too: a file's bytes say what it is, so one named .dcm
may be a PNG or JPEG, of which the size is known. Pixels are never read (``stop_before_pixels``);
files are scanned by several processes in the order
they are listed, so the result does not depend on how many.
"""

import os
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import pandas as pd

from cxr_files.progress import rows_in_chunks
from cxr_files.reading import OutsideError, below
from cxrflow.images.decode import is_dicom, is_picture, open_file, open_picture
from cxrflow.images.decoded import MAX_BYTES, DecodeError

_TAGS = [
    *("ViewPosition", "StudyDate", "StudyTime", "Rows", "Columns"),
    *("BitsAllocated", "SamplesPerPixel", "NumberOfFrames", "PhotometricInterpretation"),
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
    rows = rows_in_chunks(partial(_read_chunk, root), paths, _CHUNK, threads, "DICOM header")
    frame = pd.DataFrame(rows, columns=[*_TEXT, *_SIZE])
    return frame.astype(dict.fromkeys(_TEXT, "str") | dict.fromkeys(_SIZE, "float64"))


def _read_chunk(root: Path, paths: list[str]) -> list[tuple[Any, ...]]:
    with warnings.catch_warnings():
        # pydicom warns about values that break the standard; what matters here is checked below.
        warnings.simplefilter("ignore")
        return [_read(root, path) for path in paths]


def _read(root: Path, place: str) -> tuple[Any, ...]:
    try:
        path = below(root, place)
        with open_file(path) as file:
            start = file.read(132)
            file.seek(0)
            if not start:
                return _failed("file is empty")
            if is_picture(start):
                width, height = open_picture(file).size
                return None, None, None, None, height, width
            return _read_dicom(file) if is_dicom(start, path) else _failed("not a DICOM file")
    except FileNotFoundError:
        return _failed("file not found")
    except OSError as error:
        return _failed(f"cannot be read ({error.strerror or error})")
    except (DecodeError, OutsideError) as error:
        return _failed(str(error))
    except AttributeError:
        if start[128:] != b"DICM":  # by its name alone
            return _failed("not a DICOM file")
        return _failed("header is cut off or has no Rows and Columns")
    except Exception as error:  # pydicom raises many kinds on damaged headers
        return _failed(f"damaged header ({type(error).__name__})")


def _read_dicom(file: BinaryIO) -> tuple[Any, ...]:
    import pydicom

    from cxrflow.images.dicom import check_inflated, choose_decoder

    check_inflated(file, MAX_BYTES)
    header = pydicom.dcmread(file, stop_before_pixels=True, specific_tags=_TAGS, force=True)
    # Reading stopped where the pixel data element begins, or at the end without one.
    remaining = os.fstat(file.fileno()).st_size - file.tell()
    height, width = int(header.Rows), int(header.Columns)
    view, date, time = (
        str(header.get(tag) or "").strip() or None
        for tag in ("ViewPosition", "StudyDate", "StudyTime")
    )
    bits = height * width * int(header.get("BitsAllocated") or 8)
    bits *= int(header.get("SamplesPerPixel") or 1) * int(header.get("NumberOfFrames") or 1)
    if header.get("PhotometricInterpretation") == "YBR_FULL_422":
        bits = bits * 2 // 3  # two pixels share their colour
    syntax = pydicom.uid.UID(str(header.file_meta.get("TransferSyntaxUID") or ""))
    if syntax == pydicom.uid.DeflatedExplicitVRLittleEndian:
        return view, date, time, None, height, width  # one stream: no telling from outside
    compressed = bool(syntax and choose_decoder(syntax)[0])
    if remaining == 0 or (remaining < bits // 8 and not compressed):
        return _failed("pixel data is cut off or absent")
    return view, date, time, None, height, width


def _failed(reason: str) -> tuple[Any, ...]:
    return None, None, None, reason, None, None
