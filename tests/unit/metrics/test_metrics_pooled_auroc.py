"""AUROC over all pairs of images and texts, block by block, and its intervals over patients."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from cxrflow.metrics.intervals import bootstrap, weighted_mean
from cxrflow.metrics.pooled_auroc import Searched, search, shares
from cxrflow.metrics.retrieval import ranks

NUMBER = 300
RNG = np.random.default_rng(7)


def searched(
    scores_NN: np.ndarray, texts_N: np.ndarray, block: int = 64, other_N: np.ndarray | None = None
) -> tuple[Searched, Searched]:
    """Images that search texts and texts that search images, by scores [image, text]."""
    count = len(scores_NN)
    positives = [np.arange(count), *([] if other_N is None else [other_N])]
    positives_XN = np.stack([scores_NN[np.arange(count), place] for place in positives])
    return (
        search(lambda rows: scores_NN[rows].copy(), positives_XN, texts_N, block),
        search(lambda rows: scores_NN.T[rows].copy(), positives_XN, texts_N, block),
    )


def scores_of(levels: int, count: int = NUMBER) -> np.ndarray:
    """Scores of so many levels, of which own pairs have the higher ones."""
    raised = RNG.normal(size=(count, count)) + 0.8 * np.eye(count)
    return np.floor(raised * levels)


@pytest.mark.parametrize("levels", [0, 1, 3, 1000])
@pytest.mark.parametrize("block", [1, 64, NUMBER])
def test_the_area_is_scikit_learns_whatever_the_block(levels: int, block: int) -> None:
    scores_NN = scores_of(levels)
    expected = roc_auc_score(np.eye(NUMBER).ravel(), scores_NN.ravel())
    found = shares(*searched(scores_NN, np.arange(NUMBER), block))
    assert found.mean() == pytest.approx(expected, abs=1e-12)
    whole = shares(*searched(scores_NN, np.arange(NUMBER), NUMBER))
    np.testing.assert_allclose(found, whole, rtol=0, atol=1e-12)


def test_a_share_is_the_derivative_of_the_area_by_a_studys_weight() -> None:
    """Of the area of weighted pairs, by differences; a pair of two studies has their product."""
    count = 40
    scores_NN = scores_of(3, count)
    wins_NNN = np.sign(np.diag(scores_NN)[:, None, None] - scores_NN) / 2 + 0.5
    apart_NN = 1 - np.eye(count)

    def area(weights_N: np.ndarray) -> float:
        pairs_NN = apart_NN * np.outer(weights_N, weights_N)
        total = np.einsum("i,jk,ijk->", weights_N, pairs_NN, wins_NNN)
        return float(total / weights_N.sum() / pairs_NN.sum())

    step = 1e-6
    slopes = [
        (area(1 + step * unit) - area(1 - step * unit)) / (2 * step) for unit in np.eye(count)
    ]
    found_N = shares(*searched(scores_NN, np.arange(count)))[0]
    np.testing.assert_allclose(slopes, (found_N - found_N.mean()) / count, atol=2e-4)


def test_queries_leave_out_the_candidates_of_equal_texts() -> None:
    scores_NN = scores_of(3)
    texts_N = RNG.integers(0, 50, NUMBER)
    rivals_NN = texts_N[:, None] != texts_N
    for found, scores in zip(searched(scores_NN, texts_N), (scores_NN, scores_NN.T), strict=True):
        rank_N = ranks(scores, np.arange(NUMBER), rivals_NN)
        np.testing.assert_array_equal(found.rank_N, rank_N)
        np.testing.assert_array_equal(found.recall(5), rank_N <= 5)
        areas = [
            roc_auc_score([1, *np.zeros(rivals_N.sum())], [scores[n, n], *scores[n, rivals_N]])
            for n, rivals_N in enumerate(rivals_NN)
        ]
        np.testing.assert_allclose(found.area_N, areas, atol=1e-12)


def test_pairs_of_another_study_take_the_place_of_the_positives() -> None:
    scores_NN, other_N = scores_of(3), np.roll(np.arange(NUMBER), 7)
    found_XN = shares(*searched(scores_NN, np.arange(NUMBER), other_N=other_N))
    alone_XN = shares(*searched(scores_NN, np.arange(NUMBER)))
    np.testing.assert_allclose(found_XN[0], alone_XN[0], atol=1e-12)
    negatives = scores_NN[~np.eye(NUMBER, dtype=bool)]
    positives = scores_NN[np.arange(NUMBER), other_N]
    expected = roc_auc_score(
        np.repeat([1, 0], [len(positives), len(negatives)]), np.append(positives, negatives)
    )
    assert found_XN[1].mean() == pytest.approx(expected, abs=1e-12)
    assert abs(expected - 0.5) < 0.05 < alone_XN[0].mean() - 0.5


def test_nothing_differs_without_any_difference_of_scores() -> None:
    found_XN = shares(*searched(np.zeros((20, 20)), np.arange(20)))
    np.testing.assert_allclose(found_XN, 0.5)


def draw_scores(patients: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Cosines of studies, one to four a patient and alike within, and the patients' numbers."""
    clusters_N = np.repeat(np.arange(patients), rng.integers(1, 5, patients))
    width = 6
    common, own, images, texts = (rng.normal(size=(len(clusters_N), width)) for _ in range(4))
    state = common[clusters_N] + own
    images_NF, texts_NF = state + 2 * images, state + 2 * texts
    units = [v / np.linalg.norm(v, axis=1, keepdims=True) for v in (images_NF, texts_NF)]
    return units[0] @ units[1].T, clusters_N


def test_intervals_over_patients_cover_the_area() -> None:
    """Nominal 95 %; 120 tables of 60 patients, one to four studies each (docs/inference.md)."""
    rng = np.random.default_rng(0)
    truth = np.mean(
        [
            shares(*searched(scores, np.arange(len(scores))))[0].mean()
            for scores, _ in (draw_scores(400, rng) for _ in range(4))
        ]
    )
    covered = []
    for table in range(120):
        scores_NN, clusters_N = draw_scores(60, rng)
        share_N = shares(*searched(scores_NN, np.arange(len(scores_NN))))[0]
        statistic = {"auroc": share_N}
        found = bootstrap(
            lambda counts, columns=statistic: {
                name: weighted_mean(counts, values) for name, values in columns.items()
            },
            clusters_N, {"auroc": len(share_N)}, replicates=300, seed=table,
        )["auroc"]  # fmt: skip
        covered.append(found.low <= truth <= found.high)
    assert 0.89 <= np.mean(covered) <= 0.99
