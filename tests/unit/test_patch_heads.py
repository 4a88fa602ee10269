"""Linear heads on cells: a pattern to be found, and the shares of images they learn from."""

import numpy as np
import pytest
import torch

from cxrflow.benchmarks.classification.settings import ConvergedSolver
from cxrflow.benchmarks.grounding.patch_heads import share_rows, solve_patch_heads

IMAGES, CELLS, WIDTH = 11, 6, 5


def test_a_planted_pattern_is_found():
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(IMAGES, CELLS, WIDTH, generator=generator)
    used = torch.rand(IMAGES, CELLS, generator=generator) < 0.8
    planted = torch.tensor([2.0, -1.0, 0.0, 1.0, 0.5])
    annotated = (features @ planted - 0.5).sigmoid()
    annotated[~used] = 0  # must not be read
    solver = ConvergedSolver(inverse_penalty=1e9, standardise=False)
    rows = np.arange(IMAGES)[None]
    heads, _ = solve_patch_heads(features, annotated, used, rows, torch.zeros(WIDTH, 2), solver)
    difference = heads.weight_KFC[0, :, 1] - heads.weight_KFC[0, :, 0]
    torch.testing.assert_close(difference, planted, atol=0.01, rtol=0)
    assert float(heads.bias_KC[0, 1] - heads.bias_KC[0, 0]) == pytest.approx(-0.5, abs=0.01)


def test_shares_are_nested_and_never_empty():
    few, many, all_ = (set(share_rows(40, fraction, 7)) for fraction in (0.05, 0.5, 1.0))
    assert few < many < all_ == set(range(40))
    assert (len(few), len(many)) == (2, 20)
    assert len(share_rows(40, 0.001, 7)) == 1
    assert few != set(share_rows(40, 0.05, 8))
