"""Cross-validated logistic regression of rare classes: the heads of all classes and folds at once.

Each head is that of scikit-learn's ``LogisticRegression(class_weight="balanced")`` on the rows
outside its fold, whose features have mean 0 and variance 1 there::

    sum over rows of weight * cross-entropy + |w|^2 / (2 C)
    weight = rows / (2 * rows of the label)

the bias not penalised. Weights have mean 1, so the Hessian of every head is near one matrix, a
quarter of the features' covariance with the penalty. In its coordinates all heads are searched side
by side, each with steps of its own, so that a step is two matrix products for all of them. An
L-BFGS in float32 comes near. Newton's steps end the search: their slopes are float64, and the
linear equations of a step are solved by conjugate gradients in float32, which the memory of the
L-BFGS preconditions.

Shapes: N rows, F features, G = F + 1 with the bias last, C classes, K folds, H heads (K, then C).
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrflow.metrics.intervals import Floats

_CURVATURE = 0.25  # of the cross-entropy at a probability of 0.5
_MEMORY, _MOST_STEPS, _MOST_HALVES = 20, 2000, 30
_NEAR = 1e-2  # slope at which Newton's steps take over
_MOST_PRODUCTS, _REDUCTION = 40, 0.1  # of the conjugate gradients of one Newton step
_DECREASE = 1e-4  # least decrease of the loss, relative to the slope (Armijo)


def assign_folds(patients_N: NDArray[np.int64], count: int, seed: int) -> NDArray[np.int64]:
    """Fold [N] of each study, patients shuffled and dealt out; those of one patient lie in one."""
    order = np.random.default_rng(seed).permutation(int(patients_N.max()) + 1)
    return np.asarray(order[patients_N] % count)


class Folds(NamedTuple):
    """The scores of rows by heads that have not learnt from them.

    Attributes:
        logit_NC: NaN where a head could not be learnt.
        learnt_KC: whether the rows outside the fold have both labels.
        steps: of both searches.
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
    mean_F, scale_F = x_NF.mean(0), x_NF.std(0, correction=0)
    varies_F = scale_F > 1e-12 * mean_F.abs()
    scale_F = torch.where(varies_F, scale_F, 1.0)
    x_NF = (x_NF - mean_F).div_(scale_F)
    # Features of variance 1 in a fold are w * spread in these coordinates; a constant stays 0.
    spread_KF = _spread_outside(x_NF, outside_KN)
    spread_KF = torch.where(spread_KF * scale_F > 1e-12 * mean_F.abs(), spread_KF, 1.0)

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

    heads = _Heads(x_NF, target_NH, weight_NH, penalty_FH, root_FF, bias_scale)
    place_GH, steps = minimise(heads, tolerance)
    logit_NH = heads.logits(place_GH).cpu().numpy()
    for head, (fold, number) in enumerate(zip(fold_H.tolist(), class_H.tolist(), strict=True)):
        inside_N = folds_N == fold
        logit_NC[inside_N, number] = logit_NH[inside_N, head]
    return Folds(logit_NC, both_KC.cpu().numpy(), steps)


def _spread_outside(x_NF: Tensor, outside_KN: Tensor) -> Tensor:
    """Standard deviations [K, F] outside each fold, of what each fold has (Chan et al. 1983)."""
    folds = [x_NF[~rows_N] for rows_N in outside_KN]
    rows_K = x_NF.new_tensor([len(fold) for fold in folds])[:, None]
    mean_KF = torch.stack([fold.mean(0) for fold in folds])
    squares_KF = torch.stack([fold.var(0, correction=0) for fold in folds]) * rows_K
    outside_K = len(x_NF) - rows_K
    others_KK = 1 - torch.eye(len(folds), dtype=x_NF.dtype, device=x_NF.device)
    centre_KF = others_KK @ (mean_KF * rows_K) / outside_K
    between_KKF = (mean_KF - centre_KF[:, None]).square() * rows_K
    total_KF = others_KK @ squares_KF + torch.einsum("kj,kjf->kf", others_KK, between_KKF)
    return (total_KF / outside_K).sqrt()


def _balanced(label_NH: Tensor, outside_NH: Tensor) -> tuple[Tensor, Tensor]:
    """Targets [N, H] and weights [N, H]; 0 where a head does not learn from a row."""
    known_NH = label_NH.isfinite() & outside_NH
    target_NH = label_NH.nan_to_num()
    rows_H, positive_H = known_NH.sum(0), (target_NH * known_NH).sum(0)
    balance_NH = torch.where(target_NH == 1, rows_H / positive_H, rows_H / (rows_H - positive_H))
    return target_NH, known_NH * balance_NH / 2


