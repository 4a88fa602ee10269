"""MedCutMix's equations in float64."""

from typing import Any

import pytest
import torch
from literal import draw, in_float64, same, unit
from torch import Tensor

from cxrflow.objectives.cutmix import mixed_features, sentence_regions

__all__ = ["in_float64"]


@pytest.mark.usefixtures("in_float64")
def test_regions_are_equation_2() -> None:
    patches = torch.stack([torch.stack([unit(p) for p in image]) for image in draw(2, 4, 3)])
    words = torch.stack([torch.stack([unit(w) for w in text]) for text in draw(2, 5, 3, seed=1)])
    is_word = torch.tensor([[True, True, False, False, True], [False, True, True, True, False]])
    literal = torch.zeros(2, 4, dtype=torch.float64)
    for image in range(2):
        for word in range(5):
            if is_word[image, word]:
                exponentials = [torch.exp(patches[image, m] @ words[image, word] / 0.1)
                                for m in range(4)]  # fmt: skip
                for m in range(4):
                    literal[image, m] += exponentials[m] / sum(exponentials)

    def ours(summary: Any) -> Tensor:
        return sentence_regions(patches, words, is_word, 0.1, summary)

    torch.testing.assert_close(ours("printed"), literal)
    assert literal.max() > 1  # so that clipping does something
    torch.testing.assert_close(ours("clip"), torch.minimum(literal, torch.ones(())))
    torch.testing.assert_close(ours("mean"), literal / 3)
    largest = torch.stack([row / max(row.tolist()) for row in literal])
    torch.testing.assert_close(ours("max"), largest)
    assert not sentence_regions(patches.requires_grad_(), words, is_word).requires_grad


def test_regions_are_as_exact_in_mixed_precision() -> None:
    """A temperature of .005 makes the half of the last bit of a bf16 cosine a factor of two."""
    common = draw(1, 1, 16)
    patches = torch.nn.functional.normalize(common + 0.5 * draw(4, 9, 16, seed=1), dim=2).float()
    words = torch.nn.functional.normalize(common + 0.5 * draw(4, 5, 16, seed=2), dim=2).float()
    is_word = torch.ones(4, 5, dtype=torch.bool)
    exact = sentence_regions(patches, words, is_word)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = sentence_regions(patches, words, is_word)
    assert mixed.dtype == torch.float32
    assert torch.equal(mixed, exact)


@pytest.mark.parametrize("kind", ["convolutions", "tokens"])
def test_mixing_is_equation_4(kind: str) -> None:
    """By hand, on four patches: C = 0 is the target, C = 1 the source."""
    region = torch.tensor([[[0.0, 1.0], [0.25, 0.5]]], dtype=torch.float64)
    cls_share = torch.tensor([0.75], dtype=torch.float64)
    if kind == "tokens":
        source, target = (draw(1, 5, 3, seed=seed).requires_grad_() for seed in (0, 1))
        shares = [0.75, 0.0, 1.0, 0.25, 0.5]
        rows = [s * source[0, n] + (1 - s) * target[0, n] for n, s in enumerate(shares)]
        literal = torch.stack(rows)[None]
    else:
        source, target = (draw(1, 3, 4, 4, seed=seed).requires_grad_() for seed in (0, 1))
        cells = []
        for y in range(4):
            for x in range(4):
                share = region[0, y // 2, x // 2]
                cells.append(share * source[0, :, y, x] + (1 - share) * target[0, :, y, x])
        literal = torch.stack(cells, dim=1).unflatten(1, (4, 4))[None]
    mixed = mixed_features(source, target, region, cls_share)
    torch.testing.assert_close(mixed, literal)
    weight = draw(*literal.shape, seed=5)
    same((mixed * weight).sum(), (literal * weight).sum(), source, target)
    ones, zeros = torch.ones_like(region), torch.zeros_like(region)
    assert torch.equal(mixed_features(source, target, ones, ones[:, 0, 0]), source)
    assert torch.equal(mixed_features(source, target, zeros, zeros[:, 0, 0]), target)
