"""The DICOM half of decoding: which library reads which transfer syntax, and what is refused."""

import importlib.metadata
import warnings
from functools import cache
from typing import BinaryIO

import numpy as np
import pydicom
from numpy.typing import NDArray
from pydicom.pixels import apply_color_lut, get_decoder
from pydicom.uid import UID

from cxrflow.images.decoded import Decoded, DecodeError, check_size, luminance, one_line

# Decoders in order of preference, by speed where all are exact. The first that is installed is
# used, always: a file that it cannot read is a failure, not a reason to try the next, so that what
# a file looks like never depends on which library happened to manage.
_JPEG = ("gdcm", "pillow")
_JPEG_LS = ("gdcm", "pyjpegls")
_JPEG_2000 = ("pylibjpeg", "gdcm", "pillow")
PREFERENCE: dict[str, tuple[str, ...]] = {
    "1.2.840.10008.1.2.4.50": _JPEG,
    "1.2.840.10008.1.2.4.51": _JPEG,
    "1.2.840.10008.1.2.4.57": ("gdcm", "pylibjpeg"),
    "1.2.840.10008.1.2.4.70": ("gdcm", "pylibjpeg"),
    "1.2.840.10008.1.2.4.80": _JPEG_LS,
    "1.2.840.10008.1.2.4.81": _JPEG_LS,
    "1.2.840.10008.1.2.4.90": _JPEG_2000,
    "1.2.840.10008.1.2.4.91": _JPEG_2000,
    "1.2.840.10008.1.2.4.201": ("pylibjpeg",),
    "1.2.840.10008.1.2.4.202": ("pylibjpeg",),
    "1.2.840.10008.1.2.4.203": ("pylibjpeg",),
    "1.2.840.10008.1.2.5": ("pydicom",),
}
_PACKAGES = {"gdcm": "python-gdcm", "pylibjpeg": "pylibjpeg-openjpeg", "pyjpegls": "pyjpegls"}


def decode_dicom(file: BinaryIO) -> Decoded:
    """Read a DICOM file with one frame, open at its start; see ``cxrflow.images.decode``.

    An error of the system that reads is left as it is, an :class:`OSError`.
    """
    with warnings.catch_warnings():
        # Real headers break the standard in harmless ways; what matters is checked below.
        warnings.simplefilter("ignore")
        try:
            dataset = pydicom.dcmread(file, force=True)
        except OSError as error:
            if error.errno is None:  # pydicom's own, for what it finds in the file
                raise DecodeError(f"damaged DICOM file ({one_line(error)})") from None
            raise
        except Exception as error:  # what a damaged header makes pydicom raise has no common base
            raise DecodeError(f"damaged DICOM file ({one_line(error)})") from None
        return _decode_dataset(dataset)


def _decode_dataset(dataset: pydicom.Dataset) -> Decoded:
    if "PixelData" not in dataset:
        raise DecodeError("DICOM without pixel data, or cut off before they end")
    try:
        height, width = int(dataset.Rows), int(dataset.Columns)
        frames = int(dataset.get("NumberOfFrames") or 1)
        photometric = str(dataset.PhotometricInterpretation)
        bits = int(dataset.BitsStored)
        syntax = UID(dataset.file_meta.TransferSyntaxUID)
    except (AttributeError, TypeError, ValueError) as error:
        raise DecodeError(f"incomplete DICOM header ({one_line(error)})") from None
    check_size(height, width)
    if frames != 1:
        raise DecodeError(f"DICOM with {frames} frames")
    plugin, decoder_name = choose_decoder(syntax)
    native = not plugin and photometric in ("MONOCHROME1", "MONOCHROME2")
    values = _as_stored(dataset, syntax, height, width, bits) if native else None
    if values is None:
        values = _through_plugin(dataset, syntax, plugin)
    if values.ndim != 2:
        raise DecodeError(f"DICOM pixel array has shape {values.shape}, not rows x columns")
    if photometric == "MONOCHROME1":
        # Whole numbers stay whole; the largest value present becomes 0. No difference of unsigned
        # numbers from their largest is too large for their type.
        signed = values.dtype.kind == "i"
        values = values.max() - (values.astype(np.int32) if signed else values)
    return Decoded(values, photometric, bits, decoder_name)


def _as_stored(
    dataset: pydicom.Dataset, syntax: UID, height: int, width: int, bits: int
) -> NDArray[np.integer] | None:
    """Uncompressed grey values [H, W] where the file's bytes are the values already, else None.

    This is what pydicom's own decoder comes to, without its copy and its two passes over the
    pixels that clear the unused high bits; where any of these is set, or the length is not the
    expected one, that decoder is asked.
    """
    allocated, signed = dataset.get("BitsAllocated"), dataset.get("PixelRepresentation")
    content, size = dataset.PixelData, height * width
    plain = (
        syntax.is_little_endian
        and dataset.get("SamplesPerPixel") == 1
        and allocated in (8, 16)
        and signed in (0, 1)
        and 1 <= bits <= allocated
        and len(content) == (length := size * allocated // 8) + length % 2
    )
    if not plain:
        return None
    values = np.frombuffer(content, f"<{'i' if signed else 'u'}{allocated // 8}", size)
    reach = 1 << bits - signed
    if bits < allocated and (values.max() >= reach or (signed and values.min() < -reach)):
        return None
    return values.reshape(height, width)


def _through_plugin(dataset: pydicom.Dataset, syntax: UID, plugin: str) -> NDArray:
    """The values [H, W] that pydicom gives with ``plugin``; colour as luminance."""
    try:
        values, image = get_decoder(syntax).as_array(dataset, index=0, decoding_plugin=plugin)
    except Exception as error:  # the plugins raise whatever their C library gave them
        # pydicom's sentence about "all available plugins" says nothing: there is only the one.
        reason = one_line(error).rpartition("available plugins: ")[2]
        raise DecodeError(f"pixel data damaged or cut off ({reason})") from None
    if image["photometric_interpretation"] == "PALETTE COLOR":
        return luminance(apply_color_lut(values, dataset)[..., :3])
    return luminance(values) if values.ndim == 3 else values


@cache
def choose_decoder(syntax: UID) -> tuple[str, str]:
    """The plugin of pydicom for a transfer syntax, and its name with version for the index."""
    if not syntax.is_compressed or syntax == "1.2.840.10008.1.2.1.99":
        return "", f"pydicom {pydicom.__version__} native"
    if syntax not in PREFERENCE:
        raise DecodeError(f"transfer syntax {syntax} ({syntax.name}) is not supported")
    installed = get_decoder(syntax).available_plugins
    for plugin in PREFERENCE[syntax]:
        if plugin in installed:
            version = importlib.metadata.version(_PACKAGES.get(plugin, plugin))
            return plugin, f"{plugin} {version}"
    raise DecodeError(
        f"no decoder for {syntax.name} is installed: {' or '.join(PREFERENCE[syntax])}"
    )
