"""The labeller on reports in a wording that its rules were not written for."""

import math
import sys
from collections import Counter
from pathlib import Path

import numpy as np

from cxrflow.phantom.patient import make_patient
from cxrflow.phantom.settings import HospitalSettings
from cxrflow.reports.labels.observations import OBSERVATIONS
from cxrflow.reports.labels.scope.labeller import ScopeLabeller
from cxrflow.reports.sections import parse_report
from cxrflow.reports.sentences import RuleSplitter
from cxrflow.reports.settings import SectionSettings

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
from held_out_wording import CODES, HeldOutReport, Writer, states_of  # noqa: E402

REPORTS = 1600
LEAST_F1 = {1: 0.97, -1: 0.95, 0: 0.95}
LEAST_SUPPORT = 30


def reports() -> list[HeldOutReport]:
    writer, rng, settings = Writer(20221), np.random.default_rng(20222), HospitalSettings()
    made: list[HeldOutReport] = []
    index = 0
    while len(made) < REPORTS:
        studies = make_patient(settings, index).studies
        made += [writer.write(states_of(study, rng)) for study in studies]
        index += 1
    return made


def read_sentences(report: HeldOutReport) -> list[str]:
    """The sentences of both sections, as the workflow's own parser and splitter find them."""
    sections = parse_report(report.text, SectionSettings()).sections
    texts = [sections.get(name, "") for name in ("findings", "impression")]
    return [sentence for text in texts for sentence in RuleSplitter().split_one(text)]


def test_each_observation_and_state_is_read() -> None:
    written = reports()
    read = ScopeLabeller().label([read_sentences(report) for report in written])
    hits: Counter[tuple[str, int]] = Counter()
    extra, missed = hits.copy(), hits.copy()
    for report, labels in zip(written, read, strict=True):
        values = zip(OBSERVATIONS, labels, strict=True)
        found = {(n, int(v)) for n, v in values if n in CODES and not math.isnan(v)}
        told = set(report.labels.items())
        hits.update(found & told)
        extra.update(found - told)
        missed.update(told - found)
    failed = []
    for name, code in CODES.items():
        for value in (1, -1, 0) if code != "SD" else (1, 0):
            pair = name, value
            f1 = 2 * hits[pair] / (2 * hits[pair] + extra[pair] + missed[pair])
            print(f"{name:27}{value:3} F1 {f1:.3f} of {hits[pair] + missed[pair]}")
            assert hits[pair] + missed[pair] >= LEAST_SUPPORT
            if f1 < LEAST_F1[value]:
                failed.append(f"{name} {value}: F1 {f1:.3f}")
    assert not failed, "; ".join(failed)


def test_sections_and_sentences_are_those_written() -> None:
    for report in reports()[:300]:
        assert read_sentences(report) == [s.text for s in report.findings + report.impression]
