"""The labelling program on every kind of input, good and bad, interrupted and not."""

import fcntl
import gzip
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from programs import End, program

from cxrflow.outputs import claim_folder
from cxrflow.reports.corpus import build_corpus
from cxrflow.reports.labels.aggregate import aggregate
from cxrflow.reports.labels.observations import OBSERVATIONS
from cxrflow.reports.settings import ReportSettings

TEXTS = (
    "Small left effusion, no pneumothorax.\n2. Possible pneumonia.",
    'Heart is normal; "no edema".',
    "",
    "No acute process.",
    "___ 12.",
)
MIMIC = (
    "\n FINDINGS: \n \n Small left\n effusion. Possible edema.\n"
    " \n IMPRESSION: \n \n 1. Left effusion.\n 2. No edema.\n"
)


def table(path: Path, texts: tuple[str, ...] = TEXTS, column: str = "report") -> Path:
    """A CSV of studies ``s0`` … with their texts."""
    studies = [f"s{number}" for number in range(len(texts))]
    pd.DataFrame({"study": studies, column: texts}).to_csv(path, index=False)
    return path


def label(path: Path, output: Path, *words: str, **options: Any) -> End:
    settings = options.pop("settings", {})
    return program("reports.label", settings, *words, input=path, output=output, **options)


def values(path: Path) -> np.ndarray:
    """The 14 labels of each row of a CSV or Parquet output, NaN for blank."""
    read = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    assert tuple(read.columns[1:]) == OBSERVATIONS
    return read[list(OBSERVATIONS)].to_numpy(float)


def summary(output: Path) -> dict[str, Any]:
    return dict(json.loads(output.with_name(f"{output.name}.json").read_text()))


@pytest.fixture
def expected(tmp_path: Path) -> np.ndarray:
    """The labels of ``TEXTS``."""
    output = tmp_path / "expected.csv"
    label(table(tmp_path / "expected-input.csv"), output).succeeds()
    return values(output)


def test_a_csv_is_labelled_as_the_published_files_are_written(tmp_path: Path) -> None:
    output = tmp_path / "out" / "labels.csv"
    label(table(tmp_path / "in.csv"), output, id_column="study").succeeds()
    lines = output.read_text().split("\n")
    assert lines[0] == ",".join(("study", *OBSERVATIONS))
    assert lines[1] == "s0,,,,,,,,-1.0,,0.0,1.0,,,"
    assert lines[3] == "s2" + "," * 14 and lines[5] == "s4" + "," * 14 and lines[6:] == [""]
    assert not list(output.parent.glob("*.parts"))
    told = summary(output)
    assert told["reports"] == 5 and told["empty"] == 2
    assert told["outcomes"] == {"labelled": 3, "empty": 2}
    assert told["labels"]["Pneumothorax"] == {"negative": 1, "blank": 4}
    assert told["labels"]["Pneumonia"] == {"uncertain": 1, "blank": 4}
    assert "effusion" not in output.read_text().lower().split("\n", 1)[1]


@pytest.mark.parametrize("kind", ["csv.gz", "tsv", "parquet", "bare.csv", "dictionary.parquet"])
def test_every_kind_of_table_gives_the_same(
    tmp_path: Path, kind: str, expected: np.ndarray
) -> None:
    path, words = tmp_path / f"in.{kind}", []
    frame = pd.DataFrame({"Report Impression": TEXTS, "other": 1})
    if kind == "bare.csv":
        words = ["--no-header"]
        frame[["Report Impression"]].to_csv(path, index=False, header=False)
    elif kind.endswith("parquet"):
        if kind.startswith("dictionary"):
            frame["Report Impression"] = frame["Report Impression"].astype("category")
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
    output = tmp_path / "labels.parquet"
    label(path, output, *words).succeeds()
    np.testing.assert_array_equal(values(output), expected)
    assert list(pd.read_parquet(output)["row"]) == ["0", "1", "2", "3", "4"]


def test_ids_keep_their_leading_zeros_and_a_byte_order_mark_is_no_column(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_bytes(b"\xef\xbb\xbfid,text\n007,No edema\n08,Edema\n")
    output = tmp_path / "labels.csv"
    label(tmp_path / "in.csv", output, id_column="id").succeeds()
    assert [line.split(",")[0] for line in output.read_text().split()[1:]][-2:] == ["007", "08"]
    assert list(values(output)[:, OBSERVATIONS.index("Edema")]) == [0, 1]


def write_mimic(root: Path, texts: dict[str, str | bytes]) -> Path:
    """A live tree of reports by study."""
    for study, text in texts.items():
        place = root / "files" / "p19" / "p19990001" / f"s{study}.txt"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode() if isinstance(text, str) else text)
    return root


