"""Report generation (BioViL-T Tables 1, 3, 7 and F.1): write a text for each image and score it.

A model with a decoder writes; any other with a joint space retrieves: the nearest training report
(Appendix F.2), or the nearest sentences (CXR-RePaiR, Endo et al. 2021). Two controls write again
from another patient's current image, or from another patient's prior image and report. Texts are
stored in predictions.parquet, never in metrics.json.
"""

from typing import Any

import numpy as np
import pandas as pd

from cxr_files.errors import InputError
from cxrflow.benchmarks.controls import exchange
from cxrflow.benchmarks.generation.report_retrieval import retrieve
from cxrflow.benchmarks.generation.report_scores import CONTROLS, Scorer, statistic
from cxrflow.benchmarks.generation.settings import ReportGenerationSettings
from cxrflow.benchmarks.inputs import (
    PRIOR,
    Inputs,
    draw_samples,
    image_batches,
    lost_priors,
)
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import Predictions
from cxrflow.benchmarks.study_images import usable_studies
from cxrflow.text.report_prompts import prior_texts, report_texts

COLUMNS = (
    "subject_id", "study_id", "image_id", "split", "findings", "impression", "prior_study_id",
    PRIOR,
)  # fmt: skip


def read_studies(
    inputs: Inputs, settings: ReportGenerationSettings
) -> tuple[pd.DataFrame, list[dict[str, Any]]]:
    """Return the studies of the split with an image in the store and a report, and the rest.

    Beside the cohort's columns they have ``sample_id``, ``reference`` and ``prior_report``. The
    rest is counted by reason.
    """
    table, rows = inputs.cohort.table, inputs.rows(settings.split)
    before = prior_texts(rows, table, settings.sections)
    rows = rows.assign(prior_report=[text or "" for text in before])
    samples, dropped = usable_studies(rows, inputs.pixels, settings.sections)
    samples = samples.rename(columns={"text": "reference"})
    return draw_samples(samples, settings.samples), dropped


def reports(
    inputs: ModelInputs, samples: pd.DataFrame, settings: ReportGenerationSettings
) -> pd.Series:
    """A model's text for each of the samples."""
    model, pixels = inputs.model, inputs.pixels
    if settings.method == "sentences" or model.decoder is None:
        written = retrieve(model, inputs.cohort.table, samples, pixels, settings)
        return pd.Series(written, index=samples.index)
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
    return pd.Series(texts, index=samples.index)


def exchanged(samples: pd.DataFrame, control: str) -> pd.DataFrame:
    """Return the samples with an image, or prior image and report, of another patient.

    Samples without a partner are left out.
    """
    partner = exchange(samples["subject_id"])
    columns = ["image_id"] if control == "other_image" else [PRIOR, "prior_report"]
    lent = samples[columns].iloc[partner].set_index(samples.index)
    return samples.assign(**{name: lent[name] for name in columns})[partner >= 0]


def controls(
    inputs: ModelInputs, samples: pd.DataFrame, settings: ReportGenerationSettings
) -> dict[str, pd.Series]:
    """The texts of each control, which asks again for other patients' images or priors."""
    texts = {}
    for control in CONTROLS if settings.controls else ():
        if control == "other_prior" and not _sees_priors(inputs.model):
            continue
        changed = exchanged(samples, control)
        if len(changed):
            texts[control] = inputs.ask(reports, changed, settings)
    return texts


def predict(inputs: ModelInputs, settings: ReportGenerationSettings) -> Predictions:
    """Compare the texts with the reports, and those of each control of a model."""
    inputs.load()
    samples, dropped = read_studies(inputs, settings)
    texts = {"": inputs.ask(reports, samples, settings)}
    protocol: dict[str, Any] = {}
    if inputs.row is None:
        texts |= controls(inputs, samples, settings)
        decoder = inputs.model.decoder if settings.method == "own" else None
        protocol = {
            "writes": "retrieval" if decoder is None else "decoder",
            "prompt": None if decoder is None else decoder.settings.model_dump(mode="json"),
        }
    pixels, scorer = inputs.pixels, Scorer(settings, inputs.options.stanza)
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
    predictions, distinct = with_verbatim(predictions, scorer, training_reports(inputs, settings))
    return Predictions(
        predictions,
        statistic(predictions, settings),
        {
            "pictures": pixels.fingerprint,
            "samples": len(predictions),
            "with_prior_image": int(predictions["with_prior"].sum()),
            "with_prior_report": int((samples["prior_report"] != "").sum()),
            "priors_not_stored": lost_priors(pixels, samples),
            **distinct,
            "dropped": dropped,
        },
        protocol,
    )


def training_reports(inputs: Inputs, settings: ReportGenerationSettings) -> list[str]:
    """Return the training reports of the cohort, none of which is empty."""
    table = inputs.cohort.table
    texts = report_texts(table[table["split"] == "train"], settings.sections)
    return [text for text in texts if text]


def with_verbatim(
    predictions: pd.DataFrame, scorer: Scorer, training: list[str]
) -> tuple[pd.DataFrame, dict[str, int]]:
    """Count sentences that stand word for word in training reports, where there are any.

    In ``verbatim_reference`` those of the radiologist's report, in ``verbatim`` those of the text
    that was written, each with the number of its sentences; and how many distinct ones the
    radiologists' reports have.
    """
    if not training:
        return predictions, {}
    corpus = {sentence for text in dict.fromkeys(training) for sentence in scorer.sentences(text)}
    references = predictions["reference"].tolist()
    columns: dict[str, Any] = {"verbatim_reference": scorer.verbatim(references, corpus)}
    for name in map(str, predictions.filter(regex="^generated")):
        written = predictions[name].dropna()
        counts = scorer.verbatim(written.tolist(), corpus)
        columns[name.replace("generated", "verbatim")] = pd.Series(counts, index=written.index)
    distinct = {sentence for text in references for sentence in scorer.sentences(text)}
    return predictions.assign(**columns), {
        "distinct_sentences": len(distinct),
        "distinct_sentences_in_training": len(distinct & corpus),
    }


def _sees_priors(model: Any) -> bool:
    """True if a model's reports can depend on the prior image or report."""
    if model.decoder is None:
        return bool(model.takes_prior)
    decoder = model.decoder.settings
    return bool(decoder.prior_report or (decoder.prior_image and model.takes_prior))
