"""IFCC's rewards by hand, and REINFORCE by enumeration of all texts."""

import math
from argparse import Namespace
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from rivals import ifcc
from rivals.ifcc import (
    BertScore,
    SelfCritical,
    SelfCriticalSettings,
    drawn,
    log_likelihoods,
)
from rivals.tests.test_ifcc import CPU
from small_text import write_text_model
from torch import Tensor, nn

from cxr_files.errors import InputError
from cxrflow.encoders.captioning import Caption
from cxrflow.encoders.decoding import Search
from cxrflow.pretrain.writing.captions import CaptionProgram
from cxrflow.pretrain.writing.program import WrittenViews
from cxrflow.text.tokenizer import SPECIAL_TOKENS, write_tokenizer

TERM = "rivals.ifcc:SelfCritical"


@pytest.mark.parametrize("layer", [1, None])
def test_bert_score_is_greedy_matching_of_tokens(reader: Path, layer: int | None) -> None:
    """Against loops over tokens, one text at a time; [CLS] and [SEP] are matched, not counted."""
    score = BertScore(reader, layer, CPU)
    texts = ["no effusion .", "heart is large .", "no", "pleural effusions . no effusion ."]
    pairs = list(product(texts, texts))

    def states(text: str) -> list[Tensor]:
        ids = [2, *score.tokenizer.encode(text, add_special_tokens=False).ids, 3]
        assert [score.special.cls_, score.special.sep] == [ids[0], ids[-1]]
        ids_1L = torch.tensor([ids])
        layers = score.bert.last_states(ids_1L, torch.ones_like(ids_1L), 4)  # embeddings, and 3
        return list(layers[layer or 3][0])

    def best(ones: list[Tensor], others: list[Tensor]) -> float:
        cosines = [[float(torch.cosine_similarity(a, b, dim=0)) for b in others] for a in ones]
        return float(np.mean([max(0.0, *row) for row in cosines[1:-1]]))

    with torch.no_grad():
        literal = []
        for reference, hypothesis in pairs:
            a, b = states(reference), states(hypothesis)
            recall, precision = best(a, b), best(b, a)
            literal.append(2 * precision * recall / (precision + recall))
    ours = score([a for a, _ in pairs], [b for _, b in pairs])
    np.testing.assert_allclose(ours, literal, rtol=1e-5)
    np.testing.assert_allclose(ours.reshape(4, 4).diagonal(), 1, rtol=1e-5)
    assert ours.min() < 0.999
    np.testing.assert_array_equal(score(["no effusion .", ""], ["", "heart ."]), [0, 0])


def test_a_layer_that_bert_has_not_is_refused(reader: Path) -> None:
    with pytest.raises(InputError, match=r"'bert_layer' is 4; .* has 3 layers"):
        BertScore(reader, 4, CPU)


def test_a_vocabulary_that_bert_has_not_is_refused(tmp_path: Path) -> None:
    write_text_model(tmp_path)
    write_tokenizer(tmp_path, [*SPECIAL_TOKENS, *(f"word{n}" for n in range(60))], lowercase=True)
    with pytest.raises(InputError, match=r"the tokenizer has \d+ pieces, but vocab_size"):
        BertScore(tmp_path, None, CPU)


def test_some_reward_must_count() -> None:
    with pytest.raises(ValidationError, match="are 0; expected one above 0"):
        SelfCriticalSettings.model_validate({"kind": TERM})
    with pytest.raises(ValidationError, match="entities"):
        SelfCriticalSettings.model_validate({"kind": TERM, "entities": -1})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"inferred": "model", "bert_score": 1}, "inferred is set, but entities is 0"),
        ({"repeated": True, "cider_d": 1}, "repeated is set, but entities is 0"),
        ({"bert_layer": 1, "entities": 1}, "bert_layer is set, but no BERTScore is taken"),
        ({"bert_layer": 1, "entities": 1, "inferred": "states"}, "no BERTScore is taken"),
    ],
)
def test_a_setting_that_nothing_reads_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        SelfCriticalSettings.model_validate({"kind": TERM, **settings})


