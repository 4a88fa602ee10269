"""The error of registering priors (BioViL-T Appendix F.7) against the truth; not in the paper.

The synthetic hospital knows the pose of the chest in every image, and so the true transform between
two images of a patient (docs/registration.md). No model. metrics.json has, for ``registered`` pairs
and for unmoved pairs (``identity``), medians over pairs: ``corner`` (pixels, at the worst corner of
the square; ``corner_90``: the 90th percentile), ``rotation`` (degrees) and ``scale`` (per cent).
``mutual_information`` is the mean over pairs in nats, of the filtered images; also at the ``true``
transform. ``worse/registered`` is the per cent of pairs that registration moved away.
"""

from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cxr_files.atomic import fingerprint, read_object
from cxr_files.errors import InputError
from cxr_files.parallel import ordered_map
from cxr_files.progress import progress
from cxr_hospital.truth import read_truth
from cxrflow.benchmarks.inputs import PRIOR, Inputs, drop_rows, open_pixels
from cxrflow.benchmarks.result import CountedStatistic, Predictions
from cxrflow.benchmarks.temporal.settings import RegistrationErrorSettings
from cxrflow.images.alignments import Alignments
from cxrflow.images.geometry import Placement
from cxrflow.images.registration import Alignment, as_transform, filtered, one_thread
from cxrflow.images.settings import RegistrationSettings
from cxrflow.images.store import PixelStore
from cxrflow.metrics.intervals import Floats, weighted_mean
from cxrflow.metrics.registration import corner_distance, rotation_error, scale_error, similarities

COLUMNS = ("sample_id", "subject_id", "image_id", PRIOR)
TRUTH = ("image_id", "usable", "shift_x", "shift_y", "scale", "rotation")
REGISTERED, IDENTITY, TRUE = "registered", "identity", "true"


def predict(inputs: Inputs, settings: RegistrationErrorSettings) -> Predictions:
    """Compare every registered pair with the truth."""
    options, samples = inputs.options, inputs.rows(settings.split)
    pixels = open_pixels(options.pixels, settings.geometry)
    truth = read_truth(options.truth, "images", TRUTH).set_index("image_id")
    record = read_object(
        options.registration / "registration.json", {"pixels": str, "settings": dict}
    )
    if record["pixels"] != pixels.fingerprint:
        raise InputError(
            f"{options.registration / 'registration.json'}: made from other pixels than those of"
            f" {options.pixels}; expected one store"
        )
    distinct = samples.drop_duplicates(["image_id", PRIOR])  # a pair has several findings
    images = [distinct[name] for name in ("image_id", PRIOR)]
    usable = [image_ids.map(truth["usable"]) for image_ids in images]
    table, dropped = drop_rows(
        distinct,
        {
            "pixels are missing": ~(pixels.holds(images[0]) & pixels.holds(images[1])),
            "the truth lacks an image": usable[0].isna() | usable[1].isna(),
            "an image is spoilt": ~(usable[0].eq(True) & usable[1].eq(True)),
        },
    )
    alignments = Alignments(options.registration)
    pairs = [tuple(pair) for pair in table[["image_id", PRIOR]].to_numpy().tolist()]
    registered = [alignments.find(*pair) for pair in pairs]
    store = PixelStore(options.pixels)
    by_kind = {
        # A pair that could not be registered keeps its prior as it is.
        REGISTERED: [alignment or Alignment() for alignment in registered],
        IDENTITY: [Alignment()] * len(table),
        TRUE: true_alignments(table, truth, store),
    }
    rows = errors(by_kind, store.size)
    registration = RegistrationSettings.model_validate(record["settings"])
    work = partial(mutual_information, options.pixels, settings=registration)
    items = zip(pairs, zip(*by_kind.values(), strict=True), strict=True)
    values = progress(
        ordered_map(work, items, options.threads),
        len(table), "pair", lambda pair: 1, "mutual information",
    )  # fmt: skip
    rows[[f"mutual_information/{kind}" for kind in by_kind]] = np.array(list(values))
    return Predictions(
        table[list(COLUMNS)].join(rows),
        CountedStatistic(partial(statistics, rows), lambda name: len(rows)),
        {
            "fingerprint": fingerprint([inputs.cohort.fingerprint(pixels), record["settings"]]),
            "dropped": dropped,
            "not_registered": registered.count(None),
        },
        {"registration": record["settings"]},
    )


