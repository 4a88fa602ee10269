"""How far registration of priors (BioViL-T Appendix F.7) is from the truth: ours, not the paper's.

The synthetic hospital knows how the chest lies in every image, and so how two images of a patient
lie to each other (docs/registration.md). No model. metrics.json holds, for ``registered`` pairs and
for pairs left as they are (``identity``), medians over pairs of what they are off: ``corner``
(pixels, at the worst corner of the square; ``corner_90``: the 90th percentile), ``rotation``
(degrees) and ``scale`` (per cent); ``mutual_information`` (mean, nats, of the filtered images; also
where the ``true`` transform lies), and ``worse/registered``, the per cent of pairs that lie worse
than before.
"""

import logging
from argparse import Namespace
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cxrflow.benchmarks.inputs import PRIOR, TRUTH_FILE, drop_rows, open_pixels, read_cohort
from cxrflow.benchmarks.result import Result, estimates
from cxrflow.benchmarks.temporal.settings import RegistrationErrorSettings
from cxrflow.compute.parallel import ordered_map
from cxrflow.compute.progress import progress
from cxrflow.errors import InputError
from cxrflow.files.atomic import fingerprint, read_object
from cxrflow.files.parquet import read_table
from cxrflow.images.alignments import Alignments
from cxrflow.images.geometry import Placement
from cxrflow.images.registration import Alignment, as_transform, filtered, one_thread
from cxrflow.images.settings import RegistrationSettings
from cxrflow.images.store import PixelStore
from cxrflow.metrics.intervals import Floats, weighted_mean
from cxrflow.metrics.registration import corner_distance, rotation_error, scale_error, similarities

log = logging.getLogger("cxrflow")

COLUMNS = ("sample_id", "subject_id", "image_id", PRIOR)
TRUTH = ("image_id", "usable", "shift_x", "shift_y", "scale", "rotation")
REGISTERED, IDENTITY, TRUE = "registered", "identity", "true"


def score(options: Namespace, settings: RegistrationErrorSettings) -> Result:
    cohort = read_cohort(options.cohort, "samples.parquet", COLUMNS, settings.split)
    pixels = open_pixels(options.pixels, settings.geometry)
    truth = read_table(options.truth / TRUTH_FILE, TRUTH).set_index("image_id")
    said = read_object(options.registration / "registration.json", ("pixels", "settings"))
    if said["pixels"] != pixels.fingerprint:
        raise InputError(
            f"{options.registration / 'registration.json'}: made from other pixels than those of"
            f" {options.pixels}; expected one store"
        )
    listed = cohort.table.drop_duplicates(["image_id", PRIOR])  # a pair has several findings
    images = [listed[name] for name in ("image_id", PRIOR)]
    usable = [one.map(truth["usable"]) for one in images]
    table, dropped = drop_rows(
        listed,
        {
            "pixels are missing": ~(pixels.holds(images[0]) & pixels.holds(images[1])),
            "the truth lacks an image": usable[0].isna() | usable[1].isna(),
            "an image is spoilt": ~(usable[0].eq(True) & usable[1].eq(True)),
        },
    )
    alignments = Alignments(options.registration)
    pairs = [tuple(pair) for pair in table[["image_id", PRIOR]].to_numpy().tolist()]
    found = [alignments.find(*pair) for pair in pairs]
    store = PixelStore(options.pixels)
    true = true_alignments(table, truth, store)
    ways = {
        # A pair that could not be registered keeps its prior as it is.
        REGISTERED: [one or Alignment() for one in found],
        IDENTITY: [Alignment()] * len(table),
        TRUE: true,
    }
    rows = errors(ways, store.size)
    registration = RegistrationSettings.model_validate(said["settings"])
    work = partial(shared, options.pixels, settings=registration)
    items = zip(pairs, zip(*ways.values(), strict=True), strict=True)
    informations = ordered_map(work, items, options.threads)
    shown = progress(informations, len(table), "pair", lambda one: 1, "mutual information")
    rows[[f"mutual_information/{way}" for way in ways]] = np.array(list(shown))
    metrics = estimates(partial(statistics, rows), table, len(rows), settings.intervals)
    log.info(
        "%d pairs: worst corner %.2f pixels off, %.2f without registration",
        len(rows),
        *(metrics[f"corner/{way}"].value for way in (REGISTERED, IDENTITY)),
    )
    data = {
        **cohort.data,
        "fingerprint": fingerprint([cohort.fingerprint(pixels), said["settings"]]),
        "dropped": dropped,
        "not_registered": sum(one is None for one in found),
    }
    samples = table[list(COLUMNS)].join(rows)
    protocol = settings.model_dump(mode="json") | {"registration": said["settings"]}
    return Result("registration_error", data, protocol, metrics, samples)


