"""Every data set of the synthetic hospital has the published layout, to the byte and repeatably."""

import gzip
import hashlib
import json
import re
import xml.etree.ElementTree as ElementTree
import zipfile
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pydicom
import pytest

from cxrflow.errors import InputError
from cxrflow.phantom.__main__ import WRITERS, main
from cxrflow.phantom.patient import hospital
from cxrflow.phantom.report import report_of
from cxrflow.phantom.settings import HospitalSettings
from cxrflow.phantom.writers import dicom_file, folder
from cxrflow.phantom.writers.mimic_cxr_jpg import to_jpg, write_mimic_cxr_jpg
from cxrflow.phantom.writers.stanza_text import label_sentence

SETTINGS = HospitalSettings(
    patients=14,
    image_size=64,
    rsna_images=24,
    abstracts=260,
    notes=200,
    splitter_reports=12,
    ms_cxr_patient_share=0.6,
    compressed_share=0.4,
    several_studies_share=0.9,
)


def digests(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("hospital")
    for name, write in WRITERS.items():
        assert write(SETTINGS, made / name, 1)
    return made


@pytest.mark.parametrize("name", WRITERS)
def test_bytes_do_not_depend_on_the_number_of_processes(
    name: str, root: Path, tmp_path: Path
) -> None:
    WRITERS[name](SETTINGS, tmp_path / name, 2)
    assert digests(tmp_path / name) == digests(root / name)


@pytest.mark.parametrize("name", WRITERS)
def test_manifest(name: str, root: Path) -> None:
    manifest = json.loads((root / name / "MANIFEST.json").read_text())
    assert manifest["dataset"] == name
    assert manifest["synthetic"] is True
    assert manifest["settings"]["seed"] == SETTINGS.seed
    assert all(isinstance(count, int) for count in manifest["counts"].values())
    assert WRITERS[name](SETTINGS, root / name, 1) is False


def test_other_settings_replace_the_folder(tmp_path: Path) -> None:
    write = WRITERS["pubmed"]
    write(SETTINGS.model_copy(update={"abstracts": 1200}), tmp_path / "pubmed", 1)
    assert (tmp_path / "pubmed" / "pubmed26n0003.xml.gz").is_file()
    assert write(SETTINGS, tmp_path / "pubmed", 1)
    assert not (tmp_path / "pubmed" / "pubmed26n0003.xml.gz").exists()


def test_half_written_folder_is_finished(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "mimic_cxr"

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("cxrflow.phantom.writers.mimic_cxr._zip_reports", killed)
        with pytest.raises(KeyboardInterrupt):
            WRITERS["mimic_cxr"](SETTINGS, output, 1)
    assert (output / "files").is_dir() and not (output / "MANIFEST.json").exists()
    assert WRITERS["mimic_cxr"](SETTINGS, output, 1)
    assert digests(output) == digests(root / "mimic_cxr")


def test_a_folder_of_someone_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="not empty"):
        WRITERS["pubmed"](SETTINGS, tmp_path, 1)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_mimic_cxr_lists_tree_and_zip_agree(root: Path) -> None:
    base = root / "mimic_cxr"
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


def test_every_dicom_reads_back(root: Path) -> None:
    base = root / "mimic_cxr"
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
    made = dicom_file.new_file("1.2.840.10008.5.1.4.1.1.1", dicom_file.uid("x"), syntax)
    dicom_file.set_pixels(made, pixels, bits, inverse=True)
    dicom_file.save(made, tmp_path / "x.dcm")
    read = pydicom.dcmread(tmp_path / "x.dcm")
    assert read.file_meta.TransferSyntaxUID == dicom_file.SYNTAXES[syntax]
    assert read.PhotometricInterpretation == "MONOCHROME1"
    np.testing.assert_array_equal(read.pixel_array, pixels)


def test_jpg_tables(root: Path) -> None:
    base = root / "mimic_cxr_jpg"
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
    records = pd.read_csv(root / "mimic_cxr" / "cxr-record-list.csv.gz")
    assert set(metadata.dicom_id) == set(split.dicom_id) == set(records.dicom_id)
    paths = records.set_index("dicom_id").path
    for row in metadata.itertuples():
        header = pydicom.dcmread(
            root / "mimic_cxr" / str(paths[row.dicom_id]), stop_before_pixels=True
        )
        assert (row.Rows, row.Columns) == (header.Rows, header.Columns)
        assert str(row.StudyDate) == header.StudyDate
        assert float(header.StudyTime) == row.StudyTime
        assert header.ViewPosition == ("" if pd.isna(row.ViewPosition) else row.ViewPosition)


def test_label_tables_say_what_the_reports_say(root: Path) -> None:
    chexpert = pd.read_csv(root / "mimic_cxr_jpg" / "mimic-cxr-2.0.0-chexpert.csv.gz")
    negbio = pd.read_csv(root / "mimic_cxr_jpg" / "mimic-cxr-2.0.0-negbio.csv.gz")
    names = list(chexpert)[2:]
    assert list(chexpert) == list(negbio)
    assert list(chexpert)[:2] == ["subject_id", "study_id"] and names == sorted(names)
    assert len(names) == 14
    assert set(np.unique(chexpert[names].to_numpy())[:3]) <= {-1.0, 0.0, 1.0}
    studies = pd.read_csv(root / "mimic_cxr" / "cxr-study-list.csv.gz")
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


def test_ids_say_nothing_about_findings_or_time() -> None:
    studies = [s for p in hospital(HospitalSettings(patients=400)) for s in p.studies]
    ids = np.array([s.study_id for s in studies], dtype=float)
    ill = np.array([bool(s.findings) for s in studies], dtype=float)
    later = np.array([bool(s.changes) for s in studies], dtype=float)
    assert abs(np.corrcoef(ids, ill)[0, 1]) < 0.1
    assert abs(np.corrcoef(ids, later)[0, 1]) < 0.1


def test_jpgs_are_processed_as_published(root: Path, tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(update={"patients": 3})
    write_mimic_cxr_jpg(settings, tmp_path / "jpg", 1, images=True)
    paths = sorted((tmp_path / "jpg" / "files").rglob("*.jpg"))
    assert paths
    assert json.loads((tmp_path / "jpg" / "MANIFEST.json").read_text())["settings"]["images"]
    values = np.array([[0, 100, 200, 300]], dtype=np.uint16)
    np.testing.assert_array_equal(to_jpg(values, False), [[0, 85, 170, 255]])
    np.testing.assert_array_equal(to_jpg(values, True), [[255, 170, 85, 0]])


def test_ms_cxr(root: Path) -> None:
    base = root / "ms_cxr"
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
    records = pd.read_csv(root / "mimic_cxr" / "cxr-record-list.csv.gz").set_index("dicom_id")
    for row in table.itertuples():
        dicom = pydicom.dcmread(
            root / "mimic_cxr" / str(records.path[row.dicom_id]), stop_before_pixels=True
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
    WRITERS["ms_cxr"](settings, tmp_path, 1)
    table = pd.read_csv(tmp_path / "MS_CXR_Local_Alignment_v1.1.0.csv")
    assert table.groupby(["dicom_id", "category_name", "label_text"]).size().max() == 2
    coco = json.loads((tmp_path / "MS_CXR_Local_Alignment_v1.1.0.json").read_text())
    stems = [image["file_name"] for image in coco["images"]]
    assert len(set(stems)) < len(stems)
    assert table.category_name.nunique() == 8
    phrases = table.drop_duplicates(["dicom_id", "category_name"]).category_name.value_counts()
    assert phrases.max() <= max(5, 1.25 * phrases.median())


def test_rsna(root: Path) -> None:
    base = root / "rsna"
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
    named = classes.drop_duplicates().set_index("patientId")["class"]
    assert set(named) == {"Normal", "No Lung Opacity / Not Normal", "Lung Opacity"}
    assert (named.eq("Lung Opacity").astype(int) == target).all()
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
    from cxrflow.phantom.rsna import OPACITY, make_rsna_case

    for index in range(120):
        case = make_rsna_case(SETTINGS, index)
        boxes = finding_boxes(case.patient, case.study, case.acquisition, 64)
        assert (case.label == OPACITY) == any(boxes.get(key) for key in case.boxed)


def _records(path: Path) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(gzip.decompress(path.read_bytes())))


def test_pubmed(root: Path) -> None:
    base = root / "pubmed"
    files = sorted(base.glob("pubmed26n*.xml.gz"))
    for path in files:
        told = Path(f"{path}.md5").read_text()
        digest = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
        assert told == f"MD5({path.name})= {digest}\n"
    first, update = _records(files[0]), _records(files[-1])
    pmids = [record.findtext("MedlineCitation/PMID") for record in first]
    assert len(set(pmids)) == len(pmids) == SETTINGS.abstracts
    deleted = [pmid.text for record in update if record.tag == "DeleteCitation" for pmid in record]
    revised = [record.findtext("MedlineCitation/PMID") for record in update[:-1]]
    assert deleted and set(deleted) <= set(pmids)
    assert revised and set(revised) <= set(pmids) and not set(revised) & set(deleted)
    articles = [record.find("MedlineCitation/Article") for record in first]
    texts = [article.findall("Abstract/AbstractText") for article in articles]
    assert any(not parts for parts in texts)
    assert any(len(parts) > 1 and parts[0].get("Label") == "BACKGROUND" for parts in texts)
    assert any(part.find("sub") is not None for parts in texts for part in parts)
    languages = {article.findtext("Language") for article in articles}
    assert "eng" in languages and len(languages) > 1
    words = {
        word
        for parts in texts
        for part in parts
        for word in re.findall("[a-z]+", "".join(part.itertext()).lower())
    }
    assert len(words) > 1500


def test_mimic_iii(root: Path) -> None:
    path = root / "mimic_iii" / "NOTEEVENTS.csv.gz"
    notes = pd.read_csv(path, dtype={"ISERROR": str})
    assert list(notes) == [
        *("ROW_ID", "SUBJECT_ID", "HADM_ID", "CHARTDATE", "CHARTTIME", "STORETIME"),
        *("CATEGORY", "DESCRIPTION", "CGID", "ISERROR", "TEXT"),
    ]
    assert len(notes) == SETTINGS.notes and notes.TEXT.notna().all()
    assert notes.TEXT.str.contains("\n").mean() > 0.5
    assert notes.TEXT.str.contains('"').any()
    assert notes.TEXT.str.contains(r"\[\*\*").any()
    assert (notes.CATEGORY == "Physician ").any()
    assert set(notes.ISERROR.dropna()) == {"1"}
    summaries = notes[notes.CATEGORY == "Discharge summary"]
    assert summaries.CHARTTIME.isna().all()
    datetime.fromisoformat(notes.CHARTDATE[0])
    raw = gzip.decompress(path.read_bytes()).decode()
    assert '""' in raw and raw.startswith('"ROW_ID","SUBJECT_ID"')


def test_sentence_labels() -> None:
    text = "1. No 2.5 cm mass, per Dr. ___."
    made = label_sentence(text)
    ends = [i for i, digit in enumerate(made) if digit != "0"]
    starts = [0, *(end + 1 for end in ends)]
    tokens = [text[a : b + 1].strip() for a, b in zip(starts, ends, strict=False)]
    assert tokens == ["1.", "No", "2.5", "cm", "mass", ",", "per", "Dr.", "___", "."]
    assert made[-1] == "2" and made.count("2") == 1


def test_stanza_text_is_aligned(root: Path) -> None:
    base = root / "stanza_text"
    for part in ("train", "dev"):
        text = (base / f"{part}.txt").read_text()
        labels = (base / f"{part}.toklabels").read_text()
        assert len(text) == len(labels)
        assert set(labels) <= set("012\n")
        assert [i for i, c in enumerate(text) if c == "\n"] == [
            i for i, c in enumerate(labels) if c == "\n"
        ]
        sentences = sum(labels.count(digit) for digit in "2")
        counts = json.loads((base / "MANIFEST.json").read_text())["counts"]
        assert sentences == counts[f"{part}_sentences"] > 5
    assert "___" in (base / "train.txt").read_text()


def test_command_line(tmp_path: Path, root: Path) -> None:
    given = ["--dataset", "mimic_iii", "--output", str(tmp_path / "out"), "--threads", "1"]
    main([*given, "--settings", SETTINGS.model_dump_json()])
    assert digests(tmp_path / "out") == digests(root / "mimic_iii")
    with pytest.raises(SystemExit):
        main(["--dataset", "rsna", "--output", str(tmp_path / "x"), "--jpg"])
    with pytest.raises(InputError, match="unknown key 'patiens'"):
        main([*given, "--settings", '{"patiens": 3}'])


def test_equal_data_are_equal_bytes(tmp_path: Path) -> None:
    folder.write_gzip(tmp_path / "a.gz", b"text")
    folder.write_gzip(tmp_path / "b.gz", b"text")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    folder.write_table(tmp_path / "t.csv", ("a", "b"), [(1, None), ("x,y", 2.0)])
    assert (tmp_path / "t.csv").read_text() == 'a,b\n1,\n"x,y",2.0\n'
