"""Paired tests of each benchmark: what of its predictions is averaged, and what drawn together."""

import numpy as np
import pandas as pd
import pytest
from benchmark_fakes import DATA, FakeModel, classification_samples, result_of, settings_of
from feature_fakes import fake_features
from scipy import stats
from test_benchmarks_paired_tests import CNR, outcome, write

from cxrflow.benchmarks.classification.probe_settings import LinearProbeSettings
from cxrflow.benchmarks.classification.scores import statistic
from cxrflow.benchmarks.grounding.segmentation_scores import METRICS
from cxrflow.benchmarks.grounding.settings import SegmentationSettings
from cxrflow.benchmarks.inputs import Cohort
from cxrflow.benchmarks.language import mask_prediction
from cxrflow.benchmarks.language.settings import (
    MaskPredictionSettings,
    NaturalLanguageInferenceSettings,
    SentenceSimilaritySettings,
)


def test_every_benchmark_s_metrics_follow_from_its_predictions(pixels, tmp_path):
    """Including two prompt pairs of one model, whose difference is that of their AUROCs."""
    features = fake_features(pixels)
    table = classification_samples(30)
    table["labels"] = np.random.default_rng(0).permutation(table["labels"])
    settings = settings_of("zero_shot_classification", {"split": None})
    cohort = Cohort(table, DATA, ("Pneumonia",))
    contents = {"cohort": cohort, "features": features, "model": FakeModel()}
    result = result_of("zero_shot_classification", settings, **contents)
    file = write(
        tmp_path, "m", 0, result.predictions, "zero_shot_classification",
        settings, threshold_rule="best F1",
    )  # fmt: skip
    asked = {
        "task": "zero_shot_classification", "model": "m", "metric": "auroc",
        "reference_model": "m", "reference_metric": "auroc/diagnosis_acute",
    }  # fmt: skip
    [entry] = outcome([file], asked)
    gap = result.metrics["auroc"].value - result.metrics["auroc/diagnosis_acute"].value
    assert entry["difference"] == pytest.approx(gap) and abs(gap) > 0.01
    assert result.metrics["delta/diagnosis_acute"].value == pytest.approx(abs(gap))


SHARED = [0, 0, 1, 1]  # two sentences in both directions


def two(folder, settings, tables, benchmark, metric, reference_metric=None, **changes):
    """What two models' predictions are compared to, by a metric of theirs."""
    files = [
        write(folder, model, 0, table, benchmark, settings, **changes)
        for model, table in zip("mr", tables, strict=True)
    ]
    named = {"metric": metric, "reference_metric": reference_metric or metric}
    [entry] = outcome(files, CNR | named | {"task": benchmark})
    return entry


def test_inference_is_averaged_over_its_runs(tmp_path):
    settings = NaturalLanguageInferenceSettings(run_seeds=[0, 1])
    labels = ["entailment", "neutral", "neutral", "contradiction"]
    table = pd.DataFrame({"sample_id": list("abcd"), "label": labels, "pair": SHARED})
    right = table.assign(prediction_seed0=labels, prediction_seed1=["neutral"] * 4)  # 1 and 1/2
    wrong = right.assign(prediction_seed0="neutral", prediction_seed1="entailment")  # 1/2 and 1/4
    entry = two(tmp_path, settings, [right, wrong], "natural_language_inference", "accuracy")
    assert entry["difference"] == pytest.approx(0.75 - 0.375)


def test_heads_whose_runs_differ_are_not_judged_by_samples_alone(tmp_path):
    """Of what was not trained, where chance between runs would have no part in p."""
    of_task = ("natural_language_inference", "accuracy")
    settings = NaturalLanguageInferenceSettings(run_seeds=[0, 1])
    labels = ["entailment", "neutral", "neutral", "contradiction"] * 8
    table = pd.DataFrame({"sample_id": [f"s{n:02}" for n in range(32)], "label": labels})
    table["pair"] = np.arange(32) // 2
    right = table.assign(prediction_seed0=labels, prediction_seed1=labels)
    wrong = table.assign(prediction_seed0="neutral", prediction_seed1="neutral")
    entry = two(tmp_path, settings, [right, wrong], *of_task, learnt=None)
    assert entry["p"] < 0.05 and (entry["reason"], entry["seeds"]) == (None, 0)
    other = wrong.assign(prediction_seed1="contradiction")
    for name, tables in {"own": [right, other], "turned": [other, right]}.items():
        entry = two(tmp_path / name, settings, tables, *of_task, learnt=None)
        assert (entry["reason"], entry["p"]) == ("runs of a head differ", None)
        assert entry["difference_low"] < entry["difference"] < entry["difference_high"]
    named = {"metric": "accuracy", "reference_metric": "accuracy", "task": of_task[0]}
    files = [
        write(tmp_path / f"c{seed}", "m", seed, right, of_task[0], settings) for seed in range(3)
    ]
    files.append(write(tmp_path / "d", "r", 0, other, of_task[0], settings, learnt=None))
    (entry,) = outcome(files, CNR | named)
    assert entry["p"] < 0.05 and (entry["reason"], entry["seeds"]) == (None, 3)


