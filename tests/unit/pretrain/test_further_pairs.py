"""DeCLIP's further pairs by equation (low-data study, Appendix C), and what its queue holds."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from literal import draw, identical, in_float64, same, unit
from pydantic import ValidationError
from torch import Tensor, distributed
from torch.nn.functional import normalize

from cxr_files.errors import InputError
from cxrflow.compute.fifo import enqueue
from cxrflow.encoders.word_aggregation import Words
from cxrflow.pretrain.objective import Batch
from cxrflow.pretrain.terms.base_settings import NOTHING, Needs
from cxrflow.pretrain.terms.local_alignment import LocalAlignment
from cxrflow.pretrain.terms.multi_view import MultiView
from cxrflow.pretrain.terms.neighbours import Neighbours
from cxrflow.pretrain.terms.settings import (
    JointTerms,
    LocalAlignmentSettings,
    MultiViewSettings,
    NeighbourSettings,
)
from cxrflow.training.processes import ALONE, Processes
from cxrflow.training.samples import SampleTable
from gloo_processes import run_processes

__all__ = ["in_float64"]
N, P, TAU, STUDIES = 4, 6, 0.5, 30


def info_nce(v: Tensor, t: Tensor, masked: Any = ()) -> Tensor:
    """Eq. 1 with the usual sign in the exponentials; ``masked`` pairs are in no sum."""
    v, t = (torch.stack([unit(row) for row in rows]) for rows in (v, t))
    total, size = torch.zeros((), dtype=v.dtype), len(v)
    for i in range(size):
        true = torch.exp(v[i] @ t[i] / TAU)
        rest = [j for j in range(size) if (i, j) not in masked]
        total = total + torch.log(true / sum(torch.exp(v[i] @ t[j] / TAU) for j in rest))
        total = total + torch.log(true / sum(torch.exp(v[j] @ t[i] / TAU) for j in rest))
    return -total / (2 * size)


def gloria(regions: Tensor, words: list[Tensor]) -> Tensor:
    """Eq. 2 to 4 with the usual sign; tau_2 = 1/4 and tau_3 = 1/5."""
    size, z = len(regions), {}
    for k in range(size):
        v = [unit(region) for region in regions[k]]
        for i in range(size):
            total = torch.zeros((), dtype=regions.dtype)
            for t in [unit(word) for word in words[i]]:
                weights = [torch.exp(t @ region / (1 / 4)) for region in v]  # Eq. 2
                c = sum(a / sum(weights) * region for a, region in zip(weights, v, strict=True))
                total = total + torch.exp(c @ t / (1 / 5))
            z[k, i] = (1 / 5) * torch.log(total)  # Eq. 3
    loss = torch.zeros((), dtype=regions.dtype)
    for k in range(size):  # Eq. 4
        true = torch.exp(z[k, k] / TAU)
        loss = loss + torch.log(true / sum(torch.exp(z[k, i] / TAU) for i in range(size)))
        loss = loss + torch.log(true / sum(torch.exp(z[i, k] / TAU) for i in range(size)))
    return -loss / (2 * size)


#: As the low-data study's recipes say it.
GLORIA = {
    **{"word_softmax": False, "match": "dot", "normalised": True},
    **{"temp1": 4, "temp2": 5, "temp3": 0.4, "weight": 0.5, "layers": 1},
}
WORDS = [3, 1, 5, 2]


def local_encoders() -> Any:
    vocabulary = SimpleNamespace(continues=np.zeros(5, bool), pad=0, sep=1, cls_=2)
    text = SimpleNamespace(config=SimpleNamespace(num_hidden_layers=4))
    return SimpleNamespace(vocabulary=vocabulary, text=text)


def local_views(seed: int) -> tuple[Any, Any, list[Tensor]]:
    """A view of the images and a text as both losses read them, and what they are made of."""
    region, word = draw(N, 2, 3, P, seed=seed), draw(N, max(WORDS), P, seed=seed + 1)
    whole, text = draw(N, P, seed=seed + 2), draw(N, P, seed=seed + 3)
    leaves = [one.requires_grad_() for one in (region, word, whole, text)]
    image = SimpleNamespace(
        projected_global=whole,
        unnormalised_patches=region,
        projected_patches=normalize(region, dim=3),
    )
    return image, SimpleNamespace(projected=text, words=word), leaves


@pytest.fixture
def read_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalAlignment, "words", lambda self, text: Words(text.words, WORDS))


@pytest.mark.usefixtures("in_float64", "read_words")
def test_the_local_loss_is_equations_2_to_4() -> None:
    term = LocalAlignment(LocalAlignmentSettings.model_validate(GLORIA), local_encoders())
    image, text, (region, word, *_) = local_views(0)
    views: Any = SimpleNamespace(
        batch=Batch(np.arange(N), 0, 0, ALONE), images=[image], texts={"intact": text}
    )
    words = [one[:length] for one, length in zip(word, WORDS, strict=True)]
    ours = term.settings.weight * term.loss(views)
    same(ours, gloria(region.flatten(1, 2), words), region, word)


@pytest.mark.usefixtures("in_float64", "read_words")
@pytest.mark.parametrize("base", [("global",), ("local",), ("global", "local")], ids="+".join)
def test_further_views_make_three_pairs(base: tuple[str, ...]) -> None:
    """L_MVS of Eq. 5: the mean over (I, T'), (I', T), (I', T') of the base losses."""
    losses = {"global": {"global_alignment": {}}, "local": {"local_alignment": GLORIA}}
    named = {key: value for name in base for key, value in losses[name].items()}
    settings = MultiViewSettings.model_validate({"base": named})
    term = MultiView(settings, local_encoders())
    parts = {"global": {"whole", "pooled"}, "local": {"words"}}
    read = frozenset(part for name in base for part in parts[name])
    assert term.needs == Needs(2, ("intact", "augmented"), 1, parts=read)
    (first, text, own), (second, augmented, further) = local_views(0), local_views(10)
    views: Any = SimpleNamespace(
        batch=Batch(np.arange(N), 0, 0, ALONE),
        images=[first, second],
        texts={"intact": text, "augmented": augmented},
    )
    literal = torch.zeros((), dtype=torch.float64)
    for image, said in ((own, further), (further, own), (further, further)):
        if "global" in base:
            literal = literal + info_nce(image[2], said[3]) / 3
        if "local" in base:
            words = [one[:length] for one, length in zip(said[1], WORDS, strict=True)]
            literal = literal + gloria(image[0].flatten(1, 2), words) / 3
    read = [[0, 1], [2, 3]] if len(base) == 2 else [[0, 1]] if base == ("local",) else [[2, 3]]
    inputs = [leaves[k] for leaves in (own, further) for pair in read for k in pair]
    same(term.loss(views), literal, *inputs)


def test_a_base_loss_is_not_what_the_model_keeps() -> None:
    base = {"local_alignment": {"model_similarity": True}}
    with pytest.raises(ValidationError, match=r"base\.local_alignment\.model_similarity is true"):
        MultiViewSettings.model_validate({"base": base})


def term_of(samples: SampleTable, **settings: Any) -> Neighbours:
    torch.manual_seed(0)
    image = SimpleNamespace(settings=SimpleNamespace(projection=P))
    encoders: Any = SimpleNamespace(samples=samples, image=image)
    return Neighbours(NeighbourSettings.model_validate(settings), encoders).double()


def views_of(rows: Any, text: Tensor, *images: Tensor, processes: Processes = ALONE) -> Any:
    """Of this process, of the projections of all."""
    rows = np.asarray(rows)
    own = processes.share(np.arange(len(rows)))
    return SimpleNamespace(
        batch=Batch(rows, 0, 0, processes),
        images=[SimpleNamespace(projected_global=image[own]) for image in images],
        texts={"intact": SimpleNamespace(projected=text[own])},
        equal_texts=None,
    )


class Queue:
    """The last texts and their studies, the oldest first."""

    def __init__(self, size: int) -> None:
        self.size, self.entries = size, list[tuple[int, Tensor]]()

    def nearest(self, study: int, text: Tensor) -> tuple[int, Tensor]:
        others = [(other, vector) for other, vector in self.entries if other != study]
        return max(others, key=lambda entry: float(unit(text.detach()) @ entry[1]))

    def add(self, studies: list[int], texts: Tensor) -> None:
        new = [(study, unit(text.detach())) for study, text in zip(studies, texts, strict=True)]
        self.entries = (self.entries + new)[-self.size :]


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("shared", ["negatives", "masked"])
@pytest.mark.parametrize("start", ["empty", "full"])
def test_neighbours_are_the_nearest_texts_of_earlier_batches(start: str, shared: str) -> None:
    """L_NN of Eq. 5, with gradients, step by step; 28 texts go through a queue of 10."""
    groups = np.array([f"study {number % STUDIES}" for number in range(STUDIES)])
    term = term_of(SampleTable(range(STUDIES), groups=groups), queue=10, start=start, shared=shared)
    _, numbers = np.unique(groups, return_inverse=True)
    queue, random, alike = Queue(10), np.random.default_rng(0), 0
    for step in range(7):
        rows = random.choice(8, N, replace=False)  # studies come again while they are in the queue
        studies = [int(number) for number in numbers[rows]]
        first, second, text = (draw(N, P, seed=10 * step + k).requires_grad_() for k in range(3))
        ours = term.loss(views_of(rows, text, first, second))
        entries = len(queue.entries)
        if entries >= (10 if start == "full" else 3):
            found = [queue.nearest(study, one) for study, one in zip(studies, text, strict=True)]
            assert all(study != own for (study, _), own in zip(found, studies, strict=True))
            equal = {
                (i, j) for i in range(N) for j in range(N) if i != j and found[i][0] == found[j][0]
            }
            alike += len(equal)
            near = torch.stack([vector for _, vector in found])
            masked = equal if shared == "masked" else ()
            literal = (info_nce(first, near, masked) + info_nce(second, near, masked)) / 2
            same(ours, literal, first, second)
            assert not torch.autograd.grad(ours, text, allow_unused=True)[0]
        else:
            assert float(ours) == 0
            assert term.comparisons(views_of(rows, text, first, second)) is None
        term.after_update()
        queue.add(studies, text)
        place, held = int(term.place), len(queue.entries)
        order = [(place - held + k) % 10 for k in range(held)]
        torch.testing.assert_close(
            term.queue[order], torch.stack([vector for _, vector in queue.entries])
        )
        assert term.studies[order].tolist() == [study for study, _ in queue.entries]
    assert alike  # the mask had something to do


def test_only_training_fills_the_queue() -> None:
    term = term_of(SampleTable(range(STUDIES)))
    images, text = [draw(N, P, seed=k) for k in range(2)], draw(N, P, seed=3)
    term.loss(views_of(range(N), text, *images))
    term.after_update()
    before = {name: value.clone() for name, value in term.state_dict().items()}
    term.eval()
    term.loss(views_of(range(N), draw(N, P, seed=4), *images))
    assert term.comparisons(views_of(range(N), text, *images)) is not None
    identical(term.state_dict(), before)
    assert term.queue.shape == (STUDIES, P)  # min(65536, training samples)
    assert sorted(set(term.studies.tolist())) == [-1, *range(N)]


def test_random_vectors_are_neighbours_before_texts_are() -> None:
    term = term_of(SampleTable(range(STUDIES)), start="random", shared="masked")
    torch.testing.assert_close(term.queue.norm(dim=1), torch.ones(STUDIES, dtype=torch.float64))
    loss = term.loss(views_of(range(N), draw(N, P), draw(N, P, seed=1), draw(N, P, seed=2)))
    assert float(loss) > 0
    assert len(set(term.studies.tolist())) == STUDIES and int(term.studies.max()) < -1


def test_a_queue_of_no_texts_is_no_term() -> None:
    term = term_of(SampleTable(range(STUDIES)), queue=0)
    assert term.needs == Needs(parts=NOTHING)
    views: Any = SimpleNamespace()  # nothing is read
    assert float(term.loss(views)) == 0 and term.comparisons(views) is None
    term.after_update()


def test_a_queue_must_have_room_for_other_studies() -> None:
    with pytest.raises(InputError, match=r"neighbours\.queue' is 2 .* at least 3 texts"):
        term_of(SampleTable(range(STUDIES)), queue=2)
    images = SampleTable(range(STUDIES), groups=np.array(["a", "b", "b"] * 10))
    with pytest.raises(InputError, match="with 30 training samples; .* at least 41 texts"):
        term_of(images)


def test_too_many_rows_leave_the_last() -> None:
    place, queue = torch.tensor(3), torch.zeros(5, 1)
    enqueue(place, (queue, torch.arange(1.0, 9.0)[:, None]))
    assert torch.cat([queue[place:], queue[:place]])[:, 0].tolist() == [4, 5, 6, 7, 8]


def neighbours_found() -> list[list[int]]:
    """Studies of the neighbours, a list a step; a study's text is always nearly the same."""
    processes = Processes(distributed.get_rank(), distributed.get_world_size())
    samples, random = SampleTable(range(12)), np.random.default_rng(1)
    term, texts, found = term_of(samples, queue=9), draw(12, P), list[list[int]]()
    nearest = term.nearest

    def watched(text: Tensor, study: Tensor) -> Tensor:
        place = nearest(text, study)
        found.append(term.studies[place].tolist())
        assert not (term.studies[place] == study).any()
        return place

    term.nearest = watched  # type: ignore[method-assign]
    for step in range(12):
        rows = random.permutation(12)[:5]
        text = texts[rows] + 0.01 * draw(5, P, seed=step)
        images = (draw(5, P, seed=step + k) for k in (50, 90))
        term.loss(views_of(rows, text, *images, processes=processes))
        term.after_update()
    return found


def test_a_study_is_never_its_own_neighbour_in_one_process_or_two() -> None:
    alone = run_processes(1, neighbours_found)[0]
    assert len(alone) == 11
    assert run_processes(2, neighbours_found) == [alone, alone]


def test_terms_name_those_whose_code_they_use() -> None:
    base = {"local_alignment": {}}
    terms = JointTerms.model_validate({"mlm": {}, "multi_view": {"base": base}, "neighbours": {}})
    inner = ["local_alignment", "global_alignment"]
    assert terms.modules == ["mlm", "multi_view", "neighbours", *inner]
    assert "start" in terms.record()["neighbours"] and "simclr" not in terms.record()
