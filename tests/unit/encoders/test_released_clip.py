"""CLIP as published: both encoders against a transcription, its byte pairs, and what is refused."""

import gzip
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import cxrflow
from cxr_files.errors import InputError
from cxrflow.encoders.clip_resnet import DEVIATION, MEAN, AttentionPool
from cxrflow.encoders.cxr_bert import load_text_encoder
from cxrflow.encoders.image_encoder import Frames, ImageEncoder, load_image_encoder
from cxrflow.encoders.released.clip import read_clip, sizes_of
from cxrflow.encoders.released.settings import ImportSettings
from cxrflow.encoders.settings import ClipResNetSettings
from cxrflow.pretrain.imported import import_weights
from cxrflow.text.byte_pairs import byte_pair_tokenizer, read_merges
from cxrflow.text.tokenizer import VocabularyInfo, read_tokenizer
from released_files import BYTE_PAIRS, CLIP, CLIP_50, clip_shapes, write_clip

PIECES = 2 * 256 + len(BYTE_PAIRS) - 1 + 2
Weights = dict[str, Tensor]


def normed(x: Tensor, w: Weights, name: str) -> Tensor:
    """Batch normalisation by stored statistics."""
    mean, var, scale, shift = (
        w[f"{name}.{part}"][:, None, None]
        for part in ("running_mean", "running_var", "weight", "bias")
    )
    return (x - mean) / (var + 1e-5).sqrt() * scale + shift


