"""Cosine retrieval against a literal loop over queries and candidates."""

import math

import numpy as np
import pytest

from cxrflow.metrics.retrieval import cosines, precision, ranking


def literal(queries, candidates, labels, categories, k):
    """Precision at k of each query as the paper's words have it, one candidate at a time."""
    precisions = []
    for query, category in zip(queries, labels, strict=True):
        scored = []
        for number, candidate in enumerate(candidates):
            dot = sum(a * b for a, b in zip(query, candidate, strict=True))
            length = math.sqrt(sum(a * a for a in query)) * math.sqrt(sum(a * a for a in candidate))
            scored.append((-round(dot / length, 9), number))
        best = [categories[number] for _, number in sorted(scored)[:k]]
        precisions.append(best.count(category) / k)
    return precisions


@pytest.mark.parametrize("seed", [0, 1])
def test_precision_is_that_of_a_literal_loop(seed):
    rng = np.random.default_rng(seed)
    candidates = rng.normal(size=(40, 5))
    candidates[20:30] = candidates[:10] * 2.5  # equal directions: ties
    queries = np.concatenate([rng.normal(size=(11, 5)), candidates[:3]])
    categories = rng.choice(list("abc"), size=40)
    labels = rng.choice(list("abc"), size=14)
    order = ranking(cosines(queries, candidates))
    relevant = categories[order] == labels[:, None]
    precisions = precision(relevant, [1, 5, 10, 40])
    for column, k in enumerate([1, 5, 10, 40]):
        expected = literal(queries.tolist(), candidates.tolist(), labels, categories.tolist(), k)
        assert precisions[:, column].tolist() == pytest.approx(expected, abs=1e-12)


def test_equal_candidates_keep_their_order():
    candidates = np.tile(np.random.default_rng(0).normal(size=7), (200, 1))
    candidates *= np.linspace(0.1, 9, 200)[:, None]
    order = ranking(cosines(np.random.default_rng(1).normal(size=(3, 7)), candidates))
    assert (order == np.arange(200)).all()


def test_a_vector_of_length_zero_is_like_nothing():
    assert cosines(np.zeros((1, 3)), np.eye(3)).tolist() == [[0, 0, 0]]
