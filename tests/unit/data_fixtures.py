"""Tiny copies of the published layouts, for the tests of cxrflow.data."""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from dicom_files import dataset, save

from cxrflow.data.layouts import layout
from cxrflow.data.readers.common_tables import Request, Tables


def read(name: str, root: Path, **request: object) -> Tables:
    """What the reader of a layout finds in a folder."""
    return layout(name).read(root, Request(**request))  # type: ignore[arg-type]


def dropped(tables: Tables, table: str) -> dict[str, int]:
    return {drop.reason: drop.count for drop in tables.dropped.get(table, [])}


@dataclass(frozen=True)
class Image:
    """An image of the tiny MIMIC: patient, study, view as the header writes it, and its time."""

    subject: str
    study: str
    number: int
    view: str = "PA"
    date: str = "21710304"
    time: str = "070512.500"

    @property
    def id(self) -> str:
        return "-".join([f"{self.number:08x}"] * 5)

    def path(self, suffix: str = "dcm") -> str:
        folder = f"files/p{self.subject[:2]}/p{self.subject}/s{self.study}"
        return f"{folder}/{self.id}.{suffix}"


# Patient 10000001: two studies a year apart (ids in the wrong order), the first with two frontals.
# 10000002: laterals only. 10000003: one study without impression. 11000004: two at one instant.
# 11000005: blank view.
IMAGES = (
    Image("10000001", "50000009", 1, "PA"),
    Image("10000001", "50000009", 2, "AP"),
    Image("10000001", "50000009", 3, "LATERAL"),
    Image("10000001", "50000001", 4, "AP", date="21720304"),
    Image("10000002", "50000002", 5, "LATERAL"),
    Image("10000003", "50000003", 6, "PA"),
    Image("11000004", "50000004", 7, "AP"),
    Image("11000004", "50000005", 8, "AP"),
    Image("11000005", "50000006", 9, ""),
)


def write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
    return path


def write_dicom(
    path: Path,
    view: str = "PA",
    date: str = "21710304",
    time: str = "070512.500",
    shape: tuple[int, int] = (12, 10),
) -> Path:
    header = dataset(np.zeros(shape, np.uint16), 12)
    header.StudyDate, header.StudyTime, header.ViewPosition = date, time, view
    path.parent.mkdir(parents=True, exist_ok=True)
    return save(header, path)


def mimic_cxr(root: Path, images: Sequence[Image] = IMAGES) -> Path:
    """The DICOM edition: lists and tree (reports are in the corpus folder)."""
    write_csv(
        root / "cxr-record-list.csv",
        ("subject_id", "study_id", "dicom_id", "path"),
        [(i.subject, i.study, i.id, i.path()) for i in images],
    )
    studies = dict.fromkeys((i.subject, i.study) for i in images)
    write_csv(
        root / "cxr-study-list.csv",
        ("subject_id", "study_id", "path"),
        [(p, s, f"files/p{p[:2]}/p{p}/s{s}.txt") for p, s in studies],
    )
    for image in images:
        write_dicom(root / image.path(), image.view, image.date, image.time)
    return root


def mimic_cxr_jpg(root: Path, images: Sequence[Image] = IMAGES) -> Path:
    """The JPG edition: StudyTime as a number, split and label tables, files that are not empty."""
    write_csv(
        root / "mimic-cxr-2.0.0-metadata.csv",
        (
            *("dicom_id", "subject_id", "study_id", "PerformedProcedureStepDescription"),
            *("ViewPosition", "Rows", "Columns", "StudyDate", "StudyTime"),
        ),
        [
            (i.id, i.subject, i.study, "CHEST", i.view, 12, 10, i.date, float(i.time))
            for i in images
        ],
    )
    write_csv(
        root / "mimic-cxr-2.0.0-split.csv",
        ("dicom_id", "study_id", "subject_id", "split"),
        [(i.id, i.study, i.subject, "train" if i.number < 5 else "validate") for i in images],
    )
    for image in images:
        path = root / image.path("jpg")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"a picture")
    return root


