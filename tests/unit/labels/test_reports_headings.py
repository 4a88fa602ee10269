"""Headings of any form, and texts in other languages."""

import random
import time
from pathlib import Path

import pytest
from labelled_texts import FOLDER
from pydantic import ValidationError

from cxr_labels.headings import hint, line_starts
from cxr_labels.language import is_english
from cxr_labels.sections import parse_report
from cxr_labels.settings import LabellerSettings, ReportSettings, SectionSettings
from cxrflow.commands.draft import read_report

ANY = SectionSettings(headings="any")
MIMIC = SectionSettings(headings="mimic_cxr")
TWO = {"findings": "Big heart.", "impression": "No edema."}


@pytest.mark.parametrize(
    "text",
    [
        "FINDINGS: Big heart.\nIMPRESSION: No edema.",
        "Findings: Big heart.\nImpression: No edema.",
        "findings : Big heart.\n\nimpression : No edema.",
        "\n FINDINGS: \n \n Big heart.\n \n IMPRESSION:  No edema.\n",
        "    Findings:\n    Big heart.\n\tImpression:\tNo edema.",
        "FINDINGS\nBig heart.\n\nIMPRESSION\nNo edema.",
        "**Findings:** Big heart.\n**Impression:** No edema.",
        "## Findings\nBig heart.\n## Impression\nNo edema.",
        "1. FINDINGS: Big heart.\n2. CONCLUSION: No edema.",
        "FINDINGS - Big heart.\nIMPRESSION - No edema.",
        "CLINICAL HISTORY Cough.\nFINDINGS Big heart.\nIMPRESSION No edema.",
        "Clinical History/Indication: CHF.\nFindings: Big heart.\nOpinion and Plan: No edema.",
        "Findngs: Big heart.\nImpresion: No edema.",
        "FINDINGS: Big heart. IMPRESSION: No edema.",
        "Findings: Big heart. Impression: No edema.",
        "FINDINGS:Big heart.\r\nIMPRESSION:No edema.\r\n",
        "Imaging findings: Big heart.\nOpinion: No edema.\nElectronically signed by: Dr. ___",
        "Reason for exam: CHF, pneumonia.\nFindings: Big heart.\nFINAL IMPRESSION: No edema.",
        "EXAM: CHEST\nINDICATION: CHF COMPARISON: None. FINDINGS: Big heart. IMPRESSION: No edema.",
    ],
)
def test_headings_of_any_form(text: str) -> None:
    report = parse_report(text, ANY)
    assert {name: report.sections[name] for name in TWO} == TWO
    assert report.outcome == "findings and impression"


@pytest.mark.parametrize(
    ("text", "sections"),
    [
        (
            "INDICATION: CHF, pneumonia.\nIMPRESSION: Normal.",
            {"indication": "CHF, pneumonia.", "impression": "Normal."},
        ),
        ("EXAM: CHEST\nLungs: clear.\nHeart: big.", {"findings": "Lungs: clear.\nHeart: big."}),
        (
            "IMPRESSION:\nHeart: big.\nLungs: clear.",
            {"impression": "Heart: big.\nLungs: clear."},
        ),
        ("CHEST, PA AND LATERAL: Big heart.", {"findings": "Big heart."}),
        ("FINAL IMPRESSION, CORRECTED: Clear.", {"impression": "Clear."}),
        # Findings without a heading, before the impression; a letterhead is none.
        ("NO EDEMA. IMPRESSION: CLEAR.", {"findings": "NO EDEMA.", "impression": "CLEAR."}),
        (
            "Clinical info: CHF.\n\nBig heart.\n\nNo edema.\n\nConclusion: CHF.",
            {"findings": "Big heart.\n\nNo edema.", "history": "CHF.", "impression": "CHF."},
        ),
        (
            "Findings: Clear. Comparison: In June, no nodule. Impression: Clear.",
            {"findings": "Clear. Comparison: In June, no nodule.", "comparison": None},
        ),
        ("City Hospital\nIMPRESSION: CHF.", {"findings": None, "impression": "CHF."}),
        ("Patient: CHF.\nIMPRESSION: Clear.", {"findings": None, "impression": "Clear."}),
        # Of one name all count; MIMIC-CXR's parser takes the last.
        (
            "FINDINGS: A.\nADDENDUM: Late.\nFINDINGS: B.",
            {"findings": "A.\n\nB.", "addendum": "Late."},
        ),
        # What lies below the headings, where neither of the two is there.
        ("HISTORY: CHF\n\nBig heart.", {"history": "CHF", "last_paragraph": "Big heart."}),
        (
            "TECHNIQUE: PA\nBig heart.\nSIGNED BY: ___",
            {"technique": "PA", "last_paragraph": "Big heart."},
        ),
    ],
)
def test_what_headings_bound(text: str, sections: dict[str, str | None]) -> None:
    bodies = parse_report(text, ANY).sections
    assert {name: bodies.get(name) for name in sections} == sections


