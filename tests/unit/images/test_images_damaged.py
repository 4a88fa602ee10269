"""Images that cannot be used: damaged, hostile or too large; one error each, and little memory."""

import io
import os
import re
import tracemalloc
from pathlib import Path

import numpy as np
import pydicom
import pytest
from dicom_files import LOSSLESS, RNG, chest, compressed, dataset, save, written
from PIL import Image
from pydicom.dataset import FileDataset
from pydicom.encaps import encapsulate
from pydicom.uid import (
    DeflatedExplicitVRLittleEndian,
)

from cxr_files.errors import one_line
from cxrflow.data.readers.dicom_headers import scan
from cxrflow.images.decode import decode
from cxrflow.images.decoded import DecodeError


def test_reasons_are_the_same_for_files_of_the_same_damage(tmp_path: Path) -> None:
    """They are counted by their words: no address and no name of a file is among them."""
    stream = io.BytesIO()
    Image.fromarray(chest(bits=8)).save(stream, "PNG")
    reasons = set()
    for number in range(3):
        path = tmp_path / f"{number}.png"
        path.write_bytes(stream.getvalue()[:20] + bytes(40))
        with pytest.raises(DecodeError) as error:
            decode(path)
        failure = scan(tmp_path, [path.name])["failure"].item()
        reasons |= {str(error.value), failure}
    assert reasons == {"damaged image file (its header cannot be read)"}
    assert one_line(ValueError(f"no {io.BytesIO()} {object()} here")) == "no BytesIO object here"


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
    return compressed(dataset(chest(bits=8), 8), pydicom.uid.MPEG2MPML, b"\0" * 64)


def of_size(rows: int, columns: int) -> FileDataset:
    made = dataset(chest(), 12)
    made.Rows, made.Columns = rows, columns
    return made


def empty() -> FileDataset:
    made = dataset(chest(), 12)
    made.PixelData = b""
    return made


BAD_DICOM = {
    "DICOM without pixel data": lambda: without("PixelData"),
    "without pixel data, or cut": float_pixels,
    "incomplete DICOM header": lambda: without("Rows"),
    "DICOM with 2 frames": many_frames,
    "blank image": lambda: dataset(np.full((20, 20), 9, np.uint16), 12),
    "is not supported": video,
    "not plausible": lambda: of_size(65535, 65535),  # which takes no memory
    "palette absent or damaged": lambda: dataset(chest(bits=8), 8, "PALETTE COLOR"),
    # A header that is too small would cut or shear the image.
    "pixel data are longer than 59 x 48 pixels": lambda: of_size(59, 48),
    "pixel data are longer than 60 x 47 pixels": lambda: of_size(60, 47),
    "pixel data are longer than 20 x 20 pixels": lambda: of_size(20, 20),
    "empty pixel data": empty,
}


def refusal(folder: Path, source: FileDataset | bytes, name: str = "image.dcm") -> str:
    """Why a file is not decoded, in a line."""
    path = folder / name
    path.write_bytes(source) if isinstance(source, bytes) else save(source, path)
    with pytest.raises(DecodeError) as error:
        decode(path)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("reason", BAD_DICOM)
def test_unusable_dicom(tmp_path: Path, reason: str) -> None:
    assert reason in refusal(tmp_path, BAD_DICOM[reason]())


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3, 0.5, 0.8, 0.99])
@pytest.mark.parametrize("syntax", LOSSLESS)
def test_truncated_dicom(tmp_path: Path, syntax: str, share: float) -> None:
    whole = written(tmp_path, chest(), 12, syntax).read_bytes()
    assert refusal(tmp_path, whole[: int(share * len(whole))])


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
def test_truncated_pictures(tmp_path: Path, kind: str, share: float) -> None:
    stream = io.BytesIO()
    Image.fromarray(chest(200, 200, bits=8)).save(stream, kind)
    content = stream.getvalue()[: int(share * len(stream.getvalue()))]
    assert "damaged image file" in refusal(tmp_path, content)


def test_other_files(tmp_path: Path) -> None:
    assert "empty file" in refusal(tmp_path, b"", "image.bin")
    assert "not a DICOM" in refusal(tmp_path, b"<html>sign in</html>" * 20, "image.bin")
    assert refusal(tmp_path, RNG.bytes(4000))
    with pytest.raises(DecodeError, match="file not found"):
        decode(tmp_path / "absent.dcm")
    with pytest.raises(DecodeError, match="cannot be read"):
        decode(tmp_path)


@pytest.mark.parametrize("syntax", ["1.2.840.113619.5.2", "1.2.840.10008.1.20", "9", "x.y"])
def test_no_transfer_syntax_stops_more_than_its_file(tmp_path: Path, syntax: str) -> None:
    """A vendor's own, one that is not of pixels, and names of none."""
    whole = save(dataset(chest(), 12), tmp_path / "whole.dcm").read_bytes()
    name = b"1.2.840.10008.1.2.1\0"
    content = whole.replace(name, syntax.encode().ljust(len(name), b"\0"))
    assert re.search("transfer syntax .* is not supported", refusal(tmp_path, content))


@pytest.mark.parametrize("keyword", ["Rows", "Columns", "SamplesPerPixel"])
@pytest.mark.parametrize(
    "syntax", ["JPEGLSLossless", "JPEGLosslessProcess14_1", "jpeg 2000 lossless"]
)
def test_compressed_pixels_of_another_size_never_reach_a_decoder(tmp_path, syntax, keyword):
    """The decoder of JPEG-LS ends the process over these."""
    made = pydicom.dcmread(written(tmp_path, chest(), 12, syntax))
    for other in (getattr(made, keyword) + 2, 3):
        setattr(made, keyword, other)
        reason = refusal(tmp_path, made)
        assert re.search("compressed pixels are 60 x 48 x 1 of 1[26] bits", reason)


def test_no_header_of_a_compressed_image(tmp_path: Path) -> None:
    for content in (
        b"\0\0\0\x0cjP  " + b"\0" * 40,
        b"\xff\xd8\xff",
        b"\xff\x4f\xff\x51\0",
        b"\0\0",
    ):
        made = pydicom.dcmread(written(tmp_path, chest(), 12, "jpeg 2000 lossless"))
        made.PixelData = encapsulate([content])
        assert "pixel data damaged or cut off" in refusal(tmp_path, made)


def test_zeros_behind_the_pixels_are_no_pixels(tmp_path: Path) -> None:
    pixels = chest()
    made = dataset(pixels, 12)
    made.PixelData = made.PixelData + bytes(4 * 2 * 48)
    np.testing.assert_array_equal(decode(save(made, tmp_path / "image.dcm")).values, pixels)


def test_empty_pixel_data(tmp_path: Path) -> None:
    whole = written(tmp_path, chest(), 12, "jpeg 2000 lossless").read_bytes()
    at = whole.rindex(b"\xe0\x7f\x10\x00O") + 8
    assert "empty pixel data" in refusal(tmp_path, whole[:at] + b"\0\0\0\0")


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
