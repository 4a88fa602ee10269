"""Image features from files to files: those of the model, one row an image, of these weights."""

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_fakes import SIZE, classification_samples, write_cohort
from PIL import Image
from safetensors.torch import load_file, save_file

from command_options import options
from cxr_files.atomic import read_json, write_json
from cxr_files.errors import InputError
from cxrflow.benchmarks import features as program
from cxrflow.benchmarks.extract_features import main
from cxrflow.benchmarks.inputs import image_batches
from cxrflow.encoders import resnet
from cxrflow.encoders.image_encoder import Frames, ImageEncoder, save_image_encoder
from cxrflow.encoders.resnet import Trunk
from cxrflow.encoders.settings import ResNetSettings
from cxrflow.images.store import PixelStore
from cxrflow.models.model import Model

COUNT = 9
SIZES = ResNetSettings(block="basic", layers=(1, 1, 1, 1), width=8, channels=1, projection=6)


@pytest.fixture
def model(tmp_path):
    """A model folder with an image encoder."""
    folder = tmp_path / "models" / "seed0"
    torch.manual_seed(0)
    save_image_encoder(ImageEncoder(SIZES), folder)
    write_json(folder / "run.json", {"data": {"geometry": f"shorter{SIZE}"}})
    return folder


@pytest.fixture
def cohort(tmp_path):
    """Its first image twice, one image that is not stored."""
    table = classification_samples(COUNT)
    table.loc[4, "image_id"] = "absent"
    return write_cohort(tmp_path / "cohort", "samples.parquet", pd.concat([table, table[:1]]))


def extract(model, cohort, pixels, output, **settings):
    read = {"model": model, "cohort": cohort, "pixels": pixels}
    main(options(**read, settings=settings, output=output))


def test_features_are_those_of_the_model(model, cohort, pixels, tmp_path):
    extract(model, cohort, pixels, tmp_path / "out", batch_size=COUNT)
    found = program.read_features(tmp_path / "out", model)
    stored = [f"image{n}" for n in range(COUNT) if n != 4]
    assert list(found.encoded["image_id"]) == stored
    samples = pd.DataFrame({"image_id": stored})
    [(_, frames)] = image_batches(PixelStore(pixels), samples, COUNT)
    loaded = Model.load(model)
    # A loaded model runs with its batch normalisation folded into the convolutions.
    embedded = loaded.encode_image(frames).projected_global
    torch.testing.assert_close(found.by_kind["projected"], embedded, rtol=0, atol=1e-5)
    with torch.inference_mode():
        grid = loaded.image_encoder.encoder(frames).grid
    torch.testing.assert_close(found.by_kind["pooled"], grid.mean((2, 3)))
    said = read_json(tmp_path / "out" / "features.json")
    assert (said["images"], said["not_stored"]) == (8, 1)
    assert said["widths"] == {"pooled": 64, "projected": 6}
    np.testing.assert_array_equal(
        found.rows(pd.DataFrame({"image_id": ["image5", "absent", "image0"]})), [4, -1, 0]
    )


def test_an_encoder_can_be_trained_after_it_was_copied_to_a_device(pixels, monkeypatch):
    """A copy in memory stands for one on a GPU, which a module's parameters are replaced by."""

    def copied(image, device):
        with monkeypatch.context() as patched:
            patched.setattr(
                torch.__future__, "get_overwrite_module_params_on_conversion", lambda: True
            )
            return image._apply(torch.clone)

    monkeypatch.setattr(ImageEncoder, "to", copied)
    image, stored = ImageEncoder(SIZES), pd.DataFrame({"image_id": ["image0", "image1"]})
    program.encode(image, PixelStore(pixels), stored, 2, torch.device("cpu"))
    [(_, frames)] = image_batches(PixelStore(pixels), stored, 2)
    image.train()(frames).projected_global.sum().backward()
    assert all(p.grad is not None for p in image.encoder.parameters())


class Difference(Trunk):
    """Adds the pooled features of the prior, where there is one."""

    def forward(self, frames):
        current, prior = super().forward(Frames(frames.current)), frames.prior
        if prior is None:
            return current
        rows = slice(None) if frames.rows is None else frames.rows
        current.pooled[rows] += super().forward(Frames(prior)).pooled
        return current


def test_a_model_that_compares_has_features_of_pairs(model, cohort, pixels, tmp_path, monkeypatch):
    """Single where the prior is not stored, which is counted; once for each pair."""
    extract(model, cohort, pixels, tmp_path / "single")
    table = pd.read_parquet(cohort / "samples.parquet")
    table["prior_image_id"] = ["image7", None, "image7", "absent", *[None] * 5, "image8"]
    table.to_parquet(cohort / "samples.parquet")
    extract(model, cohort, pixels, tmp_path / "still single")
    monkeypatch.setattr(resnet, "Trunk", Difference)
    monkeypatch.setattr(ResNetSettings, "takes_prior", True)
    extract(model, cohort, pixels, tmp_path / "pairs")
    single, still, pairs = (
        program.read_features(tmp_path / name, model)
        for name in ("single", "still single", "pairs")
    )
    assert torch.equal(single.by_kind["pooled"], still.by_kind["pooled"])
    alone, compared = (one.by_kind["pooled"][one.rows(table)] for one in (single, pairs))
    earlier = single.by_kind["pooled"][single.rows(table.assign(image_id=table["prior_image_id"]))]
    known = [0, 2, 9]  # the last is the first image once more, with another prior
    torch.testing.assert_close(compared[known], alone[known] + earlier[known])
    rest = [1, 3, 5, 6, 7, 8]
    torch.testing.assert_close(compared[rest], alone[rest])
    said = read_json(tmp_path / "pairs" / "features.json")
    assert (said["images"], said["not_stored"], said["priors_not_stored"]) == (9, 1, 1)


