"""Reference rows of linear probes: plain features of the pixels in an encoder's place.

Each takes the place of a model's features and goes through the same probe as a model's, so that
what a trained encoder adds stands beside it. Not in the papers.
"""

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from cxrflow.benchmarks.classification.linear_probe import probed
from cxrflow.benchmarks.classification.probe_settings import LinearProbeSettings
from cxrflow.benchmarks.features import Features
from cxrflow.benchmarks.inputs import Pixels, read_frames
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import Predictions
from cxrflow.metrics.intervals import Floats

_BATCH = 256
_BINS, _THUMBNAIL, _RANDOM_INPUT, _RANDOM = 32, 8, 32, 512


def thumbnails(images: NDArray[np.uint8], size: int) -> Floats:
    """Mean brightness [N, size * size] in [0, 1] of the cells of square images [N, S, S]."""
    scaled = torch.from_numpy(images.astype(np.float64) / 255)
    cells = torch.nn.functional.adaptive_avg_pool2d(scaled, size)
    return cells.flatten(1).numpy()


def intensities(images: NDArray[np.uint8]) -> Floats:
    """The share [N, 32] of pixels of each brightness: what is known without any place."""
    flat = images.reshape(len(images), -1).astype(np.int64) * _BINS // 256
    offsets = np.arange(len(images))[:, None] * _BINS
    counted = np.bincount((flat + offsets).ravel(), minlength=len(images) * _BINS)
    return counted.reshape(len(images), _BINS) / flat.shape[1]


def random_features(images: NDArray[np.uint8]) -> Floats:
    """512 random cosines of the image at 32 x 32 (Rahimi and Recht 2007): nothing is learnt."""
    rng = np.random.default_rng(0)
    inputs = thumbnails(images, _RANDOM_INPUT)
    # A kernel width of the order of the distance between two images.
    weights = rng.normal(0, 1 / (0.2 * _RANDOM_INPUT), (inputs.shape[1], _RANDOM))
    return np.sqrt(2 / _RANDOM) * np.cos(inputs @ weights + rng.uniform(0, 2 * np.pi, _RANDOM))


def described(name: str, images: NDArray[np.uint8]) -> Floats:
    """The features [N, F] of one reference row for images [N, S, S]."""
    if name == "nothing":
        return np.zeros((len(images), 1))
    if name == "thumbnail":
        return thumbnails(images, _THUMBNAIL)
    return intensities(images) if name == "intensity" else random_features(images)


def stored_features(name: str, pixels: Pixels, image_ids: pd.Series) -> torch.Tensor:
    """The same [N, F] of images of a pixel store, float32."""
    rows = pixels.rows(image_ids)
    starts = range(0, len(rows), _BATCH)
    blocks = [described(name, shown(pixels, rows[i : i + _BATCH])) for i in starts]
    return torch.from_numpy(np.concatenate(blocks)).float()


def shown(pixels: Pixels, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return images [N, S, S] of a store, as an encoder that has learnt nothing sees them."""
    frames = read_frames(pixels, rows, np.full(len(rows), -1))
    return (frames.current[:, 0] * 255).round().byte().numpy()


def plain_features(name: str, pixels: Pixels, table: pd.DataFrame) -> Features:
    """Return the features of a reference row, of those images of a table that are stored."""
    encoded = table[["image_id"]].drop_duplicates(ignore_index=True)
    encoded = encoded[pixels.holds(encoded["image_id"])].reset_index(drop=True)
    pooled = stored_features(name, pixels, encoded["image_id"])
    return Features(
        pd.DataFrame(encoded), {"pooled": pooled}, str(pixels.geometry), pixels.fingerprint
    )


def predict(name: str, inputs: ModelInputs, settings: LinearProbeSettings) -> Predictions:
    """Probe the features of a reference row."""
    inputs.features = plain_features(name, inputs.pixels, inputs.cohort.table)
    plain = settings.model_copy(update={"features": "pooled", "start": "zeros"})
    return probed(inputs, plain, [inputs.features])
