"""The CheXpert copy: a third hospital, and cases drawn to order for 8x200.

Bodies, courses and reports are as in the MIMIC-CXR copy, from random streams of their own; images
have another look (darker, flatter, smooth, mostly with black edges, 8 bits), most are portable.
For each category of ConVIRT's 8x200 sets (Appendix C) there are patients with this finding alone:
candidates, and queries, which are well posed and show it clearly. Paths begin with the small
release's name, as published. test_labels.csv, a separate download, lies beside the other two.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cxr_hospital.acquisition import Acquisition, Look, sample_acquisition, sample_acquisitions
from cxr_hospital.canvas import grey
from cxr_hospital.course import Chapter, Finding, sample_course, sample_finding
from cxr_hospital.drawing import draw
from cxr_hospital.patient import Patient, Study, sample_times, with_body
from cxr_hospital.report import PatientReport, write_report
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.writers.folder import Counts, Row, dataset_writer, each, write_table

#: The labels, in the order of CheXpert's lists.
OBSERVATIONS = (
    *("No Finding", "Enlarged Cardiomediastinum", "Cardiomegaly", "Lung Opacity", "Lung Lesion"),
    *("Edema", "Consolidation", "Pneumonia", "Atelectasis", "Pneumothorax", "Pleural Effusion"),
    *("Pleural Other", "Fracture", "Support Devices"),
)
COLUMNS = ("Path", "Sex", "Age", "Frontal/Lateral", "AP/PA", *OBSERVATIONS)
LISTS = {"train": "train.csv", "valid": "valid.csv", "test": "test_labels.csv"}
PREFIX = "CheXpert-v1.0-small/"
JPEG_QUALITY = 92
CATEGORIES = (
    *("Atelectasis", "Cardiomegaly", "Edema", "Fracture", "No Finding", "Pleural Effusion"),
    *("Pneumonia", "Pneumothorax"),
)
LOOK = Look(
    gamma=(1.3, 1.7),
    contrast=(0.72, 0.9),
    exposure=(0.02, 0.08),
    noise=(0.004, 0.012),
    blur=(0.0015, 0.004),
    collimation=(0.02, 0.07),
    collimated_share=0.75,
    grid_share=0.02,
)
#: As in CheXpert 10 % of the studies have no finding, 85 % of the frontal images are AP, 14 % of
#: all are lateral, 2 % of the studies have a second frontal image.
_SHARES = {
    "no_pathology_share": 0.1,
    "several_pathologies_share": 0.5,
    "ap_share": 0.75,
    "lateral_share": 0.6,
    "lateral_only_share": 0.0,
    "second_frontal_share": 0.02,
    "blank_view_share": 0.0,
}
#: Shares of one to four studies in train.
_LENGTHS = (0.45, 0.25, 0.2, 0.1)
#: Six patients of 8x200 have a candidate and a query.
_BOTH = 6
_CLEAR = 0.6  # severity from which a query shows its category clearly
#: Candidates are AP as often as published: 1,101 of 1,600.
_AP_CANDIDATES = 0.69
#: Numbers of the first patients of the published valid and test splits.
_FIRST_VALID, _FIRST_TEST = 64_541, 64_741
_STREAM = 111
_REPORT = 4  # stream of the report, after those of body, course, times and images
#: Findings that a reader of the image labels as a lung opacity and as a wide mediastinum.
_PARENTS: Mapping[str, set[str]] = {
    "Lung Opacity": {
        *("Lung Opacity", "Pneumonia", "Consolidation", "Atelectasis", "Edema", "Lung Lesion")
    },
    "Enlarged Cardiomediastinum": {"Cardiomegaly", "Enlarged Cardiomediastinum"},
}

Labels = dict[str, float | None]


@dataclass(frozen=True)
class Sizes:
    """Patients by split (one study each in valid and test), images of 8x200 by category."""

    train: int
    valid: int
    test: int
    candidates: int
    queries: int


def sizes(settings: HospitalSettings) -> Sizes:
    """Follow the size of the hospital up to the published sizes: 200 / 10 of 8x200, 200 / 500."""

    def share(divisor: int, least: int, most: int) -> int:
        return min(max(settings.patients // divisor, least), most)

    candidates = share(29, 2, 200)
    return Sizes(
        train=share(8, 6, 60_000),
        valid=share(12, 6, 200),
        test=settings.chexpert_test_patients or share(60, 2, 500),
        candidates=candidates,
        queries=min(max(candidates // 2, 1), 10),
    )


@dataclass(frozen=True)
class Order:
    """An image drawn to order; its ``role`` in 8x200 is candidate or query."""

    role: str
    category: str


@dataclass(frozen=True)
class Record:
    """A patient of the copy: number, split, and the orders that its studies fill."""

    number: int
    split: str
    orders: tuple[Order, ...] = ()


def records(settings: HospitalSettings) -> list[Record]:
    """All patients by number: train, those drawn to order, valid, test."""
    size = sizes(settings)
    orders: list[tuple[Order, ...]] = []
    for index, category in enumerate(CATEGORIES):
        candidate, query = Order("candidate", category), Order("query", category)
        shared = 1 if index < _BOTH else 0
        orders += [(candidate, query)] * shared
        orders += [(candidate,)] * (size.candidates - shared) + [(query,)] * (size.queries - shared)
    first = size.train + 1
    return [
        *(Record(number, "train") for number in range(1, first)),
        *(Record(first + index, "train", order) for index, order in enumerate(orders)),
        *(Record(_FIRST_VALID + index, "valid") for index in range(size.valid)),
        *(Record(_FIRST_TEST + index, "test") for index in range(size.test)),
    ]


def make_chexpert_patient(settings: HospitalSettings, record: Record) -> Patient:
    """Draw a patient, who depends on the seed, the number and the orders alone.

    The id of an image is the path of its file, without suffix.
    """
    settings = settings.model_copy(update=_SHARES)
    body, course, clock, camera = (
        np.random.default_rng([settings.seed, record.number, stream, _STREAM])
        for stream in range(4)
    )
    if record.orders:
        chapters = [_ordered(course, order) for order in record.orders]
    else:
        length = int(course.choice([1, 2, 3, 4], p=_LENGTHS)) if record.split == "train" else 1
        chapters = sample_course(course, settings, length)
    studies = []
    times = sample_times(clock, settings, len(chapters))
    for number, (time, chapter) in enumerate(zip(times, chapters, strict=True)):
        images: tuple[Acquisition, ...]
        if record.orders:
            images = (_ordered_image(camera, settings, record.orders[number]),)
        else:
            images = sample_acquisitions(camera, settings, ("1", "2", "3"))
        named_images = []
        for place, image in enumerate(images, start=1):
            side = "frontal" if image.frontal else "lateral"
            name = f"patient{record.number:05d}/study{number + 1}/view{place}_{side}"
            named_images.append(replace(toned(image, camera), image_id=name))
        studies.append(Study(record.number, number + 1, time, *chapter, tuple(named_images)))
    return with_body(body, record.number, record.number, studies)


def labels_of(settings: HospitalSettings, record: Record, patient: Patient, number: int) -> Labels:
    """All 14 labels of a study: in train those of its report (1, 0, -1, None), elsewhere the truth;
    for a case drawn to order its category alone."""
    study = patient.studies[number]
    if record.orders:
        return {name: float(name == record.orders[number].category) for name in OBSERVATIONS}
    if record.split == "train":
        states = report_of(settings, record, patient, number).labels
        return {name: float(states[name]) if name in states else None for name in OBSERVATIONS}
    return truth(study)


def report_of(
    settings: HospitalSettings, record: Record, patient: Patient, number: int
) -> PatientReport:
    """The report of a study, which CheXpert's training labels follow and CheXpert Plus has."""
    rng = np.random.default_rng([settings.seed, record.number, _REPORT, _STREAM, number])
    return write_report(patient, patient.studies[number], rng, settings)


