"""Reference rows of zero-shot classification: what images score without a model. Not in the papers.

``nothing`` gives every image the same score. ``brightness`` calls an image positive the brighter it
is on the whole, for every class. ``thumbnail`` is what the image at 8 x 8 pixels says to heads that
learn from *all* labels: the class-weighted logistic regression of :mod:`.fold_probe`, in five folds
by patient, so that no image is scored by a head that has seen its patient. Prompts play no part: a
row scores alike for every pair of them.

Scores of different folds are pooled. For AUROC that is valid here: both labels count the same in
every fold, so a head's intercept does not follow how frequent the class is in the other folds,
which would pull pooled scores below chance; and two heads share three quarters of what each learns
from. Where all labels of one kind lie in one fold, that fold has no head, and the other images have
one label: the class does not count, as one without both labels does not.
``protocol.classes_without_head`` names it, so that no difference is taken between means over unlike
classes. An exclusive class of this kind is never the answer.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.special import expit

from cxr_files.errors import InputError
from cxrflow.benchmarks.classification.fold_probe import FOLD, score_by_folds
from cxrflow.benchmarks.classification.labelled_images import (
    LabelledImages,
    class_columns,
    labelled_images,
)
from cxrflow.benchmarks.classification.pictures import draw_classes
from cxrflow.benchmarks.classification.probe_settings import FoldProbeSettings
from cxrflow.benchmarks.classification.references import plain_features
from cxrflow.benchmarks.classification.settings import (
    ZeroShotClassificationSettings,
    ZeroShotFindingsSettings,
)
from cxrflow.benchmarks.classification.zero_shot_classification import (
    predictions_of,
    statistic,
)
from cxrflow.benchmarks.classification.zero_shot_findings import label_studies
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import Predictions
from cxrflow.metrics.intervals import Floats

WORDS = {
    "nothing": "the same for every image",
    "brightness": "the mean brightness of the image",
    "thumbnail": "logistic regression on the image at 8 x 8 pixels, learnt from all labels, both "
    "of which count the same, in five folds by patient",
}


def predict(
    name: str, inputs: ModelInputs, settings: ZeroShotClassificationSettings
) -> Predictions:
    """Score the labelled images as a reference row does."""
    if isinstance(settings, ZeroShotFindingsSettings):
        label_studies(inputs, settings)
    table = pd.concat([inputs.rows(part) for part in settings.parts], ignore_index=True)
    plain = "nothing" if name == "nothing" else "thumbnail"
    inputs.features = plain_features(plain, inputs.pixels, table)
    if name == "thumbnail":
        return _learnt(inputs, table, settings)

    def brightness(images: LabelledImages) -> Floats:
        mean_N = inputs.features.of(images.table, "pooled").double().mean(dim=1).numpy()
        return np.tile(mean_N[:, None], (1, len(images.classes)))

    return _predictions(name, inputs, settings, brightness)


def _predictions(
    name: str,
    inputs: ModelInputs,
    settings: ZeroShotClassificationSettings,
    score: Callable[[LabelledImages], Floats],
) -> Predictions:
    """Return what is reported of the scores [N, C], which are those of every pair of prompts."""
    kinds = ("score", *(f"score/{pair.name}" for pair in settings.prompt_pairs))
    predictions = predictions_of(inputs, settings, lambda x: dict.fromkeys(kinds, score(x)))
    return replace(predictions, protocol={**predictions.protocol, "score": WORDS[name]})


def _learnt(
    inputs: ModelInputs, table: pd.DataFrame, settings: ZeroShotClassificationSettings
) -> Predictions:
    """Score by heads that learn from the images of all parts that the task reads.

    So a threshold that is chosen on another part is one of the same heads' scores.
    """
    each = settings.model_copy(update={"sample": "image"})
    images = labelled_images(table, inputs.cohort, inputs.features, each)
    # Images of a study whose patient is not known lie in one fold too.
    studies = "study " + images.table["group_id"].astype("string")
    subjects = images.table["subject_id"].astype("string").fillna(studies).astype(object)
    by_patient = replace(images, table=images.table.assign(subject_id=subjects))
    how = FoldProbeSettings(device=inputs.device.type)
    folds_N, probe = score_by_folds(by_patient, inputs.features, how, inputs.source)
    learnt_C = np.asarray(probe.learnt_KC.all(axis=0))
    if not learnt_C.any():
        raise InputError(
            f"{inputs.source}: {', '.join(images.classes)} cannot be learnt in {how.folds} folds; "
            "expected a class whose labels 1 and 0 are in several of them"
        )
    rows = pd.Index(images.table["sample_id"])
    scores_NC = np.where(learnt_C, expit(probe.logit_NC), 0.0)

    def score(of_part: LabelledImages) -> Floats:
        return scores_NC[rows.get_indexer(of_part.table["sample_id"])]

    predictions = _predictions("thumbnail", inputs, settings, score)
    samples = predictions.table
    samples = samples.assign(**{FOLD: folds_N[rows.get_indexer(samples["sample_id"])]})
    without = [name for name, learnt in zip(images.classes, learnt_C, strict=True) if not learnt]
    if not without:
        return replace(predictions, table=samples)
    if not settings.exclusive:
        labels = np.array(class_columns("label", images.classes))[~learnt_C]
        samples = samples.assign(**dict.fromkeys(labels, np.nan))
    return replace(
        predictions,
        table=samples,
        statistic=statistic(samples, settings),
        protocol={**predictions.protocol, "classes_without_head": without},
        draw=lambda metrics: [draw_classes(samples, metrics, settings)],
    )
