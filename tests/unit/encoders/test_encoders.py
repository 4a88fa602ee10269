"""Encoders against independent implementations, their folders, and batch normalisation folded."""

import ast
import json
from pathlib import Path

import pytest
import torch
from literal import identical
from pydantic import ValidationError
from speed.text_steps import in_transformers
from torch import nn
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    BertConfig,
    BertForMaskedLM,
    ResNetConfig,
    ResNetModel,
)

from cxr_files.errors import InputError
from cxrflow.commands.export import export
from cxrflow.encoders.bert import BertConfig as OurConfig
from cxrflow.encoders.cxr_bert import CXRBert, load_text_encoder, save_text_encoder, text_projection
from cxrflow.encoders.image_encoder import (
    Frames,
    ImageEncoder,
    load_image_encoder,
    save_image_encoder,
)
from cxrflow.encoders.inference import folded
from cxrflow.encoders.resnet import ResNet
from cxrflow.encoders.settings import ResNetSettings, TextEncoderSettings
from cxrflow.programs.source_code import source_files

SMALL_TEXT = TextEncoderSettings(
    layers=2, width=32, heads=4, feed_forward=64, positions=40, projection=16
)
SMALL_IMAGE = ResNetSettings(
    block="basic",
    layers=(1, 1, 1, 1),
    width=8,
    channels=1,
    dilate=(False, True, True),
    projection=16,
)


def text_encoder(seed: int = 0) -> CXRBert:
    torch.manual_seed(seed)
    return CXRBert.build(SMALL_TEXT, vocabulary_size=50, pad_id=0).eval()


class Reference(BertForMaskedLM):
    """Our encoder as transformers would build it."""

    def __init__(self, sizes: OurConfig) -> None:
        super().__init__(BertConfig(**sizes.model_dump()))
        self.cls_projection_head = text_projection(sizes)
        self.post_init()


@pytest.mark.parametrize(
    "sizes", [SMALL_TEXT, SMALL_TEXT.model_copy(update={"layers": 3, "width": 48, "heads": 2})]
)
def test_initial_weights_are_those_that_transformers_draws(sizes: TextEncoderSettings) -> None:
    torch.manual_seed(3)
    ours, state = CXRBert.build(sizes, vocabulary_size=50, pad_id=4), torch.get_rng_state()
    torch.manual_seed(3)
    theirs = Reference(ours.config)
    assert torch.equal(state, torch.get_rng_state())
    for one, other in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        assert one[0] == other[0] and torch.equal(one[1], other[1]), one[0]


def reference_names(ours: str) -> str:
    """Name of one of our ResNet-50's parameters in transformers' implementation."""
    part = ours.split(".")
    if part[0] in ("conv1", "bn1"):
        kind = "convolution" if part[0] == "conv1" else "normalization"
        return f"embedder.embedder.{kind}.{part[1]}"
    stage, block = int(part[0].removeprefix("layer")) - 1, part[1]
    prefix = f"encoder.stages.{stage}.layers.{block}"
    if part[2] == "downsample":
        kind = "convolution" if part[3] == "0" else "normalization"
        return f"{prefix}.shortcut.{kind}.{part[4]}"
    number = int(part[2][-1]) - 1
    kind = "convolution" if part[2].startswith("conv") else "normalization"
    return f"{prefix}.layer.{number}.{kind}.{part[3]}"


def test_resnet_50_equals_transformers() -> None:
    torch.manual_seed(0)
    ours = ResNet(ResNetSettings()).eval()
    reference = ResNetModel(ResNetConfig()).eval()
    for module in ours.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.running_mean, -0.1, 0.1)
            torch.nn.init.uniform_(module.running_var, 0.5, 1.5)
    renamed = {reference_names(name): value for name, value in ours.state_dict().items()}
    reference.load_state_dict(renamed)
    images = torch.rand(1, 3, 64, 64)
    with torch.no_grad():
        wanted = reference(images).last_hidden_state
        torch.testing.assert_close(ours(images), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["imagenet", "half"])
def test_pixels_are_normalised_before_the_trunk(name: str) -> None:
    sizes = {"layers": (1, 1, 1, 1), "width": 8, "normalisation": name}
    encoder = ImageEncoder(ResNetSettings(**sizes)).eval()
    pixels, seen = torch.rand(2, 1, 32, 32), []
    encoder.encoder.encoder.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    encoder(Frames(pixels))
    colours = {"imagenet": ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])}
    mean, deviation = colours.get(name, ([0.5] * 3, [0.5] * 3))
    for channel in range(3):
        expected = (pixels[:, 0] - mean[channel]) / deviation[channel]
        torch.testing.assert_close(seen[0][:, channel], expected)
    with pytest.raises(ValidationError, match="imagenet needs channels 3"):
        ResNetSettings(channels=1, normalisation="imagenet")


