"""The rule splitter on hand-written text."""

import time

import pytest

from cxrflow.reports.sentences import RuleSplitter, clean_sentence

CASES: list[tuple[str, list[str]]] = [
    ("No effusion.", ["No effusion."]),
    ("No effusion", ["No effusion"]),
    ("No effusion. Heart is normal.", ["No effusion.", "Heart is normal."]),
    ("No effusion.  Heart is normal.", ["No effusion.", "Heart is normal."]),
    ("no effusion. heart is normal.", ["no effusion.", "heart is normal."]),
    ("The heart\n size is\n normal.", ["The heart size is normal."]),
    ("First line\n \n second paragraph", ["First line", "second paragraph"]),
    ("First line\n\nsecond paragraph", ["First line", "second paragraph"]),
    ("1. Clear lungs.\n 2. No effusion.", ["Clear lungs.", "No effusion."]),
    (" 1.  Clear lungs\n 2.  No effusion", ["Clear lungs", "No effusion"]),
    ("1. Clear lungs. 2. No effusion.", ["Clear lungs.", "No effusion."]),
    ("1) Clear lungs.\n2) No effusion.", ["Clear lungs.", "No effusion."]),
    ("(1) Clear lungs.\n(2) No effusion.", ["Clear lungs.", "No effusion."]),
    ("- Clear lungs\n- No effusion", ["Clear lungs", "No effusion"]),
    ("* Clear lungs\n* No effusion", ["Clear lungs", "No effusion"]),
    ("1.Clear lungs.", ["Clear lungs."]),
    ("1. Wrapped item\n goes on here.\n 2. Next.", ["Wrapped item goes on here.", "Next."]),
    ("A 2.5 cm nodule is seen.", ["A 2.5 cm nodule is seen."]),
    ("Nodule of 3 cm. in the apex.", ["Nodule of 3 cm. in the apex."]),
    ("Nodule of 3 cm. The heart is normal.", ["Nodule of 3 cm.", "The heart is normal."]),
    ("Discussed with Dr. ___ by phone.", ["Discussed with Dr. ___ by phone."]),
    ("Discussed with Dr. Smith. No edema.", ["Discussed with Dr. Smith.", "No edema."]),
    ("Seen by Dr. J. Smith.", ["Seen by Dr. J. Smith."]),
    ("Atelectasis vs. pneumonia.", ["Atelectasis vs. pneumonia."]),
    ("Atelectasis, e.g. at the base.", ["Atelectasis, e.g. at the base."]),
    ("At 10:00 a.m. on ___ by phone.", ["At 10:00 a.m. on ___ by phone."]),
    ("At 3:15 p.m. No change.", ["At 3:15 p.m.", "No change."]),
    ("Compared with ___. No change.", ["Compared with ___.", "No change."]),
    ("Compared with ___.No change.", ["Compared with ___.", "No change."]),
    ("No effusion.The heart is normal.", ["No effusion.", "The heart is normal."]),
    ("No effusion . The heart is normal.", ["No effusion .", "The heart is normal."]),
    ("Is this pneumonia? Unlikely!", ["Is this pneumonia?", "Unlikely!"]),
    ("? pneumonia at the base.", ["? pneumonia at the base."]),
    ("Stable... No change.", ["Stable...", "No change."]),
    ('He said "clear." No edema.', ['He said "clear."', "No edema."]),
    ("(No effusion.) Clear.", ["(No effusion.)", "Clear."]),
    ("Fracture of T12. No edema.", ["Fracture of T12.", "No edema."]),
    ("Lead ends at level 3. No edema.", ["Lead ends at level 3.", "No edema."]),
    ("Vertebra No. 3 is broken.", ["Vertebra No. 3 is broken."]),
    ("Effusion: No. Edema: No.", ["Effusion: No.", "Edema: No."]),
    ("XXXX. No edema.", ["XXXX.", "No edema."]),
    ("St. Jude valve.", ["St. Jude valve."]),
    ("", []),
    (" \n \n ___ \n 12. \n", []),
    ("No edema;\r\n no effusion.", ["No edema; no effusion."]),
]


@pytest.mark.parametrize(("text", "sentences"), CASES)
def test_rule_splitter(text: str, sentences: list[str]) -> None:
    assert RuleSplitter().split([text]) == [sentences]


def test_several_texts_keep_their_order() -> None:
    assert RuleSplitter().split(["A b. C d.", "", "E f."]) == [["A b.", "C d."], [], ["E f."]]


def test_cleaning_takes_list_marks_and_blanks_off() -> None:
    assert clean_sentence(" 1.  2) Clear\n lungs. ") == "Clear lungs."
    assert clean_sentence("___ 12 .") == ""


@pytest.mark.parametrize(
    "text",
    [
        *("." * 2_000_000, "a" * 10_000_000, " " * 2_000_000),
        *("1. " * 200_000, "\n \t" * 500_000, "a. " * 100_000),
    ],
    ids=["stops", "letters", "blanks", "list marks", "lines", "short sentences"],
)
def test_strange_text_takes_linear_time(text: str) -> None:
    started = time.process_time()
    RuleSplitter().split([text])
    assert time.process_time() - started < 8
