"""Contrastive-Binary-Loss and MoCo against literal transcriptions, and what they need."""

from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from literal import draw, identical, in_float64, same, unit
from pydantic import ValidationError
from small_programs import IMAGE, image_text_program
from small_text import MINIMAL, REPORTS, pool_of, write_text_model
from stored_pictures import Unchanged
from torch import Tensor, nn

from cxrflow.encoders.cxr_bert import load_text_encoder
from cxrflow.encoders.image_encoder import Frames
from cxrflow.images.augment import StoredPixels
from cxrflow.objectives.momentum_contrast import momentum_contrast
from cxrflow.objectives.pair_matching import pair_matching
from cxrflow.pretrain.inputs import Run
from cxrflow.pretrain.objective import Batch, Views
from cxrflow.pretrain.pairs.images_and_texts import ImageTextProgram
from cxrflow.pretrain.pairs.preparation import renew_projection
from cxrflow.pretrain.report_text import Texts
from cxrflow.pretrain.settings import ImagePretrainingSettings, StudyPretrainingSettings
from cxrflow.pretrain.terms.momentum_contrast import MomentumContrast
from cxrflow.pretrain.terms.pair_matching import PairMatching
from cxrflow.pretrain.terms.settings import PairMatchingSettings
from cxrflow.pretrain.two_views import TwoViews, TwoViewsProgram
from cxrflow.text.tokenizer import read_tokenizer
from cxrflow.training.processes import ALONE, Processes
from cxrflow.training.samples import SampleTable

__all__ = ["in_float64"]
MATCHING = {
    **MINIMAL,
    "terms": {"pair_matching": {"hidden": 5}},
    "encoder": {**IMAGE, "projection": 6},
    "text": "sentence",
    "text_pooling": "max",
    "length": 16,
}


def literal_loss(real: Tensor, fake: Tensor) -> Tensor:
    """-log p of every real pair and -log(1 - p) of every fake one, over both."""
    total = torch.zeros((), dtype=torch.float64)
    for logit in real:
        total = total - torch.log(1 / (1 + torch.exp(-logit)))
    for logit in fake:
        total = total - torch.log(1 - 1 / (1 + torch.exp(-logit)))
    return total / (len(real) + len(fake))


@pytest.mark.usefixtures("in_float64")
def test_the_loss_is_binary_cross_entropy_of_both_kinds() -> None:
    real, fake = (draw(7, seed=seed).requires_grad_() for seed in (0, 1))
    same(pair_matching(real, fake, 7), literal_loss(real, fake), real, fake)
    parts = sum(pair_matching(real[own], fake[own], 7) for own in (slice(3), slice(3, 7)))
    same(parts, literal_loss(real, fake), real, fake)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> ImageTextProgram:
    folder = write_text_model(tmp_path_factory.mktemp("text"))
    settings = StudyPretrainingSettings.model_validate(MATCHING)
    text = load_text_encoder(folder)
    renew_projection(text, settings.encoder)
    text.set_pooling("max")
    made = image_text_program(settings, REPORTS, text, folder, augmentation=Unchanged())
    for module in made.modules.values():
        module.eval()
    return made


def views_of(program: ImageTextProgram, rows: np.ndarray, **batch: Any) -> Views:
    return program.views(
        "train", Batch(rows, **{"seed": 3, "epoch": 5, "processes": ALONE} | batch)
    )


def others_of(program: ImageTextProgram, rows: np.ndarray, **batch: Any) -> np.ndarray:
    """The rows whose texts make fake pairs."""
    rows_read: list[np.ndarray] = []

    class Rows(Texts):
        def intact(self, batch: Batch) -> Any:
            rows_read.append(batch.own)

    texts = program.texts["train"]
    split = Batch(rows, **{"seed": 3, "epoch": 5, "processes": ALONE} | batch)
    Rows(texts.reports, texts.sections, texts.shuffle).other(split)
    return rows_read[0]


def test_the_term_projects_concatenates_and_classifies(program: ImageTextProgram) -> None:
    rows = np.array([5, 0, 30, 11, 7])
    views, term = views_of(program, rows), program.terms["pair_matching"]
    image = program.image.projector.model(views.images[0].pooled)  # type: ignore[union-attr]
    others = others_of(program, rows)
    first, _, last = term.perceptron.classifier
    logits = []
    for chosen in (rows, others):
        # What stands there in this epoch, read as its own.
        states = views_of(program, chosen).texts["intact"]
        for place in range(len(rows)):
            real = states.mask[place].bool()
            pooled = states.states[-1][place][real].amax(0)
            text = program.text.cls_projection_head(pooled)
            hidden = torch.relu(first(torch.cat([image[place], text])))
            logits.append(last(hidden)[0])
    literal = literal_loss(torch.stack(logits[:5]).double(), torch.stack(logits[5:]).double())
    ours = term.loss(views)
    torch.testing.assert_close(ours.double(), literal, rtol=1e-5, atol=1e-6)
    trained = [
        *program.image.projector.parameters(),  # type: ignore[union-attr]
        *program.text.cls_projection_head.parameters(),
        *term.parameters(),
    ]
    found, wanted = (torch.autograd.grad(loss, trained) for loss in (ours, literal))
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-6)


