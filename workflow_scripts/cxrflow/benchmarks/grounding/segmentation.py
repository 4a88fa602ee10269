"""Segmentation on RSNA: which patches show pneumonia, by two prompts or by a linear layer?

BioViL sections 2.2 and 4.5, Table 7. Zero-shot, the score of a patch is the softmax, over the two
classes, of its cosine with each class prompt. A linear probe has weights for both classes and a
bias on the patch's features; its weights start as the prompts' embeddings, so that an untrained
one is the zero-shot map. A model without a text encoder has no prompts: its probes start at 0.

Maps are scaled to [0, 1], brought to the image's pixels and compared with its boxes: IoU and Dice
of what lies above 0.6, and CNR. Every image goes through the encoder once. A probe's metric is the
mean over the seeds, its spread over them stands beside it (``<metric>_sd``).
"""

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxr_files.errors import InputError
from cxrflow.benchmarks.classification.labelled_images import class_embedding
from cxrflow.benchmarks.grounding.patches import (
    BOXED,
    PatchEncoder,
    annotated_cells,
    images_with_boxes,
    one_box_each,
)
from cxrflow.benchmarks.grounding.segmentation_scores import (
    ZERO_SHOT,
    columns_of,
    score_samples,
    statistic,
)
from cxrflow.benchmarks.grounding.settings import SegmentationSettings
from cxrflow.benchmarks.heads.logistic_regression import (
    LinearHeads,
    Solution,
    longest,
    solve_each,
    start_of,
    start_weights,
)
from cxrflow.benchmarks.heads.settings import ConvergedSolver
from cxrflow.benchmarks.heads.shares import percent, share_of_images
from cxrflow.benchmarks.inputs import Inputs, Pixels
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.model_pixels import stored_squares
from cxrflow.benchmarks.result import Predictions
from cxrflow.encoders.dilation import refine_grid
from cxrflow.images.geometry import Geometry
from cxrflow.metrics.grounding import rescale_minmax
from cxrflow.similarity.similarity import EncodedImages

log = logging.getLogger("cxrflow")

COLUMNS = BOXED


def solve_patch_heads(
    features_NPF: Tensor,
    annotated_NP: Tensor,
    used_NP: Tensor,
    rows_SM: NDArray[np.int64],
    start_FC: Tensor,
    solver: ConvergedSolver,
) -> tuple[LinearHeads, list[Solution]]:
    """The optimum over the used cells of each head's images; biases start at 0.

    Args:
        features_NPF: any floating point; its device is that of the work.
        annotated_NP: target of each cell, in [0, 1].
        used_NP: bool; cells that show no image have no part in the loss.
        rows_SM: the images of each head.
        start_FC: weights of the negative and the positive class.
    """
    start_GC = torch.cat([start_FC, start_FC.new_zeros(1, 2)])
    targets_NPC = torch.stack([1 - annotated_NP, annotated_NP], dim=2)
    shows_image, cells = used_NP.numpy(), np.arange(used_NP.numel()).reshape(used_NP.shape)
    problems = [(cells[rows][shows_image[rows]], start_GC) for rows in rows_SM]
    return solve_each(features_NPF.flatten(0, 1), targets_NPC.flatten(0, 1), problems, True, solver)


def train_probes(
    encoder: PatchEncoder,
    pixels: Pixels,
    train: pd.DataFrame,
    classes_CP: NDArray[np.float64] | None,
    settings: SegmentationSettings,
) -> tuple[dict[str, LinearHeads], dict[str, int], dict[str, Any]]:
    """The heads of every share, one a seed, the images each share has, how it was solved."""
    features_NPF, length, grid = encoder.cells(pixels, train, settings.encoder_batch_size)
    geometry = Geometry.parse(str(pixels.geometry))
    annotated_NP, used_NP = annotated_cells(train, geometry, grid, settings.space)
    start = start_of(settings, classes_CP is not None)
    start_FC = start_weights(start, (features_NPF.shape[2], 2), classes_CP)
    heads, sizes, solved = {}, {}, {}
    for share, fraction in zip(map(percent, settings.fractions), settings.fractions, strict=True):
        rows_SM = np.stack([share_of_images(len(train), fraction, s) for s in settings.probe_seeds])
        sizes[share] = rows_SM.shape[1]
        cells = (features_NPF, torch.from_numpy(annotated_NP), torch.from_numpy(used_NP), rows_SM)
        of_share, solutions = solve_patch_heads(*cells, start_FC, settings.solver)
        solved[share] = longest(share, solutions, settings.solver)
        # As heads of the features as they are.
        heads[share] = LinearHeads(of_share.weight_KFC / length, of_share.bias_KC)
    return heads, sizes, solved


@torch.no_grad()
def zero_shot_map(model: Any, images: EncodedImages, settings: SegmentationSettings) -> Tensor:
    """Scores [B, h, w] of the positive class, brought to [0, 1] where ``scale`` is ``affine``."""
    sides = [
        model.similarity.prompt_maps(images, model.encode_texts(prompts), settings.prompt_average)
        for prompts in map(list, (settings.negative_prompts, settings.positive_prompts))
    ]
    similarities_BhwC = torch.stack(sides, dim=-1).double()
    if settings.map == "positive":
        scores, least, most = similarities_BhwC[..., 1], -1.0, 1.0
    else:
        scores = similarities_BhwC.softmax(-1)[..., 1]
        least, most = torch.tensor([-2.0, 2.0]).double().sigmoid().tolist()  # cosines 1 and -1
    return (scores - least) / (most - least) if settings.scale == "affine" else scores


