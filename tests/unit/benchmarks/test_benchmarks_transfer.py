"""Linear and fine-tuned classification from files to files: shares, runs, groups, kills."""

from argparse import Namespace

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_fakes import metrics_of, result_of
from pydantic import ValidationError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.preprocessing import StandardScaler
from transfer_fixtures import (
    COUNT,
    GEOMETRY,
    LINEAR,
    TUNED,
    exclusive,
    linear,
    make_world,
    options,
    several,
    single,
    splits_of,
    tuned,
)

from cxr_files.errors import InputError
from cxrflow.benchmarks.classification import linear_classification
from cxrflow.benchmarks.classification.labelled_images import LabelledImages
from cxrflow.benchmarks.classification.probe_settings import (
    FineTunedClassificationSettings,
    LinearClassificationSettings,
)
from cxrflow.benchmarks.classification.scores import statistic
from cxrflow.benchmarks.evaluate import main
from cxrflow.benchmarks.heads.early_stopping import new_head
from cxrflow.benchmarks.rows.pictures import described
from cxrflow.encoders.image_encoder import Frames, load_image_encoder
from cxrflow.images.store import PixelStore


def reference(name, given, benchmark="linear_classification", **values):
    folders = Namespace(**{**vars(given), "model": None})
    defaults = LINEAR if benchmark == "linear_classification" else TUNED
    return result_of(benchmark, defaults | values, folders, name)


def labels_of(table, split):
    """The labels [N, C] of a part."""
    return np.stack(table.loc[table["split"] == split, "labels"])


EXCLUSIVE = {"exclusive": True, "metrics": ["accuracy"], "monitor": "accuracy"}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return make_world(tmp_path_factory.mktemp("transfer"))


def test_a_single_class_is_scored_by_the_mean_auroc_of_the_runs(world, tmp_path):
    table = single()
    result = linear(world, tmp_path, table)
    rows = result.predictions.set_index("sample_id")
    test = table[table["split"] == "test"]
    assert set(rows.index) == set(test["sample_id"])
    assert result.data["labelled"] == {"20": 12, "100": 60}
    for share in ("20", "100"):
        areas = [roc_auc_score(rows["label"], rows[f"score_{share}_seed{s}"]) for s in (0, 3)]
        found = result.metrics[f"auroc/{share}"]
        assert found.value == pytest.approx(np.mean(areas)) and found.n == len(test)
        assert found.low < found.value < found.high
        assert result.metrics[f"auroc_sd/{share}"].value == pytest.approx(np.std(areas, ddof=1))
        kept = result.data["runs"][share]
        assert [run["auroc"] for run in kept] == pytest.approx(areas)
        assert all(1 <= run["best_epoch"] <= run["epochs"] <= 25 for run in kept)
    assert result.metrics["auroc/100"].value > 0.8 and len(kept) == 2
    assert result.protocol["interval_over"] == "runs and samples"
    assert abs(result.metrics["other_image/100"].value - 0.5) < 0.2
    settings = LinearClassificationSettings.model_validate(LINEAR)
    paired = statistic(result.predictions, settings)(np.ones((1, len(rows))))
    assert paired["auroc/20"][0] == pytest.approx(result.metrics["auroc/20"].value)


def test_heads_are_kept_and_give_the_scores_they_are_said_to(world, tmp_path):
    table = single()
    result = linear(world, tmp_path, table)
    image = load_image_encoder(world.model).eval()
    test = table[table["split"] == "test"]
    store = PixelStore(world.pixels)
    pixels = torch.from_numpy(store.read(store.rows(test["image_id"])))[:, None].float() / 255
    with torch.no_grad():
        pooled = image.encoder(Frames(pixels)).pooled.double().numpy()
    heads = result.arrays["heads"]
    assert heads.shape == (2, 2, 8 * 8 + 1, 1)
    scores = 1 / (1 + np.exp(-(pooled @ heads[1, 0, :-1, 0] + heads[1, 0, -1, 0])))
    np.testing.assert_allclose(result.predictions["score_100_seed0"], scores, rtol=1e-4)


def test_unknown_labels_of_several_classes_do_not_count(world, tmp_path):
    table = several()
    result = linear(world, tmp_path, table, uncertain={"Square": "one", "Plain": "zero"})
    rows = result.predictions
    test = labels_of(table, "test")
    for number, value in ((0, 1.0), (1, 0.0), (2, np.nan)):
        test[:, number] = np.where(test[:, number] == -1, value, test[:, number])
    areas = []
    for number, name in enumerate(("square", "plain", "chance")):
        known = np.isfinite(test[:, number])
        np.testing.assert_array_equal(rows[f"label/{name}"], test[:, number])
        runs = [
            roc_auc_score(test[known, number], rows.loc[known, f"score_100_seed{seed}/{name}"])
            for seed in (0, 3)
        ]
        assert result.metrics[f"auroc/100/{name}"].value == pytest.approx(np.mean(runs))
        areas.append(np.mean(runs))
    assert result.metrics["auroc/100"].value == pytest.approx(np.mean(areas))
    assert areas[0] > 0.8 and areas[1] > 0.8


