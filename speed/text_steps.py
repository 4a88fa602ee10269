"""What the races of text pretraining share: an invented vocabulary, and one training step."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import BertConfig, BertForMaskedLM

from cxrflow.encoders.cxr_bert import CXRBert
from cxrflow.encoders.settings import TextEncoderSettings
from cxrflow.text.tokenizer import SPECIAL_TOKENS, write_tokenizer
from cxrflow.training.optimiser import build
from cxrflow.training.precision import Precision, autocast, choose_precision
from cxrflow.training.settings import OptimiserSettings

PIECES = 30_522
WORDS = 22_000  # pieces that begin a word, as about as many of BERT's do
TOLERANCE: dict[Precision, float] = {"fp32": 1e-5, "bf16": 1e-2}


def precisions() -> Sequence[Precision]:
    """fp32, and bf16 where the CPU multiplies it."""
    best = choose_precision("auto", torch.device("cpu"))
    return ("fp32",) if best == "fp32" else ("fp32", "bf16")


def invent_vocabulary(folder: Path) -> None:
    """A tokenizer of 30,522 pieces: the special ones, a full stop, whole words, continuations."""
    first = len(SPECIAL_TOKENS) + 1
    continuations = PIECES - first - WORDS
    pieces = [f"w{number}" for number in range(WORDS)]
    pieces += [f"##c{number}" for number in range(continuations)]
    write_tokenizer(folder, [*SPECIAL_TOKENS, ".", *pieces], lowercase=True)


def in_transformers(text: CXRBert) -> BertForMaskedLM:
    """A copy of ``text`` as transformers' own model; the projection comes along."""
    plain = BertForMaskedLM(BertConfig(**text.config.model_dump()))
    plain.cls_projection_head = deepcopy(text.cls_projection_head)
    plain.load_state_dict(text.state_dict())
    return plain.train(text.training)


def describe(encoder: TextEncoderSettings) -> str:
    """The encoder's sizes, for the notes of a race."""
    return (
        f"{encoder.layers} layers, width {encoder.width}, {encoder.heads} heads, "
        f"feed-forward {encoder.feed_forward}, {PIECES} pieces"
    )


@dataclass
class Compared:
    """Objective and gradients of one batch with dropout off."""

    loss: float
    gradients: dict[str, Tensor]  # by parameter name


class TrainingStep:
    """Forward, backward and AdamW: a turn of a race.

    ``objective(turn)`` gives the loss of a training batch; ``compared()`` that of the batch on
    which the runners must agree. The first turn, in which all runners still have the same weights,
    returns a :class:`Compared` before it trains; later turns only train.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Callable[[int], Tensor],
        compared: Callable[[], Tensor],
        precision: Precision,
    ) -> None:
        self.model, self.objective, self.compared = model, objective, compared
        self.precision, self.turn = precision, 0
        # transformers' Trainer steps with the same fused AdamW and the same two groups by default.
        self.optimiser = build(OptimiserSettings(), {"model": model})

    def __call__(self) -> Compared | None:
        first = self._compare() if self.turn == 0 else None
        self.model.train()
        self.optimiser.zero_grad(set_to_none=True)
        with autocast(torch.device("cpu"), self.precision):
            loss = self.objective(self.turn)
        if not torch.isfinite(loss):
            raise ArithmeticError(f"the loss of turn {self.turn} is {loss.item()}")
        loss.backward()
        self.optimiser.step()
        self.turn += 1
        return first

    def _compare(self) -> Compared:
        self.model.eval()
        with autocast(torch.device("cpu"), self.precision):
            loss = self.compared()
        loss.backward()
        return Compared(
            loss.item(),
            {n: p.grad.clone() for n, p in self.model.named_parameters() if p.grad is not None},
        )


def require_agreement(ours: Compared, theirs: Compared, tolerance: float) -> None:
    """Loss and gradient agree within the relative ``tolerance``.

    The gradient counts as one vector. Taken one by one, some parameters' are zero but for rounding:
    those of the biases of keys, and in section matching the projection's, as the [CLS] states of a
    new model are nearly alike.
    """
    assert abs(ours.loss - theirs.loss) <= tolerance * abs(theirs.loss), (ours.loss, theirs.loss)
    assert ours.gradients.keys() == theirs.gradients.keys()
    pairs = [(ours.gradients[name], theirs.gradients[name]) for name in ours.gradients]
    error = torch.stack([(one - other).norm() for one, other in pairs]).norm()
    whole = torch.stack([other.norm() for _, other in pairs]).norm()
    assert error <= tolerance * whole, f"relative error {float(error / whole):.1e}"
