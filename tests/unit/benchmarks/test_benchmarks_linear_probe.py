"""Linear probes from files to files: shares of the labels, starts, means over seeds."""

from argparse import Namespace
from dataclasses import replace

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
    metrics_of,
    result_of,
    settings_of,
    several_classes,
    stored,
    write_cohort,
)
from feature_fakes import fake_features, write_fake
from pydantic import ValidationError
from scipy.special import logit
from sklearn.metrics import f1_score, roc_auc_score

from cxr_files.errors import InputError
from cxrflow.benchmarks.classification import linear_probe as program
from cxrflow.benchmarks.classification.probe_settings import LinearProbeSettings
from cxrflow.benchmarks.evaluate import main
from cxrflow.benchmarks.features import Features, encode
from cxrflow.benchmarks.inputs import Cohort
from cxrflow.benchmarks.runner import inputs_of
from cxrflow.encoders.image_encoder import ImageEncoder, save_image_encoder
from cxrflow.encoders.settings import ResNetSettings
from cxrflow.images.store import PixelStore

COUNT = 60
CLASS = ("Pneumonia",)
TURNED = {"No Finding": {"positive": ["no finding"], "negative": ["no no finding"]}}
HELD = {"solver": {"inverse_penalty": 1e-12}}  # to its start, but for the bias
PROBE = {**QUICK, "fractions": [0.1, 1.0], "probe_seeds": [0, 1, 7]}
PROMPTS = {"positive_prompts": ["{}"], "negative_prompts": ["no {}"], "class_prompts": TURNED}


@pytest.fixture(scope="module")
def features(pixels):
    return fake_features(pixels)


def samples(noise: float = 0.0) -> pd.DataFrame:
    """Half of the pictures for training; a share of the labels is changed."""
    table = classification_samples(COUNT)
    table["split"] = np.where(np.arange(COUNT) % 2, "test", "train")
    changed = np.random.default_rng(0).random(COUNT) < noise
    labels = table["labels"].str[0]
    table["labels"] = [[label] for label in np.where(changed, 1 - labels, labels)]
    return table


def evaluate(found, tmp_path, table=None, model=True, **values):
    cohort = Cohort(samples() if table is None else table, DATA, CLASS)
    contents = {"features": found, "cohort": cohort, "text_model": FakeModel() if model else None}
    return result_of("linear_probe", PROBE | values, **contents)


def test_the_program_writes_a_whole_result(features, tmp_path, monkeypatch):
    monkeypatch.setattr("cxrflow.models.model.Model.load", lambda *_: FakeModel())
    cohort = write_cohort(tmp_path / "cohort", "samples.parquet", samples())
    model, folder = write_fake(tmp_path, features)
    read = {"model": model, "cohort": cohort, "features": folder, "settings": PROBE}
    found = metrics_of(main, "linear_probe", **read, seed=4, output=tmp_path / "out")
    assert (found["benchmark"], found["model"], found["seed"]) == ("linear_probe", "fake", 4)
    assert set(found["metrics"]) == {
        f"{name}{spread}/{share}"
        for name in ("auroc", "accuracy", "sensitivity", "specificity", "f1")
        for spread in ("", "_sd")
        for share in ("10", "100")
    }
    area = found["metrics"]["auroc/100"]
    assert (area["value"], area["high"], area["n"]) == (1.0, 1.0, 30)
    assert 0.7 < area["low"] < 0.75 and area["positives"] + area["negatives"] == 30
    assert found["data"]["labelled"] == {"10": 3, "100": 30}
    assert found["protocol"]["start"] == "prompts"
    assert found["protocol"]["features"] == "projected"
    assert len(pd.read_parquet(tmp_path / "out" / "predictions.parquet")) == 30


