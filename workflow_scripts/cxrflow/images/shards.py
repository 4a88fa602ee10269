"""One shard of a pixel store: its plan, making it, and telling whether it is whole.

A shard is a NumPy file uint8 [rows, S, S] and, beside it, a record (JSON) with its checksum, its
rows, its failures and a fingerprint of everything that it was made from. The record is written
last: a shard without a matching record, or whose bytes do not match it, is made again.
"""

import contextlib
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxr_files.atomic import atomic_path, file_digest, fingerprint, read_json, write_json
from cxr_files.errors import InputError
from cxr_files.parallel import guarded_map
from cxr_files.reading import OutsideError, below
from cxrflow.images.decode import decode, needs_compiled_decoder
from cxrflow.images.decoded import Decoded, DecodeError, from_array
from cxrflow.images.geometry import Geometry
from cxrflow.images.settings import PixelSettings

#: Raised by one whenever the same file would be stored as other bytes: old shards are made anew.
FORMAT_VERSION = 4


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


#: What a process gives back for an image: its pixels uint8 [S, S] and row, or why it has none.
Outcome = tuple[NDArray[np.uint8], Stored] | Failure

Radiograph = str | Path | NDArray[Any]
#: Height and width of a radiograph, and its pixels in each geometry that was asked for.
ReadImage = tuple[tuple[int, int], list[NDArray[np.uint8]]]


def store_or_fail(
    root: Path, source: Source, geometry: Geometry, settings: PixelSettings
) -> Outcome:
    """Decode, resize and crop an image; one that cannot be used is a failure, no exception."""
    try:
        return store_image(root, source, geometry, settings)
    except DecodeError as error:
        return failed(source, str(error))


def failed(source: Source, reason: str) -> Failure:
    return Failure(source.image_id, source.path, reason)


def store_image(
    root: Path, source: Source, geometry: Geometry, settings: PixelSettings
) -> tuple[NDArray[np.uint8], Stored]:
    """One image as the store keeps it, uint8 [S, S], and its row of the index."""
    try:
        path = below(root, source.path)
    except OutsideError as error:
        raise DecodeError(str(error)) from None
    decoded = decode(path, settings.max_image_mib << 20, settings.upright)
    height, width = decoded.values.shape
    image = stored_pixels(decoded, geometry, settings)
    digest = hashlib.sha256(image.tobytes()).hexdigest()
    kind = (decoded.photometric, decoded.bits, decoded.decoder)
    return image, Stored(source.image_id, source.path, height, width, *kind, digest)


def stored_pixels(
    decoded: Decoded, geometry: Geometry, settings: PixelSettings
) -> NDArray[np.uint8]:
    """Return the pixels that a store of this geometry keeps, uint8 [S, S]; padding is 0."""
    height, width = decoded.values.shape
    if min(height, width) < settings.min_side:
        raise DecodeError(
            f"image of {height} x {width} pixels is below min_side {settings.min_side}"
        )
    resized, inside = geometry.place(height, width).apply(decoded.values)
    image = decoded.to_bytes(resized)
    image[~inside] = 0
    return image


def read_images(
    images: Sequence[Radiograph], settings: PixelSettings, *geometries: Geometry
) -> list[ReadImage]:
    """Height and width of radiographs, and what stores of these geometries would keep of each.

    This is how a picture is read wherever there is no store. A compiled decoder works in a process
    of its own, which a damaged file may end. A phone's picture is turned by its EXIF orientation.

    Args:
        images: files, or grey values [H, W] of any scale that are bright where the body is dense.
        settings: of a store.
        geometries: as what the images are given back.

    Raises:
        InputError: an image cannot be used.
    """
    settings = settings.model_copy(update={"upright": True})
    work = partial(_read_image, settings=settings, geometries=geometries)
    guarded = [
        not isinstance(image, np.ndarray) and needs_compiled_decoder(image) for image in images
    ]
    results = []
    with contextlib.closing(
        guarded_map(
            work, compress(images, guarded), 1, lambda image, reason: reason, settings.max_seconds
        )
    ) as answers:
        for image, compiled in zip(images, guarded, strict=True):
            result = next(answers) if compiled else work(image)
            if isinstance(result, str):
                path = "an array" if isinstance(image, np.ndarray) else image
                raise InputError(
                    f"{path}: {result}; expected a radiograph as a DICOM, PNG or JPEG file, or as "
                    "an array"
                )
            results.append(result)
    return results


def _read_image(
    image: Radiograph, settings: PixelSettings, geometries: Sequence[Geometry]
) -> ReadImage | str:
    """One radiograph of :func:`read_images`, or why it cannot be used."""
    try:
        if isinstance(image, np.ndarray):
            decoded = from_array(image)
        else:
            decoded = decode(image, settings.max_image_mib << 20, settings.upright)
        height, width = decoded.values.shape
        stored = [stored_pixels(decoded, geometry, settings) for geometry in geometries]
        return (height, width), stored
    except DecodeError as error:
        return str(error)


def shard_name(number: int) -> str:
    """``shard-00000.npy``."""
    return f"shard-{number:05d}.npy"


def plan_fingerprint(
    root: Path, sources: Sequence[Source], geometry: Geometry, settings: PixelSettings
) -> str:
    """A hash of all that decides a shard's bytes: files with size and time, geometry, settings."""
    files = []
    for source in sources:
        size, time = None, None
        with contextlib.suppress(OSError, OutsideError):
            status = below(root, source.path).stat()
            size, time = status.st_size, status.st_mtime_ns
        files.append([source.image_id, source.path, size, time])
    decides = settings.record(exclude={"images_per_shard", "max_failed_share"})
    return fingerprint([FORMAT_VERSION, str(geometry), decides, files])


def write_shard(
    folder: Path, number: int, plan: str, size: int, outcomes: Sequence[Outcome]
) -> dict[str, Any]:
    """Write shard and record from its images of side ``size`` in order; returns the record."""
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    images = [outcome for outcome in outcomes if not isinstance(outcome, Failure)]
    with atomic_path(folder / shard_name(number)) as temporary, open(temporary, "wb") as handle:
        header = {"descr": "|u1", "fortran_order": False, "shape": (len(images), size, size)}
        np.lib.format.write_array_header_1_0(handle, header)
        # Plain writes: numpy's own tofile hides the reason when a disk is full.
        for pixels, _ in images:
            handle.write(np.ascontiguousarray(pixels).data)
        length = handle.tell()
    record = {
        "plan": plan,
        "file": shard_name(number),
        "bytes": length,
        "sha256": file_digest(folder / shard_name(number)),
        "rows": [asdict(row) for _, row in images],
        "failures": [asdict(failure) for failure in failures],
    }
    write_json((folder / shard_name(number)).with_suffix(".json"), record)
    return record


def read_whole_shard(folder: Path, number: int, plan: str) -> dict[str, Any] | None:
    """The record of a shard that is complete and was made from ``plan``, else None."""
    path = folder / shard_name(number)
    try:
        record = read_json(path.with_suffix(".json"))
        complete = (
            record["plan"] == plan
            and path.stat().st_size == record["bytes"]
            and file_digest(path) == record["sha256"]
        )
    except (InputError, OSError, KeyError, TypeError, json.JSONDecodeError):
        return None
    return record if complete else None