class _Heads(NamedTuple):
    """Heads of all classes and folds, on one set of standardised features.

    A *place* [G, H] is the weights times ``root`` and the bias times ``bias_scale``.
    """

    x_NF: Tensor
    target_NH: Tensor
    weight_NH: Tensor
    penalty_FH: Tensor
    root_FF: Tensor  # lower triangular: the square root of the curvature
    bias_scale: float

    def in_float32(self) -> "_Heads":
        """Return the same heads, computed in half the time."""
        return _Heads(
            self.x_NF.float(),
            self.target_NH.float(),
            self.weight_NH.float(),
            self.penalty_FH.float(),
            self.root_FF.float(),
            self.bias_scale,
        )

    def _weights(self, place_GH: Tensor) -> Tensor:
        return torch.linalg.solve_triangular(self.root_FF.T, place_GH[:-1], upper=True)

    def logits(self, place_GH: Tensor) -> Tensor:
        """The logits [N, H] of all rows, those of the fold too."""
        bias_H = place_GH[-1] / self.bias_scale
        return torch.addmm(bias_H, self.x_NF, self._weights(place_GH))

    def loss_and_slope(self, place_GH: Tensor) -> tuple[Tensor, Tensor]:
        """The losses [H] and their gradients [G, H]."""
        head_FH = self._weights(place_GH)
        logit_NH = torch.addmm(place_GH[-1] / self.bias_scale, self.x_NF, head_FH)
        losses_NH = torch.nn.functional.softplus(logit_NH).sub_(self.target_NH * logit_NH)
        decay_FH = self.penalty_FH * head_FH
        loss_H = losses_NH.mul_(self.weight_NH).sum(0) + (decay_FH * head_FH).sum(0) / 2
        error_NH = logit_NH.sigmoid_().sub_(self.target_NH).mul_(self.weight_NH)
        return loss_H, self._back(decay_FH, error_NH)

    def curvature(self, place_GH: Tensor) -> Tensor:
        """The second derivative [N, H] of each row's loss by its logit."""
        probability_NH = self.logits(place_GH).sigmoid_()
        return probability_NH * (1 - probability_NH) * self.weight_NH

    def times_hessian(self, vector_GH: Tensor, curvature_NH: Tensor) -> Tensor:
        """The Hessians of all heads times a vector [G, H] each."""
        head_FH = self._weights(vector_GH)
        change_NH = torch.addmm(vector_GH[-1] / self.bias_scale, self.x_NF, head_FH)
        return self._back(self.penalty_FH * head_FH, change_NH.mul_(curvature_NH))

    def _back(self, decay_FH: Tensor, error_NH: Tensor) -> Tensor:
        # Of the two ways round this is the fast one: x.T @ error takes twice as long in float32,
        # three times as long in float64.
        slope_FH = decay_FH + (error_NH.T @ self.x_NF).T
        slope_FH = torch.linalg.solve_triangular(self.root_FF, slope_FH, upper=False)
        return torch.cat([slope_FH, error_NH.sum(0, keepdim=True) / self.bias_scale])


class _Memory(NamedTuple):
    """The last steps of an L-BFGS: how far, how the slope turned, and 1 / their product."""

    steps: tuple[tuple[Tensor, Tensor, Tensor], ...]
    scale_H: Tensor

    def times_inverse(self, slope_GH: Tensor) -> Tensor:
        """The slopes times the inverse Hessians that the steps tell of (Nocedal 1980)."""
        result_GH, shares = slope_GH, []
        for moved_GH, turned_GH, inverse_H in reversed(self.steps):
            share_H = inverse_H * (moved_GH * result_GH).sum(0)
            result_GH = torch.addcmul(result_GH, turned_GH, share_H, value=-1)
            shares.append(share_H)
        result_GH = self.scale_H * result_GH
        for (moved_GH, turned_GH, inverse_H), share_H in zip(
            self.steps, reversed(shares), strict=True
        ):
            left_H = share_H - inverse_H * (turned_GH * result_GH).sum(0)
            result_GH = torch.addcmul(result_GH, moved_GH, left_H)
        return result_GH

    def after(self, moved_GH: Tensor, turned_GH: Tensor) -> "_Memory":
        """With one more step. A head that did not move keeps its scale."""
        product_H = (moved_GH * turned_GH).sum(0)
        bends_H = product_H > 0
        inverse_H = torch.where(bends_H, 1 / product_H, 0.0)
        scale_H = torch.where(bends_H, product_H / turned_GH.square().sum(0), self.scale_H)
        steps = (*self.steps[1 - _MEMORY :], (moved_GH, turned_GH, inverse_H))
        return _Memory(steps, scale_H)