# --- the gradient ---------------------------------------------------------------------------------

END, FIRST, LONGEST = 2, 3, 3


class TwoWords(nn.Module):
    """Words 0 and 1 and the end, each by the token before it and the image's one number."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.table = nn.Parameter(torch.randn(4, 3, dtype=torch.float64))
        self.of_image = nn.Parameter(torch.randn(3, dtype=torch.float64))
        self.cls = nn.Identity()

    def logits(self, ids: Tensor, patches_BMF: Tensor) -> Tensor:
        return self.table[ids] + patches_BMF[:, 0] * self.of_image

    def forward(self, ids_BL: Tensor, patches_BMF: Tensor, positions_N: Tensor) -> Caption:
        length = ids_BL.shape[1]
        logits = torch.stack([self.logits(ids_BL[:, p], patches_BMF) for p in range(length)], 1)
        return Caption(logits.flatten(0, 1)[positions_N], None)

    def reading(self, patches_BMF: Tensor) -> Any:
        return Namespace(next=lambda token_B: self.logits(token_B, patches_BMF))

    def write(self, prompts: Any, patches_BMF: Tensor, search: Search) -> list[list[int]]:
        texts = []
        for (token,), patch_1MF in zip(prompts, patches_BMF.split(1), strict=True):
            text = [token]
            while len(text) <= search.longest and text[-1] != search.end:
                text.append(int(self.logits(torch.tensor([text[-1]]), patch_1MF).argmax()))
            texts.append([token for token in text[1:] if token != search.end])
        return texts


ALL_TEXTS = [
    [*words, *([END] * (LONGEST - length))]
    for length in range(LONGEST + 1)
    for words in product((0, 1), repeat=length)
]


def probability(decoder: TwoWords, text: list[int], patch: Tensor) -> Tensor:
    """Word after word, until the end or until there is no room."""
    total, before = torch.ones((), dtype=torch.float64), FIRST
    for token in text:
        odds = torch.exp(decoder.table[before] + patch * decoder.of_image)
        total, before = total * odds[token] / odds.sum(), token
        if token == END:
            break
    return total


def reward(text: list[int]) -> float:
    return text.count(1) + 0.5 * (text[0] == 0) - 0.25 * text.count(END)


def views_of(decoder: TwoWords, patches_BMF: Tensor) -> Any:
    """A batch of these images, all of them of this process, half of all processes' reports."""
    program, views = object.__new__(CaptionProgram), object.__new__(WrittenViews)
    images = len(patches_BMF)
    prompts = Namespace(end=END, prompts=[[FIRST]] * images)
    texts = Namespace(prompts={"train": prompts}, reports={"train": [""] * images}, tokenizer="")
    settings = Namespace(decoder=Namespace(report_length=LONGEST))
    vars(program).update(decoder=decoder, texts=texts, settings=settings)
    batch = Namespace(own=np.arange(images), rows=np.arange(2 * images))
    vars(views).update(program=program, split="train", batch=batch, patches_BMF=patches_BMF)
    return views


@pytest.fixture
def term(monkeypatch: pytest.MonkeyPatch) -> SelfCritical:
    """Its texts are the tokens' numbers, and its rewards those above."""
    settings = SelfCriticalSettings.model_validate({"kind": TERM, "entities": 1.0})
    made = SelfCritical(settings, cast(Any, None))
    joined = Namespace(decode_batch=lambda ids: [" ".join(map(str, text)) for text in ids])
    monkeypatch.setattr(ifcc, "read_tokenizer", lambda folder: joined)

    def rewards(references: list[str], texts: list[str]) -> np.ndarray:
        tokens = [[int(token) for token in text.split()] for text in texts]
        return np.array([reward(text + [END] * (LONGEST - len(text))) for text in tokens])

    made.rewards = cast(Any, rewards)
    return made


