"""Heads at the optimum are scikit-learn's, and their penalty draws them to where they start."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from cxrflow.benchmarks.grounding.segmentation import solve_patch_heads
from cxrflow.benchmarks.heads import logistic_regression
from cxrflow.benchmarks.heads.logistic_regression import longest, solve, solve_each
from cxrflow.benchmarks.heads.settings import ConvergedSolver
from cxrflow.benchmarks.heads.shares import share_of_images as share_images
from cxrflow.benchmarks.heads.shares import share_rows

ROWS, FEATURES = 300, 7
SOLVER = ConvergedSolver(tolerance=1e-7)


def data() -> tuple[Tensor, np.ndarray]:
    """Features far from standardised, one of them constant, and the cause [N, 3] of labels."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(ROWS, FEATURES)) * [1, 3, 0.1, 1, 1, 0, 5] + np.arange(FEATURES)
    scaled = (features - features.mean(0)) / features.std(0).clip(1e-9)
    return torch.from_numpy(features), scaled[:, :3] + rng.normal(size=(ROWS, 3))


def zeros(classes: int) -> Tensor:
    return torch.zeros(FEATURES + 1, classes)


def peer(features: Tensor, labels, rows, standardise: bool, **values) -> tuple:
    """scikit-learn's decision function of all rows, from a fit on some."""
    scaler = StandardScaler(with_mean=standardise, with_std=standardise).fit(features[rows])
    model = LogisticRegression(tol=1e-9, max_iter=10_000, **values)
    model.fit(scaler.transform(features[rows]), labels[rows])
    scale = np.asarray(scaler.scale_ if standardise else 1.0)
    return model.coef_ / scale, model.decision_function(scaler.transform(features))


@pytest.mark.parametrize("standardise", [True, False])
@pytest.mark.parametrize("inverse_penalty", [1.0, 30.0])
def test_two_classes_are_scikit_learns_for_every_share(standardise, inverse_penalty):
    features, cause = data()
    labels = (cause[:, 0] > 0.8).astype(int)
    solver = SOLVER.model_copy(
        update={"standardise": standardise, "inverse_penalty": inverse_penalty}
    )
    shares = [share_rows(labels, share, seed) for share in (0.03, 0.3, 1.0) for seed in (0, 1)]
    heads, solutions = solve_each(
        features, torch.from_numpy(np.eye(2)[labels]), [(r, zeros(2)) for r in shares], True, solver
    )
    logits = heads.logits(features.float())
    for number, rows in enumerate(shares):
        coefficients, scores = peer(features, labels, rows, standardise, C=inverse_penalty)
        weight_FC = heads.weight_KFC[number]
        np.testing.assert_allclose(weight_FC[:, 1] - weight_FC[:, 0], coefficients[0], atol=1e-4)
        ours = (logits[number, :, 1] - logits[number, :, 0]).numpy()
        np.testing.assert_allclose(ours, scores, atol=1e-3)
        assert roc_auc_score(labels, ours) == pytest.approx(roc_auc_score(labels, scores), abs=1e-4)
        assert solutions[number].gradient <= solver.tolerance
    # Starts at 0 and the same penalty of both: the difference is shared out alike.
    torch.testing.assert_close(heads.weight_KFC[:, :, 0], -heads.weight_KFC[:, :, 1])


def test_several_labels_are_a_regression_each_on_the_rows_with_a_label():
    features, cause = data()
    labels = (cause > 0.5).astype(float)
    labels[np.random.default_rng(1).random(labels.shape) < 0.3] = np.nan
    labels[:, 2] = 0.0  # nothing to learn
    start = torch.randn(FEATURES + 1, 3, generator=torch.Generator().manual_seed(0))
    start[:, :2] = 0
    rows = share_rows(labels, 0.5, 0)
    heads, _ = solve_each(features, torch.from_numpy(labels), [(rows, start)], False, SOLVER)
    for number in range(2):
        known = rows[np.isfinite(labels[rows, number])]
        # Features are standardised over the share's rows, known or not.
        scaler = StandardScaler().fit(features[rows])
        model = LogisticRegression(tol=1e-9, max_iter=10_000)
        model.fit(scaler.transform(features[known]), labels[known, number])
        wanted = model.coef_[0] / scaler.scale_
        np.testing.assert_allclose(heads.weight_KFC[0, :, number], wanted, atol=1e-4)
    torch.testing.assert_close(heads.weight_KFC[0, :, 2], start[:-1, 2])


