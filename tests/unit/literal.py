"""Objectives beside literal transcriptions of their equations in float64."""

from typing import Any

import pytest
import torch
from torch import Tensor


def draw(*shape: int, seed: int = 0) -> Tensor:
    """Normal numbers in float64."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def unit(vector: Tensor) -> Tensor:
    """Of length 1."""
    return vector / torch.sqrt((vector * vector).sum())


def same(ours: Tensor, literal: Tensor, *inputs: Tensor) -> None:
    """Values agree, and so do gradients; what the transcription does not read gets none."""
    torch.testing.assert_close(ours, literal, rtol=1e-11, atol=1e-12)
    wanted = [torch.nan_to_num(gradient) for gradient in torch.autograd.grad(literal, inputs)]
    torch.testing.assert_close(torch.autograd.grad(ours, inputs), wanted, rtol=1e-9, atol=1e-11)


def identical(found: Any, wanted: Any) -> None:
    """Two tensors, or all those of two sequences or mappings, agree to the bit."""
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)


@pytest.fixture
def in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    """The objectives compute in float32 under autocast; the comparison needs float64."""
    monkeypatch.setattr(Tensor, "float", lambda self: self)
