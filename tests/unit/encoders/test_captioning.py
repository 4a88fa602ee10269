"""Captioners against their papers' equations in float64, their searches against plain loops."""

import math
import sys

import pytest
import torch
from literal import identical
from pydantic import ValidationError
from torch import Tensor, nn

from cxr_files.errors import InputError
from cxrflow.encoders.captioning import (
    Caption,
    Captioner,
    CaptionerConfig,
    build_captioner,
    load_captioner,
    patches_of,
    save_captioner,
)
from cxrflow.encoders.captioning_lstm import Decoder as LstmCaptioner
from cxrflow.encoders.decoding import Search
from cxrflow.encoders.image_encoder import Frames, build_trunk
from cxrflow.encoders.settings import (
    LstmCaptioningSettings,
    ResNetSettings,
    TransformerCaptioningSettings,
)
from cxrflow.objectives.doubly_stochastic import doubly_stochastic
from cxrflow.pretrain.caption import start_captioner
from cxrflow.pretrain.settings import CaptionTrainingSettings

LSTM = LstmCaptioningSettings(width=12, report_length=30)
TRANSFORMER = TransformerCaptioningSettings(
    layers=2, width=12, heads=3, feed_forward=20, memory=4, report_length=30
)
FEATURES, PATCHES, PIECES, IMAGES = 7, 5, 40, 6
Weights = dict[str, Tensor]


def captioner(settings: LstmCaptioningSettings | TransformerCaptioningSettings) -> Captioner:
    torch.manual_seed(0)
    sizes = {"features": FEATURES, "vocab_size": PIECES, "vocabulary": "pieces"}
    made = build_captioner(CaptionerConfig(captioning=settings, **sizes))
    for parameter in made.parameters():  # as drawn, biases are zero
        nn.init.normal_(parameter, std=0.5)
    return made.eval()


def texts() -> tuple[Tensor, Tensor, Tensor]:
    """Padded ids, patches, and flat places of all tokens but each text's last."""
    torch.manual_seed(1)
    lengths = [8, 3, 6]
    ids = torch.zeros(3, 8, dtype=torch.long)
    for row, length in enumerate(lengths):
        ids[row, :length] = torch.randint(1, PIECES, (length,))
    places = [row * 8 + place for row, length in enumerate(lengths) for place in range(length - 1)]
    return ids, torch.randn(3, PATCHES, FEATURES), torch.tensor(places)


def affine(w: Weights, name: str, x: Tensor) -> Tensor:
    product = w[f"{name}.weight"] @ x
    return product + w[f"{name}.bias"] if f"{name}.bias" in w else product


def lstm_of_the_paper(w: Weights, ids: list[int], patches: Tensor) -> tuple[Tensor, Tensor]:
    """Logits after each token of a text, and alpha (Xu et al. 2015, Eq. 1 to 7)."""
    mean = sum(patches) / len(patches)
    c, h = (torch.tanh(affine(w, f"first_{name}", mean)) for name in ("memory", "hidden"))
    logits, alphas = [], []
    for token in ids:
        word = w["words.weight"][token]
        looked = (
            affine(w, "attention_patch", a) + affine(w, "attention_hidden", h) for a in patches
        )
        e = [affine(w, "attention", torch.tanh(one)) for one in looked]
        total = sum(torch.exp(one) for one in e)
        alpha = torch.cat([torch.exp(one) / total for one in e])
        beta = 1 / (1 + torch.exp(-affine(w, "gate", h)))
        z = beta * sum(weight * a for weight, a in zip(alpha, patches, strict=True))
        gates = w["lstm.weight_ih"] @ torch.cat([word, z]) + w["lstm.bias_ih"]
        gates = gates + w["lstm.weight_hh"] @ h + w["lstm.bias_hh"]
        i, f, g, o = gates.chunk(4)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        out = word + w["of_hidden.weight"] @ h + w["of_context.weight"] @ z
        logits.append(affine(w, "cls", out))
        alphas.append(alpha)
    return torch.stack(logits), torch.stack(alphas)


def attention_of(
    w: Weights, name: str, query: Tensor, states: list[Tensor], memory=False
) -> Tensor:
    """One query over states and, with ``memory``, its slots; head by head."""
    q = affine(w, f"{name}.query", query)
    keys = [affine(w, f"{name}.key", one) for one in states]
    values = [affine(w, f"{name}.value", one) for one in states]
    if memory:
        keys += list(w[f"{name}.memory_key"])
        values += list(w[f"{name}.memory_value"])
    heads, width = TRANSFORMER.heads, TRANSFORMER.width // TRANSFORMER.heads
    parts = []
    for head in range(heads):
        own = slice(head * width, (head + 1) * width)
        scores = [torch.exp(q[own] @ key[own] / math.sqrt(width)) for key in keys]
        sums = (score * value[own] for score, value in zip(scores, values, strict=True))
        parts.append(sum(sums) / sum(scores))
    return affine(w, f"{name}.out", torch.cat(parts))


