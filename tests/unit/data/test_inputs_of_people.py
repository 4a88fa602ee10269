"""Files as people have them: encodings, pipes, names that no table can hold, paths in lists."""

import ast
import gzip
import json
import os
from pathlib import Path

import pandas as pd
import pytest
from data_fixtures import dropped, mimic_cxr, read, rsna, write_csv, write_dicom
from test_data_convirt_sets import covidx

from cxr_files import atomic
from cxr_files.csv_table import read_csv, read_lines
from cxr_files.errors import InputError
from cxr_files.parquet import table_columns, table_rows
from cxr_files.reading import OUTSIDE, OutsideError, below
from cxr_files.yaml_file import read_yaml
from cxr_labels.label_sources import find_source
from cxrflow.commands.draft import MARK
from cxrflow.commands.draft import main as draft
from cxrflow.commands.ground import main as ground
from cxrflow.commands.verify import verify
from cxrflow.data.readers import dicom_headers, pubmed
from cxrflow.images.geometry import Geometry
from cxrflow.images.settings import PixelSettings
from cxrflow.images.shards import Source, store_or_fail
from cxrflow.programs.source_code import PACKAGE
from cxrflow.reports.texts import list_reports, open_reader, read_texts

REPORTS = ["No effusion. Ödem.", "Heart is enlarged, lungs are clear."]


def texts(path: Path) -> list[str | None]:
    return [report.text for report in find_source(path).reports]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("name", ["reports.csv", "reports.csv.gz", "reports.tsv"])
def test_a_table_is_read_by_its_mark(tmp_path: Path, name: str, encoding: str) -> None:
    separator = "\t" if name.endswith("tsv") else ","
    lines = [f"id{separator}report", *(f'{n}{separator}"{text}"' for n, text in enumerate(REPORTS))]
    content = "\r\n".join([*lines, ""]).encode(encoding)
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert texts(path) == REPORTS
    frame, damage = read_csv(path, {"id": "id", "report": "text"}, separator=separator)
    assert frame["report"].tolist() == REPORTS and not damage
    assert read_lines(path)[1:] == lines[1:]
    # A row more makes it be read row by row.
    ragged = content + f"3{separator}a{separator}b\r\n".encode(
        encoding.replace("utf-16", "utf-16-le")
    )
    if encoding in ("utf-8", "utf-16"):
        path.write_bytes(gzip.compress(ragged) if name.endswith("gz") else ragged)
        assert read_csv(path, {"id": "id"}, separator=separator)[1][0].count == 1


def test_what_is_in_no_such_encoding_is_said(tmp_path: Path) -> None:
    path = tmp_path / "reports.csv"
    for content, said in (
        ("id,report\n1,Ödem\n".encode("cp1252"), "iconv -f WINDOWS-1252"),
        ("id,report\n1,Edema\n".encode("utf-16-le"), "iconv -f UTF-16LE"),
        ("id,report\n1,Edema\n".encode("utf-16")[:-1], "begins with the mark of UTF-16, but"),
    ):
        path.write_bytes(content)
        with pytest.raises(InputError, match=said):
            find_source(path)
    note = tmp_path / "note.txt"
    note.write_bytes("No effusion.\r\n".encode("utf-16"))
    assert texts(note) == ["No effusion.\r\n"] and atomic.read_text(note) == "No effusion.\n"


@pytest.mark.parametrize(
    "lines",
    [
        ["Lungs are clear. No effusion.", "Left effusion.", "Edema"],
        ["Normal", "Edema"],
        ['"Clear, no effusion."', "Edema"],
        ['"FINDINGS: clear\nIMPRESSION: normal"', "Edema"],
    ],
)
def test_a_first_line_that_reads_like_a_report_is_one(tmp_path: Path, lines: list[str]) -> None:
    path = tmp_path / "reports.csv"
    path.write_text("\n".join([*lines, ""]))
    assert texts(path) == [line.strip('"') for line in lines]


@pytest.mark.parametrize(
    "first", ["1,Lungs are clear. No effusion.", "Lungs clear, no effusion.", "7,Lungs clear."]
)
def test_text_of_a_table_without_header_is_in_no_error(tmp_path: Path, first: str) -> None:
    path = tmp_path / "reports.csv"
    path.write_text(f"{first}\n2,Edema\n")
    with pytest.raises(InputError, match="first line is a report, not the names") as error:
        find_source(path)
    assert "ungs" not in str(error.value)
    with pytest.raises(InputError, match="column 'study_id' is missing") as error:
        read_csv(path, {"study_id": "id"})
    assert "effusion" not in str(error.value)


