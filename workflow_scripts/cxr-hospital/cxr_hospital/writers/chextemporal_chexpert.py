"""The CheXTemporal copy: progressions on images of the CheXpert Plus and ReXGradient copies.

As published, annotations alone, of all parent data sets in one file: ``gold_progression_pairs``, a
row an answer of a radiologist, of half of the patients with a pair, and ``silver_findings`` of
all of them, a tenth of which the language model has got wrong. CheXpert's gold paths lack the part.
A finding on two sides may have two answers, and a sixth of the others have a second one; two rows
are of MIMIC-CXR's images, which are not here.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cxr_hospital.patient import Patient
from cxr_hospital.progression import ImagePair, good_pairs
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.writers.chexpert import Record, make_chexpert_patient, records
from cxr_hospital.writers.folder import Counts, dataset_writer, each
from cxr_hospital.writers.rexgradient import (
    image_path,
    patient_count,
    patient_id,
    rexgradient_patient,
)

GOLD, SILVER = "gold_progression_pairs.parquet", "silver_findings.parquet"
WORDS = {"new": "New", "improved": "Improved", "stable": "Stable", "worsened": "Worse"}
RESOLVED = "Resolved"
ANSWERS = (*WORDS.values(), RESOLVED)
FINDINGS = (
    *("Enlarged Cardiomediastinum", "Cardiomegaly", "Lung Opacity", "Lung Lesion", "Edema"),
    *("Consolidation", "Pneumonia", "Atelectasis", "Pneumothorax", "Pleural Effusion"),
    "Pleural Other",
)
#: Two answers about one pair, of images that no copy has.
ELSEWHERE = [
    {
        "patient_id": "p19999999",
        "study_id_prev": "s59999998",
        "study_id_curr": "s59999999",
        "img_path_prev": "p19/p19999999/s59999998/0a1b2c3d-4e5f.jpg",
        "img_path_curr": "p19/p19999999/s59999999/1b2c3d4e-5f60.jpg",
        "disease_name": "edema",
        "progression": answer,
        "dataset": "mimic",
    }
    for answer in ("Worse", "New")
]
_EVERY, _SECOND, _WRONG = 2, 1 / 6, 0.1
_STREAM = 149
Rows = list[dict[str, Any]]


def answers(pair: ImagePair) -> Iterator[tuple[str, str]]:
    """Each finding and what became of it since the prior study, in the publisher's words."""
    study = pair.study
    for finding in study.findings:
        if finding.key in study.changes and finding.name in FINDINGS:
            yield finding.name, WORDS[study.changes[finding.key]]
    yield from ((gone.name, RESOLVED) for gone in study.resolved if gone.name in FINDINGS)


def _place(settings: HospitalSettings, patient: Patient, pair: ImagePair, current: bool) -> str:
    """The path of an image, from where both parents' files begin."""
    study, image = (pair.study, pair.current) if current else (pair.prior_study, pair.prior)
    if image.image_id.startswith("patient"):
        return f"{image.image_id}.jpg"
    return image_path(settings, patient.index, study, image).removeprefix("../")


def _labels(
    settings: HospitalSettings, dataset: str, name: str, prefix: str, patient: Patient
) -> tuple[Rows, Rows]:
    """Rows of both files about a patient."""
    rng = np.random.default_rng([settings.seed, patient.index, _STREAM])
    gold: Rows = []
    silver: Rows = []
    for pair in good_pairs(patient):
        prior, current = (_place(settings, patient, pair, which) for which in (False, True))
        studies = [f"study{study.study_id}" for study in (pair.prior_study, pair.study)]
        ids = dict(zip(("study_id_prev", "study_id_curr"), studies, strict=True))
        of_pair = {"dataset": dataset, "patient_id": name, **ids}
        for finding, answer in sorted({*answers(pair)}):
            wrong = str(rng.choice([word for word in ANSWERS if word != answer]))
            is_second, is_wrong = rng.random(2) < (_SECOND, _WRONG)
            for word in (answer, wrong) if is_second else (answer,):
                paths = {"img_path_prev": prior, "img_path_curr": current}
                said = {"disease_name": finding.lower(), "progression": word}
                gold.append({**of_pair, **paths, **said})
            silver.append(
                {
                    **of_pair,
                    "finding_token": finding.lower().replace(" ", "_"),
                    "finding": finding,
                    "progression": wrong if is_wrong else answer,
                    **dict.fromkeys(("anatomy", "reasoning"), "lungs"),
                    "evidence": [f"{finding} {answer}".lower()],
                    "parent_image_curr": f"{dataset}/{prefix}{current}",
                    "parent_image_prev": f"{dataset}/{prefix}{prior}",
                    "silver_mask_path": "",
                    "has_mask": 0,
                }
            )
    return gold, silver


def _of_chexpert(settings: HospitalSettings, record: Record) -> tuple[Rows, Rows]:
    name, patient = f"patient{record.number:05d}", make_chexpert_patient(settings, record)
    return _labels(settings, "chexpert", name, f"{record.split}/", patient)


def _of_rexgradient(settings: HospitalSettings, number: int) -> tuple[Rows, Rows]:
    patient = rexgradient_patient(settings, number)
    return _labels(settings, "rexgradient", patient_id(number), "", patient)


@dataset_writer()
def write_chextemporal_chexpert(folder: Path, settings: HospitalSettings, threads: int) -> Counts:
    """Write both tables."""
    people = [one for one in records(settings) if one.split != "test" and not one.orders]
    labels = [*each(people, threads, "chextemporal", _of_chexpert, settings)]
    numbers = range(patient_count(settings))
    labels += each(numbers, threads, "chextemporal", _of_rexgradient, settings)
    labels = [of_patient for of_patient in labels if of_patient[1]]
    gold = [row for rows, _ in labels[::_EVERY] for row in rows] + ELSEWHERE
    silver = [row for _, rows in labels for row in rows]
    columns = [*ELSEWHERE[0]]  # in the publisher's order
    pd.DataFrame(gold, columns=columns).to_parquet(folder / GOLD, index=False)
    pd.DataFrame(silver).to_parquet(folder / SILVER, index=False)
    return {"patients": len(labels), "gold_labels": len(gold), "silver_labels": len(silver)}