@pytest.mark.parametrize(
    "text",
    [
        "Big heart. No edema.",
        "Seen at 10:30: big heart; two things: a line, a tube.",
        "Compared with the findings of last week, no change.",
        "Big\nfindings\nas before.",
        "HISTORY OF CHF. NO EDEMA.",
        "Chest  Comparison: No edema.",
        "In comparison with the study of last week: no edema.",
    ],
)
def test_a_report_without_headings_is_all_impression(text: str) -> None:
    report = parse_report(text, ANY)
    assert report.sections == {"impression": text}
    assert report.outcome == "no heading, read whole"
    text = "INDICATION: CHF. IMPRESSION: Clear."
    assert parse_report(text, SectionSettings(headings="none")).unheaded


@pytest.mark.parametrize("text", ["", "INDICATION: CHF.", "COMPARISON: None.", "FINDINGS:\n"])
def test_nothing_is_concluded_from_the_rest(text: str) -> None:
    assert parse_report(text, ANY).outcome == "no usable section"


def test_a_hospital_has_headings_of_its_own() -> None:
    text = "Anlass: CHF\nBefund :  Herz normal.\nBeurteilung\nKein Erguss."
    names = {"findings": ["befund"], "impression": ["Beurteilung"], "indication": ["Anlass"]}
    custom = SectionSettings.model_validate({"names": names})
    settings = ReportSettings(sections=custom).of_layout("mimic_cxr").sections
    assert settings.headings == "any"
    sections = parse_report(text, settings).sections
    assert (sections["findings"], sections["impression"]) == ("Herz normal.", "Kein Erguss.")
    assert sections["indication"] == "CHF"
    assert parse_report(text, ANY).unheaded
    for wrong in ({"names": {"findigs": ["a"]}}, {"headings": "mimic_cxr", "names": names}):
        with pytest.raises(ValidationError, match="findigs|names need headings"):
            SectionSettings.model_validate(wrong)


def test_the_form_follows_the_layout_unless_it_is_said() -> None:
    def form(layout: str, **sections: str) -> str | None:
        settings = ReportSettings.model_validate({"sections": sections})
        return settings.of_layout(layout).sections.headings

    assert form("mimic_cxr") == "mimic_cxr"
    assert form("table") == form("musculoskeletal") == form("mimic_cxr", headings="any") == "any"


def test_both_forms_cut_reports_of_mimic_cxr_alike() -> None:
    rng = random.Random(0)
    names = ["EXAMINATION", "INDICATION", "COMPARISON", "FINDINGS", "IMPRESSION", "WET READ"]
    for _ in range(200):
        chosen = rng.sample(names, rng.randint(0, len(names)))
        bodies = [f"Word {rng.random():.3f}.\n More of it." for _ in chosen]
        text = "FINAL REPORT" + "".join(
            f"\n {name}: \n \n {body}\n" for name, body in zip(chosen, bodies, strict=True)
        )
        any_form, mimic_form = parse_report(text, ANY).sections, parse_report(text, MIMIC).sections
        for name in ("findings", "impression", "indication", "wet_read"):
            assert any_form.get(name) == mimic_form.get(name) or not chosen


