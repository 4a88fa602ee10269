"""What the three programs read: paired cohorts, encoders to start from, and their fingerprints."""

import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import nn

from cxrflow.encoders.cxr_bert import CXRBert
from cxrflow.encoders.image_encoder import ImageEncoder
from cxrflow.encoders.model import load_text_half
from cxrflow.encoders.settings import ImageEncoderSettings
from cxrflow.errors import InputError
from cxrflow.files import file_digest, read_json
from cxrflow.text.report_batch import sentences_of
from cxrflow.training.program import Losses

TOKENIZER_FILES = ("vocab.txt", "tokenizer.json", "tokenizer_config.json")


class Pairs:
    """``pairs.parquet`` of a cohort, by split, with what is known about its data set."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            frame = pd.read_parquet(self.path)
        except FileNotFoundError:
            raise InputError(f"{self.path}: file not found") from None
        self.frame = frame
        flow = self.path.with_name("flow.json")
        self.flow: dict[str, Any] = read_json(flow)

    def split(self, name: str, sections: tuple[str, ...] = ()) -> pd.DataFrame:
        """Rows of a split that have sentences in every one of ``sections``."""
        frame = self.frame[self.frame["split"] == name]
        for section in sections:
            frame = frame[[len(found) > 0 for found in sentences_of(frame, section)]]
        if frame.empty:
            raise InputError(
                f"{self.path}: no row of split '{name}' has text in {', '.join(sections)}"
                if sections
                else f"{self.path}: no row of split '{name}'"
            )
        return frame.reset_index(drop=True)

    def describe(self) -> dict[str, Any]:
        """What ``run.json`` says about the data."""
        return {
            "name": self.flow["dataset"],
            "cohort": self.flow["cohort"],
            "synthetic": bool(self.flow["synthetic"]),
            "fingerprint": file_digest(self.path)[:16],
        }


def start_text(folder: str | Path, dropout: float, attention_dropout: float) -> CXRBert:
    """A text encoder that goes on from a model folder, with this stage's dropout."""
    text = load_text_half(Path(folder))
    text.set_dropout(dropout, attention_dropout)
    return text


def start_image(folder: str | Path | None, settings: ImageEncoderSettings) -> ImageEncoder:
    """An image encoder whose trunk goes on from ``folder``; the projection is always new.

    SimCLR has no projection to the joint space (BioViL section 2.2 projects for joint training).
    The trunk keeps its sizes; dilation has no weights, so ``settings`` decides the grid.
    """
    if folder is None:
        return ImageEncoder(settings)
    source = Path(folder) / "image"
    known = ImageEncoderSettings.model_validate(read_json(source / "config.json"))
    known = known.model_copy(
        update={"projection": settings.projection, "dilate": settings.dilate}
    )
    image = ImageEncoder(known)
    load_trunk(image, source / "model.safetensors")
    return image


def load_trunk(image: ImageEncoder, path: Path) -> None:
    """Load the trunk's weights from a checkpoint that may hold a projection besides."""
    from safetensors.torch import load_file

    if not path.is_file():
        raise InputError(f"{path}: file not found")
    prefix = "encoder."
    weights = {
        name.removeprefix(prefix): value
        for name, value in load_file(path).items()
        if name.startswith(prefix)
    }
    try:
        image.encoder.load_state_dict(weights)
    except RuntimeError as error:
        raise InputError(f"{path}: {' '.join(str(error).split())}") from None


def copy_tokenizer(source: Path, target: Path) -> None:
    """Put the vocabulary beside the weights, so that the folder stands alone."""
    for name in TOKENIZER_FILES:
        if not (source / name).is_file():
            raise InputError(f"{source / name}: file not found")
        shutil.copy(source / name, target / name)


def model_fingerprint(folder: str | Path | None) -> str | None:
    """Digest of the weights a run starts from."""
    if folder is None:
        return None
    for name in ("model.safetensors", "image/model.safetensors"):
        path = Path(folder) / name
        if path.is_file():
            return file_digest(path)[:16]
    raise InputError(f"{folder}: holds no model.safetensors")


def seeded(seed: int) -> None:
    """Seed torch for the initial weights of a run."""
    torch.manual_seed(seed)


def mean_losses(parts: list[Losses]) -> dict[str, float]:
    """Validation means over batches, weighted by their samples."""
    total = sum(part.samples for part in parts)
    values: dict[str, float] = {}
    for part in parts:
        for name, value in {**part.terms, "loss": part.total}.items():
            values[name] = values.get(name, 0.0) + float(value) * part.samples / total
    return values


def move(modules: dict[str, nn.Module], device: torch.device) -> None:
    """Move every module of a program to the device it trains on."""
    for module in modules.values():
        module.to(device)
