"""Bad input, program by program: one clear line with exit code 2, or a counted skip.

Files of a tiny synthetic hospital are damaged one at a time. Where a program goes on, everything
that was not damaged must still be there, unchanged; where it does not, nothing may be left behind.
"""

import gzip
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pydicom
import pytest
import yaml
from bad_input_fixtures import (
    End,
    Stages,
    absent,
    change_csv,
    dropped,
    program,
    write_dicom,
)

from cxrflow.files import read_json

GENEROUS = {"max_failed_share": 0.5}


def frontal(stages: Stages, number: int = 0) -> tuple[str, Path]:
    """Image id and file of a row of the cohort."""
    row = pd.read_parquet(stages.cohort / "pairs.parquet").iloc[number]
    return row["image_id"], stages.data("mimic_cxr") / row["image_path"]


# ---------------------------------------------------------------- images


def damage_image(path: Path, damage: str) -> None:
    """Do to a DICOM file what its name says."""
    content = path.read_bytes()
    noise = np.random.default_rng(0).integers(0, 4000, (40, 48), dtype=np.uint16)
    if damage == "cut in the pixels":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "cut in the header":
        path.write_bytes(content[:200])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "no DICOM":
        path.write_bytes(b"<html>403 Forbidden</html>" * 40)
    elif damage == "gone":
        path.unlink()
    elif damage == "one pixel":
        write_dicom(path, noise[:1, :1])
    elif damage == "one row":
        write_dicom(path, noise[:1])
    elif damage == "all pixels equal":
        write_dicom(path, np.full_like(noise, 7))
    else:
        header = pydicom.dcmread(path)
        if damage == "float pixels":
            header.FloatPixelData = np.full(header.Rows * header.Columns, np.nan, "<f4").tobytes()
        del header.PixelData
        header.save_as(path, enforce_file_format=True)


SEEN_BY_THE_COHORT = {
    "cut in the pixels": "pixel data is cut off or absent",
    "cut in the header": "header is cut off",
    "empty": "file is empty",
    "no DICOM": "not a DICOM file",
    "gone": "file not found",
    "no pixels": "pixel data is cut off or absent",
}
SEEN_BY_THE_STORE = {
    "cut in the pixels": "cut off",
    "cut in the header": "DICOM",
    "empty": "empty file",
    "no DICOM": "DICOM",
    "gone": "file not found",
    "no pixels": "DICOM without pixel data",
    "float pixels": "DICOM without pixel data",
    "one pixel": "blank image: all 1 x 1 pixels are equal",
    "one row": "image of 1 x 48 pixels is below min_side 16",
    "all pixels equal": "blank image",
}


@pytest.mark.parametrize("damage", SEEN_BY_THE_COHORT)
def test_damaged_dicom_is_counted_by_the_cohort(
    stages: Stages, tmp_path: Path, damage: str
) -> None:
    before = pd.read_parquet(stages.cohort / "pairs.parquet").set_index("study_id")
    image, path = frontal(stages)
    damage_image(path, damage)
    stages.make_cohort(tmp_path / "cohort", **GENEROUS).succeeds()
    flow = read_json(tmp_path / "cohort" / "flow.json")
    step = next(step for step in flow["steps"] if step["name"] == "image file usable")
    [drop] = [drop for drop in step["dropped"] if SEEN_BY_THE_COHORT[damage] in drop["reason"]]
    assert drop["count"] == 1 and drop["failed"]
    assert str(path).endswith(drop["examples"][0])
    after = pd.read_parquet(tmp_path / "cohort" / "pairs.parquet").set_index("study_id")
    others = before.index[before["image_id"] != image]
    pd.testing.assert_frame_equal(
        after.loc[others].drop(columns=["prior_study_id", "prior_image_id", "prior_image_path"]),
        before.loc[others].drop(columns=["prior_study_id", "prior_image_id", "prior_image_path"]),
    )


def test_too_many_damaged_images_end_the_cohort(stages: Stages, tmp_path: Path) -> None:
    for number in range(4):
        damage_image(frontal(stages, number)[1], "empty")
    end = stages.make_cohort(tmp_path / "cohort", max_failed_share=0.01)
    end.refuses(stages.data("mimic_cxr"), "4 of", "max_failed_share", "file is empty", ".dcm")
    assert absent(tmp_path / "cohort")


