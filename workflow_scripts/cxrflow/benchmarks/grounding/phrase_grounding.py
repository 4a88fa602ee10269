"""Phrase grounding on MS-CXR: does the similarity map light up where the phrase points?

BioViL sections 4.1 and 4.3, Tables 4, 5, A.3 and A.4. Every phrase is compared with every patch
of its image; the grid of cosines is brought to pixels and scored against the union of the phrase's
boxes with CNR and mIoU. Scores are averaged per finding, then over findings (the paper's "Avg.").
Beside them stand the controls (:mod:`cxrflow.benchmarks.grounding.controls`), and the phrases with
and without a place apart. The grids are kept with the scores, so that pictures of several models
need no model.

One image by itself, without boxes and scores: ``--model … --image x.dcm --phrase "…"``, which is
``cxrflow ground``.
"""

import logging
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

import cxrflow
from cxrflow.benchmarks.grounding.controls import CONTROLS, control_phrases, names_place, of_samples
from cxrflow.benchmarks.grounding.phrases import SECTIONS, plain_phrases, verbatim
from cxrflow.benchmarks.grounding.region import by_box_size, make_window, prepare_grid
from cxrflow.benchmarks.grounding.settings import PhraseGroundingSettings
from cxrflow.benchmarks.inputs import (
    Cohort,
    Pixels,
    choose_split,
    drop_rows,
    image_batches,
    open_pixels,
    read_cohort,
)
from cxrflow.benchmarks.result import Result, estimates, slug
from cxrflow.encoders.dilation import refine_grid
from cxrflow.files.parquet import read_table
from cxrflow.images.geometry import Geometry
from cxrflow.metrics.grounding import miou, of_pixels, signed_cnr
from cxrflow.metrics.intervals import Estimate, Floats, Statistic, weighted_mean
from cxrflow.pretrain.registry import TERMS
from cxrflow.training.precision import choose_device

log = logging.getLogger("cxrflow")

COLUMNS = (
    "sample_id", "subject_id", "image_id", "phrase", "category", "boxes", "image_width",
    "image_height",
)  # fmt: skip
METRICS = ("cnr", "miou", "signed_cnr")  # the last is not in the paper
SIZE_TOLERANCE = 0.02  # of the aspect ratio: whole-pixel rounding of a small image


def chosen_rescaling(
    asked: Literal["auto", "none", "minmax"], run: Mapping[str, Any]
) -> Literal["none", "minmax"]:
    """What ``auto`` means for a model with this ``run.json``: Appendix A.3's last but one sentence.

    Similarities of models with a local loss are spread otherwise, so their maps are stretched to
    [-1, 1] before thresholds are laid on them. A run that names no terms has none.
    """
    if asked != "auto":
        return asked
    terms = (run.get("settings") or {}).get("terms") or {}
    local = any(TERMS[name].matches_words for name in terms if name in TERMS)
    return "minmax" if local else "none"


def similarity_grids(
    model: Any, samples: pd.DataFrame, pixels: Pixels, settings: PhraseGroundingSettings
) -> dict[str, NDArray[np.float64]]:
    """Cosines [N, h, w] of every sample's phrase with the patches of its image, and of controls.

    Each image is encoded once for all phrases that are put to it. A control's grids are NaN where
    it has no phrase.
    """
    asked: dict[str, list[str | None]] = {"own": samples["phrase"].tolist()}
    if settings.controls:
        asked |= control_phrases(samples)
    blocks: dict[str, list[NDArray[np.float64]]] = {name: [] for name in asked}
    for positions, frames in image_batches(pixels, samples, settings.batch_size, model.takes_prior):
        patches_BhwP = model.encode_image(frames).projected_patches
        for name, phrases in asked.items():
            chosen = [phrases[i] for i in positions]
            plain = plain_phrases([text or "none" for text in chosen], settings.strip_punctuation)
            grids = torch.einsum("bhwp,bp->bhw", patches_BhwP, model.encode_text(plain))
            block = grids.double().cpu().numpy()
            block[[text is None for text in chosen]] = np.nan
            blocks[name].append(block)
    return {
        name: of_samples(name, np.concatenate(parts), samples) for name, parts in blocks.items()
    }


def score_samples(
    grids: NDArray[np.float64],
    samples: pd.DataFrame,
    geometry: Geometry,
    settings: PhraseGroundingSettings,
    rescale: Literal["none", "minmax"],
) -> pd.DataFrame:
    """CNR and mIoU of every sample; NaN with a reason where there is nothing to score."""
    rows = []
    for grid, sample in zip(grids, samples.to_dict("records"), strict=True):
        placement = geometry.place(int(sample["image_height"]), int(sample["image_width"]))
        prepared = prepare_grid(grid, settings.smoothing_sigma, rescale)
        boxes = [list(map(float, box)) for box in sample["boxes"]]
        shape = prepared.shape
        window = make_window(shape, boxes, placement, settings.upsample, settings.space)
        missed = window.missed if settings.outside == "missed" else 0
        pixels = of_pixels(window.pixels(prepared), window.mask)
        contrast = float(signed_cnr(*pixels))
        overlap = float(miou(*pixels, settings.thresholds, missed))
        reason = window.unscored
        if reason is None and not np.isfinite(contrast):
            reason = "the similarity map is flat"
        rows.append(
            {
                "sample_id": sample["sample_id"],
                "subject_id": sample["subject_id"],
                "image_id": sample["image_id"],
                "category": sample["category"],
                "cnr": abs(contrast),
                "signed_cnr": contrast,
                "miou": overlap,
                "box_share": window.share,
                "missed_pixels": window.missed,
                "unscored": reason,
                "placed": names_place(str(sample["phrase"])),
            }
        )
    scores = pd.DataFrame(rows)
    known = {"verbatim": samples["verbatim"].to_numpy()} if "verbatim" in samples else {}
    return scores.assign(**known)


