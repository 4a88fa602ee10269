"""The pixels of a cohort as a model sees them: its geometry, and the view of its validation."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from cxr_files.errors import InputError
from cxrflow.benchmarks.inputs import Pixels
from cxrflow.images.geometry import Geometry, Placement
from cxrflow.images.inference_view import inference_view, require_seen_geometry
from cxrflow.images.store import PixelStore
from cxrflow.models.run_record import read_run


class ModelPixels(PixelStore):
    """A pixel store in the geometry of a model's training.

    ``view``: how :func:`~cxrflow.benchmarks.inputs.read_frames` shows its images; None: as stored.
    ``boxes``: left, top, width, height [N, 4] of the images in their squares; None: all of these.
    """

    def __init__(self, folder: Path, geometry: str | None, run: Mapping[str, Any]) -> None:
        """Open the store by the geometry (None: any) and the ``run.json`` of a model.

        Raises:
            InputError: the store is of another geometry, or not complete.
        """
        super().__init__(folder)
        if geometry is not None and str(self.geometry) != geometry:
            raise InputError(
                f"{folder}: geometry is {self.geometry}, but the model was trained on {geometry}"
            )
        self.run = run
        self.view, self.boxes = inference_view(run, self.geometry), self.inside()


def model_pixels(folder: Path, model: Path) -> Pixels:
    """Open the pixel store ``folder`` for a model's image encoder."""
    run = read_run(model)
    if "geometry" not in (run.get("data") or {}):
        raise InputError(f"{model / 'run.json'}: field data.geometry is missing")
    return cast(Pixels, ModelPixels(folder, str(run["data"]["geometry"]), run))


class CentralPixels:
    """The centres of stored squares, where a model sees nothing else of them.

    ``geometry`` is that of the centres; by it boxes are placed.
    """

    def __init__(self, store: ModelPixels, geometry: Geometry) -> None:
        self._store, self.geometry = store, geometry
        self.fingerprint, self.index = store.fingerprint, store.index
        self.holds, self.find, self.rows = store.holds, store.find, store.rows
        begin = (store.geometry.size - geometry.size) // 2
        self._inside = slice(begin, begin + geometry.size)

    def read(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The centres [N, S, S] of rows."""
        return self._store.read(rows)[:, self._inside, self._inside]

    def placement(self, row: int) -> Placement:
        """Where the original of a row lies in its centre."""
        stored = self._store.placement(row)
        return self.geometry.place(stored.original_height, stored.original_width)


def stored_squares(pixels: Pixels) -> Pixels:
    """Return the pixels as squares in which boxes can be placed.

    Raises:
        InputError: what the model sees of images has no geometry.
    """
    if getattr(pixels, "view", None) is None:
        return pixels
    store = cast(ModelPixels, pixels)
    return CentralPixels(store, require_seen_geometry(store.run, store.geometry))
