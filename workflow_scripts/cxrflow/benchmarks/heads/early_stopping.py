"""Linear heads that learn until validation no longer gets better: the runs of a share in lock step.

ConVIRT Appendix B: Adam with an L2 penalty in the gradient, dropout of the features, batches of a
run's own rows in its own order, a validation score after each epoch that halves the rate, ends the
run and chooses the weights. The runs of a share have equally many rows, so that an update of all K
is one [K, B, F] x [K, F, C] product with a gradient in closed form. Each run has its own rate and
its own end, after which it leaves the product, and ends where it would have ended alone.

Shapes: N rows of features, F features, C classes, K runs, B rows of a batch; G = F + 1.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cxrflow.training.monitor import Monitor
from cxrflow.training.sampler import epoch_order
from cxrflow.training.settings import TrainingSettings

BETAS, EPSILON = (0.9, 0.999), 1e-8  # Adam's


def new_head(features: int, classes: int, seed: int) -> nn.Linear:
    """A linear layer as torch starts one, by a seed of its own."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Linear(features, classes)


@dataclass(frozen=True)
class HeadRun:
    """A head before training, and the rows that it learns from."""

    rows: NDArray[np.int64]  # of the feature matrix, each once
    seed: int  # of their order, and of dropout
    start: nn.Linear


@dataclass
class TrainedHead:
    """A head at its best epoch, and how it came there."""

    head_GC: Tensor  # the bias last
    monitor: Monitor = field(default_factory=Monitor)  # whose steps are epochs
    epochs: int = 0

    def logits(self, features_NF: Tensor) -> Tensor:
        """[N, C], on the device of the features."""
        head_GC = self.head_GC.to(features_NF.device)
        return torch.addmm(head_GC[-1], features_NF, head_GC[:-1])


class LockStep:
    """Heads and Adam's moments of runs that learn together; labels 1, 0 or NaN [N, C].

    ``exclusive``: one softmax over the classes, else a sigmoid each, whose loss is the mean over
    the labels of a batch that are known.
    """

    def __init__(
        self,
        features_NF: Tensor,
        labels_NC: Tensor,
        exclusive: bool,
        runs: Sequence[HeadRun],
        dropout: float,
        weight_decay: float,
    ) -> None:
        self.features_NF, self.exclusive = features_NF, exclusive
        self.known_NC = labels_NC.isfinite().to(features_NF)
        self.targets_NC = labels_NC.nan_to_num().to(features_NF)
        self.dropout, self.weight_decay = dropout, weight_decay
        starts = [torch.cat([run.start.weight.detach().T, run.start.bias[None]]) for run in runs]
        self.head_KGC = torch.stack(starts).detach().to(features_NF)
        self.first_KGC = torch.zeros_like(self.head_KGC)
        self.second_KGC = torch.zeros_like(self.head_KGC)
        device = features_NF.device
        self.draws = [torch.Generator(device).manual_seed(run.seed) for run in runs]
        self.updates = 0

    def keep(self, places: Sequence[int]) -> None:
        """Go on with some of the runs."""
        chosen = torch.tensor(places, device=self.head_KGC.device)
        self.head_KGC, self.first_KGC, self.second_KGC = (
            tensor[chosen] for tensor in (self.head_KGC, self.first_KGC, self.second_KGC)
        )
        self.draws = [self.draws[place] for place in places]

    def update(self, rows_KB: Tensor, rates: Sequence[float]) -> None:
        """One step of Adam on a batch of each run, at a rate of its own."""
        runs, batch = rows_KB.shape
        flat = rows_KB.to(self.features_NF.device).flatten()
        x_KBF = self.features_NF[flat].view(runs, batch, -1)
        if self.dropout:
            kept_KBF = torch.empty_like(x_KBF)
            for kept_BF, draws in zip(kept_KBF, self.draws, strict=True):
                kept_BF.bernoulli_(1 - self.dropout, generator=draws)
            x_KBF.mul_(kept_KBF.div_(1 - self.dropout))
        target_KBC = self.targets_NC[flat].view(runs, batch, -1)
        logits_KBC = torch.baddbmm(self.head_KGC[:, -1:], x_KBF, self.head_KGC[:, :-1])
        if self.exclusive:
            error_KBC = logits_KBC.softmax(2).sub_(target_KBC).div_(batch)
        else:
            known_KBC = self.known_NC[flat].view(runs, batch, -1)
            number_K11 = known_KBC.sum((1, 2), keepdim=True).clamp(min=1)
            error_KBC = logits_KBC.sigmoid().sub_(target_KBC).mul_(known_KBC).div_(number_K11)
        gradient_KGC = torch.cat(
            [torch.bmm(x_KBF.mT, error_KBC), error_KBC.sum(1, keepdim=True)], dim=1
        ).add_(self.head_KGC, alpha=self.weight_decay)
        self.updates += 1
        self.first_KGC.lerp_(gradient_KGC, 1 - BETAS[0])
        self.second_KGC.mul_(BETAS[1]).addcmul_(gradient_KGC, gradient_KGC, value=1 - BETAS[1])
        spread = self.second_KGC.sqrt().div_((1 - BETAS[1] ** self.updates) ** 0.5).add_(EPSILON)
        rate_K11 = self.head_KGC.new_tensor(rates)[:, None, None]
        step = torch.div(self.first_KGC, spread).mul_(rate_K11 / (1 - BETAS[0] ** self.updates))
        self.head_KGC.sub_(step)