@pytest.mark.parametrize("choice", ["conclusion", "findings_and_impression"])
def test_a_data_set_gets_the_labels_that_the_corpus_has(tmp_path: Path, choice: str) -> None:
    texts: dict[str, str | bytes] = {
        "59990001": MIMIC,
        "59990002": "\n COMPARISON: \n \n Pneumonia of last week.\n",
        "59990003": "Two views. \n \n Right pneumothorax.",
        "59990004": "\n INDICATION: Cough.\n",
        "59990005": b"\xff",
        "59990006": "\n FINDINGS: ___\n \n IMPRESSION: 1.\n",
    }
    root = write_mimic(tmp_path / "mimic", texts)
    settings = {"labels": {"text": choice}, "max_failed_share": 0.5}
    output = tmp_path / "labels.csv"
    label(root, output, layout="mimic_cxr", settings=settings).succeeds()
    build_corpus("mimic_cxr", str(root), tmp_path / "c", ReportSettings.model_validate(settings))
    corpus = pd.read_parquet(tmp_path / "c" / "labels.parquet").set_index("study_id")
    ours = pd.read_csv(output, dtype={"study_id": str}).set_index("study_id")
    assert list(corpus.index) == ["59990001", "59990002", "59990003"]
    pd.testing.assert_frame_equal(ours.loc[corpus.index], corpus)
    assert ours.drop(corpus.index).isna().all(axis=None)
    edema = 0.0 if choice == "conclusion" else -1.0
    assert ours.loc["59990001", "Edema"] == edema
    assert summary(output)["outcomes"] == {
        "labelled": 3,
        "no usable section": 1,
        "not UTF-8 text": 1,
        "empty": 1,
    }


def test_an_archive_needs_no_layout(tmp_path: Path) -> None:
    tree = write_mimic(tmp_path / "tree", {"59990001": MIMIC, "59990002": MIMIC})
    archive = tmp_path / "zipped" / "mimic-cxr-reports.zip"
    archive.parent.mkdir()
    with zipfile.ZipFile(archive, "w") as made:
        for path in sorted(tree.rglob("*.txt")):
            made.write(path, path.relative_to(tree))
    label(archive, tmp_path / "a.csv").succeeds()
    label(tree, tmp_path / "b.csv", layout="mimic_cxr").succeeds()
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert (tmp_path / "a.csv").read_text().count("\n5999000") == 2


def test_a_folder_of_texts_with_and_without_headings(tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "plain.txt").write_text("Findings: effusion.\n \nNo edema.")
    (folder / "headed.txt").write_text(MIMIC)
    (folder / "empty.txt").write_text("\n")
    (folder / "notes.md").write_text("Pneumothorax.")
    output = tmp_path / "labels.csv"
    label(folder, output, settings={"labels": {"text": "conclusion"}}).succeeds()
    found = pd.read_csv(output).set_index("path")
    assert list(found.index) == ["deep/plain.txt", "empty.txt", "headed.txt"]
    # Without a heading all of it is read, not only the last paragraph.
    assert found.loc["deep/plain.txt", ["Pleural Effusion", "Edema"]].tolist() == [1, 0]
    assert found.loc["headed.txt", ["Pleural Effusion", "Edema"]].tolist() == [1, 0]
    assert found.loc["empty.txt"].isna().all() and summary(output)["empty"] == 1


def test_lists_and_limits_of_the_settings_hold_for_tables(tmp_path: Path) -> None:
    typos = tmp_path / "typos.csv"
    typos.write_text("study_id,wrong,right\n0,xyzzy,effusion\n")
    path = table(tmp_path / "in.csv", ("Left xyzzy.", "No edema. " * 20))
    settings = {
        "typo_list": str(typos),
        "sections": {"max_characters": 100},
        "max_failed_share": 0.5,
    }
    label(path, tmp_path / "labels.csv", id_column="study", settings=settings).succeeds()
    found = values(tmp_path / "labels.csv")
    assert found[0, OBSERVATIONS.index("Pleural Effusion")] == 1
    assert np.isnan(found[1]).all()
    assert summary(tmp_path / "labels.csv")["outcomes"] == {
        "labelled": 1,
        "longer than 100 characters": 1,
    }


