"""Decoding: every transfer syntax against the pixels that were written and an independent reader,
and the photometric rules."""

import io
from pathlib import Path

import numpy as np
import pydicom
import pytest
from dicom_files import (
    LOSSLESS,
    RNG,
    chest,
    compressed,
    dataset,
    save,
    write_crashing_dicom,
    written,
)
from PIL import Image
from pydicom.uid import (
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    JPEGBaseline8Bit,
)

from cxr_files.errors import InputError
from cxrflow.images.decode import decode
from cxrflow.images.decoded import DecodeError, luminance
from cxrflow.images.geometry import Geometry
from cxrflow.images.settings import PixelSettings
from cxrflow.images.shards import Source, read_images, store_image


@pytest.mark.parametrize("bits", [8, 10, 12, 14, 16])
@pytest.mark.parametrize("syntax", LOSSLESS)
def test_lossless_syntaxes_give_the_written_pixels(tmp_path: Path, syntax: str, bits: int) -> None:
    pixels = chest(bits=bits)
    path = written(tmp_path, pixels, bits, syntax)
    decoded = decode(path)
    np.testing.assert_array_equal(decoded.values, pixels)
    assert (decoded.photometric, decoded.bits) == ("MONOCHROME2", bits)
    assert decoded.decoder.split()[0] == LOSSLESS[syntax]
    sitk = pytest.importorskip("SimpleITK")
    other = sitk.GetArrayFromImage(sitk.ReadImage(str(path)))[0]
    np.testing.assert_array_equal(decoded.values, other)


def test_jpeg_baseline_as_rsna_has_it(tmp_path: Path) -> None:
    pixels = chest(64, 64, bits=8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "JPEG", quality=95)
    made = compressed(dataset(pixels, 8), JPEGBaseline8Bit, stream.getvalue())
    decoded = decode(save(made, tmp_path / "image.dcm"))
    reference = np.asarray(Image.open(stream)).astype(int)
    assert np.abs(decoded.values.astype(int) - reference).max() <= 1
    assert decoded.decoder.startswith("gdcm")


@pytest.mark.parametrize(
    ("photometric", "shape", "slope", "turned"),
    [
        ("MONOCHROME2", "IDENTITY", 1, False),
        ("MONOCHROME2", "INVERSE", 1, True),
        ("MONOCHROME2", "INVERSE", -1, False),
        ("MONOCHROME1", "INVERSE", 1, True),
        ("MONOCHROME1", "IDENTITY", 1, True),
        ("MONOCHROME2", None, 1, False),
    ],
)
def test_an_inverse_presentation_turns_the_values_over(tmp_path, photometric, shape, slope, turned):
    """MONOCHROME1 should say INVERSE too (PS3.3 C.8.11.1), and is turned over once all the same."""
    pixels = chest()
    made = dataset(pixels, 12, photometric)
    made.PresentationLUTShape, made.RescaleSlope = shape, slope
    decoded = decode(save(made, tmp_path / "image.dcm"))
    expected = int(pixels.max()) - pixels.astype(int) if turned else pixels
    np.testing.assert_array_equal(decoded.values, expected)
    both = photometric == "MONOCHROME2" and shape == "INVERSE"
    assert decoded.photometric == photometric + ", INVERSE" * both


@pytest.mark.parametrize("implicit", [True, False])
def test_a_file_that_names_no_transfer_syntax(tmp_path: Path, implicit: bool) -> None:
    """As some archives cut files: a data set alone, without preamble and description."""
    pixels = chest()
    made = dataset(pixels, 12)
    path = tmp_path / "image.dcm"
    pydicom.dcmwrite(path, made, implicit_vr=implicit, little_endian=True, force_encoding=True)
    content = path.read_bytes()
    group8 = content.index(b"\x08\x00\x16\x00")
    path.write_bytes(content[group8:])
    assert b"DICM" not in path.read_bytes()
    np.testing.assert_array_equal(decode(path).values, pixels)
    # Bits that pydicom's decoder has to clear: it too must know the syntax.
    made.BitsStored, made.HighBit = 8, 7
    pydicom.dcmwrite(path, made, implicit_vr=implicit, little_endian=True, force_encoding=True)
    path.write_bytes(path.read_bytes()[group8:])
    np.testing.assert_array_equal(decode(path).values, pixels & 0xFF)


def test_a_blank_transfer_syntax_is_none(tmp_path: Path) -> None:
    pixels, name = chest(), b"1.2.840.10008.1.2.1\0"
    path = save(dataset(pixels, 12), tmp_path / "image.dcm")
    path.write_bytes(path.read_bytes().replace(name, bytes(len(name))))
    np.testing.assert_array_equal(decode(path).values, pixels)


def test_compressed_pixels_of_no_named_syntax_are_one_reason(tmp_path: Path) -> None:
    stream = io.BytesIO()
    Image.fromarray(chest(bits=8)).save(stream, "JPEG")
    path = save(
        compressed(dataset(chest(bits=8), 8), JPEGBaseline8Bit, stream.getvalue()),
        tmp_path / "image.dcm",
    )
    content = path.read_bytes()
    path.write_bytes(content[content.index(b"\x08\x00\x16\x00") :])
    with pytest.raises(DecodeError, match="^no transfer syntax is named, and the pixels are comp"):
        decode(path)


