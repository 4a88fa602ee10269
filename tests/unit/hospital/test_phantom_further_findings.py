"""What settings add to the hospital: findings, a long tail, stock sentences, exact names, truth."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from phantom_fixtures import SETTINGS
from pydantic import ValidationError

from cxr_hospital.acquisition import sample_acquisition
from cxr_hospital.course import ONSET_LONG_TAIL, Finding
from cxr_hospital.draw import WRITERS, writer
from cxr_hospital.drawing import draw, finding_boxes
from cxr_hospital.grammar import OBSERVATIONS
from cxr_hospital.patient import Patient, Study, hospital, make_patient
from cxr_hospital.report import PatientReport, report_of
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.truth import read_truth
from cxr_hospital.wording import chronic
from cxr_labels.observations import OBSERVATIONS as LABELLED
from cxr_labels.scope.labeller import ScopeLabeller

SHARES = dict.fromkeys(
    ("Enlarged Cardiomediastinum", "Pleural Other", "Emphysema", "Fibrosis", "Hernia"), 0.3
)
FURTHER = HospitalSettings(patients=250, typo_share=0, further_findings=SHARES)
PLAIN = HospitalSettings(patients=250, typo_share=0)
PLACES = {
    "Enlarged Cardiomediastinum": ("none", "mediastinum"),
    "Pleural Other": ("left", "lateral"),
    "Emphysema": ("both", ""),
    "Fibrosis": ("right", "lower"),
    "Hernia": ("none", "hiatus"),
}


def written_reports(settings: HospitalSettings) -> list[tuple[Study, PatientReport]]:
    return [
        (study, report_of(settings, patient, study))
        for patient in hospital(settings)
        for study in patient.studies
    ]


def section(report: PatientReport) -> tuple[str, ...]:
    """The one that the labels are of."""
    return report.impression or report.findings or report.last_paragraph


def test_other_findings_stay_where_further_ones_come() -> None:
    for old, new in zip(hospital(PLAIN), hospital(FURTHER), strict=True):
        assert [study.images for study in old.studies] == [study.images for study in new.studies]
        for before, after in zip(old.studies, new.studies, strict=True):
            assert before.findings == tuple(f for f in after.findings if f.name not in SHARES)
            changes = {key: change for key, change in after.changes.items() if key < 101}
            assert before.changes == changes


def test_shares_and_course_of_further_findings() -> None:
    patients = list(hospital(FURTHER.model_copy(update={"patients": 1500})))
    for name in SHARES:
        having = [p for p in patients if any(f.name == name for s in p.studies for f in s.findings)]
        assert 0.2 < len(having) / len(patients) <= 0.33  # some find no place
    for patient in patients:
        for before, after in zip(patient.studies, patient.studies[1:], strict=False):
            keys = {finding.key for finding in before.findings}
            for finding in after.findings:
                assert (after.changes[finding.key] == "new") == (finding.key not in keys)
            gone = keys - {finding.key for finding in after.findings}
            assert {finding.key for finding in after.resolved} == gone


def test_a_misspelt_finding_is_refused() -> None:
    with pytest.raises(ValidationError, match="Emphysema"):
        HospitalSettings.model_validate({"further_findings": {"Emphysima": 0.1}})


@pytest.mark.parametrize("settings", [FURTHER, HospitalSettings(prevalence="long_tail")])
def test_our_labeller_reads_the_words_as_they_are_meant(settings: HospitalSettings) -> None:
    names = ("Enlarged Cardiomediastinum", "Pleural Other", "No Finding")
    some = settings.model_copy(update={"patients": 200, "typo_share": 0})
    reports = written_reports(some)
    read = ScopeLabeller().label([list(section(report)) for _, report in reports])
    states = Counter[tuple[str, object]]()
    for (study, report), values in zip(reports, read, strict=True):
        labels = dict(zip(LABELLED, values, strict=True))
        present = {finding.name for finding in study.findings}
        for name in names:
            written = report.labels.get(name)
            if (written, labels[name]) == (-1, 0):  # to the labeller "stable" yields to "normal"
                assert any("stable" in sentence for sentence in section(report))
                continue
            assert written == (None if np.isnan(labels[name]) else labels[name]), section(report)
            states[name, written] += 1
            if written == 0 and not study.resolved:
                assert not present & chronic.BLOCKERS.get(name, frozenset())
    assert all(states[name, 0] > 5 for name in names[:2])


def test_both_are_said_denied_and_hedged() -> None:
    reports = written_reports(FURTHER)
    states = Counter(item for _, report in reports for item in report.labels.items())
    for name in ("Enlarged Cardiomediastinum", "Pleural Other"):
        assert all(states[name, state] > 3 for state in (1, 0, -1)), name


def bare(name: str, severity: float, view: str = "PA") -> tuple[Patient, Study, object]:
    patient = make_patient(PLAIN, 5)
    image = sample_acquisition(np.random.default_rng(3), PLAIN, "x", view)
    side, zone = PLACES[name]
    findings = (Finding(name, side, zone, severity, "", 1),) if severity else ()
    study = patient.studies[0]
    return patient, Study(1, 1, study.time, findings, {}, (), (image,)), image


@pytest.mark.parametrize("name", SHARES)
def test_a_further_finding_changes_its_box_alone(name: str) -> None:
    without, mild, severe = (draw(*bare(name, s), 128) for s in (0.0, 0.35, 0.9))  # type: ignore[arg-type]
    assert finding_boxes(*bare(name, 0.9), 128) == severe.boxes  # type: ignore[arg-type]
    changes = [np.abs(image.image - without.image) for image in (mild, severe)]
    assert changes[1].sum() > changes[0].sum() > 0
    inside = np.zeros_like(without.image, dtype=bool)
    for x, y, width, height in severe.boxes[1]:
        inside[y - 3 : y + height + 3, x - 3 : x + width + 3] = True
    clear = changes[1] > 0.08
    assert clear.any() and (clear & inside).sum() > 0.75 * clear.sum()


def test_from_the_side_a_hernia_shows_and_a_wide_mediastinum_does_not() -> None:
    assert draw(*bare("Hernia", 0.9, "LATERAL"), 96).boxes  # type: ignore[arg-type]
    assert not draw(*bare("Enlarged Cardiomediastinum", 0.9, "LATERAL"), 96).boxes  # type: ignore[arg-type]


def test_the_long_tail_is_about_mimic_cxrs() -> None:
    """MIMIC-CXR-JPG's table of labels, about: shares of studies in which each is positive."""
    published = {
        "Lung Opacity": 0.23, "Pleural Effusion": 0.24, "Atelectasis": 0.20, "Cardiomegaly": 0.20,
        "Edema": 0.12, "Pneumonia": 0.07, "Consolidation": 0.05, "Pneumothorax": 0.045,
        "Enlarged Cardiomediastinum": 0.03, "Lung Lesion": 0.03, "Fracture": 0.02,
        "Pleural Other": 0.01,
    }  # fmt: skip
    settings = HospitalSettings(patients=1200, prevalence="long_tail")
    studies = [study for patient in hospital(settings) for study in patient.studies]
    counts = Counter(name for study in studies for name in {f.name for f in study.findings})
    assert set(published) == set(ONSET_LONG_TAIL) == set(counts) - {"Support Devices"}
    for name, share in published.items():
        assert abs(counts[name] / len(studies) - share) < 0.01 + 0.2 * share, name


