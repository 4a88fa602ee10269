"""A small world for the benchmark tests: pictures with one bright square, and a model that sees it.

The model has the interface of :class:`cxrflow.models.model.Model`. Its patch embedding is a
function of the patch's brightness, its text embedding of one word of the text, so what it should
score is known beforehand.
"""

from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from PIL import Image

from command_options import options
from cxr_files.atomic import write_json
from cxrflow.benchmarks.features import Features
from cxrflow.benchmarks.inputs import Cohort
from cxrflow.benchmarks.registry import BENCHMARKS
from cxrflow.benchmarks.result import Result
from cxrflow.benchmarks.runner import inputs_of, score
from cxrflow.encoders.image_encoder import Frames
from cxrflow.images.store import PixelStore
from cxrflow.images.store_pixels import main as store_pixels
from cxrflow.metrics.record import read_metrics
from cxrflow.similarity.cosine import Cosine
from cxrflow.similarity.similarity import EncodedTexts

SIZE = 64  # of the stored square
CELLS = 8  # of the grid
CATEGORIES = ("Pneumonia", "Edema", "Lung Opacity")
DATA = {"name": "tiny", "synthetic": True, "fingerprint": "f"}  # of a cohort
QUICK = {"intervals": {"replicates": 100}}
# An image encoder that compares two images, as small as can be.
TWO_IMAGES = {
    "kind": "multi_image",
    "block": "basic",
    "layers": [1, 1, 1, 1],
    "width": 8,
    "channels": 1,
    "projection": 8,
    "comparison": {"width": 16, "heads": 4, "feed_forward": 24, "blocks": 2},
}


def studies_of(impressions: Sequence[str | None], **columns: Any) -> pd.DataFrame:
    """Test pairs with these impressions, two studies a patient; ``columns``: further or others."""
    numbers = range(len(impressions))
    table = pd.DataFrame(
        {
            "subject_id": [f"p{n // 2}" for n in numbers],
            "study_id": [f"t{n}" for n in numbers],
            "image_id": [f"image{n}" for n in numbers],
            "split": "test",
            "findings": None,
            "impression": impressions,
        }
    )
    return table.assign(**columns)


def pairs_of_studies(labels: NDArray[np.float64], impressions: list[str]) -> pd.DataFrame:
    """The same with labels [N, C]."""
    return studies_of(impressions, labels=list(labels))


def settings_of(benchmark: str, values: Mapping[str, Any] | None = None) -> Any:
    """The settings of a benchmark with few resamples, and with these values."""
    return BENCHMARKS[benchmark].settings.model_validate({**QUICK, **(values or {})})


def stored(table: pd.DataFrame, pixels: Path, *classes: str) -> dict[str, Any]:
    """Contents for :func:`result_of`: a cohort of this table, and the store of its images."""
    return {"cohort": Cohort(table, DATA, classes), "pixels": PixelStore(pixels)}


def result_of(
    benchmark: str,
    settings: Any,
    folders: Namespace | None = None,
    reference: str | None = None,
    external: Path | None = None,
    least_share: float = 1.0,
    **contents: Any,
) -> Result:
    """The result by the runner; ``contents``: inputs that are not read from files.

    ``settings`` may be what differs from the defaults (:func:`settings_of`).
    """
    if isinstance(settings, dict):
        settings = settings_of(benchmark, settings)
    read = {"model": None, "cohort": Path("cohort"), "training": None, "benchmark": benchmark}
    read |= vars(folders or Namespace())
    inputs = inputs_of(benchmark, Namespace(**read), settings)
    vars(inputs).update(contents)
    result = score(benchmark, inputs, settings, reference, external, least_share)
    require_known(benchmark, result.metrics)
    return result


def require_known(benchmark: str, metrics: Iterable[str]) -> None:
    """Every metric is one that a table may read (:mod:`cxrflow.benchmarks.metric_names`)."""
    assert [name for name in metrics if not BENCHMARKS.measures(benchmark, name)] == []


def metrics_of(
    program: Callable[[list[str]], None], *words: str, output: Path, **values: Any
) -> dict[str, Any]:
    """metrics.json of a program with these options."""
    program([*words, *options(output=output, **values)])
    found = read_metrics(output / "metrics.json")
    require_known(found["benchmark"], found["metrics"])
    return found