def linear(x: Tensor, w: Weights, name: str) -> Tensor:
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def attended(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """Heads of 64 features, one after the other; [Q, D] from [Q, D], [K, D] and [K, D]."""
    contexts = []
    for first in range(0, q.shape[1], 64):
        head = slice(first, first + 64)
        scores = q[:, head] @ k[:, head].T / 8
        scores = scores if mask is None else scores + mask
        contexts.append(scores.softmax(1) @ v[:, head])
    return torch.cat(contexts, dim=1)


def image_vectors(pixels_B1HW: Tensor, w: Weights, depths: tuple[int, ...]) -> Tensor:
    """Three convolutions, pooling before strides, attention pooling, as published."""
    mean, deviation = (torch.tensor(x).double()[:, None, None] for x in (MEAN, DEVIATION))
    x = (pixels_B1HW.repeat(1, 3, 1, 1) - mean) / deviation
    for number, stride in ((1, 2), (2, 1), (3, 1)):
        x = F.conv2d(x, w[f"visual.conv{number}.weight"], stride=stride, padding=1)
        x = normed(x, w, f"visual.bn{number}").relu()
    x = F.avg_pool2d(x, 2)
    for stage, depth in enumerate(depths, start=1):
        for block in range(depth):
            name = f"visual.layer{stage}.{block}"
            stride = 2 if stage > 1 and block == 0 else 1
            out = normed(F.conv2d(x, w[f"{name}.conv1.weight"]), w, f"{name}.bn1").relu()
            out = F.conv2d(out, w[f"{name}.conv2.weight"], padding=1)
            out = F.avg_pool2d(normed(out, w, f"{name}.bn2").relu(), stride)
            out = normed(F.conv2d(out, w[f"{name}.conv3.weight"]), w, f"{name}.bn3")
            if block == 0:
                x = F.conv2d(F.avg_pool2d(x, stride), w[f"{name}.downsample.0.weight"])
                x = normed(x, w, f"{name}.downsample.1")
            x = (out + x).relu()
    pool, vectors = "visual.attnpool", []
    for cells_LC in x.flatten(2).transpose(1, 2):
        tokens = torch.cat([cells_LC.mean(0, keepdim=True), cells_LC])
        tokens = tokens + w[f"{pool}.positional_embedding"]
        q, k, v = (linear(tokens, w, f"{pool}.{part}_proj") for part in "qkv")
        vectors.append(linear(attended(q[:1], k, v)[0], w, f"{pool}.c_proj"))
    return torch.stack(vectors)


def text_vector(ids: list[int], w: Weights, layers: int) -> Tensor:
    """The published text encoder, of one text without padding."""
    x = w["token_embedding.weight"][ids] + w["positional_embedding"][: len(ids)]
    mask = torch.full((len(ids), len(ids)), -torch.inf, dtype=x.dtype).triu(1)
    width = x.shape[1:]
    for number in range(layers):
        block = f"transformer.resblocks.{number}"
        y = F.layer_norm(x, width, w[f"{block}.ln_1.weight"], w[f"{block}.ln_1.bias"])
        qkv = y @ w[f"{block}.attn.in_proj_weight"].T + w[f"{block}.attn.in_proj_bias"]
        x = x + linear(attended(*qkv.chunk(3, dim=1), mask), w, f"{block}.attn.out_proj")
        y = F.layer_norm(x, width, w[f"{block}.ln_2.weight"], w[f"{block}.ln_2.bias"])
        y = linear(y, w, f"{block}.mlp.c_fc")
        x = x + linear(y * (1.702 * y).sigmoid(), w, f"{block}.mlp.c_proj")
    last = F.layer_norm(x, width, w["ln_final.weight"], w["ln_final.bias"])[-1]
    return last @ w["text_projection"]


@pytest.fixture
def published(tmp_path: Path) -> tuple[Weights, Path]:
    """Weights in float64, tracked by gradients, and the folder they lie in."""
    weights = write_clip(tmp_path)
    tracked = {name: x.double().requires_grad_() for name, x in weights.items() if x.dim()}
    return tracked, tmp_path


def test_both_halves_are_the_published_ones_with_their_gradients(published):
    w, folder = published
    text, image = read_clip(folder / "clip_resnet_small.pt")
    text, image = text.double().eval(), image.double().eval()
    generator = torch.Generator().manual_seed(1)
    pixels = torch.rand(2, 1, 64, 64, generator=generator, dtype=torch.float64)
    first, last = PIECES - 2, PIECES - 1
    texts = [[first, 7, 300, 12, last], [first, *range(75), last], [first, last]]
    ids = torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(one) for one in texts], batch_first=True, padding_value=PIECES
    )
    mask = (ids != PIECES).long()

    images = image_vectors(pixels, w, CLIP["depths"])
    vectors = torch.stack([text_vector(one, w, CLIP["layers"]) for one in texts])
    ours_images = image.encoder(Frames(pixels)).pooled
    ours_vectors = text.project(text.hidden_states(ids, mask), mask)
    torch.testing.assert_close(ours_images, images, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(ours_vectors, vectors, rtol=1e-9, atol=1e-9)
    projected = image(Frames(pixels)).projected_global
    torch.testing.assert_close(projected, F.normalize(images.float()), rtol=1e-5, atol=1e-6)

    for one, other in ((ours_images, ours_vectors), (images, vectors)):
        (one.square().sum() + other.sin().sum()).backward()
    ours = {name: p.grad for name, p in image.named_parameters()}
    for name in ("conv1.weight", "layer2.0.downsample.0.weight", "attnpool.v_proj.weight"):
        torch.testing.assert_close(ours[f"encoder.{name}"], w[f"visual.{name}"].grad)
    torch.testing.assert_close(
        ours["encoder.attnpool.positional_embedding"],
        w["visual.attnpool.positional_embedding"].grad,
    )
    words = text.bert.embeddings.word_embeddings.weight.grad
    torch.testing.assert_close(words[:PIECES], w["token_embedding.weight"].grad)
    layer = text.bert.encoder.layer[0]
    block = w["transformer.resblocks.0.attn.in_proj_weight"]
    torch.testing.assert_close(layer.attn.in_proj_weight.grad, block.grad)
    matrix = text.cls_projection_head.dense_to_output.weight.grad
    torch.testing.assert_close(matrix.T, w["text_projection"].grad)


def test_the_published_resnet_50_has_these_names_and_sizes(tmp_path):
    shapes = clip_shapes(CLIP_50, pieces=49_408)
    weights = {name: torch.empty(shape, device="meta") for name, shape in shapes.items()}
    sizes, settings = sizes_of(weights, tmp_path)
    assert settings == ClipResNetSettings()
    assert (sizes.num_hidden_layers, sizes.hidden_size, sizes.num_attention_heads) == (12, 512, 8)
    assert (sizes.vocab_size, sizes.max_position_embeddings) == (49_411, 77)
    assert sizes.projection_size == 1024
    with torch.device("meta"):
        image = ImageEncoder(settings).state_dict()
    published = {name: shape for name, shape in shapes.items() if name.startswith("visual.")}
    names = {name.replace("encoder.", "visual.", 1): x for name, x in image.items()}
    assert {name: tuple(x.shape) for name, x in names.items()} == published


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"visual.attnpool.c_proj.bias": None}, "encoder.attnpool.c_proj.bias is missing"),
        ({"visual.fc.weight": torch.zeros(2, 2)}, "visual.fc.weight|encoder.fc.weight"),
        ({"logit_scale": None}, "logit_scale is missing"),
        ({"token_embedding.weight": torch.zeros(3)}, "token_embedding.weight has shape"),
        ({"ln_final.bias": torch.zeros(5)}, r"bert.final.bias has shape \[5\], expected \[128\]"),
        ({"ln_final.bias": torch.full((128,), torch.nan)}, "128 of 128 numbers"),
    ],
)
def test_another_state_dict_is_refused_by_name(tmp_path, change, problem):
    weights = write_clip(tmp_path) | change
    path = tmp_path / "clip_resnet_small.pt"
    torch.save({name: x for name, x in weights.items() if x is not None}, path)
    with pytest.raises(InputError, match=problem) as error:
        read_clip(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_positions_are_resized_to_the_grid(published):
    _, folder = published
    pool = read_clip(folder / "clip_resnet_small.pt")[1].encoder.attnpool
    assert pool.positions(2, 2) is pool.positional_embedding
    resized = pool.positions(4, 6)
    assert resized.shape == (25, pool.positional_embedding.shape[1])
    assert torch.equal(resized[0], pool.positional_embedding[0])
    with torch.no_grad():
        pool.positional_embedding.copy_(torch.arange(5.0)[:, None].clamp(max=1))
    assert torch.allclose(pool.positions(5, 3)[1:], torch.ones(15, 1))


def test_a_gpu_resizes_positions_by_products_alike(monkeypatch):
    """Its own filter has no gradient that repeats itself, which ``deterministic`` refuses."""
    torch.manual_seed(0)
    pool = AttentionPool(7, 64, 8)
    for size in ((16, 16), (5, 9), (3, 7)):
        weights, results = torch.randn(1 + size[0] * size[1], 64), []
        for on_gpu in (False, True):
            pool.zero_grad()
            with monkeypatch.context() as patched:
                if on_gpu:
                    patched.setattr(torch.Tensor, "is_cuda", True)
                positions = pool.positions(*size)
            names = {type(step).__name__ for step in steps_of(positions)}
            assert any("Upsample" in name for name in names) != on_gpu
            (positions * weights).sum().backward()
            results.append((positions.detach(), pool.positional_embedding.grad))
        torch.testing.assert_close(*results, rtol=1e-5, atol=1e-5)


def steps_of(tensor):
    """Every step of the computation of a tensor."""
    waiting = [tensor.grad_fn]
    while waiting:
        step = waiting.pop()
        waiting += [before for before, _ in step.next_functions if before is not None]
        yield step


def test_an_imported_folder_embeds_texts_of_any_batch_alike(tmp_path):
    write_clip(tmp_path / "clip")
    import_weights(
        "clip",
        *(tmp_path / "clip", None, ImportSettings(geometry="square64")),
        *("mine/clip", 0, tmp_path / "model"),
    )
    model = cxrflow.load(tmp_path / "model")
    assert "text: CLIP of 2 layers" in repr(model)
    texts = ["no", "Left effusion -- no effusion", "left"]
    together = model.encode_text(texts)
    alone = torch.cat([model.encode_text([text]) for text in texts])
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-6)
    assert model.similarities(torch.rand(2, 1, 96, 64), texts).shape == (2, 3)
    with pytest.raises(InputError, match="the encoder takes 77"):
        model.encode_text(["x y " * 50])
    text = load_text_encoder(tmp_path / "model")
    text.set_dropout(0, 0)
    with pytest.raises(InputError, match="'dropout' and 'attention_dropout' are 0.1 and 0"):
        text.set_dropout(0.1, 0)
    with pytest.raises(InputError, match="expected no term mlm"):
        text.predict_tokens(torch.zeros(1, 2, 128), torch.tensor([0]))
    assert load_image_encoder(tmp_path / "model").settings.kind == "clip_resnet"
    assert read_tokenizer(tmp_path / "model").encode("no").tokens == ["[CLS]", "no</w>", "[SEP]"]


