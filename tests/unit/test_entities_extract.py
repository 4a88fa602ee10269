"""Entity extraction over a corpus with a tagger of two words: tables, counts, refusals."""

import json
from pathlib import Path

import pandas as pd
import pytest

from cxrflow.errors import InputError
from cxrflow.reports.entities import extract as module
from cxrflow.reports.entities.extract import extract
from cxrflow.reports.entities.settings import EntitySettings
from cxrflow.reports.entities.taggers import Entity

SENTENCES = [
    ("s1", "findings", 0, "New edema."),
    ("s1", "findings", 1, "Heart is normal."),
    ("s1", "impression", 0, "New edema."),
    ("s2", "impression", 0, "Nothing."),
    ("s3", "impression", 0, "Edema, Edema."),
]
ROWS = [
    ("s1", "findings", 0, 0, 3, "OBSERVATION_MODIFIER", "New", True),
    ("s1", "findings", 0, 4, 9, "OBSERVATION", "edema", False),
    ("s1", "impression", 0, 0, 3, "OBSERVATION_MODIFIER", "New", True),
    ("s1", "impression", 0, 4, 9, "OBSERVATION", "edema", False),
    ("s3", "impression", 0, 0, 5, "OBSERVATION", "Edema", False),
    ("s3", "impression", 0, 7, 12, "OBSERVATION", "Edema", False),
]


class TwoWords:
    """Stands for stanza's tagger; remembers what it was given."""

    asked: list[list[str]] = []

    def __init__(self, *_: object) -> None:
        TwoWords.asked = []

    def tag(self, texts):
        TwoWords.asked.append(list(texts))
        return [self._tag(text) for text in texts]

    def _tag(self, text: str) -> list[Entity]:
        found = []
        for word, kind in (("new", "OBSERVATION_MODIFIER"), ("edema", "OBSERVATION")):
            start = text.lower().find(word)
            while start >= 0:
                end = start + len(word)
                found.append(Entity(text[start:end], kind, start, end, 1))
                start = text.lower().find(word, end)
        return found


def write_corpus(folder: Path, sentences: list[tuple[str, str, int, str]]) -> Path:
    folder.mkdir()
    names = ["study_id", "section", "index", "sentence"]
    pd.DataFrame(sentences, columns=names).astype({"index": "int32"}).to_parquet(
        folder / "sentences.parquet"
    )
    (folder / "corpus.json").write_text('{"synthetic": true, "fingerprint": "f00d"}')
    return folder


@pytest.fixture
def stanza(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "StanzaTagger", TwoWords)
    model = tmp_path / "stanza" / "en" / "ner" / "radiology.pt"
    model.parent.mkdir(parents=True)
    model.write_bytes(b"")
    return tmp_path / "stanza"


@pytest.mark.parametrize("chunk", [1, 2, 3, 100])
def test_tables_and_counts(tmp_path: Path, stanza: Path, chunk: int) -> None:
    corpus, output = write_corpus(tmp_path / "corpus", SENTENCES), tmp_path / "out.parquet"
    summary = extract(corpus, stanza, output, EntitySettings(chunk=chunk))
    table = pd.read_parquet(output)
    assert list(table.itertuples(index=False, name=None)) == ROWS
    assert sum(TwoWords.asked, []) == [
        "New edema.",
        "Heart is normal.",
        "Nothing.",
        "Edema, Edema.",
    ]
    assert all(len(asked) <= chunk for asked in TwoWords.asked)
    assert summary == json.loads(output.with_suffix(".json").read_text())
    assert summary["entities"] == {"OBSERVATION": 4, "OBSERVATION_MODIFIER": 2}
    assert summary["temporal"] == {"entities": 2, "studies": 1, "words": {"new": 2}}
    assert (summary["sentences"], summary["different_sentences"], summary["studies"]) == (5, 4, 2)
    assert (summary["corpus"], summary["synthetic"]) == ("f00d", True)


def test_a_corpus_without_entities(tmp_path: Path, stanza: Path) -> None:
    for name, sentences in (("none", []), ("some", SENTENCES[3:4])):
        corpus = write_corpus(tmp_path / name, sentences)
        summary = extract(corpus, stanza, tmp_path / f"{name}.parquet", EntitySettings())
        table = pd.read_parquet(tmp_path / f"{name}.parquet")
        assert len(table) == 0 and list(table) == list(module.SCHEMA.names)
        assert summary["entities"] == {} and summary["temporal"]["entities"] == 0


def test_bad_corpora_are_one_line(tmp_path: Path, stanza: Path) -> None:
    with pytest.raises(InputError, match="corpus.json: file not found"):
        extract(tmp_path, stanza, tmp_path / "out.parquet", EntitySettings())
    corpus = write_corpus(tmp_path / "corpus", SENTENCES)
    pd.DataFrame({"study_id": ["s1"]}).to_parquet(corpus / "sentences.parquet")
    with pytest.raises(InputError, match="sentences.parquet: column 'section' is missing"):
        extract(corpus, stanza, tmp_path / "out.parquet", EntitySettings())
    assert not (tmp_path / "out.parquet").exists()
