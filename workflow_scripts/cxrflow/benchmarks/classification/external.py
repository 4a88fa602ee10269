"""Scores and vectors of a model that was run elsewhere, in classification and image retrieval.

Vectors take the place of an encoder's features and go through the same probe; scores are measured
as those of our own zero-shot classification.
"""

from dataclasses import replace

import pandas as pd
import torch

from cxr_files.errors import InputError
from cxrflow.benchmarks.classification import fold_probe, linear_probe, zero_shot_classification
from cxrflow.benchmarks.classification.labelled_images import LabelledImages
from cxrflow.benchmarks.classification.linear_classification import Sweep
from cxrflow.benchmarks.classification.probe_settings import (
    FoldProbeSettings,
    LinearClassificationSettings,
    LinearProbeSettings,
)
from cxrflow.benchmarks.classification.settings import (
    ZeroShotClassificationSettings,
    ZeroShotFindingsSettings,
)
from cxrflow.benchmarks.classification.transfer import predictions_of, read_splits
from cxrflow.benchmarks.classification.zero_shot_findings import label_studies, source_words
from cxrflow.benchmarks.external import ExternalTable
from cxrflow.benchmarks.features import Features
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import Predictions
from cxrflow.benchmarks.retrieval import image_retrieval
from cxrflow.benchmarks.retrieval.settings import ImageRetrievalSettings
from cxrflow.metrics.intervals import Floats

GEOMETRY = "the model's own"  # which pixels it saw is not known here


def images_of(table: ExternalTable, inputs: ModelInputs) -> pd.DataFrame:
    """Return the stored images of the cohort that the file has."""
    ids = [name for name in dict.fromkeys(("image_id", table.key)) if name in inputs.cohort.table]
    images = inputs.cohort.table[ids].drop_duplicates("image_id")
    chosen = inputs.pixels.holds(images["image_id"].fillna("")) & (table.rows(images) >= 0)
    return pd.DataFrame(images[chosen].reset_index(drop=True))


def features_of(table: ExternalTable, inputs: ModelInputs) -> Features:
    """Return the file's vectors as features of the cohort's stored images."""
    images = images_of(table, inputs)
    by_kind = {"pooled": torch.from_numpy(table.vectors(images))}
    return Features(images[["image_id"]], by_kind, GEOMETRY, inputs.pixels.fingerprint)


def probe(table: ExternalTable, inputs: ModelInputs, settings: LinearProbeSettings) -> Predictions:
    """Probe vectors."""
    if settings.augmentation is not None:
        raise InputError(
            f"{table.path}: settings.augmentation is set, but a file has one vector an image; "
            "expected a task without it"
        )
    inputs.features = features_of(table, inputs)
    plain = settings.model_copy(update={"features": "pooled", "start": "zeros"})
    return linear_probe.probed(inputs, plain, [inputs.features])


def probe_by_folds(
    table: ExternalTable, inputs: ModelInputs, settings: FoldProbeSettings
) -> Predictions:
    """Probe vectors of studies by cross-validation."""
    dropped = label_studies(inputs, settings)
    plain = settings.model_copy(update={"features": "pooled"})
    return fold_probe.probed(inputs, plain, features_of(table, inputs), dropped)


def classify(
    table: ExternalTable, inputs: ModelInputs, settings: LinearClassificationSettings
) -> Predictions:
    """Train the heads of a task on vectors."""
    splits = read_splits(inputs, settings)
    sweep = Sweep(features_of(table, inputs), splits, settings)
    heads = {share: sweep.train(sweep.runs(share)) for share in splits.shares}
    scores = {share: [sweep.test(head) for head in runs] for share, runs in heads.items()}
    courses = {share: [{"epochs": head.epochs} for head in runs] for share, runs in heads.items()}
    return predictions_of(inputs, splits, scores, courses, settings)


def retrieve(
    table: ExternalTable, inputs: ModelInputs, settings: ImageRetrievalSettings
) -> Predictions:
    """Search the candidates by the cosine of vectors."""
    inputs.features = features_of(table, inputs)
    plain = settings.model_copy(update={"features": "pooled"})
    return image_retrieval.predict(inputs, plain)


def zero_shot(
    table: ExternalTable, inputs: ModelInputs, settings: ZeroShotClassificationSettings
) -> Predictions:
    """Score images by a column a class; ``<class>/<pair>``: by another pair of prompts, if any."""
    dropped, reference = [], {}
    if isinstance(settings, ZeroShotFindingsSettings):
        dropped = label_studies(inputs, settings)
        reference = {"reference": source_words(settings)}
    stored = images_of(table, inputs)
    inputs.features = Features(stored[["image_id"]], {}, GEOMETRY, inputs.pixels.fingerprint)

    def score(images: LabelledImages) -> dict[str, Floats]:
        by_kind = {"score": table.numbers(images.table, images.classes)}
        for pair in settings.prompt_pairs:
            names = [f"{name}/{pair.name}" for name in images.classes]
            if set(names) <= set(map(str, table.frame.columns)):
                by_kind[f"score/{pair.name}"] = table.numbers(images.table, names)
        return by_kind

    predictions = zero_shot_classification.predictions_of(inputs, settings, score)
    protocol = {**predictions.protocol, "score": "the file's", **reference}
    data = {**predictions.data, "dropped": [*dropped, *predictions.data["dropped"]]}
    return replace(predictions, data=data, protocol=protocol)
