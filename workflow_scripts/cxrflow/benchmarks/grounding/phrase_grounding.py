"""Phrase grounding on MS-CXR: does the similarity map light up where the phrase points?

BioViL sections 4.1 and 4.3, Tables 4, 5, A.3 and A.4. Every phrase is compared with every patch of
its image, by the similarity that the model has learnt. The grid, of cosines in the papers, is
brought to pixels and scored against the union of the phrase's boxes with CNR and mIoU. Scores are
averaged per finding, then over findings (the paper's "Avg."). Beside them stand the controls
(:mod:`cxrflow.benchmarks.grounding.controls`), and the phrases with and without a place apart. The
grids are kept with the scores, so that pictures of several models need no model.

One image by itself, without boxes and scores: ``--model … --image x.dcm --phrase "…"``, which is
``cxrflow ground``.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from cxr_files.parquet import read_table
from cxrflow.benchmarks.controls import exchange
from cxrflow.benchmarks.grounding.controls import CONTROLS, control_phrases, names_place, of_samples
from cxrflow.benchmarks.grounding.phrases import SECTIONS, plain_phrases, verbatim
from cxrflow.benchmarks.grounding.region import by_box_size, make_window, prepare_grid
from cxrflow.benchmarks.grounding.settings import PhraseGroundingSettings
from cxrflow.benchmarks.inputs import (
    PRIOR,
    Inputs,
    Pixels,
    choose_split,
    drop_rows,
    image_batches,
)
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.model_pixels import stored_squares
from cxrflow.benchmarks.result import CountedStatistic, Figure, Predictions, slug
from cxrflow.encoders.dilation import refine_grid
from cxrflow.images.geometry import Geometry
from cxrflow.metrics.grounding import miou, of_pixels, signed_cnr
from cxrflow.metrics.intervals import Estimate, Floats, weighted_mean
from cxrflow.pretrain.registry import recorded_needs
from cxrflow.similarity.similarity import EncodedImages

log = logging.getLogger("cxrflow")

COLUMNS = (
    "sample_id", "subject_id", "image_id", "phrase", "category", "boxes", "image_width",
    "image_height",
)  # fmt: skip
METRICS = ("cnr", "miou", "signed_cnr")  # the last is not in the paper
SHIFTS = (
    "no_prior",
    "other_prior",
    "other_image",
)  # of maps of images with priors; not in the paper
SIZE_TOLERANCE = 0.02  # of the aspect ratio: whole-pixel rounding of a small image


def chosen_rescaling(
    setting: Literal["auto", "none", "minmax"], run: Mapping[str, Any]
) -> Literal["none", "minmax"]:
    """Return the rescaling of a model with this ``run.json`` (Appendix A.3, last but one sentence).

    Similarities of models with a local loss are spread otherwise, so their maps are stretched to
    [-1, 1] before thresholds are laid on them. A run that names no terms has none.
    """
    if setting != "auto":
        return setting
    terms = (run.get("settings") or {}).get("terms") or {}
    return "minmax" if "words" in recorded_needs(terms).parts else "none"


def similarity_grids(
    model: Any, samples: pd.DataFrame, pixels: Pixels, settings: PhraseGroundingSettings
) -> dict[str, NDArray[np.float64]]:
    """Cosines [N, h, w] of every sample's phrase with the patches of its image, and of controls.

    Each image is encoded once for all phrases that are put to it. A control's grids are NaN where
    it has no phrase.
    """
    phrases_by_control: dict[str, list[str | None]] = {"own": samples["phrase"].tolist()}
    if settings.controls:
        phrases_by_control |= control_phrases(samples)
    blocks: dict[str, list[NDArray[np.float64]]] = {name: [] for name in phrases_by_control}
    for positions, frames in image_batches(pixels, samples, settings.batch_size, model.takes_prior):
        images = EncodedImages.of(model.encode_image(frames))
        for name, phrases in phrases_by_control.items():
            chosen = [phrases[i] for i in positions]
            plain = plain_phrases([text or "none" for text in chosen], settings.strip_punctuation)
            with torch.inference_mode():
                grids = model.similarity.maps(images, model.encode_texts(plain))
            block = grids.double().cpu().numpy()
            block[[text is None for text in chosen]] = np.nan
            blocks[name].append(block)
    return {
        name: of_samples(name, np.concatenate(batches), samples) for name, batches in blocks.items()
    }


def prior_grids(
    model: Any, samples: pd.DataFrame, pixels: Pixels, settings: PhraseGroundingSettings
) -> dict[str, NDArray[np.float64]]:
    """The grids [N, h, w] of the phrases without the prior, and beside another patient's.

    NaN where there is no such prior; empty where no image has one, or the model reads none.
    """
    if not (model.takes_prior and settings.controls and PRIOR in samples):
        return {}
    rows = np.flatnonzero(pixels.find(samples[PRIOR]) >= 0)
    if not len(rows):
        return {}
    paired, alone = samples.iloc[rows], settings.model_copy(update={"controls": False})
    partner = exchange(paired["subject_id"])
    partner_prior = paired[PRIOR].to_numpy()[partner]
    grids = {}
    for name, prior, able in (
        ("no_prior", None, np.full(len(rows), True)),
        ("other_prior", partner_prior, partner >= 0),
    ):
        exchanged = paired.assign(**{PRIOR: prior})[able]
        if len(exchanged):
            maps_of_rows = similarity_grids(model, exchanged, pixels, alone)["own"]
            grids[name] = np.full((len(samples), *maps_of_rows.shape[1:]), np.nan)
            grids[name][rows[able]] = maps_of_rows
    return grids


def score_samples(
    grids: Iterable[NDArray[np.float64]],
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
                "boxes": len(boxes),
                "box_share": window.share,
                "missed_pixels": window.missed,
                "unscored": reason,
                "placed": names_place(str(sample["phrase"])),
            }
        )
    scores = pd.DataFrame(rows)
    optional = {"verbatim": samples["verbatim"].to_numpy()} if "verbatim" in samples else {}
    return scores.assign(**optional)


def score_controls(
    grids: Mapping[str, NDArray[np.float64]],
    samples: pd.DataFrame,
    geometry: Geometry,
    settings: PhraseGroundingSettings,
    rescale: Literal["none", "minmax"],
) -> dict[str, NDArray[np.float64]]:
    """Signed CNR of every sample in each control; NaN where there is none."""
    columns: dict[str, NDArray[np.float64]] = {}
    for name in CONTROLS:
        if name in grids:
            rows = np.flatnonzero(np.isfinite(grids[name]).all((1, 2)))
            values = columns[f"signed_cnr_{name}"] = np.full(len(samples), np.nan)
            if len(rows):
                chosen, maps = samples.iloc[rows], grids[name][rows]
                scored = score_samples(maps, chosen, geometry, settings, rescale)
                values[rows] = scored["signed_cnr"]
    return columns


def map_shifts(by_control: Mapping[str, Any]) -> dict[str, NDArray[np.float64]]:
    """How far a map moves [N] with the image beside it: 1 less the correlation over the grid.

    A model that ignores the prior has 0. ``other_image`` is the measure to compare with: the same
    phrase on another patient's image.
    """
    if "no_prior" not in by_control:
        return {}
    map_NK = by_control["own"].reshape(len(by_control["own"]), -1)
    map_NK = map_NK - map_NK.mean(axis=1, keepdims=True)
    shifts = {}
    for name in SHIFTS:
        if name in by_control:
            moved_NK = by_control[name].reshape(map_NK.shape)
            moved_NK = moved_NK - moved_NK.mean(axis=1, keepdims=True)
            spread = np.sqrt((map_NK**2).sum(axis=1) * (moved_NK**2).sum(axis=1))
            alike = (map_NK * moved_NK).sum(axis=1) / np.where(spread > 0, spread, np.nan)
            shifts[f"map_shift_{name}"] = 1 - alike
    return shifts


def scored_categories(scores: pd.DataFrame, settings: PhraseGroundingSettings) -> list[str]:
    """Return the findings that have a scored sample, in the settings' order."""
    category = scores["category"].map(slug).to_numpy()
    return [
        name
        for name in map(slug, settings.categories)
        if np.isfinite(scores["cnr"].to_numpy()[category == name]).any()
    ]


