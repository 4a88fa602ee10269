"""F1 between label sets: against scikit-learn, by hand, and under resampling."""

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import precision_recall_fscore_support

from cxrflow.metrics.factuality import CONVENTIONS, factuality
from cxrflow.reports.labels.observations import OBSERVATIONS

NAN = np.nan
FIVE = ("Cardiomegaly", "Edema", "Consolidation", "Atelectasis", "Pleural Effusion")


def sample(seed: int, n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Two label sets that agree in about two of three places; two columns are never positive."""
    rng = np.random.default_rng(seed)
    reference = rng.choice([1.0, 0.0, -1.0, NAN], size=(n, 14), p=[0.2, 0.3, 0.1, 0.4])
    other = rng.choice([1.0, 0.0, -1.0, NAN], size=(n, 14), p=[0.25, 0.25, 0.2, 0.3])
    generated = np.where(rng.random((n, 14)) < 0.6, reference, other)
    reference[:, 3], generated[:, 3] = NAN, NAN
    generated[:, 12] = 0
    return reference, generated


def binary(labels: np.ndarray, uncertain: str) -> np.ndarray:
    present = labels == 1
    return present | (labels == -1) if uncertain == "positive" else present


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("convention", "average", "uncertain", "names"),
    [
        ("ifcc", "micro", "positive", FIVE),
        ("cxr_repair", "macro", "negative", OBSERVATIONS),
        ("biovil_t", "weighted", "negative", OBSERVATIONS),
    ],
)
def test_conventions_agree_with_sklearn(
    seed: int, convention: str, average: str, uncertain: str, names: tuple[str, ...]
) -> None:
    reference, generated = sample(seed)
    columns = [OBSERVATIONS.index(name) for name in names]
    truth, said = (binary(x, uncertain)[:, columns] for x in (reference, generated))
    found = factuality(reference, generated, OBSERVATIONS, convention)
    options: dict[str, Any] = {"zero_division": 0}
    wanted = precision_recall_fscore_support(truth, said, average=average, **options)[:3]
    assert [found[k] for k in ("precision", "recall", "f1")] == pytest.approx(wanted, abs=1e-12)
    each = precision_recall_fscore_support(truth, said, average=None, **options)[2]
    assert [found[f"f1/{name}"] for name in names] == pytest.approx(each, abs=1e-12)
    assert len(found) == 3 + len(names)


def test_by_hand() -> None:
    """Three reports; Edema: 1 hit, 1 miss, 1 false alarm; Effusion: 2 hits; Fracture: nothing."""
    names = ("Edema", "Pleural Effusion", "Fracture")
    reference = [[1, 1, NAN], [1, -1, 0], [0, 1, NAN]]
    generated = [[1, 1, NAN], [NAN, 0, NAN], [1, 1, 0]]
    macro = factuality(reference, generated, names, "cxr_repair")
    assert macro["f1/Edema"] == 0.5 and macro["f1/Pleural Effusion"] == 1
    assert macro["f1/Fracture"] == 0
    assert macro["f1"] == pytest.approx((0.5 + 1 + 0) / 3)
    weighted = factuality(reference, generated, names, "biovil_t")
    assert weighted["f1"] == pytest.approx((2 * 0.5 + 2 * 1) / 4)
    assert weighted["precision"] == pytest.approx((2 * 0.5 + 2 * 1) / 4)
    # With uncertain as present the second report's effusion is missed: 2 of 3, F1 0.8.
    other = factuality(reference, generated, names, "biovil_t", uncertain="positive")
    assert other["f1/Pleural Effusion"] == pytest.approx(0.8)
    assert other["recall"] == pytest.approx((2 * 0.5 + 3 * 2 / 3) / 5)


def test_ifcc_takes_its_five_columns_by_name_and_pools_them() -> None:
    reference, generated = np.full((2, 14), NAN), np.full((2, 14), NAN)
    place = OBSERVATIONS.index
    reference[0, place("Edema")] = -1
    generated[0, place("Edema")] = 1
    reference[1, place("Atelectasis")] = 1
    generated[1, place("Consolidation")] = -1
    generated[:, place("Fracture")] = 1
    found = factuality(reference, generated, OBSERVATIONS, "ifcc")
    assert (found["precision"], found["recall"], found["f1"]) == (0.5, 0.5, 0.5)
    turned = factuality(reference[:, ::-1], generated[:, ::-1], OBSERVATIONS[::-1], "ifcc")
    assert turned == found


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_no_positive_anywhere_is_zero_and_equal_labels_are_one(convention: str) -> None:
    nothing = np.array([[NAN] * 14, [0] * 14])
    found = factuality(nothing, nothing, OBSERVATIONS, convention)
    assert [value for value in found.values() if value != 0] == []
    same = np.ones((2, 14))
    found = factuality(same, same, OBSERVATIONS, convention)
    assert [value for value in found.values() if value != 1] == []


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_a_weight_is_a_repeated_report(convention: str) -> None:
    reference, generated = sample(7, n=40)
    counts = np.random.default_rng(0).integers(0, 4, size=(3, 40))
    found = factuality(reference, generated, OBSERVATIONS, convention, weights=counts)
    for row, repeats in enumerate(counts):
        again = [np.repeat(labels, repeats, axis=0) for labels in (reference, generated)]
        wanted = factuality(*again, OBSERVATIONS, convention)
        assert found.keys() == wanted.keys()
        for name, value in wanted.items():
            assert found[name][row] == pytest.approx(float(value), abs=1e-12), name


def test_what_does_not_fit_is_refused() -> None:
    good = np.zeros((2, 14))
    with pytest.raises(ValueError, match="2"):
        factuality(good + 2, good, OBSERVATIONS)
    with pytest.raises(ValueError, match=r"\(3, 14\): want \(2, 14\)"):
        factuality(good, np.zeros((3, 14)), OBSERVATIONS)
    with pytest.raises(ValueError, match=r"\(2, 13\)"):
        factuality(good, good[:, 1:], OBSERVATIONS)
    with pytest.raises(ValueError, match="'Cardiomegaly' is missing, ifcc"):
        factuality(good[:, :2], good[:, :2], OBSERVATIONS[:2], "ifcc")
    with pytest.raises(KeyError):
        factuality(good, good, OBSERVATIONS, "f1")
