"""Report generation (BioViL-T Tables 1, 3, 7 and F.1): write a text for each image and score it.

A model with a decoder writes; any other with a joint space retrieves: the nearest training report
(Appendix F.2), or the nearest sentences (CXR-RePaiR, Endo et al. 2021). Two controls write again
from another patient's current image, or from another patient's prior image and report. Texts are
stored in predictions.parquet, never in metrics.json.
"""

from argparse import Namespace
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import cxrflow
from cxrflow.benchmarks.generation.report_retrieval import retrieve
from cxrflow.benchmarks.generation.report_scores import CONTROLS, PRIOR_GROUPS, Scorer, statistics
from cxrflow.benchmarks.generation.settings import ReportGenerationSettings
from cxrflow.benchmarks.grounding.controls import exchange
from cxrflow.benchmarks.inputs import (
    PRIOR,
    Cohort,
    Pixels,
    draw_samples,
    image_batches,
    lost_priors,
    open_pixels,
    read_cohort,
)
from cxrflow.benchmarks.result import Result, estimates
from cxrflow.benchmarks.study_images import usable_studies
from cxrflow.errors import InputError
from cxrflow.text.report_prompts import prior_texts
from cxrflow.training.precision import choose_device

COLUMNS = (
    "subject_id", "study_id", "image_id", "split", "findings", "impression", "prior_study_id",
    PRIOR,
)  # fmt: skip


@dataclass(frozen=True)
class ReportStudies:
    """The studies that reports are written for, and the cohort they are from."""

    cohort: Cohort
    samples: pd.DataFrame  # sample_id, reference and prior_report beside the cohort's columns
    dropped: list[dict[str, Any]]


def read_studies(
    options: Namespace, pixels: Pixels, settings: ReportGenerationSettings
) -> ReportStudies:
    """Read the studies of the split that have an image in the store and a report."""
    cohort = read_cohort(options.cohort, "pairs.parquet", COLUMNS)
    table = cohort.table
    rows = table[table["split"] == settings.split] if settings.split else table
    if rows.empty:
        raise InputError(f"{options.cohort / 'pairs.parquet'}: no row has split {settings.split!r}")
    before = prior_texts(rows, table, settings.sections)
    rows = rows.assign(prior_report=[text or "" for text in before]).reset_index(drop=True)
    samples, dropped = usable_studies(rows, pixels, settings.sections)
    samples = draw_samples(samples.rename(columns={"text": "reference"}), settings.samples)
    return ReportStudies(cohort, samples, dropped)


def write(
    model: Any, studies: ReportStudies, samples: pd.DataFrame, pixels: Pixels,
    settings: ReportGenerationSettings,
) -> list[str]:  # fmt: skip
    """Write a text for each of the samples."""
    if settings.method == "sentences" or model.decoder is None:
        return retrieve(model, studies.cohort.table, samples, pixels, settings)
    if model.decoder.settings.sections != settings.sections:
        raise InputError(
            f"{model.folder}: writes {' and '.join(model.decoder.settings.sections)}, but "
            f"settings.sections is {list(settings.sections)}; expected the same"
        )
    # Sorted by length: a batch is as slow as its longest prompt.
    order = samples["prior_report"].str.len().argsort(kind="stable").to_numpy()
    texts = np.empty(len(samples), dtype=object)
    sorted_samples = samples.iloc[order]
    for positions, frames in image_batches(
        pixels, sorted_samples, settings.batch_size, model.takes_prior
    ):
        prior_reports = sorted_samples["prior_report"].iloc[positions].tolist()
        texts[order[positions]] = model.generate_report(
            frames,
            prior_reports=prior_reports,
            beams=settings.beams,
            length_penalty=settings.length_penalty,
        )
    return texts.tolist()


def exchanged(samples: pd.DataFrame, control: str) -> pd.DataFrame:
    """Return the samples with an image, or prior image and report, of another patient.

    Samples without a partner are left out.
    """
    partner = exchange(samples["subject_id"])
    columns = ["image_id"] if control == "other_image" else [PRIOR, "prior_report"]
    lent = samples[columns].iloc[partner].set_index(samples.index)
    return samples.assign(**{name: lent[name] for name in columns})[partner >= 0]


def make_result(
    studies: ReportStudies,
    texts: dict[str, pd.Series],
    pixels: Pixels,
    settings: ReportGenerationSettings,
    options: Namespace,
    protocol: dict[str, Any],
) -> Result:
    """Score the texts of each control ("": none), indexed as the samples."""
    samples = studies.samples
    scorer = Scorer(settings, options.stanza)
    predictions = samples[["sample_id", "subject_id", "study_id", "reference"]].assign(
        with_prior=samples[PRIOR].notna() & (pixels.find(samples[PRIOR]) >= 0)
    )
    for control, written in texts.items():
        ending = f"_{control}" if control else ""
        columns = scorer.columns(samples.loc[written.index, "reference"].tolist(), written.tolist())
        columns = {"generated": written.tolist(), **columns}
        scored = pd.DataFrame(columns, index=written.index).add_suffix(ending)
        predictions = predictions.join(scored)
    predictions["reference_labels"] = scorer.labels(samples["reference"].tolist())
    statistic = statistics(predictions, settings)
    sizes = {
        name: len(predictions)
        for name in statistic(np.ones((1, len(predictions))))
        if "/" not in name
    }
    prior = int(predictions["with_prior"].sum())
    groups = dict(zip(PRIOR_GROUPS, (prior, len(predictions) - prior), strict=True))
    groups |= {control: len(texts[control]) for control in CONTROLS if control in texts}
    sizes |= {f"{name}/{group}": count for name in list(sizes) for group, count in groups.items()}
    data = {
        **studies.cohort.data,
        "pictures": pixels.fingerprint,
        "samples": len(predictions),
        "with_prior_image": prior,
        "with_prior_report": int((samples["prior_report"] != "").sum()),
        "priors_not_stored": lost_priors(pixels, samples),
        "dropped": studies.dropped,
    }
    return Result(
        "report_generation",
        data,
        {**settings.model_dump(mode="json", exclude={"batch_size", "device"}), **protocol},
        estimates(statistic, predictions, sizes, settings.intervals),
        predictions,
    )


def score(options: Namespace, settings: ReportGenerationSettings) -> Result:
    model = cxrflow.load(options.model, choose_device(settings.device))
    pixels = open_pixels(options.pixels, model.geometry)
    studies = read_studies(options, pixels, settings)
    samples = studies.samples
    texts = {"": pd.Series(write(model, studies, samples, pixels, settings), index=samples.index)}
    for control in CONTROLS if settings.controls else ():
        if control == "other_prior" and not _sees_priors(model):
            continue
        changed = exchanged(samples, control)
        if len(changed):
            written = write(model, studies, changed, pixels, settings)
            texts[control] = pd.Series(written, index=changed.index)
    decoder = model.decoder if settings.method == "own" else None
    protocol = {
        "writes": "retrieval" if decoder is None else "decoder",
        "prompt": None if decoder is None else decoder.settings.model_dump(mode="json"),
    }
    return make_result(studies, texts, pixels, settings, options, protocol)


def _sees_priors(model: Any) -> bool:
    """True if a model's reports can depend on the prior image or report."""
    if model.decoder is None:
        return bool(model.takes_prior)
    decoder = model.decoder.settings
    return bool(decoder.prior_report or (decoder.prior_image and model.takes_prior))