def test_global_embedding_is_the_normalised_mean_of_projected_patches() -> None:
    torch.manual_seed(0)
    encoder = ImageEncoder(SMALL_IMAGE).eval()
    images = torch.rand(3, 1, 64, 64)
    with torch.no_grad():
        output = encoder(Frames(images))
        projected = encoder.projector.model(encoder.encoder(Frames(images)).grid)
    assert output.projected_patches.shape == (3, 8, 8, 16)
    mean = projected.mean((2, 3))
    torch.testing.assert_close(output.projected_global, mean / mean.norm(dim=1, keepdim=True))
    norms = output.projected_patches.norm(dim=3)
    torch.testing.assert_close(norms, torch.ones_like(norms))


@pytest.mark.parametrize(("kind", "hidden"), [("mlp", 7), ("mlp", None), ("linear", None)])
def test_projection_heads_of_convirt(kind: str, hidden: int | None, tmp_path: Path) -> None:
    """After pooling, ReLU and no normalisation (its section 2.2); kept with the weights."""
    head = {"projection_head": {"kind": kind, "hidden": hidden}}
    image = ImageEncoder(ResNetSettings(**SMALL_IMAGE.model_dump() | head)).eval()
    text = CXRBert.build(TextEncoderSettings(**SMALL_TEXT.model_dump() | head), 50, 0).eval()
    frames, hidden_BLD = Frames(torch.rand(3, 1, 64, 64)), torch.randn(2, 5, 32)
    layers = {64: image.projector.model[::2], 32: list(text.cls_projection_head.children())}

    def literal(features: torch.Tensor) -> torch.Tensor:
        *inner, last = layers[features.shape[-1]]
        for layer in inner:
            features = torch.clamp(features @ layer.weight.T + layer.bias, min=0)
        return features @ last.weight.T + last.bias

    if kind == "mlp":
        assert [layers[width][0].out_features for width in (64, 32)] == [hidden or 64, hidden or 32]
    output, patches = image(frames), image.encoder(frames)
    whole = literal(patches.grid.mean((2, 3)))
    torch.testing.assert_close(output.projected_global, whole / whole.norm(dim=1, keepdim=True))
    cells = literal(patches.grid.permute(0, 2, 3, 1))
    torch.testing.assert_close(output.unnormalised_patches, cells)
    torch.testing.assert_close(text.project(hidden_BLD), literal(hidden_BLD[:, 0]))
    save_image_encoder(image, tmp_path)
    save_text_encoder(text, tmp_path)
    assert torch.equal(load_image_encoder(tmp_path).eval()(frames)[0], output[0])
    again = load_text_encoder(tmp_path)
    assert again.config == text.config
    assert torch.equal(again.project(hidden_BLD), text.project(hidden_BLD))
    with pytest.raises(InputError, match=f"projection of kind {kind}; beside a ResNet only biovil"):
        export(tmp_path, tmp_path / "out")


def test_a_folder_that_says_nothing_of_its_head_or_trunk_is_biovils(tmp_path: Path) -> None:
    save_image_encoder(ImageEncoder(SMALL_IMAGE), tmp_path)
    save_text_encoder(text_encoder(), tmp_path)
    for config in (tmp_path / "config.json", tmp_path / "image" / "config.json"):
        values = json.loads(config.read_text())
        older = {"projection_head", "kind", "text_pooling"}
        config.write_text(json.dumps({k: v for k, v in values.items() if k not in older}))
    assert load_image_encoder(tmp_path).settings == SMALL_IMAGE
    assert load_text_encoder(tmp_path).config == text_encoder().config


def test_no_program_with_our_encoders_imports_transformers() -> None:
    """Its model classes cost a job four seconds, its tokenizers one."""
    programs = ("pretrain.text", "pretrain.joint", "pretrain.imported", "commands.ground")
    for path in source_files(*programs):
        if path.suffix == ".py":
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    assert "transformers" not in ast.unparse(node), path


@pytest.mark.parametrize("mask_on", ["left", "right", "holes"])
def test_states_and_gradients_equal_transformers(mask_on: str) -> None:
    """Lengths on both sides of the attention groups' borders, one sequence without padding."""
    torch.manual_seed(1)
    longer = SMALL_TEXT.model_copy(update={"positions": 80})
    text = CXRBert.build(longer, vocabulary_size=50, pad_id=0).train()
    text.set_dropout(0.0, 0.0)
    lengths = torch.tensor([80, 1, 33, 32, 31, 65, 32, 64])
    mask = torch.arange(80) < lengths[:, None]
    if mask_on == "left":
        mask = mask.flip(1)
    if mask_on == "holes":
        mask = torch.rand(8, 80) < 0.4
    ids = torch.randint(5, 50, (8, 80))
    direction = torch.randn(int(mask.sum()), 32)
    plain = in_transformers(text)
    found = []
    for model, states in (
        (text, text.hidden_states(ids, mask.long())),
        (plain, plain.bert(input_ids=ids, attention_mask=mask.long()).last_hidden_state),
    ):
        (states[mask] * direction).sum().backward()
        found.append([states[mask].detach(), *(part.grad for part in model.bert.parameters())])
    ours, theirs = found
    assert len(ours) == len(theirs) == 6 + 2 * 16
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_packed_documents_do_not_see_each_other() -> None:
    text = text_encoder()
    plain = in_transformers(text).bert
    first, second, third = torch.arange(5, 12), torch.arange(20, 25), torch.arange(30, 46)
    document = torch.tensor([[0] * 7 + [1] * 5 + [-1] * 4, [0] * 16])
    ids = torch.stack([torch.cat([first, second, torch.zeros(4, dtype=torch.long)]), third])
    position = torch.cat([torch.arange(7), torch.arange(5), torch.zeros(4, dtype=torch.long)])
    with torch.no_grad():
        packed = text.packed_states(ids, document, torch.stack([position, torch.arange(16)]))
        for part, row, begin in ((first, 0, 0), (second, 0, 7), (third, 1, 0)):
            alone = plain(input_ids=part[None]).last_hidden_state[0]
            torch.testing.assert_close(packed[row, begin : begin + len(part)], alone)
    assert not packed[0, 12:].any()