def normed(w: Weights, name: str, x: Tensor) -> Tensor:
    centred = x - x.mean()
    scaled = centred / torch.sqrt((centred**2).mean() + 1e-5)
    return scaled * w[f"{name}.weight"] + w[f"{name}.bias"]


def fed_forward(w: Weights, name: str, x: Tensor) -> Tensor:
    """A layer's second half: two linear maps, added to what they take, and normalised."""
    inner = affine(w, f"{name}.feed_forward.0", x).clamp(min=0)
    added = x + affine(w, f"{name}.feed_forward.3", inner)
    return normed(w, f"{name}.after_feed_forward.norm", added)


def transformer_of_the_paper(w: Weights, ids: list[int], patches: Tensor) -> Tensor:
    """Logits after each token of a text (Cornia et al. 2020, Eq. 1 to 9)."""
    xs = [normed(w, "patches.3", affine(w, "patches.0", one).clamp(min=0)) for one in patches]
    levels = []
    for number in range(TRANSFORMER.layers):
        name = f"encoder.{number}"
        added = [x + attention_of(w, f"{name}.attention", x, xs, True) for x in xs]
        zs = [normed(w, f"{name}.after_attention.norm", one) for one in added]
        xs = [fed_forward(w, name, z) for z in zs]
        levels.append(xs)
    width, ys = TRANSFORMER.width, []
    for place, token in enumerate(ids, 1):
        wave = [
            (math.cos if i % 2 else math.sin)(place / 10000 ** (2 * (i // 2) / width))
            for i in range(width)
        ]
        ys.append(w["words.weight"][token] + torch.tensor(wave, dtype=torch.float64))
    for number in range(TRANSFORMER.layers):
        name, after = f"layers.{number}", []
        for t, y in enumerate(ys):
            own = attention_of(w, f"{name}.own", y, ys[: t + 1])
            y = normed(w, f"{name}.after_own.norm", y + own)
            mesh = torch.zeros(width, dtype=torch.float64)
            for level, states in enumerate(levels):
                c = attention_of(w, f"{name}.cross", y, states)
                alpha = torch.sigmoid(affine(w, f"{name}.gates.{level}", torch.cat([y, c])))
                mesh = mesh + alpha * c
            after.append(fed_forward(w, name, normed(w, f"{name}.after_mesh.norm", y + mesh)))
        ys = after
    return torch.stack([w["cls.weight"] @ y for y in ys])


@pytest.mark.parametrize("settings", [LSTM, TRANSFORMER], ids=lambda one: one.kind)
def test_computes_the_equations_of_its_paper(settings):
    ours = captioner(settings).double()
    ids, patches, places = texts()
    patches = patches.double().requires_grad_()
    direction = torch.randn(len(places), PIECES, dtype=torch.float64)
    looked = torch.randn(3, PATCHES, dtype=torch.float64)
    found = ours(ids, patches, places)
    scalar = (found.logits * direction).sum()
    if found.attended is not None:
        scalar = scalar + (found.attended * looked).sum()
    inputs = [patches, *ours.parameters()]
    gradients = torch.autograd.grad(scalar, inputs)

    weights: Weights = dict(ours.named_parameters())
    wanted, logits, begin = torch.zeros((), dtype=torch.float64), [], 0
    for row, length in enumerate((7, 2, 5)):
        one = ids[row, :length].tolist()
        if settings.kind == "captioning_lstm":
            told, alpha = lstm_of_the_paper(weights, one, patches[row])
            assert found.attended is not None
            torch.testing.assert_close(found.attended[row], alpha.sum(0))
            wanted = wanted + (alpha.sum(0) * looked[row]).sum()
        else:
            told = transformer_of_the_paper(weights, one, patches[row])
        wanted = wanted + (told * direction[begin : begin + length]).sum()
        logits.append(told)
        begin += length
    torch.testing.assert_close(found.logits, torch.cat(logits))
    torch.testing.assert_close(gradients, torch.autograd.grad(wanted, inputs))


def log_probabilities(ours: Captioner, ids: list[int], patches: Tensor) -> Tensor:
    """Of the token after a text that is read anew from its beginning."""
    with torch.no_grad():
        found = ours(torch.tensor([ids]), patches, torch.tensor([len(ids) - 1]))
    return found.logits[0].log_softmax(dim=0)


def literal_beams(ours: Captioner, patches: Tensor, search: Search) -> list[int]:
    """Beam search over whole texts, as transformers' ``generate`` decides."""
    running, finished = [(0.0, [2])], []
    for step in range(1, search.longest + 1):
        options = sorted(
            (
                (score + log, [*ids, token])
                for score, ids in running
                for token, log in enumerate(log_probabilities(ours, ids, patches).tolist())
            ),
            key=lambda one: -one[0],
        )[: 2 * search.beams]
        ended = step == search.longest
        for score, ids in options[: search.beams]:
            if ended or ids[-1] == search.end:
                finished.append((score / step**search.length_penalty, ids))
        finished = sorted(finished, key=lambda one: -one[0])[: search.beams]
        running = [one for one in options if one[1][-1] != search.end][: search.beams]
        full = len(finished) == search.beams
        if full and running[0][0] / step**search.length_penalty <= finished[-1][0]:
            break
    best = finished[0][1][1:]
    return best[: best.index(search.end)] if search.end in best else best


@pytest.mark.parametrize("settings", [LSTM, TRANSFORMER], ids=lambda one: one.kind)
@pytest.mark.parametrize(("beams", "penalty"), [(1, 1.0), (5, 1.0), (3, 0.0)])
def test_writes_what_a_loop_over_whole_texts_writes(settings, beams, penalty):
    ours = captioner(settings).double()
    for norm in (one for one in ours.modules() if isinstance(one, nn.LayerNorm)):
        norm.reset_parameters()
    # As drawn, a few tokens are the likeliest everywhere.
    ours.cls.weight.data = 3 * nn.functional.normalize(ours.cls.weight.data)
    torch.manual_seed(2)
    patches = 3 * torch.randn(IMAGES, PATCHES, FEATURES, dtype=torch.float64)
    endless = ours.write([[2]] * IMAGES, patches, Search(12, -1))
    lengths = [{row.index(token) for row in endless if token in row} for token in range(PIECES)]
    end = max(range(PIECES), key=lambda token: len(lengths[token]))
    search = Search(12, end, beams, penalty)
    written = ours.write([[2]] * IMAGES, patches, search)
    assert len({len(one) for one in written}) >= (3 if beams == 1 else 2)  # not all end
    for row, ids in enumerate(written):
        if beams > 1:
            assert ids == literal_beams(ours, patches[row : row + 1], search)
            continue
        greedy = [2]
        while len(greedy) <= 12 and (greedy[-1] != end or len(greedy) == 1):
            greedy.append(int(log_probabilities(ours, greedy, patches[row : row + 1]).argmax()))
        assert ids == [token for token in greedy[1:] if token != end]


@pytest.mark.parametrize("settings", [LSTM, TRANSFORMER], ids=lambda one: one.kind)
def test_a_saved_captioner_is_the_same(settings, tmp_path):
    ours = captioner(settings)
    save_captioner(ours, tmp_path)
    again = load_captioner(tmp_path)
    assert again.config == ours.config and type(again) is type(ours)
    identical(again.state_dict(), ours.state_dict())


class OwnSettings(LstmCaptioningSettings):
    """Of code outside of the package."""

    kind: str  # type: ignore[assignment]


class Own(LstmCaptioner):
    """A captioner outside of the package; its module is this one."""

    settings: OwnSettings  # type: ignore[assignment]


def test_a_captioner_may_start_from_another_of_its_sizes(tmp_path) -> None:
    save_captioner(captioner(TRANSFORMER), tmp_path)
    torch.manual_seed(9)
    sizes = {"features": FEATURES, "vocab_size": PIECES, "vocabulary": "pieces"}
    fresh = build_captioner(CaptionerConfig(captioning=TRANSFORMER, **sizes))
    start_captioner(fresh, tmp_path)
    identical(fresh.state_dict(), captioner(TRANSFORMER).state_dict())
    other = build_captioner(CaptionerConfig(captioning=TRANSFORMER, **{**sizes, "features": 9}))
    with pytest.raises(InputError, match="config.json: key 'features' is 7; expected 9"):
        start_captioner(other, tmp_path)
    with pytest.raises(InputError, match="'decoder_start' is 'image', but there is no --image"):
        start_captioner(fresh, None)
    with pytest.raises(InputError, match="config.json"):
        start_captioner(fresh, tmp_path / "nothing")


def test_a_captioner_of_ones_own_is_read_where_it_is_trusted(tmp_path, monkeypatch):
    common = {"augmentation": {}, "training": {"steps": 1}, "terms": {"report_likelihood": {}}}
    decoder = {"kind": f"{__name__}:Own", "width": 12, "report_length": 30}
    chosen = CaptionTrainingSettings.model_validate({**common, "decoder": decoder}).decoder
    assert isinstance(chosen, OwnSettings) and chosen.module == decoder["kind"]
    ours = captioner(chosen)
    save_captioner(ours, tmp_path)
    again = load_captioner(tmp_path)
    assert type(again) is Own and again.config == ours.config
    wrong = {**decoder, "kind": f"{__name__}:OwnSettings"}
    with pytest.raises(ValidationError, match=r"expected a subclass of .*captioning\.Captioner"):
        CaptionTrainingSettings.model_validate({**common, "decoder": wrong})
    monkeypatch.delitem(sys.modules, __name__)
    with pytest.raises(InputError, match="is code outside of cxrflow; if you trust it"):
        load_captioner(tmp_path)


def test_initial_memory_weighs_as_in_the_published_code() -> None:
    torch.manual_seed(0)
    settings = TransformerCaptioningSettings()
    config = CaptionerConfig(captioning=settings, features=8, vocab_size=9, vocabulary="")
    weights = build_captioner(config).state_dict()
    key, value = (weights[f"encoder.0.attention.memory_{name}"] for name in ("key", "value"))
    assert key.shape == value.shape == (40, 512)
    # sqrt(d_k) N(0, 1/d_k) and sqrt(m) N(0, 1/m), standard deviations in that code.
    assert float(key.std()) == pytest.approx(64**-0.5, rel=0.05)
    assert float(value.std()) == pytest.approx(40**-0.5, rel=0.05)


def test_doubly_stochastic_attention_is_that_of_the_equation() -> None:
    """Second part of Eq. 14, of four images in two shares of a batch."""
    torch.manual_seed(0)
    attended = torch.rand(4, PATCHES).requires_grad_()
    loss = doubly_stochastic(attended[:1], 4) + doubly_stochastic(attended[1:], 4)
    loss.backward()
    told = attended.detach().double().tolist()
    wanted = math.fsum((1 - one) ** 2 for row in told for one in row) / (4 * PATCHES)
    assert float(loss.detach()) == pytest.approx(wanted, rel=1e-6)
    assert attended.grad is not None
    assert float(attended.grad[2, 3]) == pytest.approx(-2 * (1 - told[2][3]) / (4 * PATCHES))


def test_only_soft_attention_is_made_doubly_stochastic() -> None:
    common = {"augmentation": {}, "training": {"steps": 1}}
    both = {"report_likelihood": {}, "doubly_stochastic": {}}
    lstm, transformer = {"kind": "captioning_lstm"}, {"kind": "captioning_transformer"}
    CaptionTrainingSettings.model_validate({**common, "decoder": lstm, "terms": both})
    with pytest.raises(ValidationError, match=r"doubly_stochastic is set, but decoder\.kind is"):
        CaptionTrainingSettings.model_validate({**common, "decoder": transformer, "terms": both})
    without = {"doubly_stochastic": {}}
    with pytest.raises(ValidationError, match="lacks report_likelihood"):
        CaptionTrainingSettings.model_validate({**common, "decoder": lstm, "terms": without})


@pytest.mark.parametrize("kind", [LSTM, TRANSFORMER], ids=lambda one: one.kind)
def test_trunk_and_captioner_learn_to_say_where_a_spot_is(kind):
    """A word in the middle of a text of noise is the side of a bright square."""
    sizes = ResNetSettings(block="basic", layers=(1, 1, 1, 1), width=8, channels=1)
    torch.manual_seed(0)
    trunk = build_trunk(sizes)
    wide = {"captioning": kind.model_copy(update={"width": 30}), "features": trunk.features}
    ours = build_captioner(CaptionerConfig(**wide, vocab_size=20, vocabulary=""))
    optimiser = torch.optim.Adam([*trunk.parameters(), *ours.parameters()], lr=3e-3)

    def drawn() -> tuple[Tensor, Tensor]:
        side, pixels = torch.randint(0, 2, (32,)), 0.3 * torch.rand(32, 1, 64, 64)
        for image, right in enumerate(side.tolist()):
            top, left = int(torch.randint(4, 50, ())), int(torch.randint(0, 20, ())) + 32 * right
            pixels[image, 0, top : top + 10, left : left + 10] += 0.6
        parts = (torch.full((32, 1), 2), torch.randint(7, 20, (32, 4)), 5 + side[:, None])
        return pixels, torch.cat([*parts, torch.full((32, 1), 3)], dim=1)

    def answers(pixels: Tensor, ids: Tensor) -> Caption:
        places = torch.arange(ids.numel()).view_as(ids)[:, :-1].flatten()
        return ours(ids, patches_of(trunk(Frames(pixels)).grid), places)

    for _ in range(80):
        pixels, ids = drawn()
        told = answers(pixels, ids)
        loss = nn.functional.cross_entropy(told.logits, ids[:, 1:].flatten())
        if told.attended is not None:
            loss = loss + doubly_stochastic(told.attended, len(ids))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    ours.eval()
    trunk.eval()
    pixels, ids = drawn()
    logits = answers(pixels, ids).logits.view(32, 6, -1)
    assert float((logits[:, 4].argmax(1) == ids[:, 5]).float().mean()) > 0.9
