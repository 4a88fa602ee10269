"""The test of permuted pairs and the rank of the true one: size, power, scale, ties, intervals."""

import math
from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
import torch
from scipy.stats import norm
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch.func import vmap
from torch.nn.functional import normalize

from cxrflow.metrics.permuted_pairs import RankSums, permutation_p, permuted_sums
from cxrflow.objectives.biovil import global_alignment
from cxrflow.pretrain.validation.permutation import ALPHA, Comparisons, Validated, Validation
from cxrflow.training.processes import ALONE
from cxrflow.training.program import Losses

REPETITIONS = 400


def p_of(score: np.ndarray, seed: int = 0) -> float:
    """Of one matrix of scores, as of a loss that is minus their sum."""
    permuted_D = permuted_sums(score, np.random.default_rng(seed))
    return permutation_p(-np.trace(score), -permuted_D, 1e-6 * np.abs(np.diag(score)).sum())


def test_against_all_permutations() -> None:
    score = np.random.default_rng(3).normal(size=(6, 6))
    sums = np.array([score[range(6), order].sum() for order in permutations(range(6))])
    exact = float(np.mean(sums >= np.trace(score) - 1e-12))
    assert p_of(score) == pytest.approx(exact, abs=3 * math.sqrt(exact * (1 - exact) / 999))
    drawn = permuted_sums(score, np.random.default_rng(0))
    assert set(drawn.round(9)) <= set(sums.round(9)) and drawn.std() == pytest.approx(
        sums.std(), rel=0.1
    )


def embeddings(rng: np.random.Generator) -> np.ndarray:
    """Cosines of 32 images and texts, all of which lean to one direction (mean about 0.9)."""
    image, text = (normalize(torch.from_numpy(rng.normal(3, 1, (32, 8))), dim=1) for _ in range(2))
    return np.asarray(image @ text.T)


def reports(rng: np.random.Generator) -> np.ndarray:
    """The same where half of the reports are one of two, word for word."""
    score = embeddings(rng)
    of_report = np.where(rng.random(32) < 0.5, rng.integers(0, 2, 32), np.arange(32))
    return score[:, of_report]


def classes(rng: np.random.Generator) -> np.ndarray:
    """Logits of three classes of unequal frequency."""
    return rng.standard_t(2, (32, 3))[:, rng.choice(3, 32, p=[0.7, 0.2, 0.1])]


@pytest.mark.parametrize("world", [embeddings, reports, classes])
def test_size_of_random_scores(world: Callable[[np.random.Generator], np.ndarray]) -> None:
    rng = np.random.default_rng(11)
    ps = np.array([p_of(world(rng), seed) for seed in range(REPETITIONS)])
    assert 0.03 <= np.mean(ps <= ALPHA) <= 0.07
    assert 0.4 < np.mean(ps) < 0.62  # ties count against learning


def test_equal_answers_are_ties() -> None:
    """Two reports alone, and a model that tells them apart but not who has which."""
    half = np.repeat([[1.0, 0.0]], 8, axis=0)[:, np.repeat([0, 1], 4)]
    assert p_of(half) == 1.0
    noisy = half + np.random.default_rng(0).normal(0, 1e-8, half.shape)  # of float32 products
    assert p_of(noisy) == 1.0 and RankSums.of(noisy).interval() == RankSums.of(half).interval()
    known = np.equal.outer(np.repeat([0, 1], 4), np.repeat([0, 1], 4)).astype(float)
    assert p_of(known) == pytest.approx(1 / math.comb(8, 4), abs=0.012)  # which keep classes
    rank = RankSums.of(known).interval()
    assert rank is not None and rank["value"] == 1.0  # equal answers are no candidates


def test_temperature_changes_nothing() -> None:
    rng = np.random.default_rng(1)
    image = rng.normal(size=(64, 16))
    text = 0.4 * image + rng.normal(size=(64, 16))
    cosine = normalize(torch.from_numpy(image)) @ normalize(torch.from_numpy(text)).T
    losses, answers = [], []
    for tau in (0.05, 0.1, 0.25, 0.5, 1.0):
        score = (cosine / tau).numpy()
        losses.append(float(global_alignment(torch.from_numpy(image), torch.from_numpy(text), tau)))
        answers.append((p_of(score), RankSums.of(score).interval()))
    assert np.ptp(losses) / math.log(64) > 0.3  # of the loss at chance for one and the same weights
    for p, rank in answers[1:]:
        assert p == answers[0][0] and rank == pytest.approx(answers[0][1], abs=1e-9)


