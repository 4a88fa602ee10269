"""Sections by MIMIC-CXR's conventions, and against a second writing of its rules; special cases."""

import random
import time
from collections import Counter
from pathlib import Path

import pytest
from labelled_texts import seconds_of

from cxr_files.errors import InputError
from cxr_labels.sections import (
    ParsedReport,
    SpecialCase,
    labelled_report,
    parse_report,
    section_name,
    special_cases,
    split_sections,
)
from cxr_labels.settings import SectionSettings
from cxr_labels.spelling import Speller, one_slip_apart
from cxr_labels.typos import TypoList, read_typo_list

SETTINGS = SectionSettings()
PUBLISHED = SectionSettings(as_published=True)
FULL = """                                 FINAL REPORT
 EXAMINATION:  CHEST (PORTABLE AP)
 
 INDICATION:  ___ year old with fever.  // eval for pneumonia
 
 COMPARISON:  Chest radiograph ___
 
 FINDINGS: 
 
 The right base is hazier than before.  Heart size
 is stable.
 
 IMPRESSION: 
 
 1. Worsening right basilar opacity.
 2. No pneumothorax.
"""


def test_full_report_has_its_sections_and_conclusion() -> None:
    report = parse_report(FULL, SETTINGS)
    names = ("preamble", "examination", "indication", "comparison", "findings", "impression")
    assert tuple(report.sections) == names
    assert report.sections["examination"] == "CHEST (PORTABLE AP)"
    assert report.sections["findings"].startswith("The right base")
    assert report.conclusion == " 1. Worsening right basilar opacity.\n 2. No pneumothorax.".strip()
    assert report.conclusion_from == "impression"
    assert report.outcome == "findings and impression"


@pytest.mark.parametrize(
    ("heading", "name"),
    [
        ("MPRESSION", "impression"),
        ("FINAL IMPRESSION", "impression"),
        ("FINDINDGS", "findings"),
        ("CHEST, TWO VIEWS", "findings"),
        ("PORTABLE AP VIEW OF THE ABDOMEN", "findings"),
        ("PA AND LATERAL CHEST", "findings"),
        ("FRONTAL UPRIGHT", "findings"),
        ("RIBS", "findings"),
        ("FINAL REPORT AND FINDINGS", "findings"),
        ("COMPARISIONS", "comparison"),
        ("REFERENCE EXAM", "comparison"),
        ("IDICATION", "indication"),
        ("NDICATION", "indication"),
        ("CLINICAL INFORMATION", "history"),
        ("PAST HISTORY", "history"),
        ("TYPE OF EXAMINATION", "examination"),
        ("WETREAD", "wet_read"),
        ("COMPRESSION", "compression"),
        ("LINES", "lines"),
    ],
)
def test_headings_are_normalised(heading: str, name: str) -> None:
    assert section_name(heading) == name


@pytest.mark.parametrize(
    ("heading", "published", "nearest"),
    [
        ("IMPRESSOIN", "impression", "impression"),
        ("COINCLUSION", "coinclusion", "impression"),
        ("TECHNIQE", "techniqe", "technique"),
        ("WET REED", "wet reed", "wet_read"),
        ("AP AND LAT", "ap and lat", "ap and lat"),
        # Known words in a heading come before its distance from a whole one.
        ("FINDINGS/IMPRESION", "findings", "findings"),
        ("COMMENTARY", "commentary", "commentary"),
    ],
)
def test_heading_spelling_is_a_setting(heading: str, published: str, nearest: str) -> None:
    assert section_name(heading, as_published=True) == published
    assert section_name(heading) == nearest
    text = f"\n {heading}: Text.\n"
    assert [s.name for s in split_sections(text, PUBLISHED)] == ["preamble", published]
    assert [s.name for s in split_sections(text, SETTINGS)] == ["preamble", nearest]


