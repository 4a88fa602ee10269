"""The term of findings: its loss, and what labels count as."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from cxr_files.atomic import write_json
from cxr_files.errors import InputError
from cxrflow.pretrain.image_classes import LabelledSamples
from cxrflow.pretrain.terms.findings import Findings
from cxrflow.pretrain.terms.label_settings import FindingsSettings, SupervisedTerms

NAMES = ["Edema", "Mass", "Fracture"]


def test_the_loss_is_the_mean_of_known_cross_entropies_and_so_is_its_gradient():
    settings = FindingsSettings(classes=NAMES, dropout=0)
    term = Findings(settings, SimpleNamespace(trunk=SimpleNamespace(features=5))).double()
    rng = np.random.default_rng(0)
    features = torch.tensor(rng.normal(size=(4, 1, 5)), requires_grad=True)
    labels = torch.tensor(
        [[1.0, 0, 1], [0, np.nan, 1], [np.nan] * 3, [1, 1, 0]], dtype=torch.float64
    )
    batch = SimpleNamespace(rows=np.arange(8), labels=labels)  # another process has as many
    loss = term.loss(SimpleNamespace(images=[SimpleNamespace(pooled=features[:, 0])], batch=batch))
    (gradient,) = torch.autograd.grad(loss, features)
    x = features.detach().numpy()[:, 0]
    weight, bias = (one.detach().numpy() for one in term.classifier.parameters())
    total, expected = 0.0, np.zeros_like(x)
    for row in range(4):
        for place in range(3):
            label = float(labels[row, place])
            if np.isnan(label):
                continue
            probability = 1 / (1 + np.exp(-(x[row] @ weight[place] + bias[place])))
            total -= np.log(probability if label else 1 - probability)
            expected[row] += (probability - label) * weight[place]
    assert loss.item() == pytest.approx(total / (8 * 3), abs=1e-12)
    assert gradient.numpy()[:, 0] == pytest.approx(expected / (8 * 3), abs=1e-12)


def samples(folder):
    labels = [[1.0, -1, np.nan], [-1, 0, 1], [0, -1, -1]]
    ids = ["a", "b", "c"]
    pd.DataFrame(
        {"subject_id": ids, "sample_id": ids, "image_id": ids, "labels": labels, "split": "train"}
    ).to_parquet(folder / "samples.parquet")
    said = {"dataset": "x", "cohort": "x", "synthetic": True, "classes": NAMES}
    write_json(folder / "flow.json", said)
    return LabelledSamples(folder / "samples.parquet")


def test_pairs_with_labels_are_read_alike(tmp_path):
    """Of a cohort of pairs a study is the sample."""
    of_samples = samples(tmp_path)
    frame = of_samples.frame.rename(columns={"sample_id": "study_id"})
    frame.to_parquet(tmp_path / "pairs.parquet")
    of_pairs = LabelledSamples(tmp_path / "pairs.parquet")
    pd.testing.assert_frame_equal(of_pairs.frame, of_samples.frame[of_pairs.frame.columns])


def test_studies_of_nobody_known_are_patients_of_their_own(tmp_path):
    """Open-I names no patients: each study counts, where one of each patient does."""
    read = samples(tmp_path)
    frame = read.frame.assign(subject_id=[None, None, "p"])
    table = read.samples(frame)
    assert table.patients.tolist() == ["a", "b", "p"]
    assert table.first_of_patients(np.arange(3)).tolist() == [0, 1, 2]


def test_labels_count_as_the_settings_say(tmp_path):
    found = samples(tmp_path)
    settings = FindingsSettings(
        classes=["Mass", "Edema", "Fracture"], uncertain={"Edema": "one", "Mass": "zero"}
    )
    expected = [[0, 1, np.nan], [0, 1, 1], [0, 0, np.nan]]
    own = found.labels_of(found.frame, settings)
    assert own.dtype == np.float32
    np.testing.assert_array_equal(own, expected)
    zero = settings.model_copy(update={"unknown": "zero"})
    assert found.labels_of(found.frame, zero)[0, 2] == 0
    # What is uncertain and not mapped stays unknown.
    assert np.isnan(found.labels_of(found.frame, zero)[2, 2])


def test_findings_of_another_cohort_and_both_kinds_of_labels_are_refused(tmp_path):
    found = samples(tmp_path)
    with pytest.raises(InputError, match="terms.findings names 'Gout'; the cohort has Edema"):
        found.labels_of(found.frame, FindingsSettings(classes=["Gout"]))
    both = {"classification": {}, "findings": {"classes": ["Edema"]}}
    with pytest.raises(ValueError, match="expected one of them"):
        SupervisedTerms.model_validate(both)
