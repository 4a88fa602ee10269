"""CheXbert as an engine, on a small random network with the published file's names."""

import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from cxr_files.errors import InputError
from cxr_labels import chexbert
from cxr_labels.chexbert import CheXbertLabeller
from cxr_labels.observations import OBSERVATIONS

PIECES = (
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    + ["no", "effusion", "effusions", "edema", "heart", "is", "large", ".", ",", "left", "right"]
    + ["lung", "##s", "clear", "pneumo", "##thorax", "naive", "small", "1", "2"]
)
POSITIONS = 16
# As the published code numbers them.
CONDITIONS = [
    *("Enlarged Cardiomediastinum", "Cardiomegaly", "Lung Opacity", "Lung Lesion", "Edema"),
    *("Consolidation", "Pneumonia", "Atelectasis", "Pneumothorax", "Pleural Effusion"),
    *("Pleural Other", "Fracture", "Support Devices", "No Finding"),
]
REPORTS = (
    ("No effusion.", "Heart is LARGE."),
    ("Left  pneumothorax,\n small.",),
    (),
    ("Naïve lungs clear.",),
    ("Edema.",) * 20,
    ("Right effusions, xyzzy 1 2.", "Small left effusion."),
    ("Heart large.",),
)


class Published(nn.Module):
    """The published network, word for word: all of BERT and a list of heads."""

    def __init__(self) -> None:
        super().__init__()
        config = BertConfig(
            vocab_size=len(PIECES),
            hidden_size=128,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=POSITIONS,
        )
        self.bert = BertModel(config)
        self.linear_heads = nn.ModuleList([nn.Linear(128, 4) for _ in range(13)])
        self.linear_heads.append(nn.Linear(128, 2))

    def forward(self, ids: Tensor, mask: Tensor) -> list[Tensor]:
        cls = self.bert(ids, attention_mask=mask)[0][:, 0, :]
        return [head(cls) for head in self.linear_heads]


def published_ids(text: str) -> list[int]:
    """Cleaning, WordPiece and the cut, written out for words of at most two pieces."""
    text = re.sub(r"\s+", " ", text.strip().replace("\n", " ")).strip()
    text = text.lower().replace("ï", "i")
    tokens = []
    for word in re.findall(r"\w+|[^\w\s]", text):
        if word in PIECES:
            tokens.append(word)
            continue
        halves = [(word[:k], "##" + word[k:]) for k in range(len(word) - 1, 0, -1)]
        fitting = [(a, b) for a, b in halves if a in PIECES and b in PIECES]
        tokens += fitting[0] if fitting else ["[UNK]"]
    ids = [2, *map(PIECES.index, tokens), 3]
    return [*ids[: POSITIONS - 1], 3] if len(ids) > POSITIONS else ids


@pytest.fixture(scope="module")
def network() -> Published:
    torch.manual_seed(3)
    made = Published().eval()
    with torch.no_grad():
        # Large enough for texts to differ in their classes.
        for parameter in made.parameters():
            if parameter.ndim == 2:
                parameter.normal_(std=0.3)
    return made