def test_it_learns_pairs_that_its_inputs_tell_apart(program: ImageTextProgram) -> None:
    """Eight looks, each with a text of its own, seen through noise of a tenth of their strength."""
    torch.manual_seed(0)
    term = PairMatching(PairMatchingSettings(hidden=32), SimpleNamespace(image=program.image))  # type: ignore[arg-type]
    width = program.image.settings.projection
    looks, texts = torch.randn(2, 8, width)
    optimiser = torch.optim.Adam(term.parameters(), lr=0.01)
    for _ in range(300):
        own, other = torch.randint(8, (2, 64))
        image = looks[own] + 0.1 * torch.randn(64, width)
        real, fake = (
            term.perceptron.logits(image, texts[shown] + 0.1 * torch.randn(64, width))
            for shown in (own, other)
        )
        loss = pair_matching(real, fake, 64)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    # A fake text is of the same look once in eight: the best loss is 0.196, a coin's 0.693.
    assert loss < 0.35


def test_fake_texts_are_of_others_each_as_likely(program: ImageTextProgram) -> None:
    rows, every = np.full(1, 40), len(REPORTS)
    drawn = np.array([others_of(program, rows, epoch=epoch)[0] for epoch in range(6000)])
    counts = np.bincount(drawn, minlength=every)
    assert counts[40] == 0 and counts.sum() == 6000 and counts.max() < 25
    quarters = counts.reshape(4, -1).sum(1)
    assert np.abs(quarters - 1500).max() < 4 * 1500**0.5


def test_fake_texts_are_the_same_in_every_batch_and_process(program: ImageTextProgram) -> None:
    rows = np.array([9, 4, 100, 61, 3])
    whole = others_of(program, rows)
    assert np.array_equal(others_of(program, rows[::-1].copy())[::-1], whole)
    shares = [others_of(program, rows, processes=Processes(rank, 2)) for rank in range(2)]
    assert np.array_equal(np.concatenate(shares), whole)
    assert not np.array_equal(others_of(program, rows, epoch=6), whole)
    views = views_of(program, rows)
    views.texts["intact"]
    text = views.texts["other"]
    ids_of = read_tokenizer(program.tokenizer).encode_batch
    for row, ids, mask in zip(whole, text.ids, text.mask, strict=True):
        pool = [one.ids for one in ids_of(pool_of(int(row)), add_special_tokens=False)]
        assert ids[mask.bool()][1:-1].tolist() in pool
    assert views.tokens == int(views.texts["intact"].mask.sum() + text.mask.sum())


def test_projections_must_be_linear() -> None:
    other = {**IMAGE, "projection_head": {"kind": "mlp"}}
    with pytest.raises(ValidationError, match="expected linear, as it compares linear projections"):
        StudyPretrainingSettings.model_validate({**MATCHING, "encoder": other})


TAU, MOMENTUM, QUEUE, RATE = 0.2, 0.8, 10, 0.05
ENCODER = {"block": "basic", "layers": [1, 1, 1, 1], "width": 8, "channels": 1}


class Noise:
    """StoredPixels images, and views of them in float64."""

    def __init__(self, count: int) -> None:
        self.pixels = torch.rand(count, 16, 16, dtype=torch.float64)

    def __len__(self) -> int:
        return len(self.pixels)

    def take(self, batch: np.ndarray) -> Frames[StoredPixels]:
        rows = torch.from_numpy(batch)
        return Frames(StoredPixels(self.pixels[rows], rows))


def view_of(images: StoredPixels, seed: int, epoch: int, view: int) -> Tensor:
    return (images.pixels.flip(-1) if view else images.pixels)[:, None] + 0.1 * epoch


def program_of(ghost_batch: int | None = None, start: nn.Module | None = None) -> TwoViewsProgram:
    torch.manual_seed(0)
    terms = {"temperature": TAU, "momentum": MOMENTUM, "queue": QUEUE, "hidden": 6, "output": 5}
    settings = ImagePretrainingSettings(
        encoder=ENCODER,
        augmentation={},
        training={"batch_size": 4, "epochs": 1},
        terms={"momentum_contrast": terms},
        ghost_batch=ghost_batch,
    )
    run = Run(3, torch.device("cpu"), ALONE)
    images: Any = {"train": Noise(12), "validate": Noise(8)}
    samples = {name: SampleTable(range(len(split))) for name, split in images.items()}
    program = TwoViewsProgram(settings, run, samples, images, start)
    program.augmentation = view_of  # type: ignore[assignment]
    for module in program.modules.values():
        module.double()
    return program


def term_of(program: TwoViewsProgram) -> MomentumContrast:
    term = program.terms["momentum_contrast"]
    assert isinstance(term, MomentumContrast)
    return term


