"""The view of stored images at inference: that of validation, by what a training has recorded.

A recipe may bring images to a size of its own and leave out what surrounds them in the stored
square. A model is then scored on such views too.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from cxr_files.errors import InputError
from cxr_files.settings import from_record
from cxrflow.images.augment import Augmentation, StoredPixels
from cxrflow.images.geometry import Geometry
from cxrflow.images.settings import AugmentationSettings

View = Callable[[StoredPixels], Tensor]


def inference_view(run: Mapping[str, Any], geometry: Geometry) -> View | None:
    """Return the view by a model's ``run.json``, float [B, 1, S, S] in [0, 1]; None: as stored.

    Weights that were not trained here have no recipe. Of an unpadded geometry they see the whole
    image, brought to the stored square.
    """
    augmentation = _recorded(run)
    if augmentation is None and not geometry.padded:
        augmentation = AugmentationSettings(size=geometry.size, crop_scale=(1.0, 1.0))
    if augmentation is None or augmentation.size is None:
        return None
    return Augmentation(augmentation).centre


def _recorded(run: Mapping[str, Any]) -> AugmentationSettings | None:
    record = (run.get("settings") or {}).get("augmentation")
    source = "run.json: settings.augmentation"
    return None if record is None else from_record(AugmentationSettings, record, source)


def seen_geometry(run: Mapping[str, Any], geometry: Geometry) -> Geometry | None:
    """Return the geometry of what a model sees of squares that are stored in ``geometry``.

    A recipe that cuts windows of a size out of padded squares (MGCA: 224 of 256 pixels) sees their
    centres, which is a geometry of its own. None: the view has no geometry.
    """
    if inference_view(run, geometry) is None:
        return geometry
    augmentation, is_cut = _recorded(run), geometry.padded and geometry.rule != "shorter"
    if augmentation is None or not is_cut or augmentation.crop_scale is not None:
        return None
    size = augmentation.size
    return replace(geometry, size=size) if size and (geometry.size - size) % 2 == 0 else None


def require_seen_geometry(
    run: Mapping[str, Any], geometry: Geometry, model: str = "the model"
) -> Geometry:
    """Return :func:`seen_geometry`; an InputError names the ``model`` whose view has none."""
    view_geometry = seen_geometry(run, geometry)
    if view_geometry is None:
        raise InputError(
            f"{model} sees images of geometry {geometry} without what surrounds them, at a size of "
            "its own; expected one that sees stored squares, in which boxes lie"
        )
    return view_geometry
