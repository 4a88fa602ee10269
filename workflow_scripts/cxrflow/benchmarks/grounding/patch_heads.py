"""Linear heads on the cells of images: the part of a cell that is annotated, from its features.

BioViL section 2.2 ("Few-shot Tasks"), local representations: logits = features · weight + bias for
two classes, cross-entropy with the annotated part of the cell as the positive class's target. A
head is the optimum over the cells of its images.

Shapes: N images, P cells of one, F features, S heads, M images of a head, C = 2 classes.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrflow.benchmarks.classification.logistic_regression import (
    LinearHeads,
    Solution,
    solve_each,
)
from cxrflow.benchmarks.classification.settings import ConvergedSolver


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
    """The optimum over the used cells of each head's images; biases start at 0.

    Args:
        features_NPF: any floating point; its device is that of the work.
        annotated_NP: target of each cell, in [0, 1].
        used_NP: bool; cells that show no image have no part in the loss.
        rows_SM: the images of each head.
        start_FC: weights of the negative and the positive class.
    """
    start_GC = torch.cat([start_FC, start_FC.new_zeros(1, 2)])
    targets_NPC = torch.stack([1 - annotated_NP, annotated_NP], dim=2)
    shows_image, cells = used_NP.numpy(), np.arange(used_NP.numel()).reshape(used_NP.shape)
    problems = [(cells[rows][shows_image[rows]], start_GC) for rows in rows_SM]
    return solve_each(features_NPF.flatten(0, 1), targets_NPC.flatten(0, 1), problems, True, solver)
