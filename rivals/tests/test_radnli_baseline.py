"""The RadNLI baseline: the classifier on BERT's pooler is the published one, and learns."""

from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_fakes import result_of, write_cohort
from rival_config import config_of
from rivals.radnli_baseline import PooledInferenceSettings, with_pooler
from transformers import BertConfig, BertForSequenceClassification

from cxr_files.atomic import write_json
from cxr_files.errors import InputError
from cxrflow.benchmarks.inputs import Cohort
from cxrflow.benchmarks.language.pair_classifier import PairClassifier
from cxrflow.benchmarks.language.settings import NaturalLanguageInferenceSettings
from cxrflow.data.readers.nli import LABELS
from cxrflow.encoders.cxr_bert import CXRBert
from cxrflow.encoders.settings import TextEncoderSettings
from cxrflow.text.sentence_pairs import PairTokens
from cxrflow.text.tokenizer import SPECIAL_TOKENS, read_tokenizer, write_tokenizer
from cxrflow.training.settings import OptimiserSettings, ScheduleSettings

BENCHMARK = "rivals.radnli_baseline:PooledInference"
WORDS = ("effusion", "edema", "fever", "cough")
PIECES = [*SPECIAL_TOKENS, "no", "seen", *WORDS]


@pytest.fixture
def model(tmp_path: Path) -> SimpleNamespace:
    write_tokenizer(tmp_path, PIECES, lowercase=True)
    sizes = {"layers": 2, "width": 32, "heads": 2, "feed_forward": 64, "positions": 16}
    settings = TextEncoderSettings.model_validate({**sizes, "projection": 8})
    encoder = CXRBert.build(settings, len(PIECES), 0).eval()
    return SimpleNamespace(
        tokenizer=read_tokenizer(tmp_path), text_encoder=encoder, run={"model": "tiny"}
    )


def test_the_logits_are_those_of_the_published_classifier(model: SimpleNamespace) -> None:
    """``cls='linear'`` of ysmiura/ifcc, which is BERT's own classifier of pairs."""
    pooled = with_pooler(model.text_encoder)
    ours = PairClassifier(pooled, 3, dropout=0.1).eval()
    names = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
    names = (*names, "intermediate_size", "max_position_embeddings", "layer_norm_eps")
    config = BertConfig(**{name: getattr(pooled.config, name) for name in names}, num_labels=3)
    theirs = BertForSequenceClassification(config).eval()
    state = {
        name.replace("pooler.", "pooler.dense."): value
        for name, value in ours.encoder.state_dict().items()
        if name.startswith("bert.")
    }
    state |= {f"classifier.{name}": value for name, value in ours.head.state_dict().items()}
    missing, strange = theirs.load_state_dict(state, strict=False)
    assert not strange and all(name.endswith("position_ids") for name in missing)
    texts = ["edema seen", "no cough"], ["no edema", "cough seen seen"]
    batch = PairTokens(*texts, model.tokenizer, 16).batch(np.arange(2))
    with torch.no_grad():
        expected = theirs(
            batch.input_ids, attention_mask=batch.attention_mask, token_type_ids=batch.segment_ids
        ).logits
        torch.testing.assert_close(ours(batch), expected, rtol=1e-4, atol=1e-6)


def test_the_defaults_are_those_of_the_package() -> None:
    """Test pairs are scored, and others choose the epoch."""
    theirs = NaturalLanguageInferenceSettings()
    assert PooledInferenceSettings().model_dump() == theirs.model_dump()


@pytest.mark.parametrize("scale", ["demo", "study", "paper"])
def test_the_model_is_fine_tuned_as_in_the_benchmark(scale: str) -> None:
    config = config_of("radnli_baseline", scale)
    model = config.models["radnli_baseline/classifier"].settings
    protocol: Any = config.tasks["biovil/natural_language_inference"].settings
    training = model.training
    assert training.batch_size == protocol.batch_size
    assert training.epochs == training.validations == protocol.epochs
    assert training.stopping.patience == protocol.patience and training.stopping.keep == "best"
    assert training.optimiser == OptimiserSettings(
        learning_rate=protocol.learning_rate, weight_decay=protocol.weight_decay
    )
    assert training.schedule == ScheduleSettings(decay="linear", warmup=protocol.warmup)
    assert training.gradient_clip == protocol.gradient_clip and training.gradient_limit is None
    assert model.dropout == model.terms.entailment.dropout == protocol.dropout
    assert model.length == protocol.max_length


def test_an_encoder_that_is_no_bert_is_refused() -> None:
    encoder: Any = torch.nn.Linear(2, 2)
    with pytest.raises(InputError, match="is a Linear; expected a BERT"):
        with_pooler(encoder)


def pairs(count: int, split: str, seed: int) -> pd.DataFrame:
    """A "no" in the hypothesis: contradiction; "seen": entailment; neither: neutral."""
    rng, rows = np.random.default_rng(seed), []
    for number in range(count):
        label, (word, other) = LABELS[int(rng.integers(3))], rng.choice(WORDS, 2)
        hypothesis = {"entailment": f"{word} seen", "neutral": other, "contradiction": f"no {word}"}
        texts = {"premise": word, "hypothesis": hypothesis[label], "label": label}
        rows.append({"sample_id": f"{split}-{number}", **texts, "split": split})
    return pd.DataFrame(rows)


def scored(folder: Path, reference: str | None = None, **more: Any) -> Any:
    settings = {"run_seeds": [0, 1], "learning_rate": 5e-3, "epochs": 12, "batch_size": 8}
    settings |= {"intervals": {"replicates": 100}, "patience": None, "dropout": 0.0}
    table = pd.concat([pairs(40, "validate", 1), pairs(60, "test", 2)], ignore_index=True)
    cohort = Cohort(table, {"name": "tiny", "synthetic": True, "fingerprint": "f"})
    training = write_cohort(folder / "med", "samples.parquet", pairs(120, "train", 3))
    write_json(training / "flow.json", {"dataset": "notes", "synthetic": False})
    protocol = PooledInferenceSettings.model_validate(settings)
    folders = Namespace(training=training)
    return result_of(BENCHMARK, protocol, folders, reference, cohort=cohort, **more)


def test_it_learns_what_words_give_away(model: SimpleNamespace, tmp_path: Path) -> None:
    before = model.text_encoder.state_dict()["bert.embeddings.word_embeddings.weight"].clone()
    result = scored(tmp_path, model=model)
    assert result.metrics["accuracy"].value > 0.6 > result.metrics["majority"].value
    assert "tanh of a linear layer" in result.protocol["head"]
    trained = model.text_encoder
    assert trained.bert.pooler.weight.requires_grad
    assert not torch.equal(trained.bert.pooler.weight, with_pooler_of(trained))
    assert not torch.equal(trained.bert.embeddings.word_embeddings.weight, before)


def with_pooler_of(trained: Any) -> torch.Tensor:
    """The pooler's weights before training."""
    encoder = CXRBert(trained.config)
    weight: torch.Tensor = with_pooler(encoder).bert.pooler.weight
    return weight


def test_a_floor_answers_in_its_place(tmp_path: Path) -> None:
    majority = scored(tmp_path, "nothing").metrics
    assert majority["accuracy"].value <= majority["majority"].value
    assert majority["accuracy"].n == 60
