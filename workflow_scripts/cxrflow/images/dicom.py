"""The DICOM half of decoding: which library reads which transfer syntax, and what is refused."""

import importlib.metadata
import io
import warnings
from functools import cache

import numpy as np
import pydicom
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


def decode_dicom(content: bytes) -> Decoded:
    """Read the bytes of a DICOM file with one frame; see :func:`cxrflow.images.decode.decode`."""
    with warnings.catch_warnings():
        # Real headers break the standard in harmless ways; what matters is checked below.
        warnings.simplefilter("ignore")
        try:
            dataset = pydicom.dcmread(io.BytesIO(content), force=True)
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
    try:
        values, image = get_decoder(syntax).as_array(dataset, index=0, decoding_plugin=plugin)
    except Exception as error:  # the plugins raise whatever their C library gave them
        # pydicom's sentence about "all available plugins" says nothing: there is only the one.
        reason = one_line(error).rpartition("available plugins: ")[2]
        raise DecodeError(f"pixel data damaged or cut off ({reason})") from None
    if image["photometric_interpretation"] == "PALETTE COLOR":
        values = luminance(apply_color_lut(values, dataset)[..., :3])
    elif values.ndim == 3:
        values = luminance(values)
    if values.ndim != 2:
        raise DecodeError(f"DICOM pixel array has shape {values.shape}, not rows x columns")
    if photometric == "MONOCHROME1":
        # Whole numbers stay whole; the largest value present becomes 0.
        values = values.max() - values.astype(np.int32, copy=False)
    return Decoded(values, photometric, bits, decoder_name)


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
