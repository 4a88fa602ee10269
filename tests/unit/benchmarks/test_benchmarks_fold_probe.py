"""Probes by cross-validation on the test part, and labels of pairs from a table."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_fakes import (
    QUICK,
    FakeModel,
    pairs_of_studies,
    result_of,
    stored,
    write_cohort,
)
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from command_options import options
from cxr_files.atomic import read_json
from cxr_files.errors import InputError
from cxrflow.benchmarks.classification import fold_probe
from cxrflow.benchmarks.classification.settings import ZeroShotFindingsSettings
from cxrflow.benchmarks.evaluate import main as evaluate

CLASSES = ("Edema", "Pneumonia", "Fracture")
NUMBER = 30


def labelled_pairs(count: int = NUMBER, seed: int = 0) -> pd.DataFrame:
    """Two studies a patient with labels 1, 0, -1 and unknown."""
    rng = np.random.default_rng(seed)
    values = rng.choice([1, 0, -1, np.nan], size=(count, 3), p=[0.4, 0.4, 0.1, 0.1])
    return pairs_of_studies(values, [("Edema." if n % 2 else "No edema.") for n in range(count)])


def probe(
    monkeypatch: pytest.MonkeyPatch, pixels: Path, table: pd.DataFrame, **settings: object
) -> fold_probe.Predictions:
    """The result on drawn features that hold the labels."""
    rng = np.random.default_rng(2)
    labels = np.nan_to_num(np.stack(table["labels"].tolist()))
    drawn = np.c_[labels + rng.normal(size=labels.shape), rng.normal(size=(len(table), 4))]
    by_image = dict(zip(table["image_id"], drawn, strict=True))

    def encode(image, pixels, rows, batch_size, device):
        return {"pooled": torch.tensor(np.stack([by_image[name] for name in rows["image_id"]]))}

    monkeypatch.setattr(fold_probe, "encode", encode)
    given = {"label_source": "cohort", "classes": CLASSES, **settings}
    return result_of("fold_probe", given, **stored(table, pixels, *CLASSES), image=None)


def test_the_mean_is_over_folds_and_then_classes(monkeypatch, pixels):
    """Against scikit-learn's scores of every fold; no positive in a fold is counted."""
    table = labelled_pairs()
    result = probe(monkeypatch, pixels, table)
    rows = result.predictions
    means, areas, lacking = [], [], {}
    for name in ("edema", "pneumonia", "fracture"):
        by_fold, area_of_fold = [], []
        for _, fold in rows.groupby("fold"):
            if fold[f"label/{name}"].nunique() < 2:
                lacking[name] = lacking.get(name, 0) + 1
                continue
            called = fold[f"score/{name}"] >= 0.5
            by_fold.append(balanced_accuracy_score(fold[f"label/{name}"], called))
            area_of_fold.append(roc_auc_score(fold[f"label/{name}"], fold[f"score/{name}"]))
        means.append(np.mean(by_fold))
        areas.append(np.mean(area_of_fold))
        assert result.metrics[f"balanced_accuracy/{name}"].value == pytest.approx(means[-1])
    assert result.metrics["balanced_accuracy"].value == pytest.approx(np.mean(means))
    assert result.metrics["auroc"].value == pytest.approx(np.mean(areas))
    assert {k.lower(): v for k, v in result.data["unscored"].items()} == lacking
    assert set(rows["label/edema"]) == {0.0, 1.0}
    by_patient = rows.groupby("subject_id")["fold"].nunique()
    assert set(by_patient) == {1}
    by_image = probe(monkeypatch, pixels, table, fold_unit="image").predictions
    assert by_image.groupby("subject_id")["fold"].nunique().max() == 2


