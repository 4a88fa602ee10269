"""Read one radiograph: DICOM, PNG or JPEG, to grey values that are bright where the body is dense.

What a file is, its bytes say, not its name. DICOM values are the stored ones: no rescale, no
window, MONOCHROME1 turned over exactly once (here, and nowhere else). Colour becomes luminance
(ITU-R 601), an alpha channel is dropped. Reading is deterministic: which decoder takes a transfer
syntax is fixed below, not left to what the library tries first, and is kept with the result.
"""

import io
import warnings
from pathlib import Path

import numpy as np
import PIL
from PIL import Image, UnidentifiedImageError

from cxrflow.images.decoded import Decoded, DecodeError, check_size, luminance, one_line

PNG, JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"


def decode(path: str | Path) -> Decoded:
    """Read ``path``; whatever stands in the way is a :class:`DecodeError` with a short reason."""
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        raise DecodeError("file not found") from None
    except OSError as error:
        raise DecodeError(f"file cannot be read ({error.strerror})") from None
    if not content:
        raise DecodeError("empty file")
    is_dicom = content[128:132] == b"DICM" or Path(path).suffix.lower() in (".dcm", ".dicom")
    if content.startswith((PNG, JPEG)):
        decoded = _decode_picture(content)
    elif is_dicom:
        # pydicom is slow to import and only DICOM data sets need it.
        from cxrflow.images.dicom import decode_dicom

        decoded = decode_dicom(content)
    else:
        raise DecodeError("not a DICOM, PNG or JPEG file")
    height, width = decoded.values.shape
    if decoded.values.min() == decoded.values.max():
        raise DecodeError(f"blank image: all {height} x {width} pixels are equal")
    return decoded


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
