"""Linear heads on frozen features: all runs of a sweep (fractions, seeds, rates) in one product.

A head is softmax regression (logits = features · weight + bias, cross-entropy, AdamW on batches of
the run's own rows in the run's own order; BioViL section 2.2, "Few-shot Tasks"), or a logistic
regression a class. Update t of all K runs is one [K, B, F] x [K, F, C] product with a gradient in
closed form, so that a sweep costs little more than its longest run. Runs with fewer rows make fewer
updates and drop out earlier.

Shapes: N rows of features, F features, C classes, K runs, B rows of a batch, S updates.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrflow.training.order import epoch_order

_BLOCK = 2**20  # row numbers of batches held at once


@dataclass(frozen=True)
class ProbeRun:
    """One head of a sweep: what it is trained on, in which order, and where it starts."""

    rows: NDArray[np.int64]  # rows of the feature matrix, each once
    seed: int  # of the order; runs of equal rows and seed see the same batches
    weight_FC: Tensor
    bias_C: Tensor
    learning_rate: float = 0.0  # of AdamW

    def updates(self, epochs: int, batch_size: int) -> int:
        """Number of updates: the last batch of an epoch may be short."""
        return epochs * -(-len(self.rows) // batch_size)

    def batches(self, batch_size: int, begin: int, end: int) -> NDArray[np.int64]:
        """Rows of the updates from ``begin`` to ``end``: [end - begin, B], -1 where a batch ends.

        Every epoch visits each row once, in an order of its own (a function of seed and epoch).
        """
        size = len(self.rows)
        per_epoch = -(-size // batch_size)
        first, last = begin // per_epoch, -(-end // per_epoch)
        padded = np.full((last - first, per_epoch * batch_size), -1, dtype=np.int64)
        for epoch in range(first, last):
            padded[epoch - first, :size] = self.rows[epoch_order(size, self.seed, epoch)]
        return padded.reshape(-1, batch_size)[begin - first * per_epoch : end - first * per_epoch]


class LinearHeads(NamedTuple):
    """K trained heads, in the order of their runs."""

    weight_KFC: Tensor
    bias_KC: Tensor

    def logits(self, features_NF: Tensor) -> Tensor:
        """[K, N, C] for features in the units the heads were trained on."""
        return torch.einsum("nf,kfc->knc", features_NF, self.weight_KFC) + self.bias_KC[:, None]


@torch.no_grad()
def train_heads(
    features_NF: Tensor,
    labels: Tensor,
    runs: Sequence[ProbeRun],
    *,
    epochs: int,
    batch_size: int,
    weight_decay: float = 0.0,
    standardise: bool = False,
    betas: tuple[float, float] = (0.9, 0.999),
    epsilon: float = 1e-8,
) -> LinearHeads:
    """Train all ``runs`` together: each ends where it would have ended alone, up to rounding.

    Args:
        features_NF: floating point; its precision and device are those of the training.
        labels: class numbers [N] below C, int64, of a softmax; or 0, 1 and NaN [N, C] for a sigmoid
            a class, whose loss is the mean over the batch's rows with a label of it.
        epochs: passes of each run over its own rows.
        batch_size: rows of an update; a run with fewer takes them all.
        weight_decay: of AdamW, not on the bias.
        standardise: train on features with mean 0 and variance 1 over the run's own rows (one that
            is constant there stays 0). The heads given back take the features as they are, and so
            do those the runs start from.

    Raises:
        ValueError: no runs, a run without rows, or a label that is not a class.
    """
    _check(labels, runs)
    longest_first = sorted(
        range(len(runs)), key=lambda k: runs[k].updates(epochs, batch_size), reverse=True
    )
    ordered = [runs[k] for k in longest_first]
    sweep = _Sweep(features_NF, labels, ordered, standardise)
    batch_size = min(batch_size, max(len(run.rows) for run in ordered))
    updates = np.array([run.updates(epochs, batch_size) for run in ordered])
    for begin, end in _spans(updates, batch_size):
        # Those that still go on stand first, so that they are views and not copies.
        running = ordered[: int((updates > begin).sum())]
        rows = np.stack([run.batches(batch_size, begin, end) for run in running], axis=1)
        sweep.advance(torch.from_numpy(rows), begin, weight_decay, betas, epsilon)
    back = torch.from_numpy(np.argsort(longest_first))
    heads_KGC = sweep.heads()[back.to(features_NF.device)]
    return LinearHeads(heads_KGC[:, :-1], heads_KGC[:, -1])


def _check(labels: Tensor, runs: Sequence[ProbeRun]) -> None:
    if not runs:
        raise ValueError("runs: expected at least one")
    for number, run in enumerate(runs):
        if not len(run.rows):
            raise ValueError(f"run {number} has no rows")
        own = labels[torch.from_numpy(run.rows).to(labels.device)]
        if labels.ndim == 1 and (own.min() < 0 or own.max() >= len(run.bias_C)):
            raise ValueError(
                f"run {number}: labels from {int(own.min())} to {int(own.max())}; "
                f"expected 0 to {len(run.bias_C) - 1}"
            )


def _spans(updates: NDArray[np.int64], batch_size: int) -> Iterator[tuple[int, int]]:
    """Stretches of updates in which no run ends, short enough that their batches fit in memory."""
    begin = 0
    for end in sorted(set(updates.tolist())):
        length = max(1, _BLOCK // (batch_size * int((updates > begin).sum())))
        yield from ((at, min(at + length, end)) for at in range(begin, end, length))
        begin = end


class _Sweep:
    """Heads, Adam's moments and the data; the bias is the weight of one more feature, always 1."""

    def __init__(
        self, features_NF: Tensor, labels: Tensor, runs: Sequence[ProbeRun], standardise: bool
    ) -> None:
        self.features_NG = torch.cat([features_NF, features_NF.new_ones(len(features_NF), 1)], 1)
        self.known_NC: Tensor | None = None
        if labels.ndim == 1:
            classes = torch.eye(len(runs[0].bias_C)).to(features_NF)
            self.targets_NC = classes[labels.to(features_NF.device)]
        else:
            self.targets_NC = labels.to(features_NF).nan_to_num()
            self.known_NC = labels.isfinite().to(features_NF)
        starts = [torch.cat([run.weight_FC, run.bias_C[None]]).to(features_NF) for run in runs]
        self.heads_KGC = torch.stack(starts)
        self.rate_K11 = features_NF.new_tensor([run.learning_rate for run in runs])[:, None, None]
        self.decayed_G1 = self.features_NG.new_ones(self.features_NG.shape[1], 1)
        self.decayed_G1[-1] = 0
        self.mean_K1G: Tensor | None = None
        if standardise:
            moments = torch.stack([self._moments(run.rows) for run in runs])
            self.mean_K1G, self.scale_K1G = moments[:, :1], moments[:, 1:]
            # The same functions of the features, as heads of standardised ones.
            self.heads_KGC[:, -1] += (self.mean_K1G @ self.heads_KGC)[:, 0]
            self.heads_KGC *= self.scale_K1G.mT
        self.first_KGC = torch.zeros_like(self.heads_KGC)
        self.second_KGC = torch.zeros_like(self.heads_KGC)

    def _moments(self, rows: NDArray[np.int64]) -> Tensor:
        """Mean and standard deviation [2, G] over some rows; the latter 1 for what is constant."""
        own = self.features_NG[torch.from_numpy(rows).to(self.features_NG.device)]
        mean_G, scale_G = own.mean(0), own.std(0, correction=0)
        mean_G[-1] = 0  # the bias stays what it is
        # Rounding leaves a constant column a spread of the order of its last digit.
        tiny = 8 * torch.finfo(own.dtype).eps * own.abs().amax(0)
        return torch.stack([mean_G, torch.where(scale_G > tiny, scale_G, 1.0)])

    def heads(self) -> Tensor:
        """[K, F + 1, C] for features as they are, the bias last."""
        if self.mean_K1G is None:
            return self.heads_KGC
        heads_KGC = self.heads_KGC / self.scale_K1G.mT
        heads_KGC[:, -1] -= (self.mean_K1G @ heads_KGC)[:, 0]
        return heads_KGC

    def advance(
        self,
        rows_SKB: Tensor,
        done: int,
        weight_decay: float,
        betas: tuple[float, float],
        epsilon: float,
    ) -> None:
        """S updates of the first K runs, after ``done`` earlier ones."""
        rows_SKB = rows_SKB.to(self.features_NG.device)
        updates, running, batch = rows_SKB.shape
        there_SKB = (rows_SKB >= 0).to(self.features_NG.dtype)
        flat_SB = rows_SKB.clamp(min=0).view(updates, running * batch)
        share_SKB1 = (there_SKB / there_SKB.sum(2, keepdim=True))[..., None]
        head, first, second = (
            whole[:running] for whole in (self.heads_KGC, self.first_KGC, self.second_KGC)
        )
        rate_K11 = self.rate_K11[:running]
        kept_KG1 = 1 - rate_K11 * weight_decay * self.decayed_G1
        for number in range(updates):
            x_KBG = self.features_NG[flat_SB[number]].view(running, batch, -1)
            if self.mean_K1G is not None:
                x_KBG.sub_(self.mean_K1G[:running]).div_(self.scale_K1G[:running])
            target_KBC = self.targets_NC[flat_SB[number]].view(running, batch, -1)
            # Cross-entropy's gradient for the logits, of the batch's mean.
            logits_KBC = torch.bmm(x_KBG, head)
            if self.known_NC is None:
                error_KBC = logits_KBC.softmax(2).sub_(target_KBC).mul_(share_SKB1[number])
            else:
                known_KBC = self.known_NC[flat_SB[number]].view(running, batch, -1)
                known_KBC = known_KBC * there_SKB[number][..., None]
                share_KBC = known_KBC / known_KBC.sum(1, keepdim=True).clamp(min=1)
                error_KBC = logits_KBC.sigmoid().sub_(target_KBC).mul_(share_KBC)
            gradient = torch.bmm(x_KBG.mT, error_KBC)
            first.lerp_(gradient, 1 - betas[0])
            second.mul_(betas[1]).addcmul_(gradient, gradient, value=1 - betas[1])
            step = done + number + 1
            spread = second.sqrt().div_((1 - betas[1] ** step) ** 0.5).add_(epsilon)
            head.mul_(kept_KG1)
            head.sub_(torch.div(first, spread).mul_(rate_K11 / (1 - betas[0] ** step)))