def test_a_study_is_scored_by_the_mean_of_its_images(monkeypatch, pixels):
    """All of them lie in its patient's fold."""
    table = labelled_pairs()
    labels = np.repeat(np.stack(table["labels"].tolist())[::2], 2, axis=0)
    study = [f"t{n // 2}" for n in range(NUMBER)]
    table = table.assign(labels=list(labels), study_id=study)
    by_image = probe(monkeypatch, pixels, table).predictions
    rows = probe(monkeypatch, pixels, table, sample="group").predictions.set_index("group_id")
    assert len(rows) == NUMBER // 2
    grouped = by_image.groupby("group_id", sort=False)
    for name in ("edema", "pneumonia", "fracture"):
        expected = grouped[f"score/{name}"].mean()
        np.testing.assert_allclose(rows[f"score/{name}"], expected[rows.index])
    assert (rows["fold"] == grouped["fold"].first()[rows.index]).all()


def test_a_class_with_few_positives_is_counted_where_it_has_none(monkeypatch, pixels):
    table = labelled_pairs()
    labels = np.stack(table["labels"].tolist())
    labels[:, 2] = 0
    labels[:2, 2] = 1  # one patient's studies, in one fold
    result = probe(monkeypatch, pixels, table.assign(labels=list(labels)))
    # Four folds have no positive, and the fifth has none outside it.
    assert result.data["unscored"]["Fracture"] == 5
    assert np.isnan(result.metrics["balanced_accuracy/fracture"].value)
    others = [result.metrics[f"balanced_accuracy/{n}"].value for n in ("edema", "pneumonia")]
    assert result.metrics["balanced_accuracy"].value == pytest.approx(np.mean(others))


def test_bad_label_tables_are_named(monkeypatch, pixels):
    table = labelled_pairs()
    with pytest.raises(InputError, match="key 'classes' names 'Mass'; the cohort has Edema"):
        probe(monkeypatch, pixels, table, classes=["Mass"])
    same = table.assign(labels=[np.zeros(3)] * NUMBER)
    with pytest.raises(InputError, match="no positive of Edema, Pneumonia, Fracture among"):
        probe(monkeypatch, pixels, same)
    with pytest.raises(InputError, match="12 patients; expected 15 or more, as there are folds"):
        probe(monkeypatch, pixels, table[:24], folds=15)


@pytest.fixture
def given(pixels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A cohort with labels, its pixels and a model of brightness, as options."""
    cohort = write_cohort(tmp_path / "cohort", "pairs.parquet", labelled_pairs(), CLASSES)
    monkeypatch.setattr("cxrflow.models.model.Model.load", lambda *_: FakeModel())
    settings = {
        **QUICK,
        **{"label_source": "cohort", "matching": "global", "classes": ["Edema"]},
        **{"threshold": 0.5, "uncertain": "zero", "metrics": ["balanced_accuracy"]},
    }
    return options(cohort=cohort, pixels=pixels, settings=settings, output=tmp_path / "scores")


def test_zero_shot_scores_of_the_label_table(given: list[str], tmp_path: Path) -> None:
    evaluate(["zero_shot_findings", "--model", str(tmp_path), *given])
    result = read_json(tmp_path / "scores/metrics.json")
    assert result["protocol"]["reference"] == "labels of the cohort"
    predictions = pd.read_parquet(tmp_path / "scores/predictions.parquet")
    expected = labelled_pairs().set_index("image_id").loc[predictions["sample_id"], "labels"]
    assert (predictions["label"] == [float(values[0] == 1) for values in expected]).all()
    assert result["metrics"]["balanced_accuracy"]["value"] == pytest.approx(
        balanced_accuracy_score(predictions["label"], predictions["score"] >= 0.5)
    )


def test_a_cohort_without_labels_is_named(given: list[str], tmp_path: Path) -> None:
    labelled_pairs().drop(columns="labels").to_parquet(tmp_path / "cohort/pairs.parquet")
    with pytest.raises(InputError, match="column 'labels' is missing; expected it"):
        evaluate(["zero_shot_findings", "--model", str(tmp_path), *given])


def test_settings_of_before_are_recorded_as_before() -> None:
    record = ZeroShotFindingsSettings().record()
    assert not {"label_source", "matching"} & record.keys()
