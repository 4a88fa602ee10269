"""Reference rows of transfer: no encoder, the same shares of the labels as a model's head.

``nothing`` gives every image the share of the labels that say so: of exclusive classes, the most
frequent one. The others take plain features of the pixels to the optimum of logistic regression:
ConVIRT's rate and patience are for a head of 2,048 features. Where a share has no image of an
exclusive class there is no optimum but a limit, which gives it the probability 0, as ``nothing``
does; ``data.runs`` names such classes. Not in the paper.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from cxrflow.benchmarks.classification.linear_probe import train_probes
from cxrflow.benchmarks.classification.references import stored_features
from cxrflow.benchmarks.classification.settings import ConvergedSolver
from cxrflow.benchmarks.classification.transfer import (
    LabelledSplits,
    predictions_of,
    probabilities,
    read_splits,
)
from cxrflow.benchmarks.classification.transfer_settings import TransferSettings
from cxrflow.benchmarks.inputs import Pixels
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import Predictions
from cxrflow.metrics.intervals import Floats


def frequencies(splits: LabelledSplits) -> Iterator[tuple[str, list[Floats]]]:
    """For each share and run the classes' frequencies, for each of N test images [N, C]."""
    for share, each in splits.shares.items():
        labels = [splits.train.labels_NC[rows] for rows in each]
        means = [
            np.nansum(labels_NC, axis=0) / np.isfinite(labels_NC).sum(axis=0).clip(1)
            for labels_NC in labels
        ]
        yield share, [np.tile(mean_C, (len(splits.test.table), 1)) for mean_C in means]


def optima(
    name: str, splits: LabelledSplits, pixels: Pixels, settings: TransferSettings
) -> Iterator[tuple[str, list[Floats]]]:
    """For each share and run the probabilities [N, C] by plain features of the images."""
    train_NF, test_NF = (
        stored_features(name, pixels, images.table["image_id"])
        for images in (splits.train, splits.test)
    )
    labels_NC = splits.train.labels_NC
    for share, each in splits.shares.items():
        scores_by_run = [np.zeros((len(test_NF), len(splits.classes))) for _ in each]
        present_by_run = [
            tuple(np.flatnonzero(~is_absent)) for is_absent in absent(splits, each, settings)
        ]
        for present in dict.fromkeys(present_by_run):
            labels = labels_NC[:, present]
            start_FC = torch.zeros(train_NF.shape[1], len(present))
            numbers = [
                number for number, classes in enumerate(present_by_run) if classes == present
            ]
            runs = [(each[number], start_FC) for number in numbers]
            targets = labels.argmax(axis=1) if settings.exclusive else labels
            heads, _ = train_probes(train_NF, targets, runs, ConvergedSolver())
            for number, logits_NC in zip(numbers, heads.logits(test_NF), strict=True):
                scores_by_run[number][:, present] = probabilities(logits_NC, settings.exclusive)
        yield share, scores_by_run


def absent(
    splits: LabelledSplits, each: Sequence[NDArray[np.int64]], settings: TransferSettings
) -> list[NDArray[np.bool_]]:
    """Return, for each run, which exclusive classes [C] have no row; never one of other classes."""
    counts = [np.nansum(splits.train.labels_NC[rows], axis=0) for rows in each]
    return [(count_C == 0) & settings.exclusive for count_C in counts]


def predict(name: str, inputs: ModelInputs, settings: TransferSettings) -> Predictions:
    """Classify the test images in each run of each share as a reference row does."""
    splits = read_splits(inputs, settings)
    plain = (
        frequencies(splits) if name == "nothing" else optima(name, splits, inputs.pixels, settings)
    )
    absences = {
        share: [
            {"absent": [splits.classes[c] for c in np.flatnonzero(is_absent)]}
            if any(is_absent)
            else {}
            for is_absent in absent(splits, runs, settings)
        ]
        for share, runs in splits.shares.items()
    }
    return predictions_of(inputs, splits, dict(plain), absences, settings)
