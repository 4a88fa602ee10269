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
from pydicom.pixels import get_encoder
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


def uid(*parts: object) -> UID:
    """A valid UID fixed by ``parts`` (of the form 2.25 and a 128-bit number)."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()
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
    dataset.SamplesPerPixel = 1
    dataset.PhotometricInterpretation = "MONOCHROME1" if inverse else "MONOCHROME2"
    dataset.Rows, dataset.Columns = pixels.shape
    dataset.BitsAllocated = pixels.dtype.itemsize * 8
    dataset.BitsStored, dataset.HighBit, dataset.PixelRepresentation = bits, bits - 1, 0
    plain = pixels.astype(pixels.dtype.newbyteorder("<")).tobytes()
    if not syntax.is_compressed:
        dataset.PixelData = plain
    elif syntax == JPEGBaseline8Bit:
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, "JPEG", quality=JPEG_QUALITY)
        dataset.PixelData = encapsulate([buffer.getvalue()])
        dataset.LossyImageCompression, dataset.LossyImageCompressionMethod = "01", "ISO_10918_1"
    elif syntax == JPEGLosslessSV1:
        dataset.PixelData = encapsulate([_jpeg_lossless(dataset, plain)])
    else:
        frame = get_encoder(syntax).encode(
            pixels,
            rows=dataset.Rows,
            columns=dataset.Columns,
            samples_per_pixel=1,
            number_of_frames=1,
            bits_allocated=dataset.BitsAllocated,
            bits_stored=bits,
            pixel_representation=0,
            photometric_interpretation=dataset.PhotometricInterpretation,
        )
        dataset.PixelData = encapsulate([frame])
    dataset["PixelData"].VR = "OW" if dataset.BitsAllocated > 8 else "OB"
    if syntax.is_compressed:
        dataset["PixelData"].VR = "OB"
        dataset["PixelData"].is_undefined_length = True


def _jpeg_lossless(dataset: Dataset, plain: bytes) -> bytes:
    """One frame as JPEG lossless. gdcm's Python side passes bytes only through files."""
    import gdcm

    raw = new_file("1.2.840.10008.5.1.4.1.1.7", uid("raw"), "explicit_le")
    for element in dataset.group_dataset(0x0028):
        raw.add(element)
    raw.PixelData = plain
    raw["PixelData"].VR = "OW"
    with tempfile.TemporaryDirectory() as folder:
        before, after = str(Path(folder, "raw.dcm")), str(Path(folder, "packed.dcm"))
        raw.save_as(before, enforce_file_format=True)
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
