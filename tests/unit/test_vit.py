"""The vision transformer against its equations, its pauses, and DeiT's files."""

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm, unfold

from cxrflow.encoders.image_encoder import (
    Frames,
    ImageEncoder,
    load_image_half,
    save_image_half,
)
from cxrflow.encoders.inference import folded
from cxrflow.encoders.released.halves import find_files, read_halves
from cxrflow.encoders.released.settings import ImportSettings
from cxrflow.encoders.settings import VitSettings
from cxrflow.encoders.vit import Trunk
from cxrflow.errors import InputError
from released_files import drawn, linear
from released_files import layer_norm as norm_shapes

SMALL = VitSettings(blocks=3, width=32, heads=4, patch=8, grid=3, channels=1, projection=6)
Shapes = dict[str, tuple[int, ...]]


@pytest.fixture
def trunk() -> Trunk:
    torch.manual_seed(0)
    return Trunk(SMALL).eval()


def images(count: int = 2, side: int = 24, channels: int = 1) -> Frames[Tensor]:
    torch.manual_seed(1)
    return Frames(torch.rand(count, channels, side, side))


def deit_shapes(width: int, blocks: int, patch: int, tokens: int) -> Shapes:
    """The names and shapes of DeiT's files, from their authors' code."""
    shapes: Shapes = {
        "cls_token": (1, 1, width),
        "pos_embed": (1, tokens, width),
        "patch_embed.proj.weight": (width, 3, patch, patch),
        "patch_embed.proj.bias": (width,),
        **norm_shapes("norm", width),
        **linear("head", 1000, width),
    }
    for number in range(blocks):
        block = f"blocks.{number}"
        shapes |= norm_shapes(f"{block}.norm1", width) | norm_shapes(f"{block}.norm2", width)
        shapes |= linear(f"{block}.attn.qkv", 3 * width, width)
        shapes |= linear(f"{block}.attn.proj", width, width)
        shapes |= linear(f"{block}.mlp.fc1", 4 * width, width)
        shapes |= linear(f"{block}.mlp.fc2", width, 4 * width)
    return shapes


def literal(trunk: Trunk, pixels_B1HW: Tensor) -> tuple[Tensor, Tensor]:
    """States [B, L, D], and attention [B, heads, L, L] of the last block, head by head."""
    weights, sizes = trunk.state_dict(), trunk.settings
    side, width = sizes.patch, sizes.width

    def layer(name: str, x: Tensor) -> Tensor:
        return x @ weights[f"{name}.weight"].flatten(1).T + weights[f"{name}.bias"]

    def normalised(name: str, x: Tensor) -> Tensor:
        return layer_norm(x, (width,), weights[f"{name}.weight"], weights[f"{name}.bias"], 1e-6)

    patches = unfold(pixels_B1HW, side, stride=side).transpose(1, 2)
    cls = weights["cls_token"].expand(len(patches), 1, width)
    states = torch.cat([cls, layer("patch_embed.proj", patches)], dim=1) + weights["pos_embed"]
    for number in range(sizes.blocks):
        block = f"blocks.{number}"
        q, k, v = layer(f"{block}.attn.qkv", normalised(f"{block}.norm1", states)).chunk(3, dim=2)
        maps, contexts = [], []
        for head in torch.arange(width).chunk(sizes.heads):
            scores = q[:, :, head] @ k[:, :, head].mT / len(head) ** 0.5
            maps.append(scores.softmax(2))
            contexts.append(maps[-1] @ v[:, :, head])
        states = states + layer(f"{block}.attn.proj", torch.cat(contexts, dim=2))
        inside = gelu(layer(f"{block}.mlp.fc1", normalised(f"{block}.norm2", states)))
        states = states + layer(f"{block}.mlp.fc2", inside)
    return normalised("norm", states), torch.stack(maps, dim=1)


def test_features_and_attention_are_those_of_the_equations(trunk: Trunk) -> None:
    pixels = images().current
    with torch.no_grad():
        ours = trunk(Frames(pixels))
        states, attention = literal(trunk, pixels)
    torch.testing.assert_close(ours.pooled, states[:, 0], rtol=1e-5, atol=1e-5)
    patches = ours.grid.flatten(2).transpose(1, 2)
    torch.testing.assert_close(patches, states[:, 1:], rtol=1e-5, atol=1e-5)
    assert ours.cls_attention is not None
    of_cls = ours.cls_attention.flatten(2)
    torch.testing.assert_close(of_cls, attention[:, :, 0, 1:], rtol=1e-5, atol=1e-6)


def test_a_pause_after_any_block_changes_nothing(trunk: Trunk) -> None:
    frames = images()
    whole = trunk(frames)
    for stage in range(trunk.stages + 1):
        hidden = trunk.forward_until(frames, stage)
        assert hidden.current.shape == (2, 10, 32)
        for ours, theirs in zip(trunk.forward_from(hidden, stage), whole, strict=True):
            assert torch.equal(ours, theirs)
    whole.pooled[:, 0].sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in trunk.parameters())


