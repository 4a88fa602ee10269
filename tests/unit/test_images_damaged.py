"""Images that cannot be used: damaged, hostile or too large; one error each, and little memory."""

import io
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pydicom
import pytest
from dicom_files import LOSSLESS, RNG, chest, dataset, save, written
from PIL import Image
from pydicom.dataset import FileDataset
from pydicom.encaps import encapsulate
from pydicom.uid import (
    DeflatedExplicitVRLittleEndian,
)

from cxrflow.images.decode import decode
from cxrflow.images.decoded import DecodeError


def without(keyword: str) -> FileDataset:
    made = dataset(chest(), 12)
    delattr(made, keyword)
    return made


def float_pixels() -> FileDataset:
    made = without("PixelData")
    made.FloatPixelData = np.full(made.Rows * made.Columns, np.nan, "<f4").tobytes()
    return made


def many_frames() -> FileDataset:
    made = dataset(chest(), 12)
    made.NumberOfFrames = 2
    made.PixelData = made.PixelData * 2
    return made


def video() -> FileDataset:
    made = dataset(chest(bits=8), 8)
    made.file_meta.TransferSyntaxUID = pydicom.uid.MPEG2MPML
    made.PixelData = encapsulate([b"\0" * 64])
    made["PixelData"].is_undefined_length = True
    return made


BAD_DICOM = {
    "DICOM without pixel data": lambda: without("PixelData"),
    "without pixel data, or cut": float_pixels,
    "incomplete DICOM header": lambda: without("Rows"),
    "DICOM with 2 frames": many_frames,
    "blank image": lambda: dataset(np.full((20, 20), 9, np.uint16), 12),
    "is not supported": video,
}


@pytest.mark.parametrize("reason", BAD_DICOM)
def test_unusable_dicom(tmp_path: Path, reason: str) -> None:
    path = save(BAD_DICOM[reason](), tmp_path / "image.dcm")
    with pytest.raises(DecodeError, match=reason) as error:
        decode(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3, 0.5, 0.8, 0.99])