def boxes_of(number: int) -> list[list[int]]:
    """Where picture ``number`` (96 high, 64 wide) is bright, in original pixels: whole cells."""
    return [[8 * (number % 5) + 8, 16 + 8 * (number // 5 % 5) + 8, 16, 16]]


def store_of(
    folder: Path,
    names: Iterable[str],
    geometry: str = f"shorter{SIZE}",
    root: str = "root",
    **settings: Any,
) -> Path:
    """A real pixel store of the PNG files below ``root``, each called as its image."""
    images = pd.DataFrame({"image_id": list(names)})
    images["image_path"] = images["image_id"] + ".png"
    images.to_parquet(folder / "images.parquet")
    asked = {"root": folder / root, "images": folder / "images.parquet", "settings": settings}
    store_pixels(options(**asked, geometry=geometry, output=folder / "pixels"))
    return folder / "pixels"


def make_store(folder: Path, count: int) -> Path:
    """Pictures of grey noise with a bright square, every third of them plain, and their store."""
    (folder / "root").mkdir(parents=True)
    rng = np.random.default_rng(0)
    for number in range(count):
        pixels = rng.integers(0, 60, size=(96, 64)).astype(np.uint8)
        if number % 3:
            (x, y, w, h) = boxes_of(number)[0]
            pixels[y : y + h, x : x + w] = rng.integers(200, 256, size=(h, w))
        pixels[0, :2] = (0, 255)  # the whole range, so that intensities are kept as they are
        Image.fromarray(pixels).save(folder / f"root/image{number}.png")
    return store_of(folder, (f"image{number}" for number in range(count)))


def write_cohort(
    folder: Path, file: str, table: pd.DataFrame, classes: Sequence[str] = ("Pneumonia",)
) -> Path:
    """A cohort folder with its flow.json."""
    folder.mkdir(parents=True, exist_ok=True)
    table.to_parquet(folder / file)
    said = {"dataset": "tiny", "synthetic": True, "classes": list(classes)}
    write_json(folder / "flow.json", said)
    return folder


def grounding_samples(count: int) -> pd.DataFrame:
    """One phrase for each picture that has a bright square."""
    numbers = [number for number in range(count) if number % 3]
    return pd.DataFrame(
        {
            "sample_id": [f"s{n}" for n in numbers],
            "subject_id": [f"p{n // 2}" for n in numbers],
            "image_id": [f"image{n}" for n in numbers],
            "phrase": ["bright area, a secret phrase"] * len(numbers),
            "category": [CATEGORIES[n % len(CATEGORIES)] for n in range(len(numbers))],
            "boxes": [boxes_of(n) for n in numbers],
            "image_width": 64,
            "image_height": 96,
            "split": "test",
        }
    )


def classification_samples(count: int) -> pd.DataFrame:
    """Every picture, positive when it has a bright square; two kinds of negatives."""
    negatives = ("Normal", "No Lung Opacity / Not Normal")
    return pd.DataFrame(
        {
            "sample_id": [f"s{n}" for n in range(count)],
            "subject_id": None,
            "group_id": None,
            "image_id": [f"image{n}" for n in range(count)],
            "labels": [[float(n % 3 > 0)] for n in range(count)],
            "subgroup": ["Lung Opacity" if n % 3 else negatives[n % 2] for n in range(count)],
            "split": ["test" if n % 5 else "train" for n in range(count)],
        }
    )


class CosineModel:
    """Compares what ``encode_text`` gives by the cosine."""

    similarity = Cosine()
    encode_text: Callable[..., torch.Tensor]

    def encode_texts(self, texts: list[str]) -> EncodedTexts:
        return EncodedTexts(self.encode_text(texts))


class NamedModel(CosineModel):
    """Embeds a text as a direction of its own, whatever it says."""

    def encode_text(self, texts: list[str]) -> torch.Tensor:
        seeds = [sum(map(ord, text)) for text in texts]
        drawn = [np.random.default_rng(seed).normal(size=6) for seed in seeds]
        return torch.nn.functional.normalize(torch.tensor(np.stack(drawn)), dim=1)


CLASSES = ("Edema", "Mass", "No Finding")


def several_classes(count: int) -> tuple[pd.DataFrame, Features]:
    """Images of studies of two, labelled with three classes: 1, 0, -1 and not at all."""
    rng = np.random.default_rng(5)
    labels = rng.choice([1, 0, -1, np.nan], size=(count // 2, 3), p=[0.4, 0.4, 0.1, 0.1])
    table = pd.DataFrame(
        {
            "sample_id": [f"s{n}" for n in range(count)],
            "subject_id": None,
            "group_id": [f"g{n // 2}" for n in range(count)],
            "image_id": [f"image{n}" for n in range(count)],
            "labels": list(np.repeat(labels, 2, axis=0)),
            "subgroup": None,
            "split": ["train" if n % 4 < 2 else "test" for n in range(count)],
        }
    )
    drawn = rng.normal(size=(count, 6)) + np.nan_to_num(np.repeat(labels, 2, axis=0)) @ (
        rng.normal(size=(3, 6))
    )
    projected = torch.nn.functional.normalize(torch.tensor(drawn), dim=1)
    by_kind = {"pooled": torch.tensor(drawn).float(), "projected": projected}
    return table, Features(table[["image_id"]], by_kind, "shorter64", "pixels")


@dataclass
class FakeModel(CosineModel):
    """Brightness on a circle: dark patches point to (1, 0), bright ones to (0, 1)."""

    geometry: str = f"shorter{SIZE}"
    run: dict = field(default_factory=lambda: {"model": "fake"})
    device: torch.device = torch.device("cpu")
    folder: Path = Path("no model folder")

    takes_prior = False
    limits = None

    def encode_image(self, frames: Frames) -> SimpleNamespace:
        pixels = frames.current
        assert pixels.dtype == torch.float32 and pixels.shape[1:] == (1, SIZE, SIZE)
        assert pixels.min() >= 0 and pixels.max() <= 1
        bright = torch.nn.functional.avg_pool2d(pixels, SIZE // CELLS)[:, 0]
        angle = bright * torch.pi / 2
        patches = torch.stack([angle.cos(), angle.sin()], dim=-1)
        pooled = patches.mean(dim=(1, 2))
        return SimpleNamespace(
            projected_patches=patches,
            unnormalised_patches=patches,
            projected_global=torch.nn.functional.normalize(pooled, dim=1),
        )

    def encode_text(self, texts: list[str]) -> torch.Tensor:
        dark = torch.tensor([text.lower().startswith("no ") for text in texts])
        return torch.nn.functional.one_hot((~dark).long(), 2).float()

    def similarity_map(self, frames: Frames, texts: list[str]) -> torch.Tensor:
        patches = self.encode_image(frames).projected_patches
        return torch.einsum("bhwp,bp->bhw", patches, self.encode_text(texts))