def subsets(
    scores: pd.DataFrame, settings: PhraseGroundingSettings
) -> dict[str, NDArray[np.bool_]]:
    """Return which samples [N] are of each finding, of each size of boxes (``size_small`` …), …

    ``placed`` and ``unplaced`` phrases do and do not say where, ``sided`` phrases name one side,
    ``verbatim`` and ``new_words`` phrases are and are not sentences of a training report. A subset
    without a scored sample is left out.
    """
    category = scores["category"].map(slug).to_numpy()
    scored = np.isfinite(scores["cnr"].to_numpy())
    rows = by_box_size(scores["box_share"], settings.size_limits)
    placed = scores["placed"].to_numpy(dtype=bool)
    rows |= {"placed": placed, "unplaced": ~placed}
    if "verbatim" in scores:
        verbatim = scores["verbatim"].to_numpy(dtype=bool)
        rows |= {"verbatim": verbatim, "new_words": ~verbatim}
    if "signed_cnr_other_side" in scores:
        rows["sided"] = np.isfinite(scores["signed_cnr_other_side"].to_numpy())
    return {name: category == name for name in scored_categories(scores, settings)} | {
        name: subset for name, subset in rows.items() if (scored & subset).any()
    }


def statistic(scores: pd.DataFrame, settings: PhraseGroundingSettings) -> CountedStatistic:
    """Means per finding, over findings (``cnr``, ``miou`` …) and over all samples (``…_micro``).

    Besides, means over the samples of other subsets (``cnr/size_small``, ``cnr/placed`` …) and
    controls: ``signed_cnr/other_finding`` and ``signed_cnr/other_image`` as ``signed_cnr`` over
    findings, ``signed_cnr/other_side`` as ``signed_cnr/sided`` and ``map_shift/no_prior`` … over
    samples.
    """
    rows, findings = subsets(scores, settings), scored_categories(scores, settings)
    by_metric = {metric: scores[metric].to_numpy() for metric in METRICS}
    columns = {name: f"signed_cnr_{name}" for name in CONTROLS if findings}
    controls = {
        name: scores[column].to_numpy()
        for name, column in columns.items()
        if column in scores and scores[column].notna().any()
    }

    shifts = {
        name: scores[f"map_shift_{name}"].to_numpy()
        for name in SHIFTS
        if f"map_shift_{name}" in scores and scores[f"map_shift_{name}"].notna().any()
    }

    def metrics(counts: Floats) -> dict[str, Floats]:
        means: dict[str, Floats] = {}
        for metric, values in by_metric.items():
            for name, subset in rows.items():
                means[f"{metric}/{name}"] = weighted_mean(counts, values, subset)
            over = [means[f"{metric}/{name}"] for name in findings]
            means[metric] = np.mean(over, axis=0) if over else np.full(len(counts), np.nan)
            means[f"{metric}_micro"] = weighted_mean(counts, values)
        for name, values in controls.items():
            if name == "other_side":
                means[f"signed_cnr/{name}"] = weighted_mean(counts, values)
            else:
                over = [weighted_mean(counts, values, rows[finding]) for finding in findings]
                means[f"signed_cnr/{name}"] = np.mean(over, axis=0)
        for name, values in shifts.items():
            means[f"map_shift/{name}"] = weighted_mean(counts, values)
        return means

    def counted(name: str) -> NDArray[np.bool_]:
        metric, _, subset = name.partition("/")
        if metric == "map_shift":
            return np.isfinite(shifts[subset])
        if subset in controls:
            return np.isfinite(controls[subset])
        finite = np.isfinite(by_metric[metric.removesuffix("_micro")])
        return finite & rows[subset] if subset else finite

    return CountedStatistic(
        metrics,
        lambda name: int(counted(name).sum()),
        behind=lambda name: {"boxes": int(scores["boxes"][counted(name)].sum())},
    )


