"""Masked-token prediction with encoders whose score can be worked out."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_fakes import DATA, metrics_of, result_of, studies_of, write_cohort

from cxr_files.errors import InputError
from cxrflow.benchmarks.evaluate import main
from cxrflow.benchmarks.inputs import Cohort
from cxrflow.benchmarks.rows.texts import most_frequent_by
from cxrflow.text.tokenizer import SPECIAL_TOKENS, read_tokenizer, write_tokenizer

PIECES = [*SPECIAL_TOKENS, "no", "clear", "lungs", "pneu", "##monia", "effusion", "."]


class FakeEncoder(torch.nn.Module):
    """Answers the piece it reads (``echo``), or always the same one."""

    def __init__(self, answer: int | None) -> None:
        super().__init__()
        self.answer = answer
        self.config = SimpleNamespace(max_position_embeddings=16)
        self.place = torch.nn.Parameter(torch.zeros(1))

    def hidden_states(self, input_ids, attention_mask):
        assert input_ids.shape == attention_mask.shape and input_ids.shape[1] <= 16
        return input_ids[..., None].float()

    def predict_tokens(self, hidden, positions):
        assert not torch.is_grad_enabled()
        read = hidden.flatten(0, 1)[positions, 0].long()
        answer = read if self.answer is None else torch.full_like(read, self.answer)
        return torch.nn.functional.one_hot(answer, len(PIECES)).float()


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vocabulary")
    write_tokenizer(folder, PIECES, lowercase=True)
    return read_tokenizer(folder)


def model_that(tokenizer, answer):
    text = FakeEncoder(answer)
    return SimpleNamespace(tokenizer=tokenizer, text_encoder=text, run={"model": "fake"})


def reports(count: int = 600) -> pd.DataFrame:
    """Validation reports and as many for training, in which "lungs" is the commonest piece."""
    rng = np.random.default_rng(0)
    words = ["lungs", "lungs", "lungs", "clear", "no pneumonia", "effusion."]
    texts = [" ".join(rng.choice(words, size=8)) for _ in range(2 * count)]
    return studies_of(
        ["No effusion."] * len(texts),
        subject_id=[f"p{n // 3}" for n in range(len(texts))],
        findings=[text if n % 4 else None for n, text in enumerate(texts)],
        findings_sentences=[[text] if n % 4 else None for n, text in enumerate(texts)],
        impression_sentences=[["No effusion."]] * len(texts),
        split=["train"] * count + ["validate"] * count,
    )


def evaluate(model, table=None, **values):
    cohort = Cohort(reports() if table is None else table, DATA)
    return result_of("mask_prediction", values, model=model, cohort=cohort)


def test_always_the_same_piece_is_the_baseline(tokenizer):
    lungs = PIECES.index("lungs")
    result = evaluate(model_that(tokenizer, lungs))
    assert result.protocol["most_frequent_token"] == "lungs"
    metrics = result.metrics
    assert metrics["margin"].value == 0 == metrics["margin"].low == metrics["margin"].high
    rows = result.predictions
    assert metrics["mask_accuracy"].value == rows["correct"].sum() / rows["targets"].sum() > 0.2
    assert metrics["mask_accuracy"].n == rows["targets"].sum()
    findings = rows[rows["section"] == "findings"]
    each = findings["correct"].sum() / findings["targets"].sum()
    assert metrics["mask_accuracy/findings"].value == each
    assert metrics["mask_accuracy/impression"].value == 0  # where "lungs" never stands
    assert len(rows) == 600 + 450  # reports without FINDINGS have one sequence


def test_an_echo_is_right_only_where_the_piece_was_kept(tokenizer):
    result = evaluate(model_that(tokenizer, None))
    assert result.metrics["mask_accuracy"].value == pytest.approx(0.11, abs=0.03)
    masked = evaluate(model_that(tokenizer, None), masking={"mask_share": 1.0, "random_share": 0.0})
    assert masked.metrics["mask_accuracy"].value == 0
    tokens = 450 * 8 * 1.5 + 600 * 3  # a drawn word has 1.5 pieces on average
    assert result.metrics["mask_accuracy"].n / tokens == pytest.approx(0.15, abs=0.02)


def test_masks_depend_on_the_study_alone(tokenizer):
    table = reports()
    whole = evaluate(model_that(tokenizer, None), table, batch_size=7).predictions
    part = table[(table["split"] == "train") | (table.index % 2 == 1)].iloc[::-1]
    some = evaluate(model_that(tokenizer, None), part).predictions
    columns = ["study_id", "section"]
    both = some.merge(whole, on=columns, suffixes=("", "_whole"))
    assert len(both) == len(some) > 300
    for name in ("targets", "correct", "correct_most_frequent"):
        assert (both[name] == both[f"{name}_whole"]).all(), name
    other = evaluate(model_that(tokenizer, None), table, mask_seed=1).predictions
    targets = (rows.sort_values(columns)["targets"].to_numpy() for rows in (other, whole))
    assert not np.array_equal(*targets)


def test_patients_are_the_unit_and_sections_of_a_study_stay_together(tokenizer):
    table = reports().assign(subject_id=None)
    wide = evaluate(model_that(tokenizer, 5), reports()).metrics["mask_accuracy"]
    unknown = evaluate(model_that(tokenizer, 5), table).metrics["mask_accuracy"]
    assert unknown.value == wide.value
    assert unknown.low < unknown.value < unknown.high


def test_the_program_writes_a_result_without_text(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr("cxrflow.models.model.Model.load", lambda *_: model_that(tokenizer, 7))
    cohort = write_cohort(tmp_path / "cohort", "pairs.parquet", reports(60))
    read = {"model": tmp_path, "cohort": cohort, "settings": {"sections": ["findings"]}}
    found = metrics_of(main, "mask_prediction", **read, output=tmp_path / "out")
    assert found["benchmark"] == "mask_prediction" and found["protocol"]["max_length"] == 16
    assert "mask_accuracy/impression" not in found["metrics"]
    rows = pd.read_parquet(tmp_path / "out" / "predictions.parquet")
    assert "findings" not in rows and set(rows["section"]) == {"findings"}
    assert json.loads((tmp_path / "out" / "figures" / "examples.json").read_text()) == []


def test_wrong_input_is_named(tokenizer):
    with pytest.raises(InputError, match="no row has split 'validate'"):
        evaluate(model_that(tokenizer, 5), reports().assign(split="train"))
    with pytest.raises(InputError, match="no masked token .* of the baseline"):
        sections = ("findings", "impression", "findings_sentences", "impression_sentences")
        evaluate(model_that(tokenizer, 5), reports().assign(**dict.fromkeys(sections)))
    with pytest.raises(InputError, match="no text encoder"):
        evaluate(SimpleNamespace(text_encoder=None))


def scored(name: str, table: pd.DataFrame) -> dict[str, float]:
    result = result_of("mask_prediction", {}, reference=name, cohort=Cohort(table, DATA))
    return {name: metric.value for name, metric in result.metrics.items()}


def test_reference_rows_know_training_words_and_their_neighbours():
    """Every report counts on from a number: each word follows from the one before it."""
    table = reports(300)
    for section in ("findings", "impression"):
        texts = [" ".join(f"w{(n + k) % 12}" for k in range(9)) for n in range(len(table))]
        table[section], table[f"{section}_sentences"] = texts, [[text] for text in texts]
    rows = ("random", "most_frequent", "neighbours", "oracle")
    found = {name: scored(name, table) for name in rows}
    assert found["most_frequent"]["margin"] == 0
    assert found["random"]["mask_accuracy"] == pytest.approx(1 / 12, abs=0.03)
    # Where both neighbours are masked, or another word stands there, nothing tells.
    assert found["oracle"]["mask_accuracy"] >= found["neighbours"]["mask_accuracy"] > 0.85


def test_the_most_frequent_word_of_a_context_by_hand():
    context, word = np.array([7, 7, 7, 2, 2, 9]), np.array([1, 3, 3, 4, 0, 5])
    contexts, words = most_frequent_by(context, word, 10)
    assert contexts.tolist() == [2, 7, 9] and words.tolist() == [0, 3, 5]
