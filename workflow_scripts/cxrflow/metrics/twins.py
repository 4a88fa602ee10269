"""Does a model tell true pairs from false ones better than its twins?

A twin is what the model would be if it had learnt nothing: another draw of the same start. Images
and texts of a patient have things in common (a size, a sex, how a hospital writes), and any
projection of them, a random one too, hits or misses some of these. So pairs of an untrained model
differ from permuted ones, the surer the more pairs there are. Twins differ as much, and one that
has learnt nothing is one more twin: of N + 1 values that may be exchanged each is as likely to be
the greatest, whatever their distribution and however many pairs they are of. So a model above N =
19 twins is so by luck in one case of twenty (a permutation test of Monte Carlo form: Dwass 1957,
Ann Math Stat 28:181; Barnard 1963, J R Stat Soc B 25:294).

Shapes: T statistics (of terms that answer one question), N twins.
"""

import numpy as np
from numpy.typing import ArrayLike

TWINS = 19  # a model above all of them has p = 1 / 20
DIGITS = 9  # of a statistic; what differs by rounding alone is a tie


def twin_p(model_T: ArrayLike, twins_TN: ArrayLike) -> float:
    """The one-sided p of a model's statistics among those of its twins; greater ones are better.

    Of several statistics the one that stands out most counts, in the model as in each twin (the
    max-statistic of Westfall and Young 1993). Each is measured from the mean of all N + 1 values,
    in their deviations, so that these may still be exchanged. A tie counts against the model.
    """
    value_TM = np.round(np.column_stack([model_T, twins_TN]).astype(float), DIGITS)
    spread_T1 = value_TM.std(axis=1, keepdims=True)
    from_mean_TM = value_TM - value_TM.mean(axis=1, keepdims=True)
    unit_TM = np.divide(from_mean_TM, spread_T1, out=np.zeros_like(value_TM), where=spread_T1 > 0)
    most_M = np.round(unit_TM.max(axis=0), DIGITS)
    return float(np.mean(most_M >= most_M[0]))