class Algorithm1:
    """He et al. 2020: names are theirs; ``f`` are trunk, mean over places, head."""

    def __init__(self, trunk: nn.Module, head: nn.Module, queue: Tensor) -> None:
        self.f_q = deepcopy(nn.Sequential(trunk, nn.AdaptiveAvgPool2d(1), nn.Flatten(), head))
        self.f_k = deepcopy(self.f_q)
        self.queue = list(queue)

    def step(self, x_q: Tensor, x_k: Tensor) -> tuple[Tensor, list[Tensor]]:
        q, k = [unit(v) for v in self.f_q(x_q)], [unit(v).detach() for v in self.f_k(x_k)]
        loss = torch.zeros((), dtype=torch.float64)
        for i in range(len(q)):
            l_pos = torch.exp(q[i] @ k[i] / TAU)
            l_neg = sum(torch.exp(q[i] @ old / TAU) for old in self.queue)
            loss = loss - torch.log(l_pos / (l_pos + l_neg)) / len(q)
        gradients = list(torch.autograd.grad(loss, list(self.f_q.parameters())))
        with torch.no_grad():
            for parameter, gradient in zip(self.f_q.parameters(), gradients, strict=True):
                parameter -= RATE * gradient
            for ours, theirs in zip(self.f_k.parameters(), self.f_q.parameters(), strict=True):
                ours.copy_(MOMENTUM * ours + (1 - MOMENTUM) * theirs)
        self.queue = (self.queue + k)[len(k) :]  # enqueue, dequeue
        return loss, gradients


def test_updates_are_algorithm_1() -> None:
    program = program_of()
    state = term_of(program)
    literal = Algorithm1(program.trunk.encoder, state.head, state.queue)
    trained = [*program.trunk.parameters(), *state.head.parameters()]
    optimiser = torch.optim.SGD(trained, RATE)
    for step in range(5):  # 20 keys go through a queue of 10
        epoch, index = divmod(step, program.batches_per_epoch)
        rows = np.array(program.batch_ids(epoch, index), dtype=np.int64)
        images = program.images["train"].take(rows).current
        expected = literal.step(*(view_of(images, 3, epoch, view) for view in (0, 1)))
        optimiser.zero_grad()
        losses = program.losses(program.prepare(epoch, index), 0, 1)
        losses.total.backward()
        torch.testing.assert_close(losses.total.detach(), expected[0].detach(), rtol=1e-10, atol=0)
        gradients = [parameter.grad for parameter in trained]
        torch.testing.assert_close(gradients, expected[1], rtol=1e-7, atol=1e-9)
        optimiser.step()
        program.after_update()
        parameters = [*state.key_trunk.parameters(), *state.key_head.parameters()]
        for value, parameter in zip(parameters, literal.f_k.parameters(), strict=True):
            torch.testing.assert_close(value, parameter, rtol=1e-9, atol=1e-10)
            assert value.grad is None
        place = int(state.place)
        oldest_first = torch.cat([state.queue[place:], state.queue[:place]])
        torch.testing.assert_close(oldest_first, torch.stack(literal.queue), rtol=1e-8, atol=1e-10)


def test_validation_leaves_the_queue_alone() -> None:
    program = program_of()
    program.losses(program.prepare(0, 0), 0, 1)
    program.after_update()
    before = deepcopy(program.modules["momentum_contrast"].state_dict())
    for module in program.modules.values():
        module.eval()
    with torch.no_grad():
        assert program.validate()["loss"] == program.validate()["momentum_contrast"] > 0
    identical(program.modules["momentum_contrast"].state_dict(), before)


def test_keys_are_shuffled_between_ghost_batches_and_back() -> None:
    program = program_of(ghost_batch=2)
    term = term_of(program)
    views = TwoViews(program, program.images["train"], Batch(np.arange(8), 3, 0, ALONE))
    groups: list[Tensor] = []
    hook = term.key_trunk.register_forward_pre_hook(
        lambda module, args: groups.append(args[0].current)
    )
    shuffled, _ = term.keys(views)
    hook.remove()
    pixels = views.pixels(1).current
    assert not torch.equal(groups[0], pixels)
    assert sorted(map(float, groups[0].sum((1, 2, 3)))) == sorted(map(float, pixels.sum((1, 2, 3))))
    term._shuffled = False
    assert not torch.allclose(shuffled, term.keys(views)[0])  # other neighbours, other statistics
    term.eval()
    plain, _ = term.keys(views)
    term._shuffled = True
    torch.testing.assert_close(term.keys(views)[0], plain)


def test_shares_of_several_processes_add_up() -> None:
    query, key, queue = (torch.randn(n, 4) for n in (5, 5, 7))
    total = momentum_contrast(query, key, queue, 0.1, 5)
    shares = [momentum_contrast(query[s], key[s], queue, 0.1, 5) for s in (slice(2), slice(2, 5))]
    torch.testing.assert_close(sum(shares), total)


def test_the_keys_encoder_begins_with_the_weights_that_a_start_gives() -> None:
    trunk = program_of().trunk.float()
    with torch.no_grad():
        for weight in trunk.parameters():
            weight += 1
    program, trunk = program_of(start=trunk), trunk.double()
    for name, weight in term_of(program).key_trunk.state_dict().items():
        torch.testing.assert_close(weight, trunk.state_dict()[name], rtol=0, atol=0)
        torch.testing.assert_close(program.trunk.state_dict()[name], weight, rtol=0, atol=0)