@pytest.mark.parametrize("damage", SEEN_BY_THE_STORE)
def test_damaged_dicom_is_counted_by_the_pixel_store(
    stages: Stages, tmp_path: Path, damage: str
) -> None:
    before = pd.read_parquet(stages.pixels / "index.parquet").set_index("image_id")["sha256"]
    image, path = frontal(stages)
    damage_image(path, damage)
    stages.make_pixels(tmp_path / "pixels", **GENEROUS).succeeds()
    content = read_json(tmp_path / "pixels" / "store.json")
    assert content["failed"] == 1
    [failure] = content["failures"]
    assert failure["image_id"] == image and str(path).endswith(failure["path"])
    assert SEEN_BY_THE_STORE[damage] in failure["reason"]
    after = pd.read_parquet(tmp_path / "pixels" / "index.parquet").set_index("image_id")["sha256"]
    pd.testing.assert_series_equal(after, before.drop(image))


def test_too_many_damaged_images_end_the_store(stages: Stages, tmp_path: Path) -> None:
    _, path = frontal(stages)
    damage_image(path, "one pixel")
    end = stages.make_pixels(tmp_path / "pixels", max_failed_share=0.0, real=True)
    end.refuses("max_failed_share 0", "1 x blank image: all 1 x 1 pixels are equal", path.name)
    assert not (tmp_path / "pixels" / "store.json").exists()
    assert not list((tmp_path / "pixels").glob("*.partial"))


def stored(folder: Path, image: str) -> np.ndarray:
    from cxrflow.images.store import PixelStore

    store = PixelStore(folder)
    return store.read(store.rows([image]))[0]


def test_monochrome1_is_inverted_exactly_once(stages: Stages, tmp_path: Path) -> None:
    image, path = frontal(stages)
    pixels = np.random.default_rng(1).integers(0, 4000, (50, 44), dtype=np.uint16)
    write_dicom(path, pixels)
    stages.make_pixels(tmp_path / "bright", **GENEROUS).succeeds()
    write_dicom(path, pixels.max() - pixels + 5, "MONOCHROME1")
    stages.make_pixels(tmp_path / "dark", **GENEROUS).succeeds()
    index = pd.read_parquet(tmp_path / "dark" / "index.parquet").set_index("image_id")
    assert index.loc[image, "photometric"] == "MONOCHROME1"
    assert np.array_equal(stored(tmp_path / "bright", image), stored(tmp_path / "dark", image))


def test_colour_image_is_stored_as_its_luminance(stages: Stages, tmp_path: Path) -> None:
    image, path = frontal(stages)
    grey = np.random.default_rng(2).integers(0, 255, (50, 44), dtype=np.uint8)
    write_dicom(path, grey.astype(np.uint16))
    stages.make_pixels(tmp_path / "grey").succeeds()
    write_dicom(path, np.repeat(grey[..., None], 3, axis=2), "RGB")
    stages.make_pixels(tmp_path / "colour").succeeds()
    assert np.array_equal(stored(tmp_path / "grey", image), stored(tmp_path / "colour", image))
    # A colour radiograph is unusual, so the index says what it was.
    index = pd.read_parquet(tmp_path / "colour" / "index.parquet").set_index("image_id")
    assert index.loc[image, "photometric"] == "RGB"


# ---------------------------------------------------------------- reports


REPORTS = {
    "no sections": (b" \n FINAL REPORT \n", "no usable section"),
    "empty": (b"", "empty file"),
    "blank": (b" \n\t \n", "empty file"),
    "wrong encoding": ("IMPRESSION: Küntscher-Nagel, Herzgröße.".encode("latin-1"), "not UTF-8"),
    "UTF-16": ("FINDINGS: Clear.\n".encode("utf-16"), "not UTF-8"),
    "NUL bytes": (b"FINDINGS:\x00\x00\x00\x00", "not text (NUL bytes)"),
    "gone": (None, "file not found"),
}


@pytest.mark.parametrize("damage", REPORTS)
def test_bad_report_is_counted_and_the_others_are_kept(
    stages: Stages, tmp_path: Path, damage: str
) -> None:
    before = pd.read_parquet(stages.corpus / "sections.parquet").set_index("study_id")
    study = pd.read_parquet(stages.cohort / "pairs.parquet")["study_id"].iloc[0]
    content, reason = REPORTS[damage]
    [path] = stages.data("mimic_cxr").glob(f"files/p*/p*/s{study}.txt")
    (stages.data("mimic_cxr") / "mimic-cxr-reports.zip").unlink(missing_ok=True)
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    stages.make_corpus(tmp_path / "corpus", **GENEROUS).succeeds()
    [failed] = read_json(tmp_path / "corpus" / "corpus.json")["failed"]
    assert reason in failed["reason"] and failed["count"] == 1 and failed["examples"] == [study]
    after = pd.read_parquet(tmp_path / "corpus" / "sections.parquet").set_index("study_id")
    assert reason in after.loc[study, "outcome"] and after.loc[[study], "impression"].isna().all()
    pd.testing.assert_frame_equal(after.drop(study), before.drop(study))

    stages.make_cohort(tmp_path / "cohort", tmp_path / "corpus").succeeds()
    counts = dropped(read_json(tmp_path / "cohort" / "flow.json"))
    assert counts[f"no impression ({after.loc[study, 'outcome']})"] == 1


