"""The ceiling of maps that learns: a detector trained on true boxes, a cell at a time.

Gradient boosting (Friedman 2001, Ann Stat 29:1189) tells cells in a box from others by what
surrounds them: brightness at four scales, by itself and less its mirror image's, the spread of
brightness, the place, and what is known without the image. So it has what no floor has, the image,
and what no model has, the boxes. No image is judged that it has learnt from.

Shapes: N images or phrases, h = w = 32 cells or the next fewer that divide the image, F features.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from cxr_files.errors import InputError
from cxrflow.metrics.intervals import Floats

DETECTOR = "detector"
FOLDS = 5
_SCALES = (1, 3, 6, 12)  # standard deviations, of an image of 128 pixels
_SPREAD, _SIDE = 3, 128
_CELLS = 100_000  # that are learnt from; more hardly tell more
_TREES, _LEAVES = 60, 15


def surroundings(images_NSS: NDArray[np.uint8], cells: int) -> Floats:
    """What surrounds each cell of square images: [N, h, w, F]."""
    features, unit = [], images_NSS.shape[1] / _SIDE
    for image_SS in images_NSS.astype(np.float64):
        image_SS = (image_SS - image_SS.mean()) / max(image_SS.std(), 1e-6)
        blurred = [gaussian_filter(image_SS, scale * unit, mode="nearest") for scale in _SCALES]
        width = _SPREAD * unit
        spread = gaussian_filter(image_SS**2, width) - gaussian_filter(image_SS, width) ** 2
        maps = [*blurred, *(each - each[:, ::-1] for each in blurred), spread]
        features.append(np.moveaxis(in_cells(np.stack(maps), cells), 0, -1))
    place_hw2 = np.moveaxis(np.indices((cells, cells)), 0, -1) / cells
    shape = (len(features), cells, cells, 2)
    return np.concatenate([np.stack(features), np.broadcast_to(place_hw2, shape)], axis=-1)


def detect(learnt_NhwF: Floats, boxes_Nhw: Floats, judged_NhwF: Floats) -> Floats:
    """Maps [N, h, w] of images: the root of the probability of a box, learnt from other images.

    ``boxes_Nhw``: the covered share of cells; one that is half covered lies in a box.

    Raises:
        InputError: no cell that is learnt from lies in a box, or all do.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    features = learnt_NhwF.shape[-1]
    cells_XF, inside_X = learnt_NhwF.reshape(-1, features), boxes_Nhw.ravel() > 0.5
    sampled_cells = np.random.default_rng(0).permutation(len(cells_XF))[:_CELLS]
    if len({*inside_X[sampled_cells]}) < 2:
        raise InputError(
            f"samples.parquet: column 'boxes' covers {inside_X[sampled_cells].sum()} of "
            f"{len(sampled_cells)} cells; expected some within and some without, "
            "as the detector tells them apart"
        )
    head: Any = HistGradientBoostingClassifier(
        max_iter=_TREES, max_leaf_nodes=_LEAVES, early_stopping=False, random_state=0
    )
    head.fit(cells_XF[sampled_cells], inside_X[sampled_cells])
    inside_X = head.predict_proba(judged_NhwF.reshape(-1, features))[:, 1]
    return np.sqrt(inside_X).reshape(judged_NhwF.shape[:3])


def detect_in_folds(
    features_NhwF: Floats, boxes_Nhw: Floats, patients_N: NDArray[np.int64]
) -> Floats:
    """Maps [N, h, w] as of :func:`detect`, learnt from the boxes of other patients.

    Raises:
        InputError: there is one patient alone.
    """
    from sklearn.model_selection import GroupKFold

    folds = min(FOLDS, len(np.unique(patients_N)))
    if folds < 2:
        raise InputError(
            "samples.parquet: 1 patient with boxes; expected 2 or more, as the detector "
            "learns from those of others"
        )
    inside_Nhw = np.zeros_like(boxes_Nhw)
    for learnt, judged in GroupKFold(folds).split(patients_N, groups=patients_N):
        inside_Nhw[judged] = detect(features_NhwF[learnt], boxes_Nhw[learnt], features_NhwF[judged])
    return inside_Nhw


def in_cells(images_NSS: NDArray[Any], cells: int) -> Floats:
    """The means [N, h, w] of the cells of square images."""
    step = images_NSS.shape[-1] // cells
    return np.asarray(images_NSS.reshape(-1, cells, step, cells, step).mean((2, 4)))
