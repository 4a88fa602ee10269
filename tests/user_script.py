"""What a user of the library writes: `make lint` reads it with mypy, test_library.py calls it."""

import numpy as np
import torch
from numpy.typing import NDArray

import cxrflow
from cxrflow import losses, metrics


def reports_with(observation: str, texts: list[str]) -> list[int]:
    """Numbers of the reports that state an observation."""
    labels = cxrflow.label(texts)
    return [int(row) for row in np.flatnonzero(labels[observation] == 1.0)]


def contrast(folder: str, image: NDArray[np.uint8], phrase: str, mask: NDArray[np.bool_]) -> float:
    """CNR of a phrase's map and an annotated region, on the map's own grid."""
    model = cxrflow.load(folder, device="cpu")
    similarity = model.similarity_map(image, [phrase])[0]
    return float(metrics.cnr(similarity.numpy(), mask))


def local_step(regions: torch.Tensor, words: torch.Tensor, lengths: list[int]) -> float:
    """A step of GLoRIA's local loss."""
    loss = losses.local_alignment(regions, words, lengths)
    loss.backward()
    return loss.item()


def stored(folder: str, image_ids: list[str]) -> NDArray[np.uint8]:
    """The pixels of some images of a store."""
    store = cxrflow.PixelStore(folder)
    return store.read(store.rows(image_ids))


def misspelt() -> None:
    """mypy refuses it: with any name let through, the comment would be an error of its own."""
    cxrflow.lable(["Edema."])  # type: ignore[attr-defined]
