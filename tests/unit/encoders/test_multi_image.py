"""The trunk that compares two images: against its equations, and against the published code."""

import math
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from benchmark_fakes import TWO_IMAGES
from pydantic import ValidationError
from torch import Tensor

import cxrflow
from cxr_files.errors import InputError
from cxrflow.commands.export import export
from cxrflow.encoders.image_encoder import (
    Frames,
    ImageEncoder,
    load_image_encoder,
    save_image_encoder,
)
from cxrflow.encoders.inference import folded
from cxrflow.encoders.multi_image import Trunk, space_encoding
from cxrflow.encoders.released.image import (
    read_released_image,
)
from cxrflow.encoders.released.settings import ImportSettings
from cxrflow.encoders.settings import MultiImageSettings, ResNetSettings
from cxrflow.pretrain.imported import import_weights
from released_files import write_biovil_t

COMPARISON = TWO_IMAGES["comparison"]
SIZES = TWO_IMAGES | {"dilate": [False, True, True]}
FC = {"encoder.encoder.fc.weight", "encoder.encoder.fc.bias"}


def settings_of(**comparison: object) -> MultiImageSettings:
    return MultiImageSettings.model_validate({**SIZES, "comparison": {**COMPARISON, **comparison}})


def encoder(seed: int = 0, **comparison: object) -> ImageEncoder:
    """With weights of a size that every part matters."""
    torch.manual_seed(seed)
    image = ImageEncoder(settings_of(**comparison))
    for name, parameter in image.named_parameters():
        if "vit_pooler" in name or "missing" in name:
            torch.nn.init.normal_(parameter, mean=float("norm" in name), std=0.3)
    return image.double().eval()


def two(count: int = 3) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.rand(2, count, 1, 32, 48, generator=generator, dtype=torch.float64)
    return pixels[0], pixels[1]


# --- Eq. 1, written out token by token --------------------------------------------------------