def corpus(root: Path, studies: Sequence[str], no_impression: Sequence[str] = ()) -> Path:
    """What cxrflow.reports.corpus writes, as far as cohorts read it."""
    root.mkdir(parents=True, exist_ok=True)
    bare = [study in no_impression for study in studies]
    pd.DataFrame(
        {
            "study_id": list(studies),
            "findings": "The lungs are clear. No effusion.",
            "impression": [None if none else "No acute process." for none in bare],
            "outcome": ["findings only" if none else "findings and impression" for none in bare],
        }
    ).to_parquet(root / "sections.parquet")
    sentences = [
        (study, section, index, sentence)
        for study, none in zip(studies, bare, strict=True)
        # Out of order on purpose: `index` gives the order.
        for section, index, sentence in (
            ("findings", 1, "No effusion."),
            ("findings", 0, "The lungs are clear."),
            *([] if none else [("impression", 0, "No acute process.")]),
        )
    ]
    pd.DataFrame(sentences, columns=["study_id", "section", "index", "sentence"]).to_parquet(
        root / "sentences.parquet"
    )
    pd.DataFrame({"document_id": list(studies), "text": "The lungs are clear."}).to_parquet(
        root / "documents.parquet"
    )
    return root


def ms_cxr(root: Path, rows: Sequence[tuple[Image, str, str, tuple[int, ...], str]]) -> Path:
    """MS-CXR v1.1.0; rows are image, category, phrase, box and the set's own split."""
    write_csv(
        root / "MS_CXR_Local_Alignment_v1.1.0.csv",
        (
            *("dicom_id", "category_name", "label_text", "path", "x", "y", "w", "h"),
            *("image_width", "image_height", "split"),
        ),
        [(i.id, c, phrase, i.path("jpg"), *box, 10, 12, s) for i, c, phrase, box, s in rows],
    )
    return root


def rsna(root: Path, negatives: int = 6, positives: int = 4) -> Path:
    """RSNA: positives have two boxes, so their rows repeat in both tables."""
    labels: list[tuple[object, ...]] = []
    classes: list[tuple[object, ...]] = []
    for number in range(negatives + positives):
        name = f"00000000-aaaa-4bbb-8ccc-{number:012d}"
        write_dicom(root / f"stage_2_train_images/{name}.dcm")
        if number < negatives:
            labels.append((name, "", "", "", "", 0))
            classes.append((name, "Normal" if number % 2 else "No Lung Opacity / Not Normal"))
        else:
            labels += [(name, 1.0, 2.0, 3.0, 4.0, 1), (name, 5.0, 6.0, 2.0, 2.0, 1)]
            classes += [(name, "Lung Opacity")] * 2
    write_csv(
        root / "stage_2_train_labels.csv",
        ("patientId", "x", "y", "width", "height", "Target"),
        labels,
    )
    write_csv(root / "stage_2_detailed_class_info.csv", ("patientId", "class"), classes)
    return root


def nih_mapping(root: Path, images: int) -> None:
    """The file that names RSNA's patients, of so many images each."""
    names = sorted(path.stem for path in (root / "stage_2_train_images").iterdir())
    records = [
        {"subset_img_id": name, "img_id": f"{number // images:08d}_{number:03d}.png"}
        for number, name in enumerate(names)
    ]
    (root / "pneumonia-challenge-dataset-mappings_2018.json").write_text(json.dumps(records))


def open_i_report(number: int, findings: str, impression: str, images: Sequence[str]) -> str:
    pictures = "".join(
        f'<parentImage id="{name}"><figureId>F1</figureId></parentImage>' for name in images
    )
    return (
        f'<eCitation><uId id="CXR{number}"/><MedlineCitation><Article><Abstract>'
        f'<AbstractText Label="FINDINGS">{findings}</AbstractText>'
        f'<AbstractText Label="IMPRESSION">{impression}</AbstractText>'
        f"</Abstract></Article></MedlineCitation>{pictures}</eCitation>"
    )


def covid_chestxray(root: Path) -> Path:
    """Patient 2: three radiographs, one lateral, one missing; patient 3: a CT and an AP Supine."""
    rows = [
        (2, 0, "PA", "X-ray", "a.jpg", "new opacity"),
        (2, 3, "PA", "X-ray", "b.jpg", "worse"),
        (2, 3, "L", "X-ray", "c.jpg", "worse"),
        (2, 5, "AP", "X-ray", "gone.jpg", "better"),
        (3, "", "Axial", "CT", "d.jpg", "slice"),
        (3, "", "AP Supine", "X-ray", "e.jpg", ""),
    ]
    write_csv(
        root / "metadata.csv",
        ("Patientid", "offset", "view", "modality", "filename", "clinical notes"),
        rows,
    )
    (root / "images").mkdir(parents=True, exist_ok=True)
    for *_, name, _notes in rows:
        if name != "gone.jpg":
            (root / "images" / name).write_bytes(b"a picture")
    return root
