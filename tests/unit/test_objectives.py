"""Every objective against a literal float64 transcription of its equation, with gradients."""

import math

import pytest
import torch

from cxrflow.objectives.global_alignment import global_alignment
from cxrflow.objectives.masked_language_modelling import masked_language_modelling
from cxrflow.objectives.section_matching import section_matching
from cxrflow.objectives.simclr import nt_xent


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def gradients(loss: torch.Tensor, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.autograd.grad(loss, inputs)


def unit(vector: torch.Tensor) -> torch.Tensor:
    return vector / torch.sqrt((vector * vector).sum())


def literal_eq_1_and_2(a: torch.Tensor, b: torch.Tensor, tau: float) -> torch.Tensor:
    """BioViL Eq. 1 and Eq. 2, term by term, one exponential at a time."""
    total = torch.zeros((), dtype=torch.float64)
    for i in range(len(a)):
        forward = sum(torch.exp(torch.dot(a[i], b[j]) / tau) for j in range(len(b)))
        backward = sum(torch.exp(torch.dot(b[i], a[j]) / tau) for j in range(len(a)))
        matched = torch.exp(torch.dot(a[i], b[i]) / tau)
        total = total + torch.log(matched / forward) + torch.log(matched / backward)
    return -total / len(a)


def double(module: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """The objectives compute in float32 under autocast; the comparison needs float64."""
    monkeypatch.setattr(torch.Tensor, "float", lambda self: self)


@pytest.mark.parametrize("tau", [0.5, 0.1])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_global_alignment_is_eq_2(tau: float, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    double(None, monkeypatch)
    images = draw(count, 5).requires_grad_()
    texts = draw(count, 5, seed=1).requires_grad_()
    literal = literal_eq_1_and_2(
        torch.stack([unit(v) for v in images]), torch.stack([unit(t) for t in texts]), tau
    )
    ours = global_alignment(images, texts, tau)
    torch.testing.assert_close(ours, literal, rtol=1e-12, atol=1e-12)
    for found, wanted in zip(
        gradients(ours, images, texts), gradients(literal, images, texts), strict=True
    ):
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("normalised", [True, False])
def test_section_matching_is_eq_1(normalised: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    double(None, monkeypatch)
    findings = draw(6, 4).requires_grad_()
    impression = draw(6, 4, seed=1).requires_grad_()
    a, b = (
        (torch.stack([unit(row) for row in side]) if normalised else side)
        for side in (findings, impression)
    )
    literal = literal_eq_1_and_2(a, b, 0.5)
    ours = section_matching(findings, impression, 0.5, normalised)
    torch.testing.assert_close(ours, literal, rtol=1e-12, atol=1e-12)
    for found, wanted in zip(
        gradients(ours, findings, impression), gradients(literal, findings, impression), strict=True
    ):
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("reduction", ["token", "sequence"])
def test_masked_language_modelling_is_the_papers_sum(
    reduction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    double(None, monkeypatch)
    sequences, masked, vocabulary = 3, 5, 11
    logits = draw(masked, vocabulary).requires_grad_()
    targets = torch.tensor([0, 3, 10, 3, 7])
    total = torch.zeros((), dtype=torch.float64)
    for row, target in zip(logits, targets, strict=True):
        total = total - torch.log(torch.exp(row[target]) / torch.exp(row).sum())
    literal = total / (masked if reduction == "token" else sequences)
    divisor = masked if reduction == "token" else sequences
    ours = masked_language_modelling(logits, targets, divisor)
    torch.testing.assert_close(ours, literal, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        gradients(ours, logits)[0], gradients(literal, logits)[0], rtol=1e-10, atol=1e-12
    )


def test_masked_language_modelling_of_nothing_is_zero_with_a_gradient() -> None:
    logits = torch.zeros(0, 4, requires_grad=True)
    loss = masked_language_modelling(logits, torch.zeros(0, dtype=torch.long), 2)
    loss.backward()
    assert loss.item() == 0


def test_nt_xent_is_simclr_eq_1(monkeypatch: pytest.MonkeyPatch) -> None:
    double(None, monkeypatch)
    first = draw(4, 6).requires_grad_()
    second = draw(4, 6, seed=1).requires_grad_()
    # SimCLR numbers the views 2k-1, 2k: pairs are neighbours.
    views = [unit(v) for pair in zip(first, second, strict=True) for v in pair]

    def term(i: int, j: int) -> torch.Tensor:
        below = sum(
            torch.exp(torch.dot(views[i], views[k]) / 0.1) for k in range(len(views)) if k != i
        )
        return -torch.log(torch.exp(torch.dot(views[i], views[j]) / 0.1) / below)

    literal = sum(term(2 * k, 2 * k + 1) + term(2 * k + 1, 2 * k) for k in range(4)) / 8
    ours = nt_xent(first, second, 0.1)
    torch.testing.assert_close(ours, literal, rtol=1e-12, atol=1e-12)
    for found, wanted in zip(
        gradients(ours, first, second), gradients(literal, first, second), strict=True
    ):
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)


def test_chance_level_is_two_logarithms() -> None:
    """Identical embeddings tell nothing: Eq. 2 is then 2 log N."""
    same = torch.ones(8, 3)
    assert global_alignment(same, same).item() == pytest.approx(2 * math.log(8), rel=1e-6)
