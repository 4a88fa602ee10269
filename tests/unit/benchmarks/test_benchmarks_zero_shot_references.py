"""Reference rows of zero-shot classification that see the image at 8 x 8 pixels with all labels."""

import numpy as np
import pandas as pd
import pytest
from benchmark_fakes import CLASSES, DATA, classification_samples, result_of
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from cxr_files.errors import InputError
from cxrflow.benchmarks.inputs import Cohort
from cxrflow.benchmarks.paired_tests import read_predictions, why_not
from cxrflow.benchmarks.result import Result, slug
from cxrflow.benchmarks.rows.pictures import described

PATIENTS, EACH = 60, 3  # images of a patient


class Noise:
    """Grey noise; the upper half is a little brighter, or darker, as the first label says."""

    geometry, fingerprint = "shorter32", "noise"

    def __init__(self, labels_N: np.ndarray) -> None:
        rng = np.random.default_rng(0)
        self.images = rng.integers(0, 200, (len(labels_N), 32, 32)).astype(np.uint8)
        self.images[:, :16] += np.where(labels_N == 1, 6, 0).astype(np.uint8)[:, None, None]
        self.images[:, 16:] += np.where(labels_N == 1, 0, 6).astype(np.uint8)[:, None, None]

    def rows(self, image_ids):
        return np.array([int(name.removeprefix("image")) for name in image_ids])

    find = rows

    def holds(self, image_ids):
        return np.ones(len(image_ids), bool)

    def read(self, rows):
        return self.images[rows]


@pytest.fixture(scope="module")
def labels() -> np.ndarray:
    """[N, 3]: in the pixels; drawn, a patient's images alike; of one patient alone."""
    rng = np.random.default_rng(3)
    by_patient = np.zeros((PATIENTS, 3))
    by_patient[:, :2] = rng.random((PATIENTS, 2)) < 0.4
    by_patient[7, 2] = 1
    return np.repeat(by_patient, EACH, axis=0)


def table_of(labels: np.ndarray, **columns: object) -> pd.DataFrame:
    patient = np.arange(len(labels)) // EACH
    given = {
        **{"subject_id": [f"p{n}" for n in patient], "group_id": [f"g{n}" for n in patient]},
        **{"labels": list(labels), "subgroup": None, "split": "test", **columns},
    }
    return classification_samples(len(labels)).assign(**given)


def scored(
    labels: np.ndarray, classes=CLASSES, store=None, table=None, name="thumbnail", **values
) -> Result:
    settings = {"prompt_pairs": [], "positive_prompts": ["{}"], **values}
    table = table_of(labels) if table is None else table
    contents = {"cohort": Cohort(table, DATA, classes), "pixels": store or Noise(labels[:, 0])}
    return result_of("zero_shot_classification", settings, reference=name, **contents)


def test_labels_in_the_pixels_are_learnt_and_others_are_not(labels):
    result = scored(labels)
    assert result.metrics["auroc/edema"].value > 0.85
    assert result.metrics["auroc/edema"].low > 0.5
    assert result.metrics["auroc/mass"].value == pytest.approx(0.5, abs=0.15)
    rows = result.predictions
    assert result.metrics["auroc/edema"].value == pytest.approx(
        roc_auc_score(rows["label/edema"], rows["score/edema"])
    )
    assert rows.groupby("subject_id")["fold"].nunique().eq(1).all()
    assert set(rows["fold"]) == {0, 1, 2, 3, 4}
    assert "five folds by patient" in result.protocol["score"]


def test_without_an_image_f1_is_that_of_calling_all_positive(labels):
    """2 p / (1 + p) of a class that a share p of the images has."""
    result = scored(labels, name="nothing", metrics=["f1"])
    share_C = labels.mean(axis=0)
    wanted_C = 2 * share_C / (1 + share_C)
    for name, wanted in zip(CLASSES, wanted_C, strict=True):
        assert result.metrics[f"f1/{slug(name)}"].value == pytest.approx(wanted)
        assert result.metrics[f"auroc/{slug(name)}"].value == 0.5
    assert result.metrics["f1"].value == pytest.approx(wanted_C.mean())


