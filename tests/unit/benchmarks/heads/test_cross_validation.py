"""Heads of all classes and folds at once are scikit-learn's, one by one."""

import warnings
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from torch.nn.functional import binary_cross_entropy_with_logits

from cxrflow.benchmarks.heads import cross_validation
from cxrflow.benchmarks.heads.cross_validation import assign_folds, cross_validate


def alone(features: np.ndarray, labels: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Logits of scikit-learn's balanced logistic regression on standardised features."""
    known = np.isfinite(labels)
    scaler = StandardScaler().fit(features)
    head = LogisticRegression(class_weight="balanced", tol=1e-10, max_iter=20_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        head.fit(scaler.transform(features[known]), labels[known])
    return head.decision_function(scaler.transform(test))


@pytest.mark.parametrize(("rows", "width"), [(200, 12), (60, 90)])
def test_heads_are_scikit_learns(rows: int, width: int) -> None:
    """Rare classes, unknown labels, a constant feature; more rows than features, and fewer."""
    rng = np.random.default_rng(1)
    features = rng.normal(size=(rows, width)) * rng.uniform(0.1, 30, width) + 5
    features[:, 3] = 7
    labels = (features[:, :3] - 5 + rng.normal(size=(rows, 3)) > 0.5).astype(float)
    labels[rng.random(labels.shape) < 0.1] = np.nan
    folds = rng.permutation(rows) % 5
    found = cross_validate(torch.from_numpy(features).float(), labels, folds, tolerance=1e-7)
    assert found.learnt_KC.all()
    features = features.astype("float32").astype("float64")
    for fold in range(5):
        for number in range(3):
            expected = alone(
                features[folds != fold], labels[folds != fold, number], features[folds == fold]
            )
            logits = found.logit_NC[folds == fold, number]
            np.testing.assert_allclose(expit(logits), expit(expected), atol=1e-4)


def test_the_gradient_vanishes_at_every_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """By automatic differentiation of the loss as the module's docstring states it."""
    rng = np.random.default_rng(3)
    features = torch.from_numpy(rng.normal(size=(150, 8)) * 4 + 1)
    labels = (features.numpy()[:, :2] + 3 * rng.normal(size=(150, 2)) > 5).astype(float)
    labels[rng.random(labels.shape) < 0.1] = np.nan
    folds, searches = np.arange(150) % 3, []
    search = cross_validation.minimise

    def caught(heads: Any, tolerance: float) -> Any:
        searches.append((heads, search(heads, tolerance)))
        return searches[-1][1]

    monkeypatch.setattr(cross_validation, "minimise", caught)
    cross_validate(features, labels, folds, inverse_penalty=0.5, tolerance=1e-8)
    ((heads, (place_GH, _)),) = searches
    # The logits of all rows are linear in their features: the weights that give them.
    ones = torch.ones(150, 1, dtype=torch.float64)
    for head, (fold, number) in enumerate(product(range(3), range(2))):
        known = torch.from_numpy((folds != fold) & np.isfinite(labels[:, number]))
        learnt = features[torch.from_numpy(folds != fold)]
        scaled = (features - learnt.mean(0)) / learnt.std(0, correction=0)
        design = torch.cat([scaled, ones], dim=1)
        found = torch.linalg.lstsq(design, heads.logits(place_GH)[:, head]).solution
        found.requires_grad_()
        label = torch.from_numpy(labels[:, number])[known]
        weight = torch.where(label == 1, len(label) / label.sum(), len(label) / (1 - label).sum())
        losses = binary_cross_entropy_with_logits(
            design[known] @ found, label, weight / 2, reduction="sum"
        )
        loss = losses + found[:-1].square().sum() / (2 * 0.5)
        (gradient,) = torch.autograd.grad(loss, found)
        assert gradient.abs().max() < 1e-5 < found.abs().max()


def test_a_fold_outside_which_a_label_is_missing_has_no_score() -> None:
    features = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
    folds = np.arange(20) % 5
    labels = np.stack([folds == 2, np.arange(20) % 3 == 0], axis=1).astype(float)
    found = cross_validate(features, labels, folds)
    assert found.learnt_KC[:, 0].tolist() == [True, True, False, True, True]
    assert np.isnan(found.logit_NC[folds == 2, 0]).all()
    assert np.isfinite(found.logit_NC[:, 1]).all() and found.learnt_KC[:, 1].all()


def test_patients_lie_in_one_fold() -> None:
    patients = np.repeat(np.arange(23), 3)
    folds = assign_folds(patients, 5, 0)
    assert all(len(set(folds[patients == patient])) == 1 for patient in patients)
    sizes = np.bincount(folds) // 3
    assert sizes.min() >= 4 and sizes.max() <= 5
    assert (assign_folds(patients, 5, 1) != folds).any()
