"""Cosines of sentence pairs with a model whose embeddings are known."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_fakes import DATA, QUICK, metrics_of, result_of, write_cohort
from sklearn.metrics import roc_auc_score

from cxr_files.errors import InputError
from cxrflow.benchmarks.evaluate import main
from cxrflow.benchmarks.inputs import Cohort

ANGLES = {"clear": 0.0, "no opacity": 20.0, "opacity": 120.0, "dense opacity": 90.0, "line": 60.0}
ROWS = (
    ("clear", "no opacity", "entailment"),  # 20 degrees apart
    ("dense opacity", "opacity", "entailment"),  # 30
    ("opacity", "dense opacity", "neutral"),  # 30
    ("clear", "opacity", "contradiction"),  # 120
    ("opacity", "clear", "contradiction"),  # 120
    ("no opacity", "no opacity", "contradiction"),  # 0
)


def encode_text(texts):
    angle = torch.deg2rad(torch.tensor([ANGLES[text] for text in texts]))
    return torch.stack([angle.cos(), angle.sin()], dim=1)


def fake(**run):
    text = SimpleNamespace(pooling="max")
    return SimpleNamespace(text_encoder=text, encode_text=encode_text, run={"model": "f"} | run)


def samples(split="test"):
    table = pd.DataFrame(ROWS, columns=["premise", "hypothesis", "label"])
    return table.assign(sample_id=[f"s{n}" for n in range(len(ROWS))], split=split)


def evaluate(model, table=None, **values):
    cohort = Cohort(samples() if table is None else table, DATA)
    return result_of("sentence_similarity", values, model=model, cohort=cohort)


def test_by_hand() -> None:
    result = evaluate(fake(), batch_size=2)
    metrics = result.metrics
    similar = (np.cos(np.deg2rad(20)) + np.cos(np.deg2rad(30))) / 2
    against = (2 * np.cos(np.deg2rad(120)) + 1) / 3
    assert metrics["syn_sim"].value == pytest.approx(similar, abs=1e-6)
    assert metrics["contradiction_sim"].value == pytest.approx(against, abs=1e-6)
    assert metrics["cont_gap"].value == pytest.approx(similar - against, abs=1e-6)
    assert metrics["neutral_sim"].value == pytest.approx(np.cos(np.deg2rad(30)), abs=1e-6)
    rows = result.predictions[result.predictions["label"] != "neutral"]
    wanted = roc_auc_score(rows["label"] == "entailment", rows["cosine"])
    assert metrics["auroc"].value == pytest.approx(wanted) == pytest.approx(2 / 3)
    assert (metrics["syn_sim"].n, metrics["contradiction_sim"].n, metrics["auroc"].n) == (2, 3, 5)
    assert result.data["pairs"] == {"contradiction": 3, "entailment": 2, "neutral": 1}


def test_the_protocol_says_whether_the_projection_is_trained() -> None:
    def said(**run):
        return evaluate(fake(**run)).protocol["projection_trained"]

    assert said(program="joint", settings={"terms": {"global_alignment": {}}}) is True
    assert said(program="text", settings={"terms": {"section_matching": {}, "mlm": {}}}) is True
    assert said(program="studies", settings={"terms": {"pair_matching": {}}}) is True
    assert said(program="joint", settings={"terms": {"mlm": {}}}) is False
    assert said(program="temporal", settings={"geometry": None}) is True  # published weights
    assert said(program="text", settings={"terms": {"mlm": {}}}) is False
    assert said() is None


def test_both_directions_are_drawn_together() -> None:
    """Two pairs in both directions give the intervals of two clusters, not of four samples."""
    whole = evaluate(fake()).metrics["contradiction_sim"]
    apart = evaluate(fake(), intervals={"replicates": 200, "unit": "sample"}).metrics
    assert whole.value == apart["contradiction_sim"].value
    assert (whole.low, whole.high) != (apart["contradiction_sim"].low, None)
    assert whole.low == pytest.approx(-0.5, abs=1e-6)


def test_the_program_chooses_the_split(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("cxrflow.models.model.Model.load", lambda *_: fake())
    table = pd.concat([samples("validate"), samples("test")], ignore_index=True)
    cohort = write_cohort(tmp_path / "cohort", "samples.parquet", table)
    read = {"model": tmp_path, "cohort": cohort, "output": tmp_path / "out"}
    for split, count in (("test", 5), (None, 10)):
        asked = {"settings": {**QUICK, "split": split}}
        found = metrics_of(main, "sentence_similarity", **read, **asked)
        assert found["metrics"]["auroc"]["n"] == count
    assert "premise" not in pd.read_parquet(tmp_path / "out" / "predictions.parquet")


def test_wrong_input_is_named() -> None:
    with pytest.raises(InputError, match="no text encoder"):
        evaluate(SimpleNamespace(text_encoder=None))
    with pytest.raises(InputError, match="no row has the label contradiction"):
        evaluate(fake(), samples().query("label != 'contradiction'"))