def test_too_many_unusable_reports_write_nothing_and_keep_what_is_done(tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"\xff")
    (folder / "b.txt").write_text("Edema.")
    output = tmp_path / "labels.csv"
    label(folder, output, settings={"max_failed_share": 0.4}).refuses(
        folder, "1 of 2 reports failed", "(1): not UTF-8 text"
    )
    assert not output.exists() and not summary_path(output).exists()
    label(folder, output, settings={"max_failed_share": 0.6}).succeeds()
    assert summary(output)["parts_resumed"] == 1
    assert values(output)[1, OBSERVATIONS.index("Edema")] == 1


def summary_path(output: Path) -> Path:
    return output.with_name(f"{output.name}.json")


def test_reasons_say_where_each_label_comes_from(tmp_path: Path) -> None:
    path = table(tmp_path / "in.csv")
    output, reasons = tmp_path / "labels.csv", tmp_path / "reasons.parquet"
    label(path, output, "--with-text", id_column="study", reasons=reasons).succeeds()
    found = pd.read_parquet(reasons)
    for row in found.itertuples():
        assert row.text[row.start : row.end] == row.phrase
        assert row.text in " ".join(TEXTS[int(row.id[1:])].split())
    assert found.set_index(["id", "observation"])["sentence"]["s0", "Pneumonia"] == 1
    for study, given in found.groupby("id"):
        again = aggregate(zip(given["observation"], given["value"], strict=True))
        np.testing.assert_array_equal(again, values(output)[int(str(study)[1:])])
    bare = tmp_path / "bare.parquet"
    label(path, output, id_column="study", reasons=bare).succeeds()
    pd.testing.assert_frame_equal(pd.read_parquet(bare), found.drop(columns=["phrase", "text"]))


MANY = tuple(f"{text} Nodule of {n} mm." for n in range(600) for text in TEXTS[:2])
SMALL_CHUNKS = {"chunk": 10}


def start(path: Path, output: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "cxrflow.reports.label", "--input", str(path)]
    command += ["--output", str(output), "--settings", json.dumps(SMALL_CHUNKS), *words]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def wait_for_parts(output: Path, running: subprocess.Popen[str]) -> None:
    folder = output.with_name(f"{output.name}.parts")
    end = time.monotonic() + 120
    while len(list(folder.glob("*.arrow"))) < 3:
        assert running.poll() is None and time.monotonic() < end, "ended before it was stopped"
        time.sleep(0.002)


@pytest.mark.parametrize("threads", ["1", "2"])
def test_killed_or_stopped_it_goes_on_to_the_same_bytes(tmp_path: Path, threads: str) -> None:
    path = table(tmp_path / "in.csv", MANY)
    whole, reasons = tmp_path / "whole.csv", tmp_path / "whole.parquet"
    label(path, whole, reasons=reasons, settings=SMALL_CHUNKS).succeeds()
    output, said = tmp_path / "labels.csv", tmp_path / "reasons.parquet"
    words = ["--threads", threads, "--reasons", str(said)]
    for number, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 75)):
        for part in output.with_name(f"{output.name}.parts").glob("*.arrow"):
            part.unlink()
        running = start(path, output, *words)
        wait_for_parts(output, running)
        running.send_signal(number)
        _, stderr = running.communicate()
        assert running.returncode == code, stderr
        assert "Traceback" not in stderr and not output.exists()
    assert "asked to stop" in stderr
    running = start(path, output, *words)
    _, stderr = running.communicate()
    assert running.returncode == 0 and "going on with" in stderr, stderr
    assert output.read_bytes() == whole.read_bytes()
    assert said.read_bytes() == reasons.read_bytes()
    assert not output.with_name(f"{output.name}.parts").exists()
    assert not list(tmp_path.glob(".*"))


def stop_early(path: Path, output: Path, **settings: Any) -> None:
    """Leave finished parts behind: the reports end as too long."""
    settings = {"max_failed_share": 0, **settings}
    label(path, output, settings=settings).refuses("failed at 'reports read'")
    assert list(output.with_name(f"{output.name}.parts").glob("*.arrow"))


def test_parts_of_other_settings_or_texts_are_not_used(tmp_path: Path) -> None:
    limit = {"sections": {"max_characters": 60}}
    texts = ("Pneumonia or edema.", "Too long. " * 10)
    path, output = table(tmp_path / "in.csv", texts), tmp_path / "labels.csv"
    stop_early(path, output, **limit)
    chosen = {**limit, "labels": {"alternatives": "positive"}, "max_failed_share": 1}
    label(path, output, settings=chosen).succeeds()
    edema = OBSERVATIONS.index("Edema")
    assert values(output)[0, edema] == 1 and summary(output)["parts_resumed"] == 0
    stop_early(path, output, **limit)
    table(path, ("No pneumonia or edema.", texts[1]))
    label(path, output, settings={**limit, "max_failed_share": 1}).succeeds()
    assert values(output)[0, edema] == 0


