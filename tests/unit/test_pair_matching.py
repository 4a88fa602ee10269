"""Contrastive-Binary-Loss against a literal one, its fake pairs, and what it needs."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from literal import draw, in_float64, same
from pydantic import ValidationError
from small_text import MINIMAL, REPORTS, pool_of, write_text_model
from torch import Tensor

from cxrflow.encoders.cxr_bert import load_text_half
from cxrflow.encoders.image_encoder import Frames, ImageEncoder
from cxrflow.encoders.settings import ResNetSettings
from cxrflow.objectives.pair_matching import pair_matching
from cxrflow.pretrain.image_text_pairs import ImageTextProgram
from cxrflow.pretrain.objective import Batch, Run, Views
from cxrflow.pretrain.pair_tables import pair_texts
from cxrflow.pretrain.report_text import Texts
from cxrflow.pretrain.settings import StudyPretrainingSettings
from cxrflow.pretrain.starts import renew_projection
from cxrflow.pretrain.terms.pair_matching import PairMatching
from cxrflow.pretrain.terms.settings import PairMatchingSettings
from cxrflow.text.tokenizer import read_tokenizer
from cxrflow.training.processes import ALONE, Processes
from cxrflow.training.samples import SampleTable

__all__ = ["in_float64"]
IMAGE: dict[str, Any] = {
    **{"block": "basic", "layers": [1, 1, 1, 1], "width": 4, "channels": 1},
    **{"projection": 6, "projection_head": {"kind": "linear"}, "dilate": [False, True, True]},
}
MATCHING = {
    **MINIMAL,
    "terms": {"pair_matching": {"hidden": 5}},
    "encoder": IMAGE,
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


class Pictures:
    """Images of the samples, by row."""

    priors = np.full(len(REPORTS), -1)

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.pixels = torch.rand(len(REPORTS), 1, 64, 64, generator=generator)

    def __len__(self) -> int:
        return len(self.pixels)

    def drawn(self, rows: np.ndarray, seed: int, epoch: int) -> np.ndarray:
        return rows

    def take(self, rows: np.ndarray) -> Frames[Tensor]:
        return Frames(self.pixels[rows])


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> ImageTextProgram:
    folder = write_text_model(tmp_path_factory.mktemp("text"))
    settings = StudyPretrainingSettings.model_validate(MATCHING)
    text, image = load_text_half(folder), ImageEncoder(ResNetSettings(**IMAGE))
    renew_projection(text, image.settings)
    text.set_pooling("max")
    texts = pair_texts(settings, REPORTS, read_tokenizer(folder), training=True)
    both: Any = dict.fromkeys(("train", "validate"), Pictures())
    samples = dict.fromkeys(both, SampleTable(range(len(REPORTS))))
    run = Run(0, torch.device("cpu"), ALONE)
    made = ImageTextProgram(
        settings, run, samples, both, dict.fromkeys(both, texts), image, text, folder
    )
    made.augmentation = lambda pixels, *drawn: pixels  # type: ignore[assignment]
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
    for found, wanted in zip(
        torch.autograd.grad(ours, trained), torch.autograd.grad(literal, trained), strict=True
    ):
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


def test_chance_is_a_coin(program: ImageTextProgram) -> None:
    answers = program.terms["pair_matching"].answers(views_of(program, np.arange(6)))
    assert answers is not None and answers.counts.tolist() == [6, 6] and answers.number == 1


def test_projections_must_be_linear() -> None:
    other = {**IMAGE, "projection_head": {"kind": "mlp"}}
    with pytest.raises(ValidationError, match="expected linear, as it compares linear projections"):
        StudyPretrainingSettings.model_validate({**MATCHING, "encoder": other})
