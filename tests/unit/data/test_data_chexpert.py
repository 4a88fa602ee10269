"""CheXpert, 8x200 and RSNA's second stage as published: parts, labels, leakage, bad input."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cohort_fixtures import dropped
from cohort_fixtures import make as make_cohort
from data_fixtures import corpus, rsna, write_csv, write_dicom

from cxr_files.errors import InputError
from cxrflow.data.cohorts.settings import CohortSettings
from cxrflow.data.readers.chexpert import OBSERVATIONS
from cxrflow.data.readers.retrieval_8x200 import EXAMPLES
from cxrflow.show.page.cohorts import lanes, sums_check

# Of train.csv and valid.csv.
COLUMNS = ("Path", "Sex", "Age", "Frontal/Lateral", "AP/PA", *OBSERVATIONS)
SMALL, FULL = "CheXpert-v1.0-small/", "CheXpert-v1.0/"
CATEGORIES = ("Atelectasis", "Fracture", "No Finding")


def labels(value: object = "", **named: object) -> list[object]:
    """All labels alike, but for those that are named (spaces as underscores)."""
    told = {name.replace("_", " "): label for name, label in named.items()}
    return [told.get(name, value) for name in OBSERVATIONS]


def path(part: str, patient: int, study: int = 1, image: str = "view1_frontal") -> str:
    return f"{part}/patient{patient:05d}/study{study}/{image}.jpg"


def image(root: Path, name: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_bytes(b"a picture")


def chexpert(root: Path, prefix: str = SMALL, rows: Sequence[Sequence[object]] = ()) -> Path:
    """12 patients of two images train, 3 are valid, 2 test; ``rows`` are more of train.csv."""
    train: list[Sequence[object]] = []
    for patient in range(1, 13):
        told = labels(Edema="-1.0", Atelectasis="1.0", Pneumothorax="0.0")
        train.append([path("train", patient), "Male", 61, "Frontal", "AP", *told])
        side = path("train", patient, image="view2_lateral")
        train.append([side, "Male", 61, "Lateral", "", *told])
    valid = [
        [path("valid", n), "Female", 50, "Frontal", "PA", *labels("0.0", Edema=f"{n % 2}.0")]
        for n in (101, 102, 103)
    ]
    test = [[path("test", n), *labels("0.0")] for n in (201, 202)]
    for rows_of in (train, valid, test):
        for row in rows_of:
            image(root, str(row[0]))
    write_csv(root / "train.csv", COLUMNS, [[prefix + str(r[0]), *r[1:]] for r in [*train, *rows]])
    write_csv(root / "valid.csv", COLUMNS, [[prefix + str(r[0]), *r[1:]] for r in valid])
    write_csv(root / "test_labels.csv", ("Path", *OBSERVATIONS), test)
    return root


def make(output: Path, layout: str, root: Path, *options: object, **settings: Any) -> Any:
    named = ["--layout", layout, "--root", root, *options]
    return make_cohort(output, *named, **({"kind": "classification"} | settings))


OFFICIAL = {"method": "official", "parts": {"train": "train", "valid": "test"}}


@pytest.mark.parametrize("prefix", [SMALL, FULL, ""])
def test_labels_of_reports_train_and_those_of_radiologists_test(prefix, tmp_path):
    root = chexpert(tmp_path / "chexpert", prefix)
    flow = make(tmp_path / "out", "chexpert", root, splits=OFFICIAL)
    rows = pd.read_parquet(tmp_path / "out/samples.parquet").set_index("image_id")
    assert rows["split"].value_counts().to_dict() == {"train": 24, "test": 3}
    assert dropped(flow, "split known") == {"not in the given split": 2}
    assert flow["classes"] == list(OBSERVATIONS)
    first = rows.loc["patient00001/study1/view1_frontal"]
    assert (first["image_path"], first["view"]) == (path("train", 1), "AP")
    assert (first["group_id"], first["subject_id"]) == ("patient00001/study1", "patient00001")
    told = dict(zip(OBSERVATIONS, first["labels"], strict=True))
    assert (told["Edema"], told["Atelectasis"], told["Pneumothorax"]) == (-1, 1, 0)
    assert np.isnan(told["Pneumonia"])
    assert rows.loc["patient00001/study1/view2_lateral", "view"] == "LATERAL"
    assert not np.isnan(np.stack(rows.loc[rows["split"] == "test", "labels"])).any()
    names = {check["name"] for check in flow["checks"]}
    assert names == {"image in one split", "patient in one split"}


def test_the_first_view_alone_may_stand_for_a_study(tmp_path: Path) -> None:
    """MedCutMix's studies are scored by the mean of their images; this is the option."""
    root = chexpert(tmp_path / "chexpert")
    tests = pd.read_csv(root / "test_labels.csv")
    more = [path("test", 202, image=name) for name in ("view2_lateral", "view3_frontal")]
    more += [path("test", 203, image=name) for name in ("view1_lateral", "view2_frontal")]
    for name in more:
        image(root, name)
    added = pd.DataFrame([[name, *labels("0.0")] for name in more], columns=tests.columns)
    pd.concat([tests, added]).to_csv(root / "test_labels.csv", index=False)
    splits = {"method": "official", "parts": {"test": "test"}}

    def images(**settings: Any) -> list[str]:
        make(tmp_path / "out", "chexpert", root, splits=splits, **settings)
        return pd.read_parquet(tmp_path / "out/samples.parquet")["image_id"].tolist()

    assert len(images()) == 6
    assert images(frontal=True, choose="first") == [
        *("patient00201/study1/view1_frontal", "patient00202/study1/view1_frontal"),
        "patient00203/study1/view2_frontal",
    ]
    assert len(images(frontal=True, choose="all")) == 4


