"""Zero-shot classification of findings that the studies' own reports name: no labels are needed.

A report's findings are those that the labeller reads in it (docs/labels.md); its errors are in the
scores. Images and prompts are scored as in :mod:`.zero_shot_classification`.
"""

import logging
from argparse import Namespace
from dataclasses import replace
from itertools import chain
from typing import Any

import pandas as pd

import cxrflow
from cxrflow.benchmarks.classification.settings import ZeroShotFindingsSettings
from cxrflow.benchmarks.classification.zero_shot_classification import evaluate
from cxrflow.benchmarks.features import Features
from cxrflow.benchmarks.inputs import open_pixels
from cxrflow.benchmarks.result import Result
from cxrflow.benchmarks.study_images import Studies, encode_studies, read_studies
from cxrflow.reports.labels.labeller import make_labeller
from cxrflow.reports.labels.observations import OBSERVATIONS
from cxrflow.text.sentences import sentences_of
from cxrflow.training.precision import choose_device

log = logging.getLogger("cxrflow")


def labelled(studies: Studies, settings: ZeroShotFindingsSettings) -> Studies:
    """The studies with the labels of their reports: 1, 0, -1 or NaN of each observation."""
    sections = (sentences_of(studies.table, name) for name in settings.sections)
    sentences = [list(chain(*report)) for report in zip(*sections, strict=True)]
    labels = pd.Series(
        [list(row) for row in make_labeller(settings.labels).label(sentences)],
        index=studies.table.index,
    )
    table = studies.table.assign(labels=labels, group_id=studies.table["study_id"], subgroup=None)
    return replace(studies, table=table, cohort=replace(studies.cohort, classes=OBSERVATIONS))


def score(options: Namespace, settings: ZeroShotFindingsSettings) -> Result:
    model: Any = cxrflow.load(options.model, choose_device(settings.device))
    pixels = open_pixels(options.pixels, model.geometry)
    studies = labelled(
        read_studies(options.cohort, pixels, settings.sections, settings.split), settings
    )
    features = Features(
        studies.table[["image_id"]],
        encode_studies(model, pixels, studies.table, settings.batch_size),
        str(pixels.geometry),
        pixels.fingerprint,
    )
    cohort = replace(studies.cohort, table=studies.table)
    found = evaluate(model, cohort, features, settings)
    log.info("AUROC %.3f", found.metrics["auroc"].value)
    data = {**found.data, "dropped": [*studies.dropped, *found.data["dropped"]]}
    protocol = {**found.protocol, "reference": "labels of the studies' own reports"}
    return replace(found, benchmark="zero_shot_findings", data=data, protocol=protocol)
