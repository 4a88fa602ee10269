"""Reports that ignore the image: the scores that wording alone reaches.

The program that scores models scores them too; none are published for MIMIC-CXR.
"""

from collections import Counter

import numpy as np
import pandas as pd

from cxr_files.errors import InputError
from cxrflow.benchmarks.generation.report_generation import (
    predictions_of,
    read_studies,
    training_reports,
)
from cxrflow.benchmarks.generation.settings import ReportGenerationSettings
from cxrflow.benchmarks.inputs import Inputs
from cxrflow.benchmarks.result import Predictions
from cxrflow.metrics.report_text import bleu, bleu_counts
from cxrflow.text.report_prompts import words_of

_COMPARED = 200  # training reports for `typical`: BLEU of all pairs grows with the square


def reference_reports(name: str, training: list[str], studies: pd.DataFrame) -> list[str]:
    """Return a reference row's text for each of the studies."""
    draw = np.random.default_rng(0)
    if name == "random":
        return [training[place] for place in draw.integers(0, len(training), len(studies))]
    if name == "prior_report":
        return studies["prior_report"].tolist()
    if name == "most_frequent":
        counts = Counter(training)
        text = min(counts, key=lambda report: (-counts[report], report))
    else:
        sample = draw.permutation(len(training))[:_COMPARED]
        words = [words_of(training[place]) for place in sample]
        scores = [float(bleu(bleu_counts(words, [report] * len(words)), 4)) for report in words]
        text = training[sample[int(np.argmax(scores))]]
    return [text] * len(studies)


def predict(name: str, inputs: Inputs, settings: ReportGenerationSettings) -> Predictions:
    """Score the texts of a reference row (docs/references.md).

    ``most_frequent``: the most frequent training report, for all studies. ``typical``: the training
    report with the highest BLEU-4 to a sample of training reports, for all studies. ``random``: a
    training report drawn for each study. ``prior_report``: the report of the patient's prior study,
    empty where there is none.
    """
    samples, dropped = read_studies(inputs, settings)
    training = training_reports(inputs, settings)
    if not training:
        raise InputError(f"{inputs.options.cohort}: no training report")
    texts = {"": pd.Series(reference_reports(name, training, samples), index=samples.index)}
    return predictions_of(inputs, samples, dropped, texts, settings, {"writes": name})
