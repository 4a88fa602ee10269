"""Zero-shot classification from files to files."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from benchmark_fakes import FakeModel, classification_samples, make_store, write_cohort
from feature_fakes import fake_features, write_fake
from sklearn.metrics import roc_auc_score

import cxrflow
from cxrflow.benchmarks import zero_shot_classification as program
from cxrflow.benchmarks.inputs import Cohort
from cxrflow.benchmarks.labelled_images import class_embedding
from cxrflow.benchmarks.settings import ZeroShotClassificationSettings
from cxrflow.errors import InputError

COUNT = 30


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    return fake_features(make_store(tmp_path_factory.mktemp("zero_shot"), COUNT))


def evaluate(features, table=None, **values):
    settings = ZeroShotClassificationSettings.model_validate(
        {"intervals": {"replicates": 200}} | values
    )
    table = classification_samples(COUNT) if table is None else table
    data = {"name": "tiny", "synthetic": True, "fingerprint": "f"}
    return program.evaluate(FakeModel(), Cohort(table, data), features, settings)


def test_the_program_writes_a_whole_result(features, tmp_path, monkeypatch):
    monkeypatch.setattr(cxrflow, "load", lambda folder, device: FakeModel())
    cohort = write_cohort(tmp_path / "cohort", "samples.parquet", classification_samples(COUNT))
    model, folder = write_fake(tmp_path, features)
    output = tmp_path / "out"
    program.main(
        ["--model", str(model), "--cohort", str(cohort), "--features", str(folder)]
        + ["--settings", '{"intervals": {"replicates": 200}}', "--output", str(output)]
    )
    found = json.loads((output / "metrics.json").read_text())
    assert found["protocol"]["positive_prompts"] == ["Findings suggesting pneumonia"]
    assert found["protocol"]["negative_prompts"] == ["No evidence of pneumonia"]
    assert found["data"]["samples"] == 24  # the split "test"
    assert set(found["metrics"]) == {
        "auroc",
        "auroc/normal",
        "auroc/not_normal",
        "accuracy",
        "sensitivity",
        "specificity",
        "f1",
        "threshold",
    }
    assert found["metrics"]["auroc"]["value"] == 1.0
    (example,) = json.loads((output / "figures" / "examples.json").read_text())
    assert example["file"] == "roc.png" and example["cnr"] is None
    assert (output / "figures" / "roc.png").stat().st_size < 60_000
    assert len(pd.read_parquet(output / "predictions.parquet")) == 24


def test_scores_are_the_softmax_and_metrics_follow_from_the_predictions(features):
    table = classification_samples(COUNT)
    table["label"] = np.random.default_rng(0).permutation(table["label"])
    table["class"] = np.where(table["label"] == 1, "Lung Opacity", table["class"])
    result = evaluate(features, table, split=None, temperature=0.1)
    rows = result.predictions
    scaled = np.exp(rows[["cosine_negative", "cosine_positive"]].to_numpy() / 0.1)
    np.testing.assert_allclose(rows["score"], scaled[:, 1] / scaled.sum(axis=1))
    assert result.metrics["auroc"].value == pytest.approx(
        roc_auc_score(rows["label"], rows["score"])
    )
    used = (rows["label"] == 1) | (rows["class"] == "Normal")
    assert result.metrics["auroc/normal"].value == pytest.approx(
        roc_auc_score(rows["label"][used], rows["score"][used])
    )
    # Two classes: the temperature moves scores but not their order.
    warm = evaluate(features, table, split=None)
    for name in ("auroc", "f1", "accuracy"):
        assert warm.metrics[name].value == pytest.approx(result.metrics[name].value)
    assert warm.metrics["threshold"].value != pytest.approx(result.metrics["threshold"].value)


def test_swapped_prompts_turn_the_score_round(features):
    swapped = evaluate(
        features,
        positive_prompts=["No evidence of pneumonia"],
        negative_prompts=["Findings suggesting pneumonia"],
    )
    assert swapped.metrics["auroc"].value == 0.0


def test_a_class_of_several_prompts_is_their_mean_direction():
    found = class_embedding(FakeModel(), ["bright", "no light", "sunny"])
    np.testing.assert_allclose(found, np.array([1, 2]) / np.sqrt(5))


def test_wrong_input_is_named(features):
    table = classification_samples(COUNT)
    with pytest.raises(InputError, match="column 'label'.*want 0, 1"):
        evaluate(features, table.assign(label=1), split=None)
    table.loc[0, "image_id"] = "absent"
    table["label"] = table["label"].astype(float)
    table.loc[1, "label"] = None
    result = evaluate(features, table, split=None)
    assert [d["examples"] for d in result.data["dropped"]] == [["s0"], ["s1"]]


def test_a_model_without_a_joint_space_is_named(features):
    trunk = replace(features, by_kind={"pooled": features.by_kind["pooled"]})
    with pytest.raises(InputError, match="'projected' is missing; found pooled"):
        evaluate(trunk)
