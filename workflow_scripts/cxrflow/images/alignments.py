"""Alignments of many pairs of images: a table, made in parallel and by parts, and its reader.

A folder holds ``alignments.parquet`` (a row a pair) and ``registration.json`` (settings, counts,
what failed), which is written last. Parts of an interrupted run are kept and named by all that
decides their content, and by their checksum.
"""

import logging
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from cxr_files.atomic import (
    CHECKSUMS,
    atomic_path,
    file_digest,
    fingerprint,
    read_object,
    write_checksums,
    write_json,
)
from cxr_files.drops import Drop, Tally
from cxr_files.errors import InputError
from cxr_files.outputs import held_folder
from cxr_files.parallel import chunks, ordered_map
from cxr_files.parquet import read_table
from cxr_files.progress import progress
from cxrflow.images.settings import RegistrationSettings
from cxrflow.images.store import PixelStore

# SimpleITK is imported where a pair is registered or moved: many tasks only may read alignments.
if TYPE_CHECKING:
    from cxrflow.images.registration import Alignment

log = logging.getLogger("cxrflow")

#: Raised by one whenever the same pixels and settings would give another table.
FORMAT_VERSION = 1
PAIR = ["image_id", "prior_image_id"]
VALUES = ["scale", "rotation", "shift_x", "shift_y", "mutual_information"]
PRODUCT = "registration"
Pair = tuple[str, str]  # ids of the current and of the prior image


def read_pairs(tables: Sequence[Path]) -> list[Pair]:
    """The images with a prior in cohorts' tables, each pair once, in the order of their ids."""
    rows = pd.concat([read_table(path, PAIR)[PAIR] for path in tables]).dropna()
    if rows.empty:
        where = ", ".join(str(path) for path in tables)
        raise InputError(f"{where}: no row has a prior_image_id; expected pairs to register")
    pairs = rows.astype(str).drop_duplicates().sort_values(PAIR)
    return list(pairs.itertuples(index=False, name=None))


def build_alignments(
    pairs: Sequence[Pair],
    store: PixelStore,
    settings: RegistrationSettings,
    folder: Path,
    processes: int,
) -> dict[str, Any]:
    """Register ``pairs`` and write the table; returns what ``registration.json`` says.

    A pair without pixels, or that cannot be registered, is a row without values and is counted.
    """
    with held_folder(folder, PRODUCT):
        for name in (CHECKSUMS, "registration.json"):
            (folder / name).unlink(missing_ok=True)
        chunked = list(chunks(pairs, settings.pairs_per_shard))
        decides = [FORMAT_VERSION, store.fingerprint, settings.record()]
        stems = [
            f"part-{number:05d}-{fingerprint([decides, chunk])}"
            for number, chunk in enumerate(chunked)
        ]
        path_by_stem = _whole_parts(folder, stems)
        missing = [number for number, stem in enumerate(stems) if stem not in path_by_stem]
        work = partial(align, store.path, settings=settings)
        remaining = [pair for number in missing for pair in chunked[number]]
        with closing(ordered_map(work, remaining, min(processes, len(remaining)))) as aligned:
            rows = progress(aligned, len(remaining), "pair", lambda row: 1, "registration")
            for number in missing:
                # Failures as texts, also where no pair has one.
                table = pd.DataFrame([next(rows) for _ in chunked[number]]).astype(
                    {"failure": "str"}
                )
                content = table.to_parquet(index=False)
                digest = sha256(content).hexdigest()[:16]
                path_by_stem[stems[number]] = path = folder / f"{stems[number]}-{digest}.parquet"
                with atomic_path(path) as temporary:
                    temporary.write_bytes(content)
        table = pd.concat([read_table(path_by_stem[stem]) for stem in stems], ignore_index=True)
        failed = table[table["failure"].notna()]
        tally = Tally("pairs registered", "pairs", len(table) - len(failed))
        for reason, lost in failed.groupby("failure"):
            tally.add(Drop.of(str(reason), lost["image_id"], failed=True))
        with atomic_path(folder / "alignments.parquet") as temporary:
            table.astype({"failure": "str"}).to_parquet(temporary, index=False)
        record = {
            **tally.as_json(),
            "geometry": str(store.geometry),
            "size": store.size,
            "pixels": store.fingerprint,
            "settings": settings.model_dump(mode="json"),
        }
        write_json(folder / "registration.json", record)
        for path in path_by_stem.values():
            path.unlink()
        write_checksums(folder)
        return record


def _whole_parts(folder: Path, stems: Sequence[str]) -> dict[str, Path]:
    """The parts of an interrupted run by stem; damaged ones and those of other runs are deleted."""
    path_by_stem: dict[str, Path] = {}
    for path in sorted(folder.glob("part-*")):
        stem, _, digest = path.stem.rpartition("-")
        if stem in stems and file_digest(path)[:16] == digest:
            path_by_stem[stem] = path
            continue
        if stem in stems:
            log.warning("%s is damaged; its pairs are registered again", path)
        path.unlink()
    return path_by_stem


