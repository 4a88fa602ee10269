"""Scores of temporal image classification: macro-accuracy, direction, and what has changed at all.

``macro_accuracy`` is the paper's score, the mean of the three classes' recalls; chance is 1/3. Two
AUROCs (ours) say what it is made of. ``direction_auroc``: of the pairs that have changed, those
that got worse from those that improved, by the ratio of the two classes' probabilities.
``change_auroc``: pairs that have changed from stable ones, by the probability of not being stable.
Chance of both is 1/2. All are means over findings, and ``<name>/<finding>``; those of the control,
the patient's image beside another patient's prior, are ``other_prior`` (macro-accuracy) and
``<name>_other_prior``. Appendix A.2, Figure A.1: the cross-entropy of pairs on which radiologists
agree, and of those on which they do not.

Shapes: N pairs, C classes, R resamples.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxrflow.benchmarks.figures.distributions import draw_distributions
from cxrflow.benchmarks.result import CountedStatistic, Figure, by_class, slug
from cxrflow.benchmarks.temporal.settings import HeadTraining, TemporalSettings
from cxrflow.metrics.classification import auroc
from cxrflow.metrics.intervals import Floats, weighted_mean
from cxrflow.metrics.multiclass import recalls
from cxrflow.metrics.rare_classes import Behind, Labels

OWN_PRIOR, OTHER_PRIOR = "own_prior", "other_prior"
IMPROVING, STABLE, WORSENING = "improving", "stable", "worsening"
# MS-CXR-T's words for pairs that a second radiologist has read without knowing the first's label.
AGREEMENT = "multiple_experts"
READ_TWICE = {AGREEMENT: "agreement", "disagreement": "disagreement"}
FIGURE = "agreement.png"
TINY = np.finfo(np.float32).tiny  # a probability can underflow to 0, which has no logarithm


def answer_column(test: str, seed: int) -> str:
    """Return the column of predictions.parquet with the classes that a run answers."""
    return f"{test}_seed{seed}"


def probability_column(test: str, name: str, seed: int) -> str:
    """Return the column with a run's probabilities of a class."""
    return f"{test}_{name}_seed{seed}"


def loss_column(seed: int) -> str:
    """Return the column with the cross-entropies of a run, with the patient's own prior."""
    return f"cross_entropy_seed{seed}"


def seeds_of(settings: TemporalSettings) -> list[int]:
    """Return the seeds of the runs; prompting and a probe at its optimum are one run."""
    learning = getattr(settings, "learning", None)
    return learning.seeds if isinstance(learning, HeadTraining) else [0]


def columns_of_run(
    scores: Mapping[str, Floats], labels: NDArray[np.int64], classes: Sequence[str], seed: int
) -> dict[str, Any]:
    """Return the columns of a run, by the probabilities [N, C] of each test."""
    columns: dict[str, Any] = {}
    for test, scores_NC in scores.items():
        columns[answer_column(test, seed)] = [classes[place] for place in scores_NC.argmax(1)]
        for name, scores_N in zip(classes, scores_NC.T, strict=True):
            columns[probability_column(test, name, seed)] = scores_N
    likelihoods = scores[OWN_PRIOR][np.arange(len(labels)), labels]
    return columns | {loss_column(seed): -np.log(np.maximum(likelihoods, TINY))}


def in_order(predictions: pd.DataFrame, settings: TemporalSettings) -> pd.DataFrame:
    """Return the predictions with their columns in one order, whatever is missing."""
    seeds, tests = seeds_of(settings), (OWN_PRIOR, OTHER_PRIOR)
    order = ["sample_id", "subject_id", "finding", "label", "quality"]
    order += [answer_column(test, seed) for test in tests for seed in seeds]
    order += [
        probability_column(test, name, seed)
        for test in tests
        for name in (IMPROVING, STABLE, WORSENING)
        for seed in seeds
    ]
    return predictions.reindex(columns=[*order, *(loss_column(seed) for seed in seeds)])


class _Run:
    """The answers and scores of a run in one of the tests."""

    def __init__(self, predictions: pd.DataFrame, test: str, seed: int) -> None:
        self.answers = predictions[answer_column(test, seed)].to_numpy()
        better, stable, worse = (
            np.maximum(predictions[probability_column(test, name, seed)].to_numpy("float64"), TINY)
            for name in (IMPROVING, STABLE, WORSENING)
        )
        self.worse, self.changed = np.log(worse / better), -stable


