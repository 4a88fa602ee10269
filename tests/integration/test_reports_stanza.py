"""A stanza tokenizer trained in seconds splits held-out text as the rules do, offline."""

import itertools
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

from cxr_files.errors import InputError
from cxr_labels.sentences import RuleSplitter, StanzaSplitter, make_splitter
from cxr_labels.stanza_models import train_model
from cxrflow.reports.settings import SentenceSplitterSettings
from cxrflow.reports.train_sentence_splitter import main, train

SIDES = ["left", "right", "left lower", "right upper"]
FINDINGS = ["effusion", "opacity", "consolidation", "pneumothorax", "nodule"]
FORMS = [
    "There is a small {a} {b}.",
    "No {b} in the {a} lung.",
    "The {a} {b} measures 2.5 cm.",
    "Stable {b} on the {a} side.",
    "Heart size is normal.",
]


def paragraphs(count: int, seed: int) -> list[list[str]]:
    rng = np.random.default_rng(seed)
    every = [f.format(a=a, b=b) for f, a, b in itertools.product(FORMS, SIDES, FINDINGS)]
    return [[every[i] for i in rng.integers(len(every), size=3)] for _ in range(count)]


def written(groups: list[list[str]]) -> tuple[str, str]:
    """Text and stanza's character labels (0 inside, 1 end of token, 2 end of sentence)."""
    texts, labels = [], []
    for sentences in groups:
        text, label = " ".join(sentences), ""
        for sentence in sentences:
            words = sentence[:-1].split()
            marks = [f"{'0' * (len(word) - 1)}1" for word in words]
            label += ("0" if label else "") + "0".join(marks) + "2"
        texts.append(text)
        labels.append(label)
    return "\n\n".join(texts) + "\n\n", "\n\n".join(labels) + "\n\n"


@pytest.fixture(scope="module")
def text_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stanza_text")
    for part, count, seed in (("train", 120, 1), ("dev", 20, 2)):
        text, labels = written(paragraphs(count, seed))
        (folder / f"{part}.txt").write_text(text, encoding="utf-8")
        (folder / f"{part}.toklabels").write_text(labels, encoding="utf-8")
    return folder


@pytest.mark.slow
def test_trained_splitter_agrees_with_rules_on_held_out_text(text_folder, tmp_path):
    folder = tmp_path / "stanza" / "demo"
    main(["--text", str(text_folder), "--output", str(folder), "--settings", '{"steps": 120}'])
    assert b".partial" not in (folder / "en/tokenize/mimic.pt").read_bytes()  # as it was written
    splitter = make_splitter("stanza", folder)
    assert isinstance(splitter, StanzaSplitter)
    held_out = [" ".join(group) for group in paragraphs(40, 3)]
    expected = RuleSplitter().split(held_out)
    got = splitter.split([*held_out, ""])
    assert got[-1] == []
    same = sum(a == b for a, b in zip(expected, got, strict=False))
    assert same >= 0.9 * len(expected)


def test_model_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="resources.json: not found"):
        StanzaSplitter(tmp_path)
    with pytest.raises(InputError, match="--stanza"):
        make_splitter("stanza")


def test_a_model_of_numbers_that_are_not_finite_is_refused(tmp_path: Path) -> None:
    (tmp_path / "resources.json").write_text("{}")
    model = tmp_path / "en/tokenize/mimic.pt"
    model.parent.mkdir(parents=True)
    torch.save({"model": {"a": torch.ones(2), "b": torch.tensor([1.0, float("nan")])}}, model)
    with pytest.raises(InputError, match=r"mimic.pt: a tensor holds 1 of 2 numbers that are not"):
        StanzaSplitter(tmp_path)
    model.write_bytes(b"<!DOCTYPE html>")
    with pytest.raises(InputError, match=r"mimic.pt: is a web page, not the file"):
        StanzaSplitter(tmp_path)


def test_a_model_that_stanza_could_not_write_whole_is_refused(tmp_path: Path, monkeypatch) -> None:
    """Stanza logs that a disk is full, goes on, and ends with 0."""
    model = tmp_path / "mimic.pt"

    def cut_off(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        model.touch()
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr("cxr_labels.stanza_models.subprocess.run", cut_off)
    with pytest.raises(InputError, match=r"mimic.pt: "):
        train_model("tokenizer", model, tmp_path, {})


def test_labels_of_another_length_are_refused(text_folder: Path, tmp_path: Path) -> None:
    for name in ("train.txt", "train.toklabels", "dev.txt", "dev.toklabels"):
        (tmp_path / name).write_bytes((text_folder / name).read_bytes())
    (tmp_path / "dev.toklabels").write_text("0012", encoding="utf-8")
    with pytest.raises(InputError, match="dev.toklabels: 4 labels"):
        train(tmp_path, tmp_path / "out", SentenceSplitterSettings())
    assert not (tmp_path / "out").exists()
