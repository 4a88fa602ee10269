"""Attention rollout: does a patch of a finding look at the same place of the prior image?

BioViL-T Appendix A.3, Figures 3 and A.5, which show examples; here they are counted over MS-CXR.
The start is the patch at the centre of a phrase's largest box on the current image. ``in_box`` is
the share of its attention on the prior image that falls within the box, moved to where the same
place of the chest is in the prior. Only the synthetic hospital knows that (``--truth``); elsewhere
the same place of the image stands for it. For comparison: even attention (``uniform``), the mean
over patches outside the box (``other_patch``), and the box at its place on the current image
(``same_place``).

Rotation test: the prior is rotated about its middle. The attention's centre should move as the
place does. ``followed`` is the slope of the first movement over the second: 1 follows, 0 stays.
``followed/other_patch`` is that of the patches outside the box, whose attention moves too.

Shapes: N samples, B of a batch, L = h x w patches, P points of a cell. A place is a complex number,
x + iy in stored pixels from the middle of the square, y downwards.
"""

from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from cxr_files.errors import InputError
from cxr_hospital.truth import read_truth
from cxrflow.benchmarks.inputs import PRIOR, drop_rows, image_batches
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import CountedStatistic, Figure, Predictions
from cxrflow.benchmarks.temporal.registration_error import TRUTH
from cxrflow.benchmarks.temporal.rollout_places import (
    PriorTransforms,
    Rollouts,
    cell_places,
    inside,
    rotated,
    shares,
    true_transforms,
)
from cxrflow.benchmarks.temporal.settings import AttentionRolloutSettings
from cxrflow.encoders.attention_rollout import block_attention, rollout
from cxrflow.encoders.image_encoder import Frames
from cxrflow.encoders.multi_image import Trunk
from cxrflow.images.geometry import Placement
from cxrflow.images.store import PixelStore
from cxrflow.metrics.intervals import Floats, weighted_mean

COLUMNS = ("sample_id", "subject_id", "image_id", "category", "boxes", PRIOR)
MEANS = ("in_box", "uniform", "other_patch", "same_place", "current_in_box", "prior_share")
COLUMN_BY_SLOPE = {"followed": "moved", "followed/other_patch": "moved_other"}
POINTS = 8  # of a cell along each axis, to measure how much of it a box covers


def largest_boxes(samples: pd.DataFrame, placements: list[Placement]) -> NDArray[np.float64]:
    """Return the largest box of each phrase, [N, 4] (x, y, w, h) in stored pixels."""
    largest = []
    for boxes, placement in zip(samples["boxes"], placements, strict=True):
        original = np.array([list(map(float, box)) for box in boxes])
        largest.append(placement.boxes(original[(original[:, 2] * original[:, 3]).argmax()])[0])
    return np.stack(largest)


@torch.inference_mode()
def roll_out(
    trunk: Trunk,
    pixels: Any,
    samples: pd.DataFrame,
    starts: NDArray[np.int64],
    outside_NL: NDArray[np.bool_],
    settings: AttentionRolloutSettings,
) -> dict[float, Rollouts]:
    """Return the rollouts by the prior's rotation in degrees; 0 is the prior as stored.

    ``starts``: the patch [N] to start from; ``outside_NL``: the patches outside the box.
    """
    device = next(trunk.parameters()).device
    batches: dict[float, list[Rollouts]] = {angle: [] for angle in (0.0, *settings.angles)}
    for positions, frames in image_batches(pixels, samples, settings.batch_size, takes_prior=True):
        assert frames.prior is not None
        for angle, rollouts in batches.items():
            turned = frames.prior if angle == 0 else rotated(frames.prior, angle)
            pair = Frames(frames.current.to(device), turned.to(device))
            flow = rollout(block_attention(trunk, pair), settings.kept).double().cpu().numpy()
            patches = flow.shape[1]
            from_start = flow[np.arange(len(positions)), starts[positions]]
            to_prior = flow[:, :, patches:]
            attention = shares(to_prior.reshape(-1, patches)).reshape(to_prior.shape)
            # A patch without attention on the prior has no shares, and no part in the mean.
            counted = outside_NL[positions][:, :, None] & np.isfinite(attention)
            total = np.where(counted, attention, 0).sum(1)
            rollouts.append(Rollouts(from_start, shares(total)))
    return {
        angle: Rollouts(*(np.concatenate(arrays) for arrays in zip(*rollouts, strict=True)))
        for angle, rollouts in batches.items()
    }