def test_the_gradient_is_reinforces(term: SelfCritical, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over all texts that may be drawn: minus that of the expected reward, by enumeration."""
    decoder, patches_BMF = TwoWords(), torch.tensor([[[0.3]], [[-1.2]]], dtype=torch.float64)
    assert len(ALL_TEXTS) == 15
    expected = torch.zeros((), dtype=torch.float64)
    for text, patch in product(ALL_TEXTS, patches_BMF):
        expected = expected + probability(decoder, text, patch[0]) * reward(text) / 4
    parameters = list(decoder.parameters())
    literal = torch.autograd.grad(expected, parameters)
    chances = [[float(probability(decoder, t, p[0])) for t in ALL_TEXTS] for p in patches_BMF]
    np.testing.assert_allclose(np.sum(chances, axis=1), 1)
    views, loss = views_of(decoder, patches_BMF), torch.zeros((), dtype=torch.float64)
    for a, b in product(range(15), repeat=2):
        both = torch.tensor([ALL_TEXTS[a], ALL_TEXTS[b]])
        monkeypatch.setattr(ifcc, "drawn", lambda *_, both=both: both)
        loss = loss + chances[0][a] * chances[1][b] * term.loss(views)
        mean = (reward(ALL_TEXTS[a]) + reward(ALL_TEXTS[b])) / 4
        assert term.logged()["drawn"] == pytest.approx(mean)
        assert decoder.training
    for ours, theirs in zip(torch.autograd.grad(loss, parameters), literal, strict=True):
        torch.testing.assert_close(ours, -theirs)


def test_a_drawn_report_gains_over_the_greedy_one(
    term: SelfCritical, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hand of one image; in validation the greedy report is all that counts."""
    decoder, patches_BMF = TwoWords(), torch.tensor([[[0.3]]], dtype=torch.float64)
    (greedy_text,) = decoder.write([[FIRST]], patches_BMF, Search(LONGEST, END))
    of_greedy = reward(greedy_text + [END] * (LONGEST - len(greedy_text)))
    text = [1, 1, END]

    def drawn_at_rest(decoder: TwoWords, *_: Any) -> Tensor:
        assert not decoder.training
        return torch.tensor([text])

    monkeypatch.setattr(ifcc, "drawn", drawn_at_rest)
    log = probability(decoder, text, patches_BMF[0, 0]).log()
    literal = -(reward(text) - of_greedy) * log / 2
    views = views_of(decoder, patches_BMF)
    torch.testing.assert_close(term.loss(views), literal)
    assert of_greedy != reward(text)
    term.settings = term.settings.model_copy(update={"likelihood": "word"})
    torch.testing.assert_close(term.loss(views), literal / 3)
    term.eval()
    assert float(term.loss(views)) == pytest.approx(-of_greedy / 2)


def test_the_mean_over_words_counts_the_end() -> None:
    decoder, patches_BMF = TwoWords(), torch.tensor([[[0.3]]] * 3, dtype=torch.float64)
    texts_BL = torch.tensor([[0, END, END], [1, 0, 1], [END, END, END]])
    whole, by_word = (
        log_likelihoods(decoder, patches_BMF, FIRST, texts_BL, END, way) for way in (False, True)
    )
    torch.testing.assert_close(by_word * torch.tensor([2, 3, 1]), whole)


def test_texts_are_drawn_as_often_as_they_are_likely() -> None:
    decoder, draws = TwoWords(), 20_000
    patches_BMF = torch.full((draws, 1, 1), 0.3, dtype=torch.float64)
    with torch.no_grad():
        texts = []
        for _ in range(2):
            torch.manual_seed(5)
            texts.append(drawn(decoder, patches_BMF, FIRST, Search(LONGEST, END)))
        assert torch.equal(*texts)  # by the generator that a step seeds, and nothing else
        counts = Counter(map(tuple, texts[0].tolist()))
        for text in ALL_TEXTS:
            chance = float(probability(decoder, text, patches_BMF[0, 0]))
            deviation = math.sqrt(chance * (1 - chance) / draws)
            assert abs(counts.pop(tuple(text), 0) / draws - chance) < 5 * deviation
        assert not counts
