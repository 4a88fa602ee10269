"""The ReXVal copy: reports of fifty studies, four candidates each, and the errors of six readers.

A candidate is the study's own report without some of its sentences, or that of another patient. An
omitted sentence and one that the study's report has not are errors, significant where the sentence
speaks of a finding. Each reader overlooks a tenth of them. Studies are numbered by rows.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cxr_hospital.patient import make_patient
from cxr_hospital.report import write_report
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.writers.folder import Counts, Row, dataset_writer, write_table

REPORTS, ERRORS = (
    "50_samples_gt_and_candidates.csv",
    "6_valid_raters_per_rater_error_categories.csv",
)
CANDIDATES = ("radgraph", "bertscore", "s_emb", "bleu")
STUDIES, READERS = 50, 6
_OVERLOOKED, _OTHERS = 0.1, 0.5  # of the errors; candidates that are of another patient
_NOTHING = (" no ", " normal", " clear", "unremarkable")
_STREAM = 151
Sentences = Sequence[str]


def report_of(settings: HospitalSettings, number: int) -> Sentences:
    """The sentences of a patient's first report."""
    patient = make_patient(settings, number)
    rng = np.random.default_rng([settings.seed, number, _STREAM])
    report = write_report(patient, patient.studies[0], rng, settings)
    return report.findings or report.impression or report.last_paragraph or ("Normal chest.",)


def errors_of(report: Sentences, candidate: Sentences) -> list[tuple[int, bool]]:
    """Category and significance of each error: 1 a sentence too many, 2 one that is not there."""
    wrong = [(1, one) for one in candidate if one not in report]
    wrong += [(2, one) for one in report if one not in candidate]
    is_normal = [any(word in f" {text.lower()}" for word in _NOTHING) for _, text in wrong]
    return [(kind, not normal) for (kind, _), normal in zip(wrong, is_normal, strict=True)]


def candidate_of(
    report: Sentences, reports: Sequence[Sentences], rng: np.random.Generator
) -> Sentences:
    """A study's report without some of its sentences, or one of another patient's ``reports``."""
    candidate = [one for one in report if rng.random() < rng.random()] or report[:1]
    if rng.random() < _OTHERS:
        candidate = reports[STUDIES + int(rng.integers(STUDIES))]
    return candidate


@dataset_writer()
def write_rexval(folder: Path, settings: HospitalSettings, threads: int) -> Counts:
    """Write both lists, in one process."""
    rng = np.random.default_rng([settings.seed, _STREAM])
    reports = [report_of(settings, number) for number in range(2 * STUDIES)]
    table: list[Row] = []
    errors: list[Row] = []
    for number, report in enumerate(reports[:STUDIES]):
        texts = []
        for name in CANDIDATES:
            candidate = candidate_of(report, reports, rng)
            texts.append(" ".join(candidate))
            wrong = errors_of(report, candidate)
            for reader in range(READERS):
                seen = [error for error in wrong if rng.random() >= _OVERLOOKED]
                errors += [
                    (number, name, reader, kind, significant, seen.count((kind, significant)))
                    for kind in (1, 2)
                    for significant in (True, False)
                ]
        table.append((60_000_000 + number, " ".join(report), *texts))
    write_table(folder / REPORTS, ("study_id", "gt", *CANDIDATES), table)
    columns = ("study_number", "candidate_type", "rater_index", "error_category")
    write_table(folder / ERRORS, (*columns, "clinically_significant", "num_errors"), errors)
    return {"studies": len(table), "candidates": len(table) * len(CANDIDATES)}
