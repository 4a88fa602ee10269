"""Logistic regression to a stated convergence: the minimum of a convex loss, from library parts.

BioViL trains "only a last linear layer" (section 4.4) and starts it at the class prompts (section
2.2), but names no optimiser, so a head here is the optimum, which depends on none:

    sum over rows of the cross-entropy + |weight - start|^2 / (2 C),

the bias not penalised. With a start at 0 this is scikit-learn's ``LogisticRegression(C)``. A convex
problem forgets where its search began; that the penalty draws towards the start is ours, and keeps
what the paper says helps. Two exclusive classes are one class of their weights' difference, as in
scikit-learn. The solver is scipy's L-BFGS, in float64; loss and gradient are in closed form.

Shapes: M rows, F features, C classes, K heads, G = F + 1 with the bias last.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxr_files.errors import InputError
from cxrflow.benchmarks.heads.settings import ConvergedSolver, ProbeSettings

log = logging.getLogger("cxrflow")

_BLOCK = 2**26  # numbers brought to float64 at once


class LinearHeads(NamedTuple):
    """K heads of features as they are."""

    weight_KFC: Tensor
    bias_KC: Tensor

    def logits(self, features_NF: Tensor) -> Tensor:
        """[K, N, C]."""
        return torch.einsum("nf,kfc->knc", features_NF, self.weight_KFC) + self.bias_KC[:, None]


class Solution(NamedTuple):
    """The iterations of a search, and the gradient where it ended."""

    iterations: int
    gradient: float  # greatest absolute value, of the mean over rows


def longest(share: str, solutions: Sequence[Solution], solver: ConvergedSolver) -> dict[str, Any]:
    """Return the greatest numbers of a share's searches, for metrics.json."""
    iterations, gradient = map(max, zip(*solutions, strict=True))
    if gradient > solver.tolerance:
        log.warning(
            "%s %% of the labels: the gradient is %.1e after %d iterations; expected up to %.1e",
            *(share, gradient, iterations, solver.tolerance),
        )
    return {"iterations": iterations, "gradient": gradient}


def start_of(settings: ProbeSettings, prompts: bool) -> str:
    """Return the start of heads, with ``auto`` resolved; ``prompts``: there can be such a start."""
    if settings.start == "prompts" and not prompts:
        raise InputError(
            "settings: key 'start' is 'prompts', but the model has no text encoder, or compares "
            "images with texts by no cosine"
        )
    return ("prompts" if prompts else "zeros") if settings.start == "auto" else settings.start


def start_weights(
    start: str, shape: tuple[int, int], classes_CP: NDArray[np.float64] | None
) -> Tensor:
    """Weights [F, outputs] that a head starts from; ``classes_CP`` has a row an output."""
    if start == "prompts":
        assert classes_CP is not None  # settled by :func:`start_of`
        return torch.from_numpy(classes_CP.T.copy()).float()
    return torch.zeros(shape)


def train_probes(
    train_NF: Tensor,
    labels: NDArray[Any],
    runs: Sequence[tuple[NDArray[np.int64], Tensor]],
    solver: ConvergedSolver,
) -> tuple[LinearHeads, list[Solution]]:
    """The heads of all runs, each of some rows and weights [F, C] to start from; how far each went.

    Biases start at 0.
    """
    exclusive = labels.ndim == 1
    problems = [
        (rows, torch.cat([start, start.new_zeros(1, start.shape[1])])) for rows, start in runs
    ]
    targets = np.eye(runs[0][1].shape[1])[labels] if exclusive else labels
    try:
        return solve_each(train_NF, torch.from_numpy(targets), problems, exclusive, solver)
    except ValueError as error:
        raise InputError(f"samples.parquet: column 'labels': {error}") from None


def solve_each(
    features_NF: Tensor,
    targets_NC: Tensor,
    problems: Sequence[tuple[NDArray[np.int64], Tensor]],
    exclusive: bool,
    solver: ConvergedSolver,
) -> tuple[LinearHeads, list[Solution]]:
    """:func:`solve` for rows and start of each of K heads; what is the same is solved once.

    With all labels the seeds of a sweep draw the same rows.
    """
    solved: dict[tuple[bytes, bytes], tuple[Tensor, Solution]] = {}
    heads = []
    for rows_M, start_GC in problems:
        rows_M = np.sort(rows_M)
        key = (rows_M.tobytes(), start_GC.cpu().numpy().tobytes())
        if key not in solved:
            rows = torch.from_numpy(rows_M)
            solved[key] = solve(features_NF, targets_NC, rows, start_GC, exclusive, solver)
        heads.append(solved[key])
    heads_KGC = torch.stack([head_GC for head_GC, _ in heads])
    solutions = [solution for _, solution in heads]
    return LinearHeads(heads_KGC[:, :-1], heads_KGC[:, -1]), solutions


