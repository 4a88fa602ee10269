"""The synthetic RSNA challenge has the published layout, and every opacity has its box."""

from pathlib import Path

import numpy as np
import pandas as pd
import pydicom
from phantom_fixtures import SETTINGS


def test_rsna(written: Path) -> None:
    base = written / "rsna"
    labels = pd.read_csv(base / "stage_2_train_labels.csv")
    classes = pd.read_csv(base / "stage_2_detailed_class_info.csv")
    submission = pd.read_csv(base / "stage_2_sample_submission.csv")
    assert list(labels) == ["patientId", "x", "y", "width", "height", "Target"]
    assert list(classes) == ["patientId", "class"]
    assert list(submission) == ["patientId", "PredictionString"]
    assert labels.patientId.value_counts().to_dict() == classes.patientId.value_counts().to_dict()
    boxes = ["x", "y", "width", "height"]
    assert labels.loc[labels.Target == 0, boxes].isna().all(axis=None)
    assert labels.loc[labels.Target == 1, boxes].notna().all(axis=None)
    target = labels.drop_duplicates("patientId").set_index("patientId").Target
    class_of = classes.drop_duplicates().set_index("patientId")["class"]
    assert set(class_of) == {"Normal", "No Lung Opacity / Not Normal", "Lung Opacity"}
    assert (class_of.eq("Lung Opacity").astype(int) == target).all()
    train = {path.stem for path in (base / "stage_2_train_images").glob("*.dcm")}
    test = {path.stem for path in (base / "stage_2_test_images").glob("*.dcm")}
    assert train == set(labels.patientId) and test == set(submission.patientId)
    assert not train & test
    for path in base.rglob("*.dcm"):
        read = pydicom.dcmread(path)
        assert read.file_meta.TransferSyntaxUID.name == "JPEG Baseline (Process 1)"
        assert read.PatientID == path.stem and read.BitsStored == 8
        assert read.PhotometricInterpretation == "MONOCHROME2"
        assert read.pixel_array.shape == (64, 64) and read.pixel_array.dtype == np.uint8
    positive = labels[labels.Target == 1]
    assert (positive.x + positive.width <= 64).all() and (positive.width > 0).all()


def test_every_rsna_opacity_has_a_box() -> None:
    from cxrflow.phantom.drawing import finding_boxes
    from cxrflow.phantom.writers.rsna import OPACITY, make_rsna_case

    for index in range(120):
        case = make_rsna_case(SETTINGS, index)
        boxes = finding_boxes(case.patient, case.study, case.acquisition, 64)
        assert (case.label == OPACITY) == any(boxes.get(key) for key in case.boxed)
