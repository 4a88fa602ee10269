"""Size and power of the rules by which a training has learnt, by simulation: docs/inference.md.

    python -m simulations.twins --models 200

Images and texts of K pairs are normal features with spectra that fall like 1 / rank. Their first
six directions, such as a patient's size and sex or a hospital's ways, correlate by half between an
image and its text, and the spaces are drawn anew for every model. A model is a projection of each
side, untrained, trained on permuted pairs or on few true ones by the global term (Eq. 1 of BioViL),
with the weights of least validation loss among five. Ranks are within batches of 32 pairs.

Prints the share of models that have learnt by twins (above 19 untrained starts, and above these and
so many that are trained on permuted pairs) and by permuted pairs (one-sided at 5 %, in the normal
limit of the permutation's exact moments: Hoeffding 1951, Ann Math Stat 22:558), of the validation
whose weights were kept.
"""

import argparse
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

from cxrflow.metrics.twins import TWINS, twin_p

PAIRS, BATCH = (64, 200, 1000, 3000), 32
IMAGE, TEXT, JOINT = 96, 64, 32  # widths
COMMON, OTHER, RELATION, NOISE = 6, 20, 0.5, 0.05  # directions, their correlation, the rest
TEMPERATURE, RATE, VALIDATIONS = 0.1, 0.01, 5
PERMUTED = "permuted pairs"
KINDS = {"untrained": 0, PERMUTED: 960, "32 true pairs": 32, "64 true pairs": 64}
ALPHA, NORMAL_LIMIT = 0.05, 1.6449


class Spaces(NamedTuple):
    """Directions of the features of R hospitals, each side's common and other ones."""

    common: tuple[Tensor, Tensor]
    other: tuple[Tensor, Tensor]


def directions(count: int, width: int, models: int, random: torch.Generator) -> Tensor:
    """Directions [R, count, width], the first with the most variance."""
    falling = torch.arange(1, count + 1) ** -0.5
    return falling[:, None] * torch.randn(models, count, width, generator=random) / width**0.5


def spaces(models: int, random: torch.Generator) -> Spaces:
    """Draw the spaces of R hospitals."""
    common, other = (
        tuple(directions(count, width, models, random) for width in (IMAGE, TEXT))
        for count in (COMMON, OTHER)
    )
    return Spaces((common[0], common[1]), (other[0], other[1]))


def features(of: Spaces, pairs: int, random: torch.Generator) -> list[Tensor]:
    """Features of images [R, K, 96] and of their texts [R, K, 64]."""
    models = len(of.common[0])

    def noise(width: int) -> Tensor:
        return torch.randn(models, pairs, width, generator=random)

    shared, sides = noise(COMMON), []
    for common, other in zip(of.common, of.other, strict=True):
        latent = RELATION**0.5 * shared + (1 - RELATION) ** 0.5 * noise(COMMON)
        sides.append(latent @ common + noise(OTHER) @ other + NOISE * noise(common.shape[2]))
    return sides


def start(models: int, random: torch.Generator) -> list[Tensor]:
    """Untrained projections of both sides."""
    return [torch.randn(models, w, JOINT, generator=random) / w**0.5 for w in (IMAGE, TEXT)]


def scores(sides: list[Tensor], weights: list[Tensor]) -> Tensor:
    """Cosines [R, batches, 32, 32] of whole batches."""
    whole = sides[0].shape[1] // BATCH * BATCH
    image, text = (
        normalize(side[:, :whole] @ weight, dim=2).unflatten(1, (-1, BATCH))
        for side, weight in zip(sides, weights, strict=True)
    )
    return image @ text.mT


def loss(score: Tensor) -> Tensor:
    """The global term [R]."""
    logits = score / TEMPERATURE
    both = logits.log_softmax(-1) + logits.log_softmax(-2)
    return -both.diagonal(dim1=-2, dim2=-1).mean((1, 2))


