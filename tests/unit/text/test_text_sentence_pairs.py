"""Sentence pairs as BERT reads them, against transformers, and what the encoder makes of them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from speed.text_steps import in_transformers
from transformers import BertTokenizerFast

from cxr_files.errors import InputError
from cxrflow.encoders.cxr_bert import CXRBert
from cxrflow.encoders.settings import TextEncoderSettings
from cxrflow.text.sentence_pairs import PairTokens
from cxrflow.text.tokenizer import SPECIAL_TOKENS, read_tokenizer, write_tokenizer

PIECES = [*SPECIAL_TOKENS, "no", "the", "heart", "is", "large", "effus", "##ion", "left", "."]
PREMISES = ["The heart is large.", "No effusion.", "Left effusion."]
HYPOTHESES = ["No effusion.", "The left heart is large.", "Effusion."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("vocabulary")
    write_tokenizer(made, PIECES, lowercase=True)
    return made


@pytest.fixture
def tokenizer(folder: Path):
    return read_tokenizer(folder)


def test_pairs_are_those_of_transformers(tokenizer, folder: Path) -> None:
    pairs = PairTokens(PREMISES, HYPOTHESES, tokenizer, 32)
    batch = pairs.batch([0, 1, 2])
    library = BertTokenizerFast.from_pretrained(folder)
    expected = library(PREMISES, HYPOTHESES, padding=True, return_tensors="pt")
    assert torch.equal(batch.input_ids, expected["input_ids"])
    assert torch.equal(batch.attention_mask, expected["attention_mask"])
    assert torch.equal(batch.segment_ids, expected["token_type_ids"])
    assert pairs.lengths_N.tolist() == expected["attention_mask"].sum(1).tolist()
    assert pairs.truncated == 0 and len(pairs) == 3


def test_long_pairs_lose_the_end_of_the_longer_sentence(tokenizer) -> None:
    pairs = PairTokens(["heart " * 9, "heart"], ["left " * 4, "left"], tokenizer, 11)
    ids = pairs.batch([0, 1]).input_ids
    heart, left, cls, sep, pad = (
        PIECES.index(piece) for piece in ("heart", "left", "[CLS]", "[SEP]", "[PAD]")
    )
    assert ids[0].tolist() == [cls, *[heart] * 4, sep, *[left] * 4, sep]
    assert ids[1].tolist() == [cls, heart, sep, left, sep, *[pad] * 6]
    assert pairs.truncated == 1
    with pytest.raises(InputError, match="max_length is 4"):
        PairTokens(["heart"], ["left"], tokenizer, 4)


def test_batches_by_length_hold_every_pair_once(tokenizer) -> None:
    pairs = PairTokens(PREMISES * 3, HYPOTHESES * 3, tokenizer, 32)
    batches = list(pairs.by_length(2))
    assert sorted(np.concatenate([batch.rows for batch in batches]).tolist()) == list(range(9))
    widths = [batch.input_ids.shape[1] for batch in batches]
    assert widths == sorted(widths)


def test_segments_reach_the_encoder_as_in_plain_bert(tokenizer) -> None:
    torch.manual_seed(0)
    sizes = TextEncoderSettings(
        layers=2, width=16, heads=2, feed_forward=32, positions=32, projection=8
    )
    encoder = CXRBert.build(sizes, len(PIECES), 0).eval()
    batch = PairTokens(PREMISES, HYPOTHESES, tokenizer, 32).batch([0, 1, 2])
    ours = encoder.hidden_states(batch.input_ids, batch.attention_mask, batch.segment_ids)
    plain = (
        in_transformers(encoder)
        .bert(
            input_ids=batch.input_ids,
            attention_mask=batch.attention_mask,
            token_type_ids=batch.segment_ids,
        )
        .last_hidden_state
    )
    real = batch.attention_mask.bool()
    torch.testing.assert_close(ours[real], plain[real], atol=1e-5, rtol=1e-5)
    states = encoder.hidden_states(batch.input_ids, batch.attention_mask)
    assert (states[real] - plain[real]).abs().max() > 1e-3
    zeros = torch.zeros_like(batch.segment_ids)
    again = encoder.hidden_states(batch.input_ids, batch.attention_mask, zeros)
    assert torch.equal(states, again)
