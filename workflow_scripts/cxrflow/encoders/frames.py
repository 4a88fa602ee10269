"""The input of image encoders: a study's current image and, where there is one, the prior.

BioViL-T (section 3.1) compares the two. A one-image encoder takes frames without a prior; nothing
else asks how many images there are.
"""

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from torch import Tensor

T = TypeVar("T")
U = TypeVar("U")


class Frames(NamedTuple, Generic[T]):
    """Images of B studies, K of which have a prior; pixels are [B, 1, H, W] and [K, 1, H, W]."""

    current: T
    prior: T | None = None
    rows: Tensor | None = None  # int64 [K], the studies with a prior; None: all

    def each(self, change: Callable[[T], U]) -> "Frames[U]":
        """Apply ``change`` to the current images and to the priors, each for themselves."""
        prior = None if self.prior is None else change(self.prior)
        return Frames(change(self.current), prior, self.rows)