def read_samples(inputs: Inputs, settings: PhraseGroundingSettings) -> pd.DataFrame:
    """Return the phrases; with training reports, ``verbatim`` says which of them stand in one."""
    samples, training = inputs.rows(settings.split), inputs.options.training
    if training is None:
        return samples
    source = training / "pairs.parquet"
    reports = choose_split(read_table(source, (*SECTIONS, "split")), "train", source)
    return samples.assign(verbatim=verbatim(samples["phrase"], reports))


def usable_samples(
    samples: pd.DataFrame, pixels: Pixels, settings: PhraseGroundingSettings
) -> tuple[pd.DataFrame, list[dict[str, Any]]]:
    """Leave out, with counts and reasons, what cannot be scored."""
    index = pixels.index.set_index("image_id")
    categories = {slug(name) for name in settings.categories}
    size = index[["original_height", "original_width"]].reindex(samples["image_id"])
    aspect = (size["original_width"] / size["original_height"]).to_numpy()
    claimed = (samples["image_width"] / samples["image_height"]).to_numpy()
    tests = {
        "category is not in the settings": ~samples["category"].map(slug).isin(categories),
        "image is not in the pixel store": ~pixels.holds(samples["image_id"].tolist()),
        "image is not the shape that the boxes refer to": np.abs(aspect / claimed - 1)
        > SIZE_TOLERANCE,
    }
    return drop_rows(samples, tests)


