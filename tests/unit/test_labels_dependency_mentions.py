"""Cleaning with places, and the published phrases."""

import pytest

from cxrflow.errors import InputError
from cxrflow.reports.labels.dependency.mentions import (
    clean,
    find_mentions,
    published,
    read_phrases,
    unmentions,
)


@pytest.mark.parametrize(
    ("given", "cleaned"),
    [
        ("No effusion.", "No effusion."),
        ("Effusion and/or edema.", "Effusion or edema."),
        ("Edema AND/OR effusion", "Edema or effusion"),
        ("Atelectasis/pneumonia/edema.", "Atelectasis or pneumonia or edema."),
        ("On 1/2/2010.", "On 1/2/2010."),
        ("Edema..", "Edema."),
        ("Edema. . .", "Edema."),
        ("Edema..No effusion", "Edema. No effusion"),
        ("Edema,effusion.Fracture", "Edema, effusion. Fracture"),
        ("A 2.5 cm mass.", "A 2.5 cm mass."),
        ("  The  heart\n is\tlarge ", "The heart is large"),
        ("", ""),
        (" ", ""),
    ],
)
def test_clean(given: str, cleaned: str) -> None:
    result = clean(given)
    assert result.text == cleaned
    assert len(result.places) == len(cleaned)
    assert list(result.places) == sorted(result.places)


def test_places_lead_back_to_the_given_sentence() -> None:
    given = "  Edema and/or  atelectasis/effusion.."
    cleaned = clean(given)
    for word in ("Edema", "or", "atelectasis", "effusion"):
        start = cleaned.text.index(word)
        first, last = cleaned.given(start, start + len(word))
        assert given[first:last] == word
    at = cleaned.text.index(" or effusion") + 1
    first, last = cleaned.given(at, at + 2)
    assert given[first:last] == "/"


def seen(text: str) -> list[tuple[str, str]]:
    return [(m.observation, text[m.start : m.end]) for m in find_mentions(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The lungs are well inflated", []),
        ("SMALL EFFUSION", [("Pleural Effusion", "EFFUSION")]),
        ("The heart is large", [("Cardiomegaly", "The heart")]),
        ("Enlarged heart", [("Cardiomegaly", "Enlarged heart")]),
        # Phrases have no word boundaries, an underscore is a blank.
        ("Incidental coils", [("Support Devices", "coil")]),
        ("A line in place", [("Support Devices", " line ")]),
        ("Aligned ribs", []),
        ("Widened mediastinum", [("Enlarged Cardiomediastinum", " mediastinum")]),
        ("Mediastinum is wide", []),
        # Unmentions bar what they overlap, in their own observation only.
        ("Pericardial effusion", []),
        ("Massive effusion", [("Pleural Effusion", "effusion")]),
        ("Massive mass", [("Lung Lesion", "mass")]),
        (
            "Calcified nodule and a nodule",
            [("Other finding", "Calcifi"), ("Lung Lesion", "nodule")],
        ),
        ("Pleural scar", [("Pleural Other", "Pleural scar")]),
        ("Opacity over the heart", [("Lung Opacity", "Opaci")]),
        ("Tip in the right cardiac silhouette", []),
        ("Clip overly the left cardiac contour", [("Enlarged Cardiomediastinum", "contour")]),
        # "_mediastinum" barred reads "in the  mediastinum": never true of a cleaned sentence.
        ("Tip in the superior mediastinum", [("Enlarged Cardiomediastinum", " mediastinum")]),
        ("Over the cardiomegaly", [("Cardiomegaly", "cardiomegaly")]),
        # The list for No Finding is no observation of its own.
        ("Hiatal hernia", [("Other finding", "hernia")]),
        (
            "ICD and defibrillator",
            [("Support Devices", "ICD"), ("Other finding", "defib"), ("Support Devices", "defib")],
        ),
        # Overlapping phrases count each.
        ("infectious process", [("Pneumonia", "infectious"), ("Pneumonia", "infectious process")]),
    ],
)
def test_mentions(text: str, expected: list[tuple[str, str]]) -> None:
    assert seen(text) == expected


def test_phrases_of_place_are_made_as_published() -> None:
    barred = unmentions()
    assert len(barred["Cardiomegaly"]) == 12 * 7
    assert len(barred["Enlarged Cardiomediastinum"]) == 12 * 7
    assert "over the left heart" in barred["Cardiomegaly"]
    assert "in the enlarged heart" in barred["Cardiomegaly"]
    assert "overly the right heart size" in barred["Cardiomegaly"]
    assert "over the  mediastinum" in barred["Enlarged Cardiomediastinum"]
    assert barred["Pleural Effusion"] == ["pericardial effusion"]


@pytest.mark.parametrize(
    ("name", "count"),
    {
        "no_finding": 53,
        "support_devices": 23,
        "lung_opacity": 18,
        "lung_lesion": 12,
        "cardiomegaly": 9,
        "edema": 7,
        "enlarged_cardiomediastinum": 7,
        "pleural_other": 7,
        "pneumonia": 4,
        "atelectasis": 2,
        "pleural_effusion": 2,
        "pneumothorax": 2,
        "consolidation": 1,
        "fracture": 1,
    }.items(),
)
def test_published_phrases(name: str, count: int) -> None:
    text = published("phrases", "mention", f"{name}.txt").read_text("utf-8")
    assert len(read_phrases(name, text)) == count


def test_blank_line_is_no_phrase_and_bad_phrase_names_its_line() -> None:
    assert read_phrases("x.txt", "edema\n\n  \nchf\n") == ["edema", "chf"]
    with pytest.raises(InputError, match=r"x.txt: line 2: '\(' "):
        read_phrases("x.txt", "edema\n(\n")
