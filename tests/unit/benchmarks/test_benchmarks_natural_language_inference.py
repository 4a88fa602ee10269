"""Fine-tuning on sentence pairs: a task that can be learnt, early stopping, means over runs."""

from argparse import Namespace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_fakes import DATA, QUICK, metrics_of, result_of, write_cohort

from cxr_files.atomic import write_json
from cxr_files.errors import InputError
from cxrflow.benchmarks.evaluate import main
from cxrflow.benchmarks.inputs import Cohort
from cxrflow.benchmarks.language import natural_language_inference as program
from cxrflow.benchmarks.language import pair_classifier
from cxrflow.benchmarks.language.sentence_pair_rows import pair_clusters, pair_numbers
from cxrflow.benchmarks.language.settings import NaturalLanguageInferenceSettings
from cxrflow.data.readers.nli import LABELS
from cxrflow.encoders.cxr_bert import CXRBert
from cxrflow.encoders.settings import TextEncoderSettings
from cxrflow.text.sentence_pairs import PairTokens
from cxrflow.text.tokenizer import SPECIAL_TOKENS, read_tokenizer, write_tokenizer

WORDS = ("effusion", "edema", "fever", "cough")
PIECES = [*SPECIAL_TOKENS, "no", "seen", *WORDS]


def make_model(folder: Path) -> SimpleNamespace:
    write_tokenizer(folder, PIECES, lowercase=True)
    torch.manual_seed(0)
    sizes = TextEncoderSettings(
        layers=1, width=32, heads=2, feed_forward=64, positions=16, projection=8
    )
    encoder = CXRBert.build(sizes, len(PIECES), 0).eval()
    return SimpleNamespace(
        tokenizer=read_tokenizer(folder), text_encoder=encoder, run={"model": "tiny"}
    )


@pytest.fixture
def model(tmp_path: Path) -> SimpleNamespace:
    return make_model(tmp_path)