@pytest.fixture(scope="module")
def folder(network: Published, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The weights as published, saved from a parallel wrapper, with a vocabulary beside them."""
    made = tmp_path_factory.mktemp("chexbert")
    (made / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    save(made / "chexbert.pth", network)
    return made


def state(network: Published) -> dict[str, Tensor]:
    return {f"module.{name}": tensor for name, tensor in network.state_dict().items()}


def save(path: Path, network: Published, **changes: Any) -> None:
    tensors = {**state(network), **changes}
    content = {"epoch": 3, "model_state_dict": {k: v for k, v in tensors.items() if v is not None}}
    torch.save(content, path)


def expected(network: Published, sentences: tuple[str, ...]) -> dict[str, float]:
    """Labels by the published steps, one report at a time."""
    ids = torch.tensor([published_ids(" ".join(sentences))])
    with torch.no_grad():
        logits = network(ids, torch.ones(ids.shape))
    states = {}
    for name, values in zip(CONDITIONS, logits, strict=True):
        chosen = int(values.argmax(dim=1))
        states[name] = {0: math.nan, 1: 1.0, 2: 0.0, 3: -1.0}[chosen]
    return states


def test_labels_are_the_published_networks(network: Published, folder: Path) -> None:
    ours = CheXbertLabeller(folder).label(REPORTS)
    seen = set()
    for report, labels in zip(REPORTS, ours, strict=True):
        reference = expected(network, report)
        for name, value in zip(OBSERVATIONS, labels, strict=True):
            assert value == pytest.approx(reference[name], nan_ok=True), (report, name)
            seen.add("blank" if math.isnan(value) else value)
    assert seen == {"blank", 1.0, 0.0, -1.0}
    assert len({str(labels) for labels in ours}) > 3, "the texts make no difference"


def test_the_literal_reading_cuts_and_knows_pieces() -> None:
    assert len(published_ids("Edema. " * 20)) == POSITIONS
    pieces = [PIECES[i] for i in published_ids("Pneumothorax xyzzy.")]
    assert pieces == ["[CLS]", "pneumo", "##thorax", "[UNK]", ".", "[SEP]"]


def test_batches_of_mixed_lengths_are_as_one_by_one(folder, monkeypatch):
    labeller, differences = CheXbertLabeller(folder), set()
    for size in (1, 2, 3, 64):
        monkeypatch.setattr(chexbert, "BATCH", size)
        differences.add(str(labeller.label(REPORTS)))
    assert len(differences) == 1 and labeller.label([]) == []


def test_logits_do_not_depend_on_padding(folder: Path) -> None:
    network = CheXbertLabeller(folder)._network
    short, padded = torch.tensor([[2, 8, 3]]), torch.tensor([[2, 8, 3, 0, 0, 0]])
    alone = network(short, torch.ones_like(short))
    beside = network(padded, (padded != 0).long())
    for name in CONDITIONS:
        torch.testing.assert_close(beside[name], alone[name], rtol=1e-5, atol=1e-5)


def test_weights_and_vocabulary_are_found_where_they_lie(network, folder, tmp_path):
    labels = str(CheXbertLabeller(folder).label(REPORTS))
    assert str(CheXbertLabeller(folder / "chexbert.pth").label(REPORTS)) == labels
    save(tmp_path / "other.pth", network)
    with pytest.raises(InputError, match=r"vocab\.txt: not found; .*bert-base-uncased"):
        CheXbertLabeller(tmp_path / "other.pth")
    beside = tmp_path / "bert-base-uncased"
    beside.mkdir()
    (beside / "vocab.txt").write_text((folder / "vocab.txt").read_text())
    assert str(CheXbertLabeller(tmp_path / "other.pth").label(REPORTS)) == labels


def test_files_of_old_torch_and_old_transformers_are_read(network, folder, tmp_path):
    """Positions kept as a tensor, no ``module.``, and the file format before torch 1.6."""
    tensors = {name.removeprefix("module."): value for name, value in state(network).items()}
    tensors["bert.embeddings.position_ids"] = torch.arange(POSITIONS)[None]
    path = tmp_path / "chexbert.pth"
    torch.save({"model_state_dict": tensors}, path, _use_new_zipfile_serialization=False)
    shutil.copy(folder / "vocab.txt", tmp_path)
    labels = CheXbertLabeller(path).label(REPORTS)
    assert str(labels) == str(CheXbertLabeller(folder).label(REPORTS))


HEAD, BERT = "module.linear_heads.13.weight", "module.bert."
WORDS = "embeddings.word_embeddings.weight"
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no head": ({HEAD: None}, "'linear_heads.13.weight' is missing"),
    "another head": ({"module.linear_heads.14.bias": torch.zeros(4)}, "'linear_heads.14.bias'"),
    "other classes": ({HEAD: torch.zeros(4, 128)}, r"\(4, 128\), expected \(2, 128\)"),
    "a hole": ({f"{BERT}encoder.layer.1.output.dense.bias": None}, r"bias' is missing"),
    "no words": ({f"{BERT}{WORDS}": None}, rf"'bert\.{WORDS}' is missing"),
    "odd width": (
        {f"{BERT}{WORDS}": torch.zeros(len(PIECES), 100)},
        "width 100, expected a multiple of 64",
    ),
}


@pytest.mark.parametrize("damage", WRONG)
def test_wrong_tensors_are_named(network: Published, tmp_path: Path, damage: str) -> None:
    changes, said = WRONG[damage]
    save(tmp_path / "chexbert.pth", network, **changes)
    with pytest.raises(InputError, match=said) as caught:
        CheXbertLabeller(tmp_path)
    assert str(caught.value).startswith(str(tmp_path / "chexbert.pth"))
    assert "\n" not in str(caught.value)


class Harmful:
    """An object whose unpickling would run code."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return print, ("ran",)


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"abc", b"not weights", b"version https://git-lfs.github.com/spec/v1\nsize 4\n"),
        *({"epoch": 3}, {"model_state_dict": {"a": 1}}, [1], Harmful()),
        {"model_state_dict": {"a": torch.tensor([1.0, math.nan])}},
    ],
)
def test_files_that_are_no_weights_are_one_line(tmp_path, content, capsys):
    path = tmp_path / "chexbert.pth"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        torch.save(content, path)
    with pytest.raises(InputError) as caught:
        CheXbertLabeller(tmp_path)
    assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)
    assert "weights_only" not in str(caught.value)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("pieces", "said"),
    [(PIECES[:-1], "24 pieces, expected 25"), (["x", *PIECES[1:3], "y", *PIECES[4:]], r"\[SEP\]")],
)
def test_another_vocabulary_is_refused(folder, tmp_path, pieces, said):
    shutil.copy(folder / "chexbert.pth", tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(pieces) + "\n")
    with pytest.raises(InputError, match=said):
        CheXbertLabeller(tmp_path)


def test_missing_weights_are_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"chexbert\.pth: not found"):
        CheXbertLabeller(tmp_path)