def test_exclusive_classes_are_scored_by_accuracy(world, tmp_path):
    table = exclusive()
    result = linear(world, tmp_path, table, **EXCLUSIVE, learning_rate=0.1, patience=25)
    rows = result.predictions
    truth = labels_of(table, "test").argmax(axis=1)
    found = []
    for seed in (0, 3):
        columns = [f"score_100_seed{seed}/{name}" for name in ("square", "plain", "chance")]
        scores = rows[columns].to_numpy()
        np.testing.assert_allclose(scores.sum(axis=1), 1)
        found.append(accuracy_score(truth, scores.argmax(axis=1)))
    assert result.metrics["accuracy/100"].value == pytest.approx(np.mean(found))
    assert len(np.unique(truth)) == 3 and np.mean(found) > 0.7
    runs = result.data["runs"]["20"]
    assert {run["seed"] for run in runs} == {0, 3} and result.data["labelled"]["20"] == 12


def test_a_study_is_scored_by_the_mean_of_its_images(world, tmp_path):
    """MURA, by hand: pictures of a study are labelled alike, and one of the two may be missing."""
    table = single()
    study = np.arange(COUNT) // 2
    table["labels"] = [[float(n % 3 > 0)] for n in study]
    table = table.drop(index=table.index[(table["split"] == "test")][3]).reset_index(drop=True)
    whole = linear(world, tmp_path, table, sample="group", epochs=1)
    (tmp_path / "one").mkdir()
    by_image = linear(world, tmp_path / "one", table, epochs=1).predictions
    test = table[table["split"] == "test"].reset_index(drop=True)
    by_image["group_id"] = test["group_id"]
    expected = by_image.groupby("group_id", sort=False)["score_100_seed3"].mean()
    rows = whole.predictions.set_index("group_id")
    assert len(rows) == test["group_id"].nunique() < len(test)
    np.testing.assert_allclose(rows["score_100_seed3"], expected[rows.index], rtol=1e-12)
    first = [f"image{n}" for n in (6, 7)]  # by hand: the first study
    own = by_image[by_image["image_id"].isin(first)]["score_100_seed3"]
    assert rows.loc["g3", "score_100_seed3"] == pytest.approx((own.iloc[0] + own.iloc[1]) / 2)
    assert whole.metrics["auroc/100"].n == len(rows)


def test_equal_scores_of_images_are_equal_of_studies():
    """A plain sum of three times 0.41 over three is not 0.41, and AUROC would see who has three."""
    groups = np.array([0, 0, 1, 1, 1, 2])
    images = LabelledImages(("Square",), single().head(6), np.zeros((6, 1)), groups, [])
    for constant in np.random.default_rng(0).random(40):
        means = images.of_samples(np.full((6, 1), constant))
        assert means.shape == (3, 1) and np.unique(means).size == 1
    mixed = np.array([[0.1], [0.3], [0.2], [0.2], [0.8], [0.5]])
    np.testing.assert_allclose(images.of_samples(mixed)[:, 0], [0.2, 0.4, 0.5], rtol=1e-12)


def test_every_model_learns_from_the_same_images(world):
    table, settings = single(), LinearClassificationSettings.model_validate(LINEAR)
    drawn, again = (splits_of(world, table, ("Square",), settings).shares for _ in range(2))
    for share, each in drawn.items():
        assert all(np.array_equal(a, b) for a, b in zip(each, again[share], strict=True))
    first, second = drawn["20"]
    assert not np.array_equal(first, second) and len(drawn["100"][0]) == 60
    labels = labels_of(table, "train")[:, 0]
    assert len(first) == round(0.2 * labels.sum()) + round(0.2 * (1 - labels).sum())
    plain = settings.model_copy(update={"stratified": False})
    uniform = splits_of(world, table, ("Square",), plain).shares["20"][0]
    assert len(uniform) == 12 and not np.array_equal(uniform, first)