def pairs(count: int, split: str, seed: int) -> pd.DataFrame:
    """A "no" in the hypothesis: contradiction; "seen": entailment; neither: neutral."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        label = LABELS[int(rng.integers(3))]
        word, other = rng.choice(WORDS, 2)
        hypothesis = {"entailment": f"{word} seen", "neutral": other, "contradiction": f"no {word}"}
        rows.append((f"{split}-{number}", word, hypothesis[label], label, split))
    return pd.DataFrame(rows, columns=["sample_id", "premise", "hypothesis", "label", "split"])


def evaluate(model, **values):
    settings = {"run_seeds": [0, 1], "learning_rate": 5e-3, "epochs": 6, "batch_size": 8}
    settings |= {"patience": None, "dropout": 0.0, **values}
    table = pd.concat([pairs(40, "validate", 1), pairs(60, "test", 2)], ignore_index=True)
    contents = {"model": model, "cohort": Cohort(table, DATA)}
    with TemporaryDirectory() as root:
        training = write_cohort(Path(root, "med"), "samples.parquet", pairs(120, "train", 3))
        write_json(training / "flow.json", {"dataset": "notes", "synthetic": False})
        folders = Namespace(training=training)
        return result_of("natural_language_inference", settings, folders, **contents)


def test_a_task_that_words_give_away_is_learnt_and_tested_elsewhere(model) -> None:
    result = evaluate(model)
    metrics, rows = result.metrics, result.predictions
    assert metrics["accuracy"].value > 0.95 > metrics["majority"].value
    assert metrics["accuracy"].n == len(rows) == 60
    by_run = [(rows[f"prediction_seed{k}"] == rows["label"]).mean() for k in (0, 1)]
    assert metrics["accuracy"].value == pytest.approx(np.mean(by_run))
    assert metrics["accuracy_sd"].value == pytest.approx(np.std(by_run, ddof=1))
    assert metrics["majority"].value == rows["label"].value_counts().max() / 60
    assert set(metrics) >= {f"f1/{label}" for label in LABELS}
    assert [run["test_accuracy"] for run in result.data["runs"]] == pytest.approx(by_run)
    assert result.data["synthetic"] and result.protocol["trained_on"] == "notes"
    assert "interval_over" not in result.protocol  # samples alone
    assert "premise" not in rows


def test_every_run_starts_from_the_models_weights(model, tmp_path_factory) -> None:
    """The order of the seeds changes nothing, and the same seed gives the same predictions."""
    one = evaluate(model, run_seeds=[0, 1], epochs=1)
    fresh = make_model(tmp_path_factory.mktemp("fresh"))
    other = evaluate(fresh, run_seeds=[1, 0], epochs=1)
    for seed in (0, 1):
        name = f"prediction_seed{seed}"
        assert (one.predictions[name] == other.predictions[name]).all()
    first, second = (run["validation_accuracy"] for run in one.data["runs"])
    assert (first, second) == tuple(
        run["validation_accuracy"] for run in reversed(other.data["runs"])
    )


def test_the_best_epoch_is_tested_and_patience_stops(model, monkeypatch) -> None:
    """Validation accuracies by hand: the second epoch is the best, three worse ones end the run."""
    reached = iter([0.5, 0.75, 0.75, 0.25, 0.5, 1.0])
    tested = []

    def classify(_model, tokens, _precision):
        if len(tokens) == 40:
            right = round(40 * next(reached))
            classes = program.classes_of(pairs(40, "validate", 1)["label"])
            return np.where(np.arange(40) < right, classes, (classes + 1) % 3)
        tested.append(len(tested))
        return np.full(len(tokens), len(tested) - 1)

    monkeypatch.setattr(pair_classifier, "classify", classify)
    monkeypatch.setattr(pair_classifier, "build", lambda *_: torch.optim.SGD(
        model.text_encoder.parameters(), lr=0.0))  # fmt: skip
    settings = NaturalLanguageInferenceSettings(epochs=6, patience=3, batch_size=64)
    train, validation, test = (
        pair_classifier.LabelledSentencePairs(
            PairTokens(*map(list, (table["premise"], table["hypothesis"])), model.tokenizer, 16),
            program.classes_of(table["label"]),
        )
        for table in (pairs(120, "train", 3), pairs(40, "validate", 1), pairs(60, "test", 2))
    )
    start = {name: value.clone() for name, value in model.text_encoder.state_dict().items()}
    done = pair_classifier.fine_tune(
        model.text_encoder, start, train, validation, test.tokens, 3, 0, settings
    )
    assert (done.best_epoch, done.epochs, done.validation_accuracy) == (2, 5, 0.75)
    assert tested == [0, 1] and (done.predictions_N == 1).all()


def test_both_directions_of_a_pair_are_one_cluster() -> None:
    rows = pd.DataFrame({"premise": ["a", "b", "a", "c"], "hypothesis": ["b", "a", "c", "d"]})
    rows["pair"] = pair_numbers(rows)
    clusters = pair_clusters(rows, "subject")
    assert clusters[0] == clusters[1] and len(set(clusters)) == 3
    assert len(set(pair_clusters(rows, "sample"))) == 4


def test_the_program_writes_a_result_without_text(model, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("cxrflow.models.model.Model.load", lambda *_: model)
    table = pd.concat([pairs(20, "validate", 1), pairs(20, "test", 2)])
    rad = write_cohort(tmp_path / "rad", "samples.parquet", table)
    med = write_cohort(tmp_path / "med", "samples.parquet", pairs(30, "train", 3))
    asked = {"settings": {**QUICK, "epochs": 1, "run_seeds": [0, 1]}, "output": tmp_path / "out"}
    read = {"model": tmp_path, "cohort": rad, "training": med}
    found = metrics_of(main, "natural_language_inference", **read, **asked)
    assert found["benchmark"] == "natural_language_inference"
    assert found["protocol"]["max_length"] == 16  # no more positions than the encoder has
    assert len(found["data"]["runs"]) == 2 and found["data"]["pairs"]["train"] == 30
    rows = pd.read_parquet(tmp_path / "out" / "predictions.parquet")
    assert list(rows) == ["sample_id", "label", "pair", "prediction_seed0", "prediction_seed1"]


def test_wrong_input_is_named(model) -> None:
    with pytest.raises(InputError, match="med/samples.parquet: no row has split 'validate'"):
        evaluate(model, train_split="validate")
    with pytest.raises(InputError, match="key 'learning_rate' is 1e.20.*not finite"):
        evaluate(model, learning_rate=1e20, warmup=0.0, gradient_clip=1e30, epochs=3)
    with pytest.raises(InputError, match="no text encoder"):
        evaluate(SimpleNamespace(text_encoder=None))
    with pytest.raises(ValueError, match="is also the validation_split"):
        NaturalLanguageInferenceSettings(split="validate")
    with pytest.raises(ValueError, match="different seeds"):
        NaturalLanguageInferenceSettings(run_seeds=[1, 1])
