"""R2Gen: its equations in float64, its search against all texts, and a training that learns."""

import json
import math
from argparse import Namespace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_fakes import boxes_of, make_store, result_of, write_cohort
from pydantic import ValidationError
from rival_config import config_of
from rivals.r2gen import R2Gen, R2GenSettings, Reading
from torch import Tensor, nn

import cxrflow
from command_options import options
from cxr_files.atomic import read_object, write_json
from cxr_files.errors import InputError
from cxrflow.benchmarks.generation.settings import ReportGenerationSettings
from cxrflow.encoders.captioning import (
    CaptionerConfig,
    build_captioner,
    load_captioner,
    save_captioner,
)
from cxrflow.encoders.decoding import Search
from cxrflow.encoders.image_encoder import build_trunk
from cxrflow.encoders.settings import ResNetSettings
from cxrflow.images.store import PixelStore
from cxrflow.pretrain.caption import main as pretrain_caption
from cxrflow.pretrain.settings import CaptionTrainingSettings
from cxrflow.text.tokenizer import SPECIAL_TOKENS, write_tokenizer

KIND = "rivals.r2gen:R2Gen"
FEATURES, PATCHES, PIECES = 7, 5, 30
SIZES: dict[str, Any] = {
    **{"kind": KIND, "layers": 2, "width": 12, "heads": 3, "feed_forward": 10, "slots": 2},
    **{"memory_heads": 4, "dropout": 0.0, "patch_dropout": 0.0, "report_length": 20},
}
PAPER: dict[str, Any] = {"norm": "after", "gate_bias": False}
CODE: dict[str, Any] = {"norm": "before", "gate_bias": True}
BOTH = pytest.mark.parametrize("of", [PAPER, CODE], ids=["paper", "code"])
Weights = dict[str, Tensor]


def writer(std: float = 0.5, pieces: int = PIECES, **values: Any) -> Any:
    """A writer in float64 none of whose weights is what it begins as."""
    torch.manual_seed(0)
    settings = R2GenSettings.model_validate({**SIZES, **values})
    config = CaptionerConfig(
        captioning=settings, features=FEATURES, vocab_size=pieces, vocabulary="pieces"
    )
    decoder = build_captioner(config)
    assert isinstance(decoder, R2Gen)
    for parameter in decoder.parameters():
        nn.init.normal_(parameter, std=std)
    return decoder.double().eval()


def patches_of(images: int) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(images, PATCHES, FEATURES, dtype=torch.float64, generator=generator)


# --- the equations, of one vector at a time -------------------------------------------------------


def affine(w: Weights, name: str, x: Tensor) -> Tensor:
    y = w[f"{name}.weight"] @ x
    return y + w[f"{name}.bias"] if f"{name}.bias" in w else y


def attention(w: Weights, name: str, heads: int, query: Tensor, seen: list[Tensor]) -> Tensor:
    """softmax(Q K^T / sqrt(d_k)) V of one query, head by head."""
    q, parts = affine(w, f"{name}.query", query), []
    keys = [affine(w, f"{name}.key", x) for x in seen]
    values = [affine(w, f"{name}.value", x) for x in seen]
    width = len(q) // heads
    for head in range(heads):
        own = slice(head * width, (head + 1) * width)
        weights = [torch.exp(q[own] @ key[own] / math.sqrt(width)) for key in keys]
        total = sum(weights)
        looked = [p / total * v[own] for p, v in zip(weights, values, strict=True)]
        parts.append(torch.stack(looked).sum(0))
    return affine(w, f"{name}.out", torch.cat(parts))


