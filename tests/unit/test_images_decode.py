"""Decoding: every transfer syntax against the pixels that were written and an independent reader,
the photometric rules, and every kind of file that cannot be used."""

import io
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pydicom
import pytest
from numpy.typing import NDArray
from PIL import Image
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.encaps import encapsulate
from pydicom.uid import (
    UID,
    DeflatedExplicitVRLittleEndian,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    JPEG2000Lossless,
    JPEGBaseline8Bit,
    RLELossless,
    generate_uid,
)

from cxrflow.images.decode import decode
from cxrflow.images.decoded import DecodeError, luminance

RNG = np.random.default_rng(7)


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


LOSSLESS = [
    "explicit",
    "implicit",
    "deflated",
    "big endian",
    "rle",
    "jpeg 2000 lossless",
    "JPEGLosslessProcess14_1",
    "JPEGLosslessProcess14",
    "JPEGLSLossless",
]


@pytest.mark.parametrize("bits", [8, 10, 12, 14, 16])
@pytest.mark.parametrize("syntax", LOSSLESS)
def test_lossless_syntaxes_give_the_written_pixels(tmp_path: Path, syntax: str, bits: int) -> None:
    pixels = chest(bits=bits)
    path = written(tmp_path, pixels, bits, syntax)
    decoded = decode(path)
    np.testing.assert_array_equal(decoded.values, pixels)
    assert (decoded.photometric, decoded.bits) == ("MONOCHROME2", bits)
    assert decoded.decoder.split()[0] in ("pydicom", "gdcm", "pylibjpeg")
    sitk = pytest.importorskip("SimpleITK")
    other = sitk.GetArrayFromImage(sitk.ReadImage(str(path)))[0]
    np.testing.assert_array_equal(decoded.values, other)


