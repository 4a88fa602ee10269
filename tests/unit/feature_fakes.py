"""Features of the benchmark tests' pictures, as their fake model sees them."""

from pathlib import Path

import torch
from benchmark_fakes import FakeModel

from cxr_files.atomic import file_digest
from cxrflow.benchmarks.features import Features, weights_file, write_features
from cxrflow.benchmarks.inputs import image_batches
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
