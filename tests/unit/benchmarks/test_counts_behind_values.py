"""Every kind of benchmark that scores models counts what is to be found behind its values."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmark_fakes import settings_of

from cxrflow.benchmarks.generation.report_scores import CONTROLS, Scorer
from cxrflow.benchmarks.registry import BENCHMARKS, imported
from cxrflow.benchmarks.result import estimate
from cxrflow.benchmarks.retrieval.pair_retrieval import score_studies
from cxrflow.benchmarks.retrieval.precision import Candidates, score_queries
from cxrflow.benchmarks.retrieval.retrieval_auroc import score_studies as score_all_pairs
from cxrflow.benchmarks.temporal.scores import answer_column, probability_column
from cxrflow.show.tables.ceilings import UNORDERED
from cxrflow.similarity.pairs import by_vectors

N = 60
RNG = np.random.default_rng(0)
DRAWN = RNG.random(N)
BASE = pd.DataFrame(
    {
        "sample_id": [f"s{n}" for n in range(N)],
        "subject_id": [f"p{n // 2}" for n in range(N)],
        "study_id": [f"t{n}" for n in range(N)],
        "image_id": [f"i{n}" for n in range(N)],
        "label": (np.arange(N) % 3 == 0).astype(float),
    }
)
PROBES = {"fractions": [1.0], "probe_seeds": [0, 1]}
Predicted = tuple[pd.DataFrame, dict[str, Any]]  # a table, and settings that are not the defaults


def boxed(**columns: Any) -> pd.DataFrame:
    """Samples with two boxes each."""
    return BASE.assign(boxes=2, box_share=0.1, unscored=None, **columns)


def phrases() -> Predicted:
    scores = dict.fromkeys(("cnr", "miou", "signed_cnr"), DRAWN)
    return boxed(category="Edema", placed=True, **scores), {}


def segments() -> Predicted:
    return boxed(**dict.fromkeys(("iou", "dice", "cnr", "signed_cnr"), DRAWN)), PROBES


def prompted() -> Predicted:
    return BASE.assign(score=DRAWN, subgroup=None), {"prompt_pairs": []}


def probed() -> Predicted:
    columns = {f"score_100_seed{seed}": DRAWN for seed in (0, 1)}
    return BASE.assign(subgroup=None, **columns), PROBES


def exclusive() -> Predicted:
    """Transfer to classes of which an image has one."""
    settings = {"fractions": [1.0], "run_seeds": [0, 1], "exclusive": True, "metrics": ["accuracy"]}
    table = BASE.drop(columns="label")
    for place, name in enumerate(("normal", "pneumonia", "covid")):
        table[f"label/{name}"] = (np.arange(N) % 3 == place).astype(float)
        for seed in (0, 1):
            table[f"score_100_seed{seed}/{name}"] = RNG.random(N)
    return table, settings


def folds() -> Predicted:
    return BASE.assign(score=DRAWN, fold=np.arange(N) % 2), {}


def queries() -> Predicted:
    table = BASE.assign(category=np.where(BASE["label"] == 1, "a", "b"))
    return score_queries(table, Candidates(table, []), RNG.random((N, N)), [5]), {"cutoffs": [5]}


def studies() -> pd.DataFrame:
    return BASE.assign(text=[f"report {n}" for n in range(N)])


def paired() -> Predicted:
    return score_studies(studies(), RNG.random((N, N)), [5]), {"cutoffs": [5]}


def all_pairs() -> Predicted:
    matchings = {"global": by_vectors(RNG.random((N, 8)), RNG.random((N, 8)))}
    return score_all_pairs(studies(), matchings, [5]), {"cutoffs": [5]}


def changes(**values: Any) -> Predicted:
    names = np.array(["improving", "stable", "worsening"])
    table = BASE.assign(finding="Edema", quality=None, label=names[np.arange(N) % 3])
    for test in ("own_prior", "other_prior"):
        table[answer_column(test, 0)] = names[RNG.integers(0, 3, N)]
        for name in names:
            table[probability_column(test, name, 0)] = RNG.random(N)
    return table, {"findings": ["Edema"], **values}


def directions() -> Predicted:
    names = ["improving", "new", "resolved", "stable", "worsening"]
    table = BASE.assign(finding="Edema", label=np.array(names)[np.arange(N) % 5])
    scores = {
        f"{prior}_prior_{name}": RNG.random(N) for prior in ("own", "other") for name in names
    }
    return table.assign(**scores), {}


def masks() -> Predicted:
    table = BASE.assign(section="findings", targets=10, correct=4, correct_most_frequent=1)
    return table, {"sections": ["findings"]}


def inferred() -> Predicted:
    label = np.array(["entailment", "neutral", "contradiction"])[np.arange(N) % 3]
    table = BASE.assign(label=label, prediction_seed0=label, prediction_seed1="neutral")
    return table, {"run_seeds": [0, 1]}


def sentences() -> Predicted:
    label = np.where(BASE["label"] == 1, "entailment", "contradiction")
    return BASE.assign(label=label, cosine=DRAWN, threshold=0.5), {}


def written() -> Predicted:
    settings = {"tagger": "keywords"}
    references = [f"Worsening edema {n}. No effusion." for n in range(N)]
    scorer = Scorer(settings_of("report_generation", settings), None)
    table = BASE.assign(with_prior=True, **scorer.columns(references, references[::-1]))
    return table.assign(reference_labels=scorer.labels(references)), settings


#: A table of predictions of every kind, and what stands behind a metric of it.
KINDS: dict[str, tuple[Callable[[], Predicted], dict[str, int]]] = {
    "phrase_grounding": (phrases, {"boxes": 2 * N}),
    "segmentation": (segments, {"boxes": 2 * N}),
    "zero_shot_classification": (prompted, {"positives": 20, "negatives": 40}),
    "zero_shot_findings": (prompted, {"positives": 20, "negatives": 40}),
    "linear_probe": (probed, {"positives": 20, "negatives": 40}),
    "fold_probe": (folds, {"positives": 20, "negatives": 40}),
    "linear_classification": (exclusive, {"normal": 20, "pneumonia": 20, "covid": 20}),
    "fine_tuned_classification": (exclusive, {"normal": 20, "pneumonia": 20, "covid": 20}),
    "image_retrieval": (queries, {"candidates": N, "least_relevant": 20}),
    "text_retrieval": (queries, {"candidates": N, "least_relevant": 20}),
    "pair_retrieval": (paired, {"candidates": N}),
    "retrieval_auroc": (all_pairs, {"positives": N, "negatives": N * (N - 1)}),
    "temporal_classification": (
        lambda: changes(learning={"name": "probe"}),
        {"improving": 20, "stable": 20, "worsening": 20},
    ),
    "temporal_prompting": (changes, {"improving": 20, "stable": 20, "worsening": 20}),
    "temporal_zero_shot": (directions, {"improving": 12, "new": 12, "worsening": 12}),
    "mask_prediction": (masks, {"masked": 10 * N, "most_frequent": N}),
    "natural_language_inference": (
        inferred, {"entailment": 20, "neutral": 20, "contradiction": 20},
    ),
    "sentence_similarity": (sentences, {"entailment": 20, "contradiction": 40}),
    "paraphrase_detection": (sentences, {"entailment": 20, "contradiction": 40}),
    "report_generation": (written, {"reports": N}),
}  # fmt: skip
SCORED = [name for name, entry in BENCHMARKS.items() if entry.needs and not entry.no_rows]


@pytest.mark.parametrize("name", SCORED)
def test_a_benchmark_counts_what_is_to_be_found(name: str) -> None:
    assert name in KINDS, f"{name} has no table of predictions here, whose counts are looked at"
    make, to_find = KINDS[name]
    table, values = make()
    settings = settings_of(name, values)
    statistic = imported(BENCHMARKS[name].statistic_module).statistic(table, settings)
    metrics = estimate(statistic, np.arange(N), settings.intervals)
    areas = [each.counts for metric, each in metrics.items() if metric.split("/")[0] == "auroc"]
    if name != "retrieval_auroc" and not values.get("exclusive"):  # of which KINDS has the counts
        assert all((each["positives"], each["negatives"]) == (20, 40) for each in areas)
    assert any(to_find.items() <= each.counts.items() for each in metrics.values())
    uncounted = [
        metric
        for metric, each in metrics.items()
        if not each.counts
        and metric.split("/")[0] not in UNORDERED
        and "_sd" not in metric
        and not metric.startswith(CONTROLS)
    ]
    assert not uncounted, f"{name}: nothing is counted behind {uncounted}"