def test_metrics_are_means_over_the_seeds(features, tmp_path):
    result = evaluate(features, tmp_path, samples(noise=0.3))
    rows = result.predictions
    assert set(rows["sample_id"]) == {f"s{n}" for n in range(1, COUNT, 2)}
    for share in ("10", "100"):
        scores = [rows[f"score_{share}_seed{seed}"] for seed in (0, 1, 7)]
        areas = [roc_auc_score(rows["label"], one) for one in scores]
        best = [max(f1_score(rows["label"], one >= t) for t in one) for one in scores]
        for name, values in (("auroc", areas), ("f1", best)):
            assert result.metrics[f"{name}/{share}"].value == pytest.approx(np.mean(values))
            spread = result.metrics[f"{name}_sd/{share}"].value
            assert spread == pytest.approx(np.std(values, ddof=1))
    area = result.metrics["auroc/100"]
    assert area.low < area.value < area.high < 1


def test_a_head_held_to_its_start_is_the_zero_shot_classifier_but_for_its_bias(features, tmp_path):
    table = samples(noise=0.3)
    result = evaluate(features, tmp_path, table, **HELD)
    test = table[table["split"] == "test"].reset_index(drop=True)
    contents = {"cohort": Cohort(test, DATA, CLASS), "features": features, "model": FakeModel()}
    wanted = result_of("zero_shot_classification", {}, **contents).predictions
    for share in ("10", "100"):
        moved = logit(result.predictions[f"score_{share}_seed1"]) - logit(wanted["score"])
        np.testing.assert_allclose(moved, moved.mean(), atol=1e-5)


def test_training_turns_round_a_start_that_is_wrong(features, tmp_path):
    positive, negative = ["No evidence of pneumonia"], ["Findings suggesting pneumonia"]
    swapped = {"positive_prompts": positive, "negative_prompts": negative}
    before, after = (evaluate(features, tmp_path, **own, **swapped) for own in (HELD, {}))
    assert before.metrics["auroc/100"].value == 0.0
    assert after.metrics["auroc/100"].value == 1.0


@pytest.mark.parametrize(
    ("model", "values", "kind", "start"),
    [
        (True, {}, "projected", "prompts"),
        (True, {"features": "pooled"}, "pooled", "zeros"),
        (False, {}, "pooled", "zeros"),
        (False, {"features": "projected", "start": "zeros"}, "projected", "zeros"),
    ],
)
def test_what_auto_stands_for(features, tmp_path, model, values, kind, start):
    result = evaluate(features, tmp_path, model=model, **values)
    assert (result.protocol["features"], result.protocol["start"]) == (kind, start)
    assert result.metrics["auroc/100"].value == 1.0


def test_standardising_changes_the_scores(features, tmp_path):
    plain, scaled = (
        evaluate(features, tmp_path, solver={"standardise": own}).predictions
        for own in (False, True)
    )
    assert not np.allclose(plain["score_100_seed0"], scaled["score_100_seed0"])


def test_a_probe_is_the_optimum_and_says_how_near(features, tmp_path):
    result = evaluate(features, tmp_path, samples(noise=0.3))
    for share in ("10", "100"):
        assert 0 < result.protocol["solution"][share]["gradient"] <= 1e-6
        assert result.protocol["solution"][share]["iterations"] > 1
    # With all labels every seed has the same rows, and the optimum knows no order.
    rows = result.predictions
    assert rows["score_100_seed0"].equals(rows["score_100_seed7"])
    assert not np.allclose(rows["score_10_seed0"], rows["score_10_seed7"])


def test_versions_that_are_all_alike_change_nothing(features, tmp_path):
    """Nor does the penalty weigh less because an image is there three times."""
    table, values = samples(noise=0.3), {"solver": {"inverse_penalty": 0.1}}
    once = evaluate(features, tmp_path, table, **values)
    settings = settings_of("linear_probe", PROBE | values)
    inputs = inputs_of("linear_probe", Namespace(cohort=tmp_path), settings)
    inputs.cohort, inputs.features = Cohort(table, DATA, CLASS), features
    inputs.text_model = FakeModel()
    thrice = program.probed(inputs, settings, [features] * 3)
    assert thrice.data["labelled"] == once.data["labelled"]
    for column in once.predictions.columns[once.predictions.columns.str.startswith("score")]:
        np.testing.assert_allclose(
            thrice.table[column], once.predictions[column], rtol=1e-4, err_msg=column
        )