def minimise(heads: _Heads, tolerance: float) -> tuple[Tensor, int]:
    """The places [G, H] of the least losses, and the number of steps."""
    rough = heads.in_float32()
    start_GH = rough.x_NF.new_zeros(rough.x_NF.shape[1] + 1, rough.target_NH.shape[1])
    place_GH, memory, steps = _lbfgs(rough, start_GH, _NEAR)
    place_GH = place_GH.double()
    loss_H, slope_GH = heads.loss_and_slope(place_GH)
    while steps < _MOST_STEPS:
        moving_H = slope_GH.abs().amax(0) > tolerance
        if not moving_H.any():
            break
        curvature_NH = rough.curvature(place_GH.float())
        direction_GH = _solve(rough, curvature_NH, -slope_GH.float(), memory).double() * moving_H
        place_GH, loss_H, slope_GH = _descend(
            heads, place_GH, loss_H, slope_GH, direction_GH, 1e-12
        )
        steps += 1
    return place_GH, steps


def _lbfgs(heads: _Heads, place_GH: Tensor, tolerance: float) -> tuple[Tensor, _Memory, int]:
    """All heads at the same time. One that has converged is not changed any more."""
    loss_H, slope_GH = heads.loss_and_slope(place_GH)
    memory = _Memory((), torch.ones_like(loss_H))
    for step in range(_MOST_STEPS // 10):
        moving_H = slope_GH.abs().amax(0) > tolerance
        if not moving_H.any():
            return place_GH, memory, step
        direction_GH = -memory.times_inverse(slope_GH) * moving_H
        before_GH, slope_before_GH = place_GH, slope_GH
        place_GH, loss_H, slope_GH = _descend(heads, place_GH, loss_H, slope_GH, direction_GH, 1e-6)
        memory = memory.after(place_GH - before_GH, slope_GH - slope_before_GH)
    return place_GH, memory, _MOST_STEPS // 10


def _descend(
    heads: _Heads,
    place_GH: Tensor,
    loss_H: Tensor,
    slope_GH: Tensor,
    direction_GH: Tensor,
    rounding: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Place, loss and slope after a step that is halved until the loss falls (Armijo).

    ``rounding``: of a loss, which must not stop the last steps.
    """
    promise_H = (direction_GH * slope_GH).sum(0)
    length_H = torch.ones_like(loss_H)
    for _ in range(_MOST_HALVES):
        next_GH = place_GH + length_H * direction_GH
        next_loss_H, next_slope_GH = heads.loss_and_slope(next_GH)
        allowed_H = loss_H + _DECREASE * length_H * promise_H + rounding * loss_H.abs()
        if (next_loss_H <= allowed_H).all():
            break
        length_H = torch.where(next_loss_H > allowed_H, length_H / 2, length_H)
    return next_GH, next_loss_H, next_slope_GH


def _solve(heads: _Heads, curvature_NH: Tensor, right_GH: Tensor, memory: _Memory) -> Tensor:
    """Hessian x solution = right, by preconditioned conjugate gradients, for all heads."""
    solution_GH, rest_GH = torch.zeros_like(right_GH), right_GH
    near_GH = memory.times_inverse(rest_GH)
    product_H = (rest_GH * near_GH).sum(0)
    enough_H = _REDUCTION**2 * rest_GH.square().sum(0)
    direction_GH = near_GH
    tiny = torch.finfo(right_GH.dtype).tiny
    for _ in range(_MOST_PRODUCTS):
        image_GH = heads.times_hessian(direction_GH, curvature_NH)
        length_H = product_H / (direction_GH * image_GH).sum(0).clamp(min=tiny)
        solution_GH = torch.addcmul(solution_GH, direction_GH, length_H)
        rest_GH = torch.addcmul(rest_GH, image_GH, length_H, value=-1)
        if (rest_GH.square().sum(0) <= enough_H).all():
            break
        near_GH = memory.times_inverse(rest_GH)
        before_H, product_H = product_H, (rest_GH * near_GH).sum(0)
        share_H = product_H / before_H.clamp(min=tiny)
        direction_GH = torch.addcmul(near_GH, direction_GH, share_H)
    return solution_GH