@pytest.mark.parametrize(
    "text",
    [":" * 200_000, "A: " * 70_000, "FINDINGS " * 20_000, "IMPRESSION: a. " * 13_000, "A\n" * 9**5,
     "FINDINGS" + " " * 190_000 + ":", "- - " * 50_000 + "\nB -" * 9_000],
    ids=["colons", "names", "words", "headings", "lines", "blanks", "dashes"],
)  # fmt: skip
def test_hostile_text_takes_linear_time(text: str) -> None:
    started = time.process_time()
    parse_report(text, ANY)
    line_starts(text)
    assert time.process_time() - started < 4


def test_a_hint_names_frequent_line_starts_only() -> None:
    assert line_starts("Befund: x\n  Wer: y\nno\n 10:30") == ["Befund:", "  Wer:"]
    text = hint("mimic_cxr", {"Befund:": 30, "Jane Doe:": 1}, 30)
    assert "'Befund:' (30)" in text and "'\\n FINDINGS:'" in text and "Jane" not in text
    assert "none that is frequent" in hint("any", {"Jane Doe:": 1}, 1)


LEAST = LabellerSettings().least_known


@pytest.mark.parametrize(
    "text",
    [
        "Befund: Kein Pleuraerguss",
        "Kein Pneumothorax.",
        "Herz normal groß, keine Stauung. Kein Infiltrat.",
        "Pas d'épanchement pleural. Silhouette cardiaque normale.",
        "No se observa derrame pleural ni neumotórax. Silueta cardíaca de tamaño normal.",
        "No derrame pleural.",
        "Signos de insuficiencia cardiaca. Cardiomegalia.",
        "Non si osservano versamenti pleurici. Ombra cardiaca nei limiti.",
        "Sem derrame pleural. Area cardiaca normal.",
        "Geen pleuravocht. Hart niet vergroot. Longen in orde.",
        "Ingen pneumothorax. Hjertet er normalt.",
        "Brak zmian ogniskowych. Serce niepowiększone.",
        "Plevral efüzyon izlenmedi. Kalp normal boyutta.",
        "Плевральный выпот не выявлен.",
        "双肺纹理清晰，未见胸腔积液。",
        "胸水を認めない。",
        "Radiographie thoracique normale.",
        "Opacité alvéolaire de la base droite. Emphysème.",
        "Atelectasia laminar en base izquierda. No condensaciones.",
        "Cor und Pulmo altersentsprechend. Pneumothorax apikal.",
        "Cardiomegalia. Derrame pleural à direita.",
        "Pleuravocht links. Cardiomegalie.",
    ],
)
def test_other_languages_are_told_apart(text: str) -> None:
    assert not is_english([text], LEAST)


def test_sentences_of_reports_are_english() -> None:
    lines = [
        line.split("\t")
        for file in FOLDER.glob("*.tsv")
        for line in file.read_text(encoding="utf-8").splitlines()[1:]
    ]
    strange = sum(not is_english([line[-2]], LEAST) for line in lines)
    assert len(lines) > 500 and strange <= 0.002 * len(lines)


@pytest.mark.parametrize(
    "text",
    ["Normal.", "Cardiomegaly.", "No acute process.", "No pneumothorax.", "1. ETT, NG tube.", "",
     "XXXX effusion.", "Moderat efusion", "Bibasilar atelectasis.", "Fuzzy grey things are seen."],
)  # fmt: skip
def test_short_english_is_known(text: str) -> None:
    assert is_english([text], LEAST)


def test_an_earlier_report_is_given_by_its_sections(tmp_path: Path) -> None:
    path = tmp_path / "prior.txt"
    path.write_text("INDICATION: CHF.\nFindings: Big\nheart.\nIMPRESSION: No edema.\n")
    assert read_report(path, ["impression", "findings"]) == "No edema. Big heart."
    path.write_text("Big heart.\n")
    assert read_report(path, ["impression"]) == "Big heart."
