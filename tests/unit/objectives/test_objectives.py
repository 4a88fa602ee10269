"""Every objective against a literal float64 transcription of its equation, with gradients."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from literal import draw, in_float64, same, unit  # noqa: F401
from small_text import WORDS
from speed.text_steps import in_transformers
from test_local_alignment import literal_loss, literal_similarity, local_loss
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import normalize
from transformers import BertTokenizerFast

from cxr_files.errors import InputError
from cxrflow.encoders.cxr_bert import CXRBert
from cxrflow.encoders.image_encoder import Frames, ImageEncoder, ImageOutput
from cxrflow.encoders.settings import ResNetSettings
from cxrflow.objectives.biovil import global_alignment, masked_language_modelling, section_matching
from cxrflow.objectives.local_alignment import Matching
from cxrflow.objectives.simclr import nt_xent
from cxrflow.pretrain.objective import Batch, TextOutput, Views
from cxrflow.pretrain.starts import freeze_below
from cxrflow.pretrain.terms.local_alignment import LocalAlignment
from cxrflow.pretrain.terms.settings import LocalAlignmentSettings
from cxrflow.text.tokenizer import SPECIAL_TOKENS, VocabularyInfo
from cxrflow.training.processes import ALONE

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


def literal_words(text: CXRBert, ids: Tensor, kept: Tensor, layers: int) -> list[list[Tensor]]:
    """Words of every text, text by text through transformers' BERT, projected one by one."""
    found, plain, own = [], in_transformers(text).bert, dict(text.bert.named_parameters())
    for row, real in zip(ids, kept, strict=True):
        row = row[real]
        states = functional_call(plain, own, row[None], {"output_hidden_states": True})
        states = states.hidden_states
        words: list[Tensor] = []
        for place in range(1, len(row) - 1):  # between [CLS] and [SEP]
            state = sum(layer[0, place] for layer in states[-layers:])
            piece = WORDS[int(row[place]) - len(SPECIAL_TOKENS)]
            if piece.startswith("##") and words:
                words[-1] = words[-1] + state
            else:
                words.append(state)
        found.append([text.cls_projection_head(word) for word in words])
    return found


def literal_local_loss(regions: Tensor, texts: list[list[Tensor]], length_1: bool) -> Tensor:
    """GLoRIA's published code, with its temperatures 4, 5 and 10."""
    lengths = [len(words) for words in texts]
    words = torch.nn.utils.rnn.pad_sequence([torch.stack(words) for words in texts], True)
    if length_1:
        regions, words = (normalize(side, dim=2) for side in (regions, words))
    return literal_loss(literal_similarity(regions, words, lengths, Matching()), 10.0)


def term_of(text: CXRBert, text_folder: Path, **settings: Any) -> LocalAlignment:
    program: Any = SimpleNamespace(text=text, vocabulary=VocabularyInfo.from_folder(text_folder))
    return LocalAlignment(LocalAlignmentSettings(**settings), program)


def read(text: CXRBert, text_folder: Path, texts: list[str], layers: int) -> TextOutput:
    batch = BertTokenizerFast.from_pretrained(text_folder)(texts, padding=True, return_tensors="pt")
    ids, mask = batch["input_ids"], batch["attention_mask"]
    return TextOutput(text, ids, mask, text.last_states(ids, mask, layers), None)


def views_of(image: ImageOutput, text: TextOutput) -> Views:
    """Both as if the encoders had just given them."""
    views = Views(Batch(np.arange(len(text.ids)), 0, 0, ALONE))
    views.images, views.texts = {0: image}, {"intact": text}
    return views


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("layers", [1, 3])
def test_local_term_is_glorias_loss_of_projected_words(text, text_folder, layers, normalised):
    text.double()
    sizes = ResNetSettings(block="basic", layers=(1, 1, 1, 1), width=8, channels=1, projection=8)
    image = ImageEncoder(sizes).eval()
    pixels = torch.rand(3, 1, 64, 64, generator=torch.Generator().manual_seed(0))
    output = image(Frames(pixels))
    regions = output.unnormalised_patches.flatten(1, 2).double()
    texts = ["no pleural effusions .", "nodule", "heart is large . no effusion"]
    encoded = read(text, text_folder, texts, 3)  # as many layers as another term may read
    term = term_of(text, text_folder, layers=layers, normalised=normalised)
    assert term.words(encoded).lengths == [4, 1, 6]
    ours = term.loss(views_of(output, encoded))
    words = literal_words(text, encoded.ids, encoded.mask.bool(), layers)
    wanted = literal_local_loss(regions, words, normalised)
    both = (ours, wanted)
    torch.testing.assert_close(ours.double(), wanted, rtol=1e-4, atol=1e-5)
    for parameters in (list(text.bert.encoder.parameters()), list(image.projector.parameters())):
        gradients = (torch.autograd.grad(one, parameters, retain_graph=True) for one in both)
        for found, literal in zip(*gradients, strict=True):
            largest = float(literal.abs().max())
            torch.testing.assert_close(found, literal, rtol=1e-3, atol=1e-3 * largest + 1e-9)


def test_cls_is_a_word_where_it_is_said(text: CXRBert, text_folder: Path) -> None:
    encoded = read(text, text_folder, ["no effusions"], 1)
    for said, count in ((False, 2), (True, 3)):
        term = term_of(text, text_folder, layers=1, cls_is_word=said)
        assert term.words(encoded).lengths == [count]


def test_more_layers_than_there_are_is_one_line(text: CXRBert, text_folder: Path) -> None:
    with pytest.raises(InputError, match=r"'terms.local_alignment.layers' is 4, but the text enc"):
        term_of(text, text_folder)
    with pytest.raises(InputError, match=r"'frozen_layers' is 4, but the text encoder has 3"):
        freeze_below(text, 4)


def test_shares_of_the_local_loss_add_up_to_the_published_sum(text, text_folder):
    """One process: the shared-out form is the whole loss itself."""
    term, encoded = (
        term_of(text, text_folder, layers=1),
        read(text, text_folder, ["no heart", "is large"], 1),
    )
    words = term.words(encoded)
    patches = draw(2, 2, 3, 8).float()
    output = ImageOutput(patches.mean((1, 2)), patches, patches, patches)
    ours = term.loss(views_of(output, encoded))
    whole = local_loss(patches.flatten(1, 2), words.word_BWD, words.lengths)
    torch.testing.assert_close(ours, whole)
