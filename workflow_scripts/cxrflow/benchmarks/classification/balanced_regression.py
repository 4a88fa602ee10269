"""Cross-validated logistic regression of rare classes: the heads of all classes and folds at once.

Each head is that of scikit-learn's ``LogisticRegression(class_weight="balanced")`` on the rows
outside its fold, whose features have mean 0 and variance 1 there::

    sum over rows of weight * cross-entropy + |w|^2 / (2 C)
    weight = rows / (2 * rows of the label)

the bias not penalised. Weights have mean 1, so the Hessian of every head is near one matrix, a
quarter of the features' covariance with the penalty. In its coordinates an L-BFGS of all heads side
by side, each with steps of its own, needs one matrix product a step for all of them; float64.

Shapes: N rows, F features, G = F + 1 with the bias last, C classes, K folds, H heads (K, then C).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrflow.metrics.intervals import Floats

_CURVATURE = 0.25  # of the cross-entropy at a probability of 0.5
_MEMORY, _MOST_STEPS, _MOST_HALVES = 20, 2000, 30
_DECREASE = 1e-4  # least decrease of the loss, relative to the slope (Armijo)


class Folds(NamedTuple):
    """The scores of rows by heads that have not learnt from them.

    Attributes:
        logit_NC: NaN where a head could not be learnt.
        learnt_KC: whether the rows outside the fold have both labels.
        steps: of the longest search.
    """

    logit_NC: Floats
    learnt_KC: NDArray[np.bool_]
    steps: int


@torch.no_grad()
def cross_validate(
    features_NF: Tensor,
    labels_NC: Floats,
    folds_N: NDArray[np.int64],
    inverse_penalty: float = 1.0,
    tolerance: float = 1e-6,
) -> Folds:
    """Score each fold by heads that learn from the rest; labels are 1, 0 or NaN (unknown).

    ``tolerance``: of the gradient, in coordinates where the Hessian is about 1.
    """
    count = int(folds_N.max()) + 1
    outside_KN = torch.from_numpy(folds_N != np.arange(count)[:, None]).to(features_NF.device)
    x_NF = features_NF.double()
    spread_KF = torch.stack([x_NF[rows_N].std(0, correction=0) for rows_N in outside_KN])
    mean_F, scale_F = x_NF.mean(0), x_NF.std(0, correction=0)
    varies_F = scale_F > 1e-12 * mean_F.abs()
    scale_F = torch.where(varies_F, scale_F, 1.0)
    x_NF = (x_NF - mean_F).div_(scale_F)
    # Features of variance 1 in a fold are w * spread in these coordinates; a constant stays 0.
    spread_KF = torch.where(spread_KF > 1e-12 * mean_F.abs(), spread_KF / scale_F, 1.0)

    label_NC = torch.from_numpy(labels_NC).to(x_NF.device)
    both_KC = torch.stack(
        [(label_NC[rows_N] == 1).any(0) & (label_NC[rows_N] == 0).any(0) for rows_N in outside_KN]
    )
    fold_H, class_H = both_KC.nonzero(as_tuple=True)
    logit_NC = np.full(labels_NC.shape, np.nan)
    if not len(fold_H):
        return Folds(logit_NC, both_KC.cpu().numpy(), 0)
    target_NH, weight_NH = _balanced(label_NC[:, class_H], outside_KN[fold_H].T)
    penalty_FH = spread_KF[fold_H].T.square() / inverse_penalty

    curvature_FF = _CURVATURE * (1 - 1 / count) * (x_NF.T @ x_NF)
    curvature_FF.diagonal().add_(1 / inverse_penalty)
    root_FF = torch.linalg.cholesky(curvature_FF)
    bias_scale = (_CURVATURE * len(x_NF)) ** 0.5

    def heads(place_GH: Tensor) -> tuple[Tensor, Tensor]:
        weights_FH = torch.linalg.solve_triangular(root_FF.T, place_GH[:-1], upper=True)
        return weights_FH, place_GH[-1] / bias_scale

    def loss_and_slope(place_GH: Tensor) -> tuple[Tensor, Tensor]:
        head_FH, bias_H = heads(place_GH)
        logit_NH = torch.addmm(bias_H, x_NF, head_FH)
        losses_NH = torch.nn.functional.softplus(logit_NH) - target_NH * logit_NH
        decay_FH = penalty_FH * head_FH
        loss_H = (losses_NH * weight_NH).sum(0) + (decay_FH * head_FH).sum(0) / 2
        error_NH = (logit_NH.sigmoid() - target_NH) * weight_NH
        slope_FH = torch.addmm(decay_FH, x_NF.T, error_NH)
        slope_FH = torch.linalg.solve_triangular(root_FF, slope_FH, upper=False)
        return loss_H, torch.cat([slope_FH, error_NH.sum(0, keepdim=True) / bias_scale])

    start_GH = x_NF.new_zeros(x_NF.shape[1] + 1, len(fold_H))
    place_GH, steps = minimise(loss_and_slope, start_GH, tolerance)
    head_FH, bias_H = heads(place_GH)
    logit_NH = torch.addmm(bias_H, x_NF, head_FH).cpu().numpy()
    for head, (fold, number) in enumerate(zip(fold_H.tolist(), class_H.tolist(), strict=True)):
        inside_N = folds_N == fold
        logit_NC[inside_N, number] = logit_NH[inside_N, head]
    return Folds(logit_NC, both_KC.cpu().numpy(), steps)


def _balanced(label_NH: Tensor, outside_NH: Tensor) -> tuple[Tensor, Tensor]:
    """Targets [N, H] and weights [N, H]; 0 where a head does not learn from a row."""
    known_NH = label_NH.isfinite() & outside_NH
    target_NH = label_NH.nan_to_num()
    rows_H, positive_H = known_NH.sum(0), (target_NH * known_NH).sum(0)
    balance_NH = torch.where(target_NH == 1, rows_H / positive_H, rows_H / (rows_H - positive_H))
    return target_NH, known_NH * balance_NH / 2


def minimise(
    loss_and_slope: Callable[[Tensor], tuple[Tensor, Tensor]], place_GH: Tensor, tolerance: float
) -> tuple[Tensor, int]:
    """The minima [G, H] of H convex losses by L-BFGS, and the number of steps.

    All are searched at the same time. Each loss has its own memory and step length. A loss that has
    converged is not changed any more.
    """
    loss_H, slope_GH = loss_and_slope(place_GH)
    memory: list[tuple[Tensor, Tensor, Tensor]] = []
    scale_H = torch.ones_like(loss_H)
    for step in range(_MOST_STEPS):
        moving_H = slope_GH.abs().amax(0) > tolerance
        if not moving_H.any():
            return place_GH, step
        direction_GH = -_times_inverse(slope_GH, memory, scale_H) * moving_H
        promise_H = (direction_GH * slope_GH).sum(0)
        length_H = torch.ones_like(loss_H)
        for _ in range(_MOST_HALVES):
            next_GH = place_GH + length_H * direction_GH
            next_loss_H, next_slope_GH = loss_and_slope(next_GH)
            # Rounding of a sum of losses must not stop the last steps.
            allowed_H = loss_H + _DECREASE * length_H * promise_H + 1e-12 * loss_H.abs()
            if (next_loss_H <= allowed_H).all():
                break
            length_H = torch.where(next_loss_H > allowed_H, length_H / 2, length_H)
        moved_GH, turned_GH = next_GH - place_GH, next_slope_GH - slope_GH
        product_H = (moved_GH * turned_GH).sum(0)
        bends_H = product_H > 0
        inverse_H = torch.where(bends_H, 1 / product_H, 0.0)
        memory = [*memory[1 - _MEMORY :], (moved_GH, turned_GH, inverse_H)]
        squares_H = turned_GH.square().sum(0)
        scale_H = torch.where(bends_H, product_H / squares_H, scale_H)
        place_GH, loss_H, slope_GH = next_GH, next_loss_H, next_slope_GH
    return place_GH, _MOST_STEPS


def _times_inverse(
    slope_GH: Tensor, memory: list[tuple[Tensor, Tensor, Tensor]], scale_H: Tensor
) -> Tensor:
    """The slopes times the inverse Hessians that the memory gives (Nocedal 1980)."""
    result_GH, shares = slope_GH, []
    for moved_GH, turned_GH, inverse_H in reversed(memory):
        share_H = inverse_H * (moved_GH * result_GH).sum(0)
        result_GH = result_GH - share_H * turned_GH
        shares.append(share_H)
    result_GH = scale_H * result_GH
    for (moved_GH, turned_GH, inverse_H), share_H in zip(memory, reversed(shares), strict=True):
        result_GH = result_GH + (share_H - inverse_H * (turned_GH * result_GH).sum(0)) * moved_GH
    return result_GH