def test_the_decoder_of_a_syntax_is_fixed(tmp_path: Path) -> None:
    names = {
        syntax: decode(written(tmp_path, chest(), 12, syntax)).decoder.split()[0]
        for syntax in LOSSLESS
    }
    assert names == {
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


def test_jpeg_baseline_as_rsna_has_it(tmp_path: Path) -> None:
    pixels = chest(64, 64, bits=8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "JPEG", quality=95)
    made = dataset(pixels, 8)
    made.file_meta.TransferSyntaxUID = JPEGBaseline8Bit
    made.PixelData = encapsulate([stream.getvalue()])
    made["PixelData"].is_undefined_length = True
    decoded = decode(save(made, tmp_path / "image.dcm"))
    reference = np.asarray(Image.open(stream)).astype(int)
    assert np.abs(decoded.values.astype(int) - reference).max() <= 1
    assert decoded.decoder.startswith("gdcm")


def test_monochrome1_is_inverted_once(tmp_path: Path) -> None:
    pixels = chest()
    plain = decode(save(dataset(pixels, 12), tmp_path / "two.dcm"))
    turned = decode(save(dataset(pixels, 12, "MONOCHROME1"), tmp_path / "one.dcm"))
    assert turned.photometric == "MONOCHROME1"
    np.testing.assert_array_equal(turned.values, int(pixels.max()) - pixels.astype(int))
    opposite = 255 - plain.to_bytes(plain.values).astype(int)
    np.testing.assert_allclose(turned.to_bytes(turned.values), opposite, atol=1)
    # ITK turns MONOCHROME1 over by itself: an independent opinion on which side is bright.
    sitk = pytest.importorskip("SimpleITK")
    other = sitk.GetArrayFromImage(sitk.ReadImage(str(tmp_path / "one.dcm")))[0].astype(float)
    assert np.corrcoef(other.ravel(), turned.values.ravel())[0, 1] > 0.999


def test_signed_values(tmp_path: Path) -> None:
    pixels = chest().astype(np.int16) - 2000
    decoded = decode(save(dataset(pixels, 16), tmp_path / "image.dcm"))
    np.testing.assert_array_equal(decoded.values, pixels)
    stretched = decoded.to_bytes(decoded.values)
    low, high = int(pixels.min()), int(pixels.max())
    expected = np.rint((pixels.astype(np.float64) - low) / (high - low) * 255)
    np.testing.assert_allclose(stretched, expected, atol=1)
    assert (stretched == expected).mean() > 0.99 and (stretched.min(), stretched.max()) == (0, 255)


def test_unused_high_bits_are_ignored(tmp_path: Path) -> None:
    pixels = chest(bits=12)
    dirty = pixels | np.uint16(0x3000)
    np.testing.assert_array_equal(
        decode(save(dataset(dirty, 12), tmp_path / "image.dcm")).values, pixels
    )


@pytest.mark.parametrize("photometric", ["MONOCHROME1", "MONOCHROME2"])
@pytest.mark.parametrize("stored", [8, 7, 16, 15, 12])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("shape", [(60, 48), (31, 17)])
def test_uncompressed_values_are_those_of_pydicom(
    tmp_path: Path, shape: tuple[int, int], signed: bool, stored: int, photometric: str
) -> None:
    """Every value of the type, so that unused bits are set and signs are carried; or none is."""
    name = f"{'' if signed else 'u'}int{8 if stored <= 8 else 16}"
    info = np.iinfo(name)
    for reach in (info, np.iinfo("int8") if signed else np.iinfo("uint8")):
        low, high = (reach.min, reach.max) if stored > 8 else (reach.min // 2, reach.max // 2)
        pixels = RNG.integers(low, high + 1, shape).astype(name)
        path = save(dataset(pixels, stored, photometric), tmp_path / "image.dcm")
        expected = pydicom.dcmread(path).pixel_array.astype(np.int64)
        if photometric == "MONOCHROME1":
            expected = expected.max() - expected
        np.testing.assert_array_equal(decode(path).values, expected)


def test_colour_dicom_becomes_luminance(tmp_path: Path) -> None:
    colour = RNG.integers(0, 256, (40, 30, 3), dtype=np.uint8)
    decoded = decode(save(dataset(colour, 8, "RGB"), tmp_path / "image.dcm"))
    expected = np.asarray(Image.fromarray(colour).convert("L"))
    np.testing.assert_array_equal(decoded.values, expected)
    assert decoded.photometric == "RGB"


def test_palette_dicom(tmp_path: Path) -> None:
    indices = RNG.integers(0, 256, (40, 30), dtype=np.uint8)
    made = dataset(indices, 8, "PALETTE COLOR")
    table = RNG.integers(0, 256, (3, 256), dtype=np.uint8)
    for name, row in zip(("Red", "Green", "Blue"), table, strict=True):
        setattr(made, f"{name}PaletteColorLookupTableDescriptor", [256, 0, 8])
        setattr(made, f"{name}PaletteColorLookupTableData", row.tobytes())
    decoded = decode(save(made, tmp_path / "image.dcm"))
    np.testing.assert_array_equal(decoded.values, luminance(table.T[indices]))


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "LA", "P", "1", "I;16"])
def test_png_modes(tmp_path: Path, mode: str) -> None:
    grey = chest(bits=16 if mode == "I;16" else 8)
    path = tmp_path / "image.png"
    image = Image.fromarray(grey)
    if mode != "I;16":
        image = image.convert(mode)
    image.save(path)
    decoded = decode(path)
    expected = np.asarray(image.convert("L")) if mode == "1" else grey
    np.testing.assert_array_equal(decoded.values, expected)
    assert decoded.decoder.startswith("pillow") and decoded.decoder.endswith("png")


