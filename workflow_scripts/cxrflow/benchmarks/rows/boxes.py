"""Baselines of maps: the boxes of other patients, a blob in the middle, brightness alone.

Their ceilings are told the boxes, or learn them (:mod:`cxrflow.benchmarks.rows.detector`).

Nobody has published them for MS-CXR. Each patient's maps of phrases are means over the boxes of all
*other* patients, so none is told its own answer; ``mean_box`` of segmentation is the mean of the
training images' boxes. ``second_reader`` is the human row: boxes of another radiologist, of the
phrases of which there are some.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxr_files.errors import InputError
from cxrflow.benchmarks.grounding.controls import place_words
from cxrflow.benchmarks.grounding.phrase_grounding import PhraseMaps
from cxrflow.benchmarks.grounding.region import box_mask
from cxrflow.benchmarks.grounding.segmentation import BoxedSplits, SegmentedMaps
from cxrflow.benchmarks.grounding.segmentation_scores import ZERO_SHOT
from cxrflow.benchmarks.inputs import Inputs, Pixels
from cxrflow.benchmarks.rows.detector import (
    DETECTOR,
    detect,
    detect_in_folds,
    in_cells,
    surroundings,
)
from cxrflow.benchmarks.rows.row import Row
from cxrflow.benchmarks.rows.truth import ORACLE
from cxrflow.images.geometry import Geometry
from cxrflow.metrics.grounding import rescale_minmax
from cxrflow.metrics.intervals import clusters_of

Maps = NDArray[np.float64]
_MOST_CELLS = 32
SECOND_READER, SECOND_BOXES = "second_reader", "second_boxes"


class Phrases(Row):
    """Maps of phrases, by boxes; of the detector also by the image."""

    def restrict(self, inputs: Inputs) -> None:
        """Keep the phrases of which a second reader has drawn boxes, if that is the row."""
        if self.name != SECOND_READER:
            return
        table = inputs.cohort.table
        if SECOND_BOXES not in table:
            raise InputError(
                f"{inputs.source}: column '{SECOND_BOXES}' is missing; expected a data set whose "
                "boxes a second reader has drawn as well (padchest_gr)"
            )
        read_twice = table[table[SECOND_BOXES].notna()].reset_index(drop=True)
        inputs.cohort = replace(inputs.cohort, table=read_twice)
        self.protocol = {"read_twice": len(read_twice)}

    def maps(self, inputs: Inputs, samples: pd.DataFrame, settings: Any) -> PhraseMaps:
        """The maps [N, h, w] of the samples."""
        geometry = Geometry.parse(str(inputs.pixels.geometry))
        if self.name == DETECTOR:
            maps = phrases_detected(inputs.pixels, samples, geometry)
        else:
            maps = reference_maps(self.name, samples, geometry)
        return PhraseMaps({"own": maps}, geometry, "none")


class Segments(Row):
    """Maps of images with boxes; the oracle's are these boxes, the detector's are learnt."""

    def maps(self, inputs: Inputs, splits: BoxedSplits, settings: Any) -> SegmentedMaps:
        """The maps [1, N, h, w] of the test images, in [0, 1]."""
        geometry = Geometry.parse(str(inputs.pixels.geometry))
        boxed = splits.test if self.name == ORACLE else splits.train
        truths = all_covered(boxed, geometry)
        cells, image_ids = truths.shape[1], splits.test["image_id"].tolist()
        if self.name == ORACLE:
            maps = truths
        elif self.name == "mean_box":
            maps = np.repeat(truths.mean(0)[None], len(splits.test), 0)
        elif self.name == DETECTOR:
            learnt, judged = (
                surroundings(inputs.pixels.read(inputs.pixels.rows(images)), cells)
                for images in (boxed["image_id"].tolist(), image_ids)
            )
            maps = detect(learnt, truths, judged)
        else:
            maps = brightness(inputs.pixels, image_ids, cells)
        if settings.scale == "minmax":
            maps = rescale_minmax(maps, 0, 1)
        return SegmentedMaps({ZERO_SHOT: maps[None]}, {}, {})


def covered(boxes: Sequence[Sequence[float]], sample: pd.Series, geometry: Geometry) -> Maps:
    """The covered share [h, w] of each cell of the model's square, by boxes of the image."""
    placement = geometry.place(int(sample["image_height"]), int(sample["image_width"]))
    size = placement.size
    cells = max(n for n in range(1, _MOST_CELLS + 1) if size % n == 0)
    mask = box_mask(placement.boxes([list(map(float, box)) for box in boxes]), size, size)
    return in_cells(mask[None], cells)[0]


