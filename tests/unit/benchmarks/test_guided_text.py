"""Masked words beside an image: the token [MLM], the joined sections, what a folder keeps of it."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from small_text import REPORTS, write_text_model
from transformers import BertForMaskedLM

import cxrflow
from cxr_files.errors import InputError
from cxrflow.encoders.cxr_bert import CXRBert, load_text_encoder
from cxrflow.encoders.guided_text import GuidedText, load_guidance, save_guidance
from cxrflow.pretrain.objective import Batch
from cxrflow.pretrain.pairs.tables import require_earlier_priors
from cxrflow.pretrain.report_text import Texts
from cxrflow.text.report_batch import ReportTokens
from cxrflow.text.tokenizer import read_tokenizer
from cxrflow.training.processes import ALONE

WIDTH = 6


def guided_of(text: CXRBert, own_token: bool) -> GuidedText:
    torch.manual_seed(1)
    guided = GuidedText(text, WIDTH, 2, own_token).eval()
    for parameter in guided.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return guided


def batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 15, (3, 9), generator=generator)
    ids[:, 0] = 2
    mask = (torch.arange(9) < torch.tensor([9, 4, 6])[:, None]).long()
    return ids * mask, mask, torch.randn(3, 5, WIDTH, generator=generator)


def test_its_token_is_a_piece_more_in_the_vocabulary(text: CXRBert) -> None:
    guided = guided_of(text, own_token=True)
    ids, mask, patches = batch()
    found = guided.states(text, ids, mask, patches)
    larger = CXRBert(text.config.model_copy(update={"vocab_size": text.config.vocab_size + 1}))
    rows = {"bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"}
    state = {n: v for n, v in text.state_dict().items() if n.startswith("bert.") and n not in rows}
    words = text.bert.embeddings.word_embeddings.weight
    state["bert.embeddings.word_embeddings.weight"] = torch.cat([words, guided.mlm_token[None]])
    larger.eval().load_state_dict(state, strict=False)
    ids = ids.clone()
    ids[:, 0] = text.config.vocab_size
    wanted = guided.cross.states(larger.bert, ids, mask, patches, causal=False)
    torch.testing.assert_close(found, wanted)
    (found * mask[:, :, None]).square().sum().backward()
    assert guided.mlm_token.grad.abs().sum() > 0
    assert text.bert.embeddings.word_embeddings.weight.grad[2].abs().sum() == 0  # [CLS]: not read


def test_it_starts_from_cls_and_without_it_cls_is_read(text: CXRBert) -> None:
    started = GuidedText(text, WIDTH, 2, own_token=True)
    assert torch.equal(started.mlm_token, text.bert.embeddings.word_embeddings.weight[2])
    ids, mask, patches = batch()
    plain = guided_of(text, own_token=False)
    assert plain.mlm_token is None
    wanted = plain.cross.states(text.bert, ids, mask, patches, causal=False)
    assert torch.equal(plain.states(text, ids, mask, patches), wanted)


def test_a_folder_keeps_it_beside_a_plain_text_encoder(tmp_path: Path) -> None:
    text_folder = write_text_model(tmp_path)
    text = load_text_encoder(text_folder)
    ids, mask, patches = batch()
    with pytest.raises(InputError, match=r"cross_attention.safetensors: file not found"):
        load_guidance(text_folder, text)
    for own_token in (True, False):
        guided = guided_of(text, own_token)
        save_guidance(guided, text_folder)
        again = load_guidance(text_folder, text)
        found = again.states(text, ids, mask, patches)
        assert torch.equal(found, guided.states(text, ids, mask, patches))
    assert cxrflow.load(text_folder).text_encoder is not None
    plain, report = BertForMaskedLM.from_pretrained(text_folder, output_loading_info=True)
    assert not report["missing_keys"] and plain.config.vocab_size == text.config.vocab_size


# --- texts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("sections", [("impression", "findings"), ("findings",)])
@pytest.mark.parametrize("length", [32, 7, 4])
def test_sections_are_joined_in_their_order(text_folder, sections, length):
    reports = ReportTokens(REPORTS[:9], read_tokenizer(text_folder), length)
    whole = ReportTokens(REPORTS[:9], read_tokenizer(text_folder), 40)
    rows = np.array([0, 1, 2, 5])
    taken = Texts(reports, sections, False).intact(Batch(rows, 7, 1, ALONE))
    found = [ids[: n.sum()].tolist() for ids, n in zip(*list(taken.values())[:2], strict=True)]
    for row, ids in zip(rows, found, strict=True):
        words: list[int] = []
        for section in sections:
            one = whole.batch([row], section, 7, 1, shuffle=False)
            words += one["input_ids"][0, 1 : int(one["attention_mask"].sum()) - 1].tolist()
        assert ids == [2, *words[: length - 2], 3]
    assert not taken["input_ids"][taken["attention_mask"] == 0].any()
    assert len(set(taken["keys"].tolist())) == 4


def test_sentences_are_shuffled_within_their_section(text_folder: Path) -> None:
    reports = ReportTokens(REPORTS[:9], read_tokenizer(text_folder), 40)
    joined = Texts(reports, ("impression", "findings"), True)
    orders = set()
    for epoch in range(12):
        ids = joined.intact(Batch(np.array([0]), 7, epoch, ALONE))["input_ids"][0].tolist()
        impression = reports.batch([0], "impression", 7, epoch, shuffle=False)["input_ids"][0]
        assert ids[: len(impression) - 1] == impression[:-1].tolist()
        orders.add(tuple(ids))
    assert len(orders) == 2  # of the two sentences of FINDINGS


# --- priors -------------------------------------------------------------------------------------


def pairs_of(**changes: list) -> SimpleNamespace:
    columns = {
        "study_id": ["1", "2", "3"],
        "subject_id": ["a", "a", "b"],
        "image_id": ["i1", "i2", "i3"],
        "study_time": ["2150-01-01 10:00:00", "2150-03-01 10:00:00", "2150-02-01 10:00:00"],
        "prior_image_id": [None, "i1", "unlisted"],
        **changes,
    }
    frame = REPORTS[:3].assign(**columns)
    return SimpleNamespace(path=Path("pairs.parquet"), frame=frame)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"prior_image_id": [None, "i3", None]}, "another patient's (prior_image_id of study 2)"),
        ({"prior_image_id": ["i2", None, None]}, "is not earlier (prior_image_id of study 1)"),
        ({"prior_image_id": [None, "i2", None]}, "is the image itself (prior_image_id of study 2)"),
        ({"study_time": ["2150-03-01 10:00:00"] * 3}, "is not earlier"),
        (
            {"prior_study_id": [None, "1", "3"]},  # another image of the study, of no known time
            "of 1 study or studies is the study itself (prior_study_id of study 3)",
        ),
        ({"prior_study_id": ["1", None, None]}, "is the study itself (prior_study_id of study 1)"),
    ],
)
def test_a_prior_that_cannot_be_one_is_refused(changes: dict[str, list], said: str) -> None:
    with pytest.raises(InputError) as raised:
        require_earlier_priors(pairs_of(**changes))
    assert said in str(raised.value) and "\n" not in str(raised.value)


def test_priors_that_can_be_are_taken() -> None:
    require_earlier_priors(pairs_of())
    require_earlier_priors(pairs_of(prior_study_id=[None, "1", "unlisted"]))
    require_earlier_priors(pairs_of(study_time=[None, "2150-03-01 10:00:00", None]))
    pairs = pairs_of()
    pairs.frame = pairs.frame.drop(columns="prior_image_id")
    with pytest.raises(InputError, match="column 'prior_image_id' is missing"):
        require_earlier_priors(pairs)
