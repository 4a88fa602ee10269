"""NIH ChestX-ray14 and PadChest as published: headers, lists, boxes, damage, and bad input."""

import gzip
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cohort_fixtures import cohort, make, step
from phantom_fixtures import SETTINGS
from PIL import Image

from cxr_files.atomic import read_json
from cxr_files.errors import InputError
from cxr_hospital.draw import writer
from cxr_hospital.drawing import draw
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.writers.nih import label_of, nih_images
from cxr_hospital.writers.padchest import TONE, padchest_patient
from cxr_hospital.writers.rsna import make_rsna_case
from cxrflow.data.layouts import layout
from cxrflow.data.protocols import protocol
from cxrflow.data.readers import nih, padchest
from cxrflow.data.readers.common_tables import Request, Tables
from cxrflow.data.readers.padchest import LABELS
from cxrflow.images.decode import decode_picture

HEADER = (
    "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,View Position,"
    "OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y]"
)
NAMES = [f"{patient:08d}_{n:03d}.png" for patient in (1, 2, 3, 4) for n in (0, 1)]
WORDS = ["Effusion|Mass", "No Finding", "Pleural_Thickening", "Hernia"] * 2


def reasons(tables: Tables, of: str = "images") -> dict[str, int]:
    return {drop.reason: drop.count for drop in tables.dropped.get(of, [])}


def chestxray14(root: Path, edition: str = "v2020", rows: Sequence[str] = ()) -> Path:
    """Eight images of four patients, of whom the last two are tested."""
    (root / "images_001/images").mkdir(parents=True)
    comma = "," if edition == "2017" else ""
    age = "058Y" if edition == "2017" else "58"
    lines = [
        f"{name},{words},0,{int(name[:8])},{age},F,{'PA' if name[7] < '3' else 'AP'},"
        f"2500,2048,0.171,0.171{comma}"
        for name, words in zip(NAMES, WORDS, strict=True)
    ]
    name = "Data_Entry_2017.csv" if edition == "2017" else "Data_Entry_2017_v2020.csv"
    (root / name).write_text("\n".join([HEADER + comma, *lines, *rows, ""]))
    (root / "train_val_list.txt").write_text("\n".join(NAMES[:4]))
    (root / "test_list.txt").write_text("\r\n".join(NAMES[4:]))
    for image in NAMES:
        Image.fromarray(np.eye(8, dtype=np.uint8)).save(root / "images_001/images" / image)
    boxes = ["Image Index,Finding Label,Bbox [x,y,w,h],,,"]
    boxes += [f"{NAMES[0]},Effusion,233.4,425.1,86.0,79.5", f"{NAMES[5]},Infiltrate,1,2,30,40"]
    (root / "BBox_List_2017.csv").write_text("\n".join([*boxes, ""]))
    return root


@pytest.mark.parametrize("edition", ["v2020", "2017"])
def test_both_editions_are_read_alike(edition: str, tmp_path: Path) -> None:
    tables = nih.read(chestxray14(tmp_path, edition), Request())
    assert tables.images["image_id"].tolist() == NAMES and tables.images["failure"].isna().all()
    assert tables.images["subject_id"].tolist() == [name[:8] for name in NAMES]
    assert tables.images["view"].tolist() == ["PA"] * 4 + ["AP"] * 4
    labels = tables.labels.set_index("image_id")
    assert labels.loc[NAMES[0]][lambda row: row == 1].index.tolist() == ["Effusion", "Mass"]
    assert labels.loc[NAMES[1]].sum() == labels.loc[NAMES[1], "No Finding"] == 1
    assert tables.splits is not None
    split = tables.splits.set_index("subject_id")["split"].to_dict()
    assert split == dict(
        zip([n[:8] for n in NAMES[::2]], ["train"] * 2 + ["test"] * 2, strict=True)
    )
    assert tables.boxes["category"].tolist() == ["Effusion", "Infiltration"]
    assert tables.boxes.loc[0, [*"xywh"]].tolist() == [233.4, 425.1, 86.0, 79.5]
    assert not any(map(reasons, [tables, tables], ["images", "boxes"]))


