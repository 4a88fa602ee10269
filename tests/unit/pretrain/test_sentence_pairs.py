"""Sentence pairs: the classifier of BioViL's protocol, trained as a model that others can read."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from small_text import write_text_model
from torch.nn.functional import cross_entropy

import cxrflow
from command_options import options
from cxr_files.errors import InputError
from cxrflow.benchmarks.language.pair_classifier import PairClassifier
from cxrflow.commands.load import main as load_command
from cxrflow.data.readers.nli import LABELS
from cxrflow.encoders.cxr_bert import CXRBert, load_text_encoder, save_text_encoder
from cxrflow.encoders.projection import TextProjection
from cxrflow.pretrain.inputs import Run
from cxrflow.pretrain.labelled_sentences import LabelledSentences, SentencePairsProgram
from cxrflow.pretrain.objective import Batch
from cxrflow.pretrain.sentence_pairs import main
from cxrflow.pretrain.settings import SentencePairSettings
from cxrflow.pretrain.starts import start_classifier, start_text
from cxrflow.text.sentence_pairs import PairTokens
from cxrflow.text.tokenizer import SPECIAL_TOKENS, read_tokenizer, write_tokenizer
from cxrflow.training.processes import ALONE

TRAINING = {"epochs": 12, "batch_size": 16, "optimiser": {"learning_rate": 5e-3}}
SETTINGS: dict[str, Any] = {
    **{"training": TRAINING, "length": 16, "dropout": 0.0},
    "terms": {"entailment": {"dropout": 0.0}},
}


def write_pairs(folder: Path, **changed: Any) -> Path:
    """A "no" in the hypothesis contradicts, "large" is neutral, the premise entails itself."""
    generator, rows = np.random.default_rng(0), []
    for number in range(160):
        label, word = LABELS[number % 3], ("effusion", "heart", "nodule")[generator.integers(3)]
        hypothesis = {"entailment": word, "neutral": f"large {word}", "contradiction": f"no {word}"}
        split = "train" if number < 120 else "validate"
        texts = {"premise": f"{word} .", "hypothesis": f"{hypothesis[label]} .", "label": label}
        rows.append({"sample_id": f"pair{number}", **texts, "split": split} | changed)
    folder.mkdir()
    pd.DataFrame(rows).to_parquet(folder / "samples.parquet")
    flow = {"dataset": "notes", "cohort": "tiny/notes", "synthetic": True}
    (folder / "flow.json").write_text(json.dumps(flow))
    return folder / "samples.parquet"


def train(folder: Path, pairs: Path, **settings: Any) -> Path:
    output = folder / "classifier"
    given = {"settings": SETTINGS | settings, "pairs": pairs, "start": folder / "start"}
    main(options(**given, model="tiny", seed=0, state=folder / "state", output=output))
    return output


@pytest.fixture
def start(tmp_path: Path) -> Path:
    (tmp_path / "start").mkdir()
    return write_text_model(tmp_path / "start")


def test_loss_and_gradients_are_the_protocols(tmp_path: Path, start: Path) -> None:
    """Beside the benchmark's classifier of the same weights, which pads and batches otherwise."""
    table = LabelledSentences(write_pairs(tmp_path / "pairs"))
    rows, tokenizer = table.rows("train"), read_tokenizer(start)
    tokens = PairTokens(rows["premise"].tolist(), rows["hypothesis"].tolist(), tokenizer, 16)
    samples = {name: table.labelled(rows) for name in ("train", "validate")}
    text = start_classifier(start, 0.0, len(LABELS))
    settings = SentencePairSettings.model_validate(SETTINGS)
    run = Run(0, torch.device("cpu"), ALONE)
    both = {"train": tokens, "validate": tokens}
    program = SentencePairsProgram(settings, run, samples, both, text, start)
    chosen = np.arange(9)
    program.losses(
        program.views("train", Batch(chosen, 0, 0, ALONE, samples["train"])), 0, 1
    ).total.backward()
    literal = PairClassifier(load_text_encoder(start), len(LABELS), dropout=0.0)
    literal.head.load_state_dict(text.cls_projection_head.dense_to_output.state_dict())
    batch = tokens.batch(chosen)
    labels = torch.tensor([LABELS.index(label) for label in rows["label"][:9]])
    loss = cross_entropy(literal(batch), labels)
    loss.backward()
    theirs = dict(literal.encoder.bert.named_parameters())
    for name, parameter in text.bert.named_parameters():
        expected = theirs[name].grad
        assert (parameter.grad is None) == (expected is None), name
        if parameter.grad is not None and expected is not None:
            torch.testing.assert_close(parameter.grad, expected, rtol=1e-4, atol=1e-7)
    ours = text.cls_projection_head.dense_to_output.weight.grad
    torch.testing.assert_close(ours, literal.head.weight.grad, rtol=1e-4, atol=1e-7)
    assert not any(
        p.requires_grad for n, p in text.cls.named_parameters() if "decoder.weight" not in n
    )