def test_parts_have_the_names_that_the_cohort_gives_them(tmp_path: Path) -> None:
    root = chexpert(tmp_path / "chexpert")
    plain = {"method": "official"}
    parts = make(tmp_path / "out", "chexpert", root, splits=plain)["splits"]
    images = {name: part["images"] for name, part in parts.items()}
    assert images == {"train": 24, "validate": 3, "test": 2}
    wrong = {"method": "official", "parts": {"dev": "test"}}
    with pytest.raises(InputError, match=r"names 'dev'; the split has test, train, valid"):
        make(tmp_path / "out", "chexpert", root, splits=wrong)
    of_patients = {"method": "patients", "parts": {"train": "train"}}
    with pytest.raises(ValueError, match="expected method official, or ordered"):
        CohortSettings.model_validate({"kind": "classification", "splits": of_patients})
    with pytest.raises(ValueError, match="is patients where none is named; expected official or"):
        CohortSettings.model_validate({"kind": "pairs", "splits": {"parts": {}}})
    with pytest.raises(ValueError, match=r"splits\.parts of a cohort of kind grounding"):
        CohortSettings.model_validate({"kind": "grounding", "splits": wrong})


def test_what_was_not_asked_for_is_not_in_the_settings() -> None:
    assert "parts" not in CohortSettings(kind="classification").record()["splits"]
    asked = CohortSettings.model_validate({"kind": "classification", "splits": OFFICIAL})
    assert asked.record()["splits"]["parts"] == OFFICIAL["parts"]


def test_other_columns_are_one_clear_error(tmp_path: Path) -> None:
    root = chexpert(tmp_path / "chexpert")
    lists = root / "train.csv"
    lists.write_text(lists.read_text().replace("Pleural Effusion", "Effusion"))
    with pytest.raises(InputError, match=r"train\.csv: column 'Pleural Effusion' is missing"):
        make(tmp_path / "out", "chexpert", root, splits=OFFICIAL)
    (root / "valid.csv").unlink()
    lists.write_text(lists.read_text().replace("Effusion", "Pleural Effusion", 1))
    with pytest.raises(InputError, match=r"valid\.csv not found"):
        make(tmp_path / "out", "chexpert", root, splits=OFFICIAL)


