"""No Finding only where every word is accounted for; runs without stops; denied denials; scans."""

import math

import pytest
from labelled_texts import labels_of

from cxr_labels.characters import normal_text, normalised
from cxr_labels.label_texts import label
from cxr_labels.rules import read_rules
from cxr_labels.scope.accounting import unread
from cxr_labels.scope.labeller import ScopeLabeller
from cxr_labels.scope.misread import unconfused

FILLER = read_rules("scope/harmless")["filler"]


@pytest.mark.parametrize(
    ("sentence", "left"),
    [
        ("The lungs are clear and the heart is normal in size.", []),
        ("Pneumatosis along the left flank.", ["Pneumatosis"]),
        ("No pneumatosis or effusion.", []),
        ("No effusion pneumatosis.", ["pneumatosis"]),
        ("No effusion, pneumatosis.", ["pneumatosis"]),
        ("No effusion, pneumatosis or edema.", []),
        ("No acute osseous abnormality.", []),
        ("Osseous abnormality.", ["abnormality"]),
        ("No metastatic disease.", []),
        ("The markings are enlarged.", ["enlarged"]),
        ("The heart is enlarged.", []),
        ("The esophagogram is unremarkable.", []),
        ("Zzyx are not seen.", []),
        ("Discussed with Dr. Quillfeather at noon.", []),
        ("Seen by Quillfeather.", ["Quillfeather"]),
        ("Moderate pericardial effusion.", ["effusion"]),
        ("Unremarkabel expansoin.", []),
        ("Vap at the righ base with clott.", ["clott"]),
        ("Film of 12 May, XXXX, ___, 3.5 cm.", []),
    ],
)
def test_unread_words_of_a_sentence(sentence: str, left: list[str]) -> None:
    assert [word.word for word in unread(sentence)] == left


def test_spans_of_unread_words() -> None:
    sentence = "Clear lungs; oesophagogramme pending, florble."
    for word in unread(sentence):
        assert sentence[word.start : word.end] == word.word
    assert unread(sentence)[-1].word == "florble"


def test_no_finding_is_withheld_and_counted_for_unread_words_alone() -> None:
    table = label(["No effusion. Florble, blarg.", "Edema. Florble.", "No effusion.", "Pending."])
    assert table["No Finding"].map(math.isnan).tolist() == [True, True, False, True]
    assert table["unread"].tolist() == [2, 0, 0, 0]
    found = ScopeLabeller().unread(["No effusion.", "Florble, blarg."])
    assert [(number, word.word) for number, word in found] == [(1, "Florble"), (1, "blarg")]
    assert ScopeLabeller().unread(["Edema.", "Florble."]) == []


