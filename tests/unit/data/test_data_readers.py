"""Each reader on a tiny copy of its published layout, whole and damaged."""

import gzip
import io
import re
import tarfile
from pathlib import Path

import pandas as pd
import pytest
from data_fixtures import (
    IMAGES,
    Image,
    covid_chestxray,
    dropped,
    mimic_cxr,
    mimic_cxr_jpg,
    ms_cxr,
    nih_mapping,
    open_i_report,
    read,
    rsna,
    write_csv,
    write_dicom,
)

from cxr_files.atomic import is_synthetic
from cxr_files.errors import InputError
from cxrflow.data.layouts import holders
from cxrflow.data.readers import mimic_cxr_jpg as jpg_reader
from cxrflow.reports.texts import read_texts


@pytest.mark.parametrize("name", holders("tables"))
def test_missing_root_is_one_clear_error(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere: data root not found; expected a folder$"):
        read(name, tmp_path / "nowhere")


@pytest.mark.parametrize("name", holders("tables"))
def test_empty_root_names_the_file_that_is_missing(name: str, tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"(csv|tgz|jsonl?|zip|txt|parquet|mat:)( file)? (not )?found"
    ):
        read(name, tmp_path)


def test_synthetic_is_what_the_manifest_says(tmp_path: Path) -> None:
    assert not is_synthetic(tmp_path)
    (tmp_path / "MANIFEST.json").write_text('{"dataset": "x", "synthetic": true}')
    assert is_synthetic(tmp_path)
    (tmp_path / "MANIFEST.json").write_text('{"dataset": "x"}')
    assert not is_synthetic(tmp_path)


def test_mimic_cxr_takes_views_dates_and_sizes_from_headers(tmp_path: Path) -> None:
    tables = read("mimic_cxr", mimic_cxr(tmp_path))
    images = tables.images.set_index("image_id")
    first = images.loc[IMAGES[0].id]
    assert (first["subject_id"], first["study_id"]) == ("10000001", "50000009")
    assert first["view"] == "PA" and first["image_path"] == IMAGES[0].path()
    assert first["study_time"] == "2171-03-04T07:05:12.500"
    assert (first["image_width"], first["image_height"]) == (10, 12)
    assert pd.isna(images.loc[IMAGES[8].id, "view"])  # blank ViewPosition
    assert tables.images["failure"].isna().all() and len(tables.studies) == 7


def test_mimic_cxr_counts_images_that_are_missing_or_damaged(tmp_path: Path) -> None:
    root = mimic_cxr(tmp_path)
    (root / IMAGES[0].path()).unlink()
    (root / IMAGES[1].path()).write_bytes((root / IMAGES[1].path()).read_bytes()[:300])
    failure = read("mimic_cxr", root).images.set_index("image_id")["failure"]
    assert failure[IMAGES[0].id] == "file not found"
    assert "cut off" in failure[IMAGES[1].id]
    assert failure.notna().sum() == 2


def test_mimic_cxr_opens_only_the_images_asked_for(tmp_path: Path) -> None:
    root = mimic_cxr(tmp_path)
    for image in IMAGES[1:]:
        (root / image.path()).unlink()
    tables = read("mimic_cxr", root, images=frozenset([IMAGES[0].id]))
    assert tables.images["image_id"].tolist() == [IMAGES[0].id]
    assert tables.images["failure"].isna().all()
    unread = read("mimic_cxr", root, headers=False)
    assert unread.images["failure"].isna().all() and not unread.opened


def test_mimic_cxr_root_that_ends_in_files(tmp_path: Path) -> None:
    mimic_cxr(tmp_path)
    tables = read("mimic_cxr", tmp_path / "files")
    assert tables.images["image_path"][0] == IMAGES[0].path().removeprefix("files/")
    assert tables.images["failure"].isna().all()


def test_mimic_cxr_duplicate_ids(tmp_path: Path) -> None:
    root = mimic_cxr(tmp_path)
    records = root / "cxr-record-list.csv"
    lines = records.read_text().splitlines()
    records.write_text("\n".join([*lines, lines[1]]) + "\n")
    assert dropped(read("mimic_cxr", root), "images") == {"the same row again": 1}
    records.write_text("\n".join([*lines, lines[1].replace("s50000009", "s50000001")]) + "\n")
    with pytest.raises(InputError, match=r"cxr-record-list\.csv: 1 value\(s\) of dicom_id"):
        read("mimic_cxr", root)

    studies = root / "cxr-study-list.csv"
    records.write_text("\n".join(lines) + "\n")
    lines = studies.read_text().splitlines()
    studies.write_text("\n".join([*lines, lines[1]]) + "\n")
    assert dropped(read("mimic_cxr", root), "studies") == {"the same row again": 1}
    studies.write_text("\n".join([*lines, lines[1] + "x"]) + "\n")
    with pytest.raises(InputError, match=r"cxr-study-list\.csv: 1 value\(s\) of study_id"):
        read("mimic_cxr", root)


@pytest.mark.parametrize(
    ("name", "table", "column"),
    [
        ("mimic_cxr", "cxr-record-list.csv", "dicom_id"),
        ("mimic_cxr", "cxr-study-list.csv", "path"),
        ("mimic_cxr_jpg", "mimic-cxr-2.0.0-metadata.csv", "ViewPosition"),
        ("mimic_cxr_jpg", "mimic-cxr-2.0.0-split.csv", "split"),
        ("ms_cxr", "MS_CXR_Local_Alignment_v1.1.0.csv", "label_text"),
        ("rsna", "stage_2_train_labels.csv", "Target"),
        ("rsna", "stage_2_detailed_class_info.csv", "class"),
        ("covid_chestxray", "metadata.csv", "modality"),
    ],
)
def test_a_list_without_a_column_or_cut_off_is_named(tmp_path, name, table, column):
    box = (IMAGES[0], "Edema", "haze", (1, 1, 2, 2), "test")
    made = {"mimic_cxr": mimic_cxr, "mimic_cxr_jpg": mimic_cxr_jpg, "rsna": rsna}
    made |= {"covid_chestxray": covid_chestxray, "ms_cxr": lambda root: ms_cxr(root, [box])}
    path = made[name](tmp_path) / table
    content = path.read_text()
    path.write_text(content.replace(column, "other", 1))
    with pytest.raises(InputError, match=rf"{re.escape(table)}: column '{column}' is missing"):
        read(name, tmp_path)
    path.unlink()
    path.with_name(f"{table}.gz").write_bytes(gzip.compress(content.encode() * 20)[:-20])
    with pytest.raises(InputError, match=rf"{re.escape(table)}\.gz: cut off or not gzip"):
        read(name, tmp_path)


def test_mimic_cxr_study_of_two_patients(tmp_path: Path) -> None:
    root = mimic_cxr(tmp_path)
    records = root / "cxr-record-list.csv"
    records.write_text(records.read_text().replace("10000002,50000002", "10000003,50000002"))
    with pytest.raises(InputError, match="subject_id of 1 study_id.*50000002"):
        read("mimic_cxr", root)


def test_mimic_cxr_jpg_reads_tables_by_name(tmp_path: Path) -> None:
    tables = read("mimic_cxr_jpg", mimic_cxr_jpg(tmp_path), labels=True)
    first = tables.images.iloc[0]
    assert first["image_path"] == IMAGES[0].path("jpg")
    assert first["study_time"] == "2171-03-04T07:05:12.500"
    assert (first["image_width"], first["image_height"]) == (10, 12)
    assert tables.splits is not None
    assert tables.splits.set_index("subject_id")["split"]["10000001"] == "train"
    assert "no labels" in tables.notes[0]


def test_label_tables_keep_four_states_and_rename_airspace_opacity(tmp_path: Path) -> None:
    root = mimic_cxr_jpg(tmp_path)
    names = [name for name in jpg_reader.CLASSES if name != "Lung Opacity"]
    row = ["1.0", "0.0", "-1.0", ""] + [""] * 9
    write_csv(
        root / "mimic-cxr-2.0.0-chexpert.csv",
        ("subject_id", "study_id", *reversed(names), "Lung Opacity"),
        [("p10000001", "s50000009", *reversed(row), "1.0")],
    )
    labels = read("mimic_cxr_jpg", root, labels=True).labels
    assert labels.loc[0, ["study_id", *names[:3]]].tolist() == ["50000009", 1, 0, -1]
    assert pd.isna(labels.loc[0, names[3]])
    write_csv(
        root / "mimic-cxr-2.1.0-test-set-labeled.csv",
        ("study_id", *names, "Airspace Opacity"),
        [("50000009", *row, "-1.0")],
    )
    radiologist, _ = jpg_reader.read_labels(root, "radiologist")
    assert radiologist.loc[0, "Lung Opacity"] == -1
    text = (root / "mimic-cxr-2.0.0-chexpert.csv").read_text()
    (root / "mimic-cxr-2.0.0-chexpert.csv").write_text(text.replace("-1.0", "2.0"))
    with pytest.raises(InputError, match="Consolidation holds 2; expected 1, 0, -1 or blank"):
        read("mimic_cxr_jpg", root, labels=True)
    (root / "mimic-cxr-2.0.0-chexpert.csv").write_text(text.replace("Consolidation", "Patch"))
    with pytest.raises(InputError, match="chexpert.csv: column 'Consolidation' is missing"):
        read("mimic_cxr_jpg", root, labels=True)


def test_ms_cxr_takes_patients_from_paths_and_counts_bad_boxes(tmp_path: Path) -> None:
    a, b = IMAGES[0], IMAGES[5]
    rows = [
        (a, "Pneumonia", "patch, left base", (1, 2, 3, 4), "test"),
        (a, "Pneumonia", "patch, left base", (5, 6, 2, 2), "test"),
        (b, "Edema", "haze", (1, 1, 0, 4), "train"),
        (b, "Edema", "haze", (1, 1, 4, 4), "train"),
        (b, "Edema", "fluid", (1, 1, 4, 4), "train"),
    ]
    tables = read("ms_cxr", ms_cxr(tmp_path, rows))
    assert tables.images["subject_id"].tolist() == [a.subject, b.subject]
    assert tables.boxes["phrase"].tolist() == ["patch, left base"] * 2 + ["fluid"]
    assert dropped(tables, "boxes") == {
        "MS_CXR_Local_Alignment_v1.1.0.csv: box without area": 1,
        "another box of its region is impossible": 1,
    }
    assert tables.splits is not None and len(tables.splits) == 2


@pytest.mark.parametrize("number", ["12O", "", "nan"])
def test_half_a_region_is_no_truth(tmp_path: Path, number: str) -> None:
    """A number that cannot be read takes all boxes of its phrase, or image, with it."""
    rows = [
        *((IMAGES[0], "Edema", "haze", box, "test") for box in ((1, 2, 3, 4), (5, 6, number, 2))),
        (IMAGES[0], "Edema", "fluid", (1, 2, 3, 4), "test"),
    ]
    tables = read("ms_cxr", ms_cxr(tmp_path / "ms_cxr", rows))
    assert tables.boxes["phrase"].tolist() == ["fluid"]
    assert sum(dropped(tables, "boxes").values()) == 2
    # A row with a comma too many is known by its image alone.
    path = next((tmp_path / "ms_cxr").glob("*.csv"))
    path.write_text(path.read_text() + f"{IMAGES[0].id},Edema,a, b{',1' * 20}\n")
    assert read("ms_cxr", tmp_path / "ms_cxr").boxes.empty
    root = rsna(tmp_path / "rsna")
    labels = root / "stage_2_train_labels.csv"
    boxes = read("rsna", root).boxes
    labels.write_text(labels.read_text().replace("5.0,6.0,2.0,2.0,1", f"5.0,6.0,{number},2.0,1", 1))
    tables = read("rsna", root)
    assert len(boxes) == 8 and len(tables.boxes) == 6
    assert sum(dropped(tables, "images").values()) in (1, 2)


@pytest.mark.parametrize("blank", ["dicom_id", "category_name", "label_text"])
def test_a_box_of_which_half_the_name_is_blank_may_be_any_of_the_rest(
    tmp_path: Path, blank: str
) -> None:
    """The other box of its phrase would else be taken for the whole region."""
    rows = [(IMAGES[0], "Edema", "haze", (n, 2, 3, 4), "test") for n in (1, 5)]
    rows.append((IMAGES[5], "Pneumonia", "patch", (1, 1, 4, 4), "test"))
    path = ms_cxr(tmp_path, rows) / "MS_CXR_Local_Alignment_v1.1.0.csv"
    table = pd.read_csv(path, dtype="str")
    table.loc[1, blank] = ""
    table.to_csv(path, index=False)
    tables = read("ms_cxr", tmp_path)
    assert tables.boxes["phrase"].tolist() == ["patch"]
    assert sum(dropped(tables, "boxes").values()) == 2


def test_ms_cxr_v1_0_0_has_no_split(tmp_path: Path) -> None:
    root = ms_cxr(tmp_path, [(IMAGES[0], "Edema", "haze", (1, 1, 2, 2), "test")])
    new = root / "MS_CXR_Local_Alignment_v1.1.0.csv"
    old = [line.rsplit(",", 1)[0] for line in new.read_text().splitlines()]
    new.unlink()
    (root / "MS_CXR_Local_Alignment_v1.0.0.csv").write_text("\n".join(old) + "\n")
    tables = read("ms_cxr", root)
    assert tables.splits is None and len(tables.boxes) == 1


def test_rsna_has_one_row_an_image_however_many_boxes(tmp_path: Path) -> None:
    tables = read("rsna", rsna(tmp_path))
    assert len(tables.images) == 10 and len(tables.boxes) == 8
    assert tables.classes == ["Pneumonia"] and tables.labels["Pneumonia"].sum() == 4
    assert tables.images["subject_id"].isna().all() and "not known" in tables.notes[0]


def test_rsna_patients_come_from_the_nih_mapping(tmp_path: Path) -> None:
    root = rsna(tmp_path)
    nih_mapping(root, images=2)
    assert read("rsna", root).images["subject_id"].nunique() == 5


def test_rsna_contradictions_are_counted(tmp_path: Path) -> None:
    root = rsna(tmp_path)
    labels = root / "stage_2_train_labels.csv"
    name = read("rsna", root).images["image_id"][0]
    labels.write_text(labels.read_text() + f"{name},1,1,2,2,1\n")
    tables = read("rsna", root)
    assert name not in set(tables.images["image_id"])
    assert dropped(tables, "images") == {"stage_2_train_labels.csv: Target is both 0 and 1": 1}
    classes = root / "stage_2_detailed_class_info.csv"
    classes.write_text(classes.read_text().replace("Normal\n", "Fine\n", 1))
    with pytest.raises(InputError, match="expected one of Normal, "):
        read("rsna", root)


def test_rsna_positive_without_a_box_is_damage(tmp_path: Path) -> None:
    root = rsna(tmp_path)
    labels = root / "stage_2_train_labels.csv"
    labels.write_text(labels.read_text().replace("5.0,6.0,2.0,2.0,1", "5.0,,2.0,2.0,1", 1))
    drops = dropped(read("rsna", root), "images")
    assert drops == {"stage_2_train_labels.csv: box is incomplete": 1}
    # Nor is a box of an image without the finding.
    labels.write_text(labels.read_text().replace(",,,,,0", ",1,2,3,4,0", 1))
    tables = read("rsna", root)
    drops = dropped(tables, "images")
    assert drops["stage_2_train_labels.csv: Target is 0, but there is a box"] == 1
    assert set(tables.boxes["image_id"]) <= set(tables.images["image_id"])
    assert len(tables.images) == 8


@pytest.mark.parametrize(
    ("box", "reason"),
    [
        ("-3.0,6.0,2.0,2.0", "box outside the image"),
        ("5.0,-1.1,2.0,2.0", "box outside the image"),
        ("9.5,6.0,2.0,2.0", "box outside the image"),
        ("500,6.0,2.0,2.0", "box outside the image"),
        ("5.0,6.0,0,2.0", "box without area"),
        ("5.0,6.0,2.0,-2.0", "box without area"),
        ("inf,6.0,2.0,2.0", "box is not finite, or larger than any image"),
        ("5.0,6.0,1e30,2.0", "box is not finite, or larger than any image"),
    ],
)
def test_rsna_image_with_an_impossible_box_has_no_truth(tmp_path, box, reason):
    """The images are 12 x 10 pixels; boxes that are mostly in theirs stay as published."""
    root = rsna(tmp_path)
    labels = root / "stage_2_train_labels.csv"
    labels.write_text(labels.read_text().replace("5.0,6.0,2.0,2.0,1", f"{box},1", 1))
    tables = read("rsna", root)
    assert tables.images["failure"].dropna().tolist() == [reason]
    failed = tables.images.loc[tables.images["failure"].notna(), "image_id"].item()
    assert len(tables.boxes) == 6 and failed not in set(tables.boxes["image_id"])


REPORTS = {
    7: open_i_report(7, "Clear.", "Normal.", ["CXR7_7_IM-0001-1001", "CXR7_IM-0001-2001"]),
    12: open_i_report(12, "", "Normal.", ["CXR12_IM-0002-1001"]),
}


def open_i(root: Path, archive: bool) -> Path:
    if not archive:
        (root / "ecgen-radiology").mkdir(parents=True)
        for number, text in REPORTS.items():
            (root / f"ecgen-radiology/{number}.xml").write_text(text)
        return root
    with tarfile.open(root / "NLMCXR_reports.tgz", "w:gz") as tar:
        for number, text in REPORTS.items():
            member = tarfile.TarInfo(f"ecgen-radiology/{number}.xml")
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return root


@pytest.mark.parametrize("archive", [False, True])
def test_open_i_reads_reports_from_folder_or_archive(tmp_path: Path, archive: bool) -> None:
    tables = read("open_i", open_i(tmp_path, archive))
    assert tables.studies["study_id"].tolist() == ["CXR7", "CXR12"]
    assert tables.images["image_path"].isna().all() and "3 named" in tables.notes[-1]


def test_open_i_matches_images_by_what_their_names_share(tmp_path: Path) -> None:
    root = open_i(tmp_path, archive=False)
    (root / "images").mkdir()
    (root / "images/7_IM-0001-1001.dcm.png").write_bytes(b"picture")
    write_dicom(root / "7/7_IM-0001-2001.dcm", view="LL")
    write_csv(
        root / "indiana_projections.csv",
        ("uid", "filename", "projection"),
        [(7, "7_IM-0001-1001.dcm.png", "Frontal"), (12, "12_IM-0002-1001.dcm.png", "Frontal")],
    )
    images = read("open_i", root).images.set_index("image_id")
    doubled, dicom, gone = (images.loc[name] for name in images.index)
    assert doubled["image_path"] == "images/7_IM-0001-1001.dcm.png"
    assert doubled["view"] == "FRONTAL"
    assert dicom["image_path"] == "7/7_IM-0001-2001.dcm" and dicom["view"] == "LL"
    assert gone["failure"] == "file not found"


def test_open_i_counts_a_broken_report_and_refuses_a_broken_archive(tmp_path: Path) -> None:
    root = open_i(tmp_path / "a", archive=False)
    (root / "ecgen-radiology/13.xml").write_text("<eCitation><uId id='CXR13'>")
    (root / "ecgen-radiology/14.xml").write_text("")
    tables = read("open_i", root)
    assert dropped(tables, "studies") == {"report is not the XML of one report": 2}
    (tmp_path / "b").mkdir()
    whole = open_i(tmp_path / "b", archive=True) / "NLMCXR_reports.tgz"
    whole.write_bytes(whole.read_bytes()[:100])
    with pytest.raises(InputError, match="cut off"):
        read("open_i", tmp_path / "b")


def test_images_behind_links_are_found_and_circles_end(tmp_path: Path) -> None:
    root, disk = tmp_path / "open_i", tmp_path / "disk"
    root.mkdir()
    disk.mkdir()
    (disk / "12_IM-0002-1001.png").write_bytes(b"a picture")
    (root / "images").symlink_to(disk)
    (disk / "again").symlink_to(root)
    images = read("open_i", open_i(root, archive=True)).images.set_index("image_id")
    assert images["image_path"].dropna().to_dict() == {
        "CXR12_IM-0002-1001": "images/12_IM-0002-1001.png"
    }


def test_covid_chestxray_leaves_out_ct_and_counts_missing_files(tmp_path: Path) -> None:
    tables = read("covid_chestxray", covid_chestxray(tmp_path))
    assert dropped(tables, "images") == {"modality CT": 1}
    images = tables.images.set_index("image_id")
    assert images["view"].to_dict() == {
        **{"a.jpg": "PA", "b.jpg": "PA", "c.jpg": "LATERAL", "gone.jpg": "AP"},
        "e.jpg": "AP SUPINE",
    }
    assert images["failure"].dropna().to_dict() == {"gone.jpg": "file not found"}
    assert images["order"]["b.jpg"] == 3 and pd.isna(images["order"]["e.jpg"])


def test_covid_chestxray_has_two_spellings(tmp_path: Path) -> None:
    """The list has written ``patientid`` and ``clinical_notes`` since July 2020."""
    older = read("covid_chestxray", covid_chestxray(tmp_path))
    notes = [text.sections for text in read_texts("covid_chestxray", tmp_path)]
    path = tmp_path / "metadata.csv"
    text = path.read_text().replace("Patientid", "patientid")
    path.write_text(text.replace("clinical notes", "clinical_notes"))
    newer = read("covid_chestxray", tmp_path)
    pd.testing.assert_frame_equal(newer.images, older.images)
    assert [text.sections for text in read_texts("covid_chestxray", tmp_path)] == notes


def test_study_listed_in_metadata_under_two_patients_is_refused(tmp_path: Path) -> None:
    twice = (*IMAGES, Image("11000005", "50000009", 99))
    with pytest.raises(InputError, match=r"1 value\(s\) of study_id .*50000009"):
        read("mimic_cxr_jpg", mimic_cxr_jpg(tmp_path, twice))
