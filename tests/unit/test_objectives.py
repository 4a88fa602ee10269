"""Every objective against a literal float64 transcription of its equation, with gradients."""

import pytest
import torch
from literal import draw, in_float64, same, unit  # noqa: F401
from torch import Tensor

from cxrflow.objectives.biovil import global_alignment, masked_language_modelling, section_matching
from cxrflow.objectives.simclr import nt_xent

pytestmark = pytest.mark.usefixtures("in_float64")


def literal_convirt(a: Tensor, b: Tensor, tau: float, share: float) -> Tensor:
    """ConVIRT Eq. 2 to 4, one exponential at a time; BioViL Eq. 1 and 2 are twice its even case."""
    total = torch.zeros((), dtype=torch.float64)
    for i in range(len(a)):
        matched = torch.exp(torch.dot(a[i], b[i]) / tau)
        forward = sum(torch.exp(torch.dot(a[i], row) / tau) for row in b)
        backward = sum(torch.exp(torch.dot(b[i], row) / tau) for row in a)
        total = total - share * torch.log(matched / forward)
        total = total - (1 - share) * torch.log(matched / backward)
    return total / len(a)


def pair(count: int, width: int = 5) -> tuple[Tensor, Tensor]:
    return draw(count, width).requires_grad_(), draw(count, width, seed=1).requires_grad_()


def units(rows: Tensor) -> Tensor:
    return torch.stack([unit(row) for row in rows])


@pytest.mark.parametrize("tau", [0.5, 0.1])
@pytest.mark.parametrize(
    ("count", "share"), [(1, 0.5), (2, 0.5), (7, 0.5), (5, 0.75), (5, 0), (5, 1)]
)
def test_global_alignment_is_eq_2_and_twice_convirts(tau: float, count: int, share: float) -> None:
    images, texts = pair(count)
    literal = 2 * literal_convirt(units(images), units(texts), tau, share)
    same(global_alignment(images, texts, tau, image_to_text=share), literal, images, texts)


@pytest.mark.parametrize("normalised", [True, False])
def test_section_matching_is_eq_1(normalised: bool) -> None:
    findings, impression = pair(6)
    a, b = (units(side) if normalised else side for side in (findings, impression))
    ours = section_matching(findings, impression, 0.5, normalised)
    same(ours, 2 * literal_convirt(a, b, 0.5, 0.5), findings, impression)


@pytest.mark.parametrize("divisor", [5, 3])  # masked tokens, sequences
def test_masked_language_modelling_is_the_papers_sum(divisor: int) -> None:
    logits, targets = draw(5, 11).requires_grad_(), torch.tensor([0, 3, 10, 3, 7])
    total = torch.zeros((), dtype=torch.float64)
    for row, target in zip(logits, targets, strict=True):
        total = total - torch.log(torch.exp(row[target]) / torch.exp(row).sum())
    same(masked_language_modelling(logits, targets, divisor), total / divisor, logits)


def test_masked_language_modelling_of_nothing_is_zero_with_a_gradient() -> None:
    logits = torch.zeros(0, 4, requires_grad=True)
    loss = masked_language_modelling(logits, torch.zeros(0, dtype=torch.long), 2)
    loss.backward()
    assert loss.item() == 0


def test_nt_xent_is_simclr_eq_1() -> None:
    first, second = pair(4, 6)
    # SimCLR numbers the views 2k-1, 2k: pairs are neighbours.
    views = [unit(v) for view_pair in zip(first, second, strict=True) for v in view_pair]

    def likeness(i: int, j: int) -> Tensor:
        return torch.exp(torch.dot(views[i], views[j]) / 0.1)

    def term(i: int, j: int) -> Tensor:
        return -torch.log(likeness(i, j) / sum(likeness(i, k) for k in range(8) if k != i))

    literal = sum(term(2 * k, 2 * k + 1) + term(2 * k + 1, 2 * k) for k in range(4)) / 8
    same(nt_xent(first, second, 0.1), literal, first, second)