def test_too_many_bad_reports_end_the_corpus(stages: Stages, tmp_path: Path) -> None:
    for path in stages.data("mimic_cxr").glob("files/p*/p*/s*.txt"):
        path.write_bytes(b"")
    end = stages.make_corpus(tmp_path / "corpus", real=True)
    end.refuses(stages.data("mimic_cxr"), "unusable", "max_failed_share 0.05", "empty file")
    assert absent(tmp_path / "corpus")


# ---------------------------------------------------------------- tables as published


def run_reader(stages: Stages, name: str, output: Path) -> End:
    """The program that reads the table ``name``."""
    if name.startswith("cxr-record"):
        return stages.make_cohort(output)
    if name.startswith("cxr-study"):
        return stages.make_corpus(output)
    if name.startswith("MS_CXR"):
        return stages.make_grounding(output)
    if name.startswith("NOTEEVENTS"):
        return program(
            "text.corpus",
            "--layout",
            "mimic_iii",
            "--root",
            stages.data("mimic_iii"),
            "--output",
            output,
        )
    return stages.make_rsna(output)


def table_path(stages: Stages, name: str) -> Path:
    """The table as plain CSV; the copy as published may be gzipped."""
    [found] = (p for p in stages.root.rglob(f"{name}*") if p.suffix != ".json")
    if found.suffix == ".gz":
        plain = found.with_suffix("")
        plain.write_bytes(gzip.decompress(found.read_bytes()))
        found.unlink()
        found = plain
    return found


# Table, and a column that its reader needs.
TABLES = {
    "cxr-record-list.csv": "dicom_id",
    "cxr-study-list.csv": "path",
    "MS_CXR_Local_Alignment": "label_text",
    "stage_2_train_labels.csv": "Target",
    "stage_2_detailed_class_info.csv": "class",
    "NOTEEVENTS.csv": "TEXT",
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize(
    "damage", ["empty", "header only", "missing column", "wrong encoding", "cut gzip", "gone"]
)
def test_bad_table_is_one_line(stages: Stages, tmp_path: Path, name: str, damage: str) -> None:
    path = table_path(stages, name)
    words: list[object] = [path.name]
    if damage == "empty":
        path.write_bytes(b"")
    elif damage == "header only":
        change_csv(path, lambda table: table.iloc[:0])
        words = []
    elif damage == "missing column":
        change_csv(path, lambda table: table.drop(columns=TABLES[name]))
        words.append(f"column '{TABLES[name]}' is missing")
    elif damage == "wrong encoding":
        content = path.read_bytes()
        path.write_bytes(content[:-1] + "ü".encode("latin-1") + content[-1:])
        words.append("utf-8")
    elif damage == "cut gzip":
        packed = gzip.compress(path.read_bytes() * 20)
        path.unlink()
        path.with_name(path.name + ".gz").write_bytes(packed[: len(packed) // 2])
    else:
        path.unlink()
        (stages.data("mimic_cxr") / "mimic-cxr-reports.zip").unlink(missing_ok=True)
        if name.startswith("cxr-study"):  # the reports themselves are a list too
            shutil.rmtree(stages.data("mimic_cxr") / "files")
        words = [path.name.partition("_v1")[0]]
    end = run_reader(stages, name, tmp_path / "result")
    if damage == "wrong encoding":
        end = End(end.code, end.stderr.replace("UTF-8", "utf-8"))
    end.refuses(*words)
    assert absent(tmp_path / "result")


@pytest.mark.parametrize("name", ["cxr-record-list.csv", "cxr-study-list.csv"])
def test_duplicate_ids_of_mimic_lists(stages: Stages, tmp_path: Path, name: str) -> None:
    path = table_path(stages, name)
    before = pd.read_parquet(stages.cohort / "pairs.parquet")
    change_csv(path, lambda table: pd.concat([table, table.iloc[:1]]))
    stages.make_cohort(tmp_path / "cohort").succeeds()
    assert dropped(read_json(tmp_path / "cohort" / "flow.json"))["the same row again"] == 1
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "cohort" / "pairs.parquet"), before)

    change_csv(path, lambda table: pd.concat([table, table.iloc[1:2].assign(path="files/else")]))
    identity = "dicom_id" if "record" in name else "study_id"
    repeated = pd.read_csv(path, dtype=str)[identity].iloc[1].removeprefix("s")
    end = stages.make_cohort(tmp_path / "other")
    end.refuses(path.name, identity, repeated, "expected each once")
    assert absent(tmp_path / "other")


def test_study_listed_twice_is_read_once_by_the_corpus(stages: Stages, tmp_path: Path) -> None:
    path = table_path(stages, "cxr-study-list.csv")
    change_csv(path, lambda table: pd.concat([table, table.iloc[:1]]))
    stages.make_corpus(tmp_path / "corpus").succeeds()
    assert read_json(tmp_path / "corpus" / "corpus.json")["skipped"] == {"study listed twice": 1}
    pd.testing.assert_frame_equal(
        pd.read_parquet(tmp_path / "corpus" / "sections.parquet"),
        pd.read_parquet(stages.corpus / "sections.parquet"),
    )


def test_damaged_rows_of_a_table_are_counted(stages: Stages, tmp_path: Path) -> None:
    path = table_path(stages, "cxr-record-list.csv")
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines, "1,2", ",,,", *[]]) + "\n")
    stages.make_cohort(tmp_path / "cohort", **GENEROUS).succeeds()
    counts = dropped(read_json(tmp_path / "cohort" / "flow.json"))
    assert sum(count for reason, count in counts.items() if path.name in reason) == 2


