"""Objectives of joint training of ConVIRT, GLoRIA and BioViL-L against literal ones."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from literal import draw
from small_text import WORDS
from speed.text_steps import in_transformers
from test_local_alignment import literal_loss, literal_similarity, local_loss
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import normalize
from transformers import BertTokenizerFast

from cxrflow.encoders.cxr_bert import CXRBert
from cxrflow.encoders.image_encoder import Frames, ImageEncoder, ImageOutput
from cxrflow.encoders.settings import ResNetSettings
from cxrflow.errors import InputError
from cxrflow.objectives.local_alignment import Matching
from cxrflow.pretrain.objective import Batch, TextOutput, Views
from cxrflow.pretrain.starts import freeze_below
from cxrflow.pretrain.terms.local_alignment import LocalAlignment
from cxrflow.pretrain.terms.settings import LocalAlignmentSettings
from cxrflow.text.tokenizer import SPECIAL_TOKENS, VocabularyInfo
from cxrflow.training.processes import ALONE


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
    sizes = ResNetSettings(block="basic", layers=(1, 1, 1, 1), width=4, channels=1, projection=8)
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
