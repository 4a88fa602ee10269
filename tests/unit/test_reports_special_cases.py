"""Studies whose conclusion stands in an odd place: built in, from a table, from the source."""

from collections import Counter
from pathlib import Path

import pytest

from cxrflow.errors import InputError
from cxrflow.reports.sections import (
    SpecialCase,
    parse_report,
    published_special_cases,
    read_special_cases,
    special_cases,
)
from cxrflow.reports.settings import SectionSettings

SETTINGS = SectionSettings()


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


def test_published_special_cases_are_built_in() -> None:
    cases = special_cases("published", "mimic_cxr", False)
    assert cases == published_special_cases()
    assert all(len(study) == 8 and study.startswith("5") for study in cases)
    named = Counter(case.section for case in cases.values())
    assert named == {
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


def test_special_cases_hold_for_the_real_data_set_only(tmp_path: Path) -> None:
    assert special_cases("published", "mimic_cxr", True) == {}
    assert special_cases("published", "open_i", False) == {}
    assert special_cases("none", "mimic_cxr", False) == {}
    assert special_cases(None, "mimic_cxr", False) == {}
    table = tmp_path / "cases.csv"
    table.write_text("study_id,section,start,end\n59990001,technique,,\n")
    own = {"59990001": SpecialCase(section="technique")}
    assert special_cases(str(table), "mimic_cxr", True) == own
    assert special_cases(str(table), "open_i", False) == {}
    assert SectionSettings(special_cases=str(table)).special_cases_file == str(table)
    assert SETTINGS.special_cases == "published"
    for setting in ("published", "none", None):
        assert SectionSettings(special_cases=setting).special_cases_file is None


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
        ("b.csv", "study_id,section,start,end\n59990001,,x,2\n", "59990001: start 'x', end '2'"),
        ("e.csv", "study_id,section,start,end\n59990001,,-1,2\n", "start '-1'"),
        ("f.csv", "study_id,section,start,end\n59990001\n", "start '', end ''"),
        ("g.py", "x = {'s59990001': [1], 's59990002': ['a', 'b']}\n", "holds no special cases"),
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