def truth(study: Study) -> Labels:
    """Labels by a reader of the images: 1 or 0 for each observation."""
    present = {finding.name for finding in study.findings}
    labels = {name: float(bool(present & _PARENTS.get(name, {name}))) for name in OBSERVATIONS}
    return {**labels, "No Finding": float(not present - {"Support Devices"})}


def _ordered(rng: np.random.Generator, order: Order) -> Chapter:
    """A study with the category's finding and no other."""
    findings: tuple[Finding, ...] = ()
    if order.category != "No Finding":
        finding = sample_finding(rng, order.category, 1)
        while order.role == "query" and finding.severity < _CLEAR:
            finding = sample_finding(rng, order.category, 1)
        findings = (finding,)
    return Chapter(findings, {}, ())


def _ordered_image(
    rng: np.random.Generator, settings: HospitalSettings, order: Order
) -> Acquisition:
    """A frontal image; a query is not spoilt."""
    if order.role == "query":
        settings = settings.model_copy(update={"spoilt_share": 0.0})
    projection = "AP" if rng.random() < _AP_CANDIDATES else "PA"
    return sample_acquisition(rng, settings, "1", projection)


def toned(image: Acquisition, rng: np.random.Generator) -> Acquisition:
    """The image with the tone of this hospital; its defects stay."""
    tone: dict[str, Any] = {
        name: round(float(rng.uniform(*getattr(LOOK, name))), 5)
        for name in ("gamma", "contrast", "exposure", "noise", "blur", "collimation")
    }
    if rng.random() >= LOOK.collimated_share:
        tone["collimation"] = 0.0
    spoilt = {"overexposed": "exposure", "blurred": "blur"}.get(image.spoilt or "")
    tone.pop(spoilt or "", None)
    grid = round(float(rng.uniform(0.008, 0.02)), 4) if rng.random() < LOOK.grid_share else 0.0
    return replace(image, **tone, grid=grid, bits=8, monochrome1=False)


