"""IFCC: its transformer, its rewards by hand, REINFORCE by enumeration, and two trainings."""

import json
import math
from argparse import Namespace
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from benchmark_fakes import make_store
from pydantic import ValidationError
from rival_config import config_of
from rivals import ifcc
from rivals.fact_ent import Facts, entity_match
from rivals.ifcc import (
    BertScore,
    IfccSettings,
    MeshedMemoryTransformer,
    SelfCritical,
    SelfCriticalSettings,
    drawn,
    log_likelihoods,
)
from rivals.radnli_baseline import SentencePairModel
from rivals.tests.test_r2gen import PIECES, REPORTS, WORDS, Weights, affine, patches_of, write_pairs
from small_text import write_text_model
from torch import Tensor, nn

import cxrflow
from command_options import options
from cxr_files.errors import InputError
from cxrflow.encoders.captioning import Caption, CaptionerConfig, build_captioner
from cxrflow.encoders.decoding import Search
from cxrflow.encoders.weights import read_weights
from cxrflow.images.store import PixelStore
from cxrflow.metrics.cider import Cider
from cxrflow.pretrain.caption import main as pretrain_caption
from cxrflow.pretrain.settings import CaptionTrainingSettings
from cxrflow.pretrain.writing.captions import CaptionProgram
from cxrflow.pretrain.writing.program import WrittenViews
from cxrflow.text.tokenizer import SPECIAL_TOKENS, write_tokenizer
from cxrflow.text.words import words_of

KIND, TERM = "rivals.ifcc:MeshedMemoryTransformer", "rivals.ifcc:SelfCritical"
SIZES: dict[str, Any] = {
    **{"kind": KIND, "layers": 2, "width": 12, "heads": 3, "feed_forward": 20, "memory": 4},
    **{"dropout": 0.0, "report_length": 24, "sections": ["findings"]},
}
BOTH = pytest.mark.parametrize("mesh", ["equations", "code"])
CPU = torch.device("cpu")


def writer(std: float = 0.5, pieces: int = PIECES, **values: Any) -> Any:
    """A writer in float64 none of whose weights is what it begins as."""
    torch.manual_seed(0)
    settings = IfccSettings.model_validate({**SIZES, **values})
    sizes = {"features": 7, "vocab_size": pieces, "vocabulary": "pieces"}
    decoder = build_captioner(CaptionerConfig(captioning=settings, **sizes))
    assert isinstance(decoder, MeshedMemoryTransformer)
    for parameter in decoder.parameters():
        nn.init.normal_(parameter, std=std)
    return decoder.double().eval()


# --- the equations, of one vector at a time -------------------------------------------------------


