"""IFCC's transformer, against its equations of one vector at a time."""

import math
from typing import Any

import pytest
import torch
from rivals import ifcc
from rivals.ifcc import (
    IfccSettings,
    MeshedMemoryTransformer,
)
from rivals.tests.test_r2gen import PIECES, Weights, affine, patches_of
from torch import Tensor, nn

from cxrflow.encoders.captioning import CaptionerConfig, build_captioner
from cxrflow.encoders.decoding import Search

KIND = "rivals.ifcc:MeshedMemoryTransformer"
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