def true_alignments(table: pd.DataFrame, truth: pd.DataFrame, store: PixelStore) -> list[Alignment]:
    """Where the prior truly shows what the current image shows, in stored pixels.

    ``truth``: the pose of each image, ``scale R(rotation) x + shift`` of a point of the chest, in
    half shorter sides from the middle of the image.
    """
    ways = []
    for name in ("image_id", PRIOR):
        pose = truth.loc[table[name]]
        shift = pose[["shift_x", "shift_y"]].to_numpy()
        chest = similarities(pose["scale"], pose["rotation"], shift)
        placed = [frame(store.placement(int(row))) for row in store.rows(table[name])]
        half, middle = np.array([one[:1] for one in placed]), np.array([one[1:] for one in placed])
        ways.append(similarities(half[:, 0], np.zeros(len(table)), middle) @ chest)
    current, prior = ways
    relative = prior @ np.linalg.inv(current)
    scale = np.hypot(relative[:, 0, 0], relative[:, 1, 0])
    rotation = np.rad2deg(np.arctan2(relative[:, 1, 0], relative[:, 0, 0]))
    values = np.column_stack([scale, rotation, relative[:, :2, 2]])
    return [Alignment(*row) for row in values.tolist()]


def frame(placement: Placement) -> tuple[float, float, float]:
    """Half the shorter side of an image in stored pixels; its middle from that of the square."""
    sides = placement.resized_width, placement.resized_height
    corner, half = (placement.left, placement.top), placement.size / 2
    x, y = (side / 2 - start - half for side, start in zip(sides, corner, strict=True))
    return min(sides) / 2, x, y


def errors(ways: Mapping[str, list[Alignment]], size: int) -> pd.DataFrame:
    """What each way is off, a row a pair: pixels at the worst corner, degrees, per cent."""
    matrices = {way: _matrices(alignments) for way, alignments in ways.items()}
    true = matrices.pop(TRUE)
    columns: dict[str, Any] = {}
    for way, said in matrices.items():
        columns[f"corner/{way}"] = corner_distance(said, true, size)
        columns[f"rotation/{way}"] = rotation_error(said, true)
        columns[f"scale/{way}"] = 100 * scale_error(said, true)
    return pd.DataFrame(columns)


def _matrices(alignments: list[Alignment]) -> Floats:
    values = np.array([(a.scale, a.rotation, a.shift_x, a.shift_y) for a in alignments])
    return similarities(values[:, 0], values[:, 1], values[:, 2:])


def shared(
    root: Path, item: tuple[tuple[str, str], tuple[Alignment, ...]], settings: RegistrationSettings
) -> list[float]:
    """Mutual information in nats of a pair that lies in each of these ways, filtered as F.7 says.

    As in registration, that of the better direction counts.
    """
    import SimpleITK as sitk

    pair, ways = item
    store = _opened(root)
    rows = store.rows(pair)
    images = [
        filtered(image, store.placement(int(row)).inside_stored(), settings)
        for row, image in zip(rows, store.read(rows), strict=True)
    ]
    if None in images:
        return [float("nan")] * len(ways)
    method = sitk.ImageRegistrationMethod()
    method.SetMetricAsMattesMutualInformation(settings.bins)
    method.SetInterpolator(sitk.sitkLinear)

    def information(pair_images: list[Any], way: Alignment) -> float:
        method.SetInitialTransform(as_transform(way))
        try:
            return -float(method.MetricEvaluate(*pair_images))
        except RuntimeError:  # of ITK: no overlap
            return float("nan")

    with one_thread():
        return [
            float(np.fmax(information(images, way), information(images[::-1], way.inverse())))
            for way in ways
        ]


@cache
def _opened(root: Path) -> PixelStore:
    """The store of a process, which measures many pairs of it."""
    return PixelStore(root, check=False)


def statistics(rows: pd.DataFrame, counts: Floats) -> dict[str, Floats]:
    """All metrics [R] of the errors of pairs under resampling counts [R, N]."""
    values: dict[str, Floats] = {}
    for way in (REGISTERED, IDENTITY):
        for name in ("corner", "rotation", "scale"):
            values[f"{name}/{way}"] = _quantile(rows[f"{name}/{way}"], counts, 0.5)
        values[f"corner_90/{way}"] = _quantile(rows[f"corner/{way}"], counts, 0.9)
    for way in (REGISTERED, IDENTITY, TRUE):
        name = f"mutual_information/{way}"
        values[name] = weighted_mean(counts, rows[name])
    worse = 100.0 * (rows["corner/registered"] > rows["corner/identity"])
    values["worse/registered"] = weighted_mean(counts, worse)
    return values


def _quantile(column: pd.Series, counts: Floats, share: float) -> Floats:
    """The least value that so large a share of the pairs does not exceed."""
    values = column.to_numpy()
    found = [np.quantile(values, share, weights=w, method="inverted_cdf") for w in counts]
    return np.array(found, dtype=np.float64)