def test_patient_in_two_splits_of_a_split_file(stages: Stages, tmp_path: Path) -> None:
    patients = pd.read_csv(stages.cohort / "split.csv", dtype=str)
    other = {"train": "test", "validate": "train", "test": "train"}
    again = patients.iloc[:1].assign(split=patients["split"].iloc[:1].map(other))
    path = tmp_path / "split.csv"
    pd.concat([patients, again]).to_csv(path, index=False)
    end = stages.make_cohort(
        tmp_path / "cohort", splits={"method": "file", "file": str(path)}, real=True
    )
    end.refuses(path, "1 patient(s) stand in two splits", patients["subject_id"].iloc[0])
    assert absent(tmp_path / "cohort")


def test_study_of_two_patients(stages: Stages, tmp_path: Path) -> None:
    path = table_path(stages, "cxr-record-list.csv")
    change_csv(path, lambda table: table.assign(
        subject_id=["10000000", *table["subject_id"].iloc[1:]]
    ))  # fmt: skip
    end = stages.make_cohort(tmp_path / "cohort")
    end.refuses("cxr-record-list.csv", "subject_id", "expected one patient a study")
    assert absent(tmp_path / "cohort")


# ---------------------------------------------------------------- configuration and roots


def test_missing_root_of_every_reader(stages: Stages, tmp_path: Path) -> None:
    moved = Stages(tmp_path / "nowhere", stages.results)
    ends = {
        "mimic_cxr": [
            moved.make_corpus(tmp_path / "result"),
            moved.make_cohort(tmp_path / "result"),
            moved.make_pixels(tmp_path / "result"),
        ],
        "ms_cxr": [moved.make_grounding(tmp_path / "result")],
        "rsna": [moved.make_rsna(tmp_path / "result")],
        "mimic_iii": [run_reader(moved, "NOTEEVENTS.csv", tmp_path / "result")],
    }
    for name, found in ends.items():
        for end in found:
            end.refuses(tmp_path / "nowhere" / name)
    assert absent(tmp_path / "result")


