"""The outer form of a MIMIC-CXR report: headings, blank lines, wrapping, wet reads, addenda."""

import textwrap
from collections.abc import Sequence

import numpy as np

from cxr_hospital.grammar import expand, pick
from cxr_hospital.patient import Patient, Study
from cxr_hospital.wording import context, examination

WIDTH = 79
_BLANK = " "
_RULE = " " + "_" * 78


def _wrapped(text: str) -> list[str]:
    return [f" {line}" for line in textwrap.wrap(text, WIDTH - 1, break_on_hyphens=False)]


def _headed(heading: str, text: str) -> list[str]:
    """A heading with its text on the same line."""
    return _wrapped(f"{heading}:  {text}")


def _section(heading: str, sentences: Sequence[str], rng: np.random.Generator) -> list[str]:
    """A section: one or two paragraphs, a line a sentence, or a numbered list."""
    shape = rng.random()
    gap = "  " if rng.random() < 0.5 else " "
    body: list[str] = []
    if heading.endswith("IMPRESSION") and len(sentences) > 1 and shape < 0.3:
        spaced = rng.random() < 0.3
        for number, sentence in enumerate(sentences, 1):
            body += _wrapped(f"{number}. {sentence}")
            if spaced and number < len(sentences):
                body.append(_BLANK)
    elif len(sentences) > 4 and shape < 0.6:
        cut = len(sentences) // 2
        body = [*_wrapped(gap.join(sentences[:cut])), _BLANK, *_wrapped(gap.join(sentences[cut:]))]
    elif len(sentences) > 1 and shape > 0.92:
        for sentence in sentences:
            body += [*_wrapped(sentence), _BLANK]
        body = body[:-1]
    elif shape > 0.65:
        return [*_headed(heading, gap.join(sentences)), _BLANK]
    else:
        body = _wrapped(gap.join(sentences))
    return [f" {heading}: ", _BLANK, *body, _BLANK]


def _preamble(patient: Patient, study: Study, rng: np.random.Generator) -> list[str]:
    """EXAMINATION, INDICATION, TECHNIQUE and COMPARISON, each missing now and then."""
    views = examination.projections(study)
    first, second = rng.choice(len(examination.COMPLAINTS), 2, replace=False)
    slots = {
        "person": "woman" if patient.sex == "F" else "man",
        "letter": patient.sex,
        "complaint": examination.COMPLAINTS[first],
        "other": examination.COMPLAINTS[second],
        "question": examination.QUESTIONS,
    }
    lines: list[str] = []

    def section(heading: str, text: str) -> None:
        lines.extend([*_headed(heading, text), _BLANK])

    if rng.random() < 0.65:
        section("EXAMINATION", examination.procedure(study))
    if rng.random() < 0.93:
        heading = "INDICATION" if rng.random() < 0.7 else pick(("HISTORY", "REASON FOR EXAM"), rng)
        section(heading, expand(pick(examination.INDICATION, rng), rng, slots))
    if rng.random() < 0.6:
        section("TECHNIQUE", pick(examination.TECHNIQUES[views], rng) + pick((".", ""), rng))
    if rng.random() < 0.85:
        later = study is not patient.studies[0]
        options = examination.COMPARISON_WITH_PRIOR if later else examination.COMPARISON_WITHOUT
        section("COMPARISON", pick(options, rng))
    return lines


def _wet_read(sentences: Sequence[str], rng: np.random.Generator) -> list[str]:
    clock = pick(("8:12 PM", "10:14 AM", "2:47 AM", "6:05 PM", "11:38 PM"), rng)
    day = pick(("MON", "TUE", "WED", "FRI", "SAT", "SUN"), rng)
    text = [f"  {line}" for line in textwrap.wrap(" ".join(sentences), WIDTH - 2)]
    version = ["  WET READ VERSION #1 "] if rng.random() < 0.5 else []
    return [f" WET READ: ___ ___ {day} {clock}", *text, *version, _RULE]


def lay_out(
    patient: Patient,
    study: Study,
    rng: np.random.Generator,
    findings: Sequence[str],
    impression: Sequence[str],
    paragraph: Sequence[str],
) -> str:
    """The report's text; sections without sentences are missing, or rarely empty."""
    lines: list[str] = []
    if rng.random() < 0.04:
        lines += _wet_read(list(impression or findings or paragraph)[:2], rng)
    elif rng.random() < 0.03:
        text = expand(pick(context.NOTIFICATIONS, rng), rng)
        lines += [" " * 33 + "FINAL ADDENDUM", *_headed("ADDENDUM", text), _RULE]
    lines.append(" " * 33 + "FINAL REPORT")
    lines += _preamble(patient, study, rng)
    views = examination.projections(study)
    if paragraph:
        lines += [*_wrapped(" ".join(paragraph)), _BLANK]
    if findings:
        by_view = rng.random() < 0.04
        lines += _section(
            examination.VIEW_HEADINGS[views] if by_view else "FINDINGS", findings, rng
        )
    if impression:
        heading = "IMPRESSION"
        if not findings and rng.random() < 0.3:
            heading = "FINDINGS AND IMPRESSION"
        elif rng.random() < 0.04:
            heading = "CONCLUSION"
        lines += _section(heading, impression, rng)
    elif findings and rng.random() < 0.2:
        lines += [" IMPRESSION: ", _BLANK]
    if impression and rng.random() < 0.04:
        note = expand(pick(context.NOTIFICATIONS, rng), rng)
        lines += [*_headed("NOTIFICATION", note), _BLANK]
    while lines[-1] == _BLANK:
        lines.pop()
    return "\n".join(lines) + "\n"