def test_published_slips_can_be_repeated() -> None:
    text = "\n NDICATION: Cough.\n"
    assert parse_report(text, SETTINGS).sections["indication"] == "Cough."
    assert parse_report(text, SETTINGS).conclusion == ""
    assert parse_report(text, PUBLISHED).conclusion == "Cough."

    text = "\n COMPARISON: None. Clear lungs.\n \n TECHNIQUE: AP.\n \n"
    assert parse_report(text, SETTINGS).conclusion == "None. Clear lungs."
    assert parse_report(text, PUBLISHED).conclusion_from == "last_paragraph"
    assert parse_report(text, PUBLISHED).outcome == "no usable section"


def test_line_ends_of_other_systems_are_read_alike() -> None:
    text = "\n INDICATION: Cough.\n \n The lungs\n are clear.\n"
    expected = parse_report(text, SETTINGS)
    assert expected.conclusion == "The lungs\n are clear."
    for end in ("\r\n", "\r"):
        converted = text.replace("\n", end)
        assert parse_report(converted, SETTINGS) == expected
        cut = parse_report(converted, SETTINGS, SpecialCase(start=14, end=19))
        assert cut.conclusion == "Cough"


def test_last_paragraph_is_the_fall_back() -> None:
    text = "\n INDICATION: Cough.\n \n The lungs are clear.\n \n No effusion.\n"
    report = parse_report(text, SETTINGS)
    assert report.sections["indication"] == "Cough."
    assert report.conclusion == "The lungs are clear.\n \n No effusion."
    assert report.conclusion_from == "last_paragraph"
    assert report.outcome == "last paragraph only"


def test_nothing_usable_is_told_apart() -> None:
    assert parse_report("\n INDICATION: Cough.\n", SETTINGS).outcome == "no usable section"


def test_section_starts_point_into_the_text() -> None:
    for section in split_sections(FULL, SETTINGS):
        assert FULL[section.start : section.start + len(section.text)] == section.text


def test_labelled_sections_drop_empty_ones() -> None:
    report = labelled_report({"findings": "  ", "impression": " Clear. ", "comparison": None})
    assert report.sections == {"impression": "Clear."}
    assert report.outcome == "impression only"


def test_special_cases_by_name_and_by_offset() -> None:
    text = "\n INDICATION: Lungs are clear.\n"
    report = parse_report(text, SETTINGS, SpecialCase(section="indication"))
    assert report.conclusion == "Lungs are clear."
    assert report.outcome == "special case: indication"
    cut = parse_report(text, SETTINGS, SpecialCase(start=14, end=19))
    assert (cut.conclusion, cut.conclusion_from) == ("Lungs", "special case: offsets")
    nothing = parse_report(text, SETTINGS, SpecialCase(start=0, end=0))
    assert nothing.outcome == "special case: no usable text"
    absent = parse_report(text, SETTINGS, SpecialCase(section="technique"))
    assert absent.outcome == "special case: no usable text"


def test_published_special_cases_are_built_in() -> None:
    cases = special_cases()
    assert all(len(study) == 8 and study.startswith("5") for study in cases)
    sections = Counter(case.section for case in cases.values())
    assert sections == {
        "recommendations": 7,
        "indication": 6,
        "examination": 5,
        "technique": 3,
        "note": 1,
        "history": 1,
        None: 31,
    }
    spans = [(case.start, case.end) for case in cases.values() if case.section is None]
    assert spans.count((0, 0)) == 8
    assert all(0 < start < end for start, end in spans if end)
    assert cases["50525523"] == SpecialCase(start=201, end=349)
    assert cases["56451190"] == SpecialCase(section="note")


def test_typo_list_corrects_whole_words_of_its_study() -> None:
    typos = TypoList({"59990001": {"dobhof": "Dobbhoff", "the the": "The"}})
    corrected = ("Dobbhoff tube; dobhoffs. The lung", 2)
    assert typos.correct("59990001", "DOBHOF tube; dobhoffs. The the lung") == corrected
    assert typos.correct("59990002", "dobhof") == ("dobhof", 0)


