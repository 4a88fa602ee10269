"""Columns and clusters of a cohort of sentence pairs, for the benchmarks that read one."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxrflow.metrics.intervals import clusters_of

PAIR_COLUMNS = ("sample_id", "premise", "hypothesis", "label", "split")


def pair_numbers(samples: pd.DataFrame) -> NDArray[np.int64]:
    """Return a number [N] for the two sentences of each row, whatever their order."""
    pairs = zip(samples["premise"], samples["hypothesis"], strict=True)
    return clusters_of([" ||| ".join(sorted(pair)) for pair in pairs])


def pair_clusters(predictions: pd.DataFrame, unit: str) -> NDArray[np.int64]:
    """Return cluster numbers [N] of a table with a column ``pair`` (:func:`pair_numbers`).

    RadNLI has every pair in both directions, which are not independent. ``unit`` "sample" makes
    each direction a cluster; "subject" means the pair, since patients are unknown.
    """
    return clusters_of(predictions["pair"], unit)