def test_a_second_process_leaves_at_once(tmp_path: Path) -> None:
    output = tmp_path / "labels.csv"
    folder = tmp_path / "labels.csv.parts"
    claim_folder(folder, "finished labels")
    with open(folder / "lock", "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        label(table(tmp_path / "in.csv"), output).refuses(folder, "another process")
    label(tmp_path / "in.csv", output).succeeds()


BAD: dict[str, tuple[str, bytes, list[str], tuple[str, ...]]] = {
    "no text column": ("a.csv", b"id,note\n1,a\n", [], ("0 columns", "'id', 'note'")),
    "two of them": ("a.csv", b"text,report\n1,a\n", [], ("2 columns", "'text', 'report'")),
    "other text column": ("a.csv", b"id,text\n1,a\n", ["--text-column", "x"], ("'x'", "'text'")),
    "other id column": ("a.csv", b"id,text\n1,a\n", ["--id-column", "x"], ("'x'", "'id'")),
    "repeated column": ("a.csv", b"id,id,text\n1,2,a\n", ["--id-column", "id"], ("one column",)),
    "repeated id": ("a.csv", b"id,text\n7,a\n7,b\n", ["--id-column", "id"], ("'7'", "twice")),
    "no id": ("a.csv", b"id,text\n7,a\n,b\n", ["--id-column", "id"], ("row 1", "no id")),
    "not UTF-8": ("a.csv", b"id,text\n1,h\xe9morragie\n", [], ("UTF-8",)),
    "UTF-16": ("a.csv", "id,text\n1,a\n".encode("utf-16"), [], ("UTF-8",)),
    "uneven rows": ("a.csv", b"id,text\n1,a,b\n", [], ("line 2: 3 fields, expected 2",)),
    "open quote": ("a.csv", b'id,text\n1,"a\n', [], ("CSV", "unexpected end")),
    "cut off": ("a.csv.gz", gzip.compress(b"id,text\n1,a\n" * 99)[:-20], [], ("a.csv.gz",)),
    "nothing": ("a.csv", b"", [], ("no row",)),
    "header only": ("a.csv", b"id,text\n", [], ("no row",)),
    "no Parquet": ("a.parquet", b"id,text\n", [], ("Parquet",)),
    "commas": ("a.csv", b"Clear, no edema\n", ["--no-header"], ("found 2 columns", "quotes")),
    "other kind": ("a.xlsx", b"", [], (".csv", ".parquet")),
    "layout": ("a.csv", b"text\na\n", ["--layout", "open_i"], ("folder or archive",)),
    "bad archive": ("mimic-cxr-reports.zip", b"PK", [], ("zip",)),
}


@pytest.mark.parametrize("damage", BAD)
def test_bad_input_is_one_line(tmp_path: Path, damage: str) -> None:
    name, content, words, said = BAD[damage]
    (tmp_path / name).write_bytes(content)
    output = tmp_path / "out" / "labels.csv"
    label(tmp_path / name, output, *words).refuses(name, *said)
    assert not output.exists()


def test_other_bad_requests_are_one_line(tmp_path: Path) -> None:
    path, output = table(tmp_path / "in.csv"), tmp_path / "labels.csv"
    label(tmp_path / "gone.csv", output).refuses("gone.csv", "not found")
    label(path, tmp_path / "labels.txt").refuses("labels.txt", ".csv or .parquet")
    label(path, path).refuses("another option")
    label(path, output, reasons=tmp_path / "r.csv").refuses("r.csv", ".parquet")
    label(path, output, "--with-text").refuses("--with-text", "--reasons")
    label(path, output, settings={"splitter": "stanza"}).refuses("--stanza")
    (tmp_path / "none").mkdir()
    label(tmp_path / "none", output).refuses("none", "no .txt", "--layout")
    label(tmp_path / "none", output, text_column="text").refuses("none", "no table")
    pd.DataFrame({"text": [1, 2]}).to_parquet(tmp_path / "numbers.parquet")
    label(tmp_path / "numbers.parquet", output).refuses("'text'", "int64", "expected text")
    listed = write_mimic(tmp_path / "mimic", {"59990001": MIMIC})
    row = "19990001,59990001,files/p19/p19990001/s59990001.txt\n"
    (listed / "cxr-study-list.csv").write_text("subject_id,study_id,path\n" + 2 * row)
    label(listed, output, layout="mimic_cxr").refuses("59990001", "twice")
    assert not list(tmp_path.glob("labels*"))
