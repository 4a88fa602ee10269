"""Features of the benchmark tests' pictures, as their fake model sees them."""

from pathlib import Path

import torch
from benchmark_fakes import SIZE, FakeModel
from small_text import write_text_model

from cxr_files.atomic import file_digest, write_json
from cxrflow.benchmarks.features import Features, weights_file, write_features
from cxrflow.benchmarks.inputs import image_batches
from cxrflow.encoders.image_encoder import ImageEncoder, save_image_encoder
from cxrflow.encoders.settings import ResNetSettings
from cxrflow.images.store import PixelStore


def fake_features(pixels: Path) -> Features:
    """Every stored picture; pooled features are what is embedded, at another scale."""
    store = PixelStore(pixels)
    [(_, frames)] = image_batches(store, store.index, len(store))
    projected = FakeModel().encode_image(frames).projected_global
    by_kind = {"pooled": 3 * projected - 1, "projected": projected}
    return Features(store.index[["image_id"]], by_kind, FakeModel.geometry, store.fingerprint)


def write_fake(folder: Path, features: Features, has_text: bool = True) -> tuple[Path, Path]:
    """A model folder and a folder of its features; the weights are no more than a file."""
    model = folder / "fake" / "seed0"
    weights_file(model).parent.mkdir(parents=True)
    weights_file(model).write_bytes(b"weights")
    if has_text:
        (model / "config.json").write_text("{}")
    said = {"weights": file_digest(weights_file(model))[:16], "geometry": features.geometry}
    by_kind = {kind: torch.clone(values) for kind, values in features.by_kind.items()}
    write_features(
        folder / "features", features.encoded, by_kind, {**said, "pixels": features.pixels}
    )
    return model, folder / "features"


def write_both_encoders(folder: Path) -> Path:
    """A model folder with an encoder of images and one of text, of random weights."""
    folder.mkdir(exist_ok=True)
    write_text_model(folder)
    torch.manual_seed(0)
    sizes = {"block": "basic", "layers": [1, 1, 1, 1], "width": 8, "channels": 1}
    head = {"projection": 8, "projection_head": {"kind": "linear"}}
    save_image_encoder(ImageEncoder(ResNetSettings.model_validate(sizes | head)), folder)
    write_json(folder / "run.json", {"data": {"geometry": f"shorter{SIZE}"}})
    return folder
