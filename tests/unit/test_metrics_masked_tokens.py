"""Masked-token accuracy and its baseline."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score

from cxrflow.metrics.masked_tokens import (
    correct_predictions,
    most_frequent_token,
    pooled_accuracy,
    token_counts,
)


def test_top_one_agrees_with_sklearn():
    rng = np.random.default_rng(0)
    logits, targets = rng.normal(size=(200, 6)), rng.integers(0, 6, 200)
    right = correct_predictions(logits, targets)
    assert right.mean() == pytest.approx(accuracy_score(targets, logits.argmax(1)))


def test_the_baseline_is_the_commonest_target_lowest_id_first():
    counts = token_counts([3, 1, 3, 2, 1], 6) + token_counts([5], 6)
    assert counts.tolist() == [0, 2, 1, 2, 0, 1]
    assert most_frequent_token(counts) == 1
    with pytest.raises(ValueError, match="no targets"):
        most_frequent_token(np.zeros(4))


def test_every_target_counts_once():
    assert pooled_accuracy([1, 9], [1, 19])[0] == pytest.approx(0.5)
    assert pooled_accuracy([1, 9], [1, 19], [[3, 1], [0, 2]]).tolist() == [12 / 22, 18 / 38]
    assert np.isnan(pooled_accuracy([0], [0])[0])
