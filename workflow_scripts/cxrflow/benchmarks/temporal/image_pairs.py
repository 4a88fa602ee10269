"""Labelled pairs of images of a finding, and their features.

Shapes: B pairs, F features, P joint space.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxr_files.errors import InputError
from cxrflow.benchmarks.controls import exchange
from cxrflow.benchmarks.inputs import PRIOR, Pixels, read_frames
from cxrflow.benchmarks.temporal.settings import PairFeatures
from cxrflow.encoders.image_encoder import Frames, ImageEncoder
from cxrflow.images.alignments import RegisteredPriors


@dataclass(frozen=True)
class ImagePairs:
    """Labelled pairs of one finding: rows of the pixel store [N] and class numbers [N]."""

    table: pd.DataFrame
    current: NDArray[np.int64]
    prior: NDArray[np.int64]
    labels: NDArray[np.int64]

    @classmethod
    def of(cls, table: pd.DataFrame, pixels: Pixels, classes: Sequence[str]) -> "ImagePairs":
        """Return the pairs of a table, all of whose images must be in the store."""
        table = table.reset_index(drop=True)
        numbers = table["label"].map({name: place for place, name in enumerate(classes)})
        current = pixels.rows(table["image_id"])
        if isinstance(pixels, RegisteredPriors):
            prior = pixels.prior_rows(table["image_id"], table[PRIOR])
        else:
            prior = pixels.rows(table[PRIOR])
        return cls(table, current, prior, np.array(numbers, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.table)

    def rows(self, rows: NDArray[np.int64]) -> "ImagePairs":
        """Return the pairs of these rows."""
        table = self.table.iloc[rows].reset_index(drop=True)
        return ImagePairs(table, self.current[rows], self.prior[rows], self.labels[rows])

    def other_priors(self) -> "ImagePairs":
        """Return the pairs with another patient's prior and prior columns: the control."""
        partner = exchange(self.table["subject_id"].astype(str))
        if (partner < 0).any():
            raise InputError(
                f"samples.parquet: more than half of the {len(self)} pairs that are scored are of "
                "one patient; the control needs priors of others"
            )
        columns = [name for name in self.table.columns if str(name).startswith("prior_")]
        lent = self.table[columns].iloc[partner].set_axis(self.table.index)
        return replace(self, table=self.table.assign(**lent), prior=self.prior[partner])


def encode(
    image: ImageEncoder, frames: Frames[Tensor], projected: bool, features: PairFeatures = "pair"
) -> Tensor:
    """Return features of pairs: [B, P] projected, else [B, F] of the trunk.

    An encoder of one image encodes each by itself, and the features are concatenated, [B, 2 F]
    (section 4.2). ``features`` of the trunk alone: ``current`` [B, F], and ``differences``, those
    of the pair beside d and |d|, where d [B, F] is the current image's less the prior's.
    """
    assert frames.prior is not None
    if features == "current":
        return image.encoder(Frames(frames.current)).pooled
    if image.takes_prior:
        pair = image(frames).projected_global if projected else image.encoder(frames).pooled
        if features == "pair":
            return pair
    images = Frames(torch.cat([frames.current, frames.prior]))
    single = image(images).projected_global if projected else image.encoder(images).pooled
    current, prior = single.chunk(2)
    if not image.takes_prior:
        pair = torch.cat([current, prior], dim=1)
    if features == "pair":
        return pair
    difference = current - prior
    return torch.cat([pair, difference, difference.abs()], dim=1)


@torch.no_grad()
def encode_all(
    image: ImageEncoder,
    pixels: Pixels,
    pairs: ImagePairs,
    batch_size: int,
    device: torch.device,
    projected: bool,
    features: PairFeatures = "pair",
) -> Tensor:
    """Return features [N, F] of all pairs, not augmented; float32 on the CPU."""
    batches = []
    for begin in range(0, len(pairs), batch_size):
        rows = slice(begin, begin + batch_size)
        frames = read_frames(pixels, pairs.current[rows], pairs.prior[rows])
        frames = frames.each(lambda images: images.to(device))
        batches.append(encode(image, frames, projected, features).float().cpu())
    return torch.cat(batches)