def memory_step(w: Weights, memory: list[Tensor], token: Tensor) -> list[Tensor]:
    """M_t of M_{t-1} and y_{t-1}, row by row (Eq. 6 to 10)."""
    rows = []
    for row in memory:
        z = attention(w, "memory.attention", SIZES["memory_heads"], row, [*memory, token])
        hidden = affine(w, "memory.mlp.0", z + row).clamp(min=0)
        candidate = affine(w, "memory.mlp.2", hidden).clamp(min=0) + z + row
        gates = affine(w, "memory.of_token", token) + affine(w, "memory.of_memory", row.tanh())
        forget, admit = (1 / (1 + torch.exp(-gate)) for gate in gates.chunk(2))
        rows.append(forget * row + admit * torch.tanh(candidate))
    return rows


def normal(w: Weights, name: str, x: Tensor, memory: list[Tensor] | None = None) -> Tensor:
    """gain (r - mu) / v + shift; with a memory both of them changed by it (Eq. 11 to 15)."""
    gain, shift = w[f"{name}.gain"], w[f"{name}.shift"]
    if memory is not None:
        m = torch.cat(memory)
        changes = []
        for mlp in ("of_gain", "of_shift"):
            hidden = affine(w, f"{name}.{mlp}.0", m).clamp(min=0)
            changes.append(affine(w, f"{name}.{mlp}.2", hidden))
        gain, shift = gain + changes[0], shift + changes[1]
    mean = x.sum() / len(x)
    deviation = (((x - mean) ** 2).sum() / (len(x) - 1)).sqrt()
    return gain * (x - mean) / (deviation + 1e-6) + shift


def fed_forward(w: Weights, name: str, x: Tensor) -> Tensor:
    hidden = affine(w, f"{name}.feed_forward.0", x).clamp(min=0)
    return affine(w, f"{name}.feed_forward.3", hidden)


def layer(
    w: Weights, name: str, before: bool, xs: list[Tensor], memories: Any, patches: Any
) -> list[Tensor]:
    """The states after a layer; of words where there are ``patches``, else of patches."""
    norms = [f"{name}.shortcuts.{number}.norm" for number in range(3 if patches else 2)]

    def entered(number: int) -> list[Tensor]:
        if not before:
            return xs
        return [normal(w, norms[number], x, m) for x, m in zip(xs, memories, strict=True)]

    def left(number: int, changes: list[Tensor]) -> list[Tensor]:
        sums = [x + change for x, change in zip(xs, changes, strict=True)]
        if before:
            return sums
        return [normal(w, norms[number], x, m) for x, m in zip(sums, memories, strict=True)]

    ins, heads = entered(0), SIZES["heads"]
    seen = [ins[: place + 1] if patches else ins for place in range(len(ins))]
    pairs = zip(ins, seen, strict=True)
    xs = left(0, [attention(w, f"{name}.own", heads, x, some) for x, some in pairs])
    if patches:
        xs = left(1, [attention(w, f"{name}.cross", heads, x, patches) for x in entered(1)])
    last = len(norms) - 1
    return left(last, [fed_forward(w, name, x) for x in entered(last)])


