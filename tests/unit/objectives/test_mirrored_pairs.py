"""Mirrored pairs against a literal transcription, and which texts take part."""

import numpy as np
import pandas as pd
import pytest
import torch
from literal import draw, in_float64, same, unit
from pydantic import ValidationError
from small_programs import IMAGE, image_text_program
from small_text import MINIMAL, write_text_model
from stored_pictures import Pictures, Unchanged
from torch import Tensor

from cxr_files.errors import InputError
from cxrflow.encoders.cxr_bert import load_text_encoder
from cxrflow.encoders.image_encoder import Frames
from cxrflow.objectives.mirrored_pairs import mirrored_pairs, side_scores
from cxrflow.pretrain.objective import Batch
from cxrflow.pretrain.pairs.images_and_texts import ImageTextProgram
from cxrflow.pretrain.settings import JointPretrainingSettings
from cxrflow.pretrain.terms.mirrored_pairs import SIDES, exchanged_sides, side_pieces
from cxrflow.text.tokenizer import VocabularyInfo, read_tokenizer
from cxrflow.training.processes import ALONE, Processes

__all__ = ["in_float64"]
IMPRESSIONS = [
    "left effusion .",
    "heart large .",
    "effusion right .",
    "right and left .",
    "right .",
]
SIDED = [0, 2, 4]
WORDS = ["left", "right", "and", "effusion", "heart", "large", "."]
TEMPERATURE = 0.3


def literal_pairs(images: Tensor, texts: Tensor, divisor: int) -> Tensor:
    """-1/2 sum_i (log softmax_j(v_i.t_j)[i] + log softmax_j(t_i.v_j)[i]) of each pair of pairs."""
    total = torch.zeros((), dtype=torch.float64)
    for image, text in zip(images, texts, strict=True):
        score = [[unit(v) @ unit(t) / TEMPERATURE for t in text] for v in image]
        for i in (0, 1):
            own = torch.exp(score[i][i])
            total = total - torch.log(own / (torch.exp(score[i][0]) + torch.exp(score[i][1]))) / 2
            total = total - torch.log(own / (torch.exp(score[0][i]) + torch.exp(score[1][i]))) / 2
    return total / divisor


@pytest.mark.usefixtures("in_float64")
def test_the_loss_is_the_global_term_of_a_pair_and_its_mirror_image() -> None:
    images, texts = (draw(5, 2, 6, seed=seed).requires_grad_() for seed in (0, 1))
    ours = mirrored_pairs(side_scores(images, texts, TEMPERATURE), 5)
    same(ours, literal_pairs(images, texts, 5), images, texts)
    parts = sum(
        mirrored_pairs(side_scores(images[own], texts[own], TEMPERATURE), 5)
        for own in (slice(2), slice(2, 5))
    )
    same(parts, literal_pairs(images, texts, 5), images, texts)
    none = mirrored_pairs(side_scores(images[:0], texts[:0], TEMPERATURE), 0)
    none.backward()
    assert none == 0 and not images.grad.any()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> ImageTextProgram:
    folder = write_text_model(tmp_path_factory.mktemp("text"), WORDS)
    terms = {"mirrored_pairs": {"temperature": TEMPERATURE}}
    settings = JointPretrainingSettings.model_validate(
        {**MINIMAL, "terms": terms, "encoder": IMAGE, "length": 16, "sentence_shuffling": False}
    )
    sentences = [[text] for text in IMPRESSIONS]
    reports = pd.DataFrame({"findings_sentences": sentences, "impression_sentences": sentences})
    text = load_text_encoder(folder)
    program = image_text_program(settings, reports, text, folder, augmentation=Unchanged())
    for module in program.modules.values():
        module.eval()
    return program


def loss_of(program: ImageTextProgram, rows: list[int], processes: Processes = ALONE) -> Tensor:
    batch = Batch(np.array(rows), 3, 5, processes)
    return program.terms["mirrored_pairs"].loss(program.views("train", batch))