def grid_of(trunk: Trunk, size: int) -> tuple[int, int]:
    """Return the rows and columns of patches of an image of ``size`` x ``size`` pixels."""
    with torch.inference_mode():
        image = torch.zeros(1, 1, size, size, device=next(trunk.parameters()).device)
        height, width = trunk(Frames(image)).grid.shape[2:]
    return height, width


def measure(
    rollouts: dict[float, Rollouts],
    transforms: PriorTransforms,
    boxes: NDArray[np.float64],
    starts: NDArray[np.int64],
    grid: tuple[int, int],
    size: int,
) -> pd.DataFrame:
    """Return the columns of the samples, by the names of the module's docstring.

    ``moved_<angle>`` is the attention's movement projected on the place's, ``expected_<angle>`` the
    place's squared, in pixels squared: sums of them give the slope of least squares.
    """
    centres_L, points_LP = cell_places(size, grid), cell_places(size, grid, POINTS)
    from_start, patches = rollouts[0.0].from_start, len(centres_L)
    points = np.broadcast_to(points_LP.ravel(), (len(boxes), points_LP.size))
    moved_box_NL = inside(transforms.back(points), boxes, size)
    covered_NL = moved_box_NL.reshape(-1, *points_LP.shape).mean(2)
    still_NL = inside(points, boxes, size).reshape(-1, *points_LP.shape).mean(2)
    to_prior = shares(from_start[:, patches:])
    columns = {
        "in_box": (to_prior * covered_NL).sum(1),
        "uniform": covered_NL.mean(1),
        "other_patch": (rollouts[0.0].from_outside * covered_NL).sum(1),
        "same_place": (to_prior * still_NL).sum(1),
        "current_in_box": (shares(from_start[:, :patches]) * still_NL).sum(1),
        "prior_share": from_start[:, patches:].sum(1),
    }
    place = transforms(centres_L[starts][:, None])[:, 0]
    for angle, turned in rollouts.items():
        if angle == 0:
            continue
        expected = place * np.exp(1j * np.deg2rad(angle)) - place
        columns[f"expected_{angle:g}"] = np.abs(expected) ** 2
        for name, before, after in (
            ("moved", to_prior, shares(turned.from_start[:, patches:])),
            ("moved_other", rollouts[0.0].from_outside, turned.from_outside),
        ):
            movement = after @ centres_L - before @ centres_L
            columns[f"{name}_{angle:g}"] = (movement * expected.conj()).real
    return pd.DataFrame(columns)


def statistic(predictions: pd.DataFrame, settings: AttentionRolloutSettings) -> CountedStatistic:
    """Means over the samples, and the slopes of the rotation test."""
    slopes = {}
    counted = {name: np.isfinite(predictions[name].to_numpy()) for name in MEANS}
    counted["above_other_patch"] = counted["in_box"] & counted["other_patch"]
    for metric, column in COLUMN_BY_SLOPE.items():
        moved = predictions[[f"{column}_{angle:g}" for angle in settings.angles]].to_numpy()
        expected = predictions[[f"expected_{angle:g}" for angle in settings.angles]].to_numpy()
        finite = np.isfinite(moved)
        slopes[metric] = (np.where(finite, moved, 0).sum(1), np.where(finite, expected, 0).sum(1))
        counted[metric] = finite.any(axis=1)

    def metrics(counts: Floats) -> dict[str, Floats]:
        scores = {name: weighted_mean(counts, predictions[name]) for name in MEANS}
        scores["above_other_patch"] = scores["in_box"] - scores["other_patch"]
        for metric, (moved, expected) in slopes.items():
            total = counts @ expected
            scores[metric] = np.asarray(counts @ moved / np.where(total > 0, total, np.nan))
        return scores

    return CountedStatistic(metrics, lambda name: int(counted[name].sum()))