@pytest.mark.parametrize(
    ("module", "settings", "key"),
    [
        ("phantom", {"patientz": 3}, "unknown key 'patientz'"),
        ("phantom", {"patients": "many"}, "key 'patients' is 'many'"),
        ("reports.corpus", {"sections": {"max_character": 3}}, "'sections.max_character'"),
        ("data.cohort", {"views": "PA"}, "key 'views' is 'PA'"),
        ("data.cohort", {"splits": {"shares": {"train": 0.5}}}, "key 'splits.shares'"),
        ("images.store", {"min_side": 1}, "key 'min_side' is 1"),
        ("text.corpus", {"bracket": "keep"}, "unknown key 'bracket'"),
        ("text.vocabulary", {"size": 3.5}, "key 'size' is 3.5"),
        ("text.tokens", {"cache": 1}, "unknown key 'cache'"),
        ("pretrain.text", {"training": {"epoch": 3}}, "unknown key 'training.epoch'"),
        ("pretrain.image", {"training": {"steps": "two"}}, "'training.steps'"),
        ("pretrain.joint", {"alignment": {"temperature": -1}}, "'alignment.temperature' is -1"),
        ("benchmarks.phrase_grounding", {"space": "pixel"}, "key 'space' is 'pixel'"),
        ("benchmarks.zero_shot_classification", {"temperature": None}, "key 'temperature' is None"),
        ("benchmarks.mask_prediction", {"sections": []}, "key 'sections' is []"),
        ("benchmarks.vocabulary", {"word": []}, "unknown key 'word'"),
    ],
)
def test_wrong_settings_of_a_program(
    module: str, settings: dict[str, object], key: str, tmp_path: Path
) -> None:
    output = tmp_path / "result"
    arguments = {
        "phantom": ["--dataset", "rsna"],
        "reports.corpus": ["--layout", "mimic_cxr", "--root", tmp_path],
        "data.cohort": ["--layout", "mimic_cxr", "--root", tmp_path],
        "images.store": ["--root", tmp_path, "--images", "i", "--geometry", "shorter32"],
        "text.corpus": ["--layout", "pubmed", "--root", tmp_path],
        "text.vocabulary": ["--documents", "d"],
        "text.tokens": ["--documents", "d", "--vocabulary", "v"],
        "pretrain.text": ["--vocabulary", "v", "--pairs", "p"],
        "pretrain.image": ["--pixels", "x", "--pairs", "p"],
        "pretrain.joint": ["--pixels", "x", "--pairs", "p", "--text", "t"],
        "benchmarks.mask_prediction": ["--model", "m", "--pairs", "p"],
        "benchmarks.vocabulary": ["--vocabulary", "a=v", "--pairs", "p"],
    }.get(module, ["--model", "m", "--cohort", "c", "--pixels", "x"])
    if module.startswith("pretrain"):
        arguments += ["--model", "m", "--seed", 0, "--state", tmp_path / "state"]
    end = program(module, settings, *arguments, "--output", output)
    # A wrong length is one more thing wrong with the same settings, and may be said too.
    assert end.code == 2 and "Traceback" not in end.stderr
    assert any("settings: " in line and key in line for line in end.errors), end.stderr
    assert absent(output) and not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pixels: {geometri: shorter64}\n", ["unknown key 'pixels.geometri'"]),
        ("seeds: zero\n", ["key 'seeds' is 'zero'"]),
        ("synthetic_hospital: {patients: [3]}\n", ["key 'synthetic_hospital.patients'"]),
        ("models: {biovil: {momentum: 1}}\n", ["biovil", "momentum"]),
        ("pixels: {geometry: [unclosed\n", ["not valid YAML"]),
        ("- a list\n", ["expected keys and values"]),
    ],
)
def test_wrong_configuration(tmp_path: Path, text: str, words: list[str]) -> None:
    overlay = tmp_path / "overlay.yaml"
    overlay.write_text(text)
    end = program("config", "check", "--configfile", "config.yaml", overlay)
    end.refuses("overlay.yaml" if "models" not in text else "model biovil", *words)


def test_configuration_with_a_missing_data_root(tmp_path: Path) -> None:
    values = yaml.safe_load(Path("config.yaml").read_text())
    name = next(n for n, d in values["datasets"].items() if d["layout"] == "mimic_cxr")
    overlay = tmp_path / "overlay.yaml"
    overlay.write_text(yaml.safe_dump(
        {
            "datasets": {name: {"synthetic": False, "root": str(tmp_path / "nowhere")}},
            "benchmarks": {"phrase_grounding": {"figures": 0, "figure_phrases": False}},
        }
    ))  # fmt: skip
    end = program("config", "check", "--configfile", "config.yaml", overlay, real=True)
    end.refuses(overlay, f"datasets.{name}.root", tmp_path / "nowhere", "no such folder")


def test_wrong_configuration_stops_the_workflow_before_it_runs(tmp_path: Path) -> None:
    overlay = tmp_path / "overlay.yaml"
    overlay.write_text("pixels: {geometri: shorter64}\n")
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "-n", "--configfile", overlay],
        capture_output=True, text=True, check=False, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode != 0
    assert "overlay.yaml: unknown key 'pixels.geometri'" in done.stderr + done.stdout
    assert "Traceback" not in done.stderr + done.stdout


@pytest.mark.parametrize("content", ["{", "patients: [", "- 3\n", "\xff"])
def test_settings_that_are_no_mapping(tmp_path: Path, content: str) -> None:
    path = tmp_path / "settings.yaml"
    path.write_bytes(content.encode("latin-1"))
    inline = ["--settings", content] if content == "{" else ["--settings", path]
    end = program("phantom", *inline, "--dataset", "rsna", "--output", tmp_path / "rsna")
    end.refuses("settings")
    assert absent(tmp_path / "rsna")
