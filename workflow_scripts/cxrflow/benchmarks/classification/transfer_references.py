"""What classifies images without an encoder, from the same shares of the labels as a model's head.

``nothing`` gives every image the share of the labels that say so: of exclusive classes, the most
frequent one. The others take plain features of the pixels to the optimum of logistic regression:
ConVIRT's rate and patience are for a head of 2,048 features. Not in the paper.
"""

from argparse import Namespace
from collections.abc import Iterator

import numpy as np
import torch

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
    labels = labels_NC.argmax(axis=1) if settings.exclusive else labels_NC
    start_FC = torch.zeros(train_NF.shape[1], len(parts.classes))
    for share, each in parts.shares.items():
        heads, _ = train_probes(
            train_NF, labels, [(rows, start_FC) for rows in each], ConvergedSolver()
        )
        logits_KNC = heads.logits(test_NF)
        yield share, [probabilities(logits_NC, settings.exclusive) for logits_NC in logits_KNC]


def score_reference(name: str, options: Namespace, settings: TransferSettings) -> Result:
    cohort, pixels = read_inputs(options, settings)
    parts = read_parts(cohort, options.cohort, pixels, settings)
    found = frequencies(parts) if name == "nothing" else optima(name, parts, pixels, settings)
    return result(options.benchmark, cohort, parts, pixels, dict(found), {}, settings)
