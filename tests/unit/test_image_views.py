"""Views of images in joint training: several of each, and some mixed after a stage of the trunk."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from small_text import MINIMAL, REPORTS, write_text_model
from test_pair_matching import IMAGE, Pictures
from torch import Tensor

from cxrflow.encoders.cxr_bert import load_text_half
from cxrflow.encoders.image_encoder import ImageEncoder, ImageOutput, Patches
from cxrflow.encoders.settings import ResNetSettings
from cxrflow.errors import InputError
from cxrflow.pretrain.image_text_pairs import ImageTextProgram
from cxrflow.pretrain.objective import Batch, Needs, Run, Term, Views
from cxrflow.pretrain.pair_tables import pair_texts
from cxrflow.pretrain.settings import JointPretrainingSettings
from cxrflow.text.tokenizer import read_tokenizer
from cxrflow.training.processes import ALONE
from cxrflow.training.samples import SampleTable


class Mixed(Term):
    """Images that hold a part of another image, near the projection of both."""

    needs = Needs(images=2, stage=3)
    compares = False

    def loss(self, views: Views) -> Tensor:
        rows = torch.arange(views.samples).roll(1)
        mixed = views.mixed(rows, torch.full((views.samples, 1, 1, 1), 0.5))
        return mixed.projected_global.sum() + views.images[1].pooled.mean()


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ImageTextProgram:
    module = type("module", (), {"GlobalAlignment": Mixed})
    monkeypatch.setattr("cxrflow.pretrain.objective.import_module", lambda name: module)
    folder = write_text_model(tmp_path)
    terms = {"global_alignment": {}}
    sizes = {**IMAGE, "projection": 8}
    settings = JointPretrainingSettings.model_validate(
        {**MINIMAL, "terms": terms, "encoder": sizes, "length": 16}
    )
    text, image = load_text_half(folder), ImageEncoder(ResNetSettings(**sizes))
    texts = pair_texts(settings, REPORTS, read_tokenizer(folder), training=True)
    splits: Any = dict.fromkeys(("train", "validate"), Pictures())
    samples = dict.fromkeys(splits, SampleTable(range(len(REPORTS))))
    run = Run(0, torch.device("cpu"), ALONE)
    texts_of_splits = dict.fromkeys(splits, texts)
    made = ImageTextProgram(settings, run, samples, splits, texts_of_splits, image, text, folder)
    made.augmentation = lambda pixels, seed, epoch, view: pixels + view  # type: ignore[assignment]
    made.image.eval()
    return made


def views_of(program: ImageTextProgram) -> Views:
    return program.views("train", Batch(np.array([5, 0, 30, 11]), 3, 5, ALONE))


def same(found: ImageOutput, wanted: ImageOutput) -> None:
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_views_of_an_image_are_encoded_each(program: ImageTextProgram) -> None:
    views = views_of(program)
    for number in range(2):
        assert torch.equal(views.pixels(number).current, views.pixels(0).current + number)
        same(views.images[number], program.image(views.pixels(number)))


def test_images_are_mixed_after_a_stage(program: ImageTextProgram) -> None:
    views, rows = views_of(program), torch.tensor([3, 2, 1, 0])
    whole, trunk = views.images[0], cast(Any, program.image.encoder)
    same(views.mixed(rows, torch.zeros(4, 1, 1, 1)), whole)
    other = ImageOutput(*(part[rows] for part in whole))
    same(views.mixed(rows, torch.ones(4, 1, 1, 1)), other)
    hidden = trunk.forward_until(views.pixels(0), 3).current
    share = torch.linspace(0, 1, hidden.shape[2])[:, None].expand(4, 1, -1, hidden.shape[3])
    mixed = share * hidden[rows] + (1 - share) * hidden
    grid = trunk.encoder.layer4(mixed)
    same(views.mixed(rows, share), program.image.project(Patches(grid, grid.mean((2, 3)))))


def test_a_term_trains_what_comes_before_the_mixing(program: ImageTextProgram) -> None:
    losses = program.objective(views_of(program))
    losses.total.backward()
    moved = {name for name, p in program.image.named_parameters() if p.grad is not None}
    assert moved == {name for name, _ in program.image.named_parameters()}


def test_terms_mix_after_one_stage() -> None:
    assert Needs.of_all([Needs(stage=3), Needs(images=2), Needs(stage=3)]).stage == 3
    with pytest.raises(InputError, match=r"after stages \[2, 3\] of the trunk; expected one"):
        Needs.of_all([Needs(stage=3), Needs(stage=2)])


def test_a_view_that_a_program_has_not_is_named() -> None:
    views = Views(Batch(np.arange(2), 0, 0, ALONE))
    with pytest.raises(InputError, match="reads images that are mixed .* program has not"):
        views.mixed(torch.arange(2), torch.tensor(0.5))
    with pytest.raises(InputError, match="reads reports that a decoder writes"):
        _ = views.written
    with pytest.raises(InputError, match="reads pixels of images"):
        views.pixels(0)
