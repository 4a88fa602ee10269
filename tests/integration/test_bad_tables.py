"""Bad tables of the hospital, as published: one clear line with exit code 2, or counted rows.

A table is cut off, edited or says something twice. Where a program goes on, everything that was not
damaged must still be there, unchanged; where it does not, nothing may be left behind.
"""

import gzip
import shutil
from pathlib import Path

import pandas as pd
import pytest
from programs import End, absent, change_csv, dropped
from tiny_hospital import Stages

from cxrflow.files import read_json


def run_reader(stages: Stages, name: str, output: Path) -> End:
    """The program that reads the table ``name``."""
    if name.startswith("cxr-record"):
        return stages.make_cohort(output)
    if name.startswith("cxr-study"):
        return stages.make_corpus(output)
    if name.startswith("MS_CXR"):
        return stages.make_grounding(output)
    if name.startswith("NOTEEVENTS"):
        return stages.collect_notes(output)
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
    assert dropped(read_json(tmp_path / "corpus" / "corpus.json")) == {"study listed twice": 1}
    pd.testing.assert_frame_equal(
        pd.read_parquet(tmp_path / "corpus" / "sections.parquet"),
        pd.read_parquet(stages.corpus / "sections.parquet"),
    )


def test_damaged_rows_of_a_table_are_counted(stages: Stages, tmp_path: Path) -> None:
    path = table_path(stages, "cxr-record-list.csv")
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines, "1,2", ",,,", *[]]) + "\n")
    stages.make_cohort(tmp_path / "cohort", max_failed_share=0.5).succeeds()
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