@pytest.mark.parametrize("syntax", LOSSLESS)
def test_truncated_dicom(tmp_path: Path, syntax: str, share: float) -> None:
    whole = written(tmp_path, chest(), 12, syntax).read_bytes()
    path = tmp_path / "truncated.dcm"
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(DecodeError) as error:
        decode(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
def test_truncated_pictures(tmp_path: Path, kind: str, share: float) -> None:
    stream = io.BytesIO()
    Image.fromarray(chest(200, 200, bits=8)).save(stream, kind)
    path = tmp_path / "image"
    path.write_bytes(stream.getvalue()[: int(share * len(stream.getvalue()))])
    with pytest.raises(DecodeError, match="damaged image file"):
        decode(path)


def test_other_files(tmp_path: Path) -> None:
    cases = {"empty file": b"", "not a DICOM": b"<html>sign in</html>" * 20}
    for reason, content in cases.items():
        path = tmp_path / "image.bin"
        path.write_bytes(content)
        with pytest.raises(DecodeError, match=reason):
            decode(path)
    with pytest.raises(DecodeError, match="file not found"):
        decode(tmp_path / "absent.dcm")
    with pytest.raises(DecodeError, match="cannot be read"):
        decode(tmp_path)
    junk = tmp_path / "junk.dcm"
    junk.write_bytes(RNG.bytes(4000))
    with pytest.raises(DecodeError):
        decode(junk)


def test_a_claimed_size_takes_no_memory(tmp_path: Path) -> None:
    made = dataset(chest(), 12)
    made.Rows, made.Columns = 65535, 65535
    with pytest.raises(DecodeError, match="not plausible"):
        decode(save(made, tmp_path / "image.dcm"))


@pytest.mark.parametrize("syntax", ["1.2.840.113619.5.2", "1.2.840.10008.1.20", "9", "x.y", ""])
def test_no_transfer_syntax_stops_more_than_its_file(tmp_path: Path, syntax: str) -> None:
    """A vendor's own, one that is not of pixels, one that does not exist, and no name at all."""
    whole = save(dataset(chest(), 12), tmp_path / "whole.dcm").read_bytes()
    name = b"1.2.840.10008.1.2.1\0"
    path = tmp_path / "image.dcm"
    path.write_bytes(whole.replace(name, syntax.encode().ljust(len(name), b"\0")))
    with pytest.raises(DecodeError, match="transfer syntax .* is not supported"):
        decode(path)


@pytest.mark.parametrize("keyword", ["Rows", "Columns", "SamplesPerPixel"])
@pytest.mark.parametrize("syntax", ["JPEGLSLossless", "JPEGLosslessProcess14_1", "jpeg 2000"])
def test_compressed_pixels_of_another_size_never_reach_a_decoder(
    tmp_path: Path, syntax: str, keyword: str
) -> None:
    """The decoder of JPEG-LS ends the process over these."""
    made = pydicom.dcmread(
        written(tmp_path, chest(), 12, syntax + " lossless" * (syntax == "jpeg 2000"))
    )
    for other in (getattr(made, keyword) + 2, 3):
        setattr(made, keyword, other)
        with pytest.raises(DecodeError, match="compressed pixels are 60 x 48 x 1 of 1[26] bits"):
            decode(save(made, tmp_path / "image.dcm"))


def test_no_header_of_a_compressed_image(tmp_path: Path) -> None:
    for content in (
        b"\0\0\0\x0cjP  " + b"\0" * 40,
        b"\xff\xd8\xff",
        b"\xff\x4f\xff\x51\0",
        b"\0\0",
    ):
        made = pydicom.dcmread(written(tmp_path, chest(), 12, "jpeg 2000 lossless"))
        made.PixelData = encapsulate([content])
        with pytest.raises(DecodeError, match="pixel data damaged or cut off"):
            decode(save(made, tmp_path / "image.dcm"))


@pytest.mark.parametrize(("rows", "columns"), [(59, 48), (60, 47), (20, 20)])
def test_a_header_that_is_too_small_would_cut_or_shear_the_image(
    tmp_path: Path, rows: int, columns: int
) -> None:
    made = dataset(chest(), 12)
    made.Rows, made.Columns = rows, columns
    with pytest.raises(DecodeError, match=f"pixel data are longer than {rows} x {columns} pixels"):
        decode(save(made, tmp_path / "image.dcm"))


def test_zeros_behind_the_pixels_are_no_pixels(tmp_path: Path) -> None:
    pixels = chest()
    made = dataset(pixels, 12)
    made.PixelData = made.PixelData + bytes(4 * 2 * 48)
    np.testing.assert_array_equal(decode(save(made, tmp_path / "image.dcm")).values, pixels)


def test_empty_pixel_data(tmp_path: Path) -> None:
    whole = written(tmp_path, chest(), 12, "jpeg 2000 lossless").read_bytes()
    at = whole.rindex(b"\xe0\x7f\x10\x00O") + 8
    path = tmp_path / "image.dcm"
    path.write_bytes(whole[:at] + b"\0\0\0\0")
    with pytest.raises(DecodeError, match="empty pixel data"):
        decode(path)
    made = dataset(chest(), 12)
    made.PixelData = b""
    with pytest.raises(DecodeError, match="empty pixel data"):
        decode(save(made, path))


@pytest.mark.parametrize("tag", ["Rows", "BitsStored", "PhotometricInterpretation", "PixelData"])
def test_damaged_value_representations(tmp_path: Path, tag: str) -> None:
    whole = save(dataset(chest(), 12), tmp_path / "whole.dcm").read_bytes()
    number = int(pydicom.datadict.tag_for_keyword(tag) or 0)
    key = (number >> 16).to_bytes(2, "little") + (number & 0xFFFF).to_bytes(2, "little")
    at = whole.rindex(key) + 4
    for other in (b"FD", b"SQ", b"DS", b"UN", b"AT", b"??", b"\0\0"):
        path = tmp_path / "image.dcm"
        path.write_bytes(whole[:at] + other + whole[at + 2 :])
        try:
            decode(path)
        except DecodeError as error:
            assert "\n" not in str(error)


def test_palette_without_table(tmp_path: Path) -> None:
    path = save(dataset(chest(bits=8), 8, "PALETTE COLOR"), tmp_path / "image.dcm")
    with pytest.raises(DecodeError, match="palette absent or damaged"):
        decode(path)


def test_a_queue_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "image.dcm")
    with pytest.raises(DecodeError, match="not a regular file"):
        decode(tmp_path / "image.dcm")


def mebibytes_taken(path: Path) -> float:
    """What refusing a file takes where 8 MiB are allowed."""
    tracemalloc.start()
    with pytest.raises(DecodeError, match="max_image_mib 8"):
        decode(path, 8 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20


def test_small_files_that_unpack_to_much_take_no_memory(tmp_path: Path) -> None:
    """Channels count, a deflated file is not unpacked first, nor is a compressed stream."""
    Image.new("CMYK", (1500, 1500), (9, 8, 7, 6)).save(tmp_path / "cmyk.jpg")
    Image.new("P", (3000, 3000), 3).save(tmp_path / "palette.png")
    deflated = dataset(chest(), 12)
    deflated.PixelData = bytes(20 << 20)
    deflated.file_meta.TransferSyntaxUID = DeflatedExplicitVRLittleEndian
    save(deflated, tmp_path / "deflated.dcm")
    stream = pydicom.dcmread(written(tmp_path, chest(), 12, "jpeg 2000 lossless"))
    stream.Rows = stream.Columns = 9000
    save(stream, tmp_path / "jpeg 2000.dcm")
    for name in ("cmyk.jpg", "palette.png", "jpeg 2000.dcm", "deflated.dcm"):
        assert (tmp_path / name).stat().st_size < 1 << 18
        assert mebibytes_taken(tmp_path / name) < 4, name


def test_the_limit_is_a_setting(tmp_path: Path) -> None:
    path = tmp_path / "image.png"
    Image.fromarray(RNG.integers(0, 256, (1024, 1025), dtype=np.uint8)).save(path)
    with pytest.raises(DecodeError, match=r"1024 x 1025 .*1 MiB decoded, at most max_image_mib 1"):
        decode(path, 1 << 20)
    assert decode(path, 2 << 20).values.shape == (1024, 1025)
