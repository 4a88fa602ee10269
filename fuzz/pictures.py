"""PNG and JPEG files: sound ones of every mode, damaged, and headers that promise too much."""

import io
import struct
import zlib
from pathlib import Path
from random import Random

import numpy as np
from PIL import Image

from fuzz import images
from fuzz.mutations import damaged
from fuzz.trial import Trial

COUNT = 1000
_MODES = {
    "PNG": ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"),
    "JPEG": ("L", "RGB", "CMYK"),
}


def run(trial: Trial, work: Path) -> None:
    """Through the pixel store, as one of a data set."""
    images.store(trial, work, draw)


def draw(random: Random, path: Path) -> Path:
    """Write a picture; its name is not always its kind's."""
    content = sound(random)
    if random.random() < 0.15:
        content = too_large(random, content)
    elif random.random() < 0.95:
        content = damaged(random, content)
    path = path.with_suffix(random.choice((".png", ".jpg", ".jpeg", ".dcm", ".tif")))
    path.write_bytes(content)
    return path


def sound(random: Random) -> bytes:
    """A picture as it should be."""
    kind = random.choice(list(_MODES))
    mode = random.choice(_MODES[kind])
    height, width = random.choice(((17, 40), (64, 64), (200, 160)))
    draws = np.random.default_rng(random.randrange(2**32))
    if mode == "I;16":
        image = Image.fromarray(draws.integers(0, 2**16, (height, width), dtype=np.uint16))
    else:
        colour = draws.integers(0, 256, (height, width, 3), dtype=np.uint8)
        image = Image.fromarray(colour).convert("RGB" if mode == "LA" else mode)
        image = image.convert(mode)
    stream = io.BytesIO()
    # Progressive JPEG and interlaced or many-chunked PNG have code of their own.
    image.save(stream, kind, progressive=random.random() < 0.5, optimize=random.random() < 0.5)
    return stream.getvalue()


def too_large(random: Random, content: bytes) -> bytes:
    """A small file of which much would have to be unpacked."""
    side = random.choice((8_000, 11_000, 30_000, 65_000))
    if random.random() < 0.3:  # what it says is what it holds
        stream = io.BytesIO()
        mode = random.choice(("1", "L", "P", "CMYK", "RGB"))
        side = 6_000 if mode in ("CMYK", "RGB") else 11_000
        image = Image.new(mode, (side, side))
        image.putpixel((3, 3), 255 if len(mode) == 1 else (255,) * len(mode))
        image.save(stream, "JPEG" if mode == "CMYK" else "PNG")
        return stream.getvalue()
    if content.startswith(b"\x89PNG"):
        header = struct.pack(">II", side, side) + content[24:29]
        check = zlib.crc32(b"IHDR" + header)
        return content[:16] + header + struct.pack(">I", check) + content[33:]
    for marker in (b"\xff\xc0", b"\xff\xc2"):
        at = content.find(marker)
        if at > 0:
            return content[: at + 5] + struct.pack(">HH", side, side) + content[at + 9 :]
    return content