def test_the_rank_is_the_area_under_the_roc_curve_of_each_query() -> None:
    score = np.random.default_rng(2).normal(size=(20, 20)) + 0.7 * np.eye(20)
    areas = [
        roc_auc_score(np.arange(20) == query, side[query])
        for side in (score, score.T)
        for query in range(20)
    ]
    rank = RankSums.of(score).interval()
    assert rank is not None and rank["value"] == pytest.approx(np.mean(areas))
    swaps = sum((RankSums.of(score[i : i + 2, i : i + 2]) for i in range(0, 20, 2)), RankSums())
    rank = swaps.interval()
    assert rank is not None and 0.5 < rank["value"] < 1
    assert RankSums().interval() is None


@pytest.mark.parametrize(("size", "groups"), [(32, 3), (2, 30)])
def test_coverage_of_the_rank(size: int, groups: int) -> None:
    """Pairs whose true score is 1 more: all at once, and where two at a time are swapped."""
    rng, covered = np.random.default_rng(5), 0
    truth = norm.cdf(1 / math.sqrt(2))
    for _ in range(REPETITIONS):
        scores = rng.normal(size=(groups, size, size)) + np.eye(size)
        interval = sum(map(RankSums.of, scores), RankSums()).interval()
        assert interval is not None
        covered += interval["low"] <= truth <= interval["high"]
    assert 0.925 <= covered / REPETITIONS <= 0.975


# --- trainings ------------------------------------------------------------------------------------

D, WIDTH, TRAIN, VALIDATE, RATE, TAU = 12, 6, 64, 64, 0.5, 0.2


def verdicts(relation: float, permuted: int, validations: int, repetitions: int) -> Tensor:
    """Shares of trainings of two linear encoders by the global term that differ, [2].

    The second one is that without the correction for the choice among validations.

    Images and texts share a latent vector, by which both depend on it with weight ``relation``.
    Of the first ``permuted`` pairs it is drawn anew whose text is whose; the first half is trained
    on. The weights with the smallest validation loss are kept.
    """
    generator = torch.Generator().manual_seed(4)

    def noise(*shape: int) -> Tensor:
        return torch.randn(repetitions, *shape, generator=generator)

    latent = noise(TRAIN + VALIDATE, D)
    image, text = (relation * latent + noise(TRAIN + VALIDATE, D) for _ in range(2))
    order = noise(permuted, 1).argsort(dim=1)
    text[:, :permuted] = text[:, :permuted].gather(1, order.expand(-1, -1, D))
    weights = [(noise(D, WIDTH) / D**0.5).requires_grad_() for _ in range(2)]

    def losses(rows: slice) -> Tensor:
        projected = [x[:, rows] @ w for x, w in zip((image, text), weights, strict=True)]
        values: Tensor = vmap(lambda a, b: global_alignment(a, b, TAU))(*projected)
        return values

    best = torch.full((repetitions,), math.inf)
    smallest: list[dict[str, Tensor]] = [{} for _ in range(repetitions)]
    differs = torch.zeros(repetitions, 2)
    held_out = slice(TRAIN, None)
    for _ in range(validations):
        for _ in range(5):
            gradients = torch.autograd.grad(losses(slice(TRAIN)).sum(), weights)
            with torch.no_grad():
                for weight, gradient in zip(weights, gradients, strict=True):
                    weight -= RATE * gradient
        with torch.no_grad():
            values = losses(held_out)
            unit = [normalize(x[:, held_out] @ w, dim=2) for x, w in zip((image, text), weights,
                                                                         strict=True)]  # fmt: skip
            scores = unit[0] @ unit[1].mT / TAU
        for place, (value, score) in enumerate(zip(values, scores, strict=True)):
            compared = {"a": Comparisons.of_batch(score, slope=2)}
            batch = Validated(Losses(value, {"a": value}, VALIDATE, 0), compared)
            found = Validation([batch], ALONE)
            for name, permuted_D in found.permuted():
                earlier = smallest[place].get(name, permuted_D)
                smallest[place][name] = torch.fmin(earlier, permuted_D)
            if value < best[place]:
                best[place] = value
                for column, losses_of in enumerate((smallest[place], None)):
                    said = found.record({"a": "x"}, losses_of)
                    differs[place, column] = said["permuted_pairs"]["differs"]
    return differs.mean(dim=0)


def test_five_per_cent_of_trainings_on_permuted_pairs_differ() -> None:
    """The best of three validations; as if there had been no choice, more of them do."""
    corrected, uncorrected = verdicts(1.0, TRAIN + VALIDATE, 3, REPETITIONS)
    assert 0.03 <= corrected <= 0.07
    assert uncorrected > corrected


def test_a_weak_relation_of_64_pairs_is_seen() -> None:
    assert verdicts(0.7, 0, 3, 100)[0] > 0.8