def test_stock_sentences_are_of_normal_studies() -> None:
    usual, stock = (
        written_reports(HospitalSettings(patients=400, stock_impression_share=share))
        for share in (0.0, 1.0)
    )

    def equal(reports: list[tuple[Study, PatientReport]]) -> float:
        texts = [" ".join(report.impression) for _, report in reports if report.impression]
        counts = Counter(texts)
        return sum(counts[text] > 1 for text in texts) / len(texts)

    assert equal(usual) < 0.05 and equal(stock) > 0.2
    for study, report in stock:
        if report.impression and not {f.name for f in study.findings} - {"Support Devices"}:
            assert len(report.impression) == 1 and report.labels == {"No Finding": 1}


def test_exact_names_stand_in_sentences_of_every_class() -> None:
    names = set(OBSERVATIONS.values()) - {"No Finding"}
    settings = HospitalSettings(
        patients=500, typo_share=0, prevalence="long_tail", exact_name_share=0.5,
        further_findings={"Enlarged Cardiomediastinum": 0.2, "Pleural Other": 0.2},
    )  # fmt: skip
    reports = written_reports(settings)
    for name in names:
        # CheXpert's Edema is "pulmonary edema", which holds it.
        with_name, positive = 0, 0
        for _, report in reports:
            for observation, where, number in report.diagnostic:
                if observation == name:
                    positive += 1
                    with_name += name.lower() in getattr(report, where)[number].lower()
        assert with_name > 0.25 * positive > 5, name