def statistic(predictions: pd.DataFrame, settings: TemporalSettings) -> CountedStatistic:
    """The scores of the module's docstring, and their spread over runs ``macro_accuracy_sd``."""
    labels = predictions["label"].to_numpy()
    names, changed = sorted(set(labels)), labels != STABLE
    seeds = seeds_of(settings)
    masks = {name: (predictions["finding"] == name).to_numpy() for name in settings.findings}
    rows_by_finding = {name: rows for name, rows in masks.items() if rows.any()}
    runs = {
        test: [_Run(predictions, test, seed) for seed in seeds] for test in (OWN_PRIOR, OTHER_PRIOR)
    }
    losses, quality = losses_of(predictions, seeds)
    read_twice = {name: (quality == name).to_numpy() for name in sorted({*quality.dropna()})}

    def of_run(run: _Run, rows: NDArray[np.bool_], counts: Floats) -> dict[str, Floats]:
        row_counts, moved = counts[:, rows], rows & changed
        return {
            "macro_accuracy": recalls(labels[rows], run.answers[rows], names, row_counts).mean(
                axis=-1
            ),
            "direction_auroc": auroc(
                labels[moved] == WORSENING, run.worse[moved], counts[:, moved]
            ),
            "change_auroc": auroc(changed[rows], run.changed[rows], row_counts),
        }

    def metrics(counts: Floats) -> dict[str, Floats]:
        scores = {}
        for test, tested in runs.items():
            by_finding: dict[str, list[Floats]] = {}
            for finding, rows in rows_by_finding.items():
                of_runs = [of_run(run, rows, counts) for run in tested]
                for name in of_runs[0]:
                    by_seed = np.stack([values[name] for values in of_runs])
                    key = name if test == OWN_PRIOR else other_name(name)
                    by_finding.setdefault(key, []).append(by_seed.mean(axis=0))
                    scores[f"{key}/{slug(finding)}"] = by_finding[key][-1]
                    if key == "macro_accuracy" and len(seeds) > 1:
                        scores[f"{key}_sd/{slug(finding)}"] = by_seed.std(axis=0, ddof=1)
            scores |= {key: np.mean(values, axis=0) for key, values in by_finding.items()}
        for name, rows in read_twice.items():
            scores[f"cross_entropy/{name}"] = weighted_mean(counts, losses, rows)
        return scores

    sizes = {slug(name): rows for name, rows in rows_by_finding.items()} | read_twice

    def size(name: str) -> int:
        metric, _, subset = name.partition("/")
        rows = sizes.get(subset, np.ones(len(labels), dtype=bool))
        return int((rows & changed if metric.startswith("direction_auroc") else rows).sum())

    classes, worse = {}, (labels == WORSENING).astype(float)
    for finding, rows in rows_by_finding.items():
        classes[f"direction_auroc/{slug(finding)}"] = np.where(rows & changed, worse, np.nan)
        classes[f"change_auroc/{slug(finding)}"] = np.where(rows, changed.astype(float), np.nan)

    def behind(metric: str) -> Behind | None:
        kind, slash, finding = metric.partition("/")
        area = kind.removesuffix(f"_{OTHER_PRIOR}")
        if slash or not area.endswith("_auroc"):
            name = f"{area}/{finding}"
            return Behind((name,), True) if name in classes else None
        findings = [slug(finding) for finding in rows_by_finding]
        weights = {f"{kind}/{finding}": 1 / len(findings) for finding in findings}
        return Behind(tuple(f"{area}/{finding}" for finding in findings), True, weights)

    def of_classes(metric: str) -> dict[str, int]:
        rows = sizes.get(metric.partition("/")[2], np.ones(len(labels), dtype=bool))
        return {} if "auroc" in metric else by_class(labels, rows)

    return CountedStatistic(metrics, size, Labels(classes, behind), of_classes)


def other_name(metric: str) -> str:
    """Return the control's name of a metric."""
    return OTHER_PRIOR if metric == "macro_accuracy" else f"{metric}_{OTHER_PRIOR}"


def losses_of(predictions: pd.DataFrame, seeds: Sequence[int]) -> tuple[Floats, pd.Series]:
    """Return the mean loss of the runs [N], and if two radiologists agree (missing: read once)."""
    columns = [loss_column(seed) for seed in seeds]
    if not {*columns, "quality"} <= {*predictions}:
        return np.zeros(0), pd.Series(pd.NA, predictions.index, dtype="string")
    return predictions[columns].to_numpy().mean(axis=1), predictions["quality"].map(READ_TWICE)


def draw(predictions: pd.DataFrame, seeds: Sequence[int]) -> list[Figure]:
    """Draw Figure A.1: cross-entropies of pairs that two radiologists read, by true class."""
    losses, quality = losses_of(predictions, seeds)
    groups = {
        f"{label}, {answer} ({len(group)})": group.to_numpy()
        for (label, answer), group in pd.Series(losses).groupby([predictions["label"], quality])
    }
    if not groups:
        return []
    title = "Cross-entropy by what a second radiologist said"
    caption = (
        "Of pairs that a second radiologist has read without knowing the label: agreement or not "
        "with the first; boxes are quartiles, dots means, numbers of pairs in brackets."
    )
    picture = draw_distributions(groups, "cross-entropy of the label")
    return [Figure(FIGURE, picture, title, caption)]
