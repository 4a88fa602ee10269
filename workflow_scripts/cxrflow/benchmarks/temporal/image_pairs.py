"""Labelled pairs of images of a finding, and what an image encoder makes of a pair.

Shapes: B pairs, F features, P joint space.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrflow.benchmarks.grounding.controls import exchange
from cxrflow.benchmarks.inputs import PRIOR, Pixels, read_frames
from cxrflow.encoders.frames import Frames
from cxrflow.encoders.image_encoder import ImageEncoder
from cxrflow.errors import InputError
from cxrflow.images.alignments import RegisteredPriors


@dataclass(frozen=True)
class LabelledPairs:
    """Pairs of one finding: their rows of the pixel store, and their class numbers [N]."""

    table: pd.DataFrame
    current: NDArray[np.int64]
    prior: NDArray[np.int64]
    labels: NDArray[np.int64]

    @classmethod
    def of(cls, table: pd.DataFrame, pixels: Pixels, classes: Sequence[str]) -> "LabelledPairs":
        """The pairs of a table, all of whose images are stored."""
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

    def rows(self, rows: NDArray[np.int64]) -> "LabelledPairs":
        """Some of the pairs."""
        table = self.table.iloc[rows].reset_index(drop=True)
        return LabelledPairs(table, self.current[rows], self.prior[rows], self.labels[rows])

    def other_priors(self) -> "LabelledPairs":
        """The same with priors of other patients, and what the table says of them: a control."""
        partner = exchange(self.table["subject_id"].astype(str))
        if (partner < 0).any():
            raise InputError(
                f"samples.parquet: more than half of the {len(self)} pairs that are scored are of "
                "one patient; the control needs priors of others"
            )
        named = [name for name in self.table.columns if str(name).startswith("prior_")]
        lent = self.table[named].iloc[partner].set_axis(self.table.index)
        return replace(self, table=self.table.assign(**lent), prior=self.prior[partner])


def encode(image: ImageEncoder, frames: Frames[Tensor], projected: bool) -> Tensor:
    """Features of pairs: [B, P] projected, else [B, F] of the trunk.

    An encoder of one image sees both apart; its features are laid side by side, [B, 2 F] (section
    4.2).
    """
    if image.takes_prior:
        return image(frames).projected_global if projected else image.encoder(frames).pooled
    assert frames.prior is not None
    both = Frames(torch.cat([frames.current, frames.prior]))
    features = image(both).projected_global if projected else image.encoder(both).pooled
    return torch.cat(features.chunk(2), dim=1)


@torch.no_grad()
def encode_all(
    image: ImageEncoder,
    pixels: Pixels,
    pairs: LabelledPairs,
    batch_size: int,
    device: torch.device,
    projected: bool,
) -> Tensor:
    """Features [N, F] of all pairs, as they are stored; float32 on the CPU."""
    found = []
    for begin in range(0, len(pairs), batch_size):
        part = slice(begin, begin + batch_size)
        frames = read_frames(pixels, pairs.current[part], pairs.prior[part])
        features = encode(image, frames.each(lambda one: one.to(device)), projected)
        found.append(features.float().cpu())
    return torch.cat(found)
