"""A sweep of linear probes on a frozen image encoder: sets x shares of the labels x seeds.

The race is to the optimum of logistic regression, against scikit-learn, both from features that are
computed once.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

from cxrflow.benchmarks.heads.logistic_regression import solve_each
from cxrflow.benchmarks.heads.settings import ConvergedSolver
from cxrflow.benchmarks.heads.shares import share_rows
from cxrflow.encoders.resnet import ResNet
from cxrflow.encoders.settings import ResNetSettings
from speed.race import Race

BATCH, CLASSES = 32, 2
ENCODER = ResNetSettings(block="basic", layers=(1, 1, 1, 1), width=16, channels=1)

Rows = NDArray[np.int64]


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


def problems_of(images: ImageSet, shares: list[float], seeds: int) -> list[tuple[Rows, Tensor]]:
    """Every share with every seed: a share's rows differ by seed, heads start at zero."""
    labels, start = images.labels_N.numpy(), torch.zeros(8 * ENCODER.width + 1, CLASSES)
    return [(share_rows(labels, share, seed), start) for share in shares for seed in range(seeds)]


@torch.inference_mode()
def encode(network: nn.Module, pixels_N1HW: Tensor) -> Tensor:
    """Pooled features [N, F] in batches."""
    return torch.cat([network(part).mean((2, 3)) for part in pixels_N1HW.split(BATCH)])


def near(ours: Tensor, peer: Tensor) -> None:
    """The logits of every head, as near as the tolerance leaves them."""
    torch.testing.assert_close(ours, peer, rtol=0, atol=1e-2)
    assert peer.std() > 0.01, "heads that learnt nothing"


def races(images: int = 600, side: int = 48) -> list[Race]:
    """30 runs: two invented sets, 1, 10 and 100 % of the labels, five seeds."""
    torch.manual_seed(0)
    network = ResNet(ENCODER).eval()
    sets = [draw(images, side, seed) for seed in (1, 2)]
    sweeps = [problems_of(one, [0.01, 0.1, 1.0], 5) for one in sets]

    def ours() -> Tensor:
        found = []
        for one, problems in zip(sets, sweeps, strict=True):
            heads, _ = solve_each(
                encode(network, one.train_N1HW),
                torch.eye(CLASSES)[one.labels_N],
                problems,
                True,
                ConvergedSolver(),
            )
            logits_KMC = heads.logits(encode(network, one.test_N1HW))
            found.append(logits_KMC[..., 1] - logits_KMC[..., 0])
        return torch.cat(found)

    def scikit_learn() -> Tensor:
        found = []
        for one, problems in zip(sets, sweeps, strict=True):
            features, test = (
                encode(network, part).double().numpy() for part in (one.train_N1HW, one.test_N1HW)
            )
            for rows, _ in problems:
                scaler = StandardScaler().fit(features[rows])
                head = LogisticRegression(tol=1e-6, max_iter=10_000)
                head.fit(scaler.transform(features[rows]), one.labels_N[rows])
                scores = head.decision_function(scaler.transform(test))
                found.append(torch.from_numpy(scores).float())
        return torch.stack(found)

    count = sum(map(len, sweeps))
    train, test = len(sets[0].train_N1HW), len(sets[0].test_N1HW)
    return [
        Race(
            name="linear_optimum",
            what=f"{count} linear probes: 2 sets of {train} images of {side} pixels, 1, 10 and "
            "100 % of the labels, 5 seeds, to a gradient of 1e-6; "
            f"logits of {test} test images each",
            ours=ours,
            peers={"scikit-learn": scikit_learn},
            check=near,
            amount=count,
            unit="run",
            notes=["both encode every image once; logits are compared to 1e-2"],
        ),
    ]
