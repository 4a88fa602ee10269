"""The labelling program on every kind of input, good and bad."""

import csv
import gzip
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from programs import End, program

from cxr_files.atomic import read_json
from cxr_files.errors import InputError
from cxr_labels.label_sources import find_source
from cxr_labels.observations import OBSERVATIONS
from cxr_labels.scope.labeller import aggregate

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
    return program("cxr_labels.command", settings, *words, input=path, output=output, **options)


def values(path: Path) -> np.ndarray:
    """The 14 labels of each row of a CSV or Parquet output, NaN for blank."""
    read = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    assert tuple(read.columns[-16:]) == (*OBSERVATIONS, "outcome", "unread")
    return read[list(OBSERVATIONS)].to_numpy(float)


def labels_of(row: pd.Series) -> dict[str, float]:
    """The labels of a row that are not blank."""
    return dict(row[list(OBSERVATIONS)].dropna())


def summary(output: Path) -> dict[str, Any]:
    return read_json(output.with_name(f"{output.name}.json"))


def folder_of(tmp_path: Path, files: dict[str, str | bytes]) -> Path:
    """A folder of reports."""
    for name, text in files.items():
        path = tmp_path / "reports" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return tmp_path / "reports"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table of ``TEXTS``."""
    return table(tmp_path / "in.csv")


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "labels.csv"


@pytest.fixture
def expected(path: Path, tmp_path: Path) -> np.ndarray:
    """The labels of ``TEXTS``."""
    label(path, tmp_path / "expected.csv").succeeds()
    return values(tmp_path / "expected.csv")


def test_a_csv_is_labelled_as_the_published_files_are_written(path: Path, tmp_path: Path) -> None:
    output = tmp_path / "out" / "labels.csv"
    label(path, output, id_column="study").succeeds()
    lines = output.read_text().split("\n")
    assert lines[0] == ",".join(("study", *OBSERVATIONS, "outcome", "unread"))
    assert lines[1] == "s0,,,,,,,,-1.0,,0.0,1.0,,,,labelled,0"
    assert [lines[3], lines[5]] == [f"{study}{',' * 15}empty," for study in ("s2", "s4")]
    assert lines[6:] == [""]
    told = summary(output)
    assert told["reports"] == 5
    assert told["outcomes"] == {"labelled": 3, "empty": 2}
    assert told["labels"]["Pneumothorax"] == {"negative": 1, "blank": 4}
    assert told["labels"]["Pneumonia"] == {"uncertain": 1, "blank": 4}
    assert "effusion" not in output.read_text().lower().split("\n", 1)[1]


@pytest.mark.parametrize("kind", ["csv.gz", "parquet", "dictionary.parquet"])
def test_every_kind_of_table_gives_the_same(tmp_path, kind, expected):
    path = tmp_path / f"in.{kind}"
    frame = pd.DataFrame({"Report Impression": TEXTS, "other": 1})
    if kind.endswith("parquet"):
        if kind.startswith("dictionary"):
            frame["Report Impression"] = frame["Report Impression"].astype("category")
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False)
    output = tmp_path / "labels.parquet"
    label(path, output).succeeds()
    np.testing.assert_array_equal(values(output), expected)
    assert list(pd.read_parquet(output)["row"]) == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_other_columns_come_along_where_no_id_is_named(tmp_path, kind, caplog):
    """An index with a name too; of report text none, whatever its column is called."""
    caplog.set_level("INFO")
    frame = pd.DataFrame(
        {
            "accession": ["007", "=1+1"],
            "age": [61, 70],
            "report": ["Edema.", "No edema."],
            "verdict": ["", "No effusion"],
            "findings": ["x", "y"],
            "history": ["Fell down the stairs at home on Tuesday", ""],
            "Edema": [0, 0],
        }
    )
    path, output = tmp_path / f"in.{kind}", tmp_path / "labels.csv"
    if kind == "csv":
        frame.to_csv(path, index=False)
    else:
        frame.set_index("accession").assign(vector=[[1.0], [2.0]]).to_parquet(path)
    label(path, output, text_column="report").succeeds()
    written = pd.read_csv(output, dtype="str")
    beside = ["accession", "age"] if kind == "csv" else ["age", "accession"]
    assert list(written) == ["row", *beside, *OBSERVATIONS, "outcome", "unread"]
    assert written["accession"].tolist() == ["007", "'=1+1"]
    assert written["age"].tolist() == ["61", "70"] and written["Edema"].tolist() == ["1.0", "0.0"]
    assert summary(output)["columns_beside"] == beside
    assert "but not 'verdict', 'findings', 'history', 'Edema'" in caplog.text
    label(path, output, text_column="report", id_column="accession").succeeds()
    assert list(pd.read_csv(output)) == ["accession", *OBSERVATIONS, "outcome", "unread"]


def test_companions_keep_their_rows_in_several_processes(tmp_path: Path, output: Path) -> None:
    ids = [f"A{number}" for number in range(50)]
    texts = [("Edema." if number % 3 else "No edema.") for number in range(50)]
    pd.DataFrame({"accession": ids, "text": texts}).to_csv(tmp_path / "in.csv", index=False)
    label(tmp_path / "in.csv", output, threads=2, settings={"chunk": 3}).succeeds()
    written = pd.read_csv(output)
    assert written["accession"].tolist() == ids
    assert (written["Edema"] == [float(number % 3 > 0) for number in range(50)]).all()


def test_ids_keep_their_leading_zeros_and_a_byte_order_mark_is_no_column(path, output):
    path.write_bytes(b"\xef\xbb\xbfid,text\n007,No edema\n08,Edema\n")
    label(path, output, id_column="id").succeeds()
    assert [line.split(",")[0] for line in output.read_text().split()[1:]][-2:] == ["007", "08"]
    assert list(values(output)[:, OBSERVATIONS.index("Edema")]) == [0, 1]


def test_a_folder_of_texts_with_and_without_headings(tmp_path: Path, output: Path) -> None:
    plain = {"deep/plain.txt": "Findings: effusion.\n \nNo edema.", "empty.txt": "\n"}
    more = {"headed.txt": MIMIC, "notes.md": "Pneumothorax."}
    folder = folder_of(tmp_path, plain | more)
    label(folder, output, settings={"labels": {"text": "conclusion"}}).succeeds()
    found = pd.read_csv(output).set_index("path")
    assert list(found.index) == ["deep/plain.txt", "empty.txt", "headed.txt"]
    # Without a heading all of it is read, not only the last paragraph.
    assert found.loc["deep/plain.txt", ["Pleural Effusion", "Edema"]].tolist() == [1, 0]
    assert found.loc["headed.txt", ["Pleural Effusion", "Edema"]].tolist() == [1, 0]
    assert not labels_of(found.loc["empty.txt"]) and summary(output)["outcomes"]["empty"] == 1


def test_lists_and_limits_of_the_settings_hold_for_tables(tmp_path, path, output):
    typos = tmp_path / "typos.py"
    typos.write_text("{'s50000001': [['xyzzy', 'effusion']]}")
    path.write_text(f"study,report\ns50000001,Left xyzzy.\ns1,{'No edema. ' * 20}\n")
    settings = {
        "typo_list": str(typos),
        "sections": {"max_characters": 100},
        "max_failed_share": 0.5,
    }
    label(path, output, id_column="study", settings=settings).succeeds()
    found = values(output)
    assert found[0, OBSERVATIONS.index("Pleural Effusion")] == 1
    assert np.isnan(found[1]).all()
    assert summary(output)["outcomes"] == {"labelled": 1, "longer than 100 characters": 1}


def test_too_many_unusable_reports_write_nothing(tmp_path: Path, output: Path) -> None:
    folder = folder_of(tmp_path, {"a.txt": b"\xff", "b.txt": "Edema."})
    label(folder, output, settings={"max_failed_share": 0.4}).refuses(
        folder, "1 of 2 reports failed", "(1): not UTF-8 text"
    )
    assert not list(tmp_path.glob("labels*"))
    label(folder, output, settings={"max_failed_share": 0.6}).succeeds()
    assert values(output)[1, OBSERVATIONS.index("Edema")] == 1


def test_reasons_say_where_each_label_comes_from(tmp_path, path, output):
    reasons = tmp_path / "reasons.parquet"
    label(path, output, "--with-text", id_column="study", reasons=reasons).succeeds()
    rows = pd.read_parquet(reasons)
    found = rows.dropna(subset="observation")
    for row in found.itertuples():
        text = TEXTS[int(row.id[1:])]
        assert row.text[row.start : row.end] == row.phrase
        assert row.text in " ".join(text.split())
        assert " ".join(text[row.text_start : row.text_end].split()) == row.phrase
    assert found.set_index(["id", "observation"])["sentence"]["s0", "Pneumonia"] == 1
    for study, given in found.groupby("id"):
        is_finding = (given["value"] != 0) & (given["observation"] != "Support Devices")
        rank = given["value"].map({0: 1, -1: 2, 1: 3})
        again = aggregate(zip(given["observation"], rank, given["value"], is_finding, strict=True))
        np.testing.assert_array_equal(again, values(output)[int(str(study)[1:])])
    bare = tmp_path / "bare.parquet"
    label(path, output, id_column="study", reasons=bare).succeeds()
    pd.testing.assert_frame_equal(pd.read_parquet(bare), rows.drop(columns=["phrase", "text"]))


def test_the_result_does_not_depend_on_processes_or_chunks(tmp_path: Path) -> None:
    many = tuple(f"{text} Nodule of {n} mm." for n in range(20) for text in TEXTS[:2])
    path, written = table(tmp_path / "in.csv", many), []
    for threads, chunk in ((1, 500), (2, 3)):
        output, reasons = tmp_path / f"{threads}.csv", tmp_path / f"{threads}.parquet"
        label(path, output, reasons=reasons, threads=threads, settings={"chunk": chunk}).succeeds()
        written.append((output.read_bytes(), reasons.read_bytes()))
    assert written[0] == written[1] and len(values(output)) == 40


BAD: dict[str, tuple[str, bytes, list[str], tuple[str, ...]]] = {
    "no text column": ("a.csv", b"id,note\n1,a\n", [], ("0 columns", "'id', 'note'")),
    "two of them": ("a.csv", b"text,report\n1,a\n", [], ("2 columns", "'text', 'report'")),
    "other text column": ("a.csv", b"id,text\n1,a\n", ["--text-column", "x"], ("'x'", "'text'")),
    "other id column": ("a.csv", b"id,text\n1,a\n", ["--id-column", "x"], ("'x'", "'id'")),
    "repeated column": ("a.csv", b"id,id,text\n1,2,a\n", ["--id-column", "id"], ("one column",)),
    "repeated id": ("a.csv", b"id,text\n7,a\n7,b\n", ["--id-column", "id"], ("'7'", "twice")),
    "no id": ("a.csv", b"id,text\n7,a\n,b\n", ["--id-column", "id"], ("row 1", "no id")),
    "not UTF-8": ("a.csv", b"id,text\n1,h\xe9morragie\n", [], ("UTF-8",)),
    "UTF-16": ("a.csv", "id,text\n1,a\n".encode("utf-16")[:-1], [], ("mark of UTF-16",)),
    "uneven rows": ("a.csv", b"id,text\n1,a,b\n", [], ("a.csv:2", "expected 2", "quotes")),
    "open quote": ("a.csv", b'id,text\n1,"a\n', [], ("a.csv:2", "closed quotes")),
    "cut off": ("a.csv.gz", gzip.compress(b"id,text\n1,a\n" * 99)[:-20], [], ("a.csv.gz",)),
    "nothing": ("a.csv", b"", [], ("empty",)),
    "header only": ("a.csv", b"id,text\n", [], ("no row",)),
    "no Parquet": ("a.parquet", b"id,text\n", [], ("Parquet",)),
    "other kind": ("a.xlsx", b"", [], (".csv", ".parquet")),
    "two impressions": ("a.csv", b"impression,conclusion\na,b\n", [], ("2 columns",)),
    "semicolons in a text": ("a.csv", b"id;text\n1;a;b\n", [], ("a.csv:2", "semicolon", "quotes")),
    "only indications": (
        "a.csv", b"text\nINDICATION: CHF\nINDICATION: a\nINDICATION: b\n", [],
        ("3 of 3 reports failed", "no usable section", "'INDICATION:' (3)", "sections.names"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", BAD)
def test_bad_input_is_one_line(tmp_path: Path, damage: str) -> None:
    name, content, words, said = BAD[damage]
    (tmp_path / name).write_bytes(content)
    output = tmp_path / "out" / "labels.csv"
    label(tmp_path / name, output, *words).refuses(name, *said)
    assert not output.exists()


def test_other_bad_requests_are_one_line(tmp_path, path, output):
    label(tmp_path / "gone.csv", output).refuses("gone.csv", "not found")
    label(path, tmp_path / "labels.txt").refuses("labels.txt", ".csv or .parquet")
    label(path, path).refuses("another option")
    label(path, output, reasons=tmp_path / "r.csv").refuses("r.csv", ".parquet")
    label(path, output, "--with-text").refuses("--with-text", "--reasons")
    label(path, output, settings={"splitter": "stanza"}).refuses("--stanza")
    (tmp_path / "none").mkdir()
    label(tmp_path / "none", output).refuses("none", "no .txt", "a folder of reports")
    label(tmp_path / "none", output, text_column="text").refuses("none", "no table")
    pd.DataFrame({"text": [1, 2]}).to_parquet(tmp_path / "numbers.parquet")
    label(tmp_path / "numbers.parquet", output).refuses("'text'", "int64", "expected text")
    network = {"labels": {"engine": "chexbert", "chexbert": "weights"}}
    label(path, output, settings=network, reasons=tmp_path / "r.parquet").refuses("no reasons")
    assert not list(tmp_path.glob("labels*"))


def test_ids_of_a_parquet_table_are_whole_numbers_or_text(tmp_path: Path, output: Path) -> None:
    """As floats they would be written as 59990001.0, and of long ones digits are lost."""
    rows = pd.DataFrame({"id": [59990001.0, 59990002.0], "text": ["Edema.", "No edema."]})
    rows.to_parquet(tmp_path / "a.parquet")
    said = ("a.parquet: column 'id' holds double", "expected ids as text or whole numbers")
    label(tmp_path / "a.parquet", output, id_column="id").refuses(*said)
    rows.astype({"id": "int64"}).to_parquet(tmp_path / "a.parquet")
    label(tmp_path / "a.parquet", output, id_column="id").succeeds()
    written = pd.read_csv(output, dtype="str")["id"]
    assert written.tolist() == ["59990001", "59990002"]
    rows.assign(id=pd.array([7, None], dtype="Int64")).to_parquet(tmp_path / "a.parquet")
    label(tmp_path / "a.parquet", output, id_column="id").refuses("a.parquet: row 1 has no id")


GUARDED = "INDICATION: CHF, pneumonia.\nCOMPARISON: None.\n{}Impression: Normal."


def test_an_indication_is_not_labelled_whatever_its_heading_looks_like(tmp_path, output):
    texts = {
        "a.TXT": GUARDED.format("Findings: Left effusion.\n"),
        "b.txt": GUARDED.format("ADDENDUM: Right pneumothorax.\n"),
        "c.txt": "Indication: CHF. Findings: No edema. Impression: Normal.",
    }
    folder = folder_of(tmp_path, texts)
    label(folder, output).succeeds()
    found = pd.read_csv(output).set_index("path")
    assert labels_of(found.loc["a.TXT"]) == {"Pleural Effusion": 1}
    assert labels_of(found.loc["b.txt"]) == {"No Finding": 1}
    assert labels_of(found.loc["c.txt"]) == {"No Finding": 1, "Edema": 0}
    told = summary(output)
    assert told["read"] == {"findings and impression": 2, "impression only": 1}
    assert told["addenda"] == 1
    # A table's cell, and one file, are read alike; a setting takes a text as a whole.
    path = table(tmp_path / "in.csv", (GUARDED.format(""),))
    label(path, output).succeeds()
    assert np.nansum(values(output)) == 1
    label(path, output, settings={"sections": {"headings": "none"}}).succeeds()
    assert values(output)[0, OBSERVATIONS.index("Pneumonia")] == 1
    label(folder / "a.TXT", output).succeeds()
    assert summary(output)["reports"] == 1


def test_findings_and_impression_of_a_table_are_both_labelled_and_named(path, output):
    path.write_text(
        "id,Impression,findings,note\n1,Edema.,Left effusion.,Fracture.\n2,Normal.,,x\n"
    )
    label(path, output).succeeds()
    effusion, edema, fracture = (
        OBSERVATIONS.index(name) for name in ("Pleural Effusion", "Edema", "Fracture")
    )
    assert values(output)[0, [effusion, edema]].tolist() == [1, 1]
    assert summary(output)["text_columns"] == ["findings", "Impression"]
    assert summary(output)["read"] == {"findings and impression": 1, "impression only": 1}
    label(path, output, settings={"labels": {"text": "conclusion"}}).succeeds()
    assert np.isnan(values(output)[0, effusion]) and values(output)[0, edema] == 1
    label(path, output, "--text-column", "note", "--text-column", "findings").succeeds()
    assert values(output)[0, [effusion, fracture]].tolist() == [1, 1]
    assert summary(output)["text_columns"] == ["note", "findings"]


@pytest.mark.parametrize("separator", [";", "\t", "|"])
@pytest.mark.parametrize("ending", ["csv", "CSV", "tsv", "csv.gz"])
def test_separators_are_recognised(tmp_path, output, separator, ending, expected):
    path = tmp_path / f"in.{ending}"
    pd.DataFrame({"study": range(5), "report": TEXTS}).to_csv(path, sep=separator, index=False)
    label(path, output).succeeds()
    np.testing.assert_array_equal(values(output), expected)
    assert summary(output)["separator"] == separator


def test_a_table_may_come_from_standard_input(path, output, monkeypatch, expected):
    def given(content: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))

    given(path.read_bytes())
    label(Path("-"), output, id_column="study").succeeds()
    np.testing.assert_array_equal(values(output), expected)
    assert summary(output)["input"] == "standard input"
    given(b"id,text\n1,a,b\n")
    label(Path("-"), output).refuses("standard input:2", "quotes")


def test_texts_in_another_language_are_not_labelled_and_counted(path, output):
    path.write_text("text\nBefund: Kein Pleuraerguss\nNo edema.\nHerz normal groß.\n")
    label(path, output).succeeds()
    assert np.isnan(values(output)[[0, 2]]).all() and np.nansum(values(output)[1]) == 1
    told = summary(output)
    assert told["outcomes"] == {"another language: too few words known": 2, "labelled": 1}
    (step,) = told["steps"]
    assert step["kept"] == 1 and step["dropped"][0]["examples"] == ["0", "2"]
    label(path, output, settings={"labels": {"least_known": 0}}).succeeds()
    assert summary(output)["outcomes"] == {"labelled": 2, "no statement on the chest": 1}
    assert summary(output)["not_labelled"] == {"no statement on the chest": ["0"]}


def test_a_file_that_cannot_be_read_is_named_and_does_not_hold_the_rest_up(tmp_path, output):
    folder = folder_of(tmp_path, {"good.txt": "No edema.", "bad.txt": b"\xff\xfea"})
    os.mkfifo(folder / "pipe.txt")
    label(folder, output).refuses("2 of 3 reports", "bad.txt")
    label(folder, output, settings={"max_failed_share": 0.7}).succeeds()
    dropped = summary(output)["steps"][0]["dropped"]
    assert {drop["reason"]: drop["examples"] for drop in dropped} == {
        "not UTF-8 text": ["bad.txt"],
        "file cannot be read": ["pipe.txt"],
    }


def test_a_folder_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    folder = folder_of(tmp_path, {"good.txt": "No edema.", "closed/bad.txt": "No edema."})
    scan = os.scandir

    def refused(path: str) -> Any:
        if "closed" in str(path):
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refused)
    label(folder, tmp_path / "l.csv").refuses("closed: folder cannot be read")


@pytest.mark.parametrize("place", ["file/labels.csv", "/proc/none/labels.csv"])
def test_an_output_that_cannot_be_written_is_refused_first(tmp_path, path, place, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("cxr_labels.label_sources.find_source", pytest.fail)
    label(path, tmp_path / place).refuses(Path(place).name, "cannot be written")
    label(path, tmp_path / "l.csv", reasons=tmp_path / "file" / "r.parquet").refuses("r.parquet")


def test_what_a_kill_left_unfinished_is_made_again(tmp_path, path, output):
    reasons = tmp_path / "reasons.parquet"
    label(path, output, reasons=reasons).succeeds()
    whole = (output.read_bytes(), reasons.read_bytes())
    for damaged in (output, reasons, output.with_name("labels.csv.json")):
        damaged.write_bytes(damaged.read_bytes()[:40])
        label(path, output, reasons=reasons).succeeds()
        assert (output.read_bytes(), reasons.read_bytes()) == whole
        summary(output)
    output.unlink()
    label(path, output, reasons=reasons).succeeds()
    assert output.is_file()
    # A file of that name that is somebody's own stays.
    output.unlink()
    reasons.unlink()
    output.with_name("labels.csv.json").write_text('{"mine": 1}')
    label(path, output).refuses("labels.csv.json", "was not written by an earlier run")


def texts_of(path: Path, **options: str) -> list[tuple[str, str | None, str | None]]:
    reports = find_source(path, **options).reports
    return [(report.study_id, report.text, report.failure) for report in reports]


@pytest.mark.parametrize("seed", range(3))
def test_texts_come_back_as_written(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    letters = [*"ab ,.;'\"\n", "\r\n", "ü", "\t", '""', "NA", "null"]
    texts = ["".join(rng.choice(letters, size=rng.integers(0, 200))) for _ in range(300)]
    path = tmp_path / "in.csv"
    with open(path, "w", encoding="utf-8", newline="") as handle:
        rows = [(f"{number:04d}", text) for number, text in enumerate(texts)]
        csv.writer(handle).writerows([("id", "text"), *rows])
    assert texts_of(path) == [(str(number), text, None) for number, text in enumerate(texts)]
    assert texts_of(path, id_column="id") == [(name, text, None) for name, text in rows]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_tables_longer_than_a_piece_are_read_and_written_in_pieces(tmp_path, monkeypatch, ending):
    """Neither texts nor labels are held as a whole; the bytes are those of one piece."""
    many = [text for n in range(20) for text in (f"{TEXTS[0]} Nodule of {n} mm.", "None.", "")]
    frame = pd.DataFrame({"study": [f"s{n}" for n in range(60)], "report": many})
    path, written = tmp_path / f"in.{ending}", []
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    for rows in (10_000, 7):
        monkeypatch.setattr("cxr_files.parquet.CHUNK", rows)
        monkeypatch.setattr("cxr_files.row_file.ROWS", max(rows, 16))
        output, reasons = tmp_path / f"{rows}.csv", tmp_path / f"{rows}.parquet"
        label(path, output, id_column="study", reasons=reasons).succeeds()
        told = summary(output)
        written.append((output.read_bytes(), pd.read_parquet(reasons), told | {"seconds": 0}))
    assert written[0][0] == written[1][0] and written[0][2] == written[1][2]
    pd.testing.assert_frame_equal(written[0][1], written[1][1])
    assert len(values(output)) == 60
    empty = [f"s{n}" for n in range(2, 60, 3)]
    silent = [f"s{n}" for n in range(1, 60, 3)]
    assert told["not_labelled"] == {"empty": empty, "no statement on the chest": silent}


@pytest.mark.parametrize(
    ("columns", "chosen"),
    [
        (["id", "Report Impression"], 1),
        (["REPORT", "findings_count"], 0),
        (["study", "report_text", "labels"], 1),
        (["anything"], 0),
        (["a", " Text "], 1),
        (["a", "b"], None),
        (["report", "impression"], None),
        (["text", "text"], None),
    ],
)
def test_one_obvious_text_column_is_found(tmp_path, columns, chosen):
    path = tmp_path / "in.csv"
    path.write_text(",".join(columns) + "\n" + ",".join(map(str, range(len(columns)))) + "\n")
    if chosen is None:
        with pytest.raises(InputError, match=rf"found '{columns[0]}', '{columns[1]}"):
            find_source(path)
    else:
        assert texts_of(path) == [("0", str(chosen), None)]


def test_files_are_listed_by_path_and_read_only_when_asked(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.txt", "a/b/c.txt", "d.text"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    source = find_source(tmp_path)
    (tmp_path / "a" / "z.txt").unlink()
    assert [(r.study_id, r.text, r.failure) for r in source.reports] == [
        ("a/b/c.txt", "a/b/c.txt", None),
        ("a/z.txt", None, "file cannot be read"),
        ("b.txt", "b.txt", None),
    ]
