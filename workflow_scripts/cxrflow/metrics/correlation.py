"""Pearson's and Kendall's correlation under resampling counts."""

import numpy as np
from numpy.typing import ArrayLike

from cxrflow.metrics.intervals import Floats


def correlation(x: ArrayLike, y: ArrayLike, counts: Floats) -> Floats:
    """Correlation [R] of x and y [N], each pair counted as often as ``counts`` [R, N] says.

    NaN where one of them does not vary.
    """
    x_N, y_N = (np.asarray(values, dtype=np.float64) for values in (x, y))
    total_R1 = counts.sum(axis=1, keepdims=True)
    x_RN, y_RN = (values - counts @ values[:, None] / total_R1 for values in (x_N, y_N))
    covariance, variance_x, variance_y = (
        (counts * product).sum(axis=1) for product in (x_RN * y_RN, x_RN**2, y_RN**2)
    )
    spread = np.sqrt(variance_x * variance_y)
    return np.clip(covariance / np.where(spread > 0, spread, np.nan), -1, 1)


def kendall_tau(x: ArrayLike, y: ArrayLike, counts: Floats) -> Floats:
    """Kendall's tau-b [R] of x and y [N], each pair counted as ``counts`` [R, N] says.

    Of all pairs of samples i < j: the concordant less the discordant, over the root of the product
    of those that x tells apart and those that y does (Kendall 1945). NaN where one of them does not
    vary. Time and memory grow with N squared.
    """
    x_NN, y_NN = (
        np.sign(values[:, None] - values[None])
        for values in (np.asarray(each, dtype=np.float64) for each in (x, y))
    )
    agreement, told_x, told_y = (
        ((counts @ signs) * counts).sum(axis=1)
        for signs in (x_NN * y_NN, np.abs(x_NN), np.abs(y_NN))
    )
    spread = np.sqrt(told_x * told_y)
    return np.clip(agreement / np.where(spread > 0, spread, np.nan), -1, 1)
