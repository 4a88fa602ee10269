"""Linear heads on cells: against one head trained alone by torch, and a pattern to be found."""

import numpy as np
import pytest
import torch
from torch import nn

from cxrflow.benchmarks.classification.settings import PatchAdamW
from cxrflow.benchmarks.grounding.patch_heads import share_rows, train_patch_heads
from cxrflow.training.order import epoch_order

IMAGES, CELLS, WIDTH = 11, 6, 5


def data(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(IMAGES, CELLS, WIDTH, generator=generator)
    annotated = torch.rand(IMAGES, CELLS, generator=generator)
    used = torch.rand(IMAGES, CELLS, generator=generator) < 0.8
    used[:, 0] = True
    return features, annotated, used


def one_alone(features, annotated, used, rows, seed, start, epochs, batch, rate, decay):
    """A head of its own: cell by cell, cross-entropy of two classes with soft targets."""
    head = nn.Linear(WIDTH, 2)
    with torch.no_grad():
        head.weight.copy_(start.T)
        head.bias.zero_()
    optimiser = torch.optim.AdamW(
        [{"params": [head.weight], "weight_decay": decay}, {"params": [head.bias]}],
        lr=rate, weight_decay=0.0,
    )  # fmt: skip
    for epoch in range(epochs):
        order = rows[epoch_order(len(rows), seed, epoch)]
        for begin in range(0, len(rows), batch):
            terms = []
            for image in order[begin : begin + batch]:
                for cell in range(CELLS):
                    if used[image, cell]:
                        logits = head(features[image, cell])
                        share = annotated[image, cell]
                        target = torch.stack([1 - share, share])
                        terms.append(-(target * logits.log_softmax(0)).sum())
            optimiser.zero_grad()
            torch.stack(terms).mean().backward()
            optimiser.step()
    return head


@pytest.mark.parametrize("fraction", [0.5, 1.0])
def test_every_head_ends_where_it_would_have_ended_alone(fraction):
    features, annotated, used = data()
    seeds = [3, 0]
    rows = np.stack([share_rows(IMAGES, fraction, seed) for seed in seeds])
    start = torch.randn(WIDTH, 2, generator=torch.Generator().manual_seed(5))
    heads = train_patch_heads(
        features, annotated, used, rows, seeds, start,
        PatchAdamW(epochs=3, batch_size=4, learning_rate=0.05, weight_decay=0.1),
    )  # fmt: skip
    for number, seed in enumerate(seeds):
        wanted = one_alone(
            features, annotated, used, rows[number], seed, start, 3, 4, 0.05, 0.1
        )  # fmt: skip
        torch.testing.assert_close(heads.weight_KFC[number], wanted.weight.T, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(heads.bias_KC[number], wanted.bias, rtol=1e-3, atol=1e-4)
    assert not torch.allclose(heads.weight_KFC[0], heads.weight_KFC[1], atol=1e-3)


def test_a_planted_pattern_is_found():
    features, _, used = data(1)
    planted = torch.tensor([2.0, -1.0, 0.0, 1.0, 0.5])
    annotated = (features @ planted - 0.5).sigmoid()
    rows = np.arange(IMAGES)[None]
    heads = train_patch_heads(
        features, annotated, used, rows, [0], torch.zeros(WIDTH, 2),
        PatchAdamW(epochs=300, batch_size=4, learning_rate=0.05, weight_decay=0.0),
    )  # fmt: skip
    difference = heads.weight_KFC[0, :, 1] - heads.weight_KFC[0, :, 0]
    torch.testing.assert_close(difference, planted, atol=0.1, rtol=0)
    assert float(heads.bias_KC[0, 1] - heads.bias_KC[0, 0]) == pytest.approx(-0.5, abs=0.1)


def test_shares_are_nested_and_never_empty():
    few, many, all_ = (set(share_rows(40, fraction, 7)) for fraction in (0.05, 0.5, 1.0))
    assert few < many < all_ == set(range(40))
    assert (len(few), len(many)) == (2, 20)
    assert len(share_rows(40, 0.001, 7)) == 1
    assert few != set(share_rows(40, 0.05, 8))
