"""The state of the synthetic hospital: reproducible, consistent in time, and without shortcuts."""

import itertools
import re
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2_contingency, rankdata

from cxr_hospital.course import FINDINGS, GROUNDED, LEAST_CHANGE, PATHOLOGIES
from cxr_hospital.patient import Patient, Study, hospital, make_patient
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.writers.rsna import NORMAL, NOT_NORMAL, OPACITY, make_rsna_case


@pytest.fixture(scope="module")
def patients() -> list[Patient]:
    return list(hospital(HospitalSettings(patients=1500)))


@pytest.fixture(scope="module")
def studies(patients: list[Patient]) -> list[Study]:
    return [study for patient in patients for study in patient.studies]


def test_a_patient_depends_on_seed_and_index_alone() -> None:
    small, large = HospitalSettings(patients=5), HospitalSettings(patients=50_000)
    assert make_patient(small, 3) == make_patient(large, 3)
    assert list(hospital(small))[3] == make_patient(small, 3)
    assert make_patient(small, 3) != make_patient(small, 4)
    assert make_patient(small, 3) != make_patient(small.model_copy(update={"seed": 1}), 3)


def test_identifiers_look_real_and_are_unique(patients: list[Patient]) -> None:
    subjects = [patient.subject_id for patient in patients]
    studies = [study.study_id for patient in patients for study in patient.studies]
    images = [i.image_id for p in patients for s in p.studies for i in s.images]
    for names in (subjects, studies, images):
        assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"1\d{7}", str(name)) for name in subjects)
    assert all(re.fullmatch(r"5\d{7}", str(name)) for name in studies)
    assert all(re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{8}){4}", name) for name in images)
    folders = Counter(str(name)[:2] for name in subjects)
    assert len(folders) == 10 and min(folders.values()) > 0.05 * len(subjects)


def test_study_numbers_say_nothing_about_time(patients: list[Patient]) -> None:
    pairs = [pair for p in patients for pair in itertools.pairwise(p.studies)]
    assert all(first.time <= second.time for first, second in pairs)
    ascending = np.mean([first.study_id < second.study_id for first, second in pairs])
    assert 0.45 < ascending < 0.55
    ties = sum(first.time == second.time for first, second in pairs)
    assert 0 < ties < 0.03 * len(pairs)


def test_shares_are_those_that_were_asked_for(patients, studies):
    assert 0.62 < np.mean([len(patient.studies) > 1 for patient in patients]) < 0.72
    counts = np.array([len(study.findings) for study in studies])
    assert 0.2 < np.mean(counts == 0) < 0.32
    assert counts.max() <= 4 and 0.33 < np.mean(counts >= 2) < 0.5
    occurrences = Counter(finding.name for study in studies for finding in study.findings)
    shares = [occurrences[name] / len(studies) for name in GROUNDED]
    assert min(shares) > 0.05 and max(shares) < 0.25
    assert all(1 <= len(study.images) <= 3 for study in studies)
    views = Counter(image.view for study in studies for image in study.images)
    assert set(views) == {"AP", "PA", "LATERAL", "LL", ""}


def test_twins_stand_on_the_other_side_at_another_degree(patients: list[Patient]) -> None:
    twins = 0
    for findings in (patient.studies[0].findings for patient in patients):
        for first, second in itertools.combinations(findings, 2):
            if first.name == second.name:
                twins += 1
                assert {first.side, second.side} == {"left", "right"}
                assert abs(first.severity - second.severity) >= 0.3
    assert twins > 0.05 * len(patients)


@pytest.mark.parametrize("name", [name for name in GROUNDED if name != "Cardiomegaly"])
def test_a_finding_does_not_give_its_place_away(studies: list[Study], name: str) -> None:
    findings = [f for study in studies for f in study.findings if f.name == name]
    sides, zones = Counter(f.side for f in findings), Counter(f.zone for f in findings)
    assert min(sides["left"], sides["right"]) > 0.2 * len(findings)
    assert max(zones.values()) < 0.85 * len(findings)
    assert np.std([f.across for f in findings]) > 0.3 and np.std([f.along for f in findings]) > 0.3


