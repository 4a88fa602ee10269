"""Whether a training has learnt: chance of each term, and the margin below it."""

import inspect
import math
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from cxrflow.pretrain.chance import LEAST_GAIN, Answers, Validation, upper_end
from cxrflow.pretrain.objective import Batch, MaskedText, Term
from cxrflow.pretrain.registry import TERMS
from cxrflow.training.processes import ALONE, Processes
from cxrflow.training.program import Losses

N, P = 6, 4
SAME = torch.ones(N, P)  # nothing tells one sample from another
SECTIONS = dict.fromkeys(("findings", "impression"), SimpleNamespace(projected=SAME))
BATCH = Batch(np.arange(N), 0, 0, ALONE)


def kind_of(name: str) -> Any:
    module = import_module(f"cxrflow.pretrain.terms.{name}")
    return getattr(module, name.title().replace("_", ""))


def chance_of(term: Any, views: Any) -> float:
    batch = (
        Losses(torch.tensor(0.0), {"term": torch.tensor(0.0)}, N, 0),
        {"term": term.answers(views)},
    )
    found = Validation([batch], ALONE).chance("term")
    assert found is not None
    return found


def build(name: str, program: Any = None) -> Any:
    """A term with its default settings."""
    return kind_of(name)(TERMS[name](), program)


def test_every_term_knows_its_chance_or_says_why_not() -> None:
    for name in TERMS:
        answers = vars(kind_of(name)).get("answers")
        assert answers is not None, f"{name} inherits the answer"
        assert inspect.signature(answers).return_annotation is Answers or answers.__doc__, name
    assert Term.answers(build("section_matching"), None) is None


@pytest.mark.parametrize(
    ("name", "views", "chance"),
    [
        (
            "global_alignment",
            {
                "images": [SimpleNamespace(projected_global=SAME)],
                "texts": {"intact": SimpleNamespace(projected=SAME)},
            },
            2 * math.log(N),
        ),
        ("section_matching", {"texts": SECTIONS}, 2 * math.log(N)),
    ],
)
def test_a_model_that_tells_nothing_apart_is_at_chance(name, views, chance):
    term, seen = build(name), SimpleNamespace(batch=BATCH, **views)
    assert float(term.loss(seen)) == pytest.approx(chance)
    assert chance_of(term, seen) == pytest.approx(chance)


def test_image_terms_at_chance() -> None:
    program = SimpleNamespace(trunk=torch.nn.Linear(1, P), ghost_batch=None)
    program.trunk.features = P
    views = SimpleNamespace(batch=BATCH, images=[SimpleNamespace(pooled=SAME)] * 2)
    simclr = build("simclr", program)
    assert float(simclr.loss(views).detach()) == pytest.approx(math.log(2 * N - 1))
    assert chance_of(simclr, views) == pytest.approx(math.log(2 * N - 1))
    momentum = build("momentum_contrast", program)
    key = torch.nn.functional.normalize(momentum.head(SAME[:1]), dim=1).detach()
    momentum.queue.copy_(key.expand_as(momentum.queue))
    momentum.keys = lambda views: (key.expand(N, -1), slice(None))
    chance = math.log(1 + len(momentum.queue))
    assert float(momentum.loss(views).detach()) == pytest.approx(chance)
    assert chance_of(momentum, views) == pytest.approx(chance)


def test_local_alignment_at_chance() -> None:
    term = kind_of("local_alignment")
    answers = term.answers(None, SimpleNamespace(batch=BATCH))
    assert len(answers.counts) == N and set(answers.counts.tolist()) == {1}
    assert answers.number == 2


@pytest.mark.parametrize("reduction", ["token", "sequence"])
def test_mlm_at_chance_knows_how_frequent_pieces_are(reduction: str) -> None:
    targets = torch.tensor([3, 3, 3, 1, 1, 7])
    shares = torch.bincount(targets, minlength=9) / 6
    logits = shares.log().clamp(-30).expand(6, 9)
    term = build("mlm")
    term.settings = term.settings.model_copy(update={"reduction": reduction})
    views = SimpleNamespace(masked=[MaskedText(logits, targets, 6, 2)], batch=BATCH)
    number = 1 if reduction == "token" else 3  # masked tokens of a text
    entropy = -float((shares[shares > 0] * shares[shares > 0].log()).sum())
    assert float(term.loss(views)) == pytest.approx(number * entropy)
    assert chance_of(term, views) == pytest.approx(number * entropy)


def validation(*values: float, candidates: int = 32, processes: Any = ALONE) -> Validation:
    """Batches with these losses of a term that chooses among candidates."""
    return Validation(
        [
            (
                Losses(torch.tensor(value), {"term": torch.tensor(value)}, 4, 0),
                {"term": Answers(torch.ones(candidates))},
            )
            for value in values
        ],
        processes,
    )


def test_learnt_is_surely_below_chance_and_by_a_margin() -> None:
    chance = math.log(32)
    bound = (1 - LEAST_GAIN) * chance
    for values, learnt in (
        ((0.5 * chance,), True),
        ((0.993 * chance,) * 3, False),  # however sure
        ((bound - 0.01,) * 3, True),
        ((bound + 0.01,) * 3, False),
        ((0.4 * chance, 1.2 * chance), False),  # below in the mean, of two batches that disagree
    ):
        record = validation(*values).record(["term"])
        assert record["learnt"] is learnt, values
        term = record["validation"]["term"]
        assert term["learnt"] is learnt and term["chance"] == pytest.approx(chance)
        assert term["loss"] == pytest.approx(np.mean(values))
        assert term["upper"] == pytest.approx(upper_end(values), rel=1e-6)
    assert upper_end([1.0, 2.0, 3.0]) == pytest.approx(2 + 2.919986 / math.sqrt(3))


def test_a_term_without_a_chance_is_not_judged() -> None:
    losses = Losses(torch.tensor(9.0), {"term": torch.tensor(9.0)}, 4, 0)
    record = Validation([(losses, {"term": None})], ALONE).record(["term"])
    assert record["learnt"] is True
    assert record["validation"]["term"] == {
        "loss": 9.0, "upper": 9.0, "chance": None, "learnt": None,
    }  # fmt: skip
    broken = Losses(torch.tensor(math.nan), {"term": torch.tensor(math.nan)}, 4, 0)
    answers = {"term": Answers(torch.ones(4))}
    record = Validation([(broken, answers)], ALONE).record(["term"])
    assert record["learnt"] is False and record["validation"]["term"]["loss"] is None


class Two(Processes):
    """This process beside one that found the same."""

    def collect(self, value: Any) -> list[Any]:
        return [value, value]


def test_answers_of_all_batches_and_processes_are_pooled() -> None:
    losses = Losses(torch.tensor(1.0), {"term": torch.tensor(1.0)}, 4, 0)
    one, other = (Answers(torch.tensor(counts)) for counts in ([2, 0, 0], [0, 2, 0]))
    batches = [(losses, {"term": one}), (losses, {"term": other})]
    pooled = Validation(batches, Two())
    assert pooled.chance("term") == pytest.approx(math.log(2))
    assert len(pooled.batches) == 4 and pooled.means() == {"term": 1.0, "loss": 1.0}