def make_maps(
    encoder: PatchEncoder,
    pixels: Pixels,
    samples: pd.DataFrame,
    heads: Mapping[str, LinearHeads],
    model: Any | None,
    settings: SegmentationSettings,
) -> dict[str, NDArray[np.float64]]:
    """Maps of all images by name, in [0, 1]: probes' probabilities, and the zero-shot scores."""
    blocks_by_name: dict[str, list[NDArray[np.float64]]] = {}
    for _, patches_BhwF, images in encoder.batches(pixels, samples, settings.encoder_batch_size):
        maps_of_batch = {
            share: torch.einsum("bhwf,sfc->sbhwc", patches_BhwF, of_share.weight_KFC)
            .add(of_share.bias_KC[:, None, None, None])
            .double()
            .softmax(-1)[..., 1]
            for share, of_share in heads.items()
        }
        if model is not None and images is not None:
            maps_of_batch[ZERO_SHOT] = zero_shot_map(model, images, settings)[None]
        for name, maps_SBhw in maps_of_batch.items():
            blocks_by_name.setdefault(name, []).append(maps_SBhw.cpu().numpy())
    maps = {name: np.concatenate(blocks, axis=1) for name, blocks in blocks_by_name.items()}
    if settings.scale == "minmax":
        return {name: rescale_minmax(maps_SNhw, 0, 1) for name, maps_SNhw in maps.items()}
    return maps


class BoxedSplits(NamedTuple):
    """Images with boxes to learn from and to be scored on."""

    train: pd.DataFrame
    test: pd.DataFrame
    dropped: list[dict[str, Any]]
    listed: dict[str, int]  # images by split, with or without a box


def read_splits(inputs: Inputs, settings: SegmentationSettings) -> BoxedSplits:
    """Return the images with boxes of the splits to train on and to be scored on."""
    names = (settings.train_split, settings.split)
    (train, test), dropped = inputs.parts(
        names, lambda rows, split: images_with_boxes(rows, inputs.pixels)
    )
    counts = {str(split): len(inputs.rows(split)) for split in names}
    return BoxedSplits(train, test, dropped, counts)


class SegmentedMaps(NamedTuple):
    """Maps of all test images, how they were computed, the images that each share of probes has."""

    by_name: Mapping[str, NDArray[np.float64]]
    protocol: Mapping[str, Any]
    labelled: Mapping[str, int]


def maps(inputs: ModelInputs, splits: BoxedSplits, settings: SegmentationSettings) -> SegmentedMaps:
    """Segment the images with boxes by the prompts and by probes."""
    encoder, pixels = PatchEncoder(inputs.image, inputs.device), inputs.pixels
    if any(settings.dilate):
        refine_grid(encoder.image.encoder, settings.dilate)
    model = inputs.text_model if encoder.projects else None
    classes_CP = None
    if model is not None and model.similarity.patches_are_linear:
        prompts = (settings.negative_prompts, settings.positive_prompts)
        average = settings.prompt_average
        classes_CP = np.stack([class_embedding(model, texts, average) for texts in prompts])
    elif model is not None and settings.scale == "affine":
        raise InputError(
            "settings: key 'scale' is 'affine', which is for cosines; the model compares by "
            f"{type(model.similarity).__name__}: expected minmax"
        )
    heads, labelled, solved = train_probes(encoder, pixels, splits.train, classes_CP, settings)
    by_name = make_maps(encoder, pixels, splits.test, heads, model, settings)
    protocol = {
        "start": start_of(settings, classes_CP is not None),
        "features": "projected" if encoder.projects else "trunk",
        "solution": solved,
    }
    return SegmentedMaps(by_name, protocol, labelled)


def predict(inputs: ModelInputs, settings: SegmentationSettings) -> Predictions:
    """Score the maps of all test images."""
    inputs.pixels = stored_squares(inputs.pixels)
    splits = read_splits(inputs, settings)
    by_name, protocol, labelled = inputs.ask(maps, splits, settings)
    test = splits.test.assign(row=np.arange(len(splits.test)))
    samples = one_box_each(test) if settings.unit == "box" else test
    geometry = Geometry.parse(str(inputs.pixels.geometry))
    rows, scores = score_samples(by_name, samples, geometry, settings)
    reasons = {str(k): int(v) for k, v in rows["unscored"].value_counts().items()}
    for reason, count in reasons.items():
        log.warning("%d samples are not wholly scored: %s", count, reason)
    table = rows.assign(**columns_of(scores, settings.probe_seeds))
    return Predictions(
        table,
        statistic(table, settings),
        {
            "pictures": inputs.pixels.fingerprint,
            "samples": len(samples),
            "images": len(test),
            "train_images": len(splits.train),
            "listed_images": splits.listed,
            "labelled": dict(labelled),
            "dropped": splits.dropped,
            "unscored": reasons,
        },
        {
            **protocol,
            "geometry": str(geometry),
            "grid": list(next(iter(by_name.values())).shape[2:]),
            "boxes": "each by itself" if settings.unit == "box" else "union of an image's boxes",
        },
    )