def test_a_folder_without_its_byte_pairs_is_refused(tmp_path):
    write_clip(tmp_path)
    (tmp_path / "bpe_simple_vocab_16e6.txt.gz").unlink()
    with pytest.raises(InputError, match=r"bpe_simple_vocab_16e6.txt.gz: file not found"):
        import_weights(
            "clip", tmp_path, None, ImportSettings(geometry="square64"), "m", 0, tmp_path / "out"
        )


def joined(word: str, ranks: dict[tuple[str, str], int]) -> list[str]:
    """Byte pairs as defined: the pair of the lowest rank is joined everywhere, until none is."""
    pieces = [*word[:-1], word[-1] + "</w>"]
    while True:
        pairs = [pair for pair in zip(pieces, pieces[1:], strict=False) if pair in ranks]
        if not pairs:
            return pieces
        left, right = min(pairs, key=lambda pair: ranks[pair])
        place = 0
        while place < len(pieces) - 1:
            if (pieces[place], pieces[place + 1]) == (left, right):
                pieces[place : place + 2] = [left + right]
            place += 1


def test_words_are_joined_pair_by_pair(tmp_path):
    write_clip(tmp_path)
    merges = read_merges(tmp_path / "bpe_simple_vocab_16e6.txt.gz")
    tokenizer = byte_pair_tokenizer(merges, "test")
    ranks = {pair: number for number, pair in enumerate(merges)}
    text = "NO  effusion,\n left-sided 12 -- né"
    cut = ["no", "effusion", ",", "left", "-", "sided", "1", "2", "--", "nÃ©"]
    pieces = [piece for word in cut for piece in joined(word, ranks)]
    assert tokenizer.encode(text).tokens == ["[CLS]", *pieces, "[SEP]"]
    assert "left</w>" in pieces and "effu" in pieces and "no</w>" in pieces
    info = VocabularyInfo.from_tokenizer(tokenizer)
    assert (info.cls_, info.sep, info.pad) == (PIECES - 2, PIECES - 1, PIECES)
    assert info.pieces[:2] == ("!", '"') and info.pieces[256] == "!</w>"


@pytest.mark.parametrize("lines", ["#\na b c\n", "#\nq\n", "#\nzz yy\n"])
def test_a_damaged_file_of_byte_pairs_is_named(tmp_path, lines):
    path = tmp_path / "bpe_simple_vocab_16e6.txt.gz"
    path.write_bytes(gzip.compress(lines.encode()))
    with pytest.raises(InputError, match=r"line 2 is|no vocabulary of byte pairs") as error:
        byte_pair_tokenizer(read_merges(path), str(path))
    assert str(path) in str(error.value)
    damaged = bytearray(gzip.compress(lines.encode() * 50))
    damaged[15] ^= 0xFF
    for content in (b"no gzip", bytes(damaged), bytes(damaged[:-9])):
        path.write_bytes(content)
        with pytest.raises(InputError, match="not a gzip file"):
            read_merges(path)
