"""The vision transformer against its equations, its pauses, and DeiT's files."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from literal import identical
from PIL import Image
from small_text import write_text_model
from torch import Tensor
from torch.nn.functional import gelu, layer_norm, unfold

from cxr_files.atomic import write_json
from cxr_files.errors import InputError
from cxrflow.benchmarks.inputs import read_frames
from cxrflow.benchmarks.model_pixels import model_pixels, stored_squares
from cxrflow.commands.export import export
from cxrflow.commands.ground import ground
from cxrflow.commands.ground import main as ground_main
from cxrflow.commands.load import facts
from cxrflow.encoders.cxr_bert import CXRBert, load_text_encoder, save_text_encoder
from cxrflow.encoders.image_encoder import (
    Frames,
    ImageEncoder,
    load_image_encoder,
    save_image_encoder,
)
from cxrflow.encoders.inference import folded
from cxrflow.encoders.released.deit import read_deit
from cxrflow.encoders.released.published import find_files, kind_of, read_published
from cxrflow.encoders.released.settings import ImportSettings
from cxrflow.encoders.settings import MgcaHeadSettings, VitSettings
from cxrflow.encoders.vit import Trunk
from cxrflow.images.build import build_store
from cxrflow.images.geometry import Geometry
from cxrflow.images.inference_view import seen_geometry
from cxrflow.images.settings import PixelSettings
from cxrflow.images.shards import Source
from cxrflow.models.model import Model
from cxrflow.pretrain.imported import import_weights
from cxrflow.text.cleaned_reports import clean_in_tokenizer
from released_files import deit_shapes, drawn

SMALL = VitSettings(blocks=3, width=32, heads=4, patch=8, grid=3, channels=1, projection=6)


@pytest.fixture
def trunk() -> Trunk:
    torch.manual_seed(0)
    return Trunk(SMALL).eval()


def images(count: int = 2, side: int = 24, channels: int = 1) -> Frames[Tensor]:
    torch.manual_seed(1)
    return Frames(torch.rand(count, channels, side, side))


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
        identical(trunk.forward_from(hidden, stage), whole)
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
    save_image_encoder(image, tmp_path)
    back = load_image_encoder(tmp_path).eval()
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
    halves = read_published("deit", files, settings, seed=0)
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
        read_published(
            "deit", find_files("deit", path), ImportSettings(geometry="longer12"), seed=0
        )
    assert str(raised.value).startswith(f"{path}: ") and said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_heads_must_share_the_width() -> None:
    with pytest.raises(ValueError, match="width is 30; expected a multiple of heads 4"):
        VitSettings(width=30, heads=4)


# --- export, and maps -----------------------------------------------------------------------------

WINDOWED = {"augmentation": {"size": 24}}  # of squares of 32 pixels


@pytest.fixture(scope="module")
def mgca(tmp_path_factory) -> Path:
    """A model folder with a transformer and MGCA's heads, as its training writes it."""
    folder = write_text_model(tmp_path_factory.mktemp("vit"))
    head = MgcaHeadSettings(hidden=12)
    text = load_text_encoder(folder)
    torch.manual_seed(2)
    config = text.config.model_copy(update={"projection_head": head, "projection_size": 6})
    text = CXRBert(config).eval()
    save_text_encoder(text, folder)
    save_image_encoder(ImageEncoder(SMALL.model_copy(update={"projection_head": head})), folder)
    clean_in_tokenizer(folder)
    run = {"data": {"geometry": "longer32", "name": "x"}, "settings": WINDOWED}
    write_json(folder / "run.json", run)
    return folder


TEXTS = ["Large: pleural effusion!", "no; nodule"]


def test_export_and_import_give_the_same_model(mgca: Path, tmp_path: Path) -> None:
    out, again = tmp_path / "out", tmp_path / "again"
    export(mgca, out)
    (weights,) = out.glob("vit_image_*.pth")
    assert kind_of(out, None) == "vit"
    Image.fromarray(np.arange(2400, dtype=np.uint8).reshape(60, 40)).save(tmp_path / "x.png")
    named = {"model": out, "image": tmp_path / "x.png", "output": tmp_path / "map.png"}
    options = [part for name, value in named.items() for part in (f"--{name}", str(value))]
    ground_main([*options, "--phrase", TEXTS[0]])
    assert (tmp_path / "map.png").is_file()
    shutil.copytree(out, tmp_path / "text", ignore=shutil.ignore_patterns("vit_image_*"))
    options[1] = str(tmp_path / "text")
    with pytest.raises(
        InputError, match=r"text: published weights of kind .* have no image encoder"
    ):
        ground_main([*options, "--phrase", TEXTS[0]])
    import_weights("vit", out, None, ImportSettings(), "mine", 0, again)
    models = [Model.load(folder) for folder in (mgca, out, again)]
    assert [model.geometry for model in models] == ["longer32", *["longer32crop24"] * 2]
    for model in models[1:]:
        assert torch.equal(model.encode_text(TEXTS), models[0].encode_text(TEXTS))
        identical(*(one.encode_image(images().current) for one in (model, models[0])))
    assert json.loads((out / "config.json").read_text())["model_type"] == "bert"
    # A reader of DeiT's files takes the transformer, and draws a projection of its own.
    stored = torch.load(weights, weights_only=True)["model"]
    assert stored.keys() == deit_shapes(32, 3, 8, 10).keys() and not stored["head.weight"].any()
    trunk, new = read_deit(weights, 6, 0)
    assert torch.equal(trunk.state_dict()["encoder.blocks.2.mlp.fc2.weight"],
                       stored["blocks.2.mlp.fc2.weight"])  # fmt: skip
    assert new and all(name.startswith("projector.") for name in new)
    weights.with_suffix(".json").unlink()
    with pytest.raises(InputError, match=r"vit_image_.*\.json"):
        Model.load(out)