def test_a_list_names_the_images_of_a_share(world, tmp_path):
    """As published: a path and a label a line; what is not of the training part is counted."""
    path = tmp_path / "one.txt"
    path.write_text("pictures/image0.png 0\nimage12 1\n\npictures/image13.png 1\nimage6 1\nx 0\n")
    result = linear(world, tmp_path, single(), lists={"20": str(path)})
    assert result.data["labelled"] == {"20": 3, "100": 60}
    [lost] = [drop for drop in result.data["dropped"] if "one.txt" in drop["reason"]]
    assert lost["count"] == 2 and set(lost["examples"]) == {"image6", "x"}
    path.write_text("image12 1\r\nimage13 1\r\n", encoding="utf-8-sig")
    again = linear(world, tmp_path, single(), lists={"20": str(path)})
    assert again.data["labelled"]["20"] == 2
    path.write_bytes(b"image12 1\nimage\xe9 1\n")
    with pytest.raises(InputError, match="one.txt: not UTF-8"):
        linear(world, tmp_path, single(), lists={"20": str(path)})
    path.write_text("image6\n")
    with pytest.raises(InputError, match=r"one.txt: names none of the 60 training images"):
        linear(world, tmp_path, single(), lists={"20": str(path)})
    with pytest.raises(InputError, match="file not found; expected a list"):
        linear(world, tmp_path, single(), lists={"20": str(tmp_path / "none.txt")})


def test_wrong_input_is_one_line(world, tmp_path):
    table = single()
    lost = table[table["split"] != "validate"].reset_index(drop=True)
    alike = table.copy()
    validation = alike["split"] == "validate"
    alike["labels"] = alike["labels"].mask(validation, pd.Series([[1.0]] * COUNT))
    for message, samples, values in (
        ("no row has split 'validate'", lost, {}),
        ("split 'validate': .*no class of Square has labels 0 and", alike, {}),
        ("is shorter64, but the model was trained on", table, {"geometry": "longer224"}),
        ("trained on longer999", table, {"geometry": None}),
    ):
        with pytest.raises(InputError, match=message):
            linear(world, tmp_path, samples, **values)
    with pytest.raises(InputError, match="'training.stopping.monitor' is 'f2'|expected"):
        training = {**TUNED["training"], "stopping": {"monitor": "f2"}}
        tuned(world, tmp_path, table, training=training)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"fractions": []}, "at least 1"),
        ({"fractions": [0.0]}, "above 0"),
        ({"run_seeds": [1, 1]}, "different seeds"),
        ({"validation_split": "test"}, "names a part twice"),
        ({"lists": {"3": "x"}}, "'3' is none of the fractions"),
        ({"positive_prompts": ["x"]}, "Extra inputs"),
    ],
)
def test_settings_that_make_no_sense_are_refused(values, message):
    for kind in (LinearClassificationSettings, FineTunedClassificationSettings):
        with pytest.raises(ValidationError, match=message):
            kind.model_validate(values)


def test_a_killed_sweep_goes_on_at_the_share_it_was_at(world, tmp_path, monkeypatch, caplog):
    whole = linear(world, tmp_path, single())
    (tmp_path / "killed").mkdir()
    encode, train = linear_classification.encode, linear_classification.train_until_plateau
    done = {"encoded": 0, "shares": 0}

    def encoding(*given):
        done["encoded"] += 1
        return encode(*given)

    def training(*given):
        done["shares"] += 1
        if done["shares"] == 2:
            raise KeyboardInterrupt
        return train(*given)

    monkeypatch.setattr(linear_classification, "encode", encoding)
    monkeypatch.setattr(linear_classification, "train_until_plateau", training)
    with pytest.raises(KeyboardInterrupt):
        linear(world, tmp_path / "killed", single())
    again = linear(world, tmp_path / "killed", single())
    assert done == {"encoded": 1, "shares": 3}
    pd.testing.assert_frame_equal(again.predictions, whole.predictions)
    state = tmp_path / "killed/state"
    heads, _ = sorted(state.glob("*/*.pt"))
    for path in (heads, heads.with_name("features") / "index.parquet"):
        path.write_bytes(path.read_bytes()[:-8] + bytes(8))
    again = linear(world, tmp_path / "killed", single())
    assert done == {"encoded": 2, "shares": 4}
    pd.testing.assert_frame_equal(again.predictions, whole.predictions)
    assert f"{heads} is damaged" in caplog.text and "features is damaged" in caplog.text
    linear(world, tmp_path / "killed", single(), learning_rate=0.01)  # goes on with nothing
    assert done == {"encoded": 3, "shares": 6}


def test_the_programs_write_whole_results_and_clear_their_state(world, tmp_path):
    given = options(world, tmp_path, single())
    for name, values in (("linear_classification", LINEAR), ("fine_tuned_classification", TUNED)):
        asked = {**vars(given), "settings": values, "task": f"tiny/{name}"}
        found = metrics_of(main, name, output=tmp_path / name, **asked)
        assert (found["task"], found["benchmark"]) == (f"tiny/{name}", name)
        assert (found["learnt"], found["drawn"]) == (None, True)  # as its run.json says
        assert found["protocol"]["geometry"] == GEOMETRY and "positive_prompts" not in str(found)
        assert not given.state.exists()
        assert len(pd.read_parquet(tmp_path / name / "predictions.parquet")) == 42
    assert (tmp_path / "linear_classification/heads.npy").is_file()


