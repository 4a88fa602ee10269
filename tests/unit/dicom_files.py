"""DICOM files to read: a drawn chest in any transfer syntax."""

import io
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.encaps import encapsulate
from pydicom.uid import (
    DeflatedExplicitVRLittleEndian,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    JPEG2000Lossless,
    JPEGBaseline8Bit,
    RLELossless,
    generate_uid,
)

RNG = np.random.default_rng(7)
LOSSLESS = {  # and the decoder of each
    "explicit": "pydicom",
    "implicit": "pydicom",
    "deflated": "pydicom",
    "big endian": "pydicom",
    "rle": "pydicom",
    "jpeg 2000 lossless": "pylibjpeg",
    "JPEGLosslessProcess14_1": "gdcm",
    "JPEGLosslessProcess14": "gdcm",
    "JPEGLSLossless": "gdcm",
}


def chest(height: int = 60, width: int = 48, bits: int = 12) -> NDArray:
    """A smooth image with noise, so that compressors have something to do."""
    y, x = np.mgrid[:height, :width]
    wave = 0.5 + 0.3 * np.sin(y / 9) * np.cos(x / 7) + 0.1 * RNG.random((height, width))
    return (wave * (2**bits - 1)).astype(np.uint8 if bits <= 8 else np.uint16)


def dataset(pixels: NDArray, bits: int, photometric: str = "MONOCHROME2") -> FileDataset:
    """An uncompressed DICOM file of ``pixels`` [H, W] or [H, W, 3]."""
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.1.1"
    meta.MediaStorageSOPInstanceUID = generate_uid(entropy_srcs=["test"])
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    made = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
    made.SOPClassUID = meta.MediaStorageSOPClassUID
    made.SOPInstanceUID = meta.MediaStorageSOPInstanceUID
    made.Rows, made.Columns = pixels.shape[:2]
    made.SamplesPerPixel = 3 if pixels.ndim == 3 else 1
    if pixels.ndim == 3:
        made.PlanarConfiguration = 0
    made.PhotometricInterpretation = photometric
    made.BitsAllocated = 8 * pixels.dtype.itemsize
    made.BitsStored, made.HighBit = bits, bits - 1
    made.PixelRepresentation = int(pixels.dtype.kind == "i")
    made.PixelData = pixels.tobytes()
    made["PixelData"].VR = "OB" if pixels.dtype.itemsize == 1 else "OW"
    return made


def save(made: FileDataset, path: Path) -> Path:
    made.save_as(path, enforce_file_format=True)
    return path


def compressed(made: FileDataset, syntax: str, stream: bytes) -> FileDataset:
    """The file with a compressed stream for its pixels."""
    made.file_meta.TransferSyntaxUID = syntax
    made.PixelData = encapsulate([stream])
    made["PixelData"].is_undefined_length = True
    return made


def change_syntax(path: Path, target: Path, gdcm_syntax: str) -> Path:
    """Compress a file with GDCM, the only writer of JPEG lossless and JPEG-LS here."""
    gdcm = pytest.importorskip("gdcm")
    reader = gdcm.ImageReader()
    reader.SetFileName(str(path))
    assert reader.Read()
    change = gdcm.ImageChangeTransferSyntax()
    change.SetTransferSyntax(gdcm.TransferSyntax(getattr(gdcm.TransferSyntax, gdcm_syntax)))
    change.SetInput(reader.GetImage())
    assert change.Change()
    writer = gdcm.ImageWriter()
    writer.SetFileName(str(target))
    writer.SetFile(reader.GetFile())
    writer.SetImage(change.GetOutput())
    assert writer.Write()
    return target


def written(tmp_path: Path, pixels: NDArray, bits: int, syntax: str) -> Path:
    """``pixels`` as a DICOM file in the named transfer syntax."""
    made, path = dataset(pixels, bits), tmp_path / "image.dcm"
    if syntax == "explicit":
        return save(made, path)
    if syntax == "implicit":
        made.file_meta.TransferSyntaxUID = ImplicitVRLittleEndian
        return save(made, path)
    if syntax == "deflated":
        made.file_meta.TransferSyntaxUID = DeflatedExplicitVRLittleEndian
        return save(made, path)
    if syntax == "big endian":
        made.file_meta.TransferSyntaxUID = ExplicitVRBigEndian
        made.PixelData = pixels.astype(pixels.dtype.newbyteorder(">")).tobytes()
        made.set_original_encoding(False, False)
        return save(made, path)
    if syntax == "rle":
        made.compress(RLELossless)
        return save(made, path)
    if syntax == "jpeg 2000 lossless":
        made.compress(JPEG2000Lossless)
        return save(made, path)
    return change_syntax(save(made, tmp_path / "plain.dcm"), path, syntax)


def write_crashing_dicom(path: Path) -> None:
    """JPEG as RSNA has it, of 64 bits by its header: GDCM ends its process over that."""
    stream, pixels = io.BytesIO(), chest(40, 40, bits=8)
    Image.fromarray(pixels).save(stream, "JPEG")
    made = compressed(dataset(pixels, 8), JPEGBaseline8Bit, stream.getvalue())
    made.BitsAllocated = 64
    save(made, path)
