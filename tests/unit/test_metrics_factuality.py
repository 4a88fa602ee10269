"""F1 between label sets: against scikit-learn, by hand, and under resampling."""

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score

from cxrflow.metrics.factuality import factuality

NAN = np.nan


def sample(seed: int, n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Two label sets that agree in about two of three places; two columns are never positive."""
    rng = np.random.default_rng(seed)
    reference = rng.choice([1.0, 0.0, -1.0, NAN], size=(n, 14), p=[0.2, 0.3, 0.1, 0.4])
    random = rng.choice([1.0, 0.0, -1.0, NAN], size=(n, 14), p=[0.25, 0.25, 0.2, 0.3])
    generated = np.where(rng.random((n, 14)) < 0.6, reference, random)
    reference[:, 3], generated[:, 3] = NAN, NAN
    generated[:, 12] = 0
    return reference, generated


@pytest.mark.parametrize("seed", range(3))
def test_averages_agree_with_sklearn(seed: int) -> None:
    reference, generated = sample(seed)
    scores = factuality(reference, generated, np.ones(200))
    options: dict[str, Any] = {"zero_division": 0}
    assert scores == {
        average: pytest.approx(
            f1_score(reference == 1, generated == 1, average=average, **options), abs=1e-12
        )
        for average in ("weighted", "macro")
    }


def test_by_hand() -> None:
    """Three reports; Edema: 1 hit, 1 miss, 1 false alarm; Effusion: 2 hits; Fracture: nothing.

    An uncertain effusion is absent.
    """
    reference = [[1, 1, NAN], [1, -1, 0], [0, 1, NAN]]
    generated = [[1, 1, NAN], [NAN, 0, NAN], [1, 1, 0]]
    scores = factuality(reference, generated, np.ones(3))
    assert scores["macro"] == pytest.approx((0.5 + 1 + 0) / 3)
    assert scores["weighted"] == pytest.approx((2 * 0.5 + 2 * 1) / 4)


def test_no_positive_anywhere_is_zero_and_equal_labels_are_one() -> None:
    nothing, same = np.array([[NAN] * 14, [0] * 14]), np.ones((2, 14))
    assert factuality(nothing, nothing, np.ones(2)) == {"weighted": 0, "macro": 0}
    assert factuality(same, same, np.ones(2)) == {"weighted": 1, "macro": 1}


def test_a_weight_is_a_repeated_report() -> None:
    reference, generated = sample(7, n=40)
    counts = np.random.default_rng(0).integers(0, 4, size=(3, 40))
    scores = factuality(reference, generated, counts)
    for row, repeats in enumerate(counts):
        again = [np.repeat(labels, repeats, axis=0) for labels in (reference, generated)]
        for name, value in factuality(*again, np.ones(len(again[0]))).items():
            assert scores[name][row] == pytest.approx(float(value), abs=1e-12), name


def test_what_does_not_fit_is_refused() -> None:
    good = np.zeros((2, 14))
    with pytest.raises(ValueError, match="2"):
        factuality(good + 2, good, np.ones(2))
    with pytest.raises(ValueError, match=r"\(3, 14\): want \(2, 14\)"):
        factuality(good, np.zeros((3, 14)), np.ones(2))
