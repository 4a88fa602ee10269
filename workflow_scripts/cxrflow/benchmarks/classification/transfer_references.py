"""What classifies images without an encoder, from the same shares of the labels as a model's head.

``nothing`` gives every image the share of the labels that say so: of exclusive classes, the most
frequent one. The others take plain features of the pixels to the optimum of logistic regression:
ConVIRT's rate and patience are for a head of 2,048 features. Where a share has no image of an
exclusive class there is no optimum but a limit, which gives it the probability 0, as ``nothing``
does; ``data.runs`` names such classes. Not in the paper.
"""

from argparse import Namespace
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from cxrflow.benchmarks.classification.linear_probe import train_probes
from cxrflow.benchmarks.classification.references import stored_features
from cxrflow.benchmarks.classification.settings import ConvergedSolver
from cxrflow.benchmarks.classification.transfer import (
    Parts,
    probabilities,
    read_inputs,
    read_parts,
    result,
)
from cxrflow.benchmarks.classification.transfer_settings import TransferSettings
from cxrflow.benchmarks.inputs import Pixels
from cxrflow.benchmarks.result import Result
from cxrflow.metrics.intervals import Floats


def frequencies(parts: Parts) -> Iterator[tuple[str, list[Floats]]]:
    """For each share and run the classes' frequencies, for each of N test images [N, C]."""
    for share, each in parts.shares.items():
        labels = [parts.train.labels_NC[rows] for rows in each]
        means = [np.nansum(own, axis=0) / np.isfinite(own).sum(axis=0).clip(1) for own in labels]
        yield share, [np.tile(mean_C, (len(parts.test.table), 1)) for mean_C in means]


def optima(
    name: str, parts: Parts, pixels: Pixels, settings: TransferSettings
) -> Iterator[tuple[str, list[Floats]]]:
    """For each share and run the probabilities [N, C] by plain features of the images."""
    train_NF, test_NF = (
        stored_features(name, pixels, part.table["image_id"]) for part in (parts.train, parts.test)
    )
    labels_NC = parts.train.labels_NC
    for share, each in parts.shares.items():
        found = [np.zeros((len(test_NF), len(parts.classes))) for _ in each]
        there = [tuple(np.flatnonzero(~missing)) for missing in absent(parts, each, settings)]
        for present in dict.fromkeys(there):
            labels = labels_NC[:, present]
            start_FC = torch.zeros(train_NF.shape[1], len(present))
            own = [number for number, one in enumerate(there) if one == present]
            runs = [(each[number], start_FC) for number in own]
            targets = labels.argmax(axis=1) if settings.exclusive else labels
            heads, _ = train_probes(train_NF, targets, runs, ConvergedSolver())
            for number, logits_NC in zip(own, heads.logits(test_NF), strict=True):
                found[number][:, present] = probabilities(logits_NC, settings.exclusive)
        yield share, found


def absent(
    parts: Parts, each: Sequence[NDArray[np.int64]], settings: TransferSettings
) -> list[NDArray[np.bool_]]:
    """Which exclusive classes [C] none of the rows of each run is of; of others, none."""
    counts = [np.nansum(parts.train.labels_NC[rows], axis=0) for rows in each]
    return [(count_C == 0) & settings.exclusive for count_C in counts]


def score_reference(name: str, options: Namespace, settings: TransferSettings) -> Result:
    cohort, pixels = read_inputs(options, settings)
    parts = read_parts(cohort, options.cohort, pixels, settings)
    found = frequencies(parts) if name == "nothing" else optima(name, parts, pixels, settings)
    lacking = {
        share: [
            {"absent": [parts.classes[c] for c in np.flatnonzero(missing)]} if any(missing) else {}
            for missing in absent(parts, each, settings)
        ]
        for share, each in parts.shares.items()
    }
    return result(options.benchmark, cohort, parts, pixels, dict(found), lacking, settings)
