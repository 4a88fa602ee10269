"""The normal form of texts: line breaks, characters, broken words, and places in the original."""

import time
from pathlib import Path

import pandas as pd
import pytest
from labelled_texts import label_rows

from cxr_labels.characters import normal_text, normalised


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Plain text, 5 < 6 & more -\n as it is.", "Plain text, 5 < 6 & more -\n as it is."),
        ("Eﬀusion, conﬂuent inﬁltrate", "Effusion, confluent infiltrate"),
        ("pneumo\u00adthorax, con\u200bsolidation\ufeff", "pneumothorax, consolidation"),
        (
            "cardio-\nmegaly, right-\n sided, effu\u00ad\nsion",
            "cardiomegaly, right-sided, effusion",
        ),
        ("a<br/>b</p><p>c<b>d</b> &lt;&nbsp;<DATE>", "a\nb\n\ncd < <DATE>"),
        ("a\\nb\\r\\nc", "a\nb\nc"),
        ("a\r\nb\rc\u2028d\x85e", "a\nb\nc\nd\ne"),
        ("isn’t “so” – it—is ☑ ☐", 'isn\'t "so" - it-is [x] [ ]'),
        ("Ｎｏ：", "No:"),
        ("{\\rtf1\\ansi{\\fonttbl{\\f0 Arial;}}\\f0 No.\\par Caf\\'e9\\par}", "No.\nCafé\n"),
        ("MSH|^~\\&|X\nOBX|1|TX|C||No.~Yes \\T\\ so.||F\n", "No.\nYes & so.\n"),
    ],
)
def test_normal_form(text: str, expected: str) -> None:
    normal = normal_text(text)
    assert normal.text == expected == normalised(normal.text)
    places = [normal.origin(i) for i in range(len(normal.text) + 1)]
    assert places[-1] == len(text) or normal.origins is None
    for place, character in zip(places, normal.text, strict=False):
        if character.isascii() and character.isalpha() and "\\" not in text:
            assert text[place] == character or not text[place].isascii() or text[place] in "&"


@pytest.mark.parametrize("start", ["<!--", "{\\rtf {\\*", "a-\n", "&a", "<p "])
def test_hostile_text_takes_little_time(start: str) -> None:
    started = time.process_time()
    normalised(start * (160_000 // len(start)))
    assert time.process_time() - started < 5


def test_reasons_lead_back_to_the_report_as_it_was_given() -> None:
    text = "Indication:\u00a0?pneumonia\r\nFINDINGS: Small pleural eﬀusion,<br/>no pneumo-\nthorax."
    rows = label_rows(text, reasons=True).reasons
    places = {row[7]: text[row[5] : row[6]] for row in rows if row[7]}
    assert places == {"Pleural Effusion": "eﬀusion", "Pneumothorax": "pneumo-\nthorax"}
    sections = {row[1]: (row[9], text[row[5] : row[6]]) for row in rows if not row[7]}
    assert sections["indication"] == ("section left out", "?pneumonia")
    assert sections["findings"][1].startswith("Small pleural")


def test_documents_of_a_text_corpus_are_in_normal_form(tmp_path: Path) -> None:
    from cxrflow.text.documents import DocumentWriter

    with DocumentWriter(tmp_path / "documents.parquet") as writer:
        writer.add("0", "No eﬀusion")
    assert pd.read_parquet(tmp_path / "documents.parquet")["text"].tolist() == ["No effusion"]
