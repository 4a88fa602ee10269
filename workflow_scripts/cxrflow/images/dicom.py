"""The DICOM half of decoding: which library reads which transfer syntax, and what is refused."""

import importlib.metadata
import warnings
import zlib
from functools import cache
from typing import BinaryIO

import numpy as np
import pydicom
from numpy.typing import NDArray
from pydicom.encaps import get_frame
from pydicom.filewriter import correct_ambiguous_vr_element
from pydicom.pixels import apply_color_lut, get_decoder
from pydicom.uid import (
    UID,
    DeflatedExplicitVRLittleEndian,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    JPEGExtended12Bit,
    JPEGLossless,
)

from cxr_files.errors import one_line
from cxrflow.images.codestream import stated
from cxrflow.images.decoded import Decoded, DecodeError, check_size, luminance

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
#: Implicit, explicit, big endian, and deflated as a whole.
_NATIVE = {
    *("1.2.840.10008.1.2", "1.2.840.10008.1.2.1", "1.2.840.10008.1.2.2"),
    "1.2.840.10008.1.2.1.99",
}
_WITH_HEADER = PREFERENCE.keys() - {"1.2.840.10008.1.2.5"}
#: Without loss: JPEG, JPEG-LS, JPEG 2000, its high-throughput forms, run lengths.
LOSSLESS = {
    *("1.2.840.10008.1.2.4.57", "1.2.840.10008.1.2.4.70", "1.2.840.10008.1.2.4.80"),
    *("1.2.840.10008.1.2.4.90", "1.2.840.10008.1.2.4.201", "1.2.840.10008.1.2.4.202"),
    "1.2.840.10008.1.2.5",
}
#: What the index says of a decoder whose values were out of the header's range.
CLEARED = ", bits above BitsStored cleared"
KNOWN = (
    *("MONOCHROME1", "MONOCHROME2", "PALETTE COLOR", "RGB", "YBR_FULL", "YBR_FULL_422"),
    *("YBR_PARTIAL_420", "YBR_ICT", "YBR_RCT"),
)
_PACKAGES = {"gdcm": "python-gdcm", "pylibjpeg": "pylibjpeg-openjpeg", "pyjpegls": "pyjpegls"}


def decode_dicom(file: BinaryIO, most: int) -> Decoded:
    """Read a DICOM file with one frame, open at its start; see ``cxrflow.images.decode``.

    An error of the system that reads is left as it is, an :class:`OSError`.
    """
    with warnings.catch_warnings():
        # Real headers break the standard in harmless ways; what matters is checked below.
        warnings.simplefilter("ignore")
        try:
            check_inflated(file, most)
            return _decode_dataset(pydicom.dcmread(file, force=True), most)
        except (DecodeError, MemoryError):
            raise
        except OSError as error:
            if error.errno is None:  # pydicom's own, for what it finds in the file
                raise DecodeError(f"damaged DICOM file ({one_line(error)})") from None
            raise
        except Exception as error:  # what damaged values make pydicom raise has no common base
            raise DecodeError(f"damaged DICOM file ({one_line(error)})") from None


def check_inflated(file: BinaryIO, most: int) -> None:
    """Refuse a deflated file, open at its start, that unpacks to more than its pixels may take."""
    start = file.read(1 << 12)
    file.seek(0)
    if DeflatedExplicitVRLittleEndian.encode() not in start:
        return
    # Stopped at the first element behind the file's own description, which is not deflated.
    pydicom.filereader.read_preamble(file, force=True)
    pydicom.filereader._read_file_meta_info(file)
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    rest, size = file.read(), 0
    while rest and not inflate.eof:
        size += len(inflate.decompress(rest, 1 << 20))
        rest = inflate.unconsumed_tail
        if size > 2 * most:  # as of any file
            raise DecodeError(
                f"deflated file of more than {2 * most >> 20} MiB, twice max_image_mib {most >> 20}"
            )
    file.seek(0)


