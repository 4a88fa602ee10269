"""A sweep of linear probes on a frozen image encoder: sets x shares of the labels x seeds.

Ours encodes every image once and trains the heads of a set together. The first peer passes its
batches through the frozen network again in every epoch of every run, as published training loops
do; the second encodes once too and then trains run by run. All see the same batches.

The second race is to the optimum of logistic regression, against scikit-learn, both from features
that are computed once.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

from bench.race import Race
from cxrflow.benchmarks.classification.linear_heads import ProbeRun, train_heads
from cxrflow.benchmarks.classification.linear_probe import share_rows
from cxrflow.benchmarks.classification.logistic_regression import solve_each
from cxrflow.benchmarks.classification.settings import ConvergedSolver
from cxrflow.encoders.resnet import ResNet
from cxrflow.encoders.settings import ImageEncoderSettings
from cxrflow.training.order import epoch_order

BATCH, RATE, DECAY = 32, 1e-3, 0.01
CLASSES = 2
ENCODER = ImageEncoderSettings(block="basic", layers=(1, 1, 1, 1), width=16, channels=1)


@dataclass(frozen=True)
class ImageSet:
    """Invented images [N, 1, H, W] with labels [N]; the rest is for testing."""

    train_N1HW: Tensor
    labels_N: Tensor
    test_N1HW: Tensor


def draw(images: int, side: int, seed: int) -> ImageSet:
    """Noise, with a brighter corner in the images of class 1."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, CLASSES, (images,), generator=generator)
    pixels = torch.rand(images, 1, side, side, generator=generator)
    pixels[:, :, : side // 3, : side // 3] += 0.3 * labels[:, None, None, None]
    train = round(0.7 * images)
    return ImageSet(pixels[:train], labels[:train], pixels[train:])


def runs_of(images: ImageSet, shares: list[float], seeds: int) -> list[ProbeRun]:
    """Every share with every seed: a share's rows differ by seed, heads start at zero."""
    labels = images.labels_N.numpy()
    start = torch.zeros(8 * ENCODER.width, CLASSES)
    return [
        ProbeRun(
            share_rows(labels, share, seed),
            seed,
            start,
            start[0],
            RATE,
        )
        for share in shares
        for seed in range(seeds)
    ]


@torch.inference_mode()
def encode(network: nn.Module, pixels_N1HW: Tensor) -> Tensor:
    """Pooled features [N, F] in batches."""
    return torch.cat([network(part).mean((2, 3)) for part in pixels_N1HW.split(BATCH)])


def train_alone(
    images: ImageSet, run: ProbeRun, epochs: int, features_of: Callable[[Tensor], Tensor]
) -> nn.Linear:
    """One head with torch's own layer, loss and optimiser; ``features_of`` takes row numbers."""
    head = nn.Linear(8 * ENCODER.width, CLASSES)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    groups = [{"params": [head.weight]}, {"params": [head.bias], "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=RATE, weight_decay=DECAY, fused=True)
    for epoch in range(epochs):
        order = torch.from_numpy(run.rows[epoch_order(len(run.rows), run.seed, epoch)])
        for rows in order.split(BATCH):
            optimiser.zero_grad()
            logits = head(features_of(rows))
            nn.functional.cross_entropy(logits, images.labels_N[rows]).backward()
            optimiser.step()
    return head


def same(ours: Tensor, peer: Tensor) -> None:
    """The logits of every head on every test image, to rounding."""
    torch.testing.assert_close(ours, peer, rtol=0, atol=1e-4)
    assert peer.std() > 0.01, "heads that learnt nothing"


def near(ours: Tensor, peer: Tensor) -> None:
    """The logits of every head, as near as the tolerance leaves them."""
    torch.testing.assert_close(ours, peer, rtol=0, atol=1e-2)
    assert peer.std() > 0.01, "heads that learnt nothing"


def races(images: int = 600, side: int = 48, epochs: int = 10) -> list[Race]:
    """30 runs: two invented sets, 1, 10 and 100 % of the labels, five seeds."""
    torch.manual_seed(0)
    network = ResNet(ENCODER).eval()
    sets = [draw(images, side, seed) for seed in (1, 2)]
    sweeps = [runs_of(one, [0.01, 0.1, 1.0], 5) for one in sets]

    def ours() -> Tensor:
        found = []
        for one, runs in zip(sets, sweeps, strict=True):
            features = encode(network, one.train_N1HW)
            heads = train_heads(
                features, one.labels_N, runs, epochs=epochs, batch_size=BATCH, weight_decay=DECAY
            )
            found.append(heads.logits(encode(network, one.test_N1HW)))
        return torch.cat(found)

    def every_epoch() -> Tensor:
        """The frozen network in the loop, and once more over the test images of every run."""
        found = []
        for one, runs in zip(sets, sweeps, strict=True):

            def features_of(rows: Tensor, one: ImageSet = one) -> Tensor:
                with torch.no_grad():
                    return network(one.train_N1HW[rows]).mean((2, 3))

            for run in runs:
                head = train_alone(one, run, epochs, features_of)
                with torch.no_grad():
                    found.append(head(encode(network, one.test_N1HW)))
        return torch.stack(found)

    def run_by_run() -> Tensor:
        """Features once, then the same heads one after the other."""
        found = []
        for one, runs in zip(sets, sweeps, strict=True):
            with torch.no_grad():
                # Not inference tensors, which a backward pass may not keep.
                features, test = (
                    encode(network, p).clone() for p in (one.train_N1HW, one.test_N1HW)
                )
            for run in runs:
                head = train_alone(one, run, epochs, features.__getitem__)
                with torch.no_grad():
                    found.append(head(test))
        return torch.stack(found)

    def optimum() -> Tensor:
        found = []
        for one, runs in zip(sets, sweeps, strict=True):
            start = torch.zeros(8 * ENCODER.width + 1, CLASSES)
            heads, _ = solve_each(
                encode(network, one.train_N1HW),
                torch.eye(CLASSES)[one.labels_N],
                [(run.rows, start) for run in runs],
                True,
                ConvergedSolver(),
            )
            logits_KMC = heads.logits(encode(network, one.test_N1HW))
            found.append(logits_KMC[..., 1] - logits_KMC[..., 0])
        return torch.cat(found)

    def scikit_learn() -> Tensor:
        found = []
        for one, runs in zip(sets, sweeps, strict=True):
            features, test = (
                encode(network, part).double().numpy() for part in (one.train_N1HW, one.test_N1HW)
            )
            for run in runs:
                scaler = StandardScaler().fit(features[run.rows])
                head = LogisticRegression(tol=1e-6, max_iter=10_000)
                head.fit(scaler.transform(features[run.rows]), one.labels_N[run.rows])
                scores = head.decision_function(scaler.transform(test))
                found.append(torch.from_numpy(scores).float())
        return torch.stack(found)

    count = sum(map(len, sweeps))
    train, test = len(sets[0].train_N1HW), len(sets[0].test_N1HW)
    return [
        Race(
            name="linear_sweep",
            what=f"{count} linear probes: 2 sets of {train} images of {side} pixels, 1, 10 and "
            f"100 % of the labels, 5 seeds, {epochs} epochs; logits of {test} test images each",
            ours=ours,
            peers={"network in every epoch": every_epoch, "run by run": run_by_run},
            check=same,
            gates={"network in every epoch": 20.0},
            amount=count,
            unit="run",
            notes=[
                "all start at zero and see the same batches; logits are compared to 1e-4",
                "'run by run' encodes every image once, as ours does",
            ],
        ),
        Race(
            name="linear_optimum",
            what=f"{count} linear probes as above, to a gradient of 1e-6; logits of {test} test "
            "images each",
            ours=optimum,
            peers={"scikit-learn": scikit_learn},
            check=near,
            amount=count,
            unit="run",
            notes=["both encode every image once; logits are compared to 1e-2"],
        ),
    ]
