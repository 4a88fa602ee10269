"""Maps of many images against their boxes: a table of samples, then the metrics of Table 7.

BioViL section 4.5: IoU and Dice of what lies above a threshold, and CNR (section 4.1), each the
mean over samples. Maps come by kind: the zero-shot map, and those of a share's probes, one a seed.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxrflow.benchmarks.grounding.region import by_box_size, make_window
from cxrflow.benchmarks.grounding.settings import SegmentationSettings
from cxrflow.benchmarks.heads.shares import percent
from cxrflow.benchmarks.result import CountedStatistic
from cxrflow.images.geometry import Geometry
from cxrflow.metrics.grounding import overlap, signed_cnr
from cxrflow.metrics.intervals import Floats, clusters_of, weighted_mean

METRICS = ("iou", "dice", "cnr", "signed_cnr")  # the last is not in the paper
ZERO_SHOT = "zero_shot"

Maps = Mapping[str, NDArray[np.float64]]  # by kind: [seeds or 1, N, h, w]
Scores = Mapping[str, Mapping[str, NDArray[np.float64]]]  # by kind and metric: [seeds or 1, M]


def score_samples(
    maps: Maps, samples: pd.DataFrame, geometry: Geometry, settings: SegmentationSettings
) -> tuple[pd.DataFrame, dict[str, dict[str, NDArray[np.float64]]]]:
    """Return a table of M samples, and the metrics [seeds or 1, M] of each kind of map.

    ``samples`` names the row of its image among the maps in the column ``row``. A metric that
    cannot be said is NaN, with a reason in the column ``unscored``.
    """
    stacked_KNhw = np.concatenate(list(maps.values()))
    rows, scores = [], []
    for sample in samples.to_dict("records"):
        placement = geometry.place(int(sample["image_height"]), int(sample["image_width"]))
        maps_Khw = stacked_KNhw[:, sample["row"]]
        cells = maps_Khw.shape[1:]
        window = make_window(cells, sample["boxes"], placement, settings.upsample, settings.space)
        if settings.upsample == "nearest":
            values_KQ = maps_Khw.reshape(len(maps_Khw), -1)
            inside_Q, total_Q = (counts.ravel() for counts in window.cell_counts())
        else:
            values_KQ = np.stack([window.pixels(map_hw).ravel() for map_hw in maps_Khw])
            inside_Q = window.mask.ravel().astype(np.float64)
            total_Q = np.ones_like(inside_Q)
        missed = window.missed if settings.outside == "missed" else 0
        iou_K, dice_K = overlap(values_KQ, inside_Q, total_Q, settings.threshold, missed)
        signed_K = signed_cnr(values_KQ, inside_Q, total_Q)
        scores.append([iou_K, dice_K, np.abs(signed_K), signed_K])
        reason = window.unscored
        if reason is None and not np.isfinite(signed_K).all():
            reason = "a map is flat"
        rows.append(
            {
                **{name: sample[name] for name in ("sample_id", "subject_id", "image_id")},
                "boxes": len(sample["boxes"]),
                "box_share": window.share,
                "missed_pixels": window.missed,
                "unscored": reason,
            }
        )
    ends = np.cumsum([len(maps_SNhw) for maps_SNhw in maps.values()])[:-1]
    metrics: dict[str, dict[str, NDArray[np.float64]]] = {name: {} for name in maps}
    for metric, each in zip(METRICS, zip(*scores, strict=True), strict=True):
        whole_KM = np.stack(each, axis=1)
        for name, part_SM in zip(maps, np.split(whole_KM, ends), strict=True):
            metrics[name][metric] = part_SM
    return pd.DataFrame(rows), metrics


def scores_of(predictions: pd.DataFrame, settings: SegmentationSettings) -> Scores:
    """The scores that :func:`columns_of` laid out: those there are of zero-shot and each share."""
    names: dict[str, list[int | None]] = {ZERO_SHOT: [None]} if METRICS[0] in predictions else {}
    for share in map(percent, settings.fractions):
        if column_of(METRICS[0], share, settings.probe_seeds[0]) in predictions:
            names[share] = [*settings.probe_seeds]
    return {
        name: {
            metric: np.stack([predictions[column_of(metric, name, seed)] for seed in seeds])
            for metric in METRICS
        }
        for name, seeds in names.items()
    }


def statistic(predictions: pd.DataFrame, settings: SegmentationSettings) -> CountedStatistic:
    """``<metric>`` and ``<metric>/<size>`` zero-shot, ``<metric>[_sd]/<per cent>`` of probes."""
    scores = scores_of(predictions, settings)
    groups = by_box_size(predictions["box_share"], settings.size_limits)

    def means(counts: Floats) -> dict[str, Floats]:
        by_name: dict[str, Floats] = {}
        for kind, by_metric in scores.items():
            for metric, values_SM in by_metric.items():
                by_seed = np.stack([weighted_mean(counts, values_M) for values_M in values_SM])
                if kind == ZERO_SHOT:
                    by_name[metric] = by_seed[0]
                    for group, rows in groups.items():
                        by_name[f"{metric}/{group}"] = weighted_mean(counts, values_SM[0], rows)
                else:
                    by_name[f"{metric}/{kind}"] = by_seed.mean(axis=0)
                    by_name[f"{metric}_sd/{kind}"] = by_seed.std(axis=0, ddof=1)
        return by_name

    def counted(name: str) -> NDArray[np.bool_]:
        metric, _, subset = name.partition("/")
        kind = subset if subset in scores else ZERO_SHOT
        finite_M = np.isfinite(scores[kind][metric.removesuffix("_sd")]).all(axis=0)
        return np.asarray(finite_M & groups[subset] if subset in groups else finite_M)

    return CountedStatistic(
        means,
        lambda name: int(counted(name).sum()),
        behind=lambda name: {"boxes": int(predictions["boxes"][counted(name)].sum())},
    )


def image_clusters(predictions: pd.DataFrame, unit: str) -> NDArray[np.int64]:
    """Cluster numbers [M]: boxes of one image are never drawn apart, patients known or not."""
    subjects = predictions["subject_id"]
    return clusters_of(subjects.where(subjects.notna(), predictions["image_id"]), unit)


def column_of(metric: str, name: str, seed: int | None) -> str:
    """``iou`` zero-shot, ``iou_5_seed0`` of a share's probe."""
    return metric if name == ZERO_SHOT else f"{metric}_{name}_seed{seed}"


def columns_of(scores: Scores, seeds: Sequence[int]) -> dict[str, NDArray[np.float64]]:
    """Columns of a prediction's table (:func:`column_of`)."""
    return {
        column_of(metric, name, seed): values_M
        for name, by_metric in scores.items()
        for metric, values_SM in by_metric.items()
        for seed, values_M in zip(seeds, values_SM, strict=False)
    }