def test_changes_agree_with_severities(patients: list[Patient]) -> None:
    counts: Counter[str] = Counter()
    for patient in patients:
        assert patient.studies[0].changes == {} and patient.studies[0].resolved == ()
        for before, after in itertools.pairwise(patient.studies):
            old = {finding.key: finding for finding in before.findings}
            new = {finding.key: finding for finding in after.findings}
            assert set(after.changes) == set(new)
            assert {finding.key: finding for finding in after.resolved} == {
                key: old[key] for key in old.keys() - new.keys()
            }
            for key, change in after.changes.items():
                counts[change] += 1
                assert (change == "new") == (key not in old)
                if change == "new":
                    continue
                grown = new[key].severity - old[key].severity
                assert (new[key].name, new[key].side, new[key].zone) == (
                    old[key].name,
                    old[key].side,
                    old[key].zone,
                )
                if change == "stable":
                    assert grown == 0
                else:
                    assert (grown > 0) == (change == "worsened")
                    assert abs(grown) >= LEAST_CHANGE - 1e-3
    assert min(counts[change] for change in ("new", "improved", "stable", "worsened")) > 100


def _table(presence: np.ndarray, values: list[object]) -> np.ndarray:
    kinds = sorted(set(map(str, values)))
    index = np.array([kinds.index(str(value)) for value in values])
    return np.stack([np.bincount(index[presence == p], minlength=len(kinds)) for p in (0, 1)])


@pytest.mark.parametrize("name", FINDINGS)
def test_no_finding_can_be_read_off_the_acquisition(studies: list[Study], name: str) -> None:
    """Acquisitions are drawn anew for each study, so the tests' samples are independent."""
    presence = np.array([any(f.name == name for f in study.findings) for study in studies], int)
    first = [study.images[0] for study in studies]
    for field in ("projection", "view", "marker", "marker_height", "aspect", "bits", "monochrome1",
                  "transfer_syntax", "spoilt", "repeat"):  # fmt: skip
        table = _table(presence, [getattr(image, field) for image in first])
        table = table[:, table.sum(0) > 0]
        if table.shape[1] > 1:
            assert chi2_contingency(table).pvalue > 1e-4, (name, field)
    assert chi2_contingency(_table(presence, [len(s.images) for s in studies])).pvalue > 1e-4
    for field in ("shift_x", "shift_y", "scale", "rotation", "inspiration", "exposure", "contrast",
                  "gamma", "noise", "blur", "grid", "collimation"):  # fmt: skip
        # Ranks: the few spoilt images have values far out, which would make the score heavy-tailed.
        values = rankdata([getattr(image, field) for image in first])
        score = np.corrcoef(presence, values)[0, 1] * np.sqrt(len(values))
        assert abs(score) < 4, (name, field)


def test_no_finding_can_be_read_off_another(patients: list[Patient]) -> None:
    """One study a patient, the last: studies of one patient are not independent samples."""
    studies = [patient.studies[-1] for patient in patients]
    present = {
        name: np.array([any(f.name == name for f in s.findings) for s in studies])
        for name in FINDINGS
    }
    device = list(present["Support Devices"])
    for name in PATHOLOGIES:
        assert chi2_contingency(_table(present[name].astype(int), device)).pvalue > 1e-4, name
    for first, second in itertools.combinations(GROUNDED, 2):
        together = present[second][present[first]].mean()
        assert together < 1.8 * present[second].mean(), (first, second)


def test_rsna_cases_are_reproducible_and_of_three_classes() -> None:
    settings = HospitalSettings()
    cases = [make_rsna_case(settings, index) for index in range(400)]
    assert cases[7] == make_rsna_case(settings.model_copy(update={"rsna_images": 8}), 7)
    assert len({case.patient_id for case in cases}) == 400
    counts = Counter(case.label for case in cases)
    assert min(counts[label] for label in (NORMAL, NOT_NORMAL, OPACITY)) > 80
    opacities = {"Pneumonia", "Consolidation", "Lung Opacity"}
    for case in cases:
        boxed = {f.name for f in case.study.findings if f.key in case.boxed}
        assert len(case.boxed) in ((1, 2) if case.label == OPACITY else (0,))
        assert boxed <= opacities
        assert (case.label == NORMAL) == (not case.study.findings)
        if case.label == NOT_NORMAL:
            assert not opacities & {f.name for f in case.study.findings}
