"""The images of one split, on the device for the whole run; a batch is an index into them."""

from collections.abc import Iterable

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from cxrflow.errors import InputError
from cxrflow.images.store import PixelStore
from cxrflow.training.memory import explained

SMALLER_IMAGES = "a smaller image geometry"


class ResidentImages:
    """N stored images, uint8 [N, S, S], and the keys their augmentation is drawn by, int64 [N]."""

    def __init__(self, store: PixelStore, image_ids: Iterable[str], device: torch.device) -> None:
        rows = store.rows(image_ids)
        remedies = (SMALLER_IMAGES, "training.device: cpu where that has more memory")
        with explained(f"{store.path}, {len(rows)} images", device, remedies):
            self.pixels = store.resident(device, rows)
            self.keys = torch.as_tensor(rows, device=device)

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, batch: np.ndarray) -> tuple[Tensor, Tensor]:
        """Pixels uint8 [B, S, S] and keys [B] of a batch of positions."""
        positions = torch.as_tensor(batch, device=self.keys.device)
        return self.pixels[positions], self.keys[positions]


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
