"""One shard of a pixel store: its plan, making it, and telling whether it is whole.

A shard is a NumPy file uint8 [rows, S, S] and, beside it, a record (JSON) with its checksum, its
rows, its failures and a fingerprint of everything that it was made from. The record is written
last: a shard without a matching record, or whose bytes do not match it, is made again.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxrflow.errors import InputError
from cxrflow.files import atomic_path, file_digest, fingerprint, read_json, write_json
from cxrflow.images.decode import decode
from cxrflow.images.decoded import Decoded, DecodeError, from_array
from cxrflow.images.geometry import Geometry
from cxrflow.images.settings import PixelSettings

#: Raised by one whenever the same file would be stored as other bytes: old shards are made anew.
FORMAT_VERSION = 2

#: Images a process is given at once: few enough for steady progress, enough to be cheap to send.
BLOCK = 32


@dataclass(frozen=True)
class Source:
    """An image to store."""

    image_id: str
    path: str  # relative to the data set's root


@dataclass(frozen=True)
class Stored:
    """A row of the index, but for shard and row."""

    image_id: str
    path: str
    original_height: int
    original_width: int
    photometric: str
    bits: int
    decoder: str
    sha256: str  # of the stored pixels


@dataclass(frozen=True)
class Failure:
    """An image that is not in the store."""

    image_id: str
    path: str
    reason: str


@dataclass(frozen=True)
class Block:
    """What a process gives back for some images: pixels uint8 [len(stored), S, S]."""

    pixels: NDArray[np.uint8]
    stored: list[Stored]
    failures: list[Failure]


def store_block(
    root: Path, sources: Sequence[Source], geometry: Geometry, settings: PixelSettings
) -> Block:
    """Decode, resize and crop ``sources``; what cannot be used is a failure, never an exception."""
    images, stored, failures = [], [], []
    for source in sources:
        try:
            image, row = store_image(root, source, geometry, settings)
        except DecodeError as error:
            failures.append(Failure(source.image_id, source.path, str(error)))
        else:
            images.append(image)
            stored.append(row)
    pixels = np.stack(images) if images else np.empty((0, geometry.size, geometry.size), np.uint8)
    return Block(pixels, stored, failures)


def store_image(
    root: Path, source: Source, geometry: Geometry, settings: PixelSettings
) -> tuple[NDArray[np.uint8], Stored]:
    """One image as the store keeps it, uint8 [S, S], and its row of the index."""
    decoded = decode(root / source.path)
    height, width = decoded.values.shape
    image = stored_pixels(decoded, geometry, settings)
    digest = hashlib.sha256(image.tobytes()).hexdigest()
    row = Stored(
        source.image_id,
        source.path,
        height,
        width,
        decoded.photometric,
        decoded.bits,
        decoded.decoder,
        digest,
    )
    return image, row


def stored_pixels(
    decoded: Decoded, geometry: Geometry, settings: PixelSettings
) -> NDArray[np.uint8]:
    """What a store of this geometry keeps of an image: uint8 [S, S]; padding is 0."""
    height, width = decoded.values.shape
    if min(height, width) < settings.min_side:
        raise DecodeError(
            f"image of {height} x {width} pixels is below min_side {settings.min_side}"
        )
    resized, inside = geometry.place(height, width).apply(decoded.values)
    image = decoded.to_bytes(resized)
    image[~inside] = 0
    return image


def read_image(
    image: str | Path | NDArray[Any], settings: PixelSettings, *geometries: Geometry
) -> tuple[tuple[int, int], list[NDArray[np.uint8]]]:
    """Height and width of a radiograph, and what stores of these geometries would keep of it.

    ``image`` is a file, or grey values [H, W] of any scale that are bright where the body is dense.

    Raises:
        InputError: it cannot be used.
    """
    path = "an array" if isinstance(image, np.ndarray) else image
    try:
        decoded = from_array(image) if isinstance(image, np.ndarray) else decode(image)
        stored = [stored_pixels(decoded, geometry, settings) for geometry in geometries]
    except DecodeError as error:
        raise InputError(
            f"{path}: {error}; expected a radiograph as a DICOM, PNG or JPEG file, or as an array"
        ) from None
    height, width = decoded.values.shape
    return (height, width), stored


def shard_name(number: int) -> str:
    """``shard-00000.npy``."""
    return f"shard-{number:05d}.npy"


def record_path(folder: Path, number: int) -> Path:
    """The record of a shard: ``shard-00000.json``."""
    return folder / f"shard-{number:05d}.json"


def plan_fingerprint(
    root: Path, sources: Sequence[Source], geometry: Geometry, settings: PixelSettings
) -> str:
    """A hash of all that decides a shard's bytes: files with size and time, geometry, settings."""
    files: list[list[str | int | None]] = []
    for source in sources:
        try:
            status = (root / source.path).stat()
        except OSError:
            files.append([source.image_id, source.path, None, None])
        else:
            files.append([source.image_id, source.path, status.st_size, status.st_mtime_ns])
    # Format 2 named the rule of grey values, of which there is one left: old shards stay whole.
    content = {"intensity": "minmax", "percentiles": (1.0, 99.0), "min_side": settings.min_side}
    return fingerprint([FORMAT_VERSION, str(geometry), content, files])


def write_shard(folder: Path, number: int, plan: str, blocks: Sequence[Block]) -> dict[str, Any]:
    """Write shard and record from its blocks in order; returns the record."""
    count = sum(len(block.pixels) for block in blocks)
    size = blocks[0].pixels.shape[1]
    with atomic_path(folder / shard_name(number)) as temporary, open(temporary, "wb") as handle:
        header = {"descr": "|u1", "fortran_order": False, "shape": (count, size, size)}
        np.lib.format.write_array_header_1_0(handle, header)
        # Plain writes: numpy's own tofile hides the reason when a disk is full.
        for block in blocks:
            handle.write(np.ascontiguousarray(block.pixels).data)
        length = handle.tell()
    record = {
        "plan": plan,
        "file": shard_name(number),
        "bytes": length,
        "sha256": file_digest(folder / shard_name(number)),
        "rows": [asdict(row) for block in blocks for row in block.stored],
        "failures": [asdict(failure) for block in blocks for failure in block.failures],
    }
    write_json(record_path(folder, number), record)
    return record


def read_whole_shard(folder: Path, number: int, plan: str) -> dict[str, Any] | None:
    """The record of a shard that is complete and was made from ``plan``, else None."""
    path = folder / shard_name(number)
    try:
        record = read_json(record_path(folder, number))
        whole = (
            record["plan"] == plan
            and path.stat().st_size == record["bytes"]
            and file_digest(path) == record["sha256"]
        )
    except (InputError, OSError, KeyError, TypeError, json.JSONDecodeError):
        return None
    return record if whole else None
