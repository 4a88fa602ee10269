"""Attention rollout: does a patch of a finding look at the same place of the prior image?

BioViL-T Appendix A.3, Figures 3 and A.5, which show examples; here they are counted over MS-CXR.
The start is the patch at the centre of a box on the current image (of a phrase's largest). Of what
this patch takes from the prior image, ``in_box`` is the share within the box, brought to where the
same place of the chest truly is in the prior. Only the synthetic hospital knows that (``--truth``);
elsewhere it is taken to be the same place of the image. Beside it stand what even attention would
give (``uniform``), what the patches outside the box give (``other_patch``, their mean), and the
box left where it is (``same_place``).

Rotation test: the prior is rotated about its middle, and the middle of the attention should move as
the place itself. ``followed`` is the slope of one movement over the other: 1 follows, 0 stays;
``followed/other_patch`` the same of the other patches' attention, which moves with the image too.

Shapes: N samples, B of a batch, L = h x w patches, P points of a cell. A place is a complex number,
x + iy in stored pixels from the middle of the square, y downwards.
"""

import logging
from argparse import Namespace
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from cxrflow.benchmarks.features import trained_geometry
from cxrflow.benchmarks.inputs import (
    PRIOR,
    TRUTH_FILE,
    drop_rows,
    image_batches,
    open_pixels,
    read_cohort,
)
from cxrflow.benchmarks.result import Result, estimates
from cxrflow.benchmarks.temporal.registration_error import TRUTH
from cxrflow.benchmarks.temporal.rollout_places import (
    Maps,
    Ways,
    cell_places,
    inside,
    rotated,
    shares,
    true_ways,
)
from cxrflow.benchmarks.temporal.settings import AttentionRolloutSettings
from cxrflow.encoders.attention_rollout import block_attention, rollout
from cxrflow.encoders.frames import Frames
from cxrflow.encoders.image_encoder import load_image_half
from cxrflow.encoders.multi_image import Trunk
from cxrflow.errors import InputError
from cxrflow.files.parquet import read_table
from cxrflow.images.geometry import Placement
from cxrflow.images.store import PixelStore
from cxrflow.metrics.intervals import Floats, Statistic, weighted_mean
from cxrflow.training.precision import choose_device

log = logging.getLogger("cxrflow")

COLUMNS = ("sample_id", "subject_id", "image_id", "category", "boxes", PRIOR)
MEANS = ("in_box", "uniform", "other_patch", "same_place", "current_in_box", "prior_share")
SLOPES = {"followed": "moved", "followed/other_patch": "moved_other"}  # and their columns
POINTS = 8  # of a cell, along each axis: how much of it a box covers


def largest_boxes(samples: pd.DataFrame, placements: list[Placement]) -> NDArray[np.float64]:
    """The largest box of each phrase, [N, 4] in stored pixels."""
    found = []
    for boxes, placement in zip(samples["boxes"], placements, strict=True):
        original = np.array([list(map(float, box)) for box in boxes])
        found.append(placement.boxes(original[(original[:, 2] * original[:, 3]).argmax()])[0])
    return np.stack(found)


@torch.inference_mode()
def roll_out(
    trunk: Trunk,
    pixels: Any,
    samples: pd.DataFrame,
    starts: NDArray[np.int64],
    outside_NL: NDArray[np.bool_],
    settings: AttentionRolloutSettings,
) -> dict[float, Maps]:
    """Maps of the samples, by the angle that the prior is rotated by; 0 is the prior as it is."""
    device = next(trunk.parameters()).device
    found: dict[float, list[Maps]] = {angle: [] for angle in (0.0, *settings.angles)}
    for positions, frames in image_batches(pixels, samples, settings.batch_size, takes_prior=True):
        assert frames.prior is not None
        for angle, parts in found.items():
            turned = frames.prior if angle == 0 else rotated(frames.prior, angle)
            both = Frames(frames.current.to(device), turned.to(device))
            flow = rollout(block_attention(trunk, both), settings.kept).double().cpu().numpy()
            patches = flow.shape[1]
            own = flow[np.arange(len(positions)), starts[positions]]
            to_prior = flow[:, :, patches:]
            given = shares(to_prior.reshape(-1, patches)).reshape(to_prior.shape)
            counted = outside_NL[positions][:, :, None] & np.isfinite(given)
            total = np.where(counted, given, 0).sum(1)
            parts.append(Maps(own, shares(total)))
    return {
        angle: Maps(*(np.concatenate(part) for part in zip(*parts, strict=True)))
        for angle, parts in found.items()
    }


