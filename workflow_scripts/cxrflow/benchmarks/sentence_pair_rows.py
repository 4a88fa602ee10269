"""Rows of a natural language inference cohort, as both of its benchmarks need them."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxrflow.metrics.intervals import clusters_of

COLUMNS = ("sample_id", "premise", "hypothesis", "label", "split")


def pair_clusters(samples: pd.DataFrame, unit: str) -> NDArray[np.int64]:
    """Cluster numbers [N]: the same for two sentences in both directions.

    RadNLI holds every pair in both, which are no independent samples. ``unit`` "sample" makes each
    direction its own; "subject" means the pair, since patients are not known.
    """
    pairs = zip(samples["premise"], samples["hypothesis"], strict=True)
    return clusters_of([" ||| ".join(sorted(pair)) for pair in pairs], unit)
