"""Zero-shot classification from files to files."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_fakes import (
    CLASSES,
    DATA,
    QUICK,
    FakeModel,
    NamedModel,
    classification_samples,
    make_store,
    metrics_of,
    result_of,
    several_classes,
    write_cohort,
)
from feature_fakes import fake_features, write_fake
from pydantic import ValidationError
from sklearn import metrics as sk
from sklearn.metrics import roc_auc_score

from cxr_files.errors import InputError
from cxrflow.benchmarks.classification.labelled_images import class_embedding, class_prompts
from cxrflow.benchmarks.classification.settings import ZeroShotClassificationSettings
from cxrflow.benchmarks.evaluate import main
from cxrflow.benchmarks.inputs import Cohort
from cxrflow.benchmarks.result import slug
from cxrflow.models.model import Model
from cxrflow.similarity.cosine import prompt_embedding
from cxrflow.similarity.similarity import EncodedTexts

COUNT = 30
COUNT_OF_SEVERAL = 80


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    return fake_features(make_store(tmp_path_factory.mktemp("zero_shot"), COUNT))


def evaluate(features, table=None, **values):
    table = classification_samples(COUNT) if table is None else table
    cohort = Cohort(table, DATA, ("Pneumonia",))
    contents = {"cohort": cohort, "features": features, "model": FakeModel()}
    return result_of("zero_shot_classification", values, **contents)


def test_the_program_writes_a_whole_result(features, tmp_path, monkeypatch):
    monkeypatch.setattr("cxrflow.models.model.Model.load", lambda *_: FakeModel())
    cohort = write_cohort(tmp_path / "cohort", "samples.parquet", classification_samples(COUNT))
    model, folder = write_fake(tmp_path, features)
    asked = {"model": model, "cohort": cohort, "features": folder}
    asked["settings"] = QUICK
    output = tmp_path / "out"
    found = metrics_of(main, "zero_shot_classification", output=output, **asked)
    assert found["protocol"]["positive_prompts"] == ["Findings suggesting pneumonia"]
    assert found["protocol"]["negative_prompts"] == ["No evidence of pneumonia"]
    assert found["data"]["samples"] == 24  # the split "test"
    pairs = {"suggesting_acute", "diagnosis_acute", "consistent", "consistent_none"}
    of_pairs = {name for name in found["metrics"] if name.rpartition("/")[2] in pairs}
    assert len(of_pairs) == 4 * 6 + 2  # the table's metrics of each, and two differences
    assert set(found["metrics"]) - of_pairs == {
        *("prompts_spread", "auroc", "auroc/normal", "auroc/not_normal", "accuracy"),
        *("sensitivity", "specificity", "f1", "threshold"),
    }
    assert found["metrics"]["auroc"]["value"] == 1.0
    (example,) = json.loads((output / "figures" / "examples.json").read_text())
    assert example["file"] == "roc.png" and example["cnr"] is None
    assert (output / "figures" / "roc.png").stat().st_size < 60_000
    assert len(pd.read_parquet(output / "predictions.parquet")) == 24


def test_scores_are_the_softmax_and_metrics_follow_from_the_predictions(features):
    table = classification_samples(COUNT)
    table["labels"] = np.random.default_rng(0).permutation(table["labels"])
    positive = table["labels"].str[0] == 1
    table["subgroup"] = np.where(positive, "Lung Opacity", table["subgroup"])
    result = evaluate(features, table, split=None, temperature=0.1)
    rows = result.predictions
    scaled = np.exp(rows[["cosine_negative", "cosine_positive"]].to_numpy() / 0.1)
    np.testing.assert_allclose(rows["score"], scaled[:, 1] / scaled.sum(axis=1))
    assert result.metrics["auroc"].value == pytest.approx(
        roc_auc_score(rows["label"], rows["score"])
    )
    used = (rows["label"] == 1) | (rows["subgroup"] == "Normal")
    assert result.metrics["auroc/normal"].value == pytest.approx(
        roc_auc_score(rows["label"][used], rows["score"][used])
    )
    # Two classes: the temperature moves scores but not their order.
    warm = evaluate(features, table, split=None)
    for name in ("auroc", "f1", "accuracy"):
        assert warm.metrics[name].value == pytest.approx(result.metrics[name].value)
    assert warm.metrics["threshold"].value != pytest.approx(result.metrics["threshold"].value)


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


def test_prompts_are_averaged_before_or_after_they_have_length_one():
    loud_and_soft = EncodedTexts(torch.tensor([[3.0, 0.0], [0.0, 1.0]]))
    for average, direction in (("normalised", (1, 1)), ("raw", (3, 1))):
        embedded = prompt_embedding(loud_and_soft, average).numpy()
        np.testing.assert_allclose(embedded, np.array(direction) / np.hypot(*direction))


def test_a_model_gives_texts_with_and_without_length_one():
    encoder = SimpleNamespace(
        config=SimpleNamespace(max_position_embeddings=8),
        last_states=lambda ids, mask, layers: [ids[..., None].float()],
        project=lambda hidden, mask: torch.cat([3 * hidden[:, 0], 4 * hidden[:, 0]], dim=1),
    )

    tokenizer = SimpleNamespace(
        encode_batch_fast=lambda texts: [SimpleNamespace(ids=[len(text)]) for text in texts]
    )
    model = Model(Path("m"), torch.device("cpu"), {}, encoder, None, tokenizer)
    assert model.encode_text(["ab"]).tolist() == [[pytest.approx(0.6), pytest.approx(0.8)]]
    assert model.encode_text(["ab"], normalise=False).tolist() == [[6.0, 8.0]]


def test_a_class_of_several_prompts_is_their_mean_direction():
    found = class_embedding(FakeModel(), ["bright", "no light", "sunny"], "normalised")
    np.testing.assert_allclose(found, np.array([1, 2]) / np.sqrt(5))


def test_wrong_input_is_named(features):
    table = classification_samples(COUNT)
    for message, values in (
        ("'classes' names 'Edema'; the cohort has Pneumonia", {"classes": ["Edema"]}),
        ("'uncertain' names 'Oedema'", {"uncertain": {"Oedema": "one"}}),
        ("is Pneumonia, Pneumonia; expected each once", {"classes": ["Pneumonia"] * 2}),
        ("'exclusive' is true; expected several", {"exclusive": True}),
    ):
        with pytest.raises(InputError, match=message):
            evaluate(features, table, **values)
    for message, label in (
        ("no class of Pneumonia has labels 0 and 1", [1.0]),
        ("label of Pneumonia is 2; expected 1, 0, -1 or none", [2.0]),
        (r"'labels' has other numbers .* classes \(1\)", [1.0, 0.0]),
    ):
        with pytest.raises(InputError, match=message):
            evaluate(features, table.assign(labels=[label] * COUNT))
    table.loc[0, "image_id"] = "absent"
    table.at[1, "labels"] = [np.nan]
    result = evaluate(features, table, split=None)
    assert [d["examples"] for d in result.data["dropped"]] == [["s0"], ["s1"]]


def test_a_model_without_a_joint_space_is_named(features):
    trunk = replace(features, by_kind={"pooled": features.by_kind["pooled"]})
    with pytest.raises(InputError, match="'projected' is missing; found pooled"):
        evaluate(trunk)


def evaluate_several(table=None, listed=(), names=CLASSES, **values):
    own, features = several_classes(COUNT_OF_SEVERAL)
    turned = {"No Finding": {"positive": ["no finding"], "negative": ["no no finding"]}}
    settings = {
        **{"split": None, "prompt_pairs": []},
        **{"positive_prompts": ["{}"], "negative_prompts": ["no {}"]},
        **values,
        "class_prompts": turned | values.get("class_prompts", {}),
    }
    cohort = Cohort(own if table is None else table, DATA, names, listed)
    contents = {"cohort": cohort, "features": features, "model": NamedModel()}
    return result_of("zero_shot_classification", settings, **contents)


def labels_and_scores(number):
    """The labels of a class as they stand, and the scores [N] that its two prompts give."""
    table, features = several_classes(COUNT_OF_SEVERAL)
    name = CLASSES[number].lower()
    texts = NamedModel().encode_text([f"no {name}", name])
    score = (features.by_kind["projected"] @ texts.T).softmax(1)[:, 1].numpy()
    return np.stack(table["labels"])[:, number], score


def best_f1(truth, score):
    """The threshold of the greatest F1, of several the greatest."""
    return max(np.unique(score), key=lambda t: (sk.f1_score(truth, score >= t), t))


@pytest.mark.parametrize(
    ("uncertain", "unknown"), [("ignore", "ignore"), ("zero", "zero"), ({"Mass": "one"}, "ignore")]
)
def test_each_class_is_two_prompts_and_labels_count_as_the_policy_says(uncertain, unknown):
    names = ["auroc", "average_precision", "balanced_accuracy", "f1", "threshold"]
    result = evaluate_several(uncertain=uncertain, unknown=unknown, metrics=names)
    found = {name: [] for name in names}
    for number, name in enumerate(CLASSES):
        truth, score = labels_and_scores(number)
        truth = np.where(np.isnan(truth) & (unknown == "zero"), 0, truth)
        policy = uncertain.get(name, "ignore") if isinstance(uncertain, dict) else uncertain
        value = {"ignore": np.nan, "zero": 0, "one": 1}[policy]
        truth = np.where(truth == -1, value, truth)
        truth, score = truth[~np.isnan(truth)], score[~np.isnan(truth)]
        best = best_f1(truth, score)
        called = score >= best
        values = (
            *(sk.roc_auc_score(truth, score), sk.average_precision_score(truth, score)),
            *(sk.balanced_accuracy_score(truth, called), sk.f1_score(truth, called), best),
        )
        for metric, value in zip(names, values, strict=True):
            own = result.metrics[f"{metric}/{slug(name)}"]
            assert own.value == pytest.approx(value), metric
            assert own.n == len(truth)
            found[metric].append(value)
    for metric, values in found.items():
        assert result.metrics[metric].value == pytest.approx(np.mean(values))
    assert result.metrics["classes"].value == 3
    assert result.data["positives"].keys() == set(CLASSES) and result.figures


def test_a_class_with_a_slash_in_its_name_has_metrics_and_a_size_of_its_own():
    """VinDr-CXR's Nodule/Mass: what stands after a slash in a metric's name is a class."""
    result = evaluate_several(names=("Edema", "Nodule/Mass", "No Finding"))
    known = np.isin(np.stack(several_classes(COUNT_OF_SEVERAL)[0]["labels"]), (0, 1))
    assert result.metrics["auroc/nodule_mass"].n == known[:, 1].sum() < known.any(axis=1).sum()
    assert not [name for name in result.metrics if name.count("/") > 1]


def test_classes_are_left_out_of_those_of_the_cohort():
    chosen = evaluate_several(classes=["Edema", "Mass"])
    left = evaluate_several(without=["No Finding"])
    assert left.predictions.equals(chosen.predictions)
    assert {n: m.value for n, m in left.metrics.items()} == {
        n: m.value for n, m in chosen.metrics.items()
    }
    assert left.metrics["classes"].value == 2
    # What the data set knows and no image has is not there anyway.
    rest = evaluate_several(without=["No Finding", "Hernia"], listed=(*CLASSES, "Hernia"))
    assert rest.predictions.equals(chosen.predictions)
    refused = "settings: key 'without' names 'Hernia'; the cohort has Edema, Mass, No Finding"
    with pytest.raises(InputError, match=refused):
        evaluate_several(without=["Hernia"])
    with pytest.raises(InputError, match="names 'Hernias'; the cohort has .*, Hernia$"):
        evaluate_several(without=["Hernias"], listed=(*CLASSES, "Hernia"))
    with pytest.raises(InputError, match="key 'without' names all classes; expected fewer"):
        evaluate_several(without=list(CLASSES))
    with pytest.raises(ValidationError, match="but classes are chosen; expected classes null"):
        ZeroShotClassificationSettings(classes=["Edema"], without=["Mass"])


def test_thresholds_may_be_chosen_on_another_part():
    asked = {"split": "test", "metrics": ["f1", "sensitivity", "threshold"]}
    result = evaluate_several(threshold_part="train", **asked)
    table, f1 = several_classes(COUNT_OF_SEVERAL)[0], []
    for number, name in enumerate(CLASSES):
        truth, score = labels_and_scores(number)
        learnt, scored = ((table["split"] == p) & np.isin(truth, (0, 1)) for p in ("train", "test"))
        best = best_f1(truth[learnt], score[learnt])
        assert result.metrics[f"threshold/{slug(name)}"].value == pytest.approx(best)
        f1.append(sk.f1_score(truth[scored], score[scored] >= best))
        assert result.metrics[f"f1/{slug(name)}"].value == pytest.approx(f1[-1])
    assert result.metrics["f1"].value == pytest.approx(np.mean(f1))
    assert result.protocol["threshold_rule"] == "best F1 on the images of the part train"
    # A class without positives there has no threshold; its AUROC counts as before.
    labels = np.stack(table["labels"])
    labels[(table["split"] == "train").to_numpy(), 0] = 0
    fewer = evaluate_several(table.assign(labels=list(labels)), threshold_part="train", **asked)
    assert fewer.metrics["f1"].value == pytest.approx(np.mean(f1[1:]))
    assert fewer.metrics["auroc"].value == result.metrics["auroc"].value
    assert np.isnan(
        [fewer.metrics[f"{x}/{slug(CLASSES[0])}"].value for x in asked["metrics"]]
    ).all()
    assert fewer.data["thresholds"]["classes_without"] == 1
    for wrong in ({"split": "train"}, {"split": None}, {"threshold": 0.5}, {"exclusive": True}):
        with pytest.raises(ValidationError, match="threshold_part is train; expected"):
            ZeroShotClassificationSettings(threshold_part="train", **wrong)


def test_rare_classes_stand_beside_common_ones():
    result = evaluate_several(classes=list(CLASSES), rare=[CLASSES[1]])
    areas = [result.metrics[f"auroc/{slug(name)}"].value for name in CLASSES]
    rare, common = areas[1], np.mean([areas[0], areas[2]])
    for name, value in (
        *(("auroc_rare", rare), ("auroc_common", common)),
        ("rare_less_common", rare - common),
    ):
        assert result.metrics[name].value == pytest.approx(value)
        assert result.metrics[name].low < value < result.metrics[name].high
    for wrong in (["Oedema"], list(CLASSES)):
        with pytest.raises(ValidationError, match="rare"):
            ZeroShotClassificationSettings(classes=list(CLASSES), rare=wrong)


def test_a_study_has_the_mean_score_of_its_images():
    images, studies = evaluate_several(), evaluate_several(sample="group")
    wanted = images.predictions.groupby("group_id")["score/mass"].mean()
    found = studies.predictions.set_index("group_id")["score/mass"]
    np.testing.assert_allclose(found, wanted[found.index])
    assert studies.data["samples"] * 2 == images.data["samples"]
    table, _ = several_classes(COUNT_OF_SEVERAL)
    table.at[0, "labels"] = 1 - np.nan_to_num(table.at[0, "labels"]).clip(0)
    with pytest.raises(InputError, match="images of group g0 have different labels"):
        evaluate_several(table, sample="group")


def test_of_exclusive_classes_the_greatest_score_is_the_answer():
    table, features = several_classes(COUNT_OF_SEVERAL)
    truth = np.random.default_rng(1).integers(0, 3, COUNT_OF_SEVERAL)
    table["labels"] = list(np.eye(3)[truth])
    table.at[0, "labels"] = np.array([1.0, 1.0, 0.0])
    names = ["auroc", "accuracy", "balanced_accuracy", "f1", "threshold"]
    result = evaluate_several(table, exclusive=True, metrics=names, temperature=0.5)
    texts = NamedModel().encode_text([name.lower() for name in CLASSES])
    score = (features.by_kind["projected"] @ texts.T / 0.5).softmax(1).numpy()[1:]
    called, truth = score.argmax(1), truth[1:]
    wanted = {
        "auroc": sk.roc_auc_score(truth, score, multi_class="ovr"),
        "accuracy": sk.accuracy_score(truth, called),
        "balanced_accuracy": sk.balanced_accuracy_score(truth, called),
        "f1": sk.f1_score(truth, called, average="macro"),
    }
    for metric, value in wanted.items():
        assert result.metrics[metric].value == pytest.approx(value), metric
    assert "threshold" not in result.metrics
    assert result.data["dropped"][0]["reason"] == "not of exactly one class"


def test_a_class_of_absence_is_not_asked_for_like_a_finding():
    settings = ZeroShotClassificationSettings(
        positive_prompts=["{}"], negative_prompts=["no {}"], prompt_pairs=[]
    )
    turned = "'No Finding' says .* prompt 'no no finding' turns it round; expected class_prompts"
    with pytest.raises(InputError, match=turned):
        class_prompts(CLASSES, settings)
    normal = {"positive_prompts": ["a normal chest"], "negative_prompts": ["pneumonia"]}
    assert class_prompts(["normal"], settings.model_copy(update=normal))[0][1] == ["a normal chest"]
    exclusive = settings.model_copy(update={"exclusive": True})
    assert class_prompts(CLASSES, exclusive)[2][1] == ["no finding"]
    published = ZeroShotClassificationSettings(prompts="chexzero", prompt_pairs=[])
    assert class_prompts(CLASSES, published)[2] == (["finding"], ["no finding"])


def test_prompts_of_several_classes_name_the_class():
    with pytest.raises(InputError, match="key 'class_prompts' names 'Weather'; the cohort has "):
        evaluate_several(class_prompts={"Weather": {"positive": ["rain"], "negative": ["sun"]}})
    with pytest.raises(InputError, match="'acute' does not say which class.*for Mass"):
        own = {name: {"positive": ["a"], "negative": ["b"]} for name in ("Edema", "No Finding")}
        evaluate_several(positive_prompts=["acute"], class_prompts=own)
    swapped = {"Mass": {"positive": ["no mass"], "negative": ["mass"]}}
    plain, turned = evaluate_several(), evaluate_several(class_prompts=swapped)
    assert turned.metrics["auroc/mass"].value == pytest.approx(
        1 - plain.metrics["auroc/mass"].value
    )
    assert turned.metrics["auroc/edema"] == plain.metrics["auroc/edema"]