def test_mixed_patches_reach_cls_unless_after_the_last_block(trunk: Trunk) -> None:
    """After all blocks nothing that [CLS] gives can change: k counted from 0 at the last block."""
    frames, share = images(), torch.zeros(2, 10, 1)
    share[:, 4] = 1  # of one patch, not of [CLS]
    whole = trunk(frames).pooled
    for stage in range(trunk.stages + 1):
        hidden = trunk.forward_until(frames, stage).current
        mixed = share * hidden.flip(0) + (1 - share) * hidden
        pooled = trunk.forward_from(Frames(mixed), stage).pooled
        assert torch.equal(pooled, whole) == (stage == trunk.stages)


def test_patches_lie_row_by_row(trunk: Trunk) -> None:
    """Without attention a patch's features are those of its own pixels."""
    for block in trunk.blocks:
        block.attn.proj.weight.data.zero_()
    frames = images()
    changed = frames.current.clone()
    changed[:, :, 8:16, 16:] = 0  # row 1, column 2
    same = torch.isclose(trunk(frames).grid, trunk(Frames(changed)).grid).all(1)
    assert (~same).nonzero()[:, 1:].tolist() == [[1, 2], [1, 2]]


def test_images_of_another_size_are_refused(trunk: Trunk) -> None:
    with pytest.raises(InputError, match=r"encoder.grid' is 3.*32 x 32; expected 24 x 24"):
        trunk(images(side=32))


def test_folder_there_and_back_and_folded(tmp_path: Path) -> None:
    image = ImageEncoder(SMALL).eval()
    save_image_half(image, tmp_path)
    back = load_image_half(tmp_path).eval()
    assert back.settings == SMALL
    with torch.no_grad():
        ours, theirs, faster = image(images()), back(images()), folded(back)(images())
    for before, after, folds in zip(ours, theirs, faster, strict=True):
        assert torch.equal(before, after)
        torch.testing.assert_close(before, folds)
    assert ours.projected_patches.shape == (2, 3, 3, 6)


@pytest.mark.parametrize("nested", [True, False])
def test_deit_is_taken_whole(tmp_path: Path, nested: bool) -> None:
    weights = drawn(deit_shapes(128, 2, 4, 10))
    torch.save({"model": weights} if nested else weights, tmp_path / "deit_tiny.pth")
    files = find_files("deit", tmp_path)
    settings = ImportSettings(projection=6, geometry="longer12")
    halves = read_halves("deit", files, settings, seed=0)
    assert halves.image is not None and halves.run["data"] == {"geometry": "longer12"}
    sizes = halves.image.settings
    assert sizes == VitSettings(blocks=2, width=128, heads=2, patch=4, grid=3, projection=6)
    own = halves.image.state_dict()
    assert set(halves.run["initialised"]) == {name for name in own if name[:10] == "projector."}
    for name, value in weights.items():
        if not name.startswith("head."):
            assert torch.equal(own[f"encoder.{name}"], value)


def test_deit_base_has_these_names_and_shapes(tmp_path: Path) -> None:
    """ViT-B/16 at 224 x 224: 85,798,656 parameters and the classifier, 86,567,656."""
    with torch.device("meta"):
        trunk = Trunk(VitSettings())
    ours = {name: tuple(value.shape) for name, value in trunk.state_dict().items()}
    published = deit_shapes(768, 12, 16, 197)
    assert ours == {name: shape for name, shape in published.items() if name[:5] != "head."}
    assert sum(torch.Size(shape).numel() for shape in published.values()) == 86_567_656


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("head.weight", None, "head.weight is missing"),
        ("head.weight", torch.zeros(14, 64), "head.weight has shape [14, 64], expected [1000, 64]"),
        ("pos_embed", None, "pos_embed is missing"),
        ("pos_embed", torch.zeros(1, 9, 64), "pos_embed has shape [1, 9, 64], expected [1, 5, 64]"),
        ("patch_embed.proj.weight", torch.zeros(3), "expected 4 sizes"),
        ("blocks.1.attn.qkv.bias", None, "blocks.1.attn.qkv.bias is missing"),
        ("dist_token", torch.zeros(1, 1, 64), "encoder.dist_token belongs to no parameter"),
    ],
)
def test_a_file_that_is_not_whole_is_refused_by_name(tmp_path, name, value, said) -> None:
    weights = drawn(deit_shapes(64, 2, 4, 10)) | {name: value}
    path = tmp_path / "deit.pth"
    torch.save({"model": {n: v for n, v in weights.items() if v is not None}}, path)
    with pytest.raises(InputError) as raised:
        read_halves("deit", find_files("deit", path), ImportSettings(geometry="longer12"), seed=0)
    assert str(raised.value).startswith(f"{path}: ") and said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_heads_must_share_the_width() -> None:
    with pytest.raises(ValueError, match="width is 30; expected a multiple of heads 4"):
        VitSettings(width=30, heads=4)
