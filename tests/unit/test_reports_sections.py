"""Sections by MIMIC-CXR's conventions, on hand-made reports; special cases; typo list."""

from pathlib import Path

import pytest

from cxrflow.errors import InputError
from cxrflow.reports.sections import (
    SpecialCase,
    labelled_report,
    parse_report,
    read_special_cases,
    section_name,
    split_sections,
)
from cxrflow.reports.settings import SectionSettings
from cxrflow.reports.spelling import Speller, one_slip_apart
from cxrflow.reports.typos import TypoList

SETTINGS = SectionSettings()
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
    assert list(report.sections) == [
        *("preamble", "examination", "indication", "comparison", "findings", "impression"),
    ]
    assert report.sections["examination"] == "CHEST (PORTABLE AP)"
    assert report.sections["findings"].startswith("The right base")
    assert report.conclusion == " 1. Worsening right basilar opacity.\n 2. No pneumothorax.".strip()
    assert report.conclusion_from == "impression"
    assert report.outcome == "findings and impression"


@pytest.mark.parametrize(
    ("heading", "name"),
    [
        ("CONCLUSION", "impression"),
        ("FINDINGS AND IMPRESSION", "impression"),
        ("FINDINGS/ IMPRESSION", "impression"),
        ("IMPRESSOIN", "impression"),
        ("MPRESSION", "impression"),
        ("COINCLUSION", "impression"),
        ("FINAL IMPRESSION", "impression"),
        ("FINDINDGS", "findings"),
        ("FINIDNGS", "findings"),
        ("CHEST, TWO VIEWS", "findings"),
        ("PORTABLE AP VIEW OF THE ABDOMEN", "findings"),
        ("PA AND LATERAL CHEST", "findings"),
        ("FRONTAL UPRIGHT", "findings"),
        ("RIBS", "findings"),
        ("COMPARISIONS", "comparison"),
        ("COMPARISON FILMS", "comparison"),
        ("REFERENCE EXAM", "comparison"),
        ("REASON FOR EXAM", "indication"),
        ("IDICATION", "indication"),
        ("NDICATION", "indication"),
        ("CLINICAL INFORMATION", "history"),
        ("PFI", "history"),
        ("PAST HISTORY", "history"),
        ("TYPE OF EXAMINATION", "examination"),
        ("RECOMMENDATION(S)", "recommendations"),
        ("WETREAD", "wet_read"),
        ("ADDENDUM ONE", "addendum"),
        ("COMPRESSION", "compression"),
        ("LINES", "lines"),
    ],
)
def test_headings_are_normalised(heading: str, name: str) -> None:
    assert section_name(heading) == name


def test_published_slip_can_be_repeated() -> None:
    text = "\n NDICATION: Cough.\n"
    assert parse_report(text, SETTINGS).conclusion == ""
    published = SectionSettings(published_ndication=True)
    assert parse_report(text, published).conclusion == "Cough."


def test_last_section_of_a_name_wins() -> None:
    text = "\n IMPRESSION: First.\n \n FINDINGS: Text.\n \n IMPRESSION: Second.\n"
    assert parse_report(text, SETTINGS).sections["impression"] == "Second."


def test_empty_section_does_not_hide_an_earlier_one() -> None:
    text = "\n FINDINGS: Text.\n \n IMPRESSION:  \n \n CHEST, TWO VIEWS: \n \n INDICATION: x\n"
    report = parse_report(text, SETTINGS)
    assert report.sections["findings"] == "Text."
    assert "impression" not in report.sections
    assert report.outcome == "findings only"


def test_second_heading_on_a_line_is_text() -> None:
    text = "\n FINDINGS: Clear.  IMPRESSION: Normal.\n"
    assert parse_report(text, SETTINGS).sections["findings"] == "Clear.  IMPRESSION: Normal."


def test_heading_needs_a_new_line_and_a_blank() -> None:
    assert [s.name for s in split_sections(" FINDINGS: a\nIMPRESSION: b\n Findings: c")] == [
        "full report"
    ]


