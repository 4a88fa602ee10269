"""What stands where a model or its pictures would, while nothing but the rows of a cohort is there.

Trainings and benchmarks read rows through these until they ask for something else
(:mod:`cxrflow.data.cohorts.demands`).
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray


class Asked(Exception):
    """The rows have been read, and something else than rows is asked for."""


class NotRead:
    """Stands for a model, of which nothing is known: whatever is asked of it ends the reading."""

    def __getattr__(self, name: str) -> Any:
        raise Asked(name)


class EveryImage(NotRead):
    """Stands for a pixel store that holds every image; which are damaged only the store can say."""

    path, geometry, fingerprint = Path("pixels"), "", ""
    view = boxes = None

    def holds(self, image_ids: Iterable[str]) -> NDArray[np.bool_]:
        """Which images are in the store: all that have a name."""
        return pd.Series(list(image_ids), dtype=object).notna().to_numpy()

    def rows(self, image_ids: Iterable[str]) -> NDArray[np.int64]:
        """The places of the images, int64 [N]."""
        return np.arange(len(list(image_ids)))

    find = rows