class PhraseMaps(NamedTuple):
    """Maps of phrases, what of an image they cover, and how they are rescaled.

    ``by_control``: grids [N, h, w] of each, or map after map of any size; ``own`` are those of the
    phrases themselves.
    """

    by_control: Mapping[str, Any]
    geometry: Geometry
    rescale: Literal["none", "minmax"]


def maps(
    inputs: ModelInputs, samples: pd.DataFrame, settings: PhraseGroundingSettings
) -> PhraseMaps:
    """A model's maps of all phrases, and of the controls."""
    model, pixels = inputs.model, inputs.pixels
    if any(settings.dilate) and model.image_encoder is not None:
        refine_grid(model.image_encoder, settings.dilate)
    grids = similarity_grids(model, samples, pixels, settings)
    grids |= prior_grids(model, samples, pixels, settings)
    rescale = chosen_rescaling(settings.rescale, model.run)
    return PhraseMaps(grids, Geometry.parse(str(pixels.geometry)), rescale)


def predict(inputs: ModelInputs, settings: PhraseGroundingSettings) -> Predictions:
    """Score the maps of all phrases."""
    samples = read_samples(inputs, settings)
    inputs.load()
    pixels = inputs.pixels = stored_squares(inputs.pixels)
    samples, dropped = usable_samples(samples, pixels, settings)
    by_control, geometry, rescale = inputs.ask(maps, samples, settings)
    own_maps = by_control["own"]
    scores = score_samples(own_maps, samples, geometry, settings, rescale)
    scores = scores.assign(**score_controls(by_control, samples, geometry, settings, rescale))
    scores = scores.assign(**map_shifts(by_control))
    unscored = scores["unscored"].value_counts()
    for reason, count in unscored.items():
        log.warning("%d samples have no CNR: %s", count, reason)

    def draw(metrics: Mapping[str, Estimate]) -> list[Figure]:
        from cxrflow.benchmarks.grounding.pictures import draw_examples

        return draw_examples(samples, scores, own_maps, pixels, geometry, settings, rescale)

    grids = own_maps if isinstance(own_maps, np.ndarray) else None
    return Predictions(
        scores,
        statistic(scores, settings),
        {
            "pictures": pixels.fingerprint,
            "samples": len(scores),
            "dropped": dropped,
            "categories_scored": scored_categories(scores, settings),
            "unscored": {str(reason): int(count) for reason, count in unscored.items()},
        },
        {
            "rescale": rescale,
            "rescale_setting": settings.rescale,
            "geometry": str(geometry),
            "grid": "each map's" if grids is None else list(grids.shape[1:]),
            "boxes": "union of a phrase's boxes",
            "average": "over findings",
        },
        draw=draw if inputs.row is None else lambda metrics: [],
        arrays={} if grids is None else {"grids": grids.astype(np.float32)},
    )
