"""The synthetic PubMed, MIMIC-III notes and splitter reports have the published layouts."""

import gzip
import hashlib
import json
import re
import xml.etree.ElementTree as ElementTree
from datetime import datetime
from pathlib import Path

import pandas as pd
from phantom_fixtures import SETTINGS

from cxrflow.phantom.writers.stanza_text import label_sentence


def _records(path: Path) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(gzip.decompress(path.read_bytes())))


def test_pubmed(written: Path) -> None:
    base = written / "pubmed"
    files = sorted(base.glob("pubmed26n*.xml.gz"))
    for path in files:
        checksum = Path(f"{path}.md5").read_text()
        digest = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
        assert checksum == f"MD5({path.name})= {digest}\n"
    first, update = _records(files[0]), _records(files[-1])
    pmids = [record.findtext("MedlineCitation/PMID") for record in first]
    assert len(set(pmids)) == len(pmids) == SETTINGS.abstracts
    deleted = [pmid.text for record in update if record.tag == "DeleteCitation" for pmid in record]
    revised = [record.findtext("MedlineCitation/PMID") for record in update[:-1]]
    assert deleted and set(deleted) <= set(pmids)
    assert revised and set(revised) <= set(pmids) and not set(revised) & set(deleted)
    articles = [record.find("MedlineCitation/Article") for record in first]
    texts = [article.findall("Abstract/AbstractText") for article in articles]
    assert any(not parts for parts in texts)
    assert any(len(parts) > 1 and parts[0].get("Label") == "BACKGROUND" for parts in texts)
    assert any(part.find("sub") is not None for parts in texts for part in parts)
    languages = {article.findtext("Language") for article in articles}
    assert "eng" in languages and len(languages) > 1
    words = {
        word
        for parts in texts
        for part in parts
        for word in re.findall("[a-z]+", "".join(part.itertext()).lower())
    }
    assert len(words) > 1500


def test_mimic_iii(written: Path) -> None:
    path = written / "mimic_iii" / "NOTEEVENTS.csv.gz"
    notes = pd.read_csv(path, dtype={"ISERROR": str})
    assert list(notes) == [
        *("ROW_ID", "SUBJECT_ID", "HADM_ID", "CHARTDATE", "CHARTTIME", "STORETIME"),
        *("CATEGORY", "DESCRIPTION", "CGID", "ISERROR", "TEXT"),
    ]
    assert len(notes) == SETTINGS.notes and notes.TEXT.notna().all()
    assert notes.TEXT.str.contains("\n").mean() > 0.5
    assert notes.TEXT.str.contains('"').any()
    assert notes.TEXT.str.contains(r"\[\*\*").any()
    assert (notes.CATEGORY == "Physician ").any()
    assert set(notes.ISERROR.dropna()) == {"1"}
    summaries = notes[notes.CATEGORY == "Discharge summary"]
    assert summaries.CHARTTIME.isna().all()
    datetime.fromisoformat(notes.CHARTDATE[0])
    raw = gzip.decompress(path.read_bytes()).decode()
    assert '""' in raw and raw.startswith('"ROW_ID","SUBJECT_ID"')


def test_sentence_labels() -> None:
    text = "1. No 2.5 cm mass, per Dr. ___."
    labels = label_sentence(text)
    ends = [i for i, digit in enumerate(labels) if digit != "0"]
    starts = [0, *(end + 1 for end in ends)]
    tokens = [text[a : b + 1].strip() for a, b in zip(starts, ends, strict=False)]
    assert tokens == ["1.", "No", "2.5", "cm", "mass", ",", "per", "Dr.", "___", "."]
    assert labels[-1] == "2" and labels.count("2") == 1


def test_stanza_text_is_aligned(written: Path) -> None:
    base = written / "stanza_text"
    for part in ("train", "dev"):
        text = (base / f"{part}.txt").read_text()
        labels = (base / f"{part}.toklabels").read_text()
        assert len(text) == len(labels)
        assert set(labels) <= set("012\n")
        assert [i for i, c in enumerate(text) if c == "\n"] == [
            i for i, c in enumerate(labels) if c == "\n"
        ]
        sentences = sum(labels.count(digit) for digit in "2")
        counts = json.loads((base / "MANIFEST.json").read_text())["counts"]
        assert sentences == counts[f"{part}_sentences"] > 5
    assert "___" in (base / "train.txt").read_text()
