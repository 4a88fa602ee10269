"""Linear heads on the cells of images: the part of a cell that is annotated, from its features.

BioViL section 2.2 ("Few-shot Tasks"), local representations: logits = features · weight + bias for
two classes, cross-entropy with the annotated part of the cell as the positive class's target. A
head is the optimum over the cells of its images, or trained with AdamW on batches of images; then
those of several seeds are trained in one product, and each ends where it would have ended alone,
since Adam treats every number by itself.

Shapes: N images, P cells of one, F features, S heads, M images of a head, B images of a batch,
C = 2 classes.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cxrflow.benchmarks.classification.linear_heads import LinearHeads
from cxrflow.benchmarks.classification.logistic_regression import Solution, solve_each
from cxrflow.benchmarks.classification.settings import ConvergedSolver, PatchAdamW
from cxrflow.training.order import epoch_order


def share_rows(images: int, fraction: float, seed: int) -> NDArray[np.int64]:
    """A share of ``range(images)``, at least one; those of one seed hold each other."""
    count = max(1, round(fraction * images))
    return np.random.default_rng([seed, images]).permutation(images)[:count].astype(np.int64)


def solve_patch_heads(
    features_NPF: Tensor,
    annotated_NP: Tensor,
    used_NP: Tensor,
    rows_SM: NDArray[np.int64],
    start_FC: Tensor,
    solver: ConvergedSolver,
) -> tuple[LinearHeads, list[Solution]]:
    """The optimum over the used cells of each head's images; arguments as of the training."""
    start_GC = torch.cat([start_FC, start_FC.new_zeros(1, 2)])
    targets_NPC = torch.stack([1 - annotated_NP, annotated_NP], dim=2)
    used, cells = used_NP.numpy(), np.arange(used_NP.numel()).reshape(used_NP.shape)
    problems = [(cells[rows][used[rows]], start_GC) for rows in rows_SM]
    return solve_each(features_NPF.flatten(0, 1), targets_NPC.flatten(0, 1), problems, True, solver)


def train_patch_heads(
    features_NPF: Tensor,
    annotated_NP: Tensor,
    used_NP: Tensor,
    rows_SM: NDArray[np.int64],
    seeds: list[int],
    start_FC: Tensor,
    solver: PatchAdamW,
) -> LinearHeads:
    """Train S heads that start alike, bias 0, on images and in orders of their own.

    Args:
        features_NPF: any floating point; a batch is brought to float32. Its device is the
            training's.
        annotated_NP: target of each cell, in [0, 1].
        used_NP: bool; cells that show no image have no part in the loss.
        rows_SM: the images of each head.
        seeds: of the heads' orders.
        start_FC: weights of the negative and the positive class.
        solver: its batches are of images; the last one of an epoch may have fewer.
    """
    device = features_NPF.device
    heads, size = rows_SM.shape
    weight_SFC = nn.Parameter(start_FC.to(device).float().repeat(heads, 1, 1))
    bias_S1C = nn.Parameter(torch.zeros(heads, 1, 2, device=device))
    groups = [
        {"params": [weight_SFC], "weight_decay": solver.weight_decay},
        {"params": [bias_S1C], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=solver.learning_rate)
    targets_NP, counted_NP = annotated_NP.to(device).float(), used_NP.to(device).float()
    for epoch in range(solver.epochs):
        order_SM = np.stack(
            [
                rows[epoch_order(size, seed, epoch)]
                for rows, seed in zip(rows_SM, seeds, strict=True)
            ]
        )
        for begin in range(0, size, solver.batch_size):
            batch_SB = torch.from_numpy(order_SM[:, begin : begin + solver.batch_size]).to(device)
            x_SQF = features_NPF[batch_SB].flatten(1, 2).float()
            logits_SQC = torch.baddbmm(bias_S1C, x_SQF, weight_SFC)
            # Two-class cross-entropy is that of the difference of the two logits.
            loss_SQ = nn.functional.binary_cross_entropy_with_logits(
                logits_SQC[..., 1] - logits_SQC[..., 0],
                targets_NP[batch_SB].flatten(1),
                reduction="none",
            )
            counted_SQ = counted_NP[batch_SB].flatten(1)
            loss = ((loss_SQ * counted_SQ).sum(1) / counted_SQ.sum(1)).sum()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return LinearHeads(weight_SFC.detach(), bias_S1C.detach()[:, 0])
