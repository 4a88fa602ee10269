"""Reports that a decoder writes: its search, its cache, its prompts."""

from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from literal import identical
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import BertLMHeadModel, DynamicCache, EncoderDecoderCache

from cxr_files.errors import InputError
from cxrflow.encoders.cxr_bert import CXRBert, load_text_encoder
from cxrflow.encoders.decoding import Search, decode
from cxrflow.encoders.report_decoder import (
    ReportDecoder,
    load_decoder,
    require_vocabulary,
    save_decoder,
)
from cxrflow.encoders.settings import ReportDecoderSettings, TextEncoderSettings
from cxrflow.text.report_prompts import ReportPrompts, prior_texts, report_texts
from cxrflow.text.tokenizer import SPECIAL_TOKENS, bert_tokenizer

SIZES = TextEncoderSettings(
    layers=2, width=32, heads=4, feed_forward=48, positions=60, projection=16
)
SETTINGS = ReportDecoderSettings(length=60, report_length=30)
STUDIES = 16
PIECES = "pieces"


def decoder() -> ReportDecoder:
    torch.manual_seed(0)
    made = ReportDecoder.start(CXRBert.build(SIZES, 50, 0), PIECES, 6, SETTINGS).eval()
    for parameter in made.parameters():  # as drawn, all texts would be the same
        if parameter.ndim > 1:
            nn.init.normal_(parameter, std=0.25)
    return made


def requests() -> tuple[list[list[int]], Tensor]:
    lengths = torch.randint(2, 20, (STUDIES,)).tolist()
    prefixes = [torch.randint(5, 50, (length,)).tolist() for length in lengths]
    return prefixes, torch.randn(STUDIES, 7, 6)


@pytest.mark.parametrize(("beams", "penalty"), [(1, 1.0), (3, 1.0), (4, 1.0), (4, 0.0), (3, 2.0)])
def test_writes_what_transformers_generates(tmp_path: Path, beams: int, penalty: float) -> None:
    ours = decoder()
    save_decoder(ours, tmp_path)
    theirs = BertLMHeadModel.from_pretrained(tmp_path / "decoder").eval()
    prefixes, patches = requests()
    endless = decode(ours, prefixes, patches, Search(25, -1))
    end = Counter(token for row in endless for token in row).most_common(3)[-1][0]
    written = decode(ours, prefixes, patches, Search(25, end, beams, penalty))
    lengths = {len(one) for one in written}
    assert len(lengths) > 3 and max(lengths) == 25  # some end, others do not
    for row, prefix in enumerate(prefixes):
        found = theirs.generate(
            torch.tensor([prefix]),
            attention_mask=torch.ones(1, len(prefix), dtype=torch.long),
            encoder_hidden_states=ours.cross.patches(patches[row : row + 1]),
            past_key_values=EncoderDecoderCache(DynamicCache(), DynamicCache()),
            max_new_tokens=25,
            num_beams=beams,
            length_penalty=penalty,
            do_sample=False,
            eos_token_id=end,
            pad_token_id=0,
        )[0, len(prefix) :].tolist()
        assert written[row] == (found[: found.index(end)] if end in found else found)


def test_the_cache_grows_with_long_reports() -> None:
    sizes = SIZES.model_copy(update={"positions": 300})
    torch.manual_seed(0)
    settings = ReportDecoderSettings(length=300, report_length=200)
    long = ReportDecoder.start(CXRBert.build(sizes, 50, 0), PIECES, 6, settings).eval()
    nn.init.normal_(long.bert.embeddings.word_embeddings.weight, std=0.5)
    patches = torch.randn(1, 7, 6)
    ids: list[int] = [2, 7, 9]
    for _ in range(150):  # read anew from the beginning at every step
        mask = torch.ones(1, len(ids), dtype=torch.long)
        with torch.no_grad():
            logits = long(torch.tensor([ids]), mask, patches, torch.tensor([len(ids) - 1]))
        ids.append(int(logits.argmax()))
    never = min(set(range(50)) - set(ids))
    assert decode(long, [[2, 7, 9]], patches, Search(150, never)) == [ids[3:]]


def test_a_saved_decoder_is_the_same(tmp_path: Path) -> None:
    ours = decoder()
    save_decoder(ours, tmp_path)
    again = load_decoder(tmp_path)
    assert again.config == ours.config
    identical(again.state_dict(), ours.state_dict())
    assert again.cls.predictions.decoder.weight is again.bert.embeddings.word_embeddings.weight


def test_a_decoder_is_no_text_encoder(tmp_path: Path) -> None:
    save_decoder(decoder(), tmp_path)
    with pytest.raises(InputError, match=r"config\.json: key 'is_decoder'"):
        load_text_encoder(tmp_path / "decoder")