def grid_of(trunk: Trunk, size: int) -> tuple[int, int]:
    """Rows and columns of the patches of an image of so many pixels."""
    with torch.inference_mode():
        image = torch.zeros(1, 1, size, size, device=next(trunk.parameters()).device)
        height, width = trunk(Frames(image)).grid.shape[2:]
    return height, width


def measure(
    maps: dict[float, Maps],
    ways: Ways,
    boxes: NDArray[np.float64],
    starts: NDArray[np.int64],
    grid: tuple[int, int],
    size: int,
) -> pd.DataFrame:
    """The columns of the samples: see the module; ``moved`` and ``expected`` are products."""
    centres_L, points_LP = cell_places(size, grid), cell_places(size, grid, POINTS)
    own, patches = maps[0.0].own, len(centres_L)
    there = ways.back(np.broadcast_to(points_LP.ravel(), (len(boxes), points_LP.size)))
    covered_NL = inside(there, boxes, size).reshape(-1, *points_LP.shape).mean(2)
    here = np.broadcast_to(points_LP.ravel(), there.shape)
    still_NL = inside(here, boxes, size).reshape(-1, *points_LP.shape).mean(2)
    to_prior = shares(own[:, patches:])
    columns = {
        "in_box": (to_prior * covered_NL).sum(1),
        "uniform": covered_NL.mean(1),
        "other_patch": (maps[0.0].other * covered_NL).sum(1),
        "same_place": (to_prior * still_NL).sum(1),
        "current_in_box": (shares(own[:, :patches]) * still_NL).sum(1),
        "prior_share": own[:, patches:].sum(1),
    }
    place = ways(centres_L[starts][:, None])[:, 0]
    for angle, turned in maps.items():
        if angle == 0:
            continue
        expected = place * np.exp(1j * np.deg2rad(angle)) - place
        columns[f"expected_{angle:g}"] = np.abs(expected) ** 2
        for name, before, after in (
            ("moved", to_prior, shares(turned.own[:, patches:])),
            ("moved_other", maps[0.0].other, turned.other),
        ):
            movement = after @ centres_L - before @ centres_L
            columns[f"{name}_{angle:g}"] = (movement * expected.conj()).real
    return pd.DataFrame(columns)


def statistics(predictions: pd.DataFrame, settings: AttentionRolloutSettings) -> Statistic:
    """Means over the samples, and the slopes of the rotation test."""
    slopes = {}
    for metric, column in SLOPES.items():
        moved = predictions[[f"{column}_{angle:g}" for angle in settings.angles]].to_numpy()
        expected = predictions[[f"expected_{angle:g}" for angle in settings.angles]].to_numpy()
        known = np.isfinite(moved)
        slopes[metric] = (np.where(known, moved, 0).sum(1), np.where(known, expected, 0).sum(1))

    def metrics(counts: Floats) -> dict[str, Floats]:
        found = {name: weighted_mean(counts, predictions[name]) for name in MEANS}
        found["above_other_patch"] = found["in_box"] - found["other_patch"]
        for metric, (moved, expected) in slopes.items():
            total = counts @ expected
            found[metric] = np.asarray(counts @ moved / np.where(total > 0, total, np.nan))
        return found

    return metrics


def sizes(predictions: pd.DataFrame, settings: AttentionRolloutSettings) -> dict[str, int]:
    """How many samples have a value, by metric."""
    known = {name: np.isfinite(predictions[name]) for name in MEANS}
    known["above_other_patch"] = known["in_box"] & known["other_patch"]
    for metric, column in SLOPES.items():
        names = [f"{column}_{angle:g}" for angle in settings.angles]
        known[metric] = np.isfinite(predictions[names]).any(axis=1)
    return {name: int(rows.sum()) for name, rows in known.items()}


