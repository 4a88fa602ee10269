"""The samples of a split and their attributes, which samplers and terms read.

Shapes: N samples, C classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class SampleTable:
    """The samples of a split, a row a sample; an attribute that the data do not have is None.

    Attributes:
        ids: [N], what messages call a sample.
        with_prior: [N], bool, True for a sample with a prior image; None where the model compares
            no images.
        groups: [N], str, the study of each image, over which scores may be averaged.
        labels: [N, C], 1, 0, -1 (uncertain) or NaN (not known); programs that train on labels put
            here what they train on.
        classes: names of the C classes.
    """

    ids: Sequence[Any]
    with_prior: NDArray[np.bool_] | None = None
    groups: NDArray[np.str_] | None = None
    labels: NDArray[Any] | None = None
    classes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)
