"""Every task shows a model's images as the validation of its recipe did."""

from argparse import Namespace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from config_overlays import DEMO
from PIL import Image
from torch import Tensor

from cxr_files.atomic import write_json
from cxr_files.errors import InputError
from cxrflow.benchmarks.inputs import image_batches
from cxrflow.benchmarks.model_pixels import model_pixels, stored_squares
from cxrflow.benchmarks.runner import inputs_of
from cxrflow.config import make_config
from cxrflow.config.configuration import Config
from cxrflow.encoders.image_encoder import ImageEncoder, save_image_encoder
from cxrflow.encoders.settings import ResNetSettings
from cxrflow.images.augment import Augmentation
from cxrflow.images.store import PixelStore
from cxrflow.images.store_pixels import main as store_pixels
from cxrflow.models.model import Model
from cxrflow.papers import paper_names
from cxrflow.pretrain.resident_images import SplitImages

SHAPES = ((200, 140), (150, 150), (120, 170))  # height and width of the pictures
SAMPLES = pd.DataFrame({"image_id": [f"image{number}" for number in range(len(SHAPES))]})


def configuration() -> Config:
    changed = {"papers": paper_names(), "extent": "all"}
    return make_config({**yaml.safe_load(DEMO.read_text()), **changed}, [DEMO])


CONFIG = configuration()
SEEING = [
    name
    for name, model in CONFIG.models.items()
    if model.recipe.geometry is not None and model.recipe.share == 100 and model.trainable
]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Bright pictures, so that black is padding, in every geometry of the demonstration."""
    folder = tmp_path_factory.mktemp("views")
    rng = np.random.default_rng(0)
    for name, shape in zip(SAMPLES["image_id"], SHAPES, strict=True):
        grey = rng.integers(200, 256, shape).astype(np.uint8)
        grey[:2, :2] = (0, 255)  # the whole range, so that intensities are kept
        Image.fromarray(grey).save(folder / f"{name}.png")
    listed = SAMPLES.assign(image_path=SAMPLES["image_id"] + ".png")
    listed.to_parquet(folder / "images.parquet")
    geometries = {str(CONFIG.models[name].geometry) for name in SEEING}
    for geometry in geometries:
        store_pixels(
            ["--root", str(folder), "--images", str(folder / "images.parquet")]
            + ["--geometry", geometry, "--output", str(folder / geometry)]
        )
    return {geometry: folder / geometry for geometry in geometries}


def write_run(folder: Path, name: str) -> Path:
    """A model folder with what a training records of its images."""
    model = CONFIG.models[name]
    folder.mkdir(exist_ok=True)
    record = {"settings": model.settings.record(), "data": {"geometry": model.geometry}}
    write_json(folder / "run.json", {"model": name, **record})
    return folder


def validated(store: Path, name: str) -> Tensor:
    """The images as the program of the recipe validates: from its store, without a draw."""
    settings = CONFIG.models[name].settings
    stored = SplitImages(PixelStore(store), SAMPLES, torch.device("cpu")).take(np.arange(3)).current
    return Augmentation(settings.augmentation).centre(stored)  # type: ignore[attr-defined]


def read(pixels: object) -> Tensor:
    [(_, frames)] = image_batches(pixels, SAMPLES, len(SAMPLES))  # type: ignore[arg-type]
    return frames.current


@pytest.mark.parametrize("name", [n for n in SEEING if CONFIG.models[n].recipe.kind.learns])
def test_tasks_show_what_validation_shows(
    name: str, stores: dict[str, Path], tmp_path: Path
) -> None:
    folder = stores[str(CONFIG.models[name].geometry)]
    model, expected = write_run(tmp_path / "model", name), validated(folder, name)
    torch.testing.assert_close(read(model_pixels(folder, model)), expected, rtol=0, atol=1e-6)
    options = Namespace(model=model, pixels=folder, cohort=tmp_path)
    tasks = [task for task in CONFIG.library.tasks if CONFIG.tasks[task].scores(name)]
    assert tasks
    for task in (CONFIG.tasks[task] for task in tasks):
        if task.benchmark.reads != "pixels" or getattr(task.settings, "geometry", None):
            continue  # it reads features, which are those above, or states its own pixels
        inputs = inputs_of(task.task.benchmark, options, task.settings)
        torch.testing.assert_close(read(inputs.pixels), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "name", ["convirt/convirt", "convirt/convirt_supervised", "convirt/random"]
)
def test_nothing_of_the_padding_is_shown(
    name: str, stores: dict[str, Path], tmp_path: Path
) -> None:
    """Not of the recipes of ConVIRT's paper, nor of weights that were never trained on images."""
    folder = stores["longer128unpadded"]
    pixels = model_pixels(folder, write_run(tmp_path / "model", name))
    shown, stored = read(pixels), PixelStore(folder).read(np.arange(3)) / 255
    assert shown[0].median() > 0.7 and (shown < 0.5).float().mean() < 0.02
    assert (stored[0] < 0.5).mean() > 0.2
    assert shown.shape[2] == (128 if name == "convirt/random" else 112)
    with pytest.raises(InputError, match="expected one that sees stored squares"):
        stored_squares(pixels)


def test_a_loaded_model_sees_files_so_too(stores: dict[str, Path], tmp_path: Path) -> None:
    name, folder = "convirt/convirt", stores["longer128unpadded"]
    sizes = ResNetSettings(block="basic", layers=(1, 1, 1, 1), width=8, channels=1)
    save_image_encoder(ImageEncoder(sizes), tmp_path / "model")
    model = Model.load(write_run(tmp_path / "model", name))
    files = [folder.parent / f"{image}.png" for image in SAMPLES["image_id"]]
    shown = model._pixels(files)
    torch.testing.assert_close(shown, validated(folder, name), rtol=0, atol=1e-6)