def test_attention_drops_its_weights_in_training_alone() -> None:
    """With dropout on attention only, a padded group still draws, and eval draws nothing."""
    text = text_encoder()
    text.set_dropout(0.0, 0.5)
    ids, mask = torch.arange(5, 17)[None].repeat(2, 1), torch.ones(2, 12, dtype=torch.long)
    mask[1, 9:] = 0
    with torch.no_grad():
        assert torch.equal(text.hidden_states(ids, mask), text.hidden_states(ids, mask))
        plain = text.hidden_states(ids, mask)
        text.train()
        first, second = text.hidden_states(ids, mask), text.hidden_states(ids, mask)
        assert not torch.allclose(first, second) and not torch.allclose(first, plain)
        text.set_dropout(0.0, 0.0)
        torch.testing.assert_close(text.hidden_states(ids, mask), plain)


def test_dropout_changes_where_it_should() -> None:
    text = text_encoder()
    text.set_dropout(0.25, 0.3)
    layer = text.bert.encoder.layer[0]
    assert layer.attention.self.dropout.p == 0.3
    assert layer.output.dropout.p == layer.attention.output.dropout.p == 0.25
    assert text.bert.embeddings.dropout.p == 0.25


def test_text_folder_loads_in_plain_transformers(tmp_path: Path) -> None:
    text = text_encoder()
    save_text_encoder(text, tmp_path)
    ids = torch.randint(5, 50, (2, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    plain = AutoModel.from_pretrained(tmp_path, add_pooling_layer=False).eval()
    masked = AutoModelForMaskedLM.from_pretrained(tmp_path).eval()
    state = torch.get_rng_state()
    again = load_text_encoder(tmp_path)
    assert torch.equal(state, torch.get_rng_state()) and not again.training
    with torch.no_grad():
        hidden = text.hidden_states(ids, mask)
        torch.testing.assert_close(plain(ids, attention_mask=mask).last_hidden_state, hidden)
        logits = masked(ids, attention_mask=mask).logits
        torch.testing.assert_close(logits, text.cls(hidden), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(again.project(hidden), text.project(hidden))


def test_image_folder_there_and_back(tmp_path: Path) -> None:
    torch.manual_seed(0)
    encoder = ImageEncoder(SMALL_IMAGE)
    encoder.to(memory_format=torch.channels_last)
    save_image_encoder(encoder, tmp_path)
    again = load_image_encoder(tmp_path)
    identical(again.state_dict(), encoder.state_dict())


@pytest.mark.parametrize("block", ["basic", "bottleneck"])
@pytest.mark.parametrize("stem_pool", [True, False])
def test_the_folded_encoder_gives_the_same(block, stem_pool):
    torch.manual_seed(0)
    settings = ResNetSettings(
        block=block, layers=(1, 2, 1, 1), width=8, projection=16, stem_pool=stem_pool
    )
    image = ImageEncoder(settings).eval()
    for module in image.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.5, 0.5)
            nn.init.uniform_(module.running_var, 0.3, 2.0)
            nn.init.uniform_(module.weight, 0.3, 2.0)
            nn.init.uniform_(module.bias, -0.5, 0.5)
    before = {name: value.clone() for name, value in image.state_dict().items()}
    made = folded(image)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in made.modules())
    frames = Frames(torch.rand(2, 1, 64, 64))
    with torch.inference_mode():
        torch.testing.assert_close(made(frames), image(frames), rtol=1e-4, atol=1e-5)
    identical(image.state_dict(), before)


def test_a_normalisation_without_a_convolution_is_refused():
    image = ImageEncoder(ResNetSettings(layers=(1, 1, 1, 1), width=8, projection=16))
    image.projector.model = nn.Sequential(nn.ReLU(), nn.BatchNorm2d(256))
    with pytest.raises(ValueError, match="'1' follows no convolution"):
        folded(image)