def test_jpeg_colour_and_grey(tmp_path: Path) -> None:
    grey = chest(bits=8)
    colour = np.stack([grey, grey // 2, 255 - grey], axis=2)
    for name, array in (("grey", grey), ("colour", colour)):
        path = tmp_path / f"{name}.jpg"
        Image.fromarray(array).save(path, quality=95)
        expected = np.asarray(Image.open(path).convert("L"))
        np.testing.assert_array_equal(decode(path).values, expected)


def test_the_content_decides_not_the_name(tmp_path: Path) -> None:
    path = tmp_path / "image.dcm"
    Image.fromarray(chest(bits=8)).save(path, "PNG")
    assert decode(path).decoder.endswith("png")
    nameless = save(dataset(chest(), 12), tmp_path / "image")
    assert decode(nameless).photometric == "MONOCHROME2"


def test_dicom_without_preamble(tmp_path: Path) -> None:
    whole = save(dataset(chest(), 12), tmp_path / "whole.dcm").read_bytes()
    bare = tmp_path / "bare.dcm"
    bare.write_bytes(whole[132:])
    np.testing.assert_array_equal(decode(bare).values, decode(tmp_path / "whole.dcm").values)


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


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("photometric", ["MONOCHROME1", "MONOCHROME2"])
def test_values_of_32_bits(tmp_path: Path, signed: bool, photometric: str) -> None:
    info = np.iinfo("int32" if signed else "uint32")
    pixels = RNG.integers(info.min, info.max, (30, 20), endpoint=True).astype(info.dtype)
    pixels.flat[:2] = info.min, info.max
    decoded = decode(save(dataset(pixels, 32, photometric), tmp_path / "image.dcm"))
    wide = pixels.astype(np.int64)
    expected = info.max - wide if photometric == "MONOCHROME1" else wide
    np.testing.assert_array_equal(decoded.values, expected)


@pytest.mark.parametrize("photometric", ["MONOCHROME1", "MONOCHROME2"])
def test_a_negative_slope_turns_the_values_over(tmp_path: Path, photometric: str) -> None:
    made = dataset(chest(), 12, photometric)
    made.RescaleSlope, made.RescaleIntercept = "-1", "4095"
    values = decode(save(made, tmp_path / "image.dcm")).values.astype(int)
    pixels = chest_of(made)
    bright = pixels if photometric == "MONOCHROME1" else pixels.max() - pixels
    np.testing.assert_array_equal(values, bright)


def chest_of(made: FileDataset) -> NDArray:
    return np.frombuffer(made.PixelData, "<u2").reshape(made.Rows, made.Columns).astype(int)


@pytest.mark.parametrize("syntax", [ExplicitVRLittleEndian, ImplicitVRLittleEndian])
@pytest.mark.parametrize("photometric", ["MONOCHROME1", "MONOCHROME2"])
@pytest.mark.parametrize(("padding", "limit"), [(-2000, None), (-2000, -1999), (3000, None)])
def test_padding_takes_no_grey_value_and_is_dark(
    tmp_path: Path, syntax: UID, photometric: str, padding: int, limit: int | None
) -> None:
    pixels = chest(bits=10).astype(np.int16) - 100
    padded = pixels.copy()
    padded[:9] = padding
    padded[9] = padding if limit is None else limit
    made = dataset(padded, 16, photometric)
    made.add_new("PixelPaddingValue", "SS", padding)
    if limit is not None:
        made.add_new("PixelPaddingRangeLimit", "SS", limit)
    made.file_meta.TransferSyntaxUID = syntax
    values = decode(save(made, tmp_path / "image.dcm")).values.astype(int)
    measured = pixels[10:].astype(int)
    measured = measured.max() - measured if photometric == "MONOCHROME1" else measured
    np.testing.assert_array_equal(values[10:], measured)
    assert (values[:10] == measured.min()).all()


def test_a_padding_value_that_no_pixel_has_changes_nothing(tmp_path: Path) -> None:
    made = dataset(chest(), 12)
    plain = decode(save(made, tmp_path / "image.dcm")).values
    made.add_new("PixelPaddingValue", "US", 65535)
    np.testing.assert_array_equal(decode(save(made, tmp_path / "image.dcm")).values, plain)


def test_jpeg_extended_of_12_bits(tmp_path: Path) -> None:
    pixels = chest()
    decoded = decode(written(tmp_path, pixels, 12, "JPEGExtendedProcess2_4"))
    assert np.abs(decoded.values.astype(int) - pixels).max() <= 2
    assert (decoded.bits, decoded.decoder.split()[0]) == (12, "gdcm")


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
