"""Reports written without a look at the image: what scores of wording alone are worth.

Scored by the program that scores models; nobody has published them for MIMIC-CXR.
"""

from argparse import Namespace
from collections import Counter

import numpy as np
import pandas as pd

from cxrflow.benchmarks.generation.report_generation import make_result, read_studies
from cxrflow.benchmarks.generation.settings import ReportGenerationSettings
from cxrflow.benchmarks.inputs import Pixels
from cxrflow.benchmarks.result import Result
from cxrflow.errors import InputError
from cxrflow.images.store import PixelStore
from cxrflow.metrics.report_text import bleu, bleu_counts
from cxrflow.text.report_prompts import report_texts, words_of

_COMPARED = 200  # training reports among which the most typical one is sought


def reference_reports(name: str, training: list[str], studies: pd.DataFrame) -> list[str]:
    """The texts of one reference row, for each of the studies."""
    draw = np.random.default_rng(0)
    if name == "random":
        return [training[place] for place in draw.integers(0, len(training), len(studies))]
    if name == "prior_report":
        return studies["prior_report"].tolist()
    if name == "most_frequent":
        counts = Counter(training)
        text = min(counts, key=lambda one: (-counts[one], one))
    else:
        some = draw.permutation(len(training))[:_COMPARED]
        words = [words_of(training[place]) for place in some]
        scores = [float(bleu(bleu_counts(words, [one] * len(words)), 4)) for one in words]
        text = training[some[int(np.argmax(scores))]]
    return [text] * len(studies)


def score_reference(name: str, options: Namespace, settings: ReportGenerationSettings) -> Result:
    """What ``cxrflow.benchmarks.score_reference`` calls.

    ``most_frequent`` and ``typical``: one report for all, the most frequent of training, or of some
    of it the one with the highest BLEU-4 to the others. ``random``: one of training.
    ``prior_report``: what was written of the patient before, nothing where nothing was.
    """
    pixels: Pixels = PixelStore(options.pixels)
    studies = read_studies(options, pixels, settings)
    table = studies.cohort.table
    training = report_texts(table[table["split"] == "train"], settings.sections)
    training = [text for text in training if text]
    if not training:
        raise InputError(f"{options.cohort}: no training report")
    texts = reference_reports(name, training, studies.samples)
    written = {"": pd.Series(texts, index=studies.samples.index)}
    return make_result(studies, written, pixels, settings, options, {"writes": name})
