"""Images of one pixel store that are in another: a leak that no comparison of ids can see.

Collections copy from one another (RSNA's images are NIH's), and a folder that people fill may hold
a published set under other names. Before a training, the images that a model will learn from are
compared with those of other data sets on which it, or what starts from it, is scored; a run ends
where one is a copy. The main process of a run notes which cohorts are compared, as it notes what is
asked of their rows (:mod:`cxrflow.data.cohorts.demands`); whichever store is built last compares.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cxr_files.atomic import atomic_path, fingerprint, read_sealed, write_sealed
from cxr_files.errors import InputError
from cxrflow.images.compared import Compared, noted
from cxrflow.images.equal_pictures import patients_of
from cxrflow.images.likeness import CELLS, LEAST, PARTS, Floats, alike, likeness
from cxrflow.images.store import PixelStore

LIKENESSES, RECORD = "likeness.npz", "copies.json"
LEARNT, SCORED = ("train", "validate"), ("test",)
NAMED = 3  # copies in a message


class Copy(NamedTuple):
    """An image that is scored, and the one of another cohort that it is a copy of."""

    scored: str
    learnt: str


def likenesses(store: PixelStore) -> Floats:
    """The likeness of every image of a store, float16 [N, 3, 256]; kept beside its shards."""
    path = store.path / LIKENESSES
    try:
        with np.load(path, allow_pickle=False) as file:
            if str(file["store"]) == store.fingerprint:
                likeness_N3X: Floats = file["likenesses"]
                return likeness_N3X
    except (OSError, ValueError, KeyError):  # there is none, or it was cut off
        pass
    likenesses_of = [likeness(store.read(np.array([row]))[0]) for row in range(len(store))]
    likeness_N3X = np.array(likenesses_of, dtype=np.float16).reshape(len(store), PARTS, CELLS**2)
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, store=store.fingerprint, likenesses=likeness_N3X)
    return likeness_N3X


def copies(scored: PixelStore, learnt: PixelStore, ids: Sequence[Iterable[str]]) -> list[Copy]:
    """Return the images of ``scored`` that are copies of one of ``learnt``, each once.

    ``ids``: of the images that count in either.
    """
    likenesses_of, names = [], []
    for store, of_store in zip((scored, learnt), ids, strict=True):
        rows = np.flatnonzero(store.index["image_id"].isin(set(of_store)))
        likenesses_of.append(likenesses(store)[rows])
        names.append(store.index["image_id"].astype(str).to_numpy()[rows])
    copy_by_id: dict[str, Copy] = {}
    for scored_place, learnt_place, _ in alike(*likenesses_of):
        copy_by_id.setdefault(
            names[0][scored_place], Copy(names[0][scored_place], names[1][learnt_place])
        )
    return list(copy_by_id.values())


def compared_copies(results: Path, scored: str, learnt: str) -> list[Copy] | None:
    """The copies between two cohorts of a run; None while one of them has no store."""
    stores = [_store(results, cohort) for cohort in (scored, learnt)]
    if stores[0] is None or stores[1] is None:
        return None
    ids = [_images(results, scored, SCORED), _images(results, learnt, LEARNT)]
    # The parts of a cohort may change where its images stay.
    compared = fingerprint(
        [LEAST, *(store.fingerprint for store in stores if store), *map(sorted, ids)]
    )
    record = stores[0].path.parent / RECORD
    records: dict[str, dict[str, Any]] = {}
    with suppress(InputError):  # there is none, or it is damaged
        records = read_sealed(record)
    if records.get(learnt, {}).get("compared") != compared:
        pairs = copies(stores[0], stores[1], ids)
        records[learnt] = {"compared": compared, "copies": [list(pair) for pair in pairs]}
        write_sealed(record, records)
    return [Copy(*pair) for pair in records[learnt]["copies"]]


def require_none(results: Path, pairs: Iterable[Compared]) -> None:
    """Check that no image that is scored is a copy of one that is learnt from.

    Raises:
        InputError: names the cohorts, the images, and the models.
    """
    for pair in pairs:
        found_copies = compared_copies(results, pair.scored, pair.learnt)
        if found_copies:
            excerpt = ", ".join(f"{copy.scored} is {copy.learnt}" for copy in found_copies[:NAMED])
            raise InputError(
                f"{results}: {len(found_copies)} test images of cohort {pair.scored} are copies "
                f"of images of {pair.learnt} ({excerpt}), from which "
                f"{', '.join(pair.learners)} would learn; expected their patients held out "
                f"(`people`, `ids`, `held_out`), or `leave_out: "
                f"[{', '.join(pair.learners)}]` in the configuration"
            )


def check_noted(folder: Path) -> None:
    """Compare a store that has been built with those that are there; see :func:`require_none`."""
    *results, _, paper, cohort, _ = folder.absolute().parts
    concerned = [pair for pair in noted() if f"{paper}/{cohort}" in (pair.scored, pair.learnt)]
    require_none(Path(*results), concerned)


def _store(results: Path, cohort: str) -> PixelStore | None:
    """A store of a cohort, the first by the name of its geometry."""
    contents = sorted((results / "pixels" / cohort).glob("*/store.json"))
    return PixelStore(contents[0].parent) if contents else None


def _images(results: Path, cohort: str, splits: Sequence[str]) -> list[str]:
    rows = patients_of([results / "cohorts" / cohort])
    return rows.loc[rows["split"].isin(splits), "image_id"].drop_duplicates().tolist()