def test_damaged_rows_of_nih_are_counted(tmp_path: Path) -> None:
    wrong = ["00000005_000.png,Infiltrate,0,5,58,F,PA,1,1,1,1", "x.png,Mass,0,5,58,F,PA,1,1,1,1"]
    wrong += ["00000006_000.png,No Finding|Mass,0,6,58,F,PA,1,1,1,1"]
    wrong += ["00000007_000.png,Mass,0,7,58,F,PA,1,1,1,1"]
    tables = nih.read(chestxray14(tmp_path, rows=wrong), Request())
    counts = list(reasons(tables).values())
    assert sorted(counts) == [1, 2] and len(tables.images) == 9
    assert tables.images["failure"].tolist()[-1] == "file not found"
    assert tables.notes == ["1 images of the table are in neither official list"]


@pytest.mark.parametrize("box", ["Nodule,12O,2,3,4", "Nodul,1,2,3,4", ",1,2,3,4", "Mass,1,2,0,4"])
def test_one_bad_box_takes_the_other_boxes_of_its_image(tmp_path: Path, box: str) -> None:
    """Whatever they show: an image's boxes are one region where it is scored."""
    root = chestxray14(tmp_path)
    path = root / "BBox_List_2017.csv"
    path.write_text(path.read_text() + f"{NAMES[0]},{box}\n")
    tables = nih.read(root, Request())
    assert tables.boxes["image_id"].tolist() == [NAMES[5]]
    assert sum(reasons(tables, "boxes").values()) == 2


def test_without_its_lists_nih_has_no_official_split(tmp_path: Path) -> None:
    root = chestxray14(tmp_path / "nih")
    options = ["--layout", "nih", "--root", root]
    settings = {"kind": "classification", "splits": {"method": "official"}}
    flow = make(tmp_path / "whole", *options, **settings)
    assert {k: v["images"] for k, v in flow["splits"].items()} == {"train": 4, "test": 4}
    (root / "test_list.txt").write_text("\n".join(NAMES[3:]))
    with pytest.raises(InputError, match=f"1 image.s. in both lists .{NAMES[3]}.; expected each"):
        make(tmp_path / "both", *options, **settings)
    (root / "test_list.txt").write_text("\n".join([*NAMES[4:7]]))
    (root / "train_val_list.txt").write_text("\n".join([*NAMES[:4], NAMES[7]]))
    with pytest.raises(InputError, match=r"1 patient\(s\) with images in both lists \(00000004\)"):
        make(tmp_path / "patient", *options, **settings)
    (root / "test_list.txt").write_bytes(b"\xd8\x00")
    with pytest.raises(InputError, match="test_list.txt: not UTF-8"):
        make(tmp_path / "damaged", *options, **settings)
    (root / "test_list.txt").unlink()
    with pytest.raises(InputError, match=r"test_list.txt: not found; expected both .* or neither"):
        make(tmp_path / "one", *options, **settings)
    (root / "train_val_list.txt").unlink()
    with pytest.raises(InputError) as refused:
        make(tmp_path / "none", *options, **settings)
    assert str(refused.value) == (
        f"{root}: splits.method is official, but no split comes with it; train_val_list.txt and "
        "test_list.txt not found; expected the publisher's lists, or another method, such as "
        "patients"
    )
    settings["splits"] = {"method": "patients"}
    flow = make(tmp_path / "drawn", *options, **settings)
    assert sum(part["images"] for part in flow["splits"].values()) == 8


def test_lists_that_do_not_name_the_images_are_said(tmp_path: Path) -> None:
    root = chestxray14(tmp_path)
    (root / "test_list.txt").write_text("\n".join(f"images/{name}" for name in NAMES[4:]))
    assert nih.read(root, Request()).notes == [
        "4 images of the table are in neither official list",
        f"4 lines of the official lists are no image of the table (e.g. images/{NAMES[4]})",
    ]