@pytest.mark.parametrize(
    ("geometry", "settings"),
    [
        ("longer32unpadded", {"size": 24, "crop_scale": [0.5, 1.0]}),  # ConVIRT's
        ("longer32unpadded", {"size": 24}),
        ("shorter32", {"size": 24}),
        ("square32", {"size": 24}),  # a geometry that has no name
    ],
)
def test_a_view_that_no_geometry_names_is_not_exported(
    geometry: str, settings: dict, mgca: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(mgca, folder)
    run = {"data": {"geometry": geometry}, "settings": {"augmentation": settings}}
    write_json(folder / "run.json", run)
    with pytest.raises(InputError) as raised:
        export(folder, tmp_path / "out")
    said = f"run.json: settings.augmentation.size is 24, with images of geometry {geometry};"
    assert said in str(raised.value) and not (tmp_path / "out").exists()


@pytest.mark.parametrize("geometry", ["longer32unpadded", "square32", "shorter32"])
@pytest.mark.parametrize("settings", [None, {"size": None}], ids=["imported", "whole"])
def test_an_export_sees_files_as_the_model_does(
    geometry: str, settings: dict | None, mgca: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(mgca, folder)
    record = {} if settings is None else {"augmentation": settings}
    write_json(folder / "run.json", {"data": {"geometry": geometry}, "settings": record})
    export(folder, tmp_path / "out")
    Image.fromarray(np.arange(2400, dtype=np.uint8).reshape(60, 40)).save(tmp_path / "x.png")
    shown = [Model.load(path)._pixels(tmp_path / "x.png") for path in (folder, tmp_path / "out")]
    assert torch.equal(*shown)


def test_maps_are_of_words_where_words_have_a_projection_of_their_own(mgca: Path) -> None:
    model = Model.load(mgca)
    image, texts = model.encode_image(images().current), model.encode_texts(TEXTS)
    assert texts.words is not None and texts.words.lengths == [3, 2]
    found = model.similarity_map(images().current, TEXTS)
    patch_BhwP = image.projected_patches
    for number, length in enumerate(texts.words.lengths):
        words = torch.nn.functional.normalize(texts.words.word_BWD[number, :length], dim=1)
        expected = torch.stack([patch_BhwP[number] @ word for word in words]).mean(0)
        torch.testing.assert_close(found[number], expected)
    scores = model.similarities(images().current, TEXTS)
    expected = image.projected_global.double() @ model.encode_text(TEXTS).double().T
    torch.testing.assert_close(scores, expected)


def test_a_window_of_stored_squares_is_a_geometry_of_its_own(mgca: Path, tmp_path: Path) -> None:
    file = tmp_path / "x.png"
    grey = np.random.default_rng(0).integers(0, 255, (60, 40), dtype=np.uint8)
    Image.fromarray(grey).save(file)
    model = Model.load(mgca)
    found = ground(model, file, TEXTS)
    assert found.pixels_SS.shape == (24, 24) and found.grids_Nhw.shape == (2, 3, 3)
    seen = model._pixels(file)[0, 0]
    assert np.abs(found.pixels_SS / 255 - seen.numpy()).max() < 1e-4
    assert dict(facts(model))["pixels"].startswith("longer32;")
    geometry = Geometry.parse("longer32")
    for other in ({"size": 23}, {"size": 24, "crop_scale": (0.5, 1.0)}):
        assert seen_geometry({"settings": {"augmentation": other}}, geometry) is None
    assert seen_geometry({"settings": WINDOWED}, Geometry.parse("shorter32")) is None
    assert seen_geometry({"settings": {"augmentation": {}}}, geometry) == geometry


def test_views_that_are_no_geometry_are_not_grounded(mgca: Path, tmp_path: Path) -> None:
    """The benchmark and the calibration refuse them, too."""
    file, model = tmp_path / "x.png", Model.load(mgca)
    Image.fromarray(np.arange(2400, dtype=np.uint8).reshape(60, 40)).save(file)
    whole = {"augmentation": {"size": 24, "crop_scale": (0.5, 1.0)}}
    for geometry, settings in (("longer32unpadded", whole), ("shorter32", WINDOWED)):
        run = {"data": {"geometry": geometry}, "settings": settings}
        with pytest.raises(InputError, match=f"{mgca} sees images of geometry {geometry} without"):
            ground(replace(model, run=run), file, TEXTS)


def test_boxes_are_placed_in_the_centres_of_stored_squares(mgca: Path, tmp_path: Path) -> None:
    sources = []
    for number, shape in enumerate([(60, 40), (30, 50)]):
        grey = np.random.default_rng(number).integers(0, 255, shape, dtype=np.uint8)
        Image.fromarray(grey).save(tmp_path / f"{number}.png")
        sources.append(Source(f"{number}", f"{number}.png"))
    stored = (Geometry.parse("longer32"), PixelSettings(), tmp_path / "pixels", 1)
    build_store(tmp_path, sources, *stored)
    pixels = model_pixels(tmp_path / "pixels", mgca)
    squares, rows = stored_squares(pixels), pixels.rows(["0", "1"])
    assert str(squares.geometry) == "longer32crop24" and stored_squares(squares) is squares
    seen = read_frames(pixels, rows, np.array([-1, -1])).current[:, 0].numpy()
    assert np.abs(squares.read(rows) / 255 - seen).max() < 1e-4
    for row in rows:
        whole, centre = pixels.placement(row), squares.placement(row)
        box = [[4.0, 5.0, 6.0, 7.0]]
        np.testing.assert_allclose(centre.boxes(box) + [4, 4, 0, 0], whole.boxes(box))