def test_a_head_learns_from_augmented_images_of_the_training_part(pixels, tmp_path):
    """BioViL Table E.1, third column; draws differ, and without any change they are the images."""
    store, model = pixels, tmp_path / "model"
    encoder = {"block": "basic", "layers": [1, 1, 1, 1], "width": 8, "channels": 1}
    image = ImageEncoder(ResNetSettings.model_validate(encoder)).eval()
    save_image_encoder(image, model)
    table, pixels = samples(), PixelStore(store)
    train = table.loc[table["split"] == "train", ["image_id"]].reset_index(drop=True)
    plain = encode(image, pixels, train, 7, torch.device("cpu"))
    features = Features(train, plain, str(pixels.geometry), pixels.fingerprint)
    options = Namespace(model=model, pixels=store, cohort=tmp_path)
    inputs = inputs_of("linear_probe", options, LinearProbeSettings())
    inputs.cohort, inputs.pixels, inputs.features = Cohort(table, DATA, CLASS), pixels, features

    def versions(**augmentation):
        settings = LinearProbeSettings(augmentation=augmentation, draws=2)
        return program.augmented_features(inputs, settings)

    still = {"angle": 0, "shear": 0, "brightness": 0, "contrast": 0}
    for version in versions(**still):
        assert version.encoded["image_id"].tolist() == train["image_id"].tolist()
        for kind, values in plain.items():
            torch.testing.assert_close(version.by_kind[kind], values, rtol=1e-3, atol=1e-5)
    first, second = versions(angle=45, shear=25, flip_probability=0.5)
    assert not torch.equal(first.by_kind["pooled"], second.by_kind["pooled"])
    every = pd.DataFrame({"image_id": table["image_id"]})  # features of the test images as well
    plain = encode(image, pixels, every, 7, torch.device("cpu"))
    inputs.features = Features(every, plain, str(pixels.geometry), pixels.fingerprint)
    settings = settings_of("linear_probe", {**PROBE, "features": "pooled", "start": "zeros"})
    alike, same, other = (
        program.probed(inputs, settings, augmented).table["score_100_seed0"]
        for augmented in ([inputs.features], versions(**still), [first, second])
    )
    np.testing.assert_allclose(same, alike, rtol=1e-3)
    assert not np.allclose(other, alike, rtol=1e-3)


def test_shares_are_nested_and_hold_both_classes():
    labels = (np.arange(200) % 10 == 0).astype(np.int64)
    drawn = {f: program.share_rows(labels, f, seed=3) for f in (0.001, 0.01, 0.1, 1.0)}
    assert [len(rows) for rows in drawn.values()] == [2, 3, 20, 200]
    assert [int(labels[rows].sum()) for rows in drawn.values()] == [1, 1, 2, 20]
    previous: set[int] = set()
    for rows in drawn.values():
        assert previous <= set(rows) and len(set(rows)) == len(rows)
        previous = set(rows)
    assert set(program.share_rows(labels, 0.1, seed=4)) != set(drawn[0.1])
    many = np.zeros((200, 3))  # labels that do not exclude each other
    few, more = (set(program.share_rows(many, share, seed=3)) for share in (0.01, 0.1))
    assert few < more and (len(few), len(more)) == (2, 20)


def test_wrong_input_is_named(features, tmp_path):
    with pytest.raises(InputError, match="samples.parquet: no row has split 'train'"):
        evaluate(features, tmp_path, samples().assign(split="test"))
    with pytest.raises(InputError, match="'start' is 'prompts', but the model has no text encoder"):
        evaluate(features, tmp_path, model=False, start="prompts")
    table = samples()
    train = table["split"] == "train"
    table["labels"] = table["labels"].mask(train, pd.Series([[0.0]] * COUNT))
    with pytest.raises(InputError, match="no positive of Pneumonia among 30"):
        evaluate(features, tmp_path, table)
    table = samples()
    for row in (0, 1):
        table.at[row, "labels"] = [np.nan]
    dropped = evaluate(features, tmp_path, table).data["dropped"]
    assert [(d["part"], d["examples"]) for d in dropped] == [("train", ["s0"]), ("test", ["s1"])]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"fractions": [0.1, 0.1]}, "different shares"),
        ({"fractions": [1.5]}, "above 0 and up to 1"),
        ({"probe_seeds": [1, 1]}, "different seeds"),
        ({"probe_seeds": [1]}, "at least 2"),
        ({"split": "train"}, "also the train_split"),
        ({"start": "prompts", "features": "pooled"}, "go with projected"),
        ({"solver": {"epochs": 3}}, r"solver\.epochs\n  Extra inputs are not permitted"),
        ({"solver": {"name": "adamw"}}, r"^1 validation error [^$]+solver\.name\n  Extra inputs"),
    ],
)
def test_settings_that_make_no_sense_are_refused(values, message):
    with pytest.raises(ValidationError, match=message):
        LinearProbeSettings.model_validate(values)