def test_an_image_in_neither_list_has_no_part_though_its_patient_has_one(tmp_path: Path) -> None:
    """The lists are of images: what they leave out is not tested on, and is counted."""
    root = chestxray14(tmp_path / "nih")
    (root / "test_list.txt").write_text("\n".join(NAMES[4:7]))
    settings = {"method": "official", "parts": {"test": "test"}}
    options = ["--layout", "nih", "--root", root]
    flow = make(tmp_path / "cohort", *options, kind="classification", splits=settings)
    samples = pd.read_parquet(tmp_path / "cohort/samples.parquet")
    assert samples["image_id"].tolist() == NAMES[4:7]
    (step,) = (step for step in flow["steps"] if step["name"] == "images listed")
    (drop,) = step["dropped"]
    assert drop["reason"] == "in neither official list, unlike others of its patient"
    assert (drop["count"], drop["examples"], drop["failed"]) == (1, [NAMES[7]], False)
    assert flow["notes"] == ["1 images of the table are in neither official list"]


def test_another_header_of_nih_is_one_clear_error(tmp_path: Path) -> None:
    path = chestxray14(tmp_path) / "Data_Entry_2017_v2020.csv"
    path.write_text(path.read_text().replace("Finding Labels", "Labels"))
    with pytest.raises(InputError, match="column 'Finding Labels' is missing; expected Image Ind"):
        nih.read(tmp_path, Request())


