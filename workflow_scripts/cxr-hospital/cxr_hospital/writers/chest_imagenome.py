"""The Chest ImaGenome copy: scene graphs of all frontal images, a gold set, images to avoid.

``silver_dataset/scene_graph.zip`` holds a JSON file an image, with the comparisons of its report.
The comparisons of ``gold_dataset`` are true; all images of its patients stand in
``splits/images_to_avoid.csv``. The splits are by patient and independent of MIMIC-CXR's.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cxr_hospital import progression
from cxr_hospital.patient import FIRST_FOLLOWED, Patient, make_patient, of_mimic_cxr
from cxr_hospital.report import report_of
from cxr_hospital.scene_graph import ATTRIBUTES, COMPARISONS, regions_of, scene_graph
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.writers.folder import (
    Counts,
    Row,
    dataset_writer,
    each,
    of_followed,
    write_table,
    write_truth,
    write_zip,
)
from cxr_hospital.writers.mimic_cxr import study_folder

GOLD = "gold_object_comparison_with_coordinates.txt"
GOLD_COLUMNS = (
    *("relationship_id", "subject_id", "object_id", "patient_id", "current_image_id"),
    *("previous_image_id", "bbox", "comparison", "attribute", "sentence"),
)
SPLIT_COLUMNS = ("", "subject_id", "study_id", "dicom_id", "path", "ViewPosition")
_STREAM = 106


def _split_and_gold(settings: HospitalSettings, index: int) -> tuple[str, bool]:
    """The patient's split, and True if it is in the gold set; patients of MS-CXR-T never are."""
    split, gold = np.random.default_rng([settings.seed, index, _STREAM]).random(2)
    share = of_followed(settings, "chest_imagenome").gold_share
    name = "train" if split < 0.7 else "valid" if split < 0.8 else "test"
    return name, bool(gold < share and index < FIRST_FOLLOWED)


def _pairs(patient: Patient) -> dict[str, progression.ImagePair]:
    """Each frontal image with the first frontal one of the study before, by image id."""
    return {
        current.image_id: progression.ImagePair(patient, prior_study, study, prior, current)
        for prior_study, study in progression.study_pairs(patient)
        for prior in progression.frontals(prior_study)[:1]
        for current in progression.frontals(study)
    }


def _patient(settings: HospitalSettings, index: int) -> dict[str, Any]:
    """Scene graphs and rows of all tables of one patient."""
    patient = make_patient(settings, index)
    split, gold = _split_and_gold(settings, index)
    pairs = _pairs(patient)
    graphs: list[tuple[str, str]] = []
    image_rows: list[Row] = []
    for study in patient.studies:
        report = report_of(settings, patient, study)
        texts = [*report.findings, *report.impression, *report.last_paragraph]
        for image in progression.frontals(study):
            graph = scene_graph(settings, patient, study, image, pairs.get(image.image_id), texts)
            graphs.append((f"scene_graph/{image.image_id}_SceneGraph.json", json.dumps(graph)))
            path = f"{study_folder(study)}/{image.image_id}.dcm"
            image_rows.append((study.subject_id, study.study_id, image.image_id, path, image.view))
    # Studies as a radiologist sees them: one image each, the first that is not spoilt.
    labelled = [
        (pair, finding, label)
        for pair in progression.good_pairs(patient)
        for finding in progression.FINDINGS
        if (label := progression.true_label(pair.study, finding))
    ]
    truth = [
        (image_id, pair.prior.image_id, finding, "several" if len(ways) > 1 else next(iter(ways)))
        for image_id, pair in pairs.items()
        for finding, ways in progression.true_directions(pair.study).items()
    ]
    return {
        "graphs": graphs,
        "images": image_rows,
        "split": split,
        "gold": [row for triple in labelled for row in _gold_rows(*triple)] if gold else None,
        "truth": truth,
    }


def _gold_rows(pair: progression.ImagePair, finding: str, label: str) -> list[Row]:
    """A row a region, as in the published table."""
    states = [f for f in (*pair.study.findings, *pair.study.resolved) if f.name == finding]
    return [
        (
            f"{pair.study.study_id}|{finding}|{region}",
            f"{pair.current.image_id}_{region}",
            f"{pair.prior.image_id}_{region}",
            pair.patient.subject_id,
            pair.current.image_id,
            pair.prior.image_id,
            region,
            f"comparison|yes|{COMPARISONS[label]}",
            ATTRIBUTES[finding],
            "",
        )
        for region in dict.fromkeys(name for state in states for name in regions_of(state))
    ]


@dataset_writer(followed=True)
def write_chest_imagenome(folder: Path, settings: HospitalSettings, threads: int) -> Counts:
    """Write silver and gold data."""
    patients = list(each(of_mimic_cxr(settings), threads, "chest_imagenome", _patient, settings))
    silver, gold = folder / "silver_dataset", folder / "gold_dataset"
    for subfolder in (silver / "splits", gold):
        subfolder.mkdir(parents=True)
    graphs = sorted(graph for patient in patients for graph in patient["graphs"])
    write_zip(silver / "scene_graph.zip", 2021, graphs)
    for split in ("train", "valid", "test"):
        rows = sorted(row for p in patients if p["split"] == split for row in p["images"])
        numbered = [(number, *row) for number, row in enumerate(rows)]
        write_table(silver / "splits" / f"{split}.csv", SPLIT_COLUMNS, numbered)
    of_gold = [patient for patient in patients if patient["gold"] is not None]
    avoided = sorted(row for patient in of_gold for row in patient["images"])
    write_table(silver / "splits" / "images_to_avoid.csv", SPLIT_COLUMNS[1:], avoided)
    compared = [row for patient in of_gold for row in patient["gold"]]
    write_table(gold / GOLD, GOLD_COLUMNS, compared, "\t")
    truth = [row for patient in patients for row in patient["truth"]]
    columns = ["image_id", "prior_image_id", "finding", "label"]
    write_truth(folder, "progressions", pd.DataFrame(truth, columns=columns))
    gold_counts = {"gold_patients": len(of_gold), "gold_labels": len(compared)}
    return {"scene_graphs": len(graphs)} | gold_counts
