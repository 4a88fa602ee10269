"""DICOM files: those that come with pydicom, of every transfer syntax, with values that no scanner
writes and with damaged bytes; some are no files at all."""

import io
import os
import warnings
from functools import cache
from pathlib import Path
from random import Random

import pydicom
import pydicom.data
from pydicom.encaps import encapsulate, get_frame
from pydicom.uid import DeflatedExplicitVRLittleEndian

from cxrflow.data.readers import dicom_headers
from cxrflow.images.decode import decode
from cxrflow.images.decoded import DecodeError
from fuzz import images
from fuzz.mutations import damaged
from fuzz.trial import Trial

COUNT = 2000

_BYTES = 200_000  # larger ones would only make the trial slower
_SYNTAXES = ["1.2.840.10008.1.2", "1.2.840.10008.1.2.1", "1.2.840.10008.1.2.2"]
_SYNTAXES += [f"1.2.840.10008.1.2.4.{number}" for number in (50, 51, 57, 70, 80, 81, 90, 91, 100)]
_SYNTAXES += ["1.2.840.10008.1.2.1.99", "1.2.840.10008.1.2.5", "1.2.840.113619.5.2", "x", "", "1."]
_VALUES = {
    "Rows": (0, 1, 7, 63, 65, 4_000, 65_535),
    "Columns": (0, 1, 7, 63, 65, 4_000, 65_535),
    "BitsAllocated": (0, 1, 7, 8, 12, 16, 32, 64),
    "BitsStored": (0, 1, 8, 12, 16, 33, 65_535),
    "HighBit": (0, 7, 15, 300),
    "SamplesPerPixel": (0, 1, 2, 3, 4, 65_535),
    "PixelRepresentation": (0, 1, 2, 65_535),
    "PlanarConfiguration": (0, 1, 2),
    "NumberOfFrames": ("0", "1", "2", "-1", "99999999999", "one"),
    "PhotometricInterpretation": ("MONOCHROME1", "RGB", "PALETTE COLOR", "YBR_FULL_422", "?"),
    "RescaleSlope": ("-1", "0", "1e999", "nan", "one"),
    "PixelPaddingValue": (0, 1, 255, 65_535),
    "StudyDate": ("20200230", "\0\0", "x" * 70, "1" * 5_000),
    "ViewPosition": ("PA", "\ud800", "\\\\", "x" * 300),
    "SpecificCharacterSet": ("ISO 2022 IR 87", "utf-16", "x"),
}


def run(trial: Trial, work: Path) -> None:
    """Through the pixel store and the scan of headers."""
    paths = images.store(trial, work, draw)
    trial.attempt(scan, paths)


def scan(path: Path) -> None:
    """The header of one file, as a cohort's reader asks for it."""
    dicom_headers.scan(path.parent, [path.name])


def draw(random: Random, path: Path) -> Path:
    """Write a file or, rarely, something that is none."""
    path = path.with_suffix(random.choice((".dcm", ".dcm", ".dicom", "")))
    if random.random() < 0.01:
        random.choice((os.mkfifo, os.mkdir, lambda name: os.symlink(name, name)))(path)
        return path
    content = random.choice(_sound())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if random.random() < 0.6:
            content = _with_other_values(random, content)
        if random.random() < 0.03:
            content = _bomb(random.choice((10, 600)), random.choice((2_000, 30_000)))
    if random.random() < 0.6:
        content = damaged(random, content)
    path.write_bytes(content)
    return path


@cache
def _sound() -> list[bytes]:
    folder = Path(pydicom.data.__file__).parent / "test_files"
    return [path.read_bytes() for path in sorted(folder.glob("*.dcm")) if _is_sound(path)]


def _is_sound(path: Path) -> bool:
    try:
        decode(path)
    except DecodeError:  # no image, several, …
        return False
    return path.stat().st_size < _BYTES


def _with_other_values(random: Random, content: bytes) -> bytes:
    """The file with a few elements changed, as far as pydicom can read and write it."""
    try:
        dataset = pydicom.dcmread(io.BytesIO(content), force=True)
        for _ in range(random.choice((1, 1, 2, 3))):
            _change(random, dataset)
        stream = io.BytesIO()
        dataset.save_as(stream, enforce_file_format=False)
        return stream.getvalue()
    except Exception:  # whatever; bytes are damaged in any case
        return damaged(random, content)


def _change(random: Random, dataset: pydicom.Dataset) -> None:
    what = random.random()
    if what < 0.6:
        keyword = random.choice(list(_VALUES))
        setattr(dataset, keyword, random.choice(_VALUES[keyword]))
    elif what < 0.7:
        dataset.file_meta.TransferSyntaxUID = random.choice(_SYNTAXES)
    elif what < 0.8:
        del dataset[random.choice(list(dataset.keys()))]
    elif what < 0.87:
        dataset.PixelData = random.choice(
            (b"", b"\0", dataset.PixelData[:-2], dataset.PixelData * 2)
        )
    elif dataset.file_meta.TransferSyntaxUID.is_encapsulated:
        # Damage to the head of the compressed stream, within sound elements around it.
        stream = bytearray(get_frame(dataset.PixelData, 0, number_of_frames=1))
        for _ in range(random.choice((1, 2, 5))):
            stream[random.randrange(min(len(stream), 120))] = random.randrange(256)
        dataset.PixelData = encapsulate([bytes(stream)])


@cache
def _bomb(mebibytes: int, side: int) -> bytes:
    """A deflated file that unpacks to a thousand times its size."""
    dataset = pydicom.dcmread(pydicom.data.get_testdata_file("CT_small.dcm"))
    dataset.Rows = dataset.Columns = side
    dataset.PixelData = bytes(mebibytes << 20)
    dataset.file_meta.TransferSyntaxUID = DeflatedExplicitVRLittleEndian
    stream = io.BytesIO()
    dataset.save_as(stream, enforce_file_format=True)
    return stream.getvalue()