def rank(score: Tensor) -> Tensor:
    """The mean percentile rank of the true pair [R]."""
    true = score.diagonal(dim1=-2, dim2=-1)
    above = (true[..., :, None] > score).sum((1, 2, 3)) + (true[..., None, :] > score).sum(
        (1, 2, 3)
    )
    return above / (2 * true[0].numel() * (BATCH - 1))


def differs(score: Tensor) -> Tensor:
    """Whether the sums of true scores differ from those of permuted pairs at 5 %, [R]."""
    mean = score.mean((2, 3), keepdim=True)
    centred = score - score.mean(2, keepdim=True) - score.mean(3, keepdim=True) + mean
    gain = centred.diagonal(dim1=-2, dim2=-1).sum((1, 2))
    return gain > NORMAL_LIMIT * (centred.square().sum((1, 2, 3)) / (BATCH - 1)).sqrt()


def trained(
    sides: list[Tensor], weights: list[Tensor], validation: list[Tensor], random: torch.Generator
) -> Tensor:
    """Validation scores, as :func:`scores`, of the weights with the least loss there."""
    weights = [weight.clone().requires_grad_() for weight in weights]
    optimiser, least, kept = torch.optim.Adam(weights, lr=RATE), torch.tensor(math.inf), None
    pairs = sides[0].shape[1]
    for _ in range(VALIDATIONS):
        for _ in range(30 // VALIDATIONS):
            rows = torch.randperm(pairs, generator=random)[:BATCH]
            optimiser.zero_grad()
            loss(scores([side[:, rows] for side in sides], weights)).sum().backward()
            optimiser.step()
        with torch.no_grad():
            score = scores(validation, weights)
            better = (loss(score) < least)[:, None, None, None]
            kept = score if kept is None else torch.where(better, score, kept)
            least = loss(kept)
    assert kept is not None
    return kept


def shares(
    pairs: int,
    models: int,
    random: torch.Generator,
    kinds: Sequence[str] = tuple(KINDS),
    shuffled: Sequence[int] = (0,),
) -> dict[str, list[float]]:
    """By kind of model the shares that have learnt.

    By twins, of which so many are trained on permuted pairs, and last by permuted pairs.
    """
    of = spaces(models, random)
    validation = features(of, pairs, random)

    def scores_of(kind: str) -> Tensor:
        weights, seen = start(models, random), KINDS[kind]
        if not seen:
            return scores(validation, weights)
        image, text = features(of, seen, random)
        if kind == PERMUTED:
            text = text[:, torch.randperm(seen, generator=random)]
        return trained([image, text], weights, validation, random)

    twins = [rank(scores(validation, start(models, random))) for _ in range(TWINS)]
    twins += [rank(scores_of(PERMUTED)) for _ in range(max(shuffled))]
    learnt = {}
    for kind in kinds:
        score = scores_of(kind)
        by_twins = [
            sum(
                twin_p([float(own)], [others.tolist()]) <= ALPHA
                for own, others in zip(rank(score), torch.stack(twins[: TWINS + n], 1), strict=True)
            )
            for n in shuffled
        ]
        learnt[kind] = [count / models for count in by_twins] + [
            float(differs(score).float().mean())
        ]
    return learnt


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--models", type=int, default=2000, help="of each cell, in fifties")
    arguments.add_argument("--pairs", type=int, nargs="+", default=PAIRS, help="of the validation")
    arguments.add_argument(
        "--shuffled", type=int, nargs="+", default=[0], help="twins trained on permuted pairs"
    )
    options = arguments.parse_args()
    print(f"{'pairs':6}", *(f"{kind:>24}" for kind in KINDS), "  shuffled twins")
    for pairs in options.pairs:
        random, portion = torch.Generator().manual_seed(pairs), 50
        portions = [
            shares(pairs, portion, random, shuffled=options.shuffled)
            for _ in range(options.models // portion)
        ]
        for place, count in enumerate([*options.shuffled, "permuted"]):
            means = [sum(each[kind][place] for each in portions) / len(portions) for kind in KINDS]
            print(f"{pairs:6}", *(f"{mean:24.3f}" for mean in means), f"  {count}", flush=True)


if __name__ == "__main__":
    main()
