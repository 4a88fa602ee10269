"""Pairs of samples of a batch that are positive for one class, as many of each (MedCutMix).

Shapes: N samples of a batch, C classes.
"""

from random import Random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class PositivePair(NamedTuple):
    """A source, whose sentences and regions are taken, and the target that they go into."""

    source: int
    target: int
    class_number: int


def draw_pairs(
    positive_NC: NDArray[np.bool_], patients_N: NDArray[np.str_], count: int, random: Random
) -> list[PositivePair]:
    """Draw at most ``count`` pairs of each class, of samples of different patients.

    A sample is the source of at most one pair of a class. Its target is a sample of the class of
    any other patient; all are equally likely.
    """
    pairs: list[PositivePair] = []
    for class_number in range(positive_NC.shape[1]):
        places = np.flatnonzero(positive_NC[:, class_number]).tolist()
        random.shuffle(places)
        of_class: list[PositivePair] = []
        for source in places:
            targets = [place for place in places if patients_N[place] != patients_N[source]]
            if targets and len(of_class) < count:
                of_class.append(PositivePair(source, random.choice(targets), class_number))
        pairs += of_class
    return pairs
