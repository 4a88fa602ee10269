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
        patients: [N], str, whose sample each is; None where nothing is known of patients.
    """

    ids: Sequence[Any]
    with_prior: NDArray[np.bool_] | None = None
    groups: NDArray[np.str_] | None = None
    labels: NDArray[Any] | None = None
    classes: tuple[str, ...] = ()
    patients: NDArray[np.str_] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def first_of_patients(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Of ``rows``, in their order, the first one of each patient."""
        if self.patients is None:
            return rows
        _, places = np.unique(self.patients[rows], return_index=True)
        return rows[places]
