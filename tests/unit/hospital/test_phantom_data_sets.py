"""The copies of MIMIC-CXR, its JPGs, MS-CXR, RSNA and MIMIC-IV: published layouts that agree."""

import json
import re
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pydicom
import pytest
from benchmark_fakes import metrics_of
from phantom_fixtures import SETTINGS
from PIL import Image

from cxr_files.errors import InputError, PassingError
from cxr_files.outputs import held_folder
from cxr_hospital import dicom_file
from cxr_hospital.draw import writer
from cxr_hospital.patient import hospital, of_mimic_cxr
from cxr_hospital.report import report_of
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.writers.mimic_cxr import write_mimic_cxr
from cxr_hospital.writers.mimic_cxr_jpg import to_jpg, write_mimic_cxr_jpg
from cxr_hospital.writers.mimic_iv import write_mimic_iv
from cxrflow.benchmarks.evaluate import main
from cxrflow.data.readers import mimic_iv


def test_mimic_cxr_lists_tree_and_zip_agree(written: Path) -> None:
    base = written / "mimic_cxr"
    records = pd.read_csv(base / "cxr-record-list.csv.gz")
    studies = pd.read_csv(base / "cxr-study-list.csv.gz")
    assert list(records) == ["subject_id", "study_id", "dicom_id", "path"]
    assert list(studies) == ["subject_id", "study_id", "path"]
    assert records.dicom_id.is_unique and studies.study_id.is_unique
    assert records.dicom_id.str.fullmatch(r"([0-9a-f]{8}-){4}[0-9a-f]{8}").all()
    assert records.subject_id.between(10_000_000, 19_999_999).all()
    assert studies.study_id.between(50_000_000, 59_999_999).all()
    tree = {str(path.relative_to(base)) for path in (base / "files").rglob("*.dcm")}
    assert tree == set(records.path)
    pattern = r"files/p1\d/p1\d{7}/s5\d{7}/[0-9a-f-]{44}\.dcm"
    assert records.path.str.fullmatch(pattern).all()
    with zipfile.ZipFile(base / "mimic-cxr-reports.zip") as archive:
        assert archive.namelist() == list(studies.path)
        for name in archive.namelist():
            assert archive.read(name) == (base / name).read_bytes()
    manifest = json.loads((base / "MANIFEST.json").read_text())
    assert manifest["counts"]["images"] == len(records)


def test_two_programs_that_draw_in_one_folder_exclude_each_other(tmp_path: Path) -> None:
    refused = pytest.raises(PassingError, match="another process writes this synthetic mimic_iv")
    with held_folder(tmp_path / "mimic_iv", "synthetic mimic_iv"):
        (tmp_path / "mimic_iv" / "hosp").mkdir()
        with refused:
            write_mimic_iv(SETTINGS, tmp_path / "mimic_iv")
        assert (tmp_path / "mimic_iv" / "hosp").is_dir()


def test_every_dicom_reads_back(written: Path) -> None:
    base = written / "mimic_cxr"
    records = pd.read_csv(base / "cxr-record-list.csv.gz").set_index("dicom_id")
    syntaxes, photometrics, bits = set(), set(), set()
    for _, row in records.iterrows():
        read = pydicom.dcmread(base / str(row.path))
        pixels = read.pixel_array
        assert pixels.shape == (read.Rows, read.Columns) and min(pixels.shape) == 64
        assert pixels.dtype == np.uint16 and pixels.max() < 2**read.BitsStored
        assert pixels.std() > 0.05 * 2**read.BitsStored
        assert read.PatientID == str(row.subject_id) and read.StudyID == str(row.study_id)
        assert read.SOPInstanceUID.is_valid
        assert re.fullmatch(r"\d{6}\.\d{3}", read.StudyTime)
        assert 2100 <= int(read.StudyDate[:4]) <= 2210
        syntaxes.add(read.file_meta.TransferSyntaxUID)
        photometrics.add(read.PhotometricInterpretation)
        bits.add(read.BitsStored)
    assert len(syntaxes) >= 4 and photometrics == {"MONOCHROME1", "MONOCHROME2"} and len(bits) >= 3


@pytest.mark.parametrize(
    "syntax", ["explicit_le", "implicit_le", "rle", "jpeg_lossless", "jpeg2000"]
)
@pytest.mark.parametrize("bits", [10, 12, 14, 16])
def test_lossless_syntaxes_keep_every_value(syntax: str, bits: int, tmp_path: Path) -> None:
    pixels = np.random.default_rng(bits).integers(0, 2**bits, (33, 47)).astype(np.uint16)
    file = dicom_file.new_file("1.2.840.10008.5.1.4.1.1.1", dicom_file.uid("x"), syntax)
    dicom_file.set_pixels(file, pixels, bits, inverse=True)
    dicom_file.save(file, tmp_path / "x.dcm")
    read = pydicom.dcmread(tmp_path / "x.dcm")
    assert read.file_meta.TransferSyntaxUID == dicom_file.SYNTAXES[syntax]
    assert read.PhotometricInterpretation == "MONOCHROME1"
    np.testing.assert_array_equal(read.pixel_array, pixels)


def test_ids_say_nothing_about_findings_or_time() -> None:
    studies = [s for p in hospital(HospitalSettings(patients=400)) for s in p.studies]
    ids = np.array([s.study_id for s in studies], dtype=float)
    ill = np.array([bool(s.findings) for s in studies], dtype=float)
    later = np.array([bool(s.changes) for s in studies], dtype=float)
    assert abs(np.corrcoef(ids, ill)[0, 1]) < 0.1
    assert abs(np.corrcoef(ids, later)[0, 1]) < 0.1


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
    with pytest.raises(InputError, match="write --layout mimic_cxr to"):
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


