"""The synthetic MIMIC-CXR has the published layout, and its images read back as written."""

import json
import re
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pydicom
import pytest

from cxrflow.phantom.patient import hospital
from cxrflow.phantom.settings import HospitalSettings
from cxrflow.phantom.writers import dicom_file


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
