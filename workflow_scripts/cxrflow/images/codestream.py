"""The size in the header of a compressed image: JPEG, JPEG-LS, JPEG 2000, without a decoder.

A decoder takes its memory by this header and writes into room that was measured by the DICOM
header; where the two disagree some crash, so that is found out before (ITU-T T.81 B.2.2 and T.87
C.2.2 for the frame header of JPEG and JPEG-LS, T.800 A.5.1 for the SIZ segment of JPEG 2000).
"""

import struct
from typing import NamedTuple

_SIZ = b"\xff\x4f\xff\x51"
_START_OF_FRAME = {*range(0xC0, 0xD0), 0xF7} - {0xC4, 0xC8, 0xCC}  # 0xF7: JPEG-LS
_WITHOUT_LENGTH = {0x01, *range(0xD0, 0xD9)}

#: More tiles than a JPEG 2000 stream can number.
MOST_TILES = 65_535


class Stated(NamedTuple):
    """The size of an image as its own header has it."""

    rows: int
    columns: int
    samples: int
    bits: int
    signed: bool = False


def stated(stream: bytes) -> Stated | None:
    """Read the header of ``stream``; None where it has none that could be decoded."""
    try:
        if stream.startswith(b"\xff\xd8"):
            return _jpeg(stream)
        at = _behind_boxes(stream)
        return _jpeg_2000(stream, at + len(_SIZ)) if stream.startswith(_SIZ, at) else None
    except (struct.error, IndexError):  # cut off
        return None


def _jpeg(stream: bytes) -> Stated | None:
    at = 2
    while True:
        if stream[at] != 0xFF:
            return None
        marker = stream[at + 1]
        if marker == 0xFF:  # fill
            at += 1
        elif marker in _START_OF_FRAME:
            bits, rows, columns, samples = struct.unpack_from(">BHHB", stream, at + 4)
            return Stated(rows, columns, samples, bits)
        elif marker in _WITHOUT_LENGTH:
            at += 2
        else:
            (length,) = struct.unpack_from(">H", stream, at + 2)
            at += 2 + length


def _behind_boxes(stream: bytes) -> int:
    """Where the codestream begins: some files have the boxes of JP2 before it (T.800 I.4)."""
    at = 0
    while stream.startswith(b"\0\0\0\x0cjP  ") and at < len(stream):
        (length,) = struct.unpack_from(">I", stream, at)
        if stream.startswith(b"jp2c", at + 4):
            return at + 8
        at += length
        if length < 8:  # pydicom would not come past it either
            return len(stream)
    return at


def _jpeg_2000(stream: bytes, at: int) -> Stated | None:
    width, height, left, top, tile_width, tile_height, tile_left, tile_top, samples, bits = (
        struct.unpack_from(">8IHB", stream, at + 4)
    )
    if not tile_width or not tile_height:
        return None
    tiles = -(-(width - tile_left) // tile_width) * -(-(height - tile_top) // tile_height)
    if not 1 <= tiles <= MOST_TILES:
        return None
    return Stated(height - top, width - left, samples, (bits & 0x7F) + 1, bool(bits & 0x80))