def test_a_decoder_has_a_position_for_every_token() -> None:
    with pytest.raises(InputError, match=r"'decoder\.length' is 512, .* has 60 positions"):
        ReportDecoder.start(CXRBert.build(SIZES, 50, 0), PIECES, 6, ReportDecoderSettings())


def test_a_decoder_refuses_another_vocabulary(tmp_path: Path) -> None:
    learnt = decoder().config.vocabulary
    require_vocabulary(learnt, PIECES, tmp_path)
    with pytest.raises(InputError, match="pieces is others, but .* trained with pieces; expected"):
        require_vocabulary(learnt, "others", tmp_path)


WORDS = ("heart", "is", "large", ".", "lungs", "clear", "effusion", "stable", "pa", "##d")
PRIORS = ["lungs clear .", None, "effusion"]
REPORTS = ["heart is large .", "clear .", "stable effusion"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    pieces = (*SPECIAL_TOKENS, *WORDS)
    return bert_tokenizer({piece: n for n, piece in enumerate(pieces)}, lowercase=True)


def sequences(tokenizer: Tokenizer, **settings: object) -> list[tuple[str, str]]:
    """Prompt and predicted tokens of each study, as words."""
    chosen = ReportDecoderSettings.model_validate({"length": 20, "report_length": 8, **settings})
    prompts = ReportPrompts(PRIORS, tokenizer, chosen, REPORTS)
    batch = prompts.batch(np.arange(3))
    rows = []
    for row, prompt in enumerate(prompts.prompts):
        in_row = batch.positions // batch.ids.shape[1] == row
        first = int(batch.positions[in_row][0]) % batch.ids.shape[1]
        assert batch.ids[row, : first + 1].tolist() == prompt
        positions, targets = batch.positions[in_row] + 1, batch.targets[in_row]
        assert batch.ids.flatten()[positions].tolist() == targets.tolist()
        assert len(prompt) + len(targets) == batch.mask[row].sum()
        words = [" ".join(map(tokenizer.id_to_token, ids)) for ids in (prompt, targets.tolist())]
        rows.append((words[0], words[1]))
    return rows


def test_a_prior_report_stands_before_the_report(tokenizer: Tokenizer) -> None:
    assert sequences(tokenizer) == [
        ("[CLS] lungs clear . [SEP]", "heart is large . [SEP]"),
        ("[CLS] [SEP]", "clear . [SEP]"),
        ("[CLS] effusion [SEP]", "stable effusion [SEP]"),
    ]


def test_variants_of_table_7(tokenizer: Tokenizer) -> None:
    reports = [report for _, report in sequences(tokenizer)]
    joined = sequences(tokenizer, separator=False)
    assert [prompt for prompt, _ in joined] == ["[CLS] lungs clear .", "[CLS]", "[CLS] effusion"]
    alone = sequences(tokenizer, prior_report=False)
    assert [prompt for prompt, _ in alone] == ["[CLS]"] * 3
    assert [report for _, report in joined] == [report for _, report in alone] == reports


def test_what_is_cut_is_counted(tokenizer: Tokenizer) -> None:
    settings = ReportDecoderSettings(length=9, report_length=4)
    prompts = ReportPrompts([*PRIORS[:2], "pad " * 3], tokenizer, settings, REPORTS)
    assert (prompts.cut_priors, prompts.cut_reports) == (1, 1)
    tokens = [
        list(map(tokenizer.id_to_token, ids)) for ids in (prompts.prompts[2], prompts.reports[0])
    ]
    assert tokens == [["[CLS]", "##d", "pa", "##d", "[SEP]"], ["heart", "is", "large", "."]]
    assert max(len(p) + len(r) for p, r in zip(prompts.prompts, prompts.reports, strict=True)) <= 9


def test_texts_come_from_the_table_of_pairs() -> None:
    pairs = pd.DataFrame(
        {
            "study_id": ["1", "2", "3"],
            "prior_study_id": [None, "1", "unlisted"],
            "findings_sentences": [["A.", "B."], None, ["D."]],
            "findings": ["A. B.", None, "D."],
            "impression_sentences": [["C."], ["E."], None],
            "impression": ["C.", "E.", None],
        }
    )
    sections = ("findings", "impression")
    assert report_texts(pairs, sections) == ["A. B. C.", "E.", "D."]
    assert report_texts(pairs, ("impression",)) == ["C.", "E.", ""]
    assert prior_texts(pairs, pairs, sections) == [None, "A. B. C.", None]