def evaluate_several(tmp_path, table, own, **values):
    settings = PROBE | PROMPTS | values
    features = replace(own, by_kind={kind: v.float() for kind, v in own.by_kind.items()})
    contents = {"cohort": Cohort(table, DATA, CLASSES), "features": features}
    return result_of("linear_probe", settings, **contents, text_model=NamedModel())


def test_what_is_not_known_of_exclusive_classes_follows_from_the_one_that_is(tmp_path):
    table, features = several_classes(200)
    labels = np.eye(3)[np.arange(200) % 3]
    blanked = np.where((labels == 0) & (np.arange(600).reshape(200, 3) % 4 == 0), np.nan, labels)
    assert np.isnan(blanked).any()
    found = [
        evaluate_several(tmp_path, table.assign(labels=list(given)), features, exclusive=True)
        for given in (labels, blanked)
    ]
    assert found[0].metrics == found[1].metrics


def test_a_probe_that_sees_nothing_is_at_chance_whatever_the_size_of_a_study(pixels):
    """Studies of one to three images: their means of equal scores are equal."""
    table = classification_samples(COUNT)
    study = np.repeat(np.arange(COUNT), np.arange(COUNT) % 3 + 1)[:COUNT]
    table = table.assign(group_id=[f"g{n}" for n in study], labels=[[n % 7 % 2] for n in study])
    asked = PROBE | {"fractions": [0.5, 1.0], "sample": "group"}
    found = result_of("linear_probe", asked, None, "nothing", **stored(table, pixels, *CLASS))
    assert {found.metrics[f"auroc/{share}"].value for share in ("50", "100")} == {0.5}
    assert found.predictions["group_id"].is_unique and len(found.predictions) < COUNT


@pytest.mark.parametrize("exclusive", [False, True])
def test_probes_of_several_classes_are_held_to_the_zero_shot_classifier(tmp_path, exclusive):
    table, features = several_classes(200)
    if exclusive:
        table["labels"] = list(np.eye(3)[np.arange(200) % 3])
    held = evaluate_several(tmp_path, table, features, **HELD, exclusive=exclusive)
    assert held.protocol["head"] == ("softmax" if exclusive else "sigmoid")
    asked = PROMPTS | {"prompt_pairs": [], "exclusive": exclusive}
    test = table[table["split"] == "test"].reset_index(drop=True)
    contents = {"cohort": Cohort(test, DATA, CLASSES), "features": features, "model": NamedModel()}
    wanted = result_of("zero_shot_classification", asked, **contents).predictions
    names = ("edema", "mass", "no_finding")
    probed_NC = held.predictions[[f"score_100_seed1/{name}" for name in names]].to_numpy()
    wanted_NC = wanted[[f"score/{name}" for name in names]].to_numpy()
    if exclusive:  # a softmax's logits are known up to a number for each image
        moved_NC = np.log(probed_NC) - np.log(wanted_NC)
        moved_NC -= moved_NC.mean(axis=1, keepdims=True)
    else:
        moved_NC = logit(probed_NC) - logit(wanted_NC)
    shifts = np.broadcast_to(moved_NC.mean(0), moved_NC.shape)
    np.testing.assert_allclose(moved_NC, shifts, atol=1e-4)
    if not exclusive:
        learnt = evaluate_several(tmp_path, table, features)
        areas = [learnt.metrics[f"auroc/100/{name}"].value for name in names]
        assert learnt.metrics["auroc/100"].value == pytest.approx(np.mean(areas))
        assert learnt.metrics["auroc/100"].value > held.metrics["auroc/100"].value
        assert learnt.metrics["classes/100"].value == 3