def test_the_trained_model_says_how_sentences_relate(tmp_path: Path, start: Path) -> None:
    folder = train(tmp_path, write_pairs(tmp_path / "pairs"))
    text, tokenizer = load_text_encoder(folder), read_tokenizer(folder)
    assert isinstance(text.cls_projection_head, TextProjection)
    assert text.config.projection_size == len(LABELS)
    hypotheses = ["heart .", "large heart .", "no heart ."]
    batch = PairTokens(["heart ."] * 3, hypotheses, tokenizer, 16).batch(np.arange(3))
    with torch.no_grad():
        states = text.hidden_states(batch.input_ids, batch.attention_mask, batch.segment_ids)
        assert text.project(states).argmax(1).tolist() == [0, 1, 2]
    run = json.loads((folder / "run.json").read_text())
    assert (run["program"], run["data"]["classes"]) == ("sentence_pairs", list(LABELS))
    assert run["permuted_pairs"]["differs"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"hypothesis": " "},
            r"160 row\(s\) \(pair0, .*\) have no text in column 'hypothesis'; exp",
        ),
        ({"premise": None}, "have no text in column 'premise'; expected a sentence in each"),
        ({"sample_id": "one"}, r"159 row\(s\) \(one, .* repeat a sample_id; expected each once"),
        ({"label": "neutral"}, "'train' has the label entailment or contradiction; expected pairs"),
        ({"label": 0}, "column 'label' has 0; expected entailment"),
    ],
)
def test_damaged_pairs_are_refused(
    tmp_path: Path, start: Path, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        train(tmp_path, write_pairs(tmp_path / "pairs", **changed))


def test_a_classifier_stands_for_no_embedding(
    tmp_path: Path, start: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cosines of three logits would look like any others."""
    folder = train(tmp_path, write_pairs(tmp_path / "pairs"))
    model = cxrflow.load(folder)
    with pytest.raises(InputError, match="says how two sentences relate; it embeds no text"):
        model.encode_text(["heart ."])
    assert model.text_states(["heart ."])[0].shape[2] == model.text_encoder.config.hidden_size
    load_command([str(folder)])
    printed = capsys.readouterr().out
    assert "two texts    entailment, neutral, contradiction" in printed
    assert "joint space" not in printed
    with pytest.raises(InputError, match="expected a text encoder, such as the one that it start"):
        start_text(folder, 0.1, 0.1)
    assert start_text(folder, 0.1, 0.1, new_projection=True).config.projection_size == len(LABELS)
    assert start_classifier(folder, 0.1, 2).config.projection_size == 2


def test_what_cannot_read_pairs_is_no_start(tmp_path: Path, start: Path) -> None:
    pairs = write_pairs(tmp_path / "pairs")
    write_tokenizer(start, [*SPECIAL_TOKENS, *(f"word{n}" for n in range(60))], lowercase=True)
    with pytest.raises(InputError, match=r"the tokenizer has \d+ pieces, but vocab_size"):
        train(tmp_path, pairs)
    text = CXRBert(load_text_encoder(start).config.model_copy(update={"type_vocab_size": 1}))
    save_text_encoder(text, start)
    with pytest.raises(
        InputError, match="does not tell two texts apart; expected a BERT with type"
    ):
        train(tmp_path, pairs)


def test_what_cannot_be_trained_on_is_said(tmp_path: Path, start: Path) -> None:
    with pytest.raises(InputError, match="column 'label' has 'maybe'; expected entailment, neut"):
        train(tmp_path, write_pairs(tmp_path / "labels", label="maybe"))
    with pytest.raises(InputError, match="no row of split 'validate'"):
        train(tmp_path, write_pairs(tmp_path / "splits", split="train"))
    with pytest.raises(InputError, match="'length' is 64, but the text encoder has 40 positions"):
        train(tmp_path, write_pairs(tmp_path / "long"), length=64)
