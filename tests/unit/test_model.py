"""A model in Python: what it takes for an image, what it says of itself, half a model."""

import stat
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import cxrflow
from cxrflow.encoders.image_encoder import ImageEncoder, save_image_half
from cxrflow.encoders.settings import ResNetSettings
from cxrflow.errors import InputError
from cxrflow.files.atomic import atomic_folder, write_json

SIZES = ResNetSettings(block="basic", layers=[1, 1, 1, 1], width=4, channels=1, projection=8)
RADIOGRAPH = np.random.default_rng(0).integers(0, 4096, (70, 60)).astype(np.uint16)


def saved(folder: Path, trunk_alone: bool = False) -> Path:
    """A model folder with an image half and no text."""
    torch.manual_seed(0)
    image = ImageEncoder(SIZES)
    if trunk_alone:
        image.projector = None
    with atomic_folder(folder, "model") as made:
        save_image_half(image, made)
        write_json(made / "run.json", {"data": {"geometry": "shorter32"}})
    return folder


def test_files_arrays_and_lists_of_both_are_one_image(tmp_path: Path) -> None:
    model = cxrflow.load(saved(tmp_path / "model"))
    file = tmp_path / "x.png"
    Image.fromarray(RADIOGRAPH).save(file)
    (expected,) = model.encode_image(file).projected_global
    for image in (str(file), RADIOGRAPH, RADIOGRAPH.astype(np.float32) / 4096):
        (found,) = model.encode_image(image).projected_global
        torch.testing.assert_close(found, expected)
    both = model.encode_image([RADIOGRAPH, file])
    assert both.projected_patches.shape[0] == 2
    torch.testing.assert_close(both.projected_global, expected.expand(2, -1))
    # What a store of its geometry keeps, given as a tensor, is the same once more.
    pixels = torch.rand(3, 1, 32, 32)
    assert model.encode_image(pixels).projected_global.shape == (3, 8)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (RADIOGRAPH[None], "shape [1, 70, 60] is no grey image [H, W]"),
        (np.zeros((40, 40)), "an array: blank image"),
        (np.full((40, 40), np.nan), "an array: holds values that are not finite"),
        (RADIOGRAPH > 9, "bool of shape"),
        (np.eye(3), "below min_side"),
        (torch.rand(32, 32), "expected pixels [B, 1, H, W] in [0, 1]"),
        (torch.zeros(1, 1, 32, 32, dtype=torch.uint8), "a tensor of torch.uint8"),
        ([], "no images were given"),
        ("nowhere.png", "nowhere.png: file not found"),
    ],
)
def test_what_is_no_image_is_refused_in_a_line(tmp_path: Path, image, message: str) -> None:
    model = cxrflow.load(saved(tmp_path / "model"))
    with pytest.raises(InputError) as caught:
        model.encode_image(image)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_a_trunk_alone_has_features(tmp_path: Path) -> None:
    """What SimCLR leaves, and every other training on images alone."""
    whole = cxrflow.load(saved(tmp_path / "whole"))
    alone = cxrflow.load(saved(tmp_path / "alone", trunk_alone=True))
    features = alone.image_features([RADIOGRAPH])
    assert features.shape == (1, alone.image_encoder.encoder.features)
    assert torch.equal(features, whole.encode_image(RADIOGRAPH).pooled)
    with pytest.raises(InputError, match="trunk alone.*`image_features`"):
        alone.encode_image(RADIOGRAPH)
    with pytest.raises(InputError, match="has no text half"):
        alone.encode_text(["Edema."])


def test_a_model_says_in_a_line_what_it_is(tmp_path: Path) -> None:
    folder = saved(tmp_path / "alone", trunk_alone=True)
    expected = f"<cxrflow model {folder}: image: resnet, no projection; on cpu>"
    assert repr(cxrflow.load(folder)) == expected


def test_weights_are_as_readable_as_the_rest(tmp_path: Path) -> None:
    folder = saved(tmp_path / "model")
    files = [folder / "image/model.safetensors", folder / "run.json"]
    weights, record = (stat.S_IMODE(file.stat().st_mode) for file in files)
    assert weights == record