def logits_of_the_paper(decoder: R2Gen, ids: list[int], patches_MF: Tensor) -> Tensor:
    """After each token of a text."""
    settings = decoder.config.captioning
    assert isinstance(settings, R2GenSettings)
    w: Weights = dict(decoder.named_parameters())
    before, width = settings.norm == "before", settings.width
    xs = [affine(w, "patches.0", patch).clamp(min=0) for patch in patches_MF]
    for number in range(settings.layers):
        xs = layer(w, f"encoder.{number}", before, xs, [None] * len(xs), None)
    patches = [normal(w, "ends.0", x) for x in xs] if before else xs
    ys, memories = [], []
    memory = [torch.eye(width, dtype=torch.float64)[slot] for slot in range(settings.slots)]
    for place, token in enumerate(ids):
        wave = [
            (math.cos if i % 2 else math.sin)(place / 10000 ** (2 * (i // 2) / width))
            for i in range(width)
        ]
        place_D = torch.tensor(wave, dtype=torch.float64)
        ys.append(w["words.weight"][token] * math.sqrt(width) + place_D)
        memory = memory_step(w, memory, ys[-1])
        memories.append(memory)
    for number in range(settings.layers):
        ys = layer(w, f"layers.{number}", before, ys, memories, patches)
    if before:
        ys = [normal(w, "ends.1", y) for y in ys]
    return torch.stack([affine(w, "cls", y) for y in ys])


@BOTH
def test_the_memory_is_that_of_the_equations(of: dict[str, Any]) -> None:
    decoder = writer(**of)
    w: Weights = dict(decoder.named_parameters())
    assert ("memory.of_token.bias" in w) == of["gate_bias"]
    generator = torch.Generator().manual_seed(2)
    tokens_RLD = torch.randn(3, 4, 12, dtype=torch.float64, generator=generator)
    memory_RSD = decoder.memory.first(tokens_RLD[:, 0])
    literal = [[torch.eye(12, dtype=torch.float64)[slot] for slot in range(2)] for _ in range(3)]
    for place in range(4):
        memory_RSD = decoder.memory(memory_RSD, tokens_RLD[:, place])
        literal = [memory_step(w, m, y) for m, y in zip(literal, tokens_RLD[:, place], strict=True)]
        torch.testing.assert_close(memory_RSD, torch.stack([torch.stack(m) for m in literal]))


def test_the_memory_changes_gain_and_shift() -> None:
    decoder = writer(**PAPER)
    norm = decoder.layers[1].shortcuts[2].norm
    w = {f"norm.{name}": value for name, value in norm.named_parameters()}
    states, memory = (torch.randn(2, 3, width, dtype=torch.float64) for width in (12, 24))
    for row, place in product(range(2), range(3)):
        literal = normal(w, "norm", states[row, place], [memory[row, place]])
        torch.testing.assert_close(norm(states, memory)[row, place], literal)
    unmoved = norm(states, memory) - norm(states, memory.flip(0))
    assert float(unmoved.detach().abs().min()) > 0


@BOTH
def test_logits_and_gradients_are_those_of_the_equations(of: dict[str, Any]) -> None:
    decoder = writer(std=0.3, **of)
    lengths, texts = (6, 3), torch.zeros(2, 6, dtype=torch.long)
    for row, length in enumerate(lengths):
        texts[row, :length] = torch.randint(1, PIECES, (length,))
    places = torch.tensor([row * 6 + place for row in range(2) for place in range(lengths[row])])
    patches = patches_of(2).requires_grad_()
    caption = decoder(texts, patches, places)
    assert caption.attended is None
    literal = torch.cat(
        [
            logits_of_the_paper(decoder, texts[row, :length].tolist(), patches[row])
            for row, length in enumerate(lengths)
        ]
    )
    torch.testing.assert_close(caption.logits, literal)
    direction = torch.randn(literal.shape, dtype=torch.float64)
    inputs = [patches, *decoder.parameters()]
    ours = torch.autograd.grad((caption.logits * direction).sum(), inputs)
    theirs = torch.autograd.grad((literal * direction).sum(), inputs)
    for gradient, of_equations in zip(ours, theirs, strict=True):
        # The places of tokens are kept in float32.
        torch.testing.assert_close(gradient, of_equations, rtol=1e-5, atol=1e-6)


def test_what_it_begins_with_is_the_codes() -> None:
    settings = R2GenSettings.model_validate({"kind": KIND, **CODE})
    config = CaptionerConfig(captioning=settings, features=64, vocab_size=50, vocabulary="")
    torch.manual_seed(0)
    w = build_captioner(config).state_dict()
    for name, sides in {"memory.of_token": (512, 1024), "layers.0.own.query": (512, 512)}.items():
        bound = math.sqrt(6 / sum(sides))  # Glorot and Bengio 2010, Eq. 16
        assert bound * 0.98 < float(w[f"{name}.weight"].abs().max()) <= bound
    bias = w["layers.2.shortcuts.1.norm.of_gain.0.bias"]
    assert torch.equal(bias, torch.full((512,), 0.1))
    shape = tuple(w["layers.2.shortcuts.1.norm.of_shift.0.weight"].shape)
    assert shape == (512, 3 * 512)


def test_it_has_as_many_parameters_as_in_the_paper() -> None:
    """Table 4, by slots; the number of words, which it does not give, is one for all four."""
    with torch.device("meta"):
        trunk = build_trunk(ResNetSettings(layers=(3, 4, 23, 3)))
        for slots, published in {1: 76.6, 2: 81.4, 3: 86.1, 4: 90.8}.items():
            settings = R2GenSettings.model_validate({"kind": KIND, **CODE, "slots": slots})
            sizes = {"features": trunk.features, "vocab_size": 8180, "vocabulary": ""}
            decoder = build_captioner(CaptionerConfig(captioning=settings, **sizes))
            count = sum(p.numel() for p in (*trunk.parameters(), *decoder.parameters()))
            assert round(count / 1e6, 1) == published


# --- writing --------------------------------------------------------------------------------------


@BOTH
def test_word_by_word_is_as_all_at_once(of: dict[str, Any]) -> None:
    """Also where sequences change their places, and images are let go."""
    decoder, patches = writer(**of), patches_of(3)
    ids = torch.randint(1, PIECES, (6, 7))  # two of each image
    rows = torch.tensor([1, 0, 2, 2, 5, 4])
    with torch.no_grad():
        reading = Reading(decoder, patches)
        reading.take(torch.arange(3).repeat_interleave(2))
        for place in range(4):
            hidden = reading.next(ids[:, place])
        whole = Reading(decoder, patches.repeat_interleave(2, dim=0)).read(ids[:, :4])
        torch.testing.assert_close(hidden, whole[:, 3])
        reading.take(rows)
        for place in range(4, 6):
            reading.next(ids[rows, place])
        texts, images = ids[rows], patches.repeat_interleave(2, dim=0)[rows]
        reading.take(torch.tensor([0, 1, 4, 5]), torch.tensor([0, 2]))
        last = reading.next(texts[[0, 1, 4, 5], 6])
        whole = Reading(decoder, images).read(texts)[[0, 1, 4, 5], 6]
        torch.testing.assert_close(last, whole)


@pytest.mark.parametrize("penalty", [0.0, 1.0])
@BOTH
def test_beams_that_hold_all_texts_find_the_best_of_all(of: dict[str, Any], penalty: float) -> None:
    """Of 5 pieces and up to 4 tokens, as many beams as unfinished texts."""
    longest, end, pieces, first = 4, 3, 5, 2
    decoder, patches = writer(pieces=pieces, **of), patches_of(4)
    search = Search(longest, end, beams=pieces ** (longest - 1), length_penalty=penalty)
    written = decoder.write([[first]] * 4, patches, search)
    greedy = decoder.write([[first]] * 4, patches, Search(longest, end))
    going = [piece for piece in range(pieces) if piece != end]
    texts = [
        (*begun, last)
        for length in range(longest)
        for begun in product(going, repeat=length)
        for last in ([end] if length + 1 < longest else range(pieces))
    ]
    assert len(texts) == 1 + 4 + 16 + 64 * 5
    ids_TL = torch.tensor([[first, *text, *[0] * (longest - len(text))] for text in texts])
    places = torch.arange(ids_TL.numel()).view_as(ids_TL)
    for image in range(4):
        with torch.no_grad():
            logits = decoder(ids_TL, patches[[image] * len(texts)], places.flatten()).logits
        log_TLV = logits.log_softmax(dim=1).view(*ids_TL.shape, pieces)
        scores = {}
        for text, log_LV in zip(texts, log_TLV.tolist(), strict=True):
            total = sum(log_LV[place][token] for place, token in enumerate(text))
            scores[tuple(piece for piece in text if piece != end)] = total / len(text) ** penalty
        best = max(scores, key=scores.__getitem__)
        assert tuple(written[image]) == best
        assert scores[best] >= scores[tuple(greedy[image])]


# --- the door -------------------------------------------------------------------------------------


def test_a_recipe_names_it() -> None:
    common = {"augmentation": {}, "training": {"steps": 1}, "terms": {"report_likelihood": {}}}
    settings = CaptionTrainingSettings.model_validate({**common, "decoder": SIZES})
    assert isinstance(settings.decoder, R2GenSettings) and settings.decoder.norm == "after"
    assert settings.record()["decoder"] == {**SIZES, **settings.decoder.record()}
    for wrong, message in {
        "rivals.r2gen:Norm": "expected a subclass of cxrflow.encoders.captioning.Captioner",
        "rivals.r2gen:Nothing": "has no class Nothing",
        "captioning_gru": "expected captioning_lstm, captioning_transformer",
    }.items():
        decoder = {**SIZES, "kind": wrong}
        with pytest.raises(ValidationError, match=message):
            CaptionTrainingSettings.model_validate({**common, "decoder": decoder})
    for name in ("heads", "memory_heads"):
        with pytest.raises(ValidationError, match=f"width is 12; expected a multiple of {name} 5"):
            R2GenSettings.model_validate({**SIZES, name: 5})


def test_a_saved_one_is_the_same(tmp_path: Path) -> None:
    decoder = writer(**CODE).float()
    save_captioner(decoder, tmp_path)
    again = load_captioner(tmp_path)
    assert type(again) is R2Gen and again.config == decoder.config
    for name, weight in decoder.state_dict().items():
        assert torch.equal(again.state_dict()[name], weight), name


def test_code_that_a_file_names_must_be_trusted(tmp_path: Path) -> None:
    save_captioner(writer(**CODE), tmp_path)
    path = tmp_path / "decoder/config.json"
    config = read_object(path)
    config["captioning"]["kind"] = "elsewhere:Writer"
    write_json(path, config)
    with pytest.raises(InputError, match="'elsewhere:Writer' is code outside of cxrflow"):
        load_captioner(tmp_path)


# --- a training -----------------------------------------------------------------------------------

WORDS = ["no", "left", "right", "upper", "lower", "effusion", "edema", "opacity", "is", "seen", "."]
REPORTS = [
    ("no effusion .", "no edema is seen ."),
    ("left upper opacity .", "left opacity is seen ."),
    ("right lower effusion .", "right effusion is seen . no edema ."),
    ("no opacity is seen .", "no effusion ."),
    ("left lower effusion . no opacity .", "left effusion ."),
    ("right upper opacity is seen .", "edema ."),
]


def write_pairs(folder: Path) -> None:
    """The six pairs in each split: what has been learnt by heart is what is asked."""
    rows = [
        {
            "subject_id": f"{split}{number}",
            "study_id": f"{split}{number}",
            "image_id": f"image{number}",
            "split": split,
            "findings": findings,
            "impression": impression,
            "findings_sentences": [findings],
            "impression_sentences": [impression],
            "prior_study_id": None,
            "prior_image_id": None,
        }
        for split in ("train", "validate", "test")
        for number, (findings, impression) in enumerate(REPORTS)
    ]
    table = pd.DataFrame(rows)
    write_cohort(folder, "pairs.parquet", table)
    write_json(folder / "flow.json", {"dataset": "tiny", "cohort": "tiny", "synthetic": True})


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Namespace:
    """The program's own end, of a small trunk and six pairs."""
    folder = tmp_path_factory.mktemp("r2gen")
    assert len({tuple(boxes_of(number)[0]) for number in range(6)}) == 6
    pixels = make_store(folder, 6)
    write_pairs(folder / "cohort")
    (folder / "vocabulary").mkdir()
    write_tokenizer(folder / "vocabulary", [*SPECIAL_TOKENS, *WORDS], lowercase=True)
    training = {
        **{"batch_size": 6, "steps": 240, "log_steps": 10, "validations": 3},
        "optimiser": {"name": "adam", "learning_rate": 3e-3, "weight_decay": 0},
        "stopping": {"keep": "best", "monitor": "bleu_4", "mode": "max"},
    }
    sizes = {**SIZES, **CODE, "width": 32, "heads": 4, "feed_forward": 32, "report_length": 24}
    settings = {
        "encoder": {"block": "basic", "layers": [1, 1, 1, 1], "width": 8, "channels": 1},
        "decoder": sizes,
        "terms": {"report_likelihood": {}},
        "augmentation": {"angle": 0, "shear": 0, "brightness": 0, "contrast": 0},
        "training": training,
    }
    places = {"pairs": folder / "cohort/pairs.parquet", "pixels": pixels}
    places |= {"vocabulary": folder / "vocabulary", "state": folder / "state"}
    model = folder / "model"
    pretrain_caption(options(**places, settings=settings, model="r2gen", seed=0, output=model))
    return Namespace(cohort=folder / "cohort", pixels=pixels, stanza=None, folder=model)


def test_the_loss_falls(trained: Namespace) -> None:
    lines = (trained.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    losses = [entry["loss"] for entry in map(json.loads, lines) if "loss" in entry]
    assert losses[0] > 1.5 and losses[-1] < 0.1 * losses[0]


def test_it_writes_the_reports_that_it_learnt(trained: Namespace) -> None:
    """By its folder alone, and as the benchmark asks; of another's image it says another's."""
    model = cxrflow.load(trained.folder)
    assert isinstance(model.decoder, R2Gen)
    store = PixelStore(trained.pixels)
    images = [f"image{number}" for number in range(6)]
    pixels = torch.from_numpy(store.read(store.rows(pd.Series(images)))).unsqueeze(1).float() / 255
    for beams in (1, 3):
        written = model.generate_report(pixels, beams=beams, length_penalty=0)
        assert [text.replace(" .", ".") for text in written] == [
            f"{findings} {impression}".replace(" .", ".") for findings, impression in REPORTS
        ]
    settings = ReportGenerationSettings.model_validate(
        {"beams": 3, "length_penalty": 0, "tagger": "keywords", "intervals": {"replicates": 100}}
    )
    result = result_of("report_generation", settings, trained, model=model, pixels=store)
    assert result.metrics["bleu_2"].value == pytest.approx(1.0)
    assert result.metrics["bleu_2/other_image"].value < 0.9
    assert result.protocol["writes"] == "decoder"
    assert np.isfinite(result.metrics["label_f1_macro"].value)


# --- the recipe -----------------------------------------------------------------------------------


def test_the_recipe_has_the_published_sizes() -> None:
    models = config_of("r2gen", "paper").models
    settings = models["r2gen/r2gen"].settings
    published = R2GenSettings.model_validate({"kind": KIND, **CODE})
    assert settings.decoder == published and published.width == 512 and published.slots == 3
    assert models["r2gen/r2gen_equations"].settings.decoder == R2GenSettings(kind=KIND)
    assert settings.encoder.layers == (3, 4, 23, 3) and settings.encoder.block == "bottleneck"
    assert models["r2gen/resnet101"].settings.encoder.layers == (3, 4, 23, 3)
    training = settings.training
    rate = training.optimiser.learning_rate
    assert (rate, rate * settings.image_rate) == (1e-4, pytest.approx(5e-5))
    assert (training.epochs, training.batch_size, training.schedule.factor) == (30, 16, 0.8)
    ends = [epoch / training.epochs for epoch in range(1, training.epochs)]
    assert training.schedule.milestones == pytest.approx(ends, abs=1e-5)


def test_the_demonstration_starts_where_convirts_models_do() -> None:
    models = config_of("r2gen", "demo").models
    assert models["r2gen/r2gen"].recipe.image == "convirt/imagenet_pretraining"
    assert models["r2gen/r2gen"].settings.decoder.width == 64
    trunks = [models[name].settings for name in ("r2gen/r2gen", "convirt/imagenet_pretraining")]
    assert trunks[0].encoder == trunks[1].encoder
