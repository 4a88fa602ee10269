"""Read one radiograph: DICOM, PNG or JPEG, to grey values that are bright where the body is dense.

What a file is, its bytes say, not its name. DICOM values are the stored ones: no rescale, no
window, MONOCHROME1 turned over exactly once (in ``dicom``, and nowhere else). Colour becomes
luminance (ITU-R 601), an alpha channel is dropped. Reading is deterministic: which decoder takes a
transfer syntax is fixed there, not left to what the library tries first, and is kept with the
result.
"""

import contextlib
import io
import os
import stat
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import PIL
from PIL import Image, ImageOps, UnidentifiedImageError

from cxr_files.archives import GZIP
from cxr_files.errors import one_line
from cxrflow.images.decoded import (
    MAX_BYTES,
    Decoded,
    DecodeError,
    check_size,
    luminance,
)

ORIENTATION = 0x0112  # tag of EXIF
PNG, JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"

#: What the transfer syntaxes begin with whose decoders are compiled: JPEG, JPEG-LS, JPEG 2000, ….
COMPILED = b"1.2.840.10008.1.2.4."


def open_file(path: str | Path) -> BinaryIO:
    """Open a regular file to be read; a queue would be waited for without end.

    Raises:
        DecodeError: it is none.
        OSError: it cannot be opened.
    """
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise DecodeError("not a regular file")


def is_picture(start: bytes) -> bool:
    """True if a file with these first bytes is a PNG or JPEG."""
    return start.startswith((PNG, JPEG))


def is_dicom(start: bytes, name: str | Path) -> bool:
    """True if a file with these first 132 bytes or more is DICOM: by its mark, else its name."""
    return start[128:132] == b"DICM" or Path(name).suffix.lower() in (".dcm", ".dicom")


def needs_compiled_decoder(path: str | Path) -> bool:
    """True if the decoder of a file could end its process: DICOM that C or C++ unpacks."""
    try:
        with open_file(path) as file:
            start = file.read(1 << 16)
    except (OSError, DecodeError):
        return False
    return is_dicom(start, path) and not is_picture(start) and COMPILED in start


def decode(path: str | Path, most: int = MAX_BYTES, upright: bool = False) -> Decoded:
    """Read ``path``; whatever stands in the way is a :class:`DecodeError` with a short reason.

    Args:
        path: the file.
        most: bytes of a decoded image, at most.
        upright: turn a PNG or JPEG by its EXIF orientation, as viewers do.
    """
    with _opened(path, most) as (file, start):
        if is_picture(start):
            decoded = decode_picture(file.read(), most, upright)
        elif not start.startswith(GZIP) and is_dicom(start, path):
            # pydicom is slow to import and only DICOM data sets need it.
            from cxrflow.images.dicom import decode_dicom

            decoded = decode_dicom(file, most)
        elif start.startswith(GZIP):
            raise DecodeError("gzipped; expected the image itself: gunzip")
        else:
            raise DecodeError("not a DICOM, PNG or JPEG file")
    height, width = decoded.values.shape
    if decoded.ends[0] == decoded.ends[1]:
        raise DecodeError(f"blank image: all {height} x {width} pixels are equal")
    return decoded


def read_picture(path: str | Path) -> Decoded:
    """Read a PNG that is no radiograph, such as a map; errors are those of :func:`decode`."""
    with _opened(path, MAX_BYTES) as (file, start):
        if not start.startswith(PNG):
            raise DecodeError("not a PNG file")
        return decode_picture(file.read(), MAX_BYTES)


@contextlib.contextmanager
def _opened(path: str | Path, most: int) -> Iterator[tuple[BinaryIO, bytes]]:
    """A file at its start, and its first bytes; what keeps it from being read is the error."""
    try:
        with open_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            start = file.read(132)
            file.seek(0)
            if not start:
                raise DecodeError("empty file")
            if size > 2 * most:  # whatever it is, what it holds is larger
                raise DecodeError(f"file of {size >> 20} MiB, twice max_image_mib {most >> 20}")
            yield file, start
    except FileNotFoundError:
        raise DecodeError("file not found") from None
    except OSError as error:
        raise DecodeError(f"file cannot be read ({error.strerror})") from None
    except MemoryError:
        raise DecodeError("there is too little memory to decode it") from None


def open_picture(file: BinaryIO) -> Image.Image:
    """A PNG or JPEG with its header read, no pixels yet.

    Raises:
        DecodeError: it is damaged.
    """
    try:
        with warnings.catch_warnings():
            # The size is checked by who reads it; Pillow's own warning would be a second opinion.
            warnings.simplefilter("ignore")
            return Image.open(file, formats=("PNG", "JPEG"))
    except Image.DecompressionBombError:
        raise DecodeError("image size is not plausible") from None
    except UnidentifiedImageError:
        raise DecodeError("damaged image file (its header cannot be read)") from None
    except Exception as error:  # what a damaged file makes Pillow raise has no common base
        raise DecodeError(f"damaged image file ({one_line(error)})") from None


def decode_picture(content: bytes, most: int, upright: bool = False) -> Decoded:
    """Read a PNG or JPEG; see :func:`decode`."""
    image = open_picture(io.BytesIO(content))
    channels = len(image.getbands())
    wide = {"I": 4, "F": 4}.get(image.mode, 2 if image.mode.startswith("I;16") else 1)
    grey = image.mode in ("1", "L", "LA", "I", "F") or image.mode.startswith("I;16")
    check_size(image.height, image.width, wide if grey else max(3, channels), most)
    try:
        image.load()
    except Exception as error:  # as above
        raise DecodeError(f"damaged image file ({one_line(error)})") from None
    decoder = f"pillow {PIL.__version__} {'png' if content.startswith(PNG) else 'jpeg'}"
    if upright:
        with contextlib.suppress(Exception):  # of EXIF that is damaged: then there is none
            if image.getexif().get(ORIENTATION) in range(2, 9):
                image, decoder = ImageOps.exif_transpose(image), f"{decoder}, turned by EXIF"
    photometric = image.mode
    if image.mode == "LA":
        image = image.getchannel("L")
    elif image.mode == "1":
        image = image.convert("L")
    elif not grey:
        values = luminance(np.asarray(image.convert("RGB")))
        return Decoded(values, photometric, 8, decoder)
    values = np.asarray(image)
    return Decoded(values, photometric, 16 if values.dtype.itemsize > 1 else 8, decoder)