def test_an_image_that_is_listed_twice(tmp_path: Path) -> None:
    told = labels(Edema="-1.0", Atelectasis="1.0", Pneumothorax="0.0")
    again = [path("train", 1), "Male", 61, "Frontal", "AP", *told]
    root = chexpert(tmp_path / "same", rows=[again])
    flow = make(tmp_path / "out", "chexpert", root, splits=OFFICIAL)
    assert dropped(flow, "images listed") == {"the same row again": 1}
    root = chexpert(tmp_path / "other", rows=[[*again[:-1], "1.0"]])
    with pytest.raises(InputError, match=r"1 value\(s\) of image_id .*patient00001/study1/view1"):
        make(tmp_path / "out", "chexpert", root, splits=OFFICIAL)


def test_values_and_paths_that_mean_nothing_are_counted(tmp_path: Path) -> None:
    rows = [
        [path("train", 13), "Male", 61, "Frontal", "AP", *labels(Edema="2.0")],
        [path("train", 14), "Male", 61, "Frontal", "AP", *labels(Edema="maybe")],
        ["train/somebody/view1_frontal.jpg", "Male", 61, "Frontal", "AP", *labels(Edema="1.0")],
        [path("train", 15), "Male", 61, "Frontal", "AP", *labels(Edema="1.0")],
    ]
    root = chexpert(tmp_path / "chexpert", rows=rows)
    flow = make(tmp_path / "out", "chexpert", root, splits=OFFICIAL, max_failed_share=0.5)
    assert dropped(flow, "images listed") == {
        "train.csv: Edema is not a number": 1,
        "train.csv: Edema is not 1, 0, -1 or blank": 1,
        "train.csv: Path is not …/train/patient<number>/study<number>/<image>.jpg": 1,
    }
    assert dropped(flow, "image usable") == {"file not found": 1}
    with pytest.raises(InputError, match="failed at 'images listed'"):
        make(tmp_path / "out", "chexpert", root, splits=OFFICIAL)


# --- 8x200 ----------------------------------------------------------------------------------------


