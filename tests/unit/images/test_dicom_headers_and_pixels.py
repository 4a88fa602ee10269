"""What a DICOM header says of its values and what the decoder gives: they agree, or it is said."""

import gzip
from pathlib import Path

import numpy as np
import pydicom
import pytest
from dicom_files import chest, dataset, save, written
from PIL import Image
from pydicom.dataset import Dataset
from pydicom.uid import JPEG2000, JPEG2000Lossless

from cxrflow.images.decode import decode
from cxrflow.images.decoded import DecodeError
from cxrflow.images.dicom import CLEARED, _within_bits

SYNTAXES = (
    *("explicit", "rle", "jpeg 2000 lossless"),
    *("JPEGLosslessProcess14_1", "JPEGLSLossless"),
)
OVERLAY = np.zeros((60, 48), np.uint16)
OVERLAY[20:30, 10:40] = 1 << 15


@pytest.mark.parametrize("bits", [10, 12])
@pytest.mark.parametrize("syntax", SYNTAXES)
def test_bits_above_those_stored_are_no_values(tmp_path: Path, syntax: str, bits: int) -> None:
    """An overlay in the highest bit: 33,340 of 1,023 would leave the body 3 % of the greys."""
    pixels = chest(bits=bits)
    path = written(tmp_path, pixels | OVERLAY, 16, syntax)
    made = decode(path)
    assert made.values.max() > 1 << 15 and CLEARED not in made.decoder
    header = pydicom.dcmread(path)
    header.BitsStored, header.HighBit = bits, bits - 1
    made = decode(save(header, path))
    np.testing.assert_array_equal(made.values, pixels)
    if syntax == "jpeg 2000 lossless":  # other decoders clear them themselves
        assert made.decoder.endswith(CLEARED)


def test_bits_above_a_sign_are_no_values(tmp_path: Path) -> None:
    values = np.array([-512, -1, 0, 511], np.int16)
    spoilt = (values & 0x3FF) | np.int16(1 << 12)
    np.testing.assert_array_equal(_within_bits(spoilt, 10, JPEG2000Lossless), values)
    assert _within_bits(values, 10, JPEG2000Lossless) is values


def test_with_loss_little_is_cut_and_more_refused() -> None:
    near = np.array([0, 500, 1030], np.uint16)
    np.testing.assert_array_equal(_within_bits(near, 10, JPEG2000), [0, 500, 1023])
    with pytest.raises(DecodeError, match="values 0 to 33340 of 10 bits, compressed with loss"):
        _within_bits(np.array([0, 33340], np.uint16), 10, JPEG2000)


def test_a_signed_stream_below_an_unsigned_header_is_refused(tmp_path: Path) -> None:
    pixels = chest(bits=12).astype(np.int16) - 2000
    made = dataset(pixels, 13)
    made.compress(JPEG2000Lossless)
    np.testing.assert_array_equal(decode(save(made, tmp_path / "signed.dcm")).values, pixels)
    made.PixelRepresentation = 0
    with pytest.raises(DecodeError, match="pixels are signed, the DICOM header says unsigned"):
        decode(save(made, tmp_path / "unsigned.dcm"))


def table(values: np.ndarray, keyword: str, vr: str = "US") -> Dataset:
    item = Dataset()
    item.add_new((0x0028, 0x3002), "US", [len(values), 0, 12])
    content = values.tolist() if vr == "US" else values.astype("<u2").tobytes()
    item.add_new((0x0028, 0x3006), vr, content)
    if keyword == "ModalityLUTSequence":
        item.ModalityLUTType = "US"
    return item


@pytest.mark.parametrize("vr", ["US", "OW"])
@pytest.mark.parametrize("keyword", ["ModalityLUTSequence", "VOILUTSequence"])
def test_a_falling_table_turns_over_as_a_negative_slope_does(
    tmp_path: Path, keyword: str, vr: str
) -> None:
    pixels, rising = chest(bits=12), np.arange(4096)

    def read(*tables: np.ndarray, photometric: str = "MONOCHROME2", **more: float) -> np.ndarray:
        made = dataset(pixels, 12, photometric)
        setattr(made, keyword, [table(values, keyword, vr) for values in tables])
        for name, value in more.items():
            setattr(made, name, value)
        return decode(save(made, tmp_path / "image.dcm")).values

    turned = pixels.max() - pixels
    np.testing.assert_array_equal(read(rising), pixels)
    np.testing.assert_array_equal(read(np.full(4096, 7)), pixels)
    np.testing.assert_array_equal(read(rising[::-1]), turned)
    np.testing.assert_array_equal(read(rising[::-1] // 5), turned)  # with steps
    np.testing.assert_array_equal(read(rising[::-1], photometric="MONOCHROME1"), pixels)
    np.testing.assert_array_equal(read(rising[::-1], RescaleSlope=-1.0), pixels)
    with pytest.raises(DecodeError, match=f"{keyword}: a table that rises and falls"):
        read(np.abs(rising - 2000))
    with pytest.raises(DecodeError, match=f"{keyword}: one table rises and another falls"):
        read(rising, rising[::-1])


@pytest.mark.parametrize("name", ["monochrome1", "Monochrome1", "MONOCHROME 1", " MONOCHROME1 "])
@pytest.mark.parametrize("syntax", ["explicit", "jpeg 2000 lossless"])
def test_the_photometric_interpretation_in_any_spelling(
    tmp_path: Path, name: str, syntax: str
) -> None:
    pixels = chest()
    made = pydicom.dcmread(written(tmp_path, pixels, 12, syntax))
    made.PhotometricInterpretation = name
    read = decode(save(made, tmp_path / "image.dcm"))
    np.testing.assert_array_equal(read.values, pixels.max() - pixels)
    assert read.photometric == "MONOCHROME1"
    made.PhotometricInterpretation = "NEGATIVE"
    with pytest.raises(DecodeError, match="is 'NEGATIVE', expected MONOCHROME1"):
        decode(save(made, tmp_path / "image.dcm"))


@pytest.mark.parametrize("name", ["image.dcm", "image.dcm.gz", "image.png"])
def test_a_gzipped_image_is_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / "image.png"
    if "dcm" in name:
        path = save(dataset(chest(), 12), tmp_path / "plain.dcm")
    else:
        Image.fromarray(chest(bits=8)).save(path)
    content = path.read_bytes()
    (tmp_path / name).write_bytes(gzip.compress(content))
    with pytest.raises(DecodeError, match="gzipped; expected the image itself"):
        decode(tmp_path / name)
