"""The images of one split: on the device for the whole run where they fit, else read as needed.

Where they do not fit, the pixels of each batch come from the store's memory-mapped files: nothing
is decoded, but a batch is copied from the page cache or the disk. Batches are the same, byte for
byte.
"""

import logging
from collections.abc import Iterable

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrflow.errors import InputError
from cxrflow.images.free_memory import free_memory
from cxrflow.images.store import PixelStore
from cxrflow.training.memory import explained

log = logging.getLogger("cxrflow")

SMALLER_IMAGES = "a smaller image geometry"

#: The most of a device's free memory that images stay in; a run needs the rest to train.
RESIDENT_SHARE = 0.5


class SplitImages:
    """N stored images, uint8 [N, S, S], and the keys their augmentation is drawn by, int64 [N].

    ``pixels`` is None where they are read batch by batch.
    """

    def __init__(self, store: PixelStore, image_ids: Iterable[str], device: torch.device) -> None:
        self.store, self.device = store, device
        self.rows = store.rows(image_ids)
        self.keys = torch.as_tensor(self.rows, device=device)
        self.pixels: Tensor | None = None
        need, free = len(self.rows) * store.size**2, free_memory(device)
        resident = need <= RESIDENT_SHARE * free
        log.info(
            "%s: %d images, %.1f GiB, %s; %s has %.1f GiB free",
            store.path,
            len(self.rows),
            need / 2**30,
            f"stay on {device}" if resident else "are read batch by batch",
            device,
            free / 2**30,
        )
        if resident:
            remedies = (SMALLER_IMAGES, "training.device: cpu where that has more memory")
            with explained(f"{store.path}, {len(self.rows)} images", device, remedies):
                self.pixels = store.resident(device, self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, batch: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Pixels uint8 [B, S, S] and keys [B] of a batch of positions."""
        positions = torch.as_tensor(batch, device=self.device)
        pixels = self._read(batch) if self.pixels is None else self.pixels[positions]
        return pixels, self.keys[positions]

    def _read(self, batch: NDArray[np.int64]) -> Tensor:
        # From pinned memory the copy to a GPU runs beside what the GPU still has to do.
        pinned = self.device.type == "cuda"
        shape = (len(batch), self.store.size, self.store.size)
        pixels = torch.empty(shape, dtype=torch.uint8, pin_memory=pinned)
        self.store.read(self.rows[batch], out=pixels.numpy())
        return pixels.to(self.device, non_blocking=pinned)


def other_patients(subjects: pd.Series, seed: int) -> np.ndarray:
    """For the shuffled control: for each of N studies one of another patient, int64 [N].

    Studies stand patient by patient, patients in random order, and are shifted by the largest
    number of studies a patient has: a permutation that leaves no image with its own patient's text.
    """
    patients = subjects.astype(str).to_numpy()
    names, numbers, counts = np.unique(patients, return_inverse=True, return_counts=True)
    order = np.argsort(np.random.default_rng([seed, len(names)]).permutation(len(names))[numbers])
    partner = np.empty(len(patients), dtype=np.int64)
    partner[order] = np.roll(order, int(counts.max()))
    if (patients[partner] == patients).any():
        raise InputError(
            f"shuffled_pairs: {counts.max()} of {len(patients)} studies belong to one patient; "
            "the control needs at most half"
        )
    return partner
