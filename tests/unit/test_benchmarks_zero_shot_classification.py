"""Zero-shot classification from files to files."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_fakes import FakeModel, classification_samples, make_store, write_cohort
from feature_fakes import fake_features, write_fake
from pydantic import ValidationError
from sklearn.metrics import roc_auc_score

import cxrflow
from cxrflow.benchmarks.classification import zero_shot_classification as program
from cxrflow.benchmarks.classification.labelled_images import class_embedding
from cxrflow.benchmarks.classification.settings import ZeroShotClassificationSettings
from cxrflow.benchmarks.inputs import Cohort
from cxrflow.errors import InputError
from cxrflow.model import Model

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
    pairs = {"suggesting_acute", "diagnosis_acute", "consistent", "consistent_none"}
    of_pairs = {name for name in found["metrics"] if name.rpartition("/")[2] in pairs}
    assert len(of_pairs) == 4 * 6 + 2  # the table's metrics of each, and two differences
    assert set(found["metrics"]) - of_pairs == {
        "prompts_spread",
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


def test_other_prompts_are_scored_beside_the_main_ones(features):
    """The fake sees "no …" as dark and all else as bright: "There is no …" tells nothing apart."""
    result = evaluate(features, split=None)
    value = {name: found.value for name, found in result.metrics.items()}
    assert value["auroc"] == value["auroc/consistent"] == 1.0
    assert value["auroc/diagnosis_acute"] == value["auroc/consistent_none"] == 0.5
    assert value["delta/diagnosis_acute"] == value["delta/consistent_none"] == 0.5
    assert value["prompts_spread"] == 0.5 and "delta/consistent" not in value
    alone = evaluate(
        features,
        split=None,
        positive_prompts=["Consistent with the diagnosis of pneumonia"],
        negative_prompts=["There is no evidence of acute pneumonia"],
        prompt_pairs=[],
    )
    assert "prompts_spread" not in alone.metrics
    np.testing.assert_allclose(
        result.predictions["score/diagnosis_acute"], alone.predictions["score"]
    )
    for name in ("auroc", "f1", "accuracy"):
        assert result.metrics[f"{name}/diagnosis_acute"].value == alone.metrics[name].value


@pytest.mark.parametrize(
    ("names", "compared", "message"),
    [
        (["normal"], None, "cannot name a pair"),
        (["a", "a"], None, "cannot name a pair"),
        (["a"], "b", "'a' is compared with 'b'; want default or one of"),
    ],
)
def test_pairs_of_prompts_have_names_of_their_own(names, compared, message):
    prompts = {"positive": ["x"], "negative": ["y"], "compared_with": compared}
    with pytest.raises(ValidationError, match=message):
        ZeroShotClassificationSettings(prompt_pairs=[{"name": name, **prompts} for name in names])


class LoudModel:
    """A prompt is embedded as long as it is loud."""

    def encode_text(self, texts, normalise=True):
        found = torch.tensor([[3.0, 0.0] if text.isupper() else [0.0, 1.0] for text in texts])
        return torch.nn.functional.normalize(found, dim=1) if normalise else found


def test_prompts_are_averaged_before_or_after_they_have_length_one():
    texts = ["LOUD", "soft"]
    np.testing.assert_allclose(class_embedding(LoudModel(), texts), np.array([1, 1]) / np.sqrt(2))
    np.testing.assert_allclose(
        class_embedding(LoudModel(), texts, "raw"), np.array([3, 1]) / np.sqrt(10)
    )


def test_a_model_gives_texts_with_and_without_length_one():
    encoder = SimpleNamespace(
        config=SimpleNamespace(max_position_embeddings=8),
        hidden_states=lambda ids, mask: ids[..., None].float(),
        project=lambda hidden, mask: torch.cat([3 * hidden[:, 0], 4 * hidden[:, 0]], dim=1),
    )

    def tokenizer(texts, **options):
        ids = torch.tensor([[len(text)] for text in texts])
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    model = Model(Path("m"), torch.device("cpu"), {}, encoder, None, tokenizer)
    assert model.encode_text(["ab"]).tolist() == [[pytest.approx(0.6), pytest.approx(0.8)]]
    assert model.encode_text(["ab"], normalise=False).tolist() == [[6.0, 8.0]]


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