@torch.no_grad()
def solve(
    features_NF: Tensor,
    targets_NC: Tensor,
    rows_M: Tensor,
    start_GC: Tensor,
    exclusive: bool,
    solver: ConvergedSolver,
) -> tuple[Tensor, Solution]:
    """The head [G, C] at the minimum over ``rows_M``, float32, from and towards ``start_GC``.

    Args:
        features_NF: any floating point, on the device of the work; a block of rows at a time is
            brought to float64. ``solver.standardise`` gives those of ``rows_M`` mean 0 and
            variance 1 (one that is constant there stays 0); the head takes them as they are.
        targets_NC: in [0, 1], those of a row summing to 1 where classes are ``exclusive``; of
            others NaN is unknown. A class whose rows all say the same keeps its start.

    Raises:
        ValueError: one of several exclusive classes is on no row, so that there is no minimum.
    """
    data = _Rows(features_NF, targets_NC, rows_M, solver.standardise)
    # The same functions of the features, as heads of standardised ones.
    head_GC = start_GC.to(features_NF.device, torch.float64, copy=True)
    head_GC[-1] += data.mean_F @ head_GC[:-1]
    head_GC[:-1] *= data.scale_F[:, None]
    learnt_C = ((data.share_C > 0) & (data.share_C < 1)).nonzero()[:, 0]
    solution = Solution(0, 0.0)
    if exclusive and len(learnt_C) < len(data.share_C) > 2:
        raise ValueError("an exclusive class is on none of the rows; expected each on some")
    if exclusive and len(learnt_C) == 2:
        start_G1 = head_GC[:, 1:] - head_GC[:, :1]
        difference_G1, solution = _minimise(data, learnt_C[1:], start_G1, False, solver)
        change_G1 = (difference_G1 - start_G1) / 2
        head_GC += torch.cat([-change_G1, change_G1], dim=1)
    elif len(learnt_C):
        head_GC[:, learnt_C], solution = _minimise(
            data, learnt_C, head_GC[:, learnt_C], exclusive, solver
        )
    head_GC[:-1] /= data.scale_F[:, None]
    head_GC[-1] -= data.mean_F @ head_GC[:-1]
    return head_GC.float(), solution


class _Rows:
    """Chosen rows of the data, a block at a time, with centred and perhaps scaled features."""

    def __init__(
        self, features_NF: Tensor, targets_NC: Tensor, rows_M: Tensor, standardise: bool
    ) -> None:
        device = features_NF.device
        self.features_NF, self.targets_NC = features_NF, targets_NC.to(device)
        self.parts = rows_M.to(device).split(max(1, _BLOCK // features_NF.shape[1]))
        zeros_F = features_NF.new_zeros(features_NF.shape[1], dtype=torch.float64)
        # Centring changes nothing, since the bias is free, and makes the search shorter.
        self.mean_F = sum((features_NF[r].double().sum(0) for r in self.parts), zeros_F)
        self.mean_F = self.mean_F / len(rows_M)
        self.scale_F = torch.ones_like(zeros_F)
        if standardise:
            squares_F = sum((self._centred(r).square().sum(0) for r in self.parts), zeros_F)
            scale_F = (squares_F / len(rows_M)).sqrt()
            # Rounding leaves a constant column a spread of the order of its last digit.
            varies_F = scale_F > 1e-12 * self.mean_F.abs()
            self.scale_F = torch.where(varies_F, scale_F, 1.0)
        # What fits into one block is made once.
        self.kept = [self._block(r) for r in self.parts] if len(self.parts) == 1 else None
        counts = [(labelled.sum(0), target.sum(0)) for _, target, labelled in self.blocks()]
        self.count_C, target_C = (torch.stack(each).sum(0) for each in zip(*counts, strict=True))
        self.share_C = target_C / self.count_C

    def _centred(self, rows_B: Tensor) -> Tensor:
        return self.features_NF[rows_B].double().sub_(self.mean_F)

    def _block(self, rows_B: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        target_BC = self.targets_NC[rows_B].double()
        known_BC = target_BC.isfinite().double()
        return self._centred(rows_B).div_(self.scale_F), target_BC.nan_to_num(), known_BC

    def blocks(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Features [B, F], targets and whether they are known [B, C]."""
        return iter(self.kept) if self.kept is not None else map(self._block, self.parts)


def _minimise(
    data: _Rows, classes_D: Tensor, start_GD: Tensor, softmax: bool, solver: ConvergedSolver
) -> tuple[Tensor, Solution]:
    """The heads of some of the classes, on the features as ``data`` gives them."""
    count_D = data.count_C[classes_D]
    decay_D = 1 / (solver.inverse_penalty * count_D)
    zero = torch.zeros_like(count_D)

    def objective(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """The mean over rows of each class's loss, summed over classes, and its gradient."""
        head_GD = torch.from_numpy(flat).to(start_GD.device).view_as(start_GD)
        away_GD = (head_GD - start_GD).mul_(decay_D)
        away_GD[-1] = 0
        loss, gradient_GD = (away_GD * (head_GD - start_GD)).sum() / 2, away_GD
        for x_BF, target_BC, known_BC in data.blocks():
            logits_BD = torch.addmm(head_GD[-1], x_BF, head_GD[:-1])
            target_BD, weight_BD = target_BC[:, classes_D], known_BC[:, classes_D] / count_D
            if softmax:
                log_BD = logits_BD.log_softmax(1)
                losses_BD, answer_BD = -target_BD * log_BD, log_BD.exp()
            else:
                losses_BD = torch.logaddexp(logits_BD, zero) - target_BD * logits_BD
                answer_BD = logits_BD.sigmoid()
            errors_BD = (answer_BD - target_BD) * weight_BD
            loss = loss + (losses_BD * weight_BD).sum()
            gradient_GD[:-1] += x_BF.T @ errors_BD
            gradient_GD[-1] += errors_BD.sum(0)
        return float(loss), gradient_GD.cpu().numpy().ravel()

    from scipy.optimize import minimize  # which rows without a head do not need

    # 30 corrections: half as many passes over the rows as with scipy's 10.
    options = {"gtol": solver.tolerance, "ftol": 0.0, "maxls": 50, "maxcor": 30}
    limits = {"maxiter": solver.max_iterations, "maxfun": 10 * solver.max_iterations}
    start = start_GD.cpu().numpy().ravel()
    optimum = minimize(objective, start, jac=True, method="L-BFGS-B", options=options | limits)
    head_GD = torch.from_numpy(optimum.x).to(start_GD.device).view_as(start_GD)
    return head_GD, Solution(int(optimum.nit), float(np.abs(optimum.jac).max()))