def test_letters_that_only_look_alike_are_no_typo() -> None:
    # Without regard to case, a dotless i matches an i, but no list knows it.
    assert TypoList({"1": {"rib": "Rib"}}).correct("1", "r\u0131b RIB")[0] == "r\u0131b Rib"


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("effusion", "effussion", True),
        ("effusion", "efusion", True),
        ("effusion", "effusian", True),
        ("effusion", "effuison", True),
        ("effusion", "effusion", False),
        ("effusion", "infusion", False),
        ("effusion", "fefusino", False),
    ],
)
def test_one_slip(a: str, b: str, expected: bool) -> None:
    assert one_slip_apart(a, b) is expected
    assert one_slip_apart(b, a) is expected


def test_speller_leaves_short_and_protected_words() -> None:
    speller = Speller(["effusion", "edema"], ["effusive"])
    assert speller.correct("effusoin") == "effusion"
    assert speller.correct("edeam") == "edeam"
    assert speller.correct("effusive") == "effusive"


def test_typo_list_of_the_public_fork_is_read_from_its_source(tmp_path: Path) -> None:
    source = tmp_path / "section_parser.py"
    source.write_text(
        "raise SystemExit\n"
        "def rules():\n"
        "    typos = {'s50000001': [['atelectases', 'atelectasis'], ['Teh', 'the']],\n"
        "             's5': [['a', 'b']]}\n"
        "    cases = {'s50000002': 'impression', 's50000003': [3, 5]}\n"
    )
    typos = read_typo_list(source)
    assert len(typos) == 2
    assert typos.correct("50000001", "Atelectases of teh base.") == ("atelectasis of the base.", 2)
    assert typos.correct("50000003", "Atelectases.") == ("Atelectases.", 0)


@pytest.mark.parametrize("content", ["x = 1", "{", "cases = {'s50000003': [3, 5]}"])
def test_source_without_corrections_is_an_input_error(tmp_path: Path, content: str) -> None:
    source = tmp_path / "section_parser.py"
    source.write_text(content)
    with pytest.raises(InputError, match="section_parser.py"):
        read_typo_list(source)


MEANINGS = {
    "IMPRESSION": "impression",
    "CONCLUSION": "impression",
    "IMPRESSOIN": "impression",
    "FINDINGS AND IMPRESSION": "impression",
    "FINDINGS/ IMPRESSION": "impression",
    "NDICATION": "impression",
    "FINDINGS": "findings",
    "FINIDNGS": "findings",
    "CHEST, PA AND LATERAL": "findings",
    "PORTABLE ABDOMEN": "findings",
    "COMPARISON": "comparison",
    "COMPARISON FILMS": "comparison",
    "INDICATION": "indication",
    "REASON FOR EXAM": "indication",
    "PFI": "history",
    "FAMILY HISTORY": "history",
    "ADDENDUM ONE": "addendum",
    "RECOMMENDATION(S)": "recommendations",
    "EXAM": "examination",
    "WET READ": "wet_read",
    "LINES AND TUBES": "lines and tubes",
    "COINCLUSION": "coinclusion",
}


def slow_sections(text: str) -> list[tuple[str, str, int]]:
    """Name, text and start of every section: the rules, read letter by letter."""
    letters = set("ABCDEFGHIJKLMNOPQRSTUVWXYZ ()/,-")
    sections, name, start, at = [], "full report", 0, 0
    while at < len(text):
        end = at + 2
        while end < len(text) and text[end] in letters:
            end += 1
        stop = text[end : end + 2]
        if text.startswith("\n ", at) and end > at + 2 and stop[:1] == ":" and stop[1:].isspace():
            if name == "full report":
                sections.append(("preamble", text[: at + 2], 0))
            else:
                sections.append((name, text[start:at], start))
            name, start = MEANINGS[text[at + 2 : end].strip()], end + 2
            at = start
            while at < len(text) and text[at] != "\n":
                at += 1
        else:
            at += 1
    sections.append((name, text[start:], start))
    sections = [p for p in sections if p[0] not in ("impression", "findings") or p[1].strip()]
    if not any(p[0] in ("impression", "findings") for p in sections):
        name, body, start = sections[-1]
        gap = body.find("\n \n")
        if gap >= 0:
            sections[-1] = (name, body[:gap], start)
            sections.append(("last_paragraph", body[gap + 3 :], start + gap + 3))
    return sections