def test_misleading_sentences_are_true_and_of_the_other_side() -> None:
    settings = HospitalSettings(patients=300, typo_share=0, misleading_share=1.0)
    misled = 0
    for study, report in written_reports(settings):
        for text in report.impression:
            match = re.match(
                r"(?:No|There is no|No evidence of|The) (left|right) (?:rib )?(.+?)"
                r"(?: has resolved| is no longer seen|)\.$",
                text,
            )
            side_names = {(f.side, f.name.lower()) for f in study.findings}
            if match and any(match[2] == name for _, name in side_names):
                misled += 1
                assert not {(match[1], match[2]), ("both", match[2])} & side_names
                assert report.labels[match[2].title()] != 0
    assert misled > 50


def test_every_data_set_can_be_written_with_all_of_it(tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(
        update={
            "further_findings": SHARES,
            "prevalence": "long_tail",
            "exact_name_share": 0.5,
            "misleading_share": 0.5,
            "stock_impression_share": 0.8,
            "finding_truth": True,
        }
    )
    for name in WRITERS:
        assert writer(name)(settings, tmp_path / name, 1)
    sentences = read_truth(tmp_path / "mimic_cxr", "sentences")
    boxes = read_truth(tmp_path / "mimic_cxr", "boxes")
    studies = {s.study_id: (p, s) for p in hospital(settings) for s in p.studies}
    for row in sentences.itertuples():
        report = report_of(settings, *studies[row.study_id])
        assert getattr(report, row.section)[row.number] == row.sentence
    for (study_id, observation), rows in boxes.groupby(["study_id", "observation"]):
        _, study = studies[study_id]
        assert observation in {finding.name for finding in study.findings}
        assert set(rows["image_id"]) <= {image.image_id for image in study.images}
    states = read_truth(tmp_path / "mimic_cxr", "states").set_index("study_id")["state"]
    assert set(states.index) == set(studies) and 2 < states.nunique() < len(states)
    for study_id, (_, study) in studies.items():
        assert all(finding.name in states[study_id] for finding in study.findings)
    assert not list((tmp_path / "mimic_cxr_jpg").glob("TRUTH_*"))


def test_a_folder_without_the_states_of_its_studies_is_drawn_again(tmp_path: Path) -> None:
    """As one that was drawn before there were any; the same settings give the same manifest."""
    folder, settings = tmp_path / "mimic_cxr", SETTINGS.model_copy(update={"patients": 3})
    write = writer("mimic_cxr")
    assert write(settings, folder, 1) and not write(settings, folder, 1)
    manifest, states = (folder / name for name in ("MANIFEST.json", "TRUTH_STATES.parquet"))
    before = manifest.read_bytes()
    assert not (folder / "TRUTH_BOXES.parquet").exists()
    states.unlink()
    assert write(settings, folder, 1) and states.is_file() and manifest.read_bytes() == before