def retrieval(root: Path, queries: Sequence[tuple[str, str]] | None = None) -> Path:
    """Patient 1 has a query and a candidate; candidates are patients 1 to 6, two a category."""
    candidates = [
        [SMALL + path("train", n + 1), "Male", 61, "Frontal", "AP"]
        + labels("0.0", **{CATEGORIES[n // 2].replace(" ", "_"): "1.0"})
        for n in range(6)
    ]
    for folder in ("image-retrieval", "text-retrieval"):
        write_csv(root / folder / "candidate.csv", COLUMNS, candidates)
    if queries is None:
        queries = [
            ("Atelectasis", SMALL + path("train", 1, image="view2_lateral")),
            ("Fracture", SMALL + path("train", 7)),
            ("No Finding", SMALL + path("train", 8)),
        ]
    lines = ["Variable,Path", *(f"{name},{where}" for name, where in queries)]
    (root / "image-retrieval/query.csv").write_bytes("\r\n".join(lines).encode())
    texts = [(name, f"{name}, said {how}.") for name in CATEGORIES for how in ("so", "otherwise")]
    write_csv(root / "text-retrieval/query.csv", ("Variable", "Text"), texts)
    return root


def make_retrieval(tmp_path: Path, root: Path, **settings: Any) -> Any:
    images = ["--images-layout", "chexpert", "--images-root", tmp_path / "chexpert"]
    values = {"kind": "retrieval", **settings}
    return make(tmp_path / "out", "retrieval_8x200", root, *images, **values)


def test_queries_and_candidates_are_joined_to_the_images_of_chexpert(tmp_path: Path) -> None:
    chexpert(tmp_path / "chexpert")
    flow = make_retrieval(tmp_path, retrieval(tmp_path / "sets"))
    rows = pd.read_parquet(tmp_path / "out/samples.parquet")
    assert rows["part"].value_counts().to_dict() == {"candidate": 6, "query": 3}
    assert set(rows["split"]) == {"test"} and rows["image_id"].is_unique
    first = rows[rows["part"] == "query"].set_index("category").loc["Atelectasis"]
    assert first["image_path"] == path("train", 1, image="view2_lateral")
    assert first["view"] == "LATERAL"
    texts = pd.read_parquet(tmp_path / "out/queries.parquet")
    assert list(texts) == ["query_id", "category", "text"]
    assert texts.iloc[-1].to_list() == ["no_finding_2", "No Finding", "No Finding, said otherwise."]
    assert "1 patient(s) have both a query and a candidate image" in flow["notes"]
    assert flow["categories"]["candidate/Fracture"] == flow["categories"]["text/Fracture"] == 2


def test_texts_may_be_gzipped(tmp_path: Path) -> None:
    chexpert(tmp_path / "chexpert")
    root = retrieval(tmp_path / "sets")
    plain = root / "text-retrieval/query.csv"
    Path(f"{plain}.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    make_retrieval(tmp_path, root)
    texts = pd.read_parquet(tmp_path / "out/queries.parquet")
    assert texts.iloc[-1].to_list() == ["no_finding_2", "No Finding", "No Finding, said otherwise."]


def test_table_5_stands_in_for_texts_that_are_not_there(tmp_path: Path) -> None:
    chexpert(tmp_path / "chexpert")
    root = retrieval(tmp_path / "sets")
    (root / "text-retrieval/query.csv").unlink()
    flow = make_retrieval(tmp_path, root)
    texts = pd.read_parquet(tmp_path / "out/queries.parquet")
    told = dict(zip(texts["category"], texts["text"], strict=True))
    assert told == {name: EXAMPLES[name] for name in CATEGORIES}
    assert any("Table 5" in note for note in flow["notes"])


def test_queries_that_point_nowhere(tmp_path: Path) -> None:
    chexpert(tmp_path / "chexpert")
    gone = SMALL + path("train", 99)
    good = [("Fracture", SMALL + path("train", n)) for n in (7, 8)]
    root = retrieval(tmp_path / "sets", [*good, ("Fracture", gone)])
    flow = make_retrieval(tmp_path, root, max_failed_share=0.5)
    reason = "image queries: not in the image data set"
    assert dropped(flow, "image usable") == {reason: 1}
    with pytest.raises(InputError, match=r"1 of 3 images failed at 'image usable: image queries'"):
        make_retrieval(tmp_path, root)
    root = retrieval(tmp_path / "unknown", [("Fractures", SMALL + path("train", 7))])
    with pytest.raises(InputError, match="is 'Fractures', .* expected one of Atelectasis"):
        make_retrieval(tmp_path, root)
    root = retrieval(tmp_path / "nobody", [("Fracture", "somewhere.jpg"), *good])
    flow = make_retrieval(tmp_path, root, max_failed_share=0.5)
    assert sum(dropped(flow, "images listed").values()) == 1
    assert sums_check(lanes(flow["steps"]))["passed"]


def test_a_query_is_no_candidate_and_a_candidate_shows_one_thing(tmp_path: Path) -> None:
    chexpert(tmp_path / "chexpert")
    root = retrieval(tmp_path / "sets", [("Fracture", SMALL + path("train", 1))])
    with pytest.raises(InputError, match=r"1 image\(s\) are listed twice \(patient00001"):
        make_retrieval(tmp_path, root)
    root = retrieval(tmp_path / "several")
    lists = root / "image-retrieval/candidate.csv"
    frame = pd.read_csv(lists)
    frame.loc[0, "Edema"], frame.loc[2, "Edema"] = 1.0, -1.0
    frame.to_csv(lists, index=False)
    with pytest.raises(InputError, match=r"listed: candidates'.* not one label 1 and all others 0"):
        make_retrieval(tmp_path, root)
    flow = make_retrieval(tmp_path, root, max_failed_share=1)
    reason = "candidate.csv: not one label 1 and all others 0"
    assert dropped(flow, "images listed") == {reason: 2}


def test_patients_of_8x200_leave_what_is_trained_on(tmp_path: Path) -> None:
    again = [path("train", 12), "Male", 61, "Frontal", "AP"]
    again += labels(Edema="-1.0", Atelectasis="1.0", Pneumothorax="0.0")
    root = chexpert(tmp_path / "chexpert", rows=[again])
    sets = retrieval(tmp_path / "sets")
    held = ["--held-out", f"retrieval_8x200={sets}"]
    flow = make(tmp_path / "out", "chexpert", root, *held, splits=OFFICIAL)
    rows = pd.read_parquet(tmp_path / "out/samples.parquet")
    trained = set(rows.loc[rows["split"] == "train", "subject_id"])
    assert trained == {f"patient{n:05d}" for n in range(9, 13)}
    assert (rows["split"] == "test").sum() == 3
    assert dropped(flow, "patient not held out") == {"patient of retrieval_8x200": 16}
    kept = {step["name"]: step["kept"] for step in flow["steps"]}
    assert (kept["images published"], kept["images listed"]) == (29, 13)
    assert dropped(flow, "images published") == {"the same row again": 1}
    assert sums_check(lanes(flow["steps"]))["passed"]
    assert flow["checks"][-1]["name"] == "held-out patients not trained on"


# --- RSNA's second stage --------------------------------------------------------------------------


def rsna_lists(root: Path, tests: int = 3, **wrong: str) -> Path:
    """The tiny RSNA with labelled test images, and 7 / 3 of its others in lists.

    ``wrong``: a line more of a list, by the first four letters of its name.
    """
    rsna(root)
    names = sorted(file.stem for file in (root / "stage_2_train_images").iterdir())
    for number in range(tests):
        write_dicom(root / f"stage_2_test_images/test-{number}.dcm")
    lists = {
        "train_list.txt": [f"stage_2_train_images/{n}.dcm {int(n[-1] > '5')}" for n in names[3:]],
        "val_list.txt": [f"stage_2_train_images/{name}.dcm 0" for name in names[:3]],
        "test_list.txt": [f"stage_2_test_images/test-{n}.dcm {n % 2}" for n in range(tests)],
    }
    for name, lines in lists.items():
        (root / name).write_text("\n".join([*lines, wrong.get(name[:4], "")]) + "\n")
    return root


def test_rsna_as_published_beside_the_other_papers_split(tmp_path: Path) -> None:
    root = rsna_lists(tmp_path / "rsna")
    before = make(tmp_path / "ordered", "rsna", root)
    assert before["splits"] == {
        "train": {"samples": 7, "patients": 0, "images": 7},
        "test": {"samples": 3, "patients": 0, "images": 3},
    }
    flow = make(tmp_path / "out", "rsna", root, splits={"method": "official"})
    rows = pd.read_parquet(tmp_path / "out/samples.parquet")
    assert rows["split"].value_counts().to_dict() == {"train": 7, "validate": 3, "test": 3}
    tested = rows[rows["split"] == "test"].set_index("image_id")
    assert tested["image_path"]["test-1"] == "stage_2_test_images/test-1.dcm"
    assert [value[0] for value in tested["labels"].sort_index()] == [0, 1, 0]
    assert rows["subject_id"].isna().all() and any("not known" in note for note in flow["notes"])
    for name in ("train_list.txt", "val_list.txt"):
        (root / name).unlink()
    make(tmp_path / "two", "rsna", root, splits={"method": "official"})
    rows = pd.read_parquet(tmp_path / "two/samples.parquet")
    assert rows["split"].value_counts().to_dict() == {"train": 10, "test": 3}
    (root / "test_list.txt").unlink()
    with pytest.raises(InputError, match=r"test_list\.txt not found"):
        make(tmp_path / "two", "rsna", root, splits={"method": "official"})


def test_rsna_patients_of_several_parts_are_said(tmp_path: Path) -> None:
    root = rsna_lists(tmp_path / "rsna")
    names = sorted(file.stem for file in (root / "stage_2_train_images").iterdir())
    records = [
        {"subset_img_id": name, "img_id": f"{number // 2:08d}_000.png"}
        for number, name in enumerate([*names[:3], "test-0", *names[3:], "test-1", "test-2"])
    ]
    (root / "pneumonia-challenge-dataset-mappings_2018.json").write_text(json.dumps(records))
    flow = make(tmp_path / "out", "rsna", root, splits={"method": "official"})
    rows = pd.read_parquet(tmp_path / "out/samples.parquet").set_index("image_id")
    assert rows.loc["test-0", "subject_id"] == rows.loc[names[2], "subject_id"]
    check = next(check for check in flow["checks"] if check["name"] == "patient in one split")
    assert not check["passed"] and check["detail"].startswith("2 of 3 test images")


def test_damaged_rsna_lists(tmp_path: Path) -> None:
    other = "stage_2_train_images/00000000-aaaa-4bbb-8ccc-000000000000.dcm 1"
    root = rsna_lists(tmp_path / "two", trai=other)
    with pytest.raises(InputError, match=r"1 image\(s\) stand in train_list\.txt, .* two labels"):
        make(tmp_path / "out", "rsna", root, splits={"method": "official"})
    root = rsna_lists(tmp_path / "three", test="test-9.dcm")
    flow = make(tmp_path / "out", "rsna", root, splits={"method": "official"}, max_failed_share=0.5)
    assert dropped(flow, "labels listed") == {"test_list.txt: not <folder>/<id>.dcm <0 or 1>": 1}
    (root / "test_list.txt").write_bytes("stage_2_test_images/a.dcm 1".encode("utf-16")[:-1])
    with pytest.raises(InputError, match=r"test_list\.txt: begins with the mark of UTF-16, but"):
        make(tmp_path / "out", "rsna", root, splits={"method": "official"})


def test_chexpert_has_the_labellers_classes():
    """What tasks may name is checked against these, whichever labels they read."""
    from cxr_labels.observations import OBSERVATIONS as LABELLED

    assert sorted(OBSERVATIONS) == sorted(LABELLED)


# --- whose patients -------------------------------------------------------------------------------


@pytest.fixture
def in_a_folder(tmp_path: Path) -> list[object]:
    """CheXpert's training and valid patients with reports, as a hospital's folder has them."""
    root = tmp_path / "own"
    lines = [f"{n},patient{n:05d}" for n in (1, 2, 3, 101, 102)]
    (root / "images").mkdir(parents=True)
    write_csv(root / "studies.csv", ("study_id", "patient_id"), [line.split(",") for line in lines])
    studies = [line.split(",")[0] for line in lines]
    for study in studies:
        (root / f"images/{study}_1.png").write_bytes(study.encode())
    texts = corpus(tmp_path / "corpus", studies)
    return ["--layout", "hospital", "--root", root, "--corpus", texts]


def test_patients_of_another_layout_s_folder_are_held_out(tmp_path, in_a_folder):
    chexpert(tmp_path / "chexpert")
    held = f"chexpert/valid,test={tmp_path / 'chexpert'}"
    settings = {"views": None, "splits": {"shares": {"train": 1.0}}}
    same = r"2 of 5 patients of chexpert have ids .*\(patient00101, patient00102\), though .*--ids"
    with pytest.raises(InputError, match=same):
        make_cohort(tmp_path / "out", *in_a_folder, "--held-out", held, **settings)
    options = [*in_a_folder, "--ids", "chexpert", "--held-out", held]
    flow = make_cohort(tmp_path / "out", *options, **settings)
    assert flow["held_out"] == [
        {"name": "chexpert", "patients": 5, "patients_here": 2, "studies_in_test": 2}
    ]
    rows = pd.read_parquet(tmp_path / "out/pairs.parquet").set_index("subject_id")["split"]
    assert sorted(rows[rows == "train"].index) == ["patient00001", "patient00002", "patient00003"]
    # The folder itself may be what is held out.
    held = f"mine:hospital@chexpert={tmp_path / 'own'}"
    flow = make(tmp_path / "labelled", "chexpert", tmp_path / "chexpert", "--held-out", held)
    assert flow["splits"]["train"]["images"] == 2 * (12 - 3)


def test_parts_that_a_set_does_not_have_are_named(tmp_path, in_a_folder):
    chexpert(tmp_path / "chexpert")
    options = [*in_a_folder, "--ids", "chexpert", "--held-out"]
    with pytest.raises(InputError, match="hold out name 'tests'; its split has test, train, valid"):
        make_cohort(tmp_path / "out", *options, f"chexpert/tests={tmp_path / 'chexpert'}")
    with pytest.raises(InputError, match="no split comes with it"):
        make_cohort(tmp_path / "out", *options, f"hospital/test@chexpert={tmp_path / 'own'}")
