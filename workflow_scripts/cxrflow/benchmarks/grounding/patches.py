"""The inputs of segmentation on RSNA: images with boxes, and the features of their patches.

BioViL sections 2.2 and 4.5. The features of a patch are its embedding in the joint space, of length
one, or the trunk's where a model has no projection. The annotation of an image is the union of its
boxes; a patch is annotated by the part of its pixels that lie in it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxr_files.errors import InputError
from cxrflow.benchmarks.grounding.region import Space, make_window
from cxrflow.benchmarks.inputs import Pixels, drop_rows, image_batches
from cxrflow.encoders.image_encoder import ImageEncoder
from cxrflow.images.geometry import Geometry
from cxrflow.similarity.similarity import EncodedImages

BOXED = (
    *("sample_id", "subject_id", "image_id", "boxes"),
    *("image_width", "image_height", "split"),
)


@dataclass(frozen=True)
class PatchEncoder:
    """An image encoder; its patches are projected to the joint space where it has a projection."""

    image: ImageEncoder
    device: torch.device

    @property
    def projects(self) -> bool:
        return self.image.projector is not None

    @torch.no_grad()
    def batches(
        self, pixels: Pixels, samples: pd.DataFrame, size: int
    ) -> Iterator[tuple[NDArray[np.int64], Tensor, EncodedImages | None]]:
        """Positions among the samples, their patches [B, h, w, F], float32 on the device.

        Beside them, where patches are projected, the images as a similarity compares them.
        """
        image = self.image.to(self.device)
        for positions, frames in image_batches(pixels, samples, size, image.takes_prior):
            frames = frames.each(lambda images: images.to(self.device))
            if self.projects:
                output = image(frames)
                yield positions, output.projected_patches, EncodedImages.of(output)
            else:
                yield positions, image.encoder(frames).grid.float().permute(0, 2, 3, 1), None

    def cells(
        self, pixels: Pixels, samples: pd.DataFrame, size: int
    ) -> tuple[Tensor, float, tuple[int, int]]:
        """Patches [N, h * w, F] of all images on the device, in units of a length; it; the grid.

        The trunk's are in units of their mean length; projected ones have a length of one. Half
        precision keeps 11 bits of a number in half the memory: at the papers' size the trunk's
        patches of the training images are 17 GB.
        """
        whole_NPF, grid = torch.empty(0), (0, 0)
        lengths: list[float] = []
        for positions, patches_BhwF, _ in self.batches(pixels, samples, size):
            patches_BPF = patches_BhwF.flatten(1, 2)
            if not lengths:
                grid = (patches_BhwF.shape[1], patches_BhwF.shape[2])
                shape = (len(samples), *patches_BPF.shape[1:])
                whole_NPF = torch.empty(shape, dtype=torch.float16, device=self.device)
            whole_NPF[positions[0] : positions[-1] + 1] = patches_BPF
            lengths += patches_BPF.norm(dim=2).mean(1).tolist()
        length = 1.0 if self.projects else float(np.mean(lengths))
        return whole_NPF.div_(length), length, grid


def images_with_boxes(
    table: pd.DataFrame, pixels: Pixels
) -> tuple[pd.DataFrame, list[dict[str, Any]]]:
    """The rows with a box whose image can be used, and what was left out of them.

    InputError when there are none.
    """
    samples = table[table["boxes"].map(len) > 0].reset_index(drop=True)
    # Parquet gives arrays of arrays.
    samples["boxes"] = samples["boxes"].map(lambda boxes: [list(map(float, b)) for b in boxes])
    if samples.empty:
        splits = ", ".join(sorted(table["split"].unique()))
        raise InputError(
            f"samples.parquet: column 'boxes' is empty in all {len(table)} rows of split {splits}; "
            "expected images with boxes"
        )
    stored = pixels.index.set_index("image_id").reindex(samples["image_id"])
    other_size = np.zeros(len(samples), dtype=bool)
    for side in ("height", "width"):
        other_size |= stored[f"original_{side}"].to_numpy() != samples[f"image_{side}"].to_numpy()
    return drop_rows(
        samples,
        {
            "image is not in the pixel store": ~pixels.holds(samples["image_id"].tolist()),
            "image is not the size that the boxes refer to": other_size,
        },
    )


def one_box_each(samples: pd.DataFrame) -> pd.DataFrame:
    """A row a box; its ``sample_id`` ends in the number of the box."""
    rows = samples.explode("boxes", ignore_index=True)
    number = rows.groupby("sample_id").cumcount().astype(str)
    rows["boxes"] = [[box] for box in rows["boxes"]]
    return rows.assign(sample_id=rows["sample_id"] + "/" + number)


def annotated_cells(
    samples: pd.DataFrame, geometry: Geometry, cells: tuple[int, int], space: Space
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Annotated part [N, h * w] of every cell, and whether the cell shows any image."""
    annotated, shows_image = [], []
    for sample in samples.to_dict("records"):
        placement = geometry.place(int(sample["image_height"]), int(sample["image_width"]))
        inside, total = make_window(cells, sample["boxes"], placement, space=space).cell_counts()
        annotated.append((inside / np.maximum(total, 1)).ravel())
        shows_image.append((total > 0).ravel())
    return np.stack(annotated), np.stack(shows_image)
