"""The rule splitter on hand-written text."""

import time

import pytest
from labelled_texts import seconds_of

from cxr_labels.scope.labeller import ScopeLabeller
from cxr_labels.sentences import RuleSplitter, clean_sentence

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
    ("No effusion.the heart is normal.", ["No effusion.", "the heart is normal."]),
    ("No effusion..The heart is normal.", ["No effusion..", "The heart is normal."]),
    ("No effusion..edema", ["No effusion..", "edema"]),
    ("EFFUSION.NO EDEMA.", ["EFFUSION.", "NO EDEMA."]),
    ("Fracture of T12.No edema.", ["Fracture of T12.", "No edema."]),
    ("No effusion . The heart is normal.", ["No effusion .", "The heart is normal."]),
    ("No effusion .The heart is normal.", ["No effusion .", "The heart is normal."]),
    ("No effusion .. The heart is normal.", ["No effusion ..", "The heart is normal."]),
    ("The heart ... is normal.", ["The heart ... is normal."]),
    ("Nodule of .5 cm at the base.", ["Nodule of .5 cm at the base."]),
    ("Atelectasis vs.pneumonia, e.g.at the base.", ["Atelectasis vs.pneumonia, e.g.at the base."]),
    ("Seen by dr.smith at 3 p.m.today.", ["Seen by dr.smith at 3 p.m.today."]),
    ("Clear. 2.No effusion.", ["Clear.", "No effusion."]),
    ("No effusion,no edema and/or mass/nodule.", ["No effusion,no edema and/or mass/nodule."]),
    ("½ of the lung. ½.", ["½ of the lung."]),
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
    ("sentence", "labels"),
    [
        ("No effusion..edema is seen.", {"Pleural Effusion": 0, "Edema": 1}),
        ("No effusion.edema is seen.", {"Pleural Effusion": 0, "Edema": 1}),
        ("There is edema .No effusion.", {"Pleural Effusion": 0, "Edema": 1}),
        ("Small effusion,no pneumothorax.", {"Pleural Effusion": 1, "Pneumothorax": 0}),
        ("No effusion,mild edema.", {"Pleural Effusion": 0, "Edema": 1}),
        ("Atelectasis and/or pneumonia.", {"Atelectasis": -1, "Pneumonia": -1}),
        ("No effusion and/or edema.", {"Pleural Effusion": 0, "Edema": 0}),
        ("Atelectasis/pneumonia.", {"Atelectasis": -1, "Pneumonia": -1}),
        ("No effusion.\n Edema\n is seen.", {"Pleural Effusion": 0, "Edema": 1}),
    ],
)
def test_marks_without_blanks_are_read_as_the_published_labeller_reads_them(sentence, labels):
    reasons = ScopeLabeller().explain(RuleSplitter().split_one(sentence))
    assert {reason.observation: reason.value for reason in reasons} == labels


def split(text: str) -> list[list[str]]:
    return RuleSplitter().split([text])


@pytest.mark.parametrize(
    "unit",
    [
        *(".", "a", " ", "(", "()", "\x01", "_", "A:", "\n", "\n \t", "\n(1", '."'),
        *("1. ", "1.", "- ", "1) ", "\n - ", "a. ", "no. ", ". . ", "aa.", "x..", "dr. "),
    ],
)
def test_twice_the_text_takes_twice_the_time(unit: str) -> None:
    short, long = (unit * (length // len(unit)) for length in (500_000, 1_000_000))
    assert seconds_of(split, long) < 3 * seconds_of(split, short) + 0.3


def test_line_of_ten_megabytes() -> None:
    started = time.process_time()
    text = "Heart (size " * 800_000
    assert RuleSplitter().split([text]) == [[text.strip()]]
    assert time.process_time() - started < 5