def test_last_paragraph_is_the_fall_back() -> None:
    text = "\n INDICATION: Cough.\n \n The lungs are clear.\n \n No effusion.\n"
    report = parse_report(text, SETTINGS)
    assert report.sections["indication"] == "Cough."
    assert report.conclusion == "The lungs are clear.\n \n No effusion."
    assert report.conclusion_from == "last_paragraph"
    assert report.outcome == "last paragraph only"


def test_last_paragraph_of_a_report_without_headings() -> None:
    report = parse_report("Title\n \n The lungs are clear.", SETTINGS)
    assert report.conclusion == "The lungs are clear."


def test_comparison_is_the_last_resort() -> None:
    report = parse_report("\n COMPARISON: None. Lungs are clear.\n", SETTINGS)
    assert (report.conclusion, report.conclusion_from) == ("None. Lungs are clear.", "comparison")


def test_nothing_usable_is_told_apart() -> None:
    assert parse_report("\n INDICATION: Cough.\n", SETTINGS).outcome == "no usable section"


def test_section_starts_point_into_the_text() -> None:
    for section in split_sections(FULL):
        assert FULL[section.start : section.start + len(section.text)] == section.text


def test_special_cases_by_name_and_by_offset() -> None:
    text = "\n INDICATION: Lungs are clear.\n"
    named = parse_report(text, SETTINGS, SpecialCase(section="indication"))
    assert named.conclusion == "Lungs are clear."
    assert named.outcome == "special case: indication"
    cut = parse_report(text, SETTINGS, SpecialCase(start=14, end=19))
    assert (cut.conclusion, cut.conclusion_from) == ("Lungs", "special case: offsets")
    nothing = parse_report(text, SETTINGS, SpecialCase(start=0, end=0))
    assert nothing.outcome == "special case: no usable text"
    absent = parse_report(text, SETTINGS, SpecialCase(section="technique"))
    assert absent.outcome == "special case: no usable text"


def test_special_cases_are_read_from_csv_and_from_source(tmp_path: Path) -> None:
    table = tmp_path / "cases.csv"
    table.write_text("study_id,section,start,end\ns59990001,Technique,,\n59990002,,10,20\n")
    expected = {
        "59990001": SpecialCase(section="technique"),
        "59990002": SpecialCase(start=10, end=20),
    }
    assert read_special_cases(table) == expected
    source = tmp_path / "section_parser.py"
    source.write_text(
        "raise SystemExit('never run')\n"
        "def rules():\n"
        "    names = {'s59990001': 'technique'}  # where\n"
        "    places = {'s59990002': [10, 20]}\n"
        "    return names, places, {'other': 'words'}\n"
    )
    assert read_special_cases(source) == expected


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "study_id,section,start\n", "column 'end' is missing"),
        ("b.csv", "study_id,section,start,end\n59990001,,x,2\n", "study 59990001"),
        ("c.py", "x = {'a': 1}\n", "holds no special cases"),
        ("d.py", "x = (\n", "not Python source"),
    ],
)
def test_bad_special_cases_are_one_line(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message) as raised:
        read_special_cases(tmp_path / name)
    assert "\n" not in str(raised.value)


def test_labelled_sections_drop_empty_ones() -> None:
    report = labelled_report({"findings": "  ", "impression": " Clear. ", "comparison": None})
    assert report.sections == {"impression": "Clear."}
    assert report.outcome == "impression only"


def test_typo_list_corrects_whole_words_of_its_study(tmp_path: Path) -> None:
    path = tmp_path / "typos.csv"
    path.write_text("study_id,wrong,right\ns59990001,dobhof,Dobbhoff\n59990001,The the,The\n")
    typos = TypoList.read(path)
    assert len(typos) == 2
    assert typos.correct("59990001", "DOBHOF tube; dobhoffs. The the lung") == (
        "Dobbhoff tube; dobhoffs. The lung",
        2,
    )
    assert typos.correct("59990002", "dobhof") == ("dobhof", 0)


@pytest.mark.parametrize(
    ("content", "message"),
    [("study_id,wrong\n", "column 'right'"), ("study_id,wrong,right\n,a,b\n", "line 2")],
)
def test_bad_typo_list_names_the_place(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "typos.csv").write_text(content)
    with pytest.raises(InputError, match=message):
        TypoList.read(tmp_path / "typos.csv")


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