def test_ms_cxr(written: Path) -> None:
    base = written / "ms_cxr"
    table = pd.read_csv(base / "MS_CXR_Local_Alignment_v1.1.0.csv")
    coco = json.loads((base / "MS_CXR_Local_Alignment_v1.1.0.json").read_text())
    assert list(table) == [
        *("dicom_id", "category_name", "label_text", "path", "x", "y", "w", "h"),
        *("image_width", "image_height", "split"),
    ]
    assert (table[["x", "y", "w", "h"]].to_numpy() >= 0).all() and (table.w > 0).all()
    assert (table.x + table.w <= table.image_width).all()
    assert (table.y + table.h <= table.image_height).all()
    assert table.path.str.endswith(".jpg").all()
    records = pd.read_csv(written / "mimic_cxr" / "cxr-record-list.csv.gz").set_index("dicom_id")
    for row in table.itertuples():
        dicom = pydicom.dcmread(
            written / "mimic_cxr" / str(records.path[row.dicom_id]), stop_before_pixels=True
        )
        assert (row.image_height, row.image_width) == (dicom.Rows, dicom.Columns)
        assert dicom.ViewPosition in ("AP", "PA")
    assert set(coco) == {"images", "annotations", "categories"}
    assert len(coco["annotations"]) == len(table)
    images = {image["id"]: image for image in coco["images"]}
    names = {category["id"]: category["name"] for category in coco["categories"]}
    assert len(names) == 8
    from_coco = {
        (
            Path(images[a["image_id"]]["file_name"]).stem,
            names[a["category_id"]],
            a["label_text"],
            *a["bbox"],
        )
        for a in coco["annotations"]
    }
    columns = ["dicom_id", "category_name", "label_text", "x", "y", "w", "h"]
    assert from_coco == set(table[columns].itertuples(index=False, name=None))


def test_ms_cxr_has_two_boxes_and_repeated_images(tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(update={"patients": 60, "ms_cxr_patient_share": 1.0})
    writer("ms_cxr")(settings, tmp_path, 1)
    table = pd.read_csv(tmp_path / "MS_CXR_Local_Alignment_v1.1.0.csv")
    assert table.groupby(["dicom_id", "category_name", "label_text"]).size().max() == 2
    coco = json.loads((tmp_path / "MS_CXR_Local_Alignment_v1.1.0.json").read_text())
    stems = [image["file_name"] for image in coco["images"]]
    assert len(set(stems)) < len(stems)
    assert table.category_name.nunique() == 8
    phrases = table.drop_duplicates(["dicom_id", "category_name"]).category_name.value_counts()
    assert phrases.max() <= max(5, 1.25 * phrases.median())


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
    from cxr_hospital.drawing import finding_boxes
    from cxr_hospital.writers.rsna import OPACITY, make_rsna_case

    for index in range(120):
        case = make_rsna_case(SETTINGS, index)
        boxes = finding_boxes(case.patient, case.study, case.acquisition, 64)
        assert (case.label == OPACITY) == any(boxes.get(key) for key in case.boxed)


def test_patients(written: Path) -> None:
    table = pd.read_csv(written / "mimic_iv" / "hosp" / "patients.csv.gz", dtype=str)
    assert list(table) == [
        "subject_id", "gender", "anchor_age", "anchor_year", "anchor_year_group", "dod",
    ]  # fmt: skip
    patients, dropped = mimic_iv.read_patients(written / "mimic_iv")
    assert dropped == [] and len(patients) == len(table)
    by_id = {int(patient.subject_id): patient for patient in hospital(SETTINGS)}
    matched = patients[patients["subject_id"].astype(int).isin(by_id)]
    assert 0 < len(matched) < len(patients)  # also patients without a radiograph
    years = matched["subject_id"].map(lambda name: float(by_id[int(name)].studies[0].time.year))
    ages = mimic_iv.ages(patients, matched["subject_id"], years)
    for name, gender, age in zip(matched["subject_id"], matched["gender"], ages, strict=True):
        assert (gender, age) == (by_id[int(name)].sex, by_id[int(name)].age)


def test_a_few_are_missing_and_the_oldest_are_91(tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(update={"patients": 400})
    write_mimic_iv(settings, tmp_path / "iv", 1)
    patients, _ = mimic_iv.read_patients(tmp_path / "iv")
    ids = set(patients["subject_id"].astype(int))
    missing = [p for p in hospital(settings) if p.subject_id not in ids]
    assert 1 <= len(missing) <= 8
    ages = set(patients["anchor_age"])
    assert min(ages) >= 18 and 90 not in ages


def test_the_dates_of_headers_and_of_the_table_give_the_same_statistics(written, tmp_path):
    asked = {"dataset": "ms_cxr", "root": written / "ms_cxr", "demographics": written / "mimic_iv"}
    first, second = (
        metrics_of(
            *(main, "ms_cxr_statistics"), output=tmp_path / layout, **asked,
            studies_layout=layout, studies_root=written / layout,
        )
        for layout in ("mimic_cxr", "mimic_cxr_jpg")
    )  # fmt: skip
    assert first["metrics"] == second["metrics"] and first["data"]["synthetic"] is True
    pairs, aged = first["metrics"]["pairs/total"]["value"], first["metrics"]["age/total"]["value"]
    assert pairs == first["data"]["pairs"] > 5 and 18 < aged < 95
    assert first["metrics"]["subjects/background"]["value"] == len(of_mimic_cxr(SETTINGS))
