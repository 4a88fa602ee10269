"""The pixels of a cohort as a model sees them: its geometry, and the view of its validation."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from cxrflow.benchmarks.inputs import Pixels
from cxrflow.errors import InputError
from cxrflow.files.atomic import read_object
from cxrflow.images.inference_view import inference_view
from cxrflow.images.store import PixelStore


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
        self.view, self.boxes = inference_view(run, self.geometry), self.inside()


def model_pixels(folder: Path, model: Path) -> Pixels:
    """Open the pixel store ``folder`` for a model's image half."""
    path = model / "run.json"
    run = read_object(path, ("data",))
    if not isinstance(run["data"], dict) or "geometry" not in run["data"]:
        raise InputError(f"{path}: field data.geometry is missing")
    return cast(Pixels, ModelPixels(folder, str(run["data"]["geometry"]), run))


def require_stored_squares(pixels: Pixels) -> None:
    """Raise an InputError if the model sees another part of images than boxes are placed in."""
    if getattr(pixels, "view", None) is not None:
        raise InputError(
            f"the model sees images of geometry {pixels.geometry} without what surrounds them, at "
            "a size of its own; expected one that sees stored squares, in which boxes lie"
        )