def test_similarities_are_compared_by_pairs_of_sentences(tmp_path):
    settings = SentenceSimilaritySettings()
    labels = ["entailment", "contradiction", "contradiction", "entailment"]
    table = pd.DataFrame({"sample_id": list("abcd"), "label": labels, "pair": SHARED})
    first, second = table.assign(cosine=[1, 0, -1, 0.5]), table.assign(cosine=[0.5, 0, 0, 0.5])
    entry = two(tmp_path, settings, [first, second], "sentence_similarity", "cont_gap")
    assert entry["difference"] == pytest.approx((0.75 + 0.5) - 0.5)
    # Of the first pair of sentences alone 0.5, of the second 1.0: a spread over two clusters.
    drawn = np.array([0.5, 0.75, 0.75, 1.0])
    half = stats.t.ppf(0.975, 1) * np.sqrt(2 * drawn.var())
    assert entry["difference_high"] - 0.75 == pytest.approx(half, rel=0.1)


def test_segmentation_is_compared_by_images(tmp_path):
    settings = SegmentationSettings(fractions=[1.0], probe_seeds=[0, 1])
    ids = {"sample_id": list("abcd"), "subject_id": [None] * 4, "image_id": list("uuvv")}
    table = pd.DataFrame(ids).assign(box_share=0.1)
    columns = [f"{metric}_100_seed{seed}" for metric in METRICS for seed in (0, 1)]
    first = table.assign(**dict.fromkeys(METRICS, 0.5), **dict.fromkeys(columns, 0.6))
    second = table.assign(**dict.fromkeys(columns, 0.2))  # image-only: no zero-shot map
    asked = (settings, [first, second], "segmentation")
    map_and_probe = two(tmp_path / "map", *asked, "iou", "iou/100")
    assert map_and_probe["difference"] == pytest.approx(0.3)
    assert two(tmp_path, *asked, "dice/100")["difference"] == pytest.approx(0.4)


def test_probes_are_averaged_over_their_draws(tmp_path):
    settings = LinearProbeSettings(fractions=[1.0], probe_seeds=[0, 1])
    rng = np.random.default_rng(0)
    labels = np.arange(24) % 2
    tables = []
    for _ in range(2):
        scores = {f"score_100_seed{s}": rng.random(24) + 0.3 * labels for s in (0, 1)}
        ids = {"sample_id": [f"s{n}" for n in range(24)], "subject_id": None, "label": labels}
        tables.append(pd.DataFrame(ids | scores))
    files = [
        write(tmp_path, "m", 0, tables[0], "linear_probe", settings, features="pooled"),
        write(tmp_path, "r", 0, tables[1], "linear_probe", settings, features="projected"),
    ]
    named = {"metric": "auroc/100", "reference_metric": "auroc/100", "task": "linear_probe"}
    [entry] = outcome(files, CNR | named)
    once = np.ones((1, 24))
    means = [statistic(table, settings)(once)["auroc/100"][0] for table in tables]
    assert entry["difference"] == pytest.approx(means[0] - means[1])


def test_the_sections_of_a_study_are_drawn_together(tmp_path):
    settings = MaskPredictionSettings()
    table = pd.DataFrame(
        {
            "study_id": [f"s{n // 2}" for n in range(12)],
            "subject_id": [None] * 4 + ["p1"] * 4 + ["p2"] * 4,
            "section": ["findings", "impression"] * 6,
            "targets": 5,
            "correct": [n % 5 for n in range(12)],
            "correct_most_frequent": 1,
        }
    )
    assert mask_prediction.clusters(table, "subject").tolist() == [0, 0, 1, 1] + [2] * 4 + [3] * 4
    assert mask_prediction.clusters(table, "sample").tolist() == [n // 2 for n in range(12)]
    tables = [table.assign(correct=table["correct"] + 1), table]
    of_masks = ("mask_prediction", "mask_accuracy")
    entry = two(tmp_path, settings, tables, *of_masks, vocabulary="v")
    ends = (entry["difference_low"], entry["difference"], entry["difference_high"])
    assert ends == pytest.approx((0.2, 0.2, 0.2))
