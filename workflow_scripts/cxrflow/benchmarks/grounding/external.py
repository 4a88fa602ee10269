"""Maps that were made elsewhere, scored against the boxes of phrases.

A map covers its whole image, at any size, and is scored on the image's own pixels.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from cxr_files.arrays import read_array
from cxr_files.errors import InputError
from cxr_files.reading import OutsideError, below
from cxrflow.benchmarks.external import ExternalTable
from cxrflow.benchmarks.grounding.phrase_grounding import (
    predictions_of,
    read_samples,
    score_samples,
    usable_samples,
)
from cxrflow.benchmarks.grounding.region import Floats
from cxrflow.benchmarks.grounding.settings import PhraseGroundingSettings
from cxrflow.benchmarks.inputs import Inputs
from cxrflow.benchmarks.result import Predictions
from cxrflow.images.decode import read_picture
from cxrflow.images.decoded import DecodeError
from cxrflow.images.geometry import Geometry

# The whole image; the side counts only where maps are scored on the stored square's pixels.
WHOLE = Geometry.parse("square512")
RANGES = {"L": 255, "I;16": 65535}  # of grey PNG files, by Pillow's mode


def read_map(path: Path) -> Floats:
    """Return a map [h, w]: a grey PNG of 8 or 16 bits as 0 to 1, a ``.npy`` as it is.

    Raises:
        InputError: the file is absent, damaged, not grey, or holds values that are not finite.
    """
    if path.suffix == ".npy":
        values = read_array(path, dimensions=2).astype(np.float64)
        if not values.size:
            raise InputError(f"{path}: shape is {list(values.shape)}; expected numbers [h, w]")
        return values
    try:
        picture = read_picture(path)
    except DecodeError as error:
        raise InputError(f"{path}: not a readable map ({error})") from None
    if picture.photometric not in RANGES:
        raise InputError(f"{path}: mode is {picture.photometric}; expected a grey image")
    return picture.values / RANGES[picture.photometric]


def score(table: ExternalTable, inputs: Inputs, settings: PhraseGroundingSettings) -> Predictions:
    """Score the maps that the column ``map`` names, below the folder of the table."""
    table.require_key("sample_id")
    samples, dropped = usable_samples(read_samples(inputs, settings), inputs.pixels, settings)
    paths = []
    for name in table.column(samples, "map").astype("str"):
        try:
            paths.append(below(table.path.parent, name))
        except OutsideError:
            raise InputError(
                f"{table.path}: map '{name}' lies outside of the table's folder"
            ) from None

    rescale = "none" if settings.rescale == "auto" else settings.rescale
    scores: pd.DataFrame = score_samples(map(read_map, paths), samples, WHOLE, settings, rescale)
    predictions = predictions_of(inputs, scores, dropped, np.empty((0, 0, 0)), settings, rescale)
    protocol = {**predictions.protocol, "geometry": str(WHOLE), "grid": "each map's"}
    return replace(predictions, protocol=protocol, arrays={})
