"""Read one radiograph: DICOM, PNG or JPEG, to grey values that are bright where the body is dense.

What a file is, its bytes say, not its name. DICOM values are the stored ones: no rescale, no
window, MONOCHROME1 turned over exactly once (here, and nowhere else). Colour becomes luminance
(ITU-R 601), an alpha channel is dropped. Reading is deterministic: which decoder takes a transfer
syntax is fixed below, not left to what the library tries first, and is kept with the result.
"""

import io
import warnings
from pathlib import Path
from typing import BinaryIO

import numpy as np
import PIL
from PIL import Image, UnidentifiedImageError

from cxrflow.images.decoded import Decoded, DecodeError, check_size, luminance, one_line

PNG, JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"


def decode(path: str | Path) -> Decoded:
    """Read ``path``; whatever stands in the way is a :class:`DecodeError` with a short reason."""
    try:
        with open(path, "rb") as file:
            start = file.read(132)
            file.seek(0)
            decoded = _decode_file(file, start, Path(path).suffix.lower())
    except FileNotFoundError:
        raise DecodeError("file not found") from None
    except OSError as error:
        raise DecodeError(f"file cannot be read ({error.strerror})") from None
    height, width = decoded.values.shape
    if decoded.ends[0] == decoded.ends[1]:
        raise DecodeError(f"blank image: all {height} x {width} pixels are equal")
    return decoded


def _decode_file(file: BinaryIO, start: bytes, suffix: str) -> Decoded:
    """What ``file``, of which ``start`` are the first 132 bytes, holds."""
    if not start:
        raise DecodeError("empty file")
    if start.startswith((PNG, JPEG)):
        return _decode_picture(file.read())
    if start[128:] == b"DICM" or suffix in (".dcm", ".dicom"):
        # pydicom is slow to import and only DICOM data sets need it.
        from cxrflow.images.dicom import decode_dicom

        return decode_dicom(file)
    raise DecodeError("not a DICOM, PNG or JPEG file")


def _decode_picture(content: bytes) -> Decoded:
    try:
        with warnings.catch_warnings():
            # The size is checked here; Pillow's own warning would be a second opinion.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image: Image.Image = Image.open(io.BytesIO(content))
        check_size(image.height, image.width)
        image.load()
    except (OSError, SyntaxError, ValueError, UnidentifiedImageError) as error:
        raise DecodeError(f"damaged image file ({one_line(error)})") from None
    except Image.DecompressionBombError:
        raise DecodeError("image size is not plausible") from None
    decoder = f"pillow {PIL.__version__} {'png' if content.startswith(PNG) else 'jpeg'}"
    photometric = image.mode
    if image.mode == "LA":
        image = image.getchannel("L")
    elif image.mode == "1":
        image = image.convert("L")
    elif image.mode not in ("L", "I", "F") and not image.mode.startswith("I;16"):
        values = luminance(np.asarray(image.convert("RGB")))
        return Decoded(values, photometric, 8, decoder)
    values = np.asarray(image)
    return Decoded(values, photometric, 16 if values.dtype.itemsize > 1 else 8, decoder)