def align(root: Path, pair: Pair, settings: RegistrationSettings) -> dict[str, Any]:
    """A row of the table."""
    from cxrflow.images.registration import RegistrationError, register

    store = _opened(root)
    row: dict[str, Any] = {**dict(zip(PAIR, pair, strict=True)), **dict.fromkeys(VALUES, np.nan)}
    rows = store.find(pair)
    lost = [name for name, at in zip(("current", "prior"), rows, strict=True) if at < 0]
    if lost:
        return row | {"failure": f"pixels of the {lost[0]} image are missing"}
    current, prior = store.read(rows)
    inside = [store.placement(int(at)).inside_stored() for at in rows]
    try:
        alignment = register(current, prior, settings, (inside[0], inside[1]))
    except RegistrationError as error:
        return row | {"failure": str(error)}
    return row | asdict(alignment) | {"failure": None}


@cache
def _opened(root: Path) -> PixelStore:
    """The store of a process, which registers many pairs of it."""
    return PixelStore(root, check=False)


class Alignments:
    """Reads the table: prior images as the current ones would show them."""

    def __init__(self, folder: str | Path) -> None:
        from cxrflow.images.registration import Alignment

        self.folder = Path(folder)
        content = read_object(self.folder / "registration.json", {"size": int, "geometry": str})
        self.size: int = content["size"]
        path = self.folder / "alignments.parquet"
        table = read_table(path, (*PAIR, *VALUES, "failure"))
        pairs = table[PAIR].itertuples(index=False, name=None)
        values = table[VALUES].to_numpy(dtype=np.float64).tolist()
        self._alignments: dict[Pair, Alignment | None] = {
            pair: Alignment(*row) if registered else None
            for pair, row, registered in zip(pairs, values, table["failure"].isna(), strict=True)
        }

    def find(self, image_id: str, prior_image_id: str) -> "Alignment | None":
        """The alignment of a pair; None where it could not be registered.

        Raises:
            InputError: the pair is not in the table.
        """
        pair = (image_id, prior_image_id)
        if pair not in self._alignments:
            raise InputError(
                f"{self.folder / 'alignments.parquet'}: the pair of {image_id} and its prior"
                f" {prior_image_id} is not listed; register the cohort that has it"
            )
        return self._alignments[pair]

    def warp(
        self, priors: NDArray[np.uint8], image_ids: Sequence[str], prior_image_ids: Sequence[str]
    ) -> NDArray[np.uint8]:
        """Prior images [n, S, S] moved onto their current ones, black outside.

        A pair that could not be registered keeps its prior image as it is.
        """
        from cxrflow.images.registration import warp

        moved = priors.copy()
        scale = priors.shape[-1] / self.size  # another size shows the same in other pixels
        for place, pair in enumerate(zip(image_ids, prior_image_ids, strict=True)):
            alignment = self.find(*pair)
            if alignment is not None:
                x, y = alignment.shift_x * scale, alignment.shift_y * scale
                moved[place] = warp(priors[place], replace(alignment, shift_x=x, shift_y=y))
        return moved


class RegisteredPriors:
    """A pixel store that also gives prior images as their current ones would show them.

    Those have rows of their own, behind the store's, which :meth:`prior_rows` hands out; all else
    is the store's.
    """

    def __init__(self, store: PixelStore, alignments: Alignments) -> None:
        self.store, self.alignments = store, alignments
        self.geometry, self.index, self.size = store.geometry, store.index, store.size
        self.holds, self.find, self.rows = store.holds, store.find, store.rows
        digest = file_digest(alignments.folder / "alignments.parquet")
        self.fingerprint: str = fingerprint([store.fingerprint, digest])
        self._pairs: list[Pair] = []
        self._row: dict[Pair, int] = {}

    def prior_rows(
        self, image_ids: Iterable[str], prior_image_ids: Iterable[str]
    ) -> NDArray[np.int64]:
        """The rows of priors that are moved onto these images."""
        for pair in (pairs := list(zip(image_ids, prior_image_ids, strict=True))):
            if pair not in self._row:
                self.alignments.find(*pair)  # a pair that is not listed is an error now
                self._row[pair] = len(self.store) + len(self._pairs)
                self._pairs.append(pair)
        return np.array([self._row[pair] for pair in pairs], dtype=np.int64)

    def read(self, rows: ArrayLike) -> NDArray[np.uint8]:
        """The images of rows, the store's and those of :meth:`prior_rows`: uint8 [n, S, S]."""
        rows = np.asarray(rows, dtype=np.int64)
        moved = np.flatnonzero(rows >= len(self.store))
        pairs = [self._pairs[row - len(self.store)] for row in rows[moved].tolist()]
        stored = rows.copy()
        stored[moved] = self.store.rows([prior for _, prior in pairs])
        pixels = self.store.read(stored)
        if pairs:
            currents, priors = zip(*pairs, strict=True)
            pixels[moved] = self.alignments.warp(pixels[moved], currents, priors)
        return pixels
