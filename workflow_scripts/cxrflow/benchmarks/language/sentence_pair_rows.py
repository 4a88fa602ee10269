"""Rows of a natural language inference cohort, as both of its benchmarks need them."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxrflow.metrics.intervals import clusters_of

COLUMNS = ("sample_id", "premise", "hypothesis", "label", "split")


def pair_numbers(samples: pd.DataFrame) -> NDArray[np.int64]:
    """Numbers [N] of the two sentences of each row, the same in both directions."""
    pairs = zip(samples["premise"], samples["hypothesis"], strict=True)
    return clusters_of([" ||| ".join(sorted(pair)) for pair in pairs])


def pair_clusters(predictions: pd.DataFrame, unit: str) -> NDArray[np.int64]:
    """Cluster numbers [N] of a table with a column ``pair`` (:func:`pair_numbers`).

    RadNLI holds every pair in both directions, which are no independent samples. ``unit`` "sample"
    makes each direction its own; "subject" means the pair, since patients are not known.
    """
    return clusters_of(predictions["pair"], unit)