def test_a_prior_is_for_models_that_compare(model, monkeypatch, tmp_path):
    pixels, earlier = torch.rand(2, 2, 1, SIZE, SIZE)
    with pytest.raises(InputError, match="a prior image was given, but the model encodes single"):
        Model.load(model).encode_image(pixels, earlier)
    with pytest.raises(ValueError, match="prior image was given to an encoder of one image"):
        ImageEncoder(SIZES)(Frames(pixels, earlier))
    file = tmp_path / "x.png"
    Image.fromarray((255 * pixels[0, 0]).round().byte().numpy()).save(file)
    alone = Model.load(model).encode_image(file)
    monkeypatch.setattr(resnet, "Trunk", Difference)
    monkeypatch.setattr(ResNetSettings, "takes_prior", True)
    loaded = Model.load(model)
    assert torch.equal(loaded.encode_image(file).pooled, alone.pooled)
    torch.testing.assert_close(loaded.encode_image(file, file).pooled, 2 * alone.pooled)
    both, second = Frames(pixels, earlier), Frames(pixels, earlier[1:], torch.tensor([1]))
    first, later = loaded.encode_image(pixels).pooled, loaded.encode_image(both).pooled
    mixed = loaded.encode_image(second).pooled
    torch.testing.assert_close(mixed, torch.stack([first[0], later[1]]))


def test_the_batch_size_is_no_part_of_the_result(model, cohort, pixels, tmp_path):
    found = []
    for size in (1, 4):
        extract(model, cohort, pixels, tmp_path / str(size), batch_size=size)
        found.append(program.read_features(tmp_path / str(size), model).by_kind)
    for kind in ("pooled", "projected"):
        torch.testing.assert_close(found[0][kind], found[1][kind])


def test_a_trunk_alone_has_pooled_features_only(model, cohort, pixels, tmp_path):
    extract(model, cohort, pixels, tmp_path / "whole")
    path = program.weights_file(model)
    weights = load_file(path)
    save_file({n: v for n, v in weights.items() if not n.startswith("projector.")}, path)
    extract(model, cohort, pixels, tmp_path / "trunk")
    found = program.read_features(tmp_path / "trunk", model).by_kind
    assert set(found) == {"pooled"}
    assert torch.equal(
        found["pooled"], load_file(tmp_path / "whole" / "features.safetensors")["pooled"]
    )


def test_features_of_other_weights_are_refused(model, cohort, pixels, tmp_path):
    extract(model, cohort, pixels, tmp_path / "out")
    torch.manual_seed(1)
    save_image_encoder(ImageEncoder(SIZES), model)
    with pytest.raises(InputError, match="field 'weights' is .*expected the features of this"):
        program.read_features(tmp_path / "out", model)


def test_damage_is_named(model, cohort, pixels, tmp_path):
    extract(model, cohort, pixels, tmp_path / "out")
    values = load_file(tmp_path / "out" / "features.safetensors")
    save_file({"pooled": values["pooled"][:3].clone()}, tmp_path / "out" / "features.safetensors")
    with pytest.raises(InputError, match="features.safetensors: damaged, its SHA-256"):
        program.read_features(tmp_path / "out", model)
    (tmp_path / "out" / "SHA256SUMS").unlink()
    with pytest.raises(InputError, match="'pooled' has 3 rows, but index.parquet has 8"):
        program.read_features(tmp_path / "out", model)
    (tmp_path / "out" / "features.safetensors").write_bytes(b"half")
    with pytest.raises(InputError, match="features.safetensors: cut off"):
        program.read_features(tmp_path / "out", model)
    program.weights_file(model).unlink()
    with pytest.raises(InputError, match="image/model.safetensors: file not found"):
        program.read_features(tmp_path / "out", model)


def test_wrong_input_leaves_nothing(model, cohort, pixels, tmp_path):
    write_json(model / "run.json", {"data": {"geometry": "square32"}})
    with pytest.raises(InputError, match=f"shorter{SIZE}.*trained on square32"):
        extract(model, cohort, pixels, tmp_path / "out")
    write_json(model / "run.json", {"data": {}})
    with pytest.raises(InputError, match="run.json: field data.geometry is missing"):
        extract(model, cohort, pixels, tmp_path / "out")
    write_json(model / "run.json", {"data": {"geometry": f"shorter{SIZE}"}})
    classification_samples(3).assign(image_id="absent").to_parquet(cohort / "samples.parquet")
    with pytest.raises(InputError, match="no sample is left: image is not in the pixel store"):
        extract(model, cohort, pixels, tmp_path / "out")
    assert not (tmp_path / "out").exists()
