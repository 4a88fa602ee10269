"""Anatomical regions of Chest ImaGenome: boxes, comparisons, and features by a frozen trunk.

Shapes: M images, R regions, L findings, B pairs, F features of the trunk, c x c cells.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, interpolate

from cxr_files.archives import DAMAGE, names_of, open_zip, read_file, read_member
from cxr_files.drops import Tally
from cxr_files.errors import InputError
from cxrflow.benchmarks.inputs import PRIOR
from cxrflow.benchmarks.temporal.image_pairs import ImagePairs
from cxrflow.data.readers.progressions.chest_imagenome import ATTRIBUTES, DIRECTIONS
from cxrflow.encoders.image_encoder import Frames, ImageTrunk

# Those in which AnaXNet (Agu et al. 2021) compares regions, and CheXRelNet's code those of its own.
FINDINGS = (
    *("lung opacity", "pleural effusion", "atelectasis", "enlarged cardiac silhouette"),
    *("pulmonary edema/hazy opacity", "pneumothorax", "consolidation"),
    *("fluid overload/heart failure", "pneumonia"),
)


class Graph(NamedTuple):
    """What a scene graph says of its image."""

    boxes: Mapping[str, list[float]]  # by region: x, y, w, h in pixels of the original image
    compared: frozenset[tuple[str, str, str]]  # prior image, finding of a cohort, region
    found: frozenset[tuple[str, str]]  # region, one of FINDINGS


def graph_of(content: bytes) -> Graph:
    """Read a scene graph; a damaged one is a ValueError, KeyError, TypeError or AttributeError."""
    graph = json.loads(content)
    boxes = {}
    for each in graph["objects"]:
        left, top, right, low = (float(each[f"original_{end}"]) for end in ("x1", "y1", "x2", "y2"))
        boxes[each["bbox_name"]] = [left, top, right - left, low - top]
    compared = {
        (each["object_id"].partition("_")[0], ATTRIBUTES[attribute], each["bbox_name"])
        for each in graph["relationships"]
        if any(name.rpartition("|")[2] in DIRECTIONS for name in each["relationship_names"])
        for attribute in each["attributes"]
        if attribute in ATTRIBUTES
    }
    found = {
        (each["bbox_name"], finding)
        for each in graph["attributes"]
        for phrase in each["attributes"]
        for attribute in phrase
        for finding in FINDINGS
        if attribute.endswith(f"|yes|{finding}")
    }
    return Graph(boxes, frozenset(compared), frozenset(found))


def read_graphs(root: Path, image_ids: Iterable[str]) -> tuple[dict[str, Graph], Tally]:
    """The scene graphs of images, from the zip or the folder it unpacks to, and what is amiss.

    Raises:
        InputError: ``root`` has neither, or the zip is cut off.
    """
    silver = next(iter(path for path in [root / "silver_dataset"] if path.is_dir()), root)
    packed, folder, members = silver / "scene_graph.zip", silver / "scene_graph", dict[str, str]()
    archive = open_zip(packed) if packed.is_file() else None
    if archive is not None:
        members = {name.rpartition("/")[2]: name for name in names_of(archive)[0]}
    elif not folder.is_dir():
        raise InputError(
            f"{silver}: no scene_graph.zip, nor scene_graph/; expected the scene graphs of Chest "
            "ImaGenome, where the setting 'graphs' says"
        )
    graphs, tally = dict[str, Graph](), Tally("scene graphs", "images")
    for image in image_ids:
        file = f"{image}_SceneGraph.json"
        if not (file in members if archive else (folder / file).is_file()):
            tally.drop("no scene graph", [image])
            continue
        try:
            content = read_member(archive, members[file]) if archive else read_file(folder / file)
            graphs[image] = graph_of(content)
        except (*DAMAGE, TypeError, AttributeError):
            tally.drop("scene graph is damaged", [image], failed=True)
    tally.kept = len(graphs)
    return graphs, tally


def compared_regions(
    pairs: ImagePairs, graphs: Mapping[str, Graph], finding: str
) -> list[tuple[int, str]]:
    """The number of a pair and a region of it whose finding the report compares, all in order."""
    images = zip(pairs.table["image_id"], pairs.table[PRIOR], strict=True)
    return [
        (pair, region)
        for pair, (image, prior) in enumerate(images)
        for before, of, region in sorted(graphs[image].compared if image in graphs else ())
        if (before, of) == (prior, finding)
    ]


def alike(names: list[str], graphs: Iterable[Graph]) -> Tensor:
    """Of two regions the Jaccard index of the images with a finding, its mean over findings [R, R].

    A finding that neither region has in any image does not count.
    """
    places = [[(name, finding) for finding in FINDINGS] for name in names]
    found = [[[pair in each.found for pair in region] for region in places] for each in graphs]
    found_MRL = np.array(found, dtype=np.float64).reshape(-1, len(names), len(FINDINGS))
    both_RRL = np.einsum("mil,mjl->ijl", found_MRL, found_MRL)
    count_RL = found_MRL.sum(axis=0)
    either_RRL = count_RL[:, None] + count_RL - both_RRL
    index_RRL = both_RRL / np.maximum(either_RRL, 1)
    return torch.from_numpy(index_RRL.sum(2) / np.maximum((either_RRL > 0).sum(2), 1)).float()


class Regions:
    """Features of images by a frozen trunk: of regions that are cut out, and of the whole.

    ``pixels``: a store that knows how its images lie in it.
    """

    def __init__(
        self, names: list[str], pixels: Any, trunk: ImageTrunk, side: int, cells: int
    ) -> None:
        self.names, self.pixels, self.trunk = names, pixels, trunk
        self.side, self.cells = side, cells
        self.device = next(trunk.parameters()).device

    def encode(self, row_M: NDArray[np.int64], graphs: Mapping[str, Graph]) -> None:
        """Keep the features of these rows of the store, sorted, each once."""
        self.row_M = row_M
        images = pd.Series(self.pixels.index["image_id"].to_numpy()[row_M])
        shape = (len(row_M), len(self.names) + 1, self.trunk.features, self.cells**2)
        self.features_MRFc = torch.empty(shape, dtype=torch.half)
        self.present_MR = torch.empty(len(row_M), len(self.names), dtype=torch.bool)
        for place, (row, image) in enumerate(zip(row_M.tolist(), images, strict=True)):
            boxes = graphs[image].boxes if image in graphs else {}
            present, self.features_MRFc[place] = self.encoded(row, boxes)
            self.present_MR[place] = torch.tensor(present, dtype=torch.bool)

    @torch.no_grad()
    def encoded(self, row: int, boxes: Mapping[str, list[float]]) -> tuple[list[bool], Tensor]:
        """Which regions an image shows, and features [R + 1, F, c * c], the last of the whole."""
        image = torch.from_numpy(self.pixels.read([row])[0]).float() / 255
        placement, cuts = self.pixels.placement(row), []
        for name in self.names:
            x, y, w, h = placement.boxes(boxes.get(name, [0, 0, 0, 0]))[0].tolist()
            left, top, right, low = (max(0, round(end)) for end in (x, y, x + w, y + h))
            cuts.append(image[top:low, left:right])
        present = [cut.numel() > 0 for cut in cuts]
        views = [
            interpolate(cut[None, None], (self.side, self.side), mode="bilinear", antialias=True)
            for cut in (*cuts, image)
            if cut.numel()
        ]
        grid = self.trunk(Frames(torch.cat(views).to(self.device))).grid.float()
        cells = adaptive_avg_pool2d(grid, self.cells).flatten(2).half().cpu()
        features = cells.new_zeros(len(cuts) + 1, *cells.shape[1:])
        features[torch.tensor([*present, True])] = cells
        return present, features

    def of(self, pairs: ImagePairs) -> tuple[Tensor, Tensor]:
        """Features [B, 2, R + 1, F, c * c], priors first, and which regions are shown [B, 2 R]."""
        place_B2 = np.searchsorted(self.row_M, np.stack([pairs.prior, pairs.current], axis=1))
        features, present = self.features_MRFc[place_B2], self.present_MR[place_B2].flatten(1)
        return features.float().to(self.device), present.to(self.device)

    def compared_in(self, pairs: ImagePairs, compared: list[tuple[int, str]]) -> ImagePairs:
        """A row a pair and compared region that its image shows, whose number is ``region``."""
        shown_BR = self.present_MR[np.searchsorted(self.row_M, pairs.current)]
        places = {name: place for place, name in enumerate(self.names)}
        asked = [(pair, places[name]) for pair, name in compared if name in places]
        asked = [(pair, region) for pair, region in asked if shown_BR[pair, region]]
        pair_K, region_K = np.array(asked, dtype=np.int64).reshape(-1, 2).T
        rows = pairs.rows(pair_K)
        return replace(rows, table=rows.table.assign(region=region_K))


def even(pairs: ImagePairs, seed: int) -> ImagePairs:
    """As many pairs of each label as there are of the rarest, drawn by ``seed``."""
    order = np.random.default_rng([seed, len(pairs)]).permutation(len(pairs))
    by_label = [order[pairs.labels[order] == label] for label in np.unique(pairs.labels)]
    fewest = min(map(len, by_label), default=0)
    return pairs.rows(np.sort(np.concatenate([order[:0], *(each[:fewest] for each in by_label)])))