def score_controls(
    grids: Mapping[str, NDArray[np.float64]],
    samples: pd.DataFrame,
    geometry: Geometry,
    settings: PhraseGroundingSettings,
    rescale: Literal["none", "minmax"],
) -> dict[str, NDArray[np.float64]]:
    """Signed CNR of every sample in each control; NaN where there is none."""
    found: dict[str, NDArray[np.float64]] = {}
    for name in CONTROLS:
        if name in grids:
            there = np.flatnonzero(np.isfinite(grids[name]).all((1, 2)))
            values = found[f"signed_cnr_{name}"] = np.full(len(samples), np.nan)
            if len(there):
                chosen, maps = samples.iloc[there], grids[name][there]
                scored = score_samples(maps, chosen, geometry, settings, rescale)
                values[there] = scored["signed_cnr"]
    return found


def scored_categories(scores: pd.DataFrame, settings: PhraseGroundingSettings) -> list[str]:
    """The findings that are there to be averaged, in the settings' order."""
    category = scores["category"].map(slug).to_numpy()
    return [
        name
        for name in map(slug, settings.categories)
        if np.isfinite(scores["cnr"].to_numpy()[category == name]).any()
    ]


def parts_of(
    scores: pd.DataFrame, settings: PhraseGroundingSettings
) -> dict[str, NDArray[np.bool_]]:
    """Which samples are of each finding; of each size of boxes (``size_small`` …); with a place.

    ``placed`` and ``unplaced`` phrases do and do not say where, ``sided`` ones name one side,
    ``verbatim`` and ``new_words`` ones are and are not sentences of a training report.
    """
    category = scores["category"].map(slug).to_numpy()
    parts = {name: category == name for name in scored_categories(scores, settings)}
    scored = np.isfinite(scores["cnr"].to_numpy())
    more = by_box_size(scores["box_share"], settings.size_limits)
    placed = scores["placed"].to_numpy(dtype=bool)
    more |= {"placed": placed, "unplaced": ~placed}
    if "verbatim" in scores:
        known = scores["verbatim"].to_numpy(dtype=bool)
        more |= {"verbatim": known, "new_words": ~known}
    if "signed_cnr_other_side" in scores:
        more["sided"] = np.isfinite(scores["signed_cnr_other_side"].to_numpy())
    return parts | {name: chosen for name, chosen in more.items() if (scored & chosen).any()}


def scored_controls(scores: pd.DataFrame) -> list[str]:
    """The controls that some sample was scored in."""
    return [
        name
        for name in CONTROLS
        if f"signed_cnr_{name}" in scores and scores[f"signed_cnr_{name}"].notna().any()
    ]


def statistics(scores: pd.DataFrame, settings: PhraseGroundingSettings) -> Statistic:
    """Means per finding, over findings (``cnr``, ``miou`` …) and over all samples (``…_micro``).

    Besides, means over the samples of other parts (``cnr/size_small``, ``cnr/placed`` …), as far
    as there are any, and controls: ``signed_cnr/other_finding`` and ``signed_cnr/other_image`` as
    ``signed_cnr`` over findings, ``signed_cnr/other_side`` as ``signed_cnr/sided`` over samples.
    """
    parts, present = parts_of(scores, settings), scored_categories(scores, settings)
    by_metric = {metric: scores[metric].to_numpy() for metric in METRICS}
    controls = scored_controls(scores) if present else []

    def means(counts: Floats) -> dict[str, Floats]:
        found = {}
        for metric, values in by_metric.items():
            of_parts = {name: weighted_mean(counts, values, part) for name, part in parts.items()}
            found.update({f"{metric}/{name}": mean for name, mean in of_parts.items()})
            each = [of_parts[name] for name in present]
            found[metric] = np.mean(each, axis=0) if each else np.full(len(counts), np.nan)
            found[f"{metric}_micro"] = weighted_mean(counts, values)
        for name in controls:
            values = scores[f"signed_cnr_{name}"].to_numpy()
            if name == "other_side":
                found[f"signed_cnr/{name}"] = weighted_mean(counts, values)
            else:
                each = [weighted_mean(counts, values, parts[one]) for one in present]
                found[f"signed_cnr/{name}"] = np.mean(each, axis=0)
        return found

    return means


