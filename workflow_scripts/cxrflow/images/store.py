"""The pixel store of a data set: every image decoded, resized and kept as 8 bits, once.

    cxrflow store_pixels --root R --images images.parquet --geometry shorter512 \\
        --output results/pixels/<paper>/<cohort>/<geometry>

A store is a folder with shards (NumPy files uint8 [rows, S, S], memory-mapped when read), their
records, ``index.parquet`` (one row an image) and ``store.json`` (geometry, settings, failures with
their reasons, checksums), which is written last: a folder that has it is complete. See
docs/pixels.md.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from random import SystemRandom
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from cxr_files.atomic import file_digest, fingerprint, read_object, require_fields
from cxr_files.errors import InputError
from cxr_files.parquet import read_table
from cxr_files.reading import OutsideError, below
from cxrflow.images.build import INDEX_COLUMNS
from cxrflow.images.geometry import Geometry, Placement
from cxrflow.images.shards import Source

#: A store of up to so many bytes is checked whole when it is opened, of a larger one this many
#: images of each shard besides its first and last.
WHOLE, SAMPLED = 256 << 20, 2


#: Fields of ``store.json`` that are read, and of each of its shards.
FIELDS = {"geometry": str, "fingerprint": str, "shards": list, "index_sha256": str}
SHARD = {"file": str, "rows": int, "bytes": int, "sha256": str}


class PixelStore:
    """Reads a store. Rows are positions in ``index``; pixels are uint8, bright = dense.

    ``index``: image_id, path, shard, row, original_height, original_width, decoder, photometric,
    bits, sha256 (of the stored pixels).

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from PIL import Image
    >>> from cxrflow import PixelStore
    >>> from cxrflow.images.build import build_store
    >>> from cxrflow.images.geometry import Geometry
    >>> from cxrflow.images.settings import PixelSettings
    >>> from cxrflow.images.shards import Source
    >>> with TemporaryDirectory() as folder:
    ...     Image.linear_gradient("L").save(Path(folder, "a.png"))
    ...     sources, geometry = [Source("a", "a.png")], Geometry.parse("square16")
    ...     _ = build_store(Path(folder), sources, geometry, PixelSettings(), Path(folder, "s"), 1)
    ...     store = PixelStore(Path(folder, "s"))
    ...     store.read(store.rows(["a"])).shape
    (1, 16, 16)
    """

    def __init__(
        self, path: str | Path, check: bool = True, fields: dict[str, Any] | None = None
    ) -> None:
        """Open a store; with ``check`` its pixels are compared with their checksums, once.

        ``fields``: those of ``store.json``, of a store in which it is not written yet.

        Raises:
            InputError: it is not complete, or damaged.
        """
        self.path = Path(path)
        content = self.path / "store.json"
        if fields is None and not content.is_file():
            raise InputError(f"{self.path}: not a complete pixel store (store.json is missing)")
        self.content = fields or read_object(content, FIELDS)
        for shard in self.content["shards"]:
            require_fields(shard if isinstance(shard, dict) else {}, SHARD, f"{content}: shards")
        self.geometry = Geometry.parse(self.content["geometry"])
        self.size = self.geometry.size
        self.fingerprint: str = self.content["fingerprint"]
        self.index = read_table(self.path / "index.parquet", tuple(INDEX_COLUMNS))
        decides = [self.content["geometry"], list(self.index["image_id"]), self.content["shards"]]
        if check and fingerprint(decides) != self.fingerprint:  # by another geometry boxes move
            raise InputError(f"{content}: damaged, or index.parquet is; build the store again")
        self._shards: NDArray[np.int32] = self.index["shard"].to_numpy()
        self._positions: NDArray[np.int32] = self.index["row"].to_numpy()
        self._open: dict[int, NDArray[np.uint8]] = {}
        for shard in self.content["shards"]:
            self._check_length(shard)
        if check and sum(shard["bytes"] for shard in self.content["shards"]) <= WHOLE:
            self.verify()
        elif check:
            self._verify_sample()

    def __len__(self) -> int:
        return len(self.index)

    def rows(self, image_ids: Iterable[str]) -> NDArray[np.int64]:
        """The row of each image id; ids that are not in the store are an :class:`InputError`."""
        names = list(image_ids)
        rows = self.find(names)
        missing = [str(name) for name, row in zip(names, rows, strict=True) if row < 0]
        if missing:
            more = ", …" if len(missing) > 5 else ""
            raise InputError(
                f"{self.path}: {len(missing)} of {len(names)} images are not in the pixel store:"
                f" {', '.join(missing[:5])}{more} (store.json lists what failed)"
            )
        return rows

    def find(self, image_ids: Iterable[str]) -> NDArray[np.int64]:
        """The row of each image id; -1 for what is not in the store, a missing value included."""
        return np.array([self._by_id.get(name, -1) for name in image_ids], dtype=np.int64)

    def holds(self, image_ids: Iterable[str]) -> NDArray[np.bool_]:
        """Which of the image ids are in the store: a program drops the others, and counts them."""
        return self.find(image_ids) >= 0

    def read(self, rows: ArrayLike, out: NDArray[np.uint8] | None = None) -> NDArray[np.uint8]:
        """The images of ``rows`` [n], in that order: uint8 [n, S, S], in ``out`` if given."""
        rows = np.asarray(rows, dtype=np.int64).reshape(-1)
        pixels = np.empty((len(rows), self.size, self.size), np.uint8) if out is None else out
        shards, positions = self._shards[rows], self._positions[rows]
        # In the order of the files, so that a disk is read forwards.
        for i in np.lexsort((positions, shards)):
            pixels[i] = self._shard(int(shards[i]))[positions[i]]
        return pixels

    def inside(self) -> NDArray[np.float32] | None:
        """Left, top, width, height [N, 4] of all images in their squares; None where all counts."""
        if self.geometry.padded:
            return None
        originals = self.index[["original_height", "original_width"]].to_numpy()
        sizes, number_N = np.unique(originals, axis=0, return_inverse=True)
        boxes = [self.geometry.place(*size).inside_stored() for size in sizes.tolist()]
        return np.array(boxes, dtype=np.float32).reshape(-1, 4)[number_N.reshape(-1)]

    def placement(self, row: int) -> Placement:
        """Where the original of a row lies in its stored square, for boxes."""
        image = self.index.iloc[row]
        return self.geometry.place(int(image["original_height"]), int(image["original_width"]))

    def verify(self) -> None:
        """Compare each file with its checksum; one that differs is an :class:`InputError`."""
        files = [(shard["file"], shard["sha256"]) for shard in self.content["shards"]]
        for name, expected in [("index.parquet", self.content["index_sha256"]), *files]:
            self._verify_file(name, expected)

    def _verify_sample(self) -> None:
        """Compare the index, and of each shard its ends and some images drawn anew by each job."""
        self._verify_file("index.parquet", self.content["index_sha256"])
        random = SystemRandom()
        start = 0
        for shard in self.content["shards"]:
            rows = range(start, start + shard["rows"])
            start = rows.stop
            for row in {*rows[:1], *rows[-1:], *random.sample(rows, min(SAMPLED, len(rows)))}:
                image = self._shard(int(self._shards[row]))[self._positions[row]]
                if sha256(image.tobytes()).hexdigest() != self.index["sha256"].iat[row]:
                    raise self._damaged(shard["file"])

    def _verify_file(self, name: str, expected: str) -> None:
        if file_digest(self.path / name) != expected:
            raise self._damaged(name)

    def _damaged(self, name: str) -> InputError:
        return InputError(
            f"{self.path / name}: damaged, its SHA-256 is not the one in store.json;"
            " build the store again, whole shards are kept"
        )

    @cached_property
    def _by_id(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.index["image_id"])}

    def _shard(self, number: int) -> NDArray[np.uint8]:
        if number not in self._open:
            shard = self.content["shards"][number]
            try:
                pixels = np.load(self.path / shard["file"], mmap_mode="r")
            except ValueError:  # its header
                raise self._damaged(shard["file"]) from None
            if (pixels.shape, pixels.dtype) != ((shard["rows"], self.size, self.size), np.uint8):
                raise self._damaged(shard["file"])
            self._open[number] = pixels
        return self._open[number]

    def _check_length(self, shard: dict[str, Any]) -> None:
        try:
            path = below(self.path, shard["file"])
        except OutsideError:
            raise self._damaged("store.json") from None
        length = path.stat().st_size if path.is_file() else None
        if length != shard["bytes"]:
            state = "missing" if length is None else f"{length} bytes long"
            raise InputError(f"{path}: {state}, expected {shard['bytes']} bytes; build it again")

    def __getstate__(self) -> dict[str, Any]:
        # Memory maps are opened anew in each process that gets a copy.
        return self.__dict__ | {"_open": {}}


def read_sources(lists: Sequence[Path]) -> list[Source]:
    """The images of one or more ``images.parquet``, each once, in the order of their ids.

    The order makes the store independent of the order of the lists. An id with two different
    paths is an :class:`InputError`.
    """
    frames, where = [], ", ".join(str(path) for path in lists)
    for path in lists:
        frame = read_table(path, ("image_id", "image_path"))
        for column in ("image_id", "image_path"):
            if frame[column].isna().any():
                raise InputError(f"{path}: column '{column}' has {frame[column].isna().sum()} gaps")
        frames.append(frame[["image_id", "image_path"]].astype(str))
    images = pd.concat(frames).drop_duplicates().sort_values("image_id", ignore_index=True)
    doubled = images[images["image_id"].duplicated(keep=False)]
    if len(doubled):
        first = doubled.iloc[:2]["image_path"].tolist()
        raise InputError(
            f"{where}: image_id '{doubled.iloc[0]['image_id']}' has more than one image_path:"
            f" {' and '.join(first)}"
        )
    if images.empty:
        raise InputError(f"{where}: no images")
    pairs = zip(images["image_id"], images["image_path"], strict=True)
    return [Source(image_id, path) for image_id, path in pairs]