def all_covered(samples: pd.DataFrame, geometry: Geometry, column: str = "boxes") -> Maps:
    """The covered shares [N, h, w] of all samples."""
    return np.stack([covered(row[column], row, geometry) for _, row in samples.iterrows()])


def phrases_detected(pixels: Pixels, samples: pd.DataFrame, geometry: Geometry) -> Maps:
    """The maps [N, h, w] of a detector that knows the finding, its place, and other boxes."""
    truths = all_covered(samples, geometry)
    image_of_N, image_ids = pd.factorize(samples["image_id"])
    images = surroundings(pixels.read(pixels.rows(image_ids.tolist())), truths.shape[1])
    findings_N = pd.factorize(samples["category"])[0]
    known_maps = [reference_maps(name, samples, geometry) for name in ("finding_box", "place_box")]
    known_maps.append(np.broadcast_to(findings_N[:, None, None], truths.shape).astype(np.float64))
    features = np.concatenate([images[image_of_N], np.stack(known_maps, axis=-1)], axis=-1)
    return detect_in_folds(features, truths, clusters_of(samples["subject_id"]))


def centre(cells: int) -> Maps:
    """A round blob in the middle, whose standard deviation is a quarter of the square: [h, w]."""
    away = (np.arange(cells) + 0.5) / cells - 0.5
    return np.exp(-(away[:, None] ** 2 + away[None] ** 2) / (2 * 0.25**2))


def mean_of_others(
    maps: Maps, keys: Sequence[str], patients: Sequence[str], fallback: Maps | None = None
) -> Maps:
    """For each sample [N, h, w] the mean map of the same key's samples of other patients.

    Where there is none, ``fallback``'s (else a flat map).
    """
    means = np.zeros_like(maps) if fallback is None else fallback.copy()
    key, patient = np.asarray(keys), np.asarray(patients)
    for group in np.unique(key):
        chosen = np.flatnonzero(key == group)
        total, count = maps[chosen].sum(0), len(chosen)
        for owner in np.unique(patient[chosen]):
            members = chosen[patient[chosen] == owner]
            if count > len(members):
                means[members] = (total - maps[members].sum(0)) / (count - len(members))
    return means


def reference_maps(name: str, samples: pd.DataFrame, geometry: Geometry) -> Maps:
    """The maps [N, h, w] of one reference row."""
    truths = all_covered(samples, geometry, SECOND_BOXES if name == SECOND_READER else "boxes")
    if name in (ORACLE, SECOND_READER):
        return truths
    if name == "centre":
        return np.repeat(centre(truths.shape[1])[None], len(truths), 0)
    patients = samples["subject_id"].astype(str).tolist()
    overall = mean_of_others(truths, ["all"] * len(truths), patients)
    if name == "mean_box":
        return overall
    keys = samples["category"].astype(str)
    if name == "place_box":
        keys += ": " + samples["phrase"].map(lambda phrase: " ".join(place_words(str(phrase))))
    return mean_of_others(truths, keys.tolist(), patients, overall)


def brightness(pixels: Pixels, image_ids: list[str], cells: int) -> NDArray[np.float64]:
    """Mean brightness [N, cells, cells] of each cell."""
    return in_cells(pixels.read(pixels.rows(image_ids)).astype(np.float64), cells)
