"""Zero-shot classification of change: which of five sentences fits two images best?

CheXTemporal (2026), by its published code: the image with its prior is compared with "[finding] is
[direction]" for improving, stable, worsening, new and resolved. A finding may have several true
directions: of k the k most similar are the answer, and ``set_score`` is the mean of
|answer ∩ truth| / |answer ∪ truth|; of one direction that is accuracy. ``accuracy`` is over the
published rows, a row a true direction, each with the most similar one; chance is 1/5.
``recall/<direction>`` is of the findings that have it, ``macro_recall`` their mean. Control:
``other_prior``, ``set_score`` beside another patient's prior.

Shapes: N findings of a pair, C directions, R resamples.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import CountedStatistic, Predictions, means, slug
from cxrflow.benchmarks.study_images import encode_studies
from cxrflow.benchmarks.temporal.image_pairs import ImagePairs
from cxrflow.benchmarks.temporal.scores import OTHER_PRIOR, OWN_PRIOR
from cxrflow.benchmarks.temporal.settings import TemporalZeroShotSettings
from cxrflow.benchmarks.temporal.temporal_classification import PAIR_COLUMNS, in_store
from cxrflow.benchmarks.temporal.temporal_prompting import PromptedScores
from cxrflow.data.cohorts.progression import ANSWERS
from cxrflow.metrics.intervals import Floats, weighted_mean
from cxrflow.similarity.similarity import EncodedImages

COLUMNS = PAIR_COLUMNS


def truths(labels: pd.Series, classes: Sequence[str]) -> NDArray[np.bool_]:
    """Which directions [N, C] the labels name."""
    sets = [set(str(label).split(ANSWERS)) for label in labels]
    return np.array([[name in true for name in classes] for true in sets]).reshape(-1, len(classes))


def answer_sets(scores_NC: Floats, sizes_N: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The so many greatest scores of each row [N, C]; of equal ones the first."""
    places_NC = np.argsort(np.argsort(-scores_NC, axis=1, kind="stable"), axis=1)
    return np.asarray(places_NC < sizes_N[:, None])


def scores(inputs: ModelInputs, settings: TemporalZeroShotSettings) -> PromptedScores:
    """By a model's similarity of images and texts."""
    model, pixels, classes = inputs.model, inputs.pixels, inputs.cohort.classes

    def scorer(finding: str, pairs: ImagePairs) -> NDArray[Any]:
        prompts = [settings.template.format(finding.lower(), name) for name in classes]
        by_kind = encode_studies(model, pixels, pairs.table, settings.batch_size)
        images = EncodedImages(by_kind["projected"], by_kind.get("patches"))
        return np.asarray(model.similarity.scores(images, model.encode_texts(prompts)).cpu())

    return PromptedScores(scorer, {"prior_image": bool(model.takes_prior)})


def predict(inputs: ModelInputs, settings: TemporalZeroShotSettings) -> Predictions:
    """Score each finding of every pair for the directions."""
    inputs.load()
    scorer, protocol, _ = inputs.ask(scores, settings)
    pixels, classes = inputs.pixels, inputs.cohort.classes
    findings = settings.findings or sorted({*inputs.rows(settings.split)["finding"]})
    samples, dropped = in_store(inputs, pixels, findings, [settings.split])
    table = samples[settings.split]
    own_pairs = ImagePairs.of(table, pixels, sorted({*table["label"]}))
    for test, pairs in {OWN_PRIOR: own_pairs, OTHER_PRIOR: own_pairs.other_priors()}.items():
        scores_NC = np.zeros((len(own_pairs), len(classes)))
        for finding in findings:
            rows = np.flatnonzero(table["finding"] == finding)
            if len(rows):
                scores_NC[rows] = scorer(finding, pairs.rows(rows))
        columns = {f"{test}_{name}": scores_NC[:, c] for c, name in enumerate(classes)}
        table = table.assign(**columns)
    return Predictions(
        table,
        statistic(table, settings),
        {"pictures": pixels.fingerprint, "pairs": len(table), "dropped": dropped},
        {"geometry": str(pixels.geometry), "directions": list(classes), **protocol},
    )


def statistic(predictions: pd.DataFrame, settings: TemporalZeroShotSettings) -> CountedStatistic:
    """The scores of the module's docstring, ``set_score/<finding>`` among them."""
    start = f"{OWN_PRIOR}_"
    names = map(str, predictions)
    classes = [name.removeprefix(start) for name in names if name.startswith(start)]
    true_NC = truths(predictions["label"], classes)
    sizes_N = true_NC.sum(1)
    scored = {
        test: predictions[[f"{test}_{name}" for name in classes]].to_numpy("float64")
        for test in (OWN_PRIOR, OTHER_PRIOR)
    }
    answers = {test: answer_sets(scores_NC, sizes_N) for test, scores_NC in scored.items()}
    set_scores = {
        test: (answers_NC & true_NC).sum(1) / (answers_NC | true_NC).sum(1)
        for test, answers_NC in answers.items()
    }
    every_row = np.ones(len(predictions), dtype=bool)
    first_N = true_NC[np.arange(len(true_NC)), scored[OWN_PRIOR].argmax(1)]
    recalls = {
        f"recall/{name}": (answers[OWN_PRIOR][:, c], true_NC[:, c])
        for c, name in enumerate(classes)
        if true_NC[:, c].any()
    }
    of_findings = {
        f"set_score/{slug(name)}": (
            set_scores[OWN_PRIOR],
            (predictions["finding"] == name).to_numpy(),
        )
        for name in sorted({*predictions["finding"]})
    }
    plain = means(
        {
            "set_score": (set_scores[OWN_PRIOR], every_row),
            "other_prior": (set_scores[OTHER_PRIOR], every_row),
            **recalls,
            **of_findings,
        }
    )

    def metrics(counts: Floats) -> dict[str, Floats]:
        values = dict(plain(counts))
        values["accuracy"] = weighted_mean(counts * sizes_N, first_N / sizes_N, every_row)
        values["macro_recall"] = np.nanmean([values[name] for name in recalls], axis=0)
        return values

    def size(name: str) -> int:
        rows = {"accuracy": int(sizes_N.sum()), "macro_recall": len(predictions)}
        return rows[name] if name in rows else plain.size(name)

    def behind(name: str) -> dict[str, int]:
        """How many rows have each direction."""
        rows = of_findings.get(name, (None, every_row))[1]
        return dict(zip(classes, true_NC[rows].sum(0).tolist(), strict=True))

    return CountedStatistic(metrics, size, behind=behind)