@pytest.mark.parametrize("orientation", range(1, 10))
@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_a_phones_picture_is_turned_upright_if_asked(tmp_path, kind, orientation):
    """The nine is none that EXIF knows."""
    pixels = chest(40, 60, bits=8)
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / "image"
    Image.fromarray(pixels).save(path, kind, exif=exif)
    stored, upright = decode(path), decode(path, upright=True)
    turns = {3: (2, 0), 6: (-1, 0), 8: (1, 0), 2: (0, 1), 4: (2, 1), 5: (-1, 1), 7: (1, 1)}
    quarters, mirrored = turns.get(orientation, (0, 0))
    expected = np.rot90(stored.values, quarters)
    np.testing.assert_array_equal(upright.values, np.fliplr(expected) if mirrored else expected)
    assert stored.values.shape == (40, 60)
    assert ("turned by EXIF" in upright.decoder) == (orientation in turns)


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
    decoded = decode(save(dataset(dirty, 12), tmp_path / "image.dcm"))
    np.testing.assert_array_equal(decoded.values, pixels)


@pytest.mark.parametrize("photometric", ["MONOCHROME1", "MONOCHROME2"])
@pytest.mark.parametrize("stored", [8, 7, 16, 15, 12])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("shape", [(60, 48), (31, 17)])
def test_uncompressed_values_are_those_of_pydicom(tmp_path, shape, signed, stored, photometric):
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
    pixels = np.frombuffer(made.PixelData, "<u2").reshape(made.Rows, made.Columns).astype(int)
    bright = pixels if photometric == "MONOCHROME1" else pixels.max() - pixels
    np.testing.assert_array_equal(values, bright)


@pytest.mark.parametrize("syntax", [ExplicitVRLittleEndian, ImplicitVRLittleEndian])
@pytest.mark.parametrize("photometric", ["MONOCHROME1", "MONOCHROME2"])
@pytest.mark.parametrize(("padding", "limit"), [(-2000, None), (-2000, -1999), (3000, None)])
def test_padding_takes_no_grey_value_and_is_dark(tmp_path, syntax, photometric, padding, limit):
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


@pytest.mark.parametrize(("value", "limit"), [(65535, None), (None, None), (None, 3), (65535, "")])
def test_a_padding_value_that_no_pixel_has_or_that_is_empty_changes_nothing(tmp_path, value, limit):
    made = dataset(chest(), 12)
    plain = decode(save(made, tmp_path / "image.dcm")).values
    made.add_new("PixelPaddingValue", "US", value)
    if limit is not None:
        made.add_new("PixelPaddingRangeLimit", "US", limit or None)
    np.testing.assert_array_equal(decode(save(made, tmp_path / "image.dcm")).values, plain)


def test_values_that_do_not_end_at_the_lowest_bit_are_refused(tmp_path: Path) -> None:
    """Of 12 bits in the upper part of 16, as older standards allowed, the lower 12 are read."""
    made = dataset(chest() << 4, 12)
    made.HighBit = 15
    with pytest.raises(DecodeError, match="HighBit is 15, expected BitsStored - 1 = 11"):
        decode(save(made, tmp_path / "image.dcm"))


def test_jpeg_extended_of_12_bits(tmp_path: Path) -> None:
    pixels = chest()
    decoded = decode(written(tmp_path, pixels, 12, "JPEGExtendedProcess2_4"))
    assert np.abs(decoded.values.astype(int) - pixels).max() <= 2
    assert (decoded.bits, decoded.decoder.split()[0]) == (12, "gdcm")


def test_a_decoder_that_crashes_leaves_who_reads_one_picture(tmp_path: Path) -> None:
    """Where there is no store: in a script, a notebook, `cxrflow ground` and `draft`."""
    crashing, sound = tmp_path / "crash.dcm", tmp_path / "sound.png"
    Image.fromarray(chest(41, 40, bits=8)).save(sound)
    write_crashing_dicom(crashing)
    geometry = Geometry.parse("square16")
    with pytest.raises(InputError, match=r"crash.dcm: its decoder crashed .SIGABRT.; expected a"):
        read_images([sound, crashing], PixelSettings(), geometry)
    stream = io.BytesIO()
    Image.fromarray(chest(40, 60, bits=8)).save(stream, "JPEG")
    made = compressed(dataset(chest(40, 60, bits=8), 8), JPEGBaseline8Bit, stream.getvalue())
    path = save(made, tmp_path / "sound.dcm")
    array = np.arange(600.0).reshape(20, 30)
    read = read_images([path, array, sound, path], PixelSettings(), geometry)
    assert [size for size, _ in read] == [(40, 60), (20, 30), read[2][0], (40, 60)]
    expected, _ = store_image(tmp_path, Source("x", path.name), geometry, PixelSettings())
    np.testing.assert_array_equal(read[0][1][0], expected)
