"""The inputs of a benchmark: rows of a cohort and their pixels, checked together."""

import logging
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxr_files.atomic import file_digest, fingerprint, read_object
from cxr_files.drops import Drop
from cxr_files.errors import InputError
from cxr_files.parquet import read_table
from cxr_files.progress import progress
from cxrflow.benchmarks.rows.row import Row
from cxrflow.data.layouts import recorded_layout

if TYPE_CHECKING:
    import torch

    from cxrflow.encoders.image_encoder import Frames
    from cxrflow.images.augment import StoredPixels

log = logging.getLogger("cxrflow")

Part = TypeVar("Part")
Answer = TypeVar("Answer")

PRIOR = "prior_image_id"


class Pixels(Protocol):
    """The methods of :class:`cxrflow.images.store.PixelStore` that benchmarks call."""

    geometry: Any
    fingerprint: str
    index: pd.DataFrame

    def holds(self, image_ids: Iterable[str]) -> NDArray[np.bool_]: ...

    def find(self, image_ids: Iterable[str]) -> NDArray[np.int64]: ...

    def rows(self, image_ids: Iterable[str]) -> NDArray[np.int64]: ...

    def read(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]: ...


@dataclass(frozen=True)
class Cohort:
    """Rows of a cohort and what its results must say about the data."""

    table: pd.DataFrame
    data: dict[str, Any]  # name, synthetic, fingerprint
    classes: tuple[str, ...] = ()  # of the column `labels`, in its order
    listed: tuple[str, ...] = ()  # of the data set's list, if only those that occur are classes

    def fingerprint(self, pixels: Pixels) -> str:
        """A hash of the rows and of the pictures."""
        return fingerprint([self.data["fingerprint"], pixels.fingerprint])


def choose_split(table: pd.DataFrame, split: str | None, source: Path) -> pd.DataFrame:
    """Rows of one split (all for None), in their order; InputError when there are none."""
    if split is not None:
        if "split" not in table:
            raise InputError(f"{source}: column 'split' is missing; expected '{split}' in it")
        present = sorted(str(value) for value in table["split"].dropna().unique())
        table = table[table["split"] == split]
        if table.empty:
            raise InputError(f"{source}: no row has split '{split}'; found {present}")
    if table.empty:
        raise InputError(f"{source}: the table is empty")
    return table.reset_index(drop=True)


def read_cohort(
    folder: Path, file: str, columns: Sequence[str], split: str | None = None
) -> Cohort:
    """Read ``folder/file`` and the ``flow.json`` that says where it comes from."""
    flow = read_object(folder / "flow.json", {"dataset": str, "synthetic": bool})
    table = choose_split(read_table(folder / file, columns), split, folder / file)
    data = {
        "name": flow["dataset"],
        "synthetic": bool(flow["synthetic"]),
        "fingerprint": file_digest(folder / file)[:16],
    }
    origin = recorded_layout(flow["layout"], folder / "flow.json") if "layout" in flow else None
    listed = origin.listed if origin else ()
    return Cohort(table, data, tuple(flow.get("classes", ())), listed)


class Inputs:
    """The inputs of a task: the folders of ``options``, and their contents, read once when asked.

    ``file`` and ``columns``: of the cohort's table. ``row``: what takes the model's place, if
    anything does. A test may set what is read beforehand.
    """

    row: Row | None = None

    def __init__(
        self, options: Namespace, file: str = "samples.parquet", columns: Sequence[str] = ()
    ) -> None:
        self.options, self.file, self.columns = options, file, columns

    def ask(self, model_function: Callable[..., Answer], *arguments: Any) -> Answer:
        """The answer of what is scored.

        A model gives it by ``model_function``, another row by its method of the same name.
        """
        if self.row is None:
            return model_function(self, *arguments)
        answer: Answer = getattr(self.row, model_function.__name__)(self, *arguments)
        return answer

    @property
    def knows_nothing(self) -> bool:
        """Whether what is scored puts candidates in any order, which is computed and not asked."""
        return self.row is not None and self.row.knows_nothing

    @property
    def source(self) -> Path:
        """The cohort's table, named in errors."""
        return Path(self.options.cohort, self.file)

    @cached_property
    def cohort(self) -> Cohort:
        """All rows of the cohort."""
        return read_cohort(self.options.cohort, self.file, self.columns)

    def rows(self, split: str | None) -> pd.DataFrame:
        """Return the cohort's rows of one split, all for None; InputError when there are none."""
        return choose_split(self.cohort.table, split, self.source)

    def parts(
        self,
        splits: Iterable[str],
        usable: Callable[[pd.DataFrame, str], tuple[Part, list[dict[str, Any]]]],
    ) -> tuple[list[Part], list[dict[str, Any]]]:
        """Return what is ``usable`` of the rows of each split, and what is left out of which part.

        Raises:
            InputError: a split has no rows, or none that can be used.
        """
        parts, dropped = [], []
        for split in splits:
            rows = self.rows(split)
            try:
                part, lost = usable(rows, split)
            except InputError as error:
                raise InputError(f"{self.source}, split '{split}': {error}") from None
            parts.append(part)
            dropped += [{**drop, "part": split} for drop in lost]
        return parts, dropped

    @property
    def has_pixels(self) -> bool:
        """True if the task reads pixels."""
        return "pixels" in vars(self) or getattr(self.options, "pixels", None) is not None

    @cached_property
    def pixels(self) -> Pixels:
        """The pixel store, in whatever geometry it has."""
        from cxrflow.images.store import PixelStore

        return cast(Pixels, PixelStore(self.options.pixels))