def true_alignments(table: pd.DataFrame, truth: pd.DataFrame, store: PixelStore) -> list[Alignment]:
    """Return the true transforms from the current image to the prior, in stored pixels.

    ``truth``: the pose of each image, ``scale R(rotation) x + shift`` of a point of the chest, in
    half shorter sides from the middle of the image.
    """
    poses = []
    for name in ("image_id", PRIOR):
        pose = truth.loc[table[name]]
        shift = pose[["shift_x", "shift_y"]].to_numpy()
        chest = similarities(pose["scale"], pose["rotation"], shift)
        frames = np.array([frame(store.placement(int(row))) for row in store.rows(table[name])])
        poses.append(similarities(frames[:, 0], np.zeros(len(table)), frames[:, 1:]) @ chest)
    current, prior = poses
    relative = prior @ np.linalg.inv(current)
    scale = np.hypot(relative[:, 0, 0], relative[:, 1, 0])
    rotation = np.rad2deg(np.arctan2(relative[:, 1, 0], relative[:, 0, 0]))
    values = np.column_stack([scale, rotation, relative[:, :2, 2]])
    return [Alignment(*row) for row in values.tolist()]


def frame(placement: Placement) -> tuple[float, float, float]:
    """Return half an image's shorter side, and its middle (x, y) from the square's, in pixels."""
    sides = placement.resized_width, placement.resized_height
    corner, half = (placement.left, placement.top), placement.size / 2
    x, y = (side / 2 - start - half for side, start in zip(sides, corner, strict=True))
    return min(sides) / 2, x, y


def errors(by_kind: Mapping[str, list[Alignment]], size: int) -> pd.DataFrame:
    """Return the registration error of each pair: pixels at the worst corner, degrees, per cent."""
    matrices_by_kind = {kind: _matrices(alignments) for kind, alignments in by_kind.items()}
    true = matrices_by_kind.pop(TRUE)
    columns: dict[str, Any] = {}
    for kind, matrices in matrices_by_kind.items():
        columns[f"corner/{kind}"] = corner_distance(matrices, true, size)
        columns[f"rotation/{kind}"] = rotation_error(matrices, true)
        columns[f"scale/{kind}"] = 100 * scale_error(matrices, true)
    return pd.DataFrame(columns)


def _matrices(alignments: list[Alignment]) -> Floats:
    values = np.array([(a.scale, a.rotation, a.shift_x, a.shift_y) for a in alignments])
    return similarities(values[:, 0], values[:, 1], values[:, 2:])


def mutual_information(
    root: Path, item: tuple[tuple[str, str], tuple[Alignment, ...]], settings: RegistrationSettings
) -> list[float]:
    """Return the mutual information of a pair at each alignment, in nats, filtered as in F.7.

    As in registration, the better direction counts.
    """
    import SimpleITK as sitk

    pair, alignments = item
    store = _opened(root)
    rows = store.rows(pair)
    images = [
        filtered(image, store.placement(int(row)).inside_stored(), settings)
        for row, image in zip(rows, store.read(rows), strict=True)
    ]
    if None in images:
        return [float("nan")] * len(alignments)
    method = sitk.ImageRegistrationMethod()
    method.SetMetricAsMattesMutualInformation(settings.bins)
    method.SetInterpolator(sitk.sitkLinear)

    def information(pair_images: list[Any], alignment: Alignment) -> float:
        method.SetInitialTransform(as_transform(alignment))
        try:
            return -float(method.MetricEvaluate(*pair_images))
        except RuntimeError:  # of ITK: no overlap
            return float("nan")

    with one_thread():
        return [
            float(np.fmax(information(images, a), information(images[::-1], a.inverse())))
            for a in alignments
        ]


@cache
def _opened(root: Path) -> PixelStore:
    """Return the store, opened once in each worker process."""
    return PixelStore(root, check=False)


def statistics(rows: pd.DataFrame, counts: Floats) -> dict[str, Floats]:
    """Return all metrics [R] of pairs' errors under resampling counts [R, N]."""
    values: dict[str, Floats] = {}
    for kind in (REGISTERED, IDENTITY):
        for name in ("corner", "rotation", "scale"):
            values[f"{name}/{kind}"] = _quantile(rows[f"{name}/{kind}"], counts, 0.5)
        values[f"corner_90/{kind}"] = _quantile(rows[f"corner/{kind}"], counts, 0.9)
    for kind in (REGISTERED, IDENTITY, TRUE):
        name = f"mutual_information/{kind}"
        values[name] = weighted_mean(counts, rows[name])
    worse = 100.0 * (rows["corner/registered"] > rows["corner/identity"])
    values["worse/registered"] = weighted_mean(counts, worse)
    return values


def _quantile(column: pd.Series, counts: Floats, share: float) -> Floats:
    """Return the weighted quantile [R] of a column."""
    values = column.to_numpy()
    quantiles = [np.quantile(values, share, weights=w, method="inverted_cdf") for w in counts]
    return np.array(quantiles, dtype=np.float64)
