"""The images of one split: on the device for the whole run where they fit, else read as needed.

Where they do not fit, the pixels of each batch come from the store's memory-mapped files: nothing
is decoded, but a batch is copied from the page cache or the disk. Batches are the same, byte for
byte. On a GPU it shows after the first step what there is room for.
"""

import logging

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxr_files.errors import InputError, PassingError
from cxrflow.compute.device_copy import sent
from cxrflow.compute.keyed_random import BITS, row_state, uniform
from cxrflow.encoders.image_encoder import Frames
from cxrflow.images.augment import StoredPixels
from cxrflow.images.free_memory import free_memory
from cxrflow.images.store import PixelStore
from cxrflow.pretrain.inputs import PRIOR
from cxrflow.training.memory import explained

log = logging.getLogger("cxrflow")

SMALLER_IMAGES = "a smaller image geometry"
STUDY_IMAGE = 48  # stream of the keyed draws of a study's image

#: The most of the host's free memory that images of a split stay in; a run needs the rest to train.
RESIDENT_SHARE = 0.5


class SplitImages:
    """StoredPixels images of N samples and, for a model that compares, those of their priors.

    ``samples`` has ``image_id`` and, with ``priors``, ``prior_image_id``; where that is missing or
    not stored, a sample has no prior. ``pixels`` are the different images, uint8 [M, S, S], or None
    where they are read batch by batch.
    """

    def __init__(
        self,
        store: PixelStore,
        samples: pd.DataFrame,
        device: torch.device,
        priors: bool = False,
    ) -> None:
        self.store, self.device = store, device
        self.rows = store.rows(samples["image_id"])
        self.priors = store.find(samples[PRIOR]) if priors else np.full(len(samples), -1)
        inside = store.inside()
        self._inside = None if inside is None else torch.from_numpy(inside).to(device)
        self.pixels: Tensor | None = None
        if device.type != "cuda":
            self.settle(int(RESIDENT_SHARE * free_memory(device)))

    def __len__(self) -> int:
        return len(self.rows)

    def settle(self, room: int) -> int:
        """Let the images stay on the device from now on if ``room`` bytes hold them; bytes taken.

        Another thread may be reading a batch meanwhile.
        """
        stored_rows = np.union1d(self.rows, self.priors[self.priors >= 0])
        need = len(stored_rows) * self.store.size**2
        pixels = self._resident(stored_rows) if need <= room else None
        log.info(
            "%s: %d images, %.1f GiB, %s; %s has %.1f GiB for them",
            self.store.path,
            len(stored_rows),
            need / 2**30,
            "are read batch by batch" if pixels is None else f"stay on {self.device}",
            self.device,
            room / 2**30,
        )
        if pixels is None:
            return 0
        self._places = np.zeros(len(self.store), np.int64)
        self._places[stored_rows] = np.arange(len(stored_rows))
        self.pixels = pixels
        return need

    @property
    def have_priors(self) -> bool:
        """True if some samples have a prior: then batches differ in their number of images."""
        return bool((self.priors >= 0).any())

    def drawn(self, samples: NDArray[np.int64], seed: int, epoch: int) -> NDArray[np.int64]:
        """Return the rows of the images that stand for ``samples`` in an epoch: their own."""
        return samples

    def take(self, batch: NDArray[np.int64]) -> Frames[StoredPixels]:
        """The images of a batch of positions; a prior is augmented by the key of its current."""
        with_prior = np.flatnonzero(self.priors[batch] >= 0)
        frames = Frames(self._stored(self.rows[batch], self.rows[batch]))
        if not len(with_prior):
            return frames
        earlier = self._stored(self.priors[batch[with_prior]], self.rows[batch[with_prior]])
        return frames._replace(prior=earlier, rows=self._there(with_prior))

    def _stored(self, rows: NDArray[np.int64], keys: NDArray[np.int64]) -> StoredPixels:
        boxes = None if self._inside is None else self._inside[self._there(rows)]
        pixels = self.pixels
        if pixels is None:
            return StoredPixels(self._read(rows), self._there(keys), boxes)
        return StoredPixels(pixels[self._there(self._places[rows])], self._there(keys), boxes)

    def _resident(self, rows: NDArray[np.int64]) -> Tensor | None:
        """All images of ``rows`` on the device; None where a GPU's room is in pieces."""
        shape = (len(rows), self.store.size, self.store.size)
        try:
            with explained(f"{self.store.path}, {len(rows)} images", self.device, [SMALLER_IMAGES]):
                pixels = torch.empty(shape, dtype=torch.uint8, device=self.device)
        except PassingError:
            if self.device.type != "cuda":
                raise
            return None
        step = 1024  # bounds the copy in host memory
        for start in range(0, len(rows), step):
            read = self.store.read(rows[start : start + step])
            pixels[start : start + step] = torch.from_numpy(read)
        return pixels

    def _there(self, numbers: NDArray[np.int64]) -> Tensor:
        return sent(torch.from_numpy(numbers), self.device)

    def _read(self, rows: NDArray[np.int64]) -> Tensor:
        # From pinned memory the copy to a GPU runs beside what the GPU still has to do.
        pinned = self.device.type == "cuda"
        shape = (len(rows), self.store.size, self.store.size)
        pixels = torch.empty(shape, dtype=torch.uint8, pin_memory=pinned)
        self.store.read(rows, out=pixels.numpy())
        return pixels.to(self.device, non_blocking=pinned)


class StudyImages(SplitImages):
    """The images of N studies; ``images`` has ``study_id`` and ``image_id``, a row an image."""

    def __init__(
        self, store: PixelStore, images: pd.DataFrame, studies: pd.Series, device: torch.device
    ) -> None:
        super().__init__(store, images, device)
        rows_by_study = images.reset_index(drop=True).groupby("study_id").indices
        rows = [rows_by_study[study] for study in studies]
        self._counts = np.array([len(rows_of_study) for rows_of_study in rows], dtype=np.int64)
        self._first = np.cumsum(self._counts) - self._counts
        self._images = np.concatenate(rows)

    def __len__(self) -> int:
        return len(self._counts)

    def drawn(self, studies: NDArray[np.int64], seed: int, epoch: int) -> NDArray[np.int64]:
        """Return the row of one image of each study, drawn evenly from the study's images."""
        state = row_state(torch.from_numpy(studies), seed, epoch, STUDY_IMAGE)
        numbers = uniform(state, torch.zeros(1, dtype=torch.int64)).numpy()
        return self._images[self._first[studies] + (numbers * self._counts[studies] >> BITS)]


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