def literal_space(height: int, width: int, features: int) -> Tensor:
    """S: half of the features of y, half of x; sine and cosine in turns."""
    half = features // 2
    rows = []
    for y in range(1, height + 1):
        for x in range(1, width + 1):
            row = []
            for place, size in ((y, height), (x, width)):
                angle = 2 * math.pi * place / (size + 1e-6)
                for i in range(half):
                    turn = angle / 10_000 ** (2 * (i // 2) / half)
                    row.append(math.sin(turn) if i % 2 == 0 else math.cos(turn))
            rows.append(row)
    return torch.tensor(rows, dtype=torch.float64)


def literal_difference(state: dict[str, Tensor], images: list[Tensor], heads: int) -> Tensor:
    """P_diff [L, D] of one study from its images [L, D] each, current first."""

    def norm(x: Tensor, name: str) -> Tensor:
        centred = x - x.mean(1, keepdim=True)
        deviation = (centred.square().mean(1, keepdim=True) + 1e-6).sqrt()
        return centred / deviation * state[f"{name}.weight"] + state[f"{name}.bias"]

    def linear(x: Tensor, name: str) -> Tensor:
        return x @ state[f"{name}.weight"].T + state.get(f"{name}.bias", 0.0)

    height, width = GRID
    space = literal_space(height, width, images[0].shape[1])
    time = state.get("type_embed", torch.zeros(2, 1, 1))
    encoding = torch.cat([space + time[number] for number in range(len(images))])
    hidden = torch.cat(images)
    for k in range(COMPARISON["blocks"]):
        name = f"blocks.{k}"
        told = norm(hidden, f"{name}.norm1") + encoding
        q, k_, v = (linear(told, f"{name}.attn.proj_{part}") for part in "qkv")
        size = q.shape[1] // heads
        contexts = []
        for head in range(heads):
            part = slice(head * size, (head + 1) * size)
            scores = q[:, part] @ k_[:, part].T / math.sqrt(size)
            contexts.append(scores.softmax(1) @ v[:, part])
        hidden = hidden + linear(torch.cat(contexts, dim=1), f"{name}.attn.proj")
        inner = linear(norm(hidden, f"{name}.norm2"), f"{name}.mlp.fc1")
        inner = inner * 0.5 * (1 + torch.erf(inner / math.sqrt(2)))
        hidden = hidden + linear(inner, f"{name}.mlp.fc2")
    return norm(hidden[: height * width], "norm_post")


GRID = (4, 6)  # of 32 x 48 pixels


@pytest.mark.parametrize("time", [True, False])
@pytest.mark.parametrize("decomposition", [True, False])
@pytest.mark.parametrize("rows", [[], [1], [2, 0], [0, 1, 2]])
def test_features_and_gradients_are_those_of_the_equations(time, decomposition, rows):
    image = encoder(time_encoding=time, decomposition=decomposition)
    trunk = image.encoder
    assert isinstance(trunk, Trunk)
    current, prior = two()
    frames = Frames(current)
    if rows:
        frames = Frames(current, prior[: len(rows)], torch.tensor(rows))
    found = trunk(frames)
    weight = torch.randn(found.grid.shape, dtype=torch.float64)
    named = dict(trunk.named_parameters())
    parameters, kept = list(named.values()), {"allow_unused": True, "retain_graph": True}
    ours = torch.autograd.grad((found.grid * weight).sum(), parameters, **kept)

    def patches(pixels: Tensor) -> Tensor:
        grid = trunk.encoder(pixels)
        return torch.einsum("bfhw,df->bhwd", grid, trunk.backbone_to_vit.weight[:, :, 0, 0])

    own = {n.removeprefix("vit_pooler."): p for n, p in named.items() if "vit_pooler" in n}
    static, earlier = patches(current).flatten(1, 2), patches(prior).flatten(1, 2)
    expected = []
    for study in range(3):
        images = [static[study]]
        if study in rows:
            images.append(earlier[rows.index(study)])
        if decomposition and len(images) == 1:
            difference = named["missing_previous_emb"].view(1, -1).expand(24, -1)
        else:
            difference = literal_difference(own, images, COMPARISON["heads"])
        parts = [static[study], difference] if decomposition else [difference]
        expected.append(torch.cat(parts, dim=1))
    wanted = torch.stack(expected).transpose(1, 2).unflatten(2, GRID)
    torch.testing.assert_close(found.grid, wanted, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(found.pooled, wanted.mean((2, 3)), rtol=1e-6, atol=1e-6)
    theirs = torch.autograd.grad((wanted * weight).sum(), parameters, **kept)
    for (name, parameter), one, other in zip(named.items(), ours, theirs, strict=True):
        one, other = (torch.zeros(()) if g is None else g for g in (one, other))
        one, other = (g.expand_as(parameter).double() for g in (one, other))
        slack = 1e-5 * max(1.0, float(other.abs().max()))
        torch.testing.assert_close(one, other, rtol=1e-4, atol=slack, msg=name)


def test_places_are_told_apart_as_said() -> None:
    for height, width, features in ((14, 14, 256), (4, 6, 16)):
        ours = space_encoding(height, width, features).double()
        wanted = literal_space(height, width, features)
        torch.testing.assert_close(ours, wanted, rtol=0, atol=2e-5)


# --- what runs, and what learns -----------------------------------------------------------------


def test_without_a_prior_the_transformer_does_not_run() -> None:
    image = encoder()
    current, prior = two()
    with mock.patch.object(image.encoder.vit_pooler, "forward", side_effect=AssertionError):
        grid = image.encoder(Frames(current)).grid
    missing = image.encoder.missing_previous_emb
    assert torch.equal(grid[:, 16:], missing.expand(3, -1, *GRID))
    assert not torch.equal(image.encoder(Frames(current, prior)).grid[:, 16:], grid[:, 16:])


def test_one_call_of_the_resnet_for_both_images() -> None:
    """So that in training they are normalised by the statistics of both."""
    image = encoder().train()
    current, prior = two()
    resnet = image.encoder.encoder
    with mock.patch.object(resnet, "forward", wraps=resnet.forward) as called:
        image.encoder(Frames(current, prior[:2], torch.tensor([0, 2])))
    assert [len(call.args[0]) for call in called.call_args_list] == [5]


@pytest.mark.parametrize("comparison", [{}, {"decomposition": False}, {"time_encoding": False}])
@pytest.mark.parametrize("rows", [[], [1], [0, 1, 2]])
def test_every_parameter_has_a_gradient_whoever_has_a_prior(comparison, rows):
    """Processes that train together wait for all of them."""
    image = encoder(**comparison).train()
    current, prior = two()
    frames = Frames(current, prior[: len(rows)], torch.tensor(rows)) if rows else Frames(current)
    image(frames).projected_patches.square().sum().backward()
    assert [name for name, p in image.named_parameters() if p.grad is None] == []
    if not rows and not comparison:
        assert all(not p.grad.any() for p in image.encoder.vit_pooler.parameters())


def test_dropout_and_left_out_changes_are_of_training_alone() -> None:
    current, prior = two()
    frames = Frames(current, prior)
    for name in ("dropout", "drop_path"):
        other = "drop_path" if name == "dropout" else "dropout"
        image = encoder(**{name: 0.5, other: 0.0})
        blocks = image.encoder.vit_pooler.train()
        ones = [blocks(torch.ones(3, 16, 4, 6).double()) for _ in range(2)]
        assert not torch.equal(*ones), name
        image.eval()
        assert torch.equal(image(frames).pooled, image(frames).pooled)
    # A study keeps a block's change, scaled up, or loses it.
    block = encoder(drop_path=0.25).encoder.vit_pooler.blocks[0].train()
    changed = block._dropped(torch.ones(4000, 2, 3))
    torch.testing.assert_close(changed.unique(), torch.tensor([0, 4 / 3]))
    assert changed.mean().item() == pytest.approx(1, abs=0.05)
    assert torch.equal(changed[:, :1, :1].expand_as(changed), changed)


# --- folders and published files ----------------------------------------------------------------


def test_a_model_folder_keeps_it_and_inference_folds_it(tmp_path: Path) -> None:
    image = encoder()
    image.float()
    save_image_encoder(image, tmp_path)
    again = load_image_encoder(tmp_path).eval()
    assert again.settings == image.settings and again.takes_prior
    current, prior = (pixels.float() for pixels in two())
    frames = Frames(current, prior[:1], torch.tensor([2]))
    with torch.no_grad():
        wanted, found, inferred = image(frames), again(frames), folded(again)(frames)
    assert torch.equal(wanted.projected_patches, found.projected_patches)
    torch.testing.assert_close(wanted.pooled, inferred.pooled, rtol=1e-4, atol=1e-5)


def test_only_settings_of_two_images_have_a_comparison() -> None:
    with pytest.raises(ValidationError, match="comparison\n.*not permitted"):
        ResNetSettings.model_validate({"comparison": {}})
    with pytest.raises(ValidationError, match="width is 20; expected a multiple of heads 3"):
        settings_of(width=20, heads=3)


@pytest.mark.parametrize(
    "name",
    [
        "encoder.missing_previous_emb",
        "encoder.vit_pooler.type_embed",
        "encoder.vit_pooler.blocks.1.attn.proj_k.weight",
        "encoder.vit_pooler.norm_post.bias",
        "encoder.backbone_to_vit.weight",
    ],
)
def test_a_published_file_that_lacks_a_tensor_is_refused(tmp_path: Path, name: str) -> None:
    folder = write_biovil_t(tmp_path / "biovil_t")
    path = folder / "biovil_t_image_model_proj_size_128.pt"
    weights = torch.load(path, weights_only=True)
    del weights[name]
    torch.save(weights, path)
    with pytest.raises(InputError) as raised:
        cxrflow.load(folder)
    assert str(path) in str(raised.value) and "\n" not in str(raised.value)


def test_an_export_says_what_weights_do_not_tell(tmp_path: Path) -> None:
    image = encoder(time_encoding=False, decomposition=False).float()
    save_image_encoder(image, tmp_path / "model")
    export(tmp_path / "model", tmp_path / "out")
    [path] = (tmp_path / "out").glob("biovil_t_image*.pt")
    again, new = read_released_image(path, False, 128, 0)
    assert new == [] and again.settings == image.settings


def test_a_published_folder_loads_takes_priors_and_goes_back(tmp_path: Path) -> None:
    folder = write_biovil_t(tmp_path / "biovil_t")
    model = cxrflow.load(folder)
    assert model.run["kind"] == "biovil_t" and model.takes_prior
    assert model.geometry == "shorter512crop448"
    pixels = torch.rand(2, 2, 1, 64, 64)
    alone, compared = model.encode_image(pixels[0]), model.encode_image(pixels[0], pixels[1])
    assert compared.projected_patches.shape == (2, 2, 2, 8)
    assert not torch.allclose(alone.projected_global, compared.projected_global)
    texts = ["no effusion", "mild edema"]
    wanted = torch.einsum("bhwp,bp->bhw", compared.projected_patches, model.encode_text(texts))
    torch.testing.assert_close(model.similarity_map(pixels[0], texts, pixels[1]), wanted)
    assert model.similarity_map(pixels[0], texts[:1]).shape == (2, 2, 2)
    for wrong, message in (
        (lambda: model.encode_image(pixels[0], pixels[1, :1]), "expected one for each"),
        (lambda: model.encode_image([np.eye(64), np.eye(64)], [np.eye(64), None]), "is None"),
        (lambda: model.similarity_map(pixels[0], [*texts, "edema"]), "3 texts for 2 studies"),
        (lambda: model.encode_text("edema"), "^texts is of type str and length 5; expected"),
        (lambda: model.encode_text([]), "^texts is of type list and length 0; expected"),
    ):
        with pytest.raises(InputError, match=message):
            wrong()

    ours, back = tmp_path / "ours", tmp_path / "back"
    import_weights("biovil_t", folder, None, ImportSettings(), "m", 0, ours)
    export(ours, back)
    [path] = back.glob("*.pt")
    source = torch.load(folder / "biovil_t_image_model_proj_size_128.pt", weights_only=True)
    found = torch.load(path, weights_only=True)
    assert found.keys() == source.keys()
    assert all(torch.equal(found[name], source[name]) for name in found.keys() - FC)
    again = cxrflow.load(back).encode_image(pixels[0], pixels[1])
    assert torch.equal(again.projected_global, compared.projected_global)
    with pytest.raises(InputError, match="its trunk is of kind multi_image; expected resnet"):
        import_weights("biovil_image", path, None, ImportSettings(), "m", 0, tmp_path / "other")


def test_random_weights_give_what_the_published_module_gives() -> None:
    """hi-ml-multimodal's own class, where it is installed; the grid is 14 x 14 there."""
    published = pytest.importorskip("health_multimodal.image.model.model")
    torch.manual_seed(0)
    sizes = {"img_encoder_type": "resnet18_multi_image", "joint_feature_size": 128}
    theirs = published.MultiImageModel(**sizes).eval()
    for name, parameter in theirs.named_parameters():
        if "vit_pooler" in name or "missing" in name:
            torch.nn.init.normal_(parameter, std=0.2)
    sizes = {"kind": "multi_image", "block": "basic", "layers": [2, 2, 2, 2]}
    ours = ImageEncoder(MultiImageSettings.model_validate(sizes)).eval()
    weights = {name: value for name, value in theirs.state_dict().items() if name not in FC}
    ours.load_state_dict(weights)
    current, prior = torch.rand(2, 2, 1, 448, 448)
    with torch.inference_mode():
        for frames in (Frames(current), Frames(current, prior)):
            coloured = [one.expand(-1, 3, -1, -1) for one in frames[:2] if one is not None]
            wanted, found = theirs(*coloured), ours(frames)
            torch.testing.assert_close(found.pooled, wanted.img_embedding)
            cells = found.unnormalised_patches.permute(0, 3, 1, 2)
            torch.testing.assert_close(cells, wanted.projected_patch_embeddings)