def unscored(predictions: pd.DataFrame) -> dict[str, int]:
    """Return how many samples lack the value of some metric, by reason."""
    reasons = {
        "no attention on the prior": predictions["in_box"],
        "no attention on the prior from patches outside the box": predictions["other_patch"],
    }
    counts = {reason: int((~np.isfinite(values)).sum()) for reason, values in reasons.items()}
    return {reason: count for reason, count in counts.items() if count}


def usable(
    samples: pd.DataFrame, pixels: Any, truth: pd.DataFrame | None
) -> tuple[pd.DataFrame, list[dict[str, Any]]]:
    """Return the samples with a prior in the store, and the counts of the rest by reason."""
    tests = {
        "no prior": samples[PRIOR].isna(),
        "image is not in the pixel store": ~pixels.holds(samples["image_id"]),
        "prior image is not in the pixel store": pixels.find(samples[PRIOR]) < 0,
    }
    if truth is not None:
        fit = truth["usable"].astype(bool)
        current, prior = (samples[name].map(fit).eq(True) for name in ("image_id", PRIOR))
        tests["an image is spoilt: the chest's place in it is not known"] = ~(current & prior)
    return drop_rows(samples, tests)


def predict(inputs: ModelInputs, settings: AttentionRolloutSettings) -> Predictions:
    """Roll out the attention of every sample, and measure it."""
    table, options, image = inputs.rows(settings.split), inputs.options, inputs.image
    if not image.takes_prior:
        raise InputError(f"{options.model}: encodes single images; expected a model of two images")
    trunk, store = cast(Trunk, image.encoder), cast(PixelStore, inputs.pixels)
    truth = None
    if options.truth is not None:
        truth = read_truth(options.truth, "images", TRUTH).set_index("image_id")
    samples, dropped = usable(table, store, truth)
    size, grid = store.size, grid_of(trunk, store.size)
    placed = [store.placement(int(row)) for row in store.rows(samples["image_id"])]
    boxes = largest_boxes(samples, placed)
    centre = boxes[:, :2] + boxes[:, 2:] / 2
    in_crop = ((centre >= 0) & (centre < size)).all(axis=1)
    samples, left_out = drop_rows(samples, {"the box's centre is outside the crop": ~in_crop})
    boxes, centre = boxes[in_crop], centre[in_crop]
    cells = (centre / size * [grid[1], grid[0]]).astype(np.int64)
    starts = cells[:, 1] * grid[1] + cells[:, 0]
    middles = np.broadcast_to(cell_places(size, grid), (len(samples), grid[0] * grid[1]))
    if truth is None:
        transforms = PriorTransforms.identity(len(samples))
    else:
        transforms = true_transforms(samples, truth, store)
    rollouts = roll_out(trunk, store, samples, starts, ~inside(middles, boxes, size), settings)
    measures = measure(rollouts, transforms, boxes, starts, grid, size)
    ids = samples[["sample_id", "subject_id", "image_id", PRIOR, "category"]]
    predictions = ids.reset_index(drop=True).join(measures)

    def figures() -> list[Figure]:
        if not settings.figures:
            return []
        from cxrflow.benchmarks.temporal.rollout_sheet import draw

        of_samples = (predictions, rollouts, transforms, boxes, starts)
        return [draw(*of_samples, grid, store, settings)]

    return Predictions(
        predictions,
        statistic(predictions, settings),
        {
            "fingerprint": inputs.cohort.fingerprint(store),
            "samples": len(samples),
            "unscored": unscored(measures),
            "dropped": dropped + left_out,
        },
        {
            "geometry": str(store.geometry),
            "grid": list(grid),
            "start": "centre of the largest box",
            "place_in_the_prior": "the same place of the image" if truth is None else "true pose",
        },
        draw=lambda metrics: figures(),
    )