def test_references_know_the_labels_shares_or_plain_features(world, tmp_path):
    table = exclusive()
    nothing = reference("nothing", options(world, tmp_path, table), **EXCLUSIVE)
    train, test = (labels_of(table, split) for split in ("train", "test"))
    frequent = train.sum(axis=0).argmax()
    assert nothing.metrics["accuracy/100"].value == pytest.approx(test[:, frequent].mean())
    columns = [f"score_100_seed0/{name}" for name in ("square", "plain", "chance")]
    np.testing.assert_allclose(nothing.predictions[columns].iloc[0], train.mean(axis=0))

    table = single()
    small = reference("thumbnail_optimum", options(world, tmp_path, table))
    store = PixelStore(world.pixels)
    plain = [
        described("thumbnail", store.read(store.rows(table.loc[table["split"] == s, "image_id"])))
        for s in ("train", "test")
    ]
    labels = labels_of(table, "train")[:, 0]
    scaler = StandardScaler().fit(plain[0])
    head = LogisticRegression(tol=1e-8, max_iter=10_000).fit(scaler.transform(plain[0]), labels)
    expected = head.predict_proba(scaler.transform(plain[1]))[:, 1]
    np.testing.assert_allclose(small.predictions["score_100_seed0"], expected, atol=1e-3)


@pytest.mark.parametrize("table", [single(), exclusive()], ids=["single", "exclusive"])
def test_a_head_that_is_told_the_labels_succeeds(world, tmp_path, table):
    given, is_exclusive = options(world, tmp_path, table), len(table["labels"].iloc[0]) > 1
    for benchmark, share in (("linear_classification", 100), ("fine_tuned_classification", 50)):
        found = reference("oracle", given, benchmark, exclusive=is_exclusive)
        assert found.metrics[f"auroc/{share}"].value == 1


def test_heads_of_plain_features_learn_as_models_heads_do(world, tmp_path):
    """At a rate of nearly nothing they stay where they start, or where they were warmed up."""
    table = single()
    given = options(world, tmp_path, table)
    store = PixelStore(world.pixels)
    test = store.rows(table.loc[table["split"] == "test", "image_id"])
    plain = torch.from_numpy(described("thumbnail", store.read(test))).float()
    start = new_head(64, 1, 3)(plain).sigmoid().detach().numpy()[:, 0]
    found = reference("thumbnail", given, learning_rate=1e-12)
    np.testing.assert_allclose(found.predictions["score_100_seed3"], start, atol=1e-6)
    training = {**TUNED["training"], "optimiser": {"name": "adam", "learning_rate": 1e-12}}
    for steps in (0, 5):
        values = {"training": training, "warmup_steps": steps}
        found = reference("thumbnail", given, "fine_tuned_classification", **values)
        moved = np.abs(found.predictions["score_50_seed3"] - start).max()
        assert moved > 1e-3 if steps else moved < 1e-6
    learnt = reference("thumbnail", given)
    assert learnt.metrics["auroc/100"].value > 0.8


def test_a_share_without_a_class_is_learnt_from_without_it(world, tmp_path):
    """No optimum, but a limit: as if there were no such class; other shares stay as they are."""
    table = exclusive()
    given = options(world, tmp_path, table)
    train = table[table["split"] == "train"].reset_index(drop=True)
    labels = np.stack(train["labels"]).argmax(axis=1)
    listed = {0: labels < 2, 1: labels == 1}
    whole = reference("thumbnail_optimum", given, **EXCLUSIVE)
    columns = [f"score_20_seed3/{name}" for name in ("square", "plain", "chance")]
    for number, rows in listed.items():
        path = tmp_path / f"{number}.txt"
        path.write_text("\n".join(train.loc[rows, "image_id"]))
        values = {**EXCLUSIVE, "lists": {"20": path}}
        found = reference("thumbnail_optimum", given, **values)
        absent = [["Chance"], ["Square", "Chance"]][number]
        assert [run["absent"] for run in found.data["runs"]["20"]] == [absent] * 2
        assert "absent" not in str(found.data["runs"]["100"])
        assert found.metrics["accuracy/100"] == whole.metrics["accuracy/100"]
        scores = found.predictions[columns].to_numpy()
        np.testing.assert_allclose(scores.sum(axis=1), 1)
        assert not scores[:, 2].any() and np.isfinite(found.metrics["accuracy/20"].value)
        nothing = reference("nothing", given, **values)
        assert not nothing.predictions[columns[2]].any()
        assert nothing.data["runs"]["20"][0]["absent"] == absent
    np.testing.assert_array_equal(scores[:, 1], 1)  # there was nothing else