def unscored(predictions: pd.DataFrame) -> dict[str, int]:
    """How many samples some metrics have no value of, by reason."""
    reasons = {
        "no attention on the prior": predictions["in_box"],
        "no attention on the prior from patches outside the box": predictions["other_patch"],
    }
    counts = {reason: int((~np.isfinite(values)).sum()) for reason, values in reasons.items()}
    return {reason: count for reason, count in counts.items() if count}


def usable(
    samples: pd.DataFrame, pixels: Any, truth: pd.DataFrame | None
) -> tuple[pd.DataFrame, list[dict[str, Any]]]:
    """The samples with a prior, and how many others there are and why."""
    tests = {
        "no prior": samples[PRIOR].isna(),
        "image is not in the pixel store": ~pixels.holds(samples["image_id"]),
        "prior image is not in the pixel store": pixels.find(samples[PRIOR]) < 0,
    }
    if truth is not None:
        fit = truth["usable"].astype(bool)
        good = [samples[name].map(fit).eq(True) for name in ("image_id", PRIOR)]
        tests["an image is spoilt: the chest's place in it is not known"] = ~(good[0] & good[1])
    return drop_rows(samples, tests)


def score(options: Namespace, settings: AttentionRolloutSettings) -> Result:
    cohort = read_cohort(options.cohort, "samples.parquet", COLUMNS, settings.split)
    device = choose_device(settings.device)
    image = load_image_half(options.model, trunk_alone=True).to(device).eval()
    if not image.takes_prior:
        raise InputError(f"{options.model}: encodes single images; expected a model of two images")
    trunk = cast(Trunk, image.encoder)
    store = cast(PixelStore, open_pixels(options.pixels, trained_geometry(options.model)))
    truth = None
    if options.truth is not None:
        truth = read_table(options.truth / TRUTH_FILE, TRUTH).set_index("image_id")
    samples, dropped = usable(cohort.table, store, truth)
    size, grid = store.size, grid_of(trunk, store.size)
    placed = [store.placement(int(row)) for row in store.rows(samples["image_id"])]
    boxes = largest_boxes(samples, placed)
    centre = boxes[:, :2] + boxes[:, 2:] / 2
    seen = ((centre >= 0) & (centre < size)).all(axis=1)
    samples, left_out = drop_rows(samples, {"the box's centre is outside the crop": ~seen})
    boxes, centre = boxes[seen], centre[seen]
    cells = (centre / size * [grid[1], grid[0]]).astype(np.int64)
    starts = cells[:, 1] * grid[1] + cells[:, 0]
    middles = np.broadcast_to(cell_places(size, grid), (len(samples), grid[0] * grid[1]))
    if truth is None:
        ways = Ways(np.ones(len(samples), complex), np.zeros(len(samples), complex))
    else:
        ways = true_ways(samples, truth, store)
    maps = roll_out(trunk, store, samples, starts, ~inside(middles, boxes, size), settings)
    found = measure(maps, ways, boxes, starts, grid, size)
    kept = samples[["sample_id", "subject_id", "image_id", PRIOR, "category"]]
    predictions = kept.reset_index(drop=True).join(found)
    statistic = statistics(predictions, settings)
    counted = sizes(predictions, settings)
    metrics = estimates(statistic, predictions, counted, settings.intervals)
    log.info(
        "%.3f of the attention on the prior in the box, %.3f from other patches, %.3f if even; "
        "%.2f of a rotation followed",
        *(metrics[n].value for n in ("in_box", "other_patch", "uniform", "followed")),
    )
    data = {
        **cohort.data,
        "fingerprint": cohort.fingerprint(store),
        "samples": len(samples),
        "unscored": unscored(found),
        "dropped": dropped + left_out,
    }
    protocol = {
        **settings.model_dump(mode="json", exclude={"batch_size", "device", "figures"}),
        "geometry": str(store.geometry),
        "grid": list(grid),
        "start": "centre of the largest box",
        "place_in_the_prior": "the same place of the image" if truth is None else "true pose",
    }
    result = Result("attention_rollout", data, protocol, metrics, predictions)
    if settings.figures:
        from cxrflow.benchmarks.temporal.rollout_sheet import draw

        result.figures.append(draw(predictions, maps, ways, boxes, starts, grid, store, settings))
    return result