def summarise(
    scores: pd.DataFrame, settings: PhraseGroundingSettings
) -> tuple[dict[str, Estimate], list[str]]:
    """The metrics with their intervals, and the findings that were there to be averaged."""
    parts, present = parts_of(scores, settings), scored_categories(scores, settings)
    sizes: dict[str, int] = {}
    for metric in METRICS:
        known = np.isfinite(scores[metric].to_numpy())
        for name, part in parts.items():
            sizes[f"{metric}/{name}"] = int((known & part).sum())
        sizes[metric] = sizes[f"{metric}_micro"] = int(known.sum())
    for name in scored_controls(scores):
        sizes[f"signed_cnr/{name}"] = int(scores[f"signed_cnr_{name}"].notna().sum())
    return estimates(statistics(scores, settings), scores, sizes, settings.intervals), present


def read_samples(options: Namespace, settings: PhraseGroundingSettings) -> Cohort:
    """The cohort; with training reports, ``verbatim`` says which of its phrases stand in them."""
    cohort = read_cohort(options.cohort, "samples.parquet", COLUMNS, settings.split)
    if options.training is None:
        return cohort
    source = options.training / "pairs.parquet"
    reports = choose_split(read_table(source, (*SECTIONS, "split")), "train", source)
    table = cohort.table.assign(verbatim=verbatim(cohort.table["phrase"], reports))
    return replace(cohort, table=table)


def usable_samples(
    samples: pd.DataFrame, pixels: Pixels, settings: PhraseGroundingSettings
) -> tuple[pd.DataFrame, list[dict[str, Any]]]:
    """Leave out, with counts and reasons, what cannot be scored."""
    index = pixels.index.set_index("image_id")
    wanted = {slug(name) for name in settings.categories}
    size = index[["original_height", "original_width"]].reindex(samples["image_id"])
    aspect = (size["original_width"] / size["original_height"]).to_numpy()
    claimed = (samples["image_width"] / samples["image_height"]).to_numpy()
    tests = {
        "category is not in the settings": ~samples["category"].map(slug).isin(wanted),
        "image is not in the pixel store": ~pixels.holds(samples["image_id"].tolist()),
        "image is not the shape that the boxes refer to": np.abs(aspect / claimed - 1)
        > SIZE_TOLERANCE,
    }
    return drop_rows(samples, tests)


def evaluate(
    model: Any, cohort: Cohort, pixels: Pixels, settings: PhraseGroundingSettings
) -> Result:
    """Score ``model`` on the phrases of ``cohort``."""
    samples, dropped = usable_samples(cohort.table, pixels, settings)
    geometry = Geometry.parse(str(pixels.geometry))
    grids = similarity_grids(model, samples, pixels, settings)
    rescale = chosen_rescaling(settings.rescale, model.run)
    own = grids["own"]
    scores = score_samples(own, samples, geometry, settings, rescale)
    scores = scores.assign(**score_controls(grids, samples, geometry, settings, rescale))
    result = make_result(cohort, pixels, scores, dropped, own, settings, rescale)
    if settings.figures:
        from cxrflow.benchmarks.grounding.pictures import draw_examples

        result.figures.extend(
            draw_examples(samples, scores, own, pixels, geometry, settings, rescale)
        )
    return result


def make_result(
    cohort: Cohort,
    pixels: Pixels,
    scores: pd.DataFrame,
    dropped: list[dict[str, Any]],
    grids: NDArray[np.float64],
    settings: PhraseGroundingSettings,
    rescale: Literal["none", "minmax"],
) -> Result:
    """The result of scored samples, without pictures."""
    for reason, count in scores["unscored"].value_counts().items():
        log.warning("%d samples have no CNR: %s", count, reason)
    metrics, present = summarise(scores, settings)
    protocol = {
        **settings.model_dump(
            mode="json", exclude={"batch_size", "device", "figures", "figure_phrases"}
        ),
        "rescale": rescale,
        "rescale_setting": settings.rescale,
        "geometry": str(pixels.geometry),
        "grid": list(grids.shape[1:]),
        "boxes": "union of a phrase's boxes",
        "average": "over findings",
    }
    data = {
        **cohort.data,
        "pictures": pixels.fingerprint,
        "samples": len(scores),
        "dropped": dropped,
        "categories_scored": present,
        "unscored": {str(k): int(v) for k, v in scores["unscored"].value_counts().items()},
    }
    arrays = {"grids": grids.astype(np.float32)}
    return Result("phrase_grounding", data, protocol, metrics, scores, arrays=arrays)


def score(options: Namespace, settings: PhraseGroundingSettings) -> Result:
    cohort = read_samples(options, settings)
    model = cxrflow.load(options.model, choose_device(settings.device))
    if any(settings.dilate) and model.image_encoder is not None:
        refine_grid(model.image_encoder, settings.dilate)
    pixels = open_pixels(options.pixels, model.geometry)
    result = evaluate(model, cohort, pixels, settings)
    found = result.metrics
    log.info(
        "CNR %.3f, mIoU %.3f, %d samples", found["cnr"].value, found["miou"].value, found["cnr"].n
    )
    return result
