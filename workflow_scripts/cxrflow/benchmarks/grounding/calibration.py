"""Peaks of a phrase's maps in images without its findings, with which a peak is compared.

Every map has a greatest cosine, whether or not the phrase is true of the image. A model folder with
``calibration.safetensors`` holds the patches of a few hundred images and the labels of their
reports. With these any phrase has a peak in each image without its findings. An image's own peak is
given as the share of these peaks that it exceeds. Ours, not of a paper.

Shapes: N images, C observations, h x w grid, P width of the joint space.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor

from cxr_files.atomic import atomic_path
from cxr_labels.observations import OBSERVATIONS
from cxr_labels.scope.labeller import ScopeLabeller
from cxrflow.encoders.weights import require_dimensions, require_finite, require_weights
from cxrflow.images.geometry import Placement
from cxrflow.similarity.similarity import EncodedImages

FILE = "calibration.safetensors"
FEWEST = 20  # images; a share of fewer says too little
_NORMAL = OBSERVATIONS.index("No Finding")


@dataclass(frozen=True)
class Percentile:
    """The place of a peak among those of the same phrase in images without its findings."""

    share: float  # of them that it exceeds; equal ones count half
    images: int
    normal: bool  # the phrase names no finding that is read: images with a normal report


@dataclass(frozen=True)
class Calibration:
    """Images of a cohort as a model encodes them."""

    images: EncodedImages  # with patches
    inside_Nhw: Tensor  # bool: the cell's centre shows the image, not what pads it
    labels_NC: NDArray[np.float64]  # of the reports: 1, 0, -1 for uncertain, NaN if not named

    def without(self, findings: list[int]) -> NDArray[np.int64]:
        """Images whose reports do not name the findings, not even as uncertain.

        Without findings: images with a normal report.
        """
        if not findings:
            return np.flatnonzero(self.labels_NC[:, _NORMAL] == 1)
        named_NF = np.isin(self.labels_NC[:, findings], (1, -1))
        return np.flatnonzero(~named_NF.any(axis=1))

    @torch.inference_mode()
    def percentile(self, model: Any, phrase: str, text: str, peak: float) -> Percentile | None:
        """Return the place of ``peak``, or None with too few images.

        ``text`` is the phrase as the model reads it.
        """
        findings = findings_of(phrase)
        rows = self.without(findings)
        if len(rows) < FEWEST:
            return None
        maps_Mhw = model.similarity.maps(
            self.images.rows(rows).to(model.device), model.encode_texts([text])
        )
        inside_Mhw = self.inside_Nhw[rows].to(maps_Mhw.device)
        peaks_M = maps_Mhw.float().masked_fill(~inside_Mhw, -torch.inf).flatten(1).amax(dim=1)
        below = (peaks_M < peak).sum() + 0.5 * (peaks_M == peak).sum()
        return Percentile(float(below) / len(rows), len(rows), normal=not findings)

    def write(self, path: Path) -> None:
        """Write the file; patches as float16."""
        assert self.images.patches is not None
        tensors = {
            "embedding": self.images.embedding,
            "patches": self.images.patches.half(),
            "inside": self.inside_Nhw,
            "labels": torch.from_numpy(self.labels_NC),
        }
        with atomic_path(path) as temporary:
            save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, temporary)

    @classmethod
    def read(cls, folder: Path) -> "Calibration | None":
        """Read the calibration of a model folder; None if it has none."""
        path = folder / FILE
        if not path.is_file():
            return None
        require_weights(path)
        tensors = load_file(path)
        require_dimensions(tensors, {"embedding": 2, "patches": 4, "inside": 3, "labels": 2}, path)
        # Labels may be unknown.
        require_finite({name: tensors[name] for name in ("embedding", "patches")}, path)
        images = EncodedImages(tensors["embedding"], tensors["patches"].float())
        return cls(images, tensors["inside"], tensors["labels"].double().numpy())


def findings_of(phrase: str) -> list[int]:
    """Numbers of the observations that our labeller reads in a phrase, without "No Finding"."""
    (labels,) = ScopeLabeller().label([[phrase]])
    return [c for c, value in enumerate(labels) if value in (1, -1) and c != _NORMAL]


def shown_cells(placement: Placement, height: int, width: int) -> NDArray[np.bool_]:
    """Cells [h, w] of a grid whose centre shows the image, not what pads it."""
    left, top, shown_width, shown_height = placement.inside_stored()
    y_h, x_w = ((np.arange(n) + 0.5) * placement.size / n for n in (height, width))
    shown_h = (top <= y_h) & (y_h <= top + shown_height)
    shown_w = (left <= x_w) & (x_w <= left + shown_width)
    return np.asarray(shown_h[:, None] & shown_w)