def test_the_term_mirrors_images_and_exchanges_the_words(program: ImageTextProgram) -> None:
    """The term equals the equation on mirrored pixels and on the tokens of the exchanged text."""
    tokenizer, pixels = read_tokenizer(program.tokenizer), Pictures(len(IMPRESSIONS)).pixels
    exchange = {"left": "right", "right": "left"}
    images, texts = [], []
    for row in SIDED:
        words = IMPRESSIONS[row].split()
        for words_shown, shown in (
            (words, pixels[row]),
            ([exchange.get(word, word) for word in words], pixels[row].flip(-1)),
        ):
            ids = torch.tensor([tokenizer.encode(" ".join(words_shown)).ids])
            states = program.text.hidden_states(ids, torch.ones_like(ids))
            texts.append(program.text.project(states)[0].double())
            images.append(program.image(Frames(shown[None])).projected_global[0].double())
    shape = (len(SIDED), 2, -1)
    literal = literal_pairs(torch.stack(images).view(shape), torch.stack(texts).view(shape), 3)
    ours = loss_of(program, list(range(len(IMPRESSIONS))))
    torch.testing.assert_close(ours.double(), literal, rtol=1e-5, atol=1e-6)
    trained = [*program.image.parameters(), *program.text.cls_projection_head.parameters()]
    found, wanted = (torch.autograd.grad(loss, trained) for loss in (ours, literal))
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-5)


class Half(Processes):
    """One of two processes; the totals are those of both."""

    def totals(self, *counts: int) -> list[int]:
        return [len(SIDED)]


def test_two_processes_add_up_to_one(program: ImageTextProgram) -> None:
    rows = [0, 1, 2, 4]
    shares = [loss_of(program, rows, Half(rank, 2)) for rank in (0, 1)]
    torch.testing.assert_close(sum(shares), loss_of(program, rows), rtol=1e-5, atol=1e-7)


def test_texts_without_one_side_take_no_part(program: ImageTextProgram) -> None:
    assert loss_of(program, [1, 3]).item() == 0
    torch.testing.assert_close(loss_of(program, [0, 1, 3]), loss_of(program, [0]))
    views = program.views("validate", Batch(np.arange(5), 0, 0, ALONE))
    groups = program.terms["mirrored_pairs"].comparisons(views).groups  # type: ignore[union-attr]
    assert [group.samples_K.tolist() for group in groups] == [[row] * 2 for row in SIDED]
    pairs = torch.stack([group.score_KK for group in groups])
    torch.testing.assert_close(mirrored_pairs(pairs, 3), loss_of(program, list(range(5))))


def test_the_image_encoder_is_no_module_of_the_term(program: ImageTextProgram) -> None:
    assert not list(program.terms["mirrored_pairs"].parameters())


def test_every_spelling_of_the_sides_is_exchanged() -> None:
    vocabulary = VocabularyInfo(("[PAD]", "Left", "left", "heart", "right", "Right", "RIGHT"))
    sides = side_pieces(vocabulary)
    assert sides.tolist() == [[2, 1], [4, 5]]
    rows, ids = exchanged_sides(torch.tensor([[1, 3, 0], [3, 4, 4], [1, 4, 3], [3, 3, 6]]), sides)
    assert rows.tolist() == [0, 1] and ids.tolist() == [[5, 3, 0], [3, 2, 2]]


@pytest.mark.parametrize("side", SIDES)
def test_a_vocabulary_without_sides_is_refused(side: str) -> None:
    with pytest.raises(InputError, match="lacks 'left' or 'right'"):
        side_pieces(VocabularyInfo(("[PAD]", side)))


def test_images_are_not_flipped_where_sides_are_learnt() -> None:
    terms = {"mirrored_pairs": {}}
    said = "flip_probability is 0.5 with terms.mirrored_pairs, which learns sides; expected 0"
    with pytest.raises(ValidationError, match=said):
        JointPretrainingSettings.model_validate(
            {**MINIMAL, "terms": terms, "augmentation": {"flip_probability": 0.5}}
        )