def test_each_fold_is_scored_by_a_head_of_the_other_four(labels):
    """Of scikit-learn; the image's own patient is in none of the rows that a head learns from."""
    store = Noise(labels[:, 0])
    rows = scored(labels, store=store).predictions
    features = described("thumbnail", store.images)
    for fold in range(5):
        inside = (rows["fold"] == fold).to_numpy()
        assert not set(rows["subject_id"][inside]) & set(rows["subject_id"][~inside])
        scale = StandardScaler().fit(features[~inside])
        head = LogisticRegression(class_weight="balanced", tol=1e-8, max_iter=5000)
        head.fit(scale.transform(features[~inside]), labels[~inside, 0])
        wanted = head.predict_proba(scale.transform(features[inside]))[:, 1]
        np.testing.assert_allclose(rows["score/edema"][inside], wanted, atol=1e-3)


@pytest.mark.parametrize("positive", [24, 5])
def test_shuffled_labels_score_at_chance(labels, positive):
    """Pooled over folds: how many of a fold's patients are positive must not move its scores."""
    rng, store, areas = np.random.default_rng(1), Noise(labels[:, 0]), []
    for _ in range(20):
        shuffled = np.repeat(rng.permutation(np.arange(PATIENTS) < positive)[:, None], EACH, axis=0)
        result = scored(shuffled.astype(float), ("Edema",), store, metrics=["auroc"])
        areas.append(result.metrics["auroc"].value)
    error = np.std(areas) / np.sqrt(len(areas))
    assert abs(np.mean(areas) - 0.5) < 3 * error < 0.15


def test_a_class_without_a_head_in_a_fold_does_not_count_and_is_named(labels):
    result = scored(labels)
    assert result.protocol["classes_without_head"] == ["No Finding"]
    assert np.isnan(result.metrics["auroc/no_finding"].value)
    assert result.metrics["classes"].value == 2
    assert result.metrics["auroc"].value == pytest.approx(
        np.mean([result.metrics[f"auroc/{name}"].value for name in ("edema", "mass")])
    )
    assert "classes_without_head" not in scored(labels[:, :2], CLASSES[:2]).protocol
    with pytest.raises(InputError, match="No Finding cannot be learnt in 5 folds"):
        scored(labels[:, 2:], CLASSES[2:])


def test_means_over_unlike_classes_are_not_compared(labels, tmp_path):
    files = []
    for name in ("thumbnail", "brightness"):
        scored(labels, name=name).write(tmp_path / name, f"reference/{name}", 0, "t")
        files.append(tmp_path / name / "predictions.parquet")
    runs = read_predictions(files)
    reason = why_not([run for of_row in runs.values() for run in of_row])
    assert reason == "measured with different protocols (classes_without_head)"


def test_an_exclusive_class_without_a_head_is_never_the_answer(labels):
    one = np.eye(3)[np.where(labels[:, 2] == 1, 2, labels[:, 0]).astype(int)]
    result = scored(one, exclusive=True, metrics=["auroc", "accuracy"])
    assert result.protocol["classes_without_head"] == ["No Finding"]
    rows = result.predictions
    assert (rows["score/no_finding"] == 0).all()
    assert result.metrics["accuracy"].value > 0.7


def test_images_of_a_study_of_an_unknown_patient_lie_in_one_fold(labels):
    table = table_of(labels, subject_id=None)
    rows = scored(labels, table=table, sample="group").predictions
    assert len(rows) == PATIENTS and set(rows["fold"]) == {0, 1, 2, 3, 4}
    each = scored(labels, table=table).predictions
    assert each.groupby("group_id")["fold"].nunique().eq(1).all()
    for name in ("edema", "mass"):
        mean = each.groupby("group_id", sort=False)[f"score/{name}"].mean()
        np.testing.assert_allclose(rows[f"score/{name}"], mean)


def test_a_threshold_of_another_part_is_one_of_the_same_heads(labels):
    parts = np.where(np.arange(len(labels)) // EACH % 3 == 0, "validate", "test")
    table = table_of(labels, split=parts).sort_values("split", kind="stable")
    result = scored(labels, table=table, threshold_part="validate")
    whole = scored(labels, table=table, split=None).predictions.set_index("sample_id")
    rows = result.predictions.set_index("sample_id")
    assert len(rows) == (parts == "test").sum()
    np.testing.assert_allclose(rows["score/edema"], whole.loc[rows.index, "score/edema"])
    assert result.metrics["f1/edema"].value > 0.6


def test_too_few_patients_are_one_line(labels):
    with pytest.raises(InputError, match="samples.parquet: 3 patients; expected 5 or more"):
        scored(labels[:9, :2], CLASSES[:2])