def image_row(
    settings: HospitalSettings, record: Record, patient: Patient, number: int, image: Acquisition
) -> Row:
    """The row of an image of study ``number`` (from 0); its path begins with ``PREFIX``."""
    path = f"{PREFIX}{record.split}/{image.image_id}.jpg"
    sex = {"F": "Female", "M": "Male"}[patient.sex]
    view = ("Frontal", image.projection) if image.frontal else ("Lateral", None)
    labels = labels_of(settings, record, patient, number)
    return (path, sex, patient.age, *view, *(labels[name] for name in OBSERVATIONS))


def _write_patient(
    output: Path, settings: HospitalSettings, record: Record
) -> tuple[str, list[Row]]:
    """Write the images of a patient; returns its split and its rows of the list."""
    patient = make_chexpert_patient(settings, record)
    rows: list[Row] = []
    for number, study in enumerate(patient.studies):
        for image in study.images:
            row = image_row(settings, record, patient, number, image)
            name = str(row[0]).removeprefix(PREFIX)
            path = output / name
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = draw(patient, study, image, settings.image_size).image
            grey(pixels).save(path, "JPEG", quality=JPEG_QUALITY)
            rows.append((name, *row[5:]) if record.split == "test" else row)
    return record.split, rows


@dataset_writer()
def write_chexpert(folder: Path, settings: HospitalSettings, threads: int) -> Counts:
    """Write images and lists."""
    lists: dict[str, list[Row]] = {split: [] for split in LISTS}
    patients = records(settings)
    for split, rows in each(patients, threads, "chexpert", _write_patient, folder, settings):
        lists[split] += rows
    for split, name in LISTS.items():
        columns = ("Path", *OBSERVATIONS) if split == "test" else COLUMNS
        write_table(folder / name, columns, lists[split])
    uncertain = sum(-1.0 in row for row in lists["train"])
    images = {f"{split}_images": len(rows) for split, rows in lists.items()}
    return {"patients": len(patients), **images, "uncertain_images": uncertain}