def test_names_of_columns_are_not_taken_for_reports(tmp_path: Path) -> None:
    path = tmp_path / "reports.csv"
    for header in ("Acc. No.,Report", "note", "Pleural Effusion,Edema,text"):
        path.write_text(f"{header}\n{','.join('abc'[: header.count(',') + 1])}\n")
        assert len(texts(path)) == 1


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for reader in (atomic.read_text, atomic.read_json, read_yaml):
        with pytest.raises(InputError, match="pipe: cannot be read .a pipe or device; expected"):
            reader(pipe)
    with pytest.raises(OSError, match="pipe or device"):
        read_lines(pipe)
    for columns in (table_columns, lambda path: list(table_rows(path, ["id"]))):
        with pytest.raises(InputError, match="pipe: not a readable Parquet file .*pipe or device"):
            columns(pipe)
    for name in ("pubmed25n0001.xml", "pubmed25n0002.xml.gz"):
        os.mkfifo(tmp_path / name)
        assert "a pipe or device" in str(pubmed.read_file(tmp_path / name).error)
    (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  pipe\n")
    with pytest.raises(InputError, match="a pipe or device"):
        verify(tmp_path)
    for layout, place in (("hospital", "reports/s1.txt"), ("open_i", "ecgen-radiology/1.xml")):
        root = tmp_path / layout
        (root / place).parent.mkdir(parents=True)
        os.mkfifo(root / place)
        write_csv(root / "studies.csv", ("study_id", "patient_id"), [("s1", "p1")])
        assert [report.failure for report in read_texts(layout, root)] == ["file cannot be read"]


def test_halves_of_surrogate_pairs_are_damage(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"id": "\\ud800"}')
    with pytest.raises(InputError, match="key 'id' holds half a surrogate pair"):
        atomic.read_json(tmp_path / "a.json")
    line = {"pairID": "1", "gold_label": "neutral", "sentence1": "a", "sentence2": "b"}
    for name in ("train", "dev", "test"):
        lines = [json.dumps(line), json.dumps({**line, "pairID": "\ud800"})]
        (tmp_path / f"mli_{name}_v1.jsonl").write_text("\n".join(lines))
    tables = read("mednli", tmp_path)
    assert len(tables.sentence_pairs) == 3
    assert set(dropped(tables, "sentence_pairs").values()) == {1}
    assert all("not valid JSON" in reason for reason in dropped(tables, "sentence_pairs"))


def test_options_that_are_not_utf8_are_one_line() -> None:
    latin = os.fsdecode("Ödem".encode("latin-1"))
    with pytest.raises(InputError, match=r"--phrase '.udcd6dem': is not UTF-8"):
        ground(["--image", "x.png", "--phrase", latin])
    with pytest.raises(InputError, match="--image .* is not UTF-8"):
        ground(["--image", latin, "--phrase", "effusion"])


def test_a_draft_replaces_drafts_alone(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("my own\n")
    with pytest.raises(InputError, match="notes.txt: is no earlier draft; name another file"):
        draft(["--image", "x.png", "--model", str(tmp_path / "none"), "--output", str(notes)])
    notes.write_text(f"{MARK}\n\nNo effusion.\n")
    with pytest.raises(InputError, match="none: model folder not found"):
        draft(["--image", "x.png", "--model", str(tmp_path / "none"), "--output", str(notes)])


# --- paths in lists -------------------------------------------------------------------------------

SECRET = "../../secret/private"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file beside the data sets, which no list may name."""
    write_dicom(tmp_path / "secret/private.dcm")
    (tmp_path / "secret/private.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    return tmp_path


def test_a_list_names_no_file_outside_of_its_folder(secret: Path) -> None:
    root = covidx(secret / "covidx")
    lines = (root / "labels/test_COVIDx4.txt").read_text()
    name = f"../{SECRET}.png"
    (root / "labels/test_COVIDx4.txt").write_text(f"{lines}p {name} normal sirm\n")
    images = read("covidx", root).images.set_index("image_id")
    assert images.loc[name, "failure"] == OUTSIDE and images["failure"].notna().sum() == 1
    root = rsna(secret / "rsna")
    for table in ("stage_2_train_labels.csv", "stage_2_detailed_class_info.csv"):
        end = ",,,,,0\n" if "labels" in table else ",Normal\n"
        (root / table).write_text((root / table).read_text() + SECRET + end)
    images = read("rsna", root).images.set_index("image_id")
    assert images.loc[SECRET, "failure"] == OUTSIDE and pd.isna(images.loc[SECRET, "image_width"])
    # A list that a cohort has passed on is not trusted either.
    source = Source("x", f"{SECRET}.dcm")
    outcome = store_or_fail(secret / "a/b", source, Geometry.parse("square16"), PixelSettings())
    assert getattr(outcome, "reason", None) == OUTSIDE
    root = mimic_cxr(secret / "mimic")
    reader = open_reader("mimic_cxr", root)
    reference = list_reports("mimic_cxr", root).references[0]
    assert reader.read(reference._replace(place=SECRET)).failure == OUTSIDE


@pytest.mark.parametrize(
    "place", ["/etc/passwd", "a/../../b", "..", "\\\\host\\x", "a\0b", "x" * 300]
)
def test_places_outside(tmp_path: Path, place: str) -> None:
    with pytest.raises(OutsideError):
        below(tmp_path, place)
    assert below(tmp_path, "a/b..c") == tmp_path / "a/b..c"
    assert dicom_headers.scan(tmp_path, [place])["failure"].tolist() == [OUTSIDE]


#: Readers of what people publish or fill.
READERS = (*(PACKAGE / "data/readers").glob("*.py"), PACKAGE / "reports/texts.py")


def joins(tree: ast.AST) -> list[str]:
    """Places where a path is joined with anything but a literal or a constant."""
    found = []
    for node in ast.walk(tree):
        part: list[ast.expr] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            part = [node.right]
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func).split(".")[-1]
            if name in ("joinpath", "with_name", "join") or name == "Path":
                part = node.args[1:] if name in ("Path", "join") else node.args
        for right in part:
            constant = isinstance(right, ast.Constant) or ast.unparse(right).isupper()
            if not constant:
                found.append(ast.unparse(node))
    return found


def test_readers_join_paths_by_one_function() -> None:
    assert joins(
        ast.parse("root / name; root.joinpath(f'{x}.png'); Path(root, x); os.path.join(a, b)")
    )
    assert len(READERS) > 20
    ours = {"path.with_name(path.name + '.md5')"}  # beside a file that was listed
    for path in READERS:
        # Names of lists are the reader's own.
        read = {join for join in joins(ast.parse(path.read_text())) if "LISTS[" not in join}
        assert read <= ours, path.name
