"""Reports in JSON, XML, HL7, FHIR and lists: keys are headings, or a refusal names the form."""

import json

import pytest
from labelled_texts import labels_of

from cxr_labels.characters import normal_text, normalised
from cxr_labels.containers import MARK
from cxr_labels.labelling import LABELLED
from cxr_labels.report import decode

EDEMA, EFFUSION = "Edema", "Pleural Effusion"
BOTH = ("Edema", "No effusion")
EMPTY_HL7 = "HL7 message without a text in an OBX segment"
LINES = "Indication: fracture?\nFindings: Edema."


def read(text: str, headings: str = "any") -> tuple[dict[str, int], str]:
    """The observations but No Finding that a text mentions, and the outcome."""
    labels, outcome = labels_of(text, headings)
    labels.pop("No Finding", None)
    return labels, outcome


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"indication": "fracture", "findings": "Edema.\nNo \"effusion\"."}),
        json.dumps({"data": {"clinicalHistory": "fracture", "x": {"findings": [*BOTH]}}}),
        json.dumps([
            {"section": "History", "text": "fracture"},
            {"name": "Impression", "value": "Edema. No effusion"},
        ]),
        json.dumps({"report_id": "fracture 7", "report": LINES + " No effusion."}),
        json.dumps({"edema": "mild", "effusion": False, "priorDiagnoses": "fracture"}),
        '"reason": "fracture", "conclusion": "Edema. No effusion."',
        "{'history': 'fracture', 'opinion': 'Edema. No effusion.'}",
        "<indication>fracture</indication>\n<findings>Edema.</findings>"
        "<impression>No effusion</impression>",
        '<?xml version="1.0"?><r><part label="HISTORY">fracture</part>'
        '<part label="FINDINGS">Edema. No effusion</part></r>',
        "<doc><section><title>Reason for exam</title><text>fracture</text></section>"
        "<section><title>Findings</title><text><item>Edema.</item><item>No effusion.</item></text>"
        "</section></doc>",
        "<report><referringPhysician>Dr Fracture</referringPhysician>"
        "<body><![CDATA[Edema. No effusion]]></body></report>",
        '<DiagnosticReport><status value="final"/><conclusion value="Edema. No effusion."/>'
        "</DiagnosticReport>",
        json.dumps({
            "resourceType": "DiagnosticReport", "code": {"text": "fracture clinic film"},
            "conclusion": "Edema. No effusion.", "conclusionCode": [{"text": "Fracture"}],
        }),
        "MSH|^~\\&|A\rOBX|1|TX|18785-6^Reason for study^LN||fracture"
        "\rOBX|2|TX|59776-5^Findings^LN||Edema."
        "\rOBX|3|TX|59776-5^Findings^LN||No effusion.",
        "OBX|1|TX|C&IND^Indication||fracture||||||F\nOBX|2|TX|C&GDT||Edema.~No effusion.||||||F",
        "['edema' 'no effusion']",
        '["edema", "no effusion"]',
    ],
)  # fmt: skip
def test_keys_are_headings(text: str) -> None:
    assert read(text) == ({EDEMA: 1, EFFUSION: 0}, LABELLED)


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ('{"ward": "edema", "bed": 3}', "JSON without a known section"),
        ('{"findings": "edema", "impr', "JSON that is damaged or cut off"),
        (
            '{"resourceType": "DiagnosticReport", "presentedForm": [{"data": "QQ=="}]}',
            "FHIR resource without a known section",
        ),
        ('<?xml version="1.0"?><doc><ward>edema</ward></doc>', "XML without a known section"),
        ("MSH|^~\\&|A\nPID|1||edema", EMPTY_HL7),
        ("OBX|1|ED|PDF^Report||a^b^Base64^QQ==||||||F", EMPTY_HL7),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_by_name(text: str, outcome: str) -> None:
    assert read(text) == ({}, outcome)


@pytest.mark.parametrize(
    "text",
    ["Edema <small>.", "[**Name**] has edema.", "{edema}", "[x] edema", "<NAME>: edema"],
)  # fmt: skip
def test_what_only_looks_like_a_container_is_text(text: str) -> None:
    assert normal_text(text).container is None
    assert read(text) == ({EDEMA: 1}, LABELLED)


def test_a_value_keeps_its_place_and_keys_leave_no_mark() -> None:
    text = '{"findings": "Tab\\tand \\u00e9dema\\nclear"}'
    normal = normal_text(text)
    at = normal.text.index("clear")
    assert text[normal.origin(at) : normal.origin(at + 5)] == "clear"
    assert MARK in normal.text and MARK not in normalised(text)
    assert "édema" in normalised(text)


def test_a_text_that_is_labelled_whole_reads_every_value() -> None:
    text = '{"indication": "fracture", "findings": "edema"}'
    assert read(text, "none")[0] == {EDEMA: 1, "Fracture": 1}


@pytest.mark.parametrize("unit", ["{", "[", '{"a":', "<a>", "<a ", "['a' ", '"', "OBX|", "␞"])
def test_hostile_containers_end(unit: str) -> None:
    read(unit * 3000)


def test_a_text_may_hold_a_nul() -> None:
    assert read("Edema.\0 No effusion.") == ({EDEMA: 1, EFFUSION: 0}, LABELLED)
    assert decode(b"Edema is seen at the bases.\0 No effusion.")[1] is None
    assert decode("Edema".encode("utf-16-le"))[1] == "not text (NUL bytes)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Report status: Final\nAn edema.\nImpression: No effusion.", {EDEMA: 1, EFFUSION: 0}),
        ("Consultant: Dr A\nEdema is seen.", {EDEMA: 1}),
        ("Patient: B\nMRN: 7\nRequested by: Dr A\nEdema.", {EDEMA: 1}),
        ("Dictated by:\nDr A\nEdema.", {EDEMA: 1}),
        ("Attending: Dr A. Edema is seen.", {EDEMA: 1}),
        ("Findings: No effusion.\nSigned by: Dr A\nEdema.", {EFFUSION: 0, EDEMA: 1}),
        ("Impression: No effusion.\nDictated by: Dr Port\nMD, 12/3/2020", {EFFUSION: 0}),
        ("Comparison: None.\nPulmonary edema.\nImpression: No effusion.", {EDEMA: 1, EFFUSION: 0}),
        ("Findings: Edema.\nSigned by: Dr Fracture", {EDEMA: 1}),
    ],
)  # fmt: skip
def test_a_signature_ends_with_its_line(text: str, expected: dict[str, int]) -> None:
    assert read(text) == (expected, LABELLED)
