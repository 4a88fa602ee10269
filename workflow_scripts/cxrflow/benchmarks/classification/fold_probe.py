"""Linear probes by cross-validation on the test part alone (Windsor et al. 2023, Appendix D.1).

"5-fold cross validation, performing class-weighted logistic regression ... on 80% of the test data
and testing on the remaining 20%": every class has a head of its own on frozen features, in each
fold. Balanced accuracy is the mean over folds, then over classes. A class that lacks one of its
labels in a fold, or outside it, has no score there; ``data.unscored`` counts such folds. In every
resample the mean is of the same folds and classes.

Shapes: N studies, C classes, K folds, R resamples.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

from cxr_files.errors import InputError
from cxrflow.benchmarks.classification.labelled_images import (
    LabelledImages,
    labelled_images,
    score_columns,
)
from cxrflow.benchmarks.classification.probe_settings import FoldProbeSettings
from cxrflow.benchmarks.classification.scores import (
    class_names,
    class_size,
    columns_of,
    labels_behind,
)
from cxrflow.benchmarks.classification.zero_shot_findings import label_studies, source_words
from cxrflow.benchmarks.features import Features, encode
from cxrflow.benchmarks.heads.cross_validation import Folds, assign_folds, cross_validate
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import CountedStatistic, Predictions
from cxrflow.benchmarks.study_images import STUDY
from cxrflow.metrics.intervals import Floats, clusters_of, ratio
from cxrflow.metrics.multilabel import by_class
from cxrflow.training.precision import choose_device

COLUMNS = STUDY
FOLD = "fold"


def statistic(predictions: pd.DataFrame, settings: FoldProbeSettings) -> CountedStatistic:
    """The mean over folds of each class, and the mean of these over classes."""
    labels_NC, scores_NC = (columns_of(predictions, kind) for kind in ("label", "score"))
    names = class_names(predictions)
    labels_NC = np.where(np.isfinite(scores_NC), labels_NC, np.nan)
    filled_NC = np.nan_to_num(scores_NC)
    metric_names: list[str] = list(dict.fromkeys(["auroc", *settings.metrics]))
    folds = []
    for fold in sorted(set(predictions[FOLD])):
        rows = (predictions[FOLD] == fold).to_numpy()
        of_fold = np.where(rows[:, None], labels_NC, np.nan)
        if np.isfinite(of_fold).any():  # else no class can be scored in it
            folds.append(by_class(of_fold, filled_NC, settings.threshold, metric_names))

    def by_fold(counts: Floats) -> list[dict[str, Floats]]:
        return [metrics(counts) for metrics in folds]

    observed = by_fold(np.ones((1, len(labels_NC))))
    scored_KC = np.stack([np.isfinite(of_fold["auroc"][0]) for of_fold in observed])
    number_C = scored_KC.sum(axis=0)

    def metrics(counts: Floats) -> dict[str, Floats]:
        each = by_fold(counts)
        scores: dict[str, Floats] = {}
        for name in settings.metrics:
            values_KRC = np.stack([of_fold[name] for of_fold in each])
            observed_K1C = np.stack([of_fold[name] for of_fold in observed])
            filled_KRC = np.where(np.isfinite(values_KRC), values_KRC, observed_K1C)
            sum_RC = np.where(scored_KC[:, None], filled_KRC, 0).sum(axis=0)
            mean_RC = ratio(sum_RC, number_C)
            scores[name] = ratio(mean_RC[:, number_C > 0].sum(axis=1), (number_C > 0).sum())
            if names:
                scores |= {f"{name}/{class_}": mean_RC[:, c] for c, class_ in enumerate(names)}
        return scores

    labels = labels_behind(labels_NC, names, lambda name: number_C > 0)
    return CountedStatistic(metrics, class_size(labels_NC, names), labels)


def unscored(labels_NC: Floats, folds_N: NDArray[np.int64], classes: Sequence[str]) -> dict:
    """Return the number of folds in which a label is missing, by class; only classes with any."""
    missing = {
        name: sum(
            not {0.0, 1.0} <= set(labels_NC[folds_N == fold, c])
            or not {0.0, 1.0} <= set(labels_NC[folds_N != fold, c])
            for fold in range(int(folds_N.max()) + 1)
        )
        for c, name in enumerate(classes)
    }
    return {name: count for name, count in missing.items() if count}


def features(inputs: ModelInputs, settings: FoldProbeSettings) -> Features:
    """The features of the studies' images by a model."""
    table, pixels = inputs.cohort.table, inputs.pixels
    by_kind = encode(inputs.image, pixels, table, settings.batch_size, inputs.device)
    return Features(table[["image_id"]], by_kind, str(pixels.geometry), pixels.fingerprint)


def score_by_folds(
    images: LabelledImages, features: Features, settings: FoldProbeSettings, source: Path
) -> tuple[NDArray[np.int64], Folds]:
    """The fold [N] of each image, and the scores by heads that have not seen its patient.

    Raises:
        InputError: there are fewer patients than folds, or no class can be learnt.
    """
    unit = "subject" if settings.fold_unit == "patient" else "sample"
    patients_N = clusters_of(images.table["subject_id"], unit)
    if patients_N.max() + 1 < settings.folds:
        raise InputError(
            f"{source}: {patients_N.max() + 1} {settings.fold_unit}s; expected "
            f"{settings.folds} or more, as there are folds"
        )
    folds_N = assign_folds(patients_N, settings.folds, settings.fold_seed)
    device = choose_device(settings.device)
    probe = cross_validate(
        features.of(images.table, settings.features).to(device),
        images.labels_NC,
        folds_N,
        settings.inverse_penalty,
    )
    if not probe.learnt_KC.any():
        raise InputError(f"{source}: no class has both labels outside a fold")
    return folds_N, probe


def predict(inputs: ModelInputs, settings: FoldProbeSettings) -> Predictions:
    """Probe the features of the studies' images."""
    dropped = label_studies(inputs, settings)
    encoded = features(inputs, settings) if inputs.row is None else inputs.features
    images = labelled_images(inputs.cohort.table, inputs.cohort, encoded, settings)
    folds_N, probe = score_by_folds(images, encoded, settings, inputs.source)
    scores_SC = images.of_samples(expit(probe.logit_NC))
    first = np.unique(images.groups_N, return_index=True)[1]  # whose fold is the sample's
    predictions = images.samples().assign(
        **score_columns({"score": scores_SC}, images.classes), **{FOLD: folds_N[first]}
    )
    return Predictions(
        predictions,
        statistic(predictions, settings),
        {
            "pictures": encoded.pixels,
            "classes": list(images.classes),
            **images.counts(),
            "unscored": unscored(images.labels_NC, folds_N, images.classes),
            "dropped": [*dropped, *images.dropped],
        },
        {
            "geometry": encoded.geometry,
            "reference": source_words(settings),
            "head": "logistic regression, both labels count the same, features standardised",
            "solution": {"steps": probe.steps},
        },
    )