def slow_conclusion(parts: list[tuple[str, str, int]]) -> str:
    """The last section of the first name that is there."""
    for wanted in ("impression", "findings", "last_paragraph", "comparison"):
        texts = [text.strip() for name, text, _ in parts if name == wanted]
        if texts:
            return texts[-1]
    return ""


def random_report(rng: random.Random) -> str:
    """Headings and text with all that can go wrong with blanks and lines between them."""
    text = rng.choice(["", "           FINAL REPORT", "\n", "Title\n \n"])
    for _ in range(rng.choice([0, 1, 1, 2, 3, 4, 6])):
        text += rng.choice(["\n"] * 6 + ["", "\n\n", "\n \n"])
        text += rng.choice([" "] * 8 + ["", "  ", "\t"]) + rng.choice(list(MEANINGS))
        text += rng.choice([": "] * 4 + [":  ", ":\n", ":\t", ":", " ", " : ", ": \n"])
        for _ in range(rng.choice([0, 1, 1, 2])):
            text += rng.choice(["\n ", "\n \n ", " ", "\n\n", "\n  \n", "\n\t\n"])
            text += rng.choice(
                ["Lungs are clear.", "No edema: none.", "IMPRESSION: Normal.", " Findings: x", ""]
            )
    return text + rng.choice(["\n", "", "\n \n", "\n \n "])


def test_published_settings_are_the_published_rules() -> None:
    rng = random.Random(20)
    came_from = Counter[str]()
    for _ in range(300):
        text = random_report(rng)
        expected = slow_sections(text)
        assert split_sections(text, PUBLISHED) == expected, text
        report = parse_report(text, PUBLISHED)
        assert report.conclusion == slow_conclusion(expected), text
        came_from[report.conclusion_from] += 1
    # Every branch was taken often enough to be tested.
    branches = ("impression", "findings", "last_paragraph", "comparison", "")
    assert min(came_from[name] for name in branches) >= 5


def test_default_settings_differ_by_what_they_say() -> None:
    rng = random.Random(21)
    changed = Counter[str]()
    for _ in range(300):
        text = random_report(rng)
        published, default = parse_report(text, PUBLISHED), parse_report(text, SETTINGS)
        if published == default:
            continue
        misspelt = [name for name in ("COINCLUSION", "NDICATION") if f" {name}" in text]
        empty = published.conclusion_from == "last_paragraph" and not published.conclusion
        assert misspelt or empty, text
        changed["heading" if misspelt else "paragraph"] += 1
    assert min(changed["heading"], changed["paragraph"]) >= 5


def parse(text: str) -> ParsedReport:
    return parse_report(text, SETTINGS)


@pytest.mark.parametrize(
    "unit",
    [
        *("a", "A", " A B,", "\n A", "A:", "\n A: ", "\n FINDINGS: x\n", "\n", "\n \n ", "\r\n"),
        *("(", "()", "\x01", "1. ", "\n IMPRESSION: \n"),
    ],
)
def test_twice_the_text_takes_twice_the_time(unit: str) -> None:
    short, long = (unit * (length // len(unit)) for length in (1_000_000, 2_000_000))
    assert seconds_of(parse, long) < 3 * seconds_of(parse, short) + 0.3


def test_line_of_ten_megabytes() -> None:
    text = "\n " + "HEART SIZE, LUNGS " * 560_000
    started = time.process_time()
    assert parse_report(text + ": Clear.", SETTINGS).conclusion == ""
    assert parse_report(text, SETTINGS).outcome == "no usable section"
    assert time.process_time() - started < 5
