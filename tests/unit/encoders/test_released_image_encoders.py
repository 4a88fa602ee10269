"""Published image encoders: every name has its place, and nothing is guessed."""

from pathlib import Path

import pytest
import torch

from cxr_files.atomic import write_json
from cxr_files.errors import InputError
from cxrflow.encoders.image_encoder import Frames, ImageEncoder
from cxrflow.encoders.released.image import (
    read_released_image,
    released_image,
    released_image_name,
)
from cxrflow.encoders.settings import MultiImageSettings, ResNetSettings
from released_files import (
    biovil_image_shapes,
    biovil_t_image_shapes,
    drawn,
    resnet_shapes,
)

FC = {"encoder.encoder.fc.weight", "encoder.encoder.fc.bias"}


def biovil(path: Path, **changes) -> dict[str, torch.Tensor]:
    """Write a small BioViL image file, some tensors changed, those that are None left out."""
    weights = drawn(biovil_image_shapes()) | changes
    weights = {name: value for name, value in weights.items() if value is not None}
    torch.save(weights, path)
    return weights


def read_image(path: Path, imagenet: bool = False, projection: int = 6, seed: int = 0):
    return read_released_image(path, imagenet, projection, seed)


@pytest.mark.parametrize(
    ("file", "shapes", "kind"),
    [
        ("biovil_image_resnet50", biovil_image_shapes(64, (3, 4, 6, 3), 128), ResNetSettings),
        (
            "biovil_t_image_model",
            biovil_t_image_shapes(64, (3, 4, 6, 3), 128, 256),
            MultiImageSettings,
        ),
    ],
)
def test_the_published_files_have_these_names_and_shapes(tmp_path, file, shapes, kind):
    """At their real sizes: ResNet-50 with fc, 128 in the joint space; BioViL-T: three blocks."""
    path = tmp_path / f"{file}_proj_size_128.pt"
    torch.save({name: torch.zeros(shape) for name, shape in shapes.items()}, path)
    image, new = read_image(path)
    assert new == [] and image.settings == kind()
    known = {name: shape for name, shape in shapes.items() if name not in FC}
    assert {name: tuple(v.shape) for name, v in image.state_dict().items()} == known
    assert released_image_name(image.settings) == path.name
    exported = {name: tuple(value.shape) for name, value in released_image(image).items()}
    assert exported == shapes


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("encoder.encoder.fc.weight", None, "encoder.encoder.fc.weight is missing"),
        ("encoder.encoder.fc.bias", torch.zeros(14), "fc.bias has shape [14], expected [1000]"),
        ("encoder.encoder.conv1.weight", None, "encoder.encoder.conv1.weight is missing"),
        ("encoder.encoder.conv1.weight", torch.zeros(3), "conv1.weight has shape [3]"),
        ("encoder.encoder.layer2.1.bn3.running_var", None, "bn3.running_var is missing"),
        ("encoder.encoder.bn1.num_batches_tracked", None, "num_batches_tracked is missing"),
        ("encoder.encoder.bn1.weight", torch.zeros(9), "bn1.weight has shape [9], expected [8]"),
        ("projector.model.1.bias", None, "projector.model.1.bias is missing"),
        ("projector.model.3.weight", None, "projector.model.3.weight is missing"),
        ("encoder.missing_previous_emb", torch.zeros(2), "previous_emb belongs to no parameter"),
    ],
)
def test_a_file_that_is_not_whole_is_refused_by_name(tmp_path, name, value, said) -> None:
    path = tmp_path / "image.pt"
    biovil(path, **{name: value})
    with pytest.raises(InputError) as raised:
        read_image(path)
    assert str(raised.value).startswith(f"{path}: ") and said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_stage_that_is_gone_is_missing_by_name(tmp_path: Path) -> None:
    gone = {n: None for n in biovil_image_shapes() if n.startswith("encoder.encoder.layer3.")}
    biovil(tmp_path / "image.pt", **gone)
    with pytest.raises(InputError, match=r"encoder\.encoder\.layer3\.0\.conv1\.weight is missing"):
        read_image(tmp_path / "image.pt")


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_imagenet_gives_the_trunk_and_the_seed_the_projection(tmp_path, counted, suffix) -> None:
    from safetensors.torch import save_file

    weights = drawn(resnet_shapes(8, (1, 1, 2, 1)))
    if not counted:  # torchvision's first files are older than the counters
        weights = {n: v for n, v in weights.items() if not n.endswith("num_batches_tracked")}
    path = tmp_path / f"resnet50{suffix}"
    torch.save(weights, path) if suffix == ".pth" else save_file(weights, path)
    image, new = read_image(path, imagenet=True)
    own = image.state_dict()
    counters = {n for n in own if n.startswith("encoder.") and n.endswith("batches_tracked")}
    expected = {n for n in own if n.startswith("projector.")} | (set() if counted else counters)
    assert set(new) == expected and image.settings.projection == 6
    for name, value in weights.items():
        if not name.startswith("fc."):
            assert torch.equal(own[f"encoder.encoder.{name}"], value)
    if not counted:
        assert all(own[name] == 0 for name in counters)
    again, other = (read_image(path, imagenet=True, seed=seed)[0].state_dict() for seed in (0, 1))
    assert torch.equal(again["projector.model.0.weight"], own["projector.model.0.weight"])
    assert not torch.equal(other["projector.model.0.weight"], own["projector.model.0.weight"])


def test_one_counter_is_not_missing_by_age(tmp_path: Path) -> None:
    weights = drawn(resnet_shapes(8, (1, 1, 1, 1)))
    del weights["layer1.0.bn1.num_batches_tracked"]
    torch.save(weights, tmp_path / "resnet.pth")
    with pytest.raises(InputError, match="layer1.0.bn1.num_batches_tracked is missing"):
        read_image(tmp_path / "resnet.pth", imagenet=True)


@pytest.mark.parametrize(
    "settings",
    [
        ResNetSettings(layers=(1, 1, 1, 1), width=8, dilate=(False, False, True)),
        ResNetSettings(
            block="basic", layers=(1, 2, 1, 1), width=8, channels=1, stem_pool=False, projection=5
        ),
    ],
)
def test_sizes_that_weights_do_not_tell_stand_beside_them(tmp_path: Path, settings) -> None:
    torch.manual_seed(0)
    image = ImageEncoder(settings).eval()
    path = tmp_path / released_image_name(settings)
    torch.save(released_image(image), path)
    plain, _ = read_image(path)
    hidden = {"dilate": (False, False, False), "stem_pool": True}
    assert plain.settings == settings.model_copy(update=hidden)
    write_json(path.with_suffix(".json"), settings.model_dump(mode="json"))
    back, new = read_image(path)
    assert new == [] and back.settings == settings
    frames = Frames(torch.rand(2, 1, 64, 64))
    with torch.no_grad():
        ours, theirs = image(frames), back.eval()(frames)
    assert torch.equal(ours.projected_global, theirs.projected_global)
    assert torch.equal(ours.projected_patches, theirs.projected_patches)
    other = settings.model_copy(update={"width": 16})
    write_json(path.with_suffix(".json"), other.model_dump(mode="json"))
    with pytest.raises(InputError, match="sizes of other weights"):
        read_image(path)


def test_names_tell_sizes_apart() -> None:
    small = ResNetSettings(block="basic", layers=(1, 1, 1, 1), width=16, projection=64)
    name = "biovil_image_basic1-1-1-1_width16_channels3_proj_size_64.pt"
    assert released_image_name(small) == name
    wider = ResNetSettings(projection=256)
    assert released_image_name(wider) == "biovil_image_resnet50_proj_size_256.pt"