def test_the_nih_copy_holds_rsnas_images_and_the_mapping_says_which(tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(update={"rsna_mapping": True})
    for name in ("rsna", "nih"):
        writer(name)(settings, tmp_path / name, 1)
    challenge = layout("rsna").read(tmp_path / "rsna", Request())
    whole = nih.read(tmp_path / "nih", Request())
    assert not challenge.notes and not whole.notes and not any(map(reasons, [challenge, whole]))
    ours = set(whole.images["subject_id"])
    assert set(challenge.images["subject_id"]) < ours
    case = make_rsna_case(settings, 3)
    (image,) = nih_images(settings, 4)
    assert image.name == "00000004_000.png"
    drawn = draw(image.patient, image.study, image.acquisition, 64).image
    assert np.array_equal(drawn, draw(case.patient, case.study, case.acquisition, 64).image)
    labels = whole.labels.set_index("image_id").loc[image.name]
    assert set(labels[labels == 1].index) == {label_of(f) for f in case.study.findings} or {
        "No Finding"
    }
    assert layout("nih").ids == layout("rsna").ids and layout("nih").people & layout("rsna").people
    assert set(whole.boxes["image_id"]) <= set(whole.images["image_id"])


def padchest_rows(root: Path, labels: dict[str, str], **columns: Sequence[str]) -> Path:
    """A row an image, all by physicians."""
    table = {
        "ImageID": list(labels),
        "ImageDir": ["7"] * len(labels),
        "StudyID": [f"s{n}" for n in range(len(labels))],
        "PatientID": [f"p{n}" for n in range(len(labels))],
        "Projection": ["PA"] * len(labels),
        "MethodLabel": ["Physician"] * len(labels),
        "Labels": list(labels.values()),
        **columns,
    }
    path = root / "PADCHEST_chest_x_ray_images_labels_160K_01.02.19.csv.gz"
    root.mkdir(exist_ok=True)
    with gzip.open(path, "wt") as file:
        pd.DataFrame(table).to_csv(file)
    return root


def test_padchest_lists_are_split_into_whole_items(tmp_path: Path) -> None:
    labels = {
        "a.png": "['pleural effusion', ' cardiomegaly ', '']",
        "b.png": "['Loculated pleural effusion', 'loc left']",
        "c.png": "['normal']",
        "d.png": "",
        "e.png": "['cardiomegaly'",
        "f.png": "cardiomegaly",
        "g.png": "['nodule']",
        "h.png": "['mass']",
        "i.png": "['', ' ']",
        "j.png": "{[]: 1}",
    }
    methods = ["Physician"] * 6 + ["RNN_model", "Nurse"] + ["Physician"] * 2
    views = ["PA", "L", "AP_horizontal", *["PA"] * 7]
    root = padchest_rows(tmp_path / "p", labels, MethodLabel=methods, Projection=views)
    tables = padchest.read(root, Request(headers=False))
    # In the order of KAD's list, which has 193.
    classes = ["normal", "pleural effusion", "cardiomegaly", "loculated pleural effusion"]
    assert tables.classes == classes and len(set(LABELS)) == 193 == len(LABELS)
    assert tables.labels[classes].to_numpy().tolist() == [[0, 1, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]]
    assert tables.notes == ["label 'loc left' of 1 images is none of the 193"]
    assert tables.images["view"].tolist() == ["PA", "LATERAL", "AP SUPINE"]
    damage = {drop.reason: (drop.count, drop.failed) for drop in tables.dropped["images"]}
    name = "PADCHEST_chest_x_ray_images_labels_160K_01.02.19.csv.gz"
    assert damage == {
        "labelled by a network": (1, False),
        f"{name}: MethodLabel is neither Physician nor RNN_model": (1, True),
        f"{name}: Labels is no list": (3, True),
        "no labels": (2, False),
    }


def test_padchest_images_of_monochrome1_are_counted_in_a_note(tmp_path: Path) -> None:
    labels = dict.fromkeys(["a.png", "b.png", "c.png"], "['normal']")
    column = {"PhotometricInterpretation_DICOM": ["MONOCHROME1", "", "MONOCHROME1"]}
    root = padchest_rows(tmp_path / "p", labels, **column)
    (note,) = padchest.read(root, Request(headers=False)).notes
    assert note.startswith(
        "PhotometricInterpretation_DICOM is MONOCHROME1 of 2 images (e.g. a.png, c.png); their "
    )
    (note,) = padchest.read(root, Request(headers=False, images={"c.png"})).notes
    assert "MONOCHROME1 of 1 images (e.g. c.png)" in note


def test_padchest_images_lie_where_the_archives_put_them(tmp_path: Path) -> None:
    root = padchest_rows(tmp_path / "p", {"a.png": "['normal']"})
    assert padchest.read(root, Request()).images["failure"].tolist() == ["file not found"]
    for folder in ("images", "images/7", "7"):
        (root / folder).mkdir()
        (root / folder / "a.png").write_bytes(b"a picture")
        images = padchest.read(root, Request()).images
        assert images["image_path"].tolist() == [f"{folder}/a.png"]
        assert images["failure"].isna().all()


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        ({}, ["a.png", "b.png", "c.png", "d.png", "e.png"]),
        ({"frontal": True, "choose": "all"}, ["a.png", "b.png", "d.png"]),
        ({"frontal": True, "choose": "first"}, ["a.png", "d.png"]),
    ],
    ids=["laterals in", "out", "out, one image a study"],
)
def test_laterals_of_padchest_are_in_or_out(tmp_path: Path, asked: dict, kept: list[str]) -> None:
    labels = dict.fromkeys(["a.png", "b.png", "c.png", "d.png", "e.png"], "['normal']")
    views, studies = ["PA", "AP_horizontal", "L", "PA", "L"], ["s0"] * 3 + ["s1"] * 2
    root = padchest_rows(
        tmp_path / "p", labels, Projection=views, StudyID=studies, PatientID=studies
    )
    (root / "7").mkdir()
    for name in labels:
        (root / "7" / name).write_bytes(b"a picture")
    options = ["--layout", "padchest", "--root", root]
    asked = {"kind": "classification", **protocol("padchest").cohort, **asked}
    flow, samples = cohort(tmp_path / "cohort", *options, **asked)
    assert samples["image_id"].tolist() == kept
    if "e.png" not in kept:
        assert step(flow, "frontal view", "images") == (3, {"view LATERAL": 2})


def test_padchest_without_a_physician_s_labels_is_one_clear_error(tmp_path: Path) -> None:
    root = padchest_rows(
        tmp_path / "p",
        {"a.png": "", "b.png": "['mass']"},
        MethodLabel=["Physician", "RNN_model"],
    )
    why = r"no row with Labels of MethodLabel Physician \(1 labelled by a network; 1 no labels\)"
    with pytest.raises(InputError, match=rf"160K_01.02.19.csv.gz: {why}"):
        make(tmp_path / "cohort", "--layout", "padchest", "--root", root, kind="classification")