def _decode_dataset(dataset: pydicom.Dataset, most: int) -> Decoded:
    if "PixelData" not in dataset:
        raise DecodeError("DICOM without pixel data, or cut off before they end")
    try:
        height, width = int(dataset.Rows), int(dataset.Columns)
        frames = int(dataset.get("NumberOfFrames") or 1)
        samples = int(dataset.get("SamplesPerPixel") or 1)
        photometric = _photometric(dataset)
        bits, allocated = int(dataset.BitsStored), int(dataset.BitsAllocated)
        syntax = _syntax(dataset)
        turned = float(dataset.get("RescaleSlope") or 1) < 0
        for keyword in ("ModalityLUTSequence", "VOILUTSequence"):
            turned ^= _falls(dataset, keyword)
    except (AttributeError, TypeError, ValueError) as error:
        raise DecodeError(f"incomplete DICOM header ({one_line(error)})") from None
    if int(dataset.get("HighBit") or bits - 1) != bits - 1:
        raise DecodeError(f"HighBit is {dataset.HighBit}, expected BitsStored - 1 = {bits - 1}")
    channels = 3 if photometric == "PALETTE COLOR" else samples
    check_size(height, width, channels * -(-allocated // 8), most)
    if frames != 1:
        raise DecodeError(f"DICOM with {frames} frames")
    plugin, decoder_name = choose_decoder(syntax)
    if not dataset.PixelData:
        raise DecodeError("DICOM with empty pixel data")
    if plugin:
        _check_stream(dataset, syntax, (height, width, samples), allocated)
    else:
        row = width * samples * allocated // 8
        behind = dataset.PixelData[height * width * samples * allocated // 8 :]
        # Some writers fill up with zeros; a header that is too small would cut or shear the image.
        if len(behind) >= row and behind.count(0) < len(behind):
            raise DecodeError(f"pixel data are longer than {height} x {width} pixels")
    grey = photometric in ("MONOCHROME1", "MONOCHROME2")
    values = _as_stored(dataset, syntax, height, width, bits) if grey and not plugin else None
    if values is None:
        values = _through_plugin(dataset, syntax, plugin)
    if grey and plugin:
        cleared = _within_bits(values, bits, syntax)
        decoder_name += "" if cleared is values else CLEARED
        values = cleared
    if values.ndim != 2:
        raise DecodeError(f"DICOM pixel array has shape {values.shape}, not rows x columns")
    if grey:
        # A negative slope turns the meaning of the values over, as MONOCHROME1 does, and as INVERSE
        # does. MONOCHROME1 should come with INVERSE (PS3.3 C.8.11.1), which is the same said twice.
        inverse = str(dataset.get("PresentationLUTShape") or "").strip().upper() == "INVERSE"
        turned ^= photometric == "MONOCHROME1" or inverse
        values = _without_padding(values, dataset, turned)
        values = _turned_over(values) if turned else values
        if inverse and photometric == "MONOCHROME2":
            photometric = "MONOCHROME2, INVERSE"
    return Decoded(values, photometric, bits, decoder_name)


def _syntax(dataset: pydicom.Dataset) -> UID:
    """The transfer syntax; where the file does not name it, that by which pydicom has read it."""
    syntax_name = str(dataset.file_meta.get("TransferSyntaxUID") or "")
    if syntax_name:
        return UID(syntax_name)
    if dataset["PixelData"].is_undefined_length:
        raise DecodeError("no transfer syntax is named, and the pixels are compressed")
    implicit, little = dataset.original_encoding
    plain = ExplicitVRLittleEndian if little else ExplicitVRBigEndian
    syntax = ImplicitVRLittleEndian if implicit else plain
    dataset.file_meta.TransferSyntaxUID = syntax  # where pydicom's decoder looks for it
    return syntax


def _check_stream(
    dataset: pydicom.Dataset, syntax: UID, shape: tuple[int, int, int], allocated: int
) -> None:
    """Refuse compressed pixels whose own header has another size (rows, columns, samples)."""
    if syntax not in _WITH_HEADER:
        return
    try:
        header = stated(get_frame(dataset.PixelData, 0, number_of_frames=1))
    except Exception as error:  # of broken fragments, again without a common base
        raise DecodeError(f"pixel data damaged or cut off ({one_line(error)})") from None
    if header is None:
        raise DecodeError("pixel data damaged or cut off (no header of a compressed image)")
    if header.signed and not dataset.get("PixelRepresentation"):
        raise DecodeError("compressed pixels are signed, the DICOM header says unsigned")
    if header[:3] != shape or header.bits > allocated:
        raise DecodeError(
            f"compressed pixels are {header.rows} x {header.columns} x {header.samples} of"
            f" {header.bits} bits, the DICOM header says {' x '.join(map(str, shape))} of"
            f" {allocated} at most"
        )


def _photometric(dataset: pydicom.Dataset) -> str:
    """The photometric interpretation as the standard spells it, also where pydicom looks for it."""
    stated_name = str(dataset.PhotometricInterpretation)
    spelled = " ".join(stated_name.upper().split())
    compact = spelled.replace(" ", "")
    standard_name = next((name for name in KNOWN if name in (spelled, compact)), None)
    if standard_name is None:
        raise DecodeError(
            f"PhotometricInterpretation is {stated_name[:32]!r}, expected {', '.join(KNOWN)}"
        )
    dataset.PhotometricInterpretation = standard_name
    return standard_name


def _falls(dataset: pydicom.Dataset, keyword: str) -> bool:
    """True if the look-up tables of a sequence fall, as a negative slope does; they do not apply.

    Raises:
        DecodeError: one rises and falls, or two differ: what is dense cannot be said.
    """
    directions = set()
    for item in dataset.get(keyword) or ():
        entries, _, _ = (int(number) for number in item.LUTDescriptor)
        entries = entries or 1 << 16
        content = item.LUTData
        if isinstance(content, bytes):
            order = "<" if dataset.original_encoding[1] else ">"
            content = np.frombuffer(content, "u1" if len(content) < 2 * entries else f"{order}u2")
        steps = np.diff(np.atleast_1d(np.asarray(content, dtype=np.int64))[:entries])
        if (steps > 0).any() and (steps < 0).any():
            raise DecodeError(f"{keyword}: a table that rises and falls")
        if steps.any():
            directions.add(bool((steps < 0).any()))
    if len(directions) > 1:
        raise DecodeError(f"{keyword}: one table rises and another falls")
    return directions == {True}


def _within_bits(values: NDArray, bits: int, syntax: UID) -> NDArray:
    """Decompressed grey values without what stands in the bits above BitsStored, as overlays do.

    Uncompressed ones pydicom clears likewise. Where compression has a loss those bits have spoilt
    the others; a little beyond the range is the loss itself, and is cut.

    Raises:
        DecodeError: it is compressed with loss, and far out of range.
    """
    signed = values.dtype.kind == "i"
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if values.min() >= least and values.max() <= most:
        return values
    if syntax in LOSSLESS:
        sign = 1 << bits - 1 if signed else 0
        return ((values & ((1 << bits) - 1)) ^ sign) - sign
    if values.min() < least - (1 << bits) // 16 or values.max() > most + (1 << bits) // 16:
        raise DecodeError(
            f"values {values.min()} to {values.max()} of {bits} bits, compressed with loss"
        )
    return np.clip(values, least, most)


def _without_padding(values: NDArray, dataset: pydicom.Dataset, turned: bool) -> NDArray:
    """The values with those that only pad the image as dark as its darkest.

    PixelPaddingValue, or all from it to PixelPaddingRangeLimit (PS3.3 C.7.5.1.1.2): they are not
    measured, often far from what is, and would take the range of grey values from it.
    """
    ends = []
    for keyword in ("PixelPaddingValue", "PixelPaddingRangeLimit"):
        if keyword in dataset:
            # Without a type of its own in the file, its sign is that of the pixels.
            element = correct_ambiguous_vr_element(dataset[keyword], dataset, True)
            if element.value in (None, ""):  # the element is there, but says nothing
                if keyword == "PixelPaddingValue":
                    return values
                continue
            ends.append(int(str(element.value)))
    if not ends or "PixelPaddingValue" not in dataset:
        return values
    padding = (values >= min(ends)) & (values <= max(ends))
    if not padding.any() or padding.all():
        return values
    measured = values[~padding]
    return np.where(padding, measured.max() if turned else measured.min(), values)


def _turned_over(values: NDArray) -> NDArray:
    """The largest value present becomes 0; whole numbers stay whole.

    No difference of unsigned numbers from their largest is too large for their type.
    """
    if values.dtype.kind == "i":
        values = values.astype(np.int32 if values.dtype.itemsize < 4 else np.int64)
    return values.max() - values


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
    if syntax == JPEGExtended12Bit and plugin == "gdcm" and dataset.BitsStored > 8:
        # pydicom keeps 12 bits from GDCM, which reads any JPEG by the stream's own header.
        dataset.file_meta.TransferSyntaxUID = syntax = JPEGLossless
    try:
        values, image = get_decoder(syntax).as_array(dataset, index=0, decoding_plugin=plugin)
    except Exception as error:  # the plugins raise whatever their C library gave them
        # pydicom's sentence about "all available plugins" says nothing: there is only the one.
        reason = one_line(error).rpartition("available plugins: ")[2]
        raise DecodeError(f"pixel data damaged or cut off ({reason})") from None
    if image["photometric_interpretation"] == "PALETTE COLOR":
        try:
            return luminance(apply_color_lut(values, dataset)[..., :3])
        except Exception as error:
            raise DecodeError(f"palette absent or damaged ({one_line(error)})") from None
    return luminance(values) if values.ndim == 3 else values


@cache
def choose_decoder(syntax: UID) -> tuple[str, str]:
    """The plugin of pydicom for a transfer syntax, and its name with version for the index."""
    if syntax in _NATIVE:
        return "", f"pydicom {pydicom.__version__} native"
    if syntax not in PREFERENCE:
        name = "" if syntax.name == syntax else f" ({syntax.name})"
        raise DecodeError(f"transfer syntax {syntax[:64]!r}{name} is not supported")
    installed = get_decoder(syntax).available_plugins
    for plugin in PREFERENCE[syntax]:
        if plugin in installed:
            version = importlib.metadata.version(_PACKAGES.get(plugin, plugin))
            return plugin, f"{plugin} {version}"
    raise DecodeError(
        f"no decoder for {syntax.name} is installed: {' or '.join(PREFERENCE[syntax])}"
    )
