"""A sweep of linear heads that validation stops (ConVIRT Appendix B): shares of the labels x runs.

Ours encodes every image once and trains the runs of a share in lock step. The first peer passes its
batches, and the validation images, through the frozen network in every epoch of every run, as
training loops do; the second encodes once too and then trains run by run, with torch's own layer,
loss and Adam. All see the same batches and drop the same features.
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from cxrflow.benchmarks.classification.probe_settings import LinearClassificationSettings
from cxrflow.benchmarks.heads.early_stopping import (
    HeadRun,
    LockStep,
    TrainedHead,
    batches,
    new_head,
    train_until_plateau,
)
from cxrflow.benchmarks.heads.shares import share_rows
from cxrflow.encoders.resnet import ResNet
from cxrflow.metrics.classification import auroc
from cxrflow.training.monitor import Monitor
from speed.race import Race
from speed.races.linear_sweep import ENCODER, ImageSet, draw, encode

RATE, DECAY, DROPOUT, BATCH, WIDTH = 1e-2, 1e-6, 0.2, 64, 8 * ENCODER.width


def runs_of(labels_N: Tensor, shares: Sequence[float], seeds: int) -> list[list[HeadRun]]:
    """The runs of each share, each with rows and a start of its own."""
    labels = labels_N.numpy()
    return [
        [
            HeadRun(share_rows(labels, share, seed), seed, new_head(WIDTH, 1, seed))
            for seed in range(seeds)
        ]
        for share in shares
    ]


def score(logits_N1: Tensor, labels_N: Tensor) -> dict[str, float]:
    """The validation score, by its name."""
    return {"auroc": float(auroc(labels_N.numpy(), logits_N1[:, 0].numpy()))}


def train_alone(
    run: HeadRun,
    labels_N: Tensor,
    features_of: Callable[[Tensor], Tensor],
    validate: Callable[[nn.Linear], dict[str, float]],
    settings: LinearClassificationSettings,
) -> nn.Linear:
    """One head until its validation score no longer gets better; ``features_of`` takes rows."""
    head, best, monitor = nn.Linear(WIDTH, 1), run.start.state_dict(), Monitor()
    head.load_state_dict(best)
    optimiser = torch.optim.Adam(head.parameters(), lr=RATE, weight_decay=DECAY, fused=True)
    draws = torch.Generator().manual_seed(run.seed)
    for epoch in range(settings.epochs):
        optimiser.param_groups[0]["lr"] = RATE * settings.factor**monitor.plateaus
        for (rows,) in batches([run], BATCH, epoch):
            x = features_of(rows)
            x = x * torch.empty_like(x).bernoulli_(1 - DROPOUT, generator=draws) / (1 - DROPOUT)
            optimiser.zero_grad()
            loss = nn.functional.binary_cross_entropy_with_logits(
                head(x)[:, 0], labels_N[rows].float()
            )
            loss.backward()
            optimiser.step()
        with torch.no_grad():
            if monitor.take(validate(head), epoch + 1, settings.rhythm):
                best = {name: value.clone() for name, value in head.state_dict().items()}
        if monitor.out_of_patience(settings.rhythm):
            break
    head.load_state_dict(best)
    return head


def same(ours: Tensor, peer: Tensor) -> None:
    """The logits of every head on every test image, to rounding."""
    torch.testing.assert_close(ours, peer, rtol=0, atol=1e-4)
    assert peer.std() > 0.01, "heads that learnt nothing"


def races(images: int = 800, side: int = 48, epochs: int = 30) -> list[Race]:
    """15 runs: 1, 10 and 100 % of the labels of an invented set, five of each."""
    torch.manual_seed(0)
    network = ResNet(ENCODER).eval()
    settings = LinearClassificationSettings(epochs=epochs)
    every = draw(images, side, 1)
    held_out = len(every.labels_N) // 6
    train = ImageSet(
        every.train_N1HW[held_out:], every.labels_N[held_out:], every.test_N1HW
    )  # the first sixth chooses the epochs
    validation, truth = every.train_N1HW[:held_out], every.labels_N[:held_out]
    sweeps = runs_of(train.labels_N, [0.01, 0.1, 1.0], 5)

    def features() -> list[Tensor]:
        parts = (train.train_N1HW, validation, train.test_N1HW)
        # Not inference tensors, which a backward pass may not keep.
        return [encode(network, part).clone() for part in parts]

    def ours() -> Tensor:
        learnt, chosen, tested = features()

        def validate(head: TrainedHead) -> dict[str, float]:
            return score(head.logits(chosen), truth)

        found = []
        for runs in sweeps:
            labels = train.labels_N[:, None].float()
            lock_step = LockStep(learnt, labels, False, runs, DROPOUT, DECAY)
            heads = train_until_plateau(lock_step, runs, validate, BATCH, RATE, settings.rhythm)
            found += [head.logits(tested) for head in heads]
        return torch.stack(found)

    def run_by_run() -> Tensor:
        learnt, chosen, tested = features()

        def validate(head: nn.Linear) -> dict[str, float]:
            return score(head(chosen), truth)

        alone = partial(
            train_alone,
            labels_N=train.labels_N,
            features_of=learnt.__getitem__,
            validate=validate,
            settings=settings,
        )
        heads = [alone(run) for runs in sweeps for run in runs]
        return torch.stack([head(tested).detach() for head in heads])

    def every_epoch() -> Tensor:
        def features_of(rows: Tensor) -> Tensor:
            with torch.no_grad():
                return network(train.train_N1HW[rows]).mean((2, 3))

        def validate(head: nn.Linear) -> dict[str, float]:
            return score(head(encode(network, validation)), truth)

        alone = partial(
            train_alone,
            labels_N=train.labels_N,
            features_of=features_of,
            validate=validate,
            settings=settings,
        )
        heads = [alone(run) for runs in sweeps for run in runs]
        with torch.no_grad():
            return torch.stack([head(encode(network, train.test_N1HW)) for head in heads])

    count = sum(map(len, sweeps))
    return [
        Race(
            name="stopped_sweep",
            what=f"{count} linear heads stopped by validation: {len(train.labels_N)} images of "
            f"{side} pixels, 1, 10 and 100 % of the labels, five runs, {held_out} images to choose "
            f"by, at most {epochs} epochs; logits of {len(train.test_N1HW)} test images each",
            ours=ours,
            peers={"network in every epoch": every_epoch, "run by run": run_by_run},
            check=same,
            gates={"network in every epoch": 20.0},
            amount=count,
            unit="run",
            notes=["'run by run' encodes every image once, as ours does"],
            most_rounds=3,
        )
    ]
