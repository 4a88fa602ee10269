"""The synthetic MIMIC-CXR-JPG has the published tables, which say what images and reports say."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pydicom
import pytest
from phantom_fixtures import SETTINGS
from PIL import Image

from cxrflow.errors import InputError
from cxrflow.phantom.patient import hospital
from cxrflow.phantom.report import report_of
from cxrflow.phantom.writers.mimic_cxr import write_mimic_cxr
from cxrflow.phantom.writers.mimic_cxr_jpg import to_jpg, write_mimic_cxr_jpg


def test_jpg_tables(written: Path) -> None:
    base = written / "mimic_cxr_jpg"
    prefix = "mimic-cxr-2.0.0-"
    metadata = pd.read_csv(base / f"{prefix}metadata.csv.gz")
    split = pd.read_csv(base / f"{prefix}split.csv.gz")
    assert list(metadata) == [
        "dicom_id",
        "subject_id",
        "study_id",
        "PerformedProcedureStepDescription",
        "ViewPosition",
        "Rows",
        "Columns",
        "StudyDate",
        "StudyTime",
        "ProcedureCodeSequence_CodeMeaning",
        "ViewCodeSequence_CodeMeaning",
        "PatientOrientationCodeSequence_CodeMeaning",
    ]
    assert list(split) == ["dicom_id", "study_id", "subject_id", "split"]
    assert set(split.split) <= {"train", "validate", "test"}
    assert split.groupby("subject_id").split.nunique().max() == 1
    records = pd.read_csv(written / "mimic_cxr" / "cxr-record-list.csv.gz")
    assert set(metadata.dicom_id) == set(split.dicom_id) == set(records.dicom_id)
    paths = records.set_index("dicom_id").path
    for row in metadata.itertuples():
        header = pydicom.dcmread(
            written / "mimic_cxr" / str(paths[row.dicom_id]), stop_before_pixels=True
        )
        assert (row.Rows, row.Columns) == (header.Rows, header.Columns)
        assert str(row.StudyDate) == header.StudyDate
        assert float(header.StudyTime) == row.StudyTime
        assert header.ViewPosition == ("" if pd.isna(row.ViewPosition) else row.ViewPosition)


def test_label_tables_say_what_the_reports_say(written: Path) -> None:
    chexpert = pd.read_csv(written / "mimic_cxr_jpg" / "mimic-cxr-2.0.0-chexpert.csv.gz")
    negbio = pd.read_csv(written / "mimic_cxr_jpg" / "mimic-cxr-2.0.0-negbio.csv.gz")
    names = list(chexpert)[2:]
    assert list(chexpert) == list(negbio)
    assert list(chexpert)[:2] == ["subject_id", "study_id"] and names == sorted(names)
    assert len(names) == 14
    assert set(np.unique(chexpert[names].to_numpy())[:3]) <= {-1.0, 0.0, 1.0}
    studies = pd.read_csv(written / "mimic_cxr" / "cxr-study-list.csv.gz")
    assert len(set(studies.study_id) - set(chexpert.study_id)) == 1
    rows = chexpert.set_index("study_id")
    assert rows[names].isna().all(axis=1).sum() == 1
    for patient in hospital(SETTINGS):
        for study in patient.studies:
            if study.study_id not in rows.index or rows.loc[study.study_id, names].isna().all():
                continue
            written = rows.loc[study.study_id, names].dropna()
            labels = report_of(SETTINGS, patient, study).labels
            assert {str(n): int(v) for n, v in written.items()} == labels


def test_jpgs_are_processed_as_published(tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(update={"patients": 3})
    with pytest.raises(InputError, match="write --dataset mimic_cxr to"):
        write_mimic_cxr_jpg(settings, tmp_path / "jpg", 1, images=True)
    write_mimic_cxr(settings, tmp_path / "mimic_cxr", 1)
    write_mimic_cxr_jpg(settings, tmp_path / "jpg", 1, images=True)
    paths = sorted((tmp_path / "jpg" / "files").rglob("*.jpg"))
    dicoms = sorted((tmp_path / "mimic_cxr" / "files").rglob("*.dcm"))
    assert [path.stem for path in paths] == [path.stem for path in dicoms]
    for path, dicom in zip(paths, map(pydicom.dcmread, dicoms), strict=True):
        jpg = np.asarray(Image.open(path)).astype(int)
        expected = to_jpg(dicom.pixel_array, dicom.PhotometricInterpretation == "MONOCHROME1")
        assert np.abs(jpg - expected).mean() < 4  # lossy
    assert json.loads((tmp_path / "jpg" / "MANIFEST.json").read_text())["settings"]["images"]
    values = np.array([[0, 100, 200, 300]], dtype=np.uint16)
    np.testing.assert_array_equal(to_jpg(values, False), [[0, 85, 170, 255]])
    np.testing.assert_array_equal(to_jpg(values, True), [[255, 170, 85, 0]])