def test_no_word_of_a_finding_is_harmless() -> None:
    """What makes a label by itself, positive and alone, must not pass as filler."""
    labeller = ScopeLabeller()
    filler = {word for name, row in FILLER.items() if name != "devices" for word in row.split()}
    positive = {w for w in filler if any(r.is_finding for r in labeller.explain([w]))}
    assert positive <= {"cavity", "cavities", "cm"}, positive  # of the chest; a unit


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no edema the right lung is consolidated", {"Edema": 0, "Consolidation": 1}),
        ("no fracture there is a left effusion", {"Fracture": 0, "Pleural Effusion": 1}),
        ("no consolidation heart is enlarged", {"Consolidation": 0, "Cardiomegaly": 1}),
        (
            "no effusion right chest tube in place",
            {"Pleural Effusion": 0, "Support Devices": 1, "No Finding": 1},
        ),
        ("without edema the picc has kinked", {"Edema": 0, "Support Devices": 1, "No Finding": 1}),
        ("no edema mild atelectasis", {"Edema": 0, "Atelectasis": 1}),
        (
            "no effusion or fracture is seen",
            {"Pleural Effusion": 0, "Fracture": 0, "No Finding": 1},
        ),
        # A comma was lost: nobody denies the small ones.
        ("no fracture large effusion", {"Fracture": 0, "Pleural Effusion": 0, "No Finding": 1}),
        ("the edema of last week is no longer present", {"Edema": 0, "No Finding": 1}),
        ("no loosening of the hardware", {"Support Devices": 0, "No Finding": 1}),
    ],
)
def test_a_negation_ends_where_a_statement_begins(text: str, expected: dict[str, int]) -> None:
    assert labels_of(text)[0] == expected


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("The consolidation has in no way cleared.", "Consolidation", 1),
        ("The edema is nowhere near resolved.", "Edema", 1),
        ("The effusion is anything but gone.", "Pleural Effusion", 1),
        ("The pneumonia has yet to clear.", "Pneumonia", 1),
        ("Resolution of the pneumothorax is far from complete.", "Pneumothorax", 1),
        ("Absence of a fracture cannot be guaranteed.", "Fracture", -1),
        ("The absence of an effusion is unproven.", "Pleural Effusion", -1),
        ("I am not able to state that there is no pneumonia.", "Pneumonia", -1),
        ("We cannot be certain there is no edema.", "Edema", -1),
        ("There is no guarantee that there is no pneumothorax.", "Pneumothorax", -1),
        ("Neither larger nor smaller: right effusion.", "Pleural Effusion", 1),
        ("No better, no worse: edema.", "Edema", 1),
        ("The heart is by no means normal.", "Cardiomegaly", 1),
        ("The heart is by no means enlarged.", "Cardiomegaly", 0),
        # What is really gone stays gone.
        ("The effusion has resolved.", "Pleural Effusion", 0),
        ("Absence of pneumothorax.", "Pneumothorax", 0),
    ],
)
def test_a_denied_denial(text: str, name: str, value: int) -> None:
    labels, _ = labels_of(text)
    assert labels.get(name) == value
    assert ("No Finding" in labels) == (value == 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Sev CM.", {"Cardiomegaly": 1}),
        ("Tip 2 cm above, a few cm below. No CM.", {"Cardiomegaly": 0, "No Finding": 1}),
        ("Card sil: mod enlarged.", {"Cardiomegaly": 1}),
        ("Cardiac: enlarged.", {"Cardiomegaly": 1}),
        ("Cardiac: enlarged hila.", {}),
        ("VAP, LLL atx, opacs.", {"Pneumonia": 1, "Atelectasis": 1, "Lung Opacity": 1}),
        ("UVC and UAC in place.", {"Support Devices": 1, "No Finding": 1}),
        ("Rib #.", {"Fracture": 1}),
        ("Opacities are nipple shadows.", {"No Finding": 1}),
        ("The nodule is due to overlapping vessels.", {"No Finding": 1}),
        ("Nodules may be nipple shadows.", {"Lung Lesion": -1}),
    ],
)
def test_abbreviations_and_shadows_of_nothing(text: str, expected: dict[str, int]) -> None:
    read, _ = labels_of(text)
    assert {name: value for name, value in read.items() if name in expected} == expected
    assert set(read) - set(expected) <= {"Support Devices"}


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        ("N0 p1eura| effusi0n", "No pleural effusion"),
        ("L0WER L0BE |NFILTRATE", "LOWER LOBE INFILTRATE"),
        ("atelectas1s 0f the 1eft lung!", "atelectasis of the left lung!"),
        ("T1, L1, S1 and C5; 1st, 10th; 10am; 1cm, 5mm", None),
        ("T1N0M0, SpO2 91, H1N1", None),
    ],
)
def test_digits_and_bars_in_words_are_mended(text: str, mended: str | None) -> None:
    assert normalised(text) == (mended or text)
    normal = normal_text(text)
    assert [normal.origin(i) for i in range(len(text))] == list(range(len(text)))


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("ederna", "edema"),
        ("pneurnothorax", "pneumothorax"),
        ("lj", "ij"),
        ("m", "m"),
        ("florn", "florn"),
    ],
)
def test_letters_that_look_alike(word: str, meant: str) -> None:
    assert unconfused(word) == meant