def open_pixels(folder: Path, geometry: str) -> Pixels:
    """Open the pixel store, which must have this geometry; images are seen as they are stored."""
    from cxrflow.images.store import PixelStore

    store = cast(Pixels, PixelStore(folder))
    if str(store.geometry) != geometry:
        raise InputError(
            f"{folder}: geometry is {store.geometry}, but the model was trained on {geometry}"
        )
    return store


def read_frames(
    pixels: Pixels,
    current: NDArray[np.int64],
    prior: NDArray[np.int64] | None = None,
    view: "Callable[[StoredPixels], torch.Tensor] | None" = None,
) -> "Frames[torch.Tensor]":
    """Images of rows of the store, float [B, 1, H, W] in [0, 1]; ``prior`` is -1 for none.

    Appendix E.2: at inference images are only resized and centre-cropped, which the store did, or
    the view of the model's validation does. ``view``: another way from what is stored; a prior is
    seen by the key of its current image.
    """
    import torch

    from cxrflow.encoders.image_encoder import Frames
    from cxrflow.images.augment import StoredPixels

    applied_view = view or getattr(pixels, "view", None)

    def read(rows: NDArray[np.int64], keys: NDArray[np.int64]) -> torch.Tensor:
        block = torch.from_numpy(np.ascontiguousarray(pixels.read(rows)))
        if applied_view is None:
            return block[:, None].float() / 255
        boxes = getattr(pixels, "boxes", None)
        inside = None if boxes is None else torch.from_numpy(boxes[rows])
        return applied_view(StoredPixels(block, torch.from_numpy(keys), inside))

    frames = Frames(read(current, current))
    if prior is None or not (prior >= 0).any():
        return frames
    with_prior = np.flatnonzero(prior >= 0)
    earlier = read(prior[with_prior], current[with_prior])
    return frames._replace(prior=earlier, rows=torch.from_numpy(with_prior))


def image_batches(
    pixels: Pixels,
    samples: pd.DataFrame,
    size: int,
    takes_prior: bool = False,
    view: "Callable[[StoredPixels], torch.Tensor] | None" = None,
) -> "Iterator[tuple[NDArray[np.int64], Frames[torch.Tensor]]]":
    """Yield positions among the samples and their images, as :func:`read_frames` gives them.

    For a model that ``takes_prior`` with those of ``prior_image_id`` that are in the store.
    """
    current = pixels.rows(samples["image_id"])
    prior = pixels.find(samples[PRIOR]) if takes_prior and PRIOR in samples else None
    starts = range(0, len(current), size)
    batches = (np.arange(i, min(i + size, len(current)), dtype=np.int64) for i in starts)
    for positions in progress(batches, len(current), "image"):
        earlier = None if prior is None else prior[positions]
        yield positions, read_frames(pixels, current[positions], earlier, view)


def lost_priors(pixels: Pixels, samples: pd.DataFrame) -> int:
    """Return how many samples go without their prior, because it is not in the store."""
    if PRIOR not in samples:
        return 0
    return int((samples[PRIOR].notna() & (pixels.find(samples[PRIOR]) < 0)).sum())


def drop_rows(
    table: pd.DataFrame, tests: Mapping[str, Any]
) -> tuple[pd.DataFrame, list[dict[str, Any]]]:
    """Leave out rows for which a test is true, and say how many and why (first reason counts).

    The table needs a ``sample_id``. InputError when nothing is left.
    """
    remaining = np.ones(len(table), dtype=bool)
    dropped = []
    for reason, test in tests.items():
        hit = np.asarray(test, dtype=bool) & remaining
        if hit.any():
            dropped.append(Drop.of(reason, table["sample_id"][hit]).as_json())
            log.warning("%d samples left out: %s", hit.sum(), reason)
        remaining &= ~hit
    if not remaining.any():
        reasons = ", ".join(f"{drop['reason']} ({drop['count']})" for drop in dropped)
        raise InputError(f"no sample is left: {reasons or 'the table is empty'}")
    return table[remaining].reset_index(drop=True), dropped


def draw_samples(samples: pd.DataFrame, count: int | None) -> pd.DataFrame:
    """So many of the samples at random, in their order; all of them where there are no more."""
    if count is None or count >= len(samples):
        return samples
    chosen = np.random.default_rng(0).permutation(len(samples))[:count]
    return samples.iloc[np.sort(chosen)].reset_index(drop=True)