def test_exclusive_classes_are_scikit_learns_softmax():
    features, cause = data()
    labels = cause.argmax(1)
    rows = np.arange(0, ROWS, 2)
    targets = torch.from_numpy(np.eye(3)[labels])
    heads, _ = solve_each(features, targets, [(rows, zeros(3))], True, SOLVER)
    coefficients, scores = peer(features, labels, rows, standardise=True)
    np.testing.assert_allclose(heads.weight_KFC[0].T, coefficients, atol=1e-4)
    ours = heads.logits(features.float())[0].softmax(1).numpy()
    wanted = torch.from_numpy(scores).softmax(1).numpy()
    np.testing.assert_allclose(ours, wanted, atol=1e-4)
    with pytest.raises(ValueError, match="exclusive class is on none of the rows"):
        solve_each(features, targets, [(rows[labels[rows] > 0], zeros(3))], True, SOLVER)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_gradient_vanishes_where_the_penalty_is_of_the_way_from_the_start(classes):
    """By automatic differentiation of the loss as the module's docstring states it."""
    features, cause = data()
    features = features[:, [0, 1, 2, 3]]
    targets = torch.eye(classes, dtype=torch.float64)[cause[:, :classes].argmax(1)]
    start = torch.randn(5, classes, generator=torch.Generator().manual_seed(2))
    solver = SOLVER.model_copy(update={"standardise": False, "inverse_penalty": 0.2})
    head, solution = solve(features, targets, torch.arange(ROWS), start, True, solver)
    free = head.double().requires_grad_()
    logits = features @ free[:-1] + free[-1]
    away = free[:-1] - start[:-1]
    if classes == 2:  # the penalty is on the difference of the weights
        away = away[:, 1:] - away[:, :1]
    loss = -(targets * logits.log_softmax(1)).sum() + away.square().sum() / (2 * 0.2)
    (gradient,) = torch.autograd.grad(loss, free)
    assert gradient.abs().max() < 1e-3 < (head - start).abs().max()
    assert solution.iterations > 3
    held = solver.model_copy(update={"inverse_penalty": 1e-9})
    still, _ = solve(features, targets, torch.arange(ROWS), start, True, held)
    torch.testing.assert_close(still[:-1], start[:-1], atol=1e-5, rtol=0)


def test_blocks_of_rows_and_half_precision_are_no_part_of_the_result(monkeypatch):
    features, cause = data()
    targets = torch.from_numpy(np.eye(3)[cause.argmax(1)])
    whole, _ = solve(features.half(), targets, torch.arange(ROWS), zeros(3), True, SOLVER)
    monkeypatch.setattr(logistic_regression, "_BLOCK", 50 * FEATURES)
    parts, _ = solve(features.half(), targets, torch.arange(ROWS), zeros(3), True, SOLVER)
    torch.testing.assert_close(parts, whole, atol=1e-5, rtol=0)


def test_what_is_the_same_is_solved_once_and_what_is_cut_off_is_said(monkeypatch, caplog):
    features, cause = data()
    targets = torch.from_numpy(np.eye(2)[(cause[:, 0] > 0).astype(int)])
    calls = []
    whole = logistic_regression.solve
    monkeypatch.setattr(
        logistic_regression, "solve", lambda *values: calls.append(values[2]) or whole(*values)
    )
    rows = np.arange(ROWS)
    problems = [(rows, zeros(2)), (rows[::-1].copy(), zeros(2)), (rows, zeros(2) + 1)]
    cut = SOLVER.model_copy(update={"max_iterations": 2})
    heads, solutions = solve_each(features, targets, problems, True, cut)
    assert len(calls) == 2 and torch.equal(heads.weight_KFC[0], heads.weight_KFC[1])
    said = longest("100", solutions, cut)
    assert said["iterations"] == 2 and said["gradient"] > cut.tolerance
    assert "100 % of the labels: the gradient is" in caplog.text


def test_heads_of_cells_are_scikit_learns_with_each_cell_in_both_classes():
    """A soft target is one row of each class, weighted by it; unused cells take no part."""
    rng = np.random.default_rng(4)
    images, cells = 12, 9
    features = torch.from_numpy(rng.normal(size=(images, cells, 3))).half()
    annotated = torch.from_numpy(1 / (1 + np.exp(2 - 2 * features[..., 0].double().numpy())))
    used = torch.from_numpy(rng.random((images, cells)) < 0.8)
    rows = np.stack([share_images(images, 0.5, seed) for seed in (0, 1)])
    heads, solutions = solve_patch_heads(features, annotated, used, rows, torch.zeros(3, 2), SOLVER)
    for number, own in enumerate(rows):
        chosen = used[own]
        x = features[own][chosen].double().numpy()
        part = annotated[own][chosen].numpy()
        scaler = StandardScaler().fit(x)
        model = LogisticRegression(tol=1e-10, max_iter=10_000)
        model.fit(
            scaler.transform(np.concatenate([x, x])),
            np.repeat([1, 0], len(x)),
            np.concatenate([part, 1 - part]),
        )
        weight_FC, bias_C = heads.weight_KFC[number], heads.bias_KC[number]
        wanted = model.coef_[0] / scaler.scale_
        np.testing.assert_allclose(weight_FC[:, 1] - weight_FC[:, 0], wanted, atol=1e-4)
        bias = model.intercept_[0] - scaler.mean_ @ wanted
        assert float(bias_C[1] - bias_C[0]) == pytest.approx(bias, abs=1e-4)
        assert solutions[number].gradient <= SOLVER.tolerance
