"""The held-out grammar writes what it says it writes."""

import re
from collections import Counter
from functools import cache

import numpy as np
from held_out_wording import (
    CODES,
    JOINT,
    NAMES,
    STATES,
    HeldOutReport,
    Writer,
    combine,
    read_codes,
    read_templates,
    slip,
    states_of,
)

from cxrflow.phantom.patient import make_patient
from cxrflow.phantom.settings import HospitalSettings

PATIENTS = 700


@cache
def written() -> tuple[tuple[dict[str, str], HeldOutReport], ...]:
    writer, settings, rng = Writer(7), HospitalSettings(), np.random.default_rng(8)
    made = []
    for index in range(PATIENTS):
        for study in make_patient(settings, index).studies:
            states = states_of(study, rng)
            made.append((states, writer.write(states)))
    return tuple(made)


def test_the_seed_decides() -> None:
    states = {name: "present" for name in NAMES.values()}
    first, second, other = Writer(1), Writer(1), Writer(2)
    reports = [first.write(states) for _ in range(3)]
    assert [second.write(states) for _ in range(3)] == reports
    assert other.write(states) != reports[0]


def test_enough_templates_for_each_state() -> None:
    counts = {key: len(lines) for key, lines in read_templates().items()}
    wanted = {code + sign for code in NAMES for sign in STATES.values()} - {"SD?"} | {"none"}
    assert set(counts) == wanted
    assert min(counts.values()) >= 12
    everything = [text for lines in read_templates().values() for _, text in lines]
    assert len(set(everything)) == len(everything)


def test_every_template_is_used_and_sentences_vary() -> None:
    sentences = [s for _, report in written() for s in report.findings + report.impression]
    used = {template for sentence in sentences for template in sentence.templates}
    everything = {text for lines in read_templates().values() for _, text in lines} | set(JOINT)
    assert used == everything
    assert len({sentence.text for sentence in sentences}) >= 2000
    assert not any(re.search(r"[{}]|  ", sentence.text) for sentence in sentences)


def test_labels_are_the_states_and_what_templates_add() -> None:
    codes = {text: read_codes(c) for lines in read_templates().values() for c, text in lines}
    for states, report in written():
        told = {n: {"+": 1, "-": 0, "?": -1}[STATES[s]] for n, s in states.items() if s in STATES}
        assert combine(report.findings + report.impression) == report.labels
        for sentence in report.findings + report.impression:
            for template in set(sentence.templates) & set(codes):
                assert set(codes[template]) <= set(sentence.labels)
        for name, value in report.labels.items():
            if name in told and value == told[name]:
                continue
            adds = {t for s in report.findings + report.impression for t in s.templates}
            assert any((name, value) in codes.get(t, ())[1:] for t in adds), (name, report.text)
        assert set(told) <= set(report.labels)


def test_each_state_is_told_often_enough_to_measure() -> None:
    counts = Counter(pair for _, report in written() for pair in report.labels.items())
    for name in NAMES.values():
        for value in (1, 0, -1) if CODES[name] != "SD" else (1, 0):
            assert counts[name, value] >= 20, (name, value)


def test_sections_hold_the_sentences_and_nothing_else_looks_like_a_heading() -> None:
    for _, report in written():
        headings = re.findall(r"\n ([A-Z ()/,-]+):\s", report.text)
        assert set(headings) <= {"EXAMINATION", "INDICATION", "FINDINGS", "IMPRESSION"}
        flat = " ".join(report.text.split())
        assert all(sentence.text in flat for sentence in report.findings + report.impression)


def test_a_slip_changes_one_long_word_and_keeps_its_ends() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        before, after = ["no", "new", "pneumothorax"], slip(rng, "no new pneumothorax").split()
        assert before[:2] == after[:2]
        assert (after[2][0], after[2][-1]) == ("p", "x")
        assert abs(len(after[2]) - len(before[2])) <= 1
    assert slip(rng, "no edema") == "no edema"