def batches(runs: Sequence[HeadRun], batch_size: int, epoch: int) -> list[Tensor]:
    """Rows [K, B] of the batches of an epoch, each row once; the last may be short."""
    orders = [run.rows[epoch_order(len(run.rows), run.seed, epoch)] for run in runs]
    return list(torch.from_numpy(np.stack(orders)).split(batch_size, dim=1))


def interval_batches(
    runs: Sequence[HeadRun], batch_size: int, number: int, updates: int | None
) -> list[Tensor]:
    """Rows [K, B] of the batches before validation ``number``: an epoch's, or so many updates'."""
    if updates is None:
        return batches(runs, batch_size, number)
    in_epoch = -(-len(runs[0].rows) // batch_size)
    places = [
        divmod(update, in_epoch) for update in range(number * updates, (number + 1) * updates)
    ]
    by_epoch = {epoch: batches(runs, batch_size, epoch) for epoch in {epoch for epoch, _ in places}}
    return [by_epoch[epoch][index] for epoch, index in places]


def warm_up(
    lock_step: LockStep, runs: Sequence[HeadRun], updates: int, batch_size: int, rate: float
) -> Tensor:
    """The heads [K, G, C] after so many updates at one rate."""
    epoch = 0
    while lock_step.updates < updates:
        for rows_KB in batches(runs, batch_size, epoch)[: updates - lock_step.updates]:
            lock_step.update(rows_KB, [rate] * len(runs))
        epoch += 1
    return lock_step.head_KGC


@torch.no_grad()
def train_until_plateau(
    lock_step: LockStep,
    runs: Sequence[HeadRun],
    validation: Callable[[TrainedHead], Mapping[str, float]],
    batch_size: int,
    learning_rate: float,
    rhythm: TrainingSettings,
) -> list[TrainedHead]:
    """Each run to its end; the heads are those of the best validation.

    ``validation``: of a head, by name; ``rhythm``: which of it counts, what follows from it, after
    how many updates it comes (``validate_steps``; None: after an epoch), and the most of them.
    """
    trained = [TrainedHead(head_GC.clone()) for head_GC in lock_step.head_KGC]
    going = list(range(len(runs)))
    for epoch in range(rhythm.epochs or 0):
        rates = [
            learning_rate * rhythm.schedule.factor ** trained[k].monitor.plateaus for k in going
        ]
        rows = interval_batches([runs[k] for k in going], batch_size, epoch, rhythm.validate_steps)
        for rows_KB in rows:
            lock_step.update(rows_KB, rates)
        for place, k in enumerate(going):
            now = TrainedHead(lock_step.head_KGC[place])
            trained[k].epochs = epoch + 1
            if trained[k].monitor.take(validation(now), epoch + 1, rhythm):
                trained[k].head_GC = now.head_GC.clone()
        batches_left = [
            place for place, k in enumerate(going) if not trained[k].monitor.out_of_patience(rhythm)
        ]
        if not batches_left:
            break
        if len(batches_left) < len(going):
            lock_step.keep(batches_left)
            going = [going[place] for place in batches_left]
    return trained