def test_padchest_labels_that_are_none_of_the_193_are_one_clear_error(tmp_path: Path) -> None:
    root = padchest_rows(tmp_path / "p", {"a.png": "['oedema']", "b.png": "['oedema', 'mss']"})
    why = r"column Labels has none of the 193 labels .*'oedema' is the commonest.; expected names "
    with pytest.raises(InputError, match=rf"160K_01.02.19.csv.gz: {why}"):
        make(tmp_path / "cohort", "--layout", "padchest", "--root", root, kind="classification")


def test_test_images_alone_are_enough_and_those_of_another_part_fail_nothing(
    tmp_path: Path,
) -> None:
    root = chestxray14(tmp_path / "nih")
    for name in NAMES[:4]:
        (root / "images_001/images" / name).unlink()
    asked = {"kind": "classification", **protocol("nih").cohort}
    make(tmp_path / "cohort", "--layout", "nih", "--root", root, **asked)
    steps = read_json(tmp_path / "cohort/flow.json")["steps"]
    kept = {step["name"]: (step["kept"], step["dropped"]) for step in steps}
    (other,) = kept["split known"][1]
    assert (other["reason"], other["count"]) == ("not in the given split", 4)
    assert not other["failed"]
    assert kept["image usable"] == (4, [])
    (root / "images_001/images" / NAMES[5]).unlink()
    with pytest.raises(InputError, match="1 of 4 images failed at 'image usable'"):
        make(tmp_path / "other", "--layout", "nih", "--root", root, **asked)


def test_a_part_that_damage_emptied_is_said_with_the_damage(tmp_path: Path) -> None:
    root = chestxray14(tmp_path / "nih")
    path = root / "Data_Entry_2017_v2020.csv"
    path.write_text(path.read_text().replace(",PA,", ",PA,x,").replace(",AP,", ",AP,x,"))
    asked = {"kind": "classification", **protocol("nih").cohort}
    with pytest.raises(InputError, match=r"names 'test'; the split has no images .left out: 8 "):
        make(tmp_path / "cohort", "--layout", "nih", "--root", root, **asked)


def test_the_padchest_copy_is_damaged_as_the_published_set(written: Path) -> None:
    root = written / "padchest"
    tables = padchest.read(root, Request())
    assert tables.notes == []
    assert tables.images["failure"].value_counts().to_dict() in ({}, {"file not found": 1})
    columns = pd.read_csv(next(root.glob("*.csv")))
    assert columns.shape[1] == 36 and columns["Labels"].isna().sum() == 2
    assert columns["Labels"].str.contains("' ").any()  # stray spaces
    pictures = {path.name: path for path in root.glob("[01]/*.png")}
    assert len(columns) - len(pictures) == 1
    depths, cut = set(), 0
    for path in pictures.values():
        try:
            depths.add(decode_picture(path.read_bytes(), 10**8).bits)
        except Exception:
            cut += 1
    assert (depths, cut) == ({16}, 1)


def test_the_padchest_copy_has_its_own_tone_and_names_no_other_defect() -> None:
    """Exposure and blur are drawn for every image, so no image is called overexposed or blurred."""
    settings = HospitalSettings(spoilt_share=0.5)
    images = [
        image
        for number in range(60)
        for study in padchest_patient(settings, number).studies
        for image in study.images
    ]
    for name, (low, high) in TONE.items():
        assert all(low <= getattr(image, name) <= high for image in images)
    assert {image.spoilt for image in images} == {None, "clipped", "rotated"}


def test_rare_findings_are_in_both_copies() -> None:
    settings = HospitalSettings(nih_patients=300)
    names = [
        label_of(finding)
        for number in range(20_001, 20_301)
        for image in nih_images(settings, number)
        for finding in image.study.findings
    ]
    assert set(names) == set(nih.CLASSES) - {"No Finding"}
