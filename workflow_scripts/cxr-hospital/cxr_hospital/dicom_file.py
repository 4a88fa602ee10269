"""DICOM files as the synthetic hospital stores them: header, stored pixels, transfer syntaxes.

Encoders: uncompressed and RLE by pydicom, JPEG 2000 lossless by pylibjpeg-openjpeg, JPEG lossless
(process 14, selection value 1) by gdcm, JPEG baseline by Pillow.
"""

import hashlib
import io
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.encaps import encapsulate, generate_frames
from pydicom.filereader import dcmread
from pydicom.uid import (
    UID,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    JPEG2000Lossless,
    JPEGBaseline8Bit,
    JPEGLosslessSV1,
    RLELossless,
)

SYNTAXES: dict[str, UID] = {
    "explicit_le": ExplicitVRLittleEndian,
    "implicit_le": ImplicitVRLittleEndian,
    "rle": RLELossless,
    "jpeg_lossless": JPEGLosslessSV1,
    "jpeg2000": JPEG2000Lossless,
    "jpeg_baseline": JPEGBaseline8Bit,
}
JPEG_QUALITY = 92


def uid(*key: object) -> UID:
    """A valid UID fixed by ``key`` (of the form 2.25 and a 128-bit number)."""
    digest = hashlib.sha256("/".join(map(str, key)).encode()).hexdigest()
    return UID(f"2.25.{int(digest[:32], 16)}")


def code(meaning: str, value: str) -> Dataset:
    """One item of a code sequence."""
    item = Dataset()
    item.CodeValue, item.CodingSchemeDesignator, item.CodeMeaning = value, "L", meaning
    return item


def new_file(sop_class: str, instance: UID, syntax: str) -> FileDataset:
    """An empty data set with its file meta header; ``syntax`` is a key of ``SYNTAXES``."""
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = UID(sop_class)
    meta.MediaStorageSOPInstanceUID = instance
    meta.TransferSyntaxUID = SYNTAXES[syntax]
    dataset = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
    dataset.SOPClassUID, dataset.SOPInstanceUID = UID(sop_class), instance
    return dataset


def set_pixels(
    dataset: FileDataset, pixels: NDArray[np.uint8] | NDArray[np.uint16], bits: int, inverse: bool
) -> None:
    """Put stored values [H, W] into ``dataset`` in the transfer syntax of its meta header.

    ``inverse`` says that low values are bright (MONOCHROME1); the values are stored as given.
    """
    syntax = dataset.file_meta.TransferSyntaxUID
    photometric = "MONOCHROME1" if inverse else "MONOCHROME2"
    dataset.set_pixel_data(pixels, photometric, bits, generate_instance_uid=False)
    if syntax in (JPEGBaseline8Bit, JPEGLosslessSV1):
        if syntax == JPEGLosslessSV1:
            frame = _jpeg_lossless(dataset)
        else:
            buffer = io.BytesIO()
            Image.fromarray(pixels).save(buffer, "JPEG", quality=JPEG_QUALITY)
            frame = buffer.getvalue()
            dataset.LossyImageCompression, dataset.LossyImageCompressionMethod = "01", "ISO_10918_1"
        dataset.PixelData = encapsulate([frame])
        dataset["PixelData"].VR, dataset["PixelData"].is_undefined_length = "OB", True
        dataset.file_meta.TransferSyntaxUID = syntax
    elif syntax.is_compressed:
        dataset.compress(syntax, generate_instance_uid=False)


def _jpeg_lossless(dataset: FileDataset) -> bytes:
    """One frame as JPEG lossless. gdcm's Python side passes bytes only through files."""
    import gdcm

    with tempfile.TemporaryDirectory() as folder:
        before, after = str(Path(folder, "raw.dcm")), str(Path(folder, "packed.dcm"))
        save(dataset, Path(before))
        reader = gdcm.ImageReader()
        reader.SetFileName(before)
        change = gdcm.ImageChangeTransferSyntax()
        change.SetTransferSyntax(gdcm.TransferSyntax(gdcm.TransferSyntax.JPEGLosslessProcess14_1))
        writer = gdcm.ImageWriter()
        writer.SetFileName(after)
        writer.SetFile(reader.GetFile())
        if not reader.Read():
            raise RuntimeError("gdcm could not read an uncompressed image")
        change.SetInput(reader.GetImage())
        if not change.Change():
            raise RuntimeError("gdcm could not encode JPEG lossless")
        writer.SetImage(change.GetOutput())
        if not writer.Write():
            raise RuntimeError("gdcm could not write JPEG lossless")
        return next(generate_frames(dcmread(after).PixelData, number_of_frames=1))


def save(dataset: FileDataset, path: Path) -> None:
    """Write the file; its folder must be there."""
    dataset.save_as(path, enforce_file_format=True)
