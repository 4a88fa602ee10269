"""Paraphrases told from contradictions with a model whose states are known."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_fakes import DATA, result_of
from sklearn.metrics import roc_auc_score

from cxr_files.errors import InputError
from cxrflow.benchmarks.inputs import Cohort

WORDS = 40


def angle(text: str) -> float:
    """A sentence is called by the angle of its [CLS], in degrees."""
    return np.deg2rad(float(text.split()[0]))


def text_states(texts):
    """[CLS], a second token that turns the other way, padding that must not count."""
    states = torch.zeros(len(texts), 3, 2)
    for row, text in enumerate(texts):
        states[row, 0] = 3 * torch.tensor([np.cos(angle(text)), np.sin(angle(text))])
        states[row, 1] = torch.tensor([np.cos(angle(text)), -np.sin(angle(text))])
        states[row, 2] = 1e6
    return states, torch.tensor([[1, 1, 0]] * len(texts))


def fake(**run):
    def encode_text(texts):
        return torch.tensor([[1.0, 0.0]] * len(texts))

    half = SimpleNamespace(pooling="cls")
    return SimpleNamespace(
        text_encoder=half, text_states=text_states, encode_text=encode_text, run=run
    )


def samples(seed: int = 0, both: bool = False) -> pd.DataFrame:
    """Paraphrases up to 50 degrees apart, contradictions from 40 on: no threshold is perfect."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(WORDS):
        similar = number % 2 == 0
        apart = rng.uniform(0, 50) if similar else rng.uniform(40, 90)
        pair = (f"0 s{number}", f"{apart} s{number}")
        label = "paraphrase" if similar else "contradiction"
        rows += [(*pair, label), (*reversed(pair), label)] if both else [(*pair, label)]
    rows.append(("0 n", "1 n", "neutral"))
    table = pd.DataFrame(rows, columns=["premise", "hypothesis", "label"])
    table["sample_id"] = [f"s{n}" for n in range(len(table))]
    return table.assign(split="test")


def evaluate(model, table: pd.DataFrame, **values):
    settings = {"embedding": "cls", **values}
    return result_of("paraphrase_detection", settings, model=model, cohort=Cohort(table, DATA))


@pytest.mark.parametrize("both", [False, True])
def test_against_a_loop_over_folds_and_thresholds(both: bool) -> None:
    result = evaluate(fake(), samples(both=both))
    rows = result.predictions
    similar = (rows["label"] == "paraphrase").to_numpy()
    cosine = rows["cosine"].to_numpy()
    right = []
    for fold in range(10):
        judged = (rows["fold"] == fold).to_numpy()
        best = {}
        for number in range(-200, 201):
            called = cosine[~judged] > number * 0.005
            best.setdefault(int((called == similar[~judged]).sum()), []).append(number * 0.005)
        middle = best[max(best)][len(best[max(best)]) // 2]
        assert rows.loc[judged, "threshold"].unique() == pytest.approx([middle])
        right += list((cosine[judged] > middle) == similar[judged])
    assert result.metrics["accuracy"].value == pytest.approx(np.mean(right))
    assert 0.5 < result.metrics["accuracy"].value < 1
    assert result.metrics["auroc"].value == pytest.approx(roc_auc_score(similar, cosine))
    assert result.metrics["accuracy"].n == len(right) == WORDS * (2 if both else 1)
    assert result.metrics["majority"].value == 0.5
    assert result.data["dropped"][0]["count"] == 1
    assert rows.groupby("pair")["fold"].nunique().max() == 1


def test_what_stands_for_a_sentence() -> None:
    table = samples()
    apart = np.deg2rad([float(text.split()[0]) for text in table["hypothesis"]][:WORDS])
    cls = evaluate(fake(), table).predictions["cosine"]
    np.testing.assert_allclose(cls, np.cos(apart), atol=1e-7)
    # The mean of two real tokens: 3 e^(ia) and e^(-ia), so (4 cos a, 2 sin a) / 2.
    mean = evaluate(fake(), table, embedding="mean").predictions["cosine"]
    wanted = np.cos(apart) / np.sqrt(np.cos(apart) ** 2 + (np.sin(apart) / 2) ** 2)
    np.testing.assert_allclose(mean, wanted, atol=1e-6)
    assert set(evaluate(fake(), table, embedding="projected").predictions["cosine"]) == {1.0}


def test_auto_is_cls_where_an_objective_has_reached_it() -> None:
    def chosen(**run):
        return evaluate(fake(**run), samples(), embedding="auto").protocol["embedding"]

    assert chosen(program="joint") == chosen(program="temporal") == "cls"
    assert chosen(program="text", settings={"terms": {"section_matching": {}, "mlm": {}}}) == "cls"
    assert chosen(program="text", settings={"terms": {"mlm": {}}}) == chosen() == "mean"


def test_subsets_are_scored_apart() -> None:
    table = samples()
    table["subset"] = ["Swaps" if n % 4 < 2 else "RadGraph" for n in range(len(table))]
    result = evaluate(fake(), table)
    rows = result.predictions
    for name in ("Swaps", "RadGraph"):
        part = rows[rows["subset"] == name]
        found = roc_auc_score(part["label"] == "paraphrase", part["cosine"])
        assert result.metrics[f"auroc/{name.lower()}"].value == pytest.approx(found)
        assert result.metrics[f"accuracy/{name.lower()}"].n == len(part)


def test_wrong_input_is_named() -> None:
    with pytest.raises(InputError, match="no text encoder"):
        evaluate(SimpleNamespace(text_encoder=None), samples())
    few = samples().query("label != 'contradiction' or sample_id < 's15'")
    with pytest.raises(InputError, match=r"label contradiction; expected at least one for each of"):
        evaluate(fake(), few)
