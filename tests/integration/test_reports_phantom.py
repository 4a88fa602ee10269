"""Reports of the synthetic hospital, whose true labels are known: a grammar of its own."""

import math
from collections import Counter

from cxr_hospital.patient import make_patient
from cxr_hospital.report import report_of
from cxr_hospital.settings import HospitalSettings
from cxr_labels.observations import OBSERVATIONS
from cxr_labels.scope.labeller import ScopeLabeller
from cxr_labels.sections import parse_report
from cxr_labels.sentences import RuleSplitter
from cxr_labels.settings import SectionSettings

PATIENTS = 60
FINDINGS = ("Atelectasis", "Consolidation", "Edema", "Pleural Effusion", "Pneumothorax", "Fracture")


def test_sections_sentences_and_labels_are_those_written() -> None:
    settings = HospitalSettings()
    splitter, labeller, counts = RuleSplitter(), ScopeLabeller(), Counter[str]()
    for index in range(PATIENTS):
        patient = make_patient(settings, index)
        for study in patient.studies:
            report = report_of(settings, patient, study)
            parsed = parse_report(report.text, SectionSettings())
            sentences = splitter.split_one(parsed.conclusion)
            written = report.impression or report.findings or report.last_paragraph
            assert sentences == [" ".join(sentence.split()) for sentence in written]
            read = dict(zip(OBSERVATIONS, labeller.label([sentences])[0], strict=True))
            for name in FINDINGS:
                value = None if math.isnan(read[name]) else int(read[name])
                counts["right" if value == report.labels.get(name) else "wrong"] += 1
                if value == 1 or report.labels.get(name) == 1:
                    counts["agreed" if value == report.labels.get(name) else "missed"] += 1
    assert counts["right"] >= 0.98 * (counts["right"] + counts["wrong"])
    assert counts["agreed"] >= 0.95 * (counts["agreed"] + counts["missed"])
    assert counts["agreed"] > 20