def attention(w: Weights, name: str, query: Tensor, seen: list[Tensor]) -> Tensor:
    """Of one query, head by head, with memory where there is one (Cornia et al. 2020, Eq. 2)."""
    q, parts, heads = affine(w, f"{name}.query", query), [], SIZES["heads"]
    keys = [affine(w, f"{name}.key", x) for x in seen] + list(w.get(f"{name}.memory_key", ()))
    values = [affine(w, f"{name}.value", x) for x in seen] + list(w.get(f"{name}.memory_value", ()))
    for head in range(heads):
        own = slice(head * len(q) // heads, (head + 1) * len(q) // heads)
        scores = torch.stack([q[own] @ key[own] for key in keys]) / math.sqrt(len(q) // heads)
        shares = scores.exp() / scores.exp().sum()
        parts.append(sum(share * value[own] for share, value in zip(shares, values, strict=True)))
    return affine(w, f"{name}.out", torch.cat(parts))


def normed(w: Weights, name: str, x: Tensor) -> Tensor:
    centred = x - x.sum() / len(x)
    scaled = centred / ((centred**2).sum() / len(x) + 1e-5).sqrt()
    return scaled * w[f"{name}.weight"] + w[f"{name}.bias"]


def fed_forward(w: Weights, name: str, x: Tensor) -> Tensor:
    inner = affine(w, f"{name}.feed_forward.0", x).clamp(min=0)
    change = affine(w, f"{name}.feed_forward.3", inner)
    return normed(w, f"{name}.after_feed_forward.norm", x + change)


def by_hand(decoder: Any, mesh: str, ids: list[int], patches_MF: Tensor) -> Tensor:
    """The logits after each token of a text."""
    w: Weights = dict(decoder.named_parameters())
    xs = [normed(w, "patches.3", affine(w, "patches.0", p).clamp(min=0)) for p in patches_MF]
    levels = []
    for number in range(SIZES["layers"]):
        name = f"encoder.{number}"
        changed = [x + attention(w, f"{name}.attention", x, xs) for x in xs]
        zs = [normed(w, f"{name}.after_attention.norm", z) for z in changed]
        xs = [fed_forward(w, name, z) for z in zs]
        levels.append(xs)
    width, ys = SIZES["width"], []
    for place, token in enumerate(ids, 1):
        wave = [
            (math.cos if i % 2 else math.sin)(place / 10000 ** (2 * (i // 2) / width))
            for i in range(width)
        ]
        ys.append(w["words.weight"][token] + torch.tensor(wave, dtype=torch.float64))
    for number in range(SIZES["layers"]):
        name, after = f"layers.{number}", []
        for t, y in enumerate(ys):
            own = attention(w, f"{name}.own", y, ys[: t + 1])
            y = normed(w, f"{name}.after_own.norm", y + own)
            mixed = torch.zeros(width, dtype=torch.float64)
            for level, states in enumerate(levels):
                c = attention(w, f"{name}.cross", y, states)
                if mesh == "code":
                    c = normed(w, f"{name}.cross.after.norm", y + c)
                gate = affine(w, f"{name}.gates.{level}", torch.cat([y, c]))
                mixed = mixed + c / (1 + torch.exp(-gate))
            if mesh == "code":
                z = mixed / math.sqrt(len(levels))
            else:
                z = normed(w, f"{name}.after_mesh.norm", y + mixed)
            after.append(fed_forward(w, name, z))
        ys = after
    return torch.stack([w["cls.weight"] @ y for y in ys])


@BOTH
def test_logits_and_gradients_are_those_of_the_equations(mesh: str) -> None:
    decoder = writer(std=0.3, mesh=mesh, attention_dropout=0.1)
    assert decoder.encoder[1].attention.memory_key.shape == (4, 12)
    lengths, texts = (6, 3), torch.zeros(2, 6, dtype=torch.long)
    for row, length in enumerate(lengths):
        texts[row, :length] = torch.randint(1, PIECES, (length,))
    places = torch.tensor([row * 6 + place for row in range(2) for place in range(lengths[row])])
    patches = patches_of(2).requires_grad_()
    caption = decoder(texts, patches, places)
    texts_and_patches = zip(texts.tolist(), lengths, patches, strict=True)
    literal = torch.cat([by_hand(decoder, mesh, t[:n], p) for t, n, p in texts_and_patches])
    torch.testing.assert_close(caption.logits, literal, rtol=1e-5, atol=1e-6)  # places: float32
    direction = torch.randn(literal.shape, dtype=torch.float64)
    inputs = [patches, *decoder.parameters()]
    ours = torch.autograd.grad((caption.logits * direction).sum(), inputs)
    theirs = torch.autograd.grad((literal * direction).sum(), inputs)
    for gradient, of_equations in zip(ours, theirs, strict=True):
        torch.testing.assert_close(gradient, of_equations, rtol=1e-5, atol=1e-5)


def test_attention_is_dropped_in_training_alone() -> None:
    decoder, patches = writer(attention_dropout=0.5), patches_of(1)
    ids, places = torch.tensor([[1, 2, 3]]), torch.tensor([0, 1, 2])
    still = decoder(ids, patches, places).logits
    assert torch.equal(still, decoder(ids, patches, places).logits)
    decoder.train()
    assert not torch.equal(still, decoder(ids, patches, places).logits)
    for attention_of in [*decoder.encoder, *decoder.layers]:
        for module in attention_of.modules():
            if isinstance(module, ifcc.DroppingAttention):
                module.dropout = 0.0
    torch.testing.assert_close(still, decoder(ids, patches, places).logits)


@BOTH
def test_word_by_word_is_as_all_at_once(mesh: str) -> None:
    """Also where sequences change their places; and greedy search takes the likeliest word."""
    decoder, patches = writer(mesh=mesh), patches_of(3)
    ids, rows = torch.randint(1, PIECES, (6, 7)), torch.tensor([1, 0, 2, 2, 5, 4])
    with torch.no_grad():
        reading = decoder.reading(patches)
        reading.take(torch.arange(3).repeat_interleave(2))
        for place in range(4):
            hidden = reading.next(ids[:, place])
        whole = decoder.reading(patches.repeat_interleave(2, dim=0)).read(ids[:, :4])
        torch.testing.assert_close(hidden, whole[:, 3])
        reading.take(rows)
        last = reading.next(ids[rows, 4])
        images = patches.repeat_interleave(2, dim=0)[rows]
        torch.testing.assert_close(last, decoder.reading(images).read(ids[rows, :5])[:, 4])
        written = decoder.write([[2]] * 3, patches, Search(8, end=3))
        for image, text in enumerate(written):
            so_far = [2]
            while len(so_far) <= 8:
                end = torch.tensor([len(so_far) - 1])
                logits = decoder(torch.tensor([so_far]), patches[[image]], end).logits
                so_far.append(int(logits.argmax()))
                if so_far[-1] == 3:
                    break
            assert text == [token for token in so_far[1:] if token != 3]


# --- rewards --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reader")
    return write_text_model(folder)


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


# --- two trainings --------------------------------------------------------------------------------


def settings_of(**values: Any) -> dict[str, Any]:
    """Of a small trunk and its captioner; ``values`` of the training."""
    training = {
        **{"batch_size": 6, "log_steps": 10, "validations": 1, "stopping": {"keep": "last"}},
        "optimiser": {"name": "adam", "learning_rate": 3e-3, "weight_decay": 0},
    }
    sizes = {"mesh": "code", "layers": 1, "width": 32, "heads": 4, "feed_forward": 32}
    return {
        "encoder": {"block": "basic", "layers": [1, 1, 1, 1], "width": 8, "channels": 1},
        "decoder": {**SIZES, **sizes},
        "terms": {"report_likelihood": {}},
        "augmentation": {"angle": 0, "shear": 0, "brightness": 0, "contrast": 0},
        "training": {**training, **values},
    }


def rewarded(**values: Any) -> dict[str, Any]:
    """Of the second stage: nothing but entities, unless ``values`` of the term say otherwise."""
    term = {"kind": TERM, "entities": 1.0, "likelihood": "word", **values}
    settings = settings_of(steps=6, log_steps=1, save_minutes=1e-9)
    return {
        **settings,
        "decoder_start": "image",
        "terms": {"report_likelihood": {"weight": 0.01}, "self_critical": term},
    }


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Six pairs of images and reports, and a vocabulary."""
    folder = tmp_path_factory.mktemp("ifcc")
    pixels = make_store(folder, 6)
    write_pairs(folder / "cohort")
    (folder / "vocabulary").mkdir()
    write_tokenizer(folder / "vocabulary", [*SPECIAL_TOKENS, *WORDS], lowercase=True)
    given = {"pairs": folder / "cohort/pairs.parquet", "pixels": pixels}
    return given | {"vocabulary": folder / "vocabulary", "seed": 0}


def train(places: dict[str, Any], output: Path, settings: Any, **more: Any) -> Path:
    where = {"model": output.name, "state": output.parent / f"{output.name}_state"}
    pretrain_caption(options(**places, settings=settings, output=output, **where, **more))
    return output


@pytest.fixture(scope="module")
def first_stage(places: dict[str, Any]) -> Path:
    settings = settings_of(steps=150)
    return train(places, places["vocabulary"].parent / "first", settings)


def metrics_of(folder: Path, name: str) -> list[float]:
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [entry[name] for entry in map(json.loads, lines) if name in entry]


def weights_of(folder: Path) -> dict[str, Tensor]:
    files = [folder / "decoder/model.safetensors", folder / "image/model.safetensors"]
    return {f"{n}/{k}": v for n, file in enumerate(files) for k, v in read_weights(file).items()}


def test_by_cross_entropy_it_learns_its_reports(places: dict[str, Any], first_stage: Path) -> None:
    losses = metrics_of(first_stage, "loss")
    assert losses[0] > 1.5 and losses[-1] < 0.3 * losses[0]
    model = cxrflow.load(first_stage)
    assert isinstance(model.decoder, MeshedMemoryTransformer)
    store = PixelStore(places["pixels"])
    rows = store.rows(np.array([f"image{number}" for number in range(6)], dtype=object))
    written = model.generate_report(torch.from_numpy(store.read(rows)).unsqueeze(1).float() / 255)
    said = [text.replace(" .", ".") for text in written]
    assert sum(a == b.replace(" .", ".") for a, (b, _) in zip(said, REPORTS, strict=True)) >= 4


def test_the_second_stage_goes_on_from_the_first(
    places: dict[str, Any], first_stage: Path, tmp_path: Path
) -> None:
    settings = rewarded()
    settings["training"]["optimiser"]["learning_rate"] = 1e-12
    again = train(places, tmp_path / "second", settings, image=first_stage)
    before, after = weights_of(first_stage), weights_of(again)
    for name, weight in before.items():
        if "running" not in name and "num_batches" not in name:
            torch.testing.assert_close(after[name], weight, rtol=0, atol=1e-9)
    greedy = metrics_of(again, "self_critical/greedy")
    assert len(greedy) == 6 and all(0 < value <= 1 for value in greedy)
    assert np.mean(metrics_of(again, "self_critical/drawn")) < np.mean(greedy)


def test_killed_and_resumed_it_has_the_same_weights(
    places: dict[str, Any], first_stage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = rewarded(cider_d=0.1)
    whole = train(places, tmp_path / "whole", settings, image=first_stage)
    calls, loss = [], SelfCritical.loss

    def killed(self: SelfCritical, views: Any) -> Tensor:
        calls.append(views)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return loss(self, views)

    monkeypatch.setattr(SelfCritical, "loss", killed)
    with pytest.raises(KeyboardInterrupt):
        train(places, tmp_path / "broken", settings, image=first_stage)
    monkeypatch.undo()
    broken = train(places, tmp_path / "broken", settings, image=first_stage)
    ours, theirs = weights_of(broken), weights_of(whole)
    assert all(torch.equal(ours[name], weight) for name, weight in theirs.items())
    assert any(not torch.equal(w, ours[n]) for n, w in weights_of(first_stage).items())
    for name in ("self_critical/drawn", "self_critical", "loss"):
        assert metrics_of(broken, name) == metrics_of(whole, name)


def test_rewards_are_the_weighted_scores_of_what_is_written(
    places: dict[str, Any],
    first_stage: Path,
    reader: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the program's own reports, each score alone, and none of a part without weight."""
    made: list[ifcc.Rewards] = []
    rewards = ifcc.Rewards.__init__

    def kept(self: ifcc.Rewards, *values: Any) -> None:
        rewards(self, *values)
        made.append(self)

    monkeypatch.setattr(ifcc.Rewards, "__init__", kept)
    weights = {"cider_d": 0.2, "bert_score": 0.3, "entities": 0.5}
    settings = rewarded(**weights, bert_layer=2)
    settings["training"]["steps"] = 1
    folder = train(places, tmp_path / "all", settings, image=first_stage, text=reader)
    assert not any("bert" in name for name in weights_of(folder))
    (ours,) = made
    findings = [findings for findings, _ in REPORTS]
    others = findings[1:] + findings[:1]
    cider = Cider([words_of(text) for text in findings])
    parts = {
        "cider_d": cider.cider_d(*([words_of(t) for t in side] for side in (findings, others))),
        "bert_score": BertScore(reader, 2, CPU)(findings, others),
        "entities": np.array(
            [
                entity_match(*both, False)
                for both in Facts(None)([[text] for text in findings], [[text] for text in others])
            ]
        ),
    }
    assert all(part.std() > 0 for part in parts.values())
    total = sum(weights[name] * part for name, part in parts.items())
    np.testing.assert_allclose(ours(findings, others), total)


# --- what is refused ------------------------------------------------------------------------------


def test_what_is_missing_is_said(places: dict[str, Any], first_stage: Path, tmp_path: Path) -> None:
    without_text = rewarded(bert_score=0.5)
    with pytest.raises(InputError, match="'bert_score' is set; expected --text beside it"):
        train(places, tmp_path / "a", without_text, image=first_stage)
    with pytest.raises(InputError, match="'inferred' is set; expected --text beside it"):
        train(places, tmp_path / "d", rewarded(inferred="model"), image=first_stage)
    with pytest.raises(InputError, match="'program' is 'caption'; expected sentence_pairs"):
        SentencePairModel(first_stage, CPU)
    with pytest.raises(InputError, match="'decoder_start' is 'image', but there is no --image"):
        train(places, tmp_path / "b", rewarded())
    wider = rewarded()
    wider["decoder"] = {**wider["decoder"], "feed_forward": 40}
    with pytest.raises(InputError, match=r"decoder/config.json: key 'captioning' is .*; expected"):
        train(places, tmp_path / "c", wider, image=first_stage)


def test_a_recipe_names_it() -> None:
    common = {"augmentation": {}, "training": {"steps": 1}, "terms": {"report_likelihood": {}}}
    settings = CaptionTrainingSettings.model_validate({**common, "decoder": SIZES})
    assert isinstance(settings.decoder, IfccSettings) and settings.decoder.mesh == "equations"
    assert settings.record()["decoder"] == {**SIZES, **settings.decoder.record()}
    assert "decoder_start" not in settings.record()  # older models have been made so
    for wrong, message in {"heads": 5, "mesh": "mean", "kind": "rivals.ifcc:BertScore"}.items():
        with pytest.raises(ValidationError):
            CaptionTrainingSettings.model_validate({**common, "decoder": {**SIZES, wrong: message}})


# --- the recipe -----------------------------------------------------------------------------------


def test_the_recipe_has_the_published_sizes() -> None:
    models = config_of("ifcc", "paper", "radnli_baseline").models
    first, second = (models[f"ifcc/{name}"] for name in ("ifcc_likelihood", "ifcc"))
    sizes = {"layers": 1, "report_length": 128, "attention_dropout": 0.1, "mesh": "code"}
    published = IfccSettings.model_validate({"kind": KIND, **sizes, "sections": ["findings"]})
    assert (published.width, published.heads, published.memory) == (512, 8, 40)
    for model in (first, second):
        assert model.settings.decoder == published and model.settings.image_rate == 1
        assert (model.settings.training.epochs, model.settings.training.batch_size) == (32, 24)
    training = first.settings.training
    assert training.optimiser.learning_rate == pytest.approx((512 * 2000) ** -0.5, rel=1e-4)
    assert (training.schedule.decay, training.schedule.warmup_steps) == ("noam", 2000)
    assert second.parents == {"image": "ifcc/ifcc_likelihood", "text": "radnli_baseline/classifier"}
    terms = second.settings.terms.named()
    weights = [terms["report_likelihood"].weight]
    weights += [terms["self_critical"].bert_score, terms["self_critical"].entities]
    assert weights == [0.01, 0.495, 0.495] and terms["self_critical"].weight == 1
    assert terms["self_critical"].inferred == "model"
    classifier = models["radnli_baseline/classifier"]
    assert classifier.parents == {"start": "low_data/bert_base"}
    assert classifier.settings.training.optimiser.learning_rate == 2e-5
    assert second.settings.training.optimiser.learning_rate == 5e-6
    assert second.settings.training.schedule.decay == "constant"


def test_the_demonstration_starts_where_convirts_models_do() -> None:
    models = config_of("ifcc", "demo", "radnli_baseline").models
    assert models["ifcc/ifcc_likelihood"].parents == {"image": "convirt/imagenet_pretraining"}
    ifcc = models["ifcc/ifcc"]
    assert ifcc.parents == {"image": "ifcc/ifcc_likelihood", "text": "low_data/bert_base"}
    assert ifcc.settings.terms.named()["self_critical"].inferred == "states"
    trunks = [models[name].settings for name in ("ifcc/ifcc", "convirt/imagenet_pretraining")]
    assert trunks[0].encoder == trunks[1].encoder and trunks[0].decoder.width == 64
