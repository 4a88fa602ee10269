"""Controls: scores after one input is exchanged for another patient's, or another finding's."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxrflow.metrics.intervals import clusters_of


def exchange(groups: pd.Series) -> NDArray[np.int64]:
    """A permutation [N] that gives each sample one of another group; -1 where none is left.

    Samples are ordered by group, groups and samples at random, and moved on by the size of the
    largest group: none then meets its own, as long as no group holds more than half of them. A
    missing group is one of its own.
    """
    codes = clusters_of(groups)
    rng = np.random.default_rng(0)
    order = np.lexsort((rng.permutation(len(codes)), rng.permutation(codes.max() + 1)[codes]))
    partner = np.empty(len(codes), dtype=np.int64)
    partner[order] = np.roll(order, -int(np.bincount(codes).max()))
    return np.where(codes[partner] == codes, -1, partner)
