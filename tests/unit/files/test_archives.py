"""Archives, packed files and lists from anyone: links, names that stand twice, bombs, ways out."""

import gzip
import hashlib
import io
import tarfile
import zipfile
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cxr_files import archives
from cxr_files.archives import open_zip, read_member, tar_files, unpacked
from cxr_files.atomic import read_object
from cxr_files.csv_table import read_csv, read_text
from cxr_files.errors import InputError
from cxr_files.formulas import inert
from cxr_files.parquet import read_table
from cxr_files.reading import leads_out
from cxr_labels.command import main as label
from cxrflow.commands import verify
from cxrflow.data.readers import open_i, retrieval_8x200
from cxrflow.data.readers.common_tables import Request
from cxrflow.reports.texts import list_reports, read_texts

XML = (
    b'<?xml version="1.0"%s?>'
    b'<e><uId id="CXR1"/><AbstractText Label="FINDINGS">A.</AbstractText></e>'
)
ID = ["--id-column", "id"]
REPORT = "files/p10/p10000001/s50000001.txt"


def tar_of(root: Path, *members: tuple[str, bytes | None]) -> Path:
    """An archive as Open-I's; None: a link to another member."""
    path = root / "NLMCXR_reports.tgz"
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if content is None:
                info.type, info.linkname = tarfile.SYMTYPE, "no/such/file"
            else:
                info.size = len(content)
            tar.addfile(info, io.BytesIO(content or b""))
    return path


def zip_of(root: Path, *members: tuple[str, bytes]) -> Path:
    path = root / "mimic-cxr-reports.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that a test reaches in milliseconds."""
    monkeypatch.setattr(archives, "LARGEST_MEMBER", 2000)
    monkeypatch.setattr(archives, "LARGEST_ARCHIVE", 30_000)


def failures(layout: str, root: Path) -> list[tuple[str, str | None]]:
    return [(report.study_id, report.failure) for report in read_texts(layout, root)]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_members_that_are_not_one_plain_file_are_counted(tmp_path: Path, small: None) -> None:
    good = XML % b""
    tar_of(
        tmp_path,
        *(("a/1.xml", good), ("a/2.xml", None), ("a/3.xml", good), ("b/3.xml", good)),
        *(("a/4.xml", b"x" * 2001), ("a/5.txt", good)),
    )
    assert failures("open_i", tmp_path) == [
        ("CXR1", None),
        ("CXR2", "a link or device in the archive, not a file"),
        ("CXR3", archives.TWICE),
        ("CXR4", archives.TOO_LARGE),
    ]
    reports, drops = open_i.read_reports(tmp_path)
    assert [report.study_id for report in reports] == ["CXR1"]
    assert [(drop.count, drop.failed) for drop in drops] == [(3, True)]
    text = b"\n FINDINGS: Clear.\n"
    zip_of(
        tmp_path,
        *((REPORT, text), (REPORT, b"\n FINDINGS: Effusion.\n"), ("../../../etc/s1.txt", text)),
        *((REPORT.replace("001", "002"), b"x" * 2001), (REPORT.replace("001", "003"), text)),
    )
    assert failures("mimic_cxr", tmp_path) == [
        ("50000001", archives.TWICE),
        ("50000002", archives.TOO_LARGE),
        ("50000003", None),
    ]


def test_what_unpacks_to_too_much_is_refused_before_it_fills_the_memory(tmp_path, small):
    tar_of(tmp_path, *((f"{number}.xml", b" " * 1900) for number in range(20)))
    with pytest.raises(InputError, match=r"NLMCXR_reports.tgz: .*unpacks to more than 0 MB"):
        open_i.read_reports(tmp_path)
    packed = tmp_path / "list.csv.gz"
    packed.write_bytes(gzip.compress(b"id\n" + b"x" * 100_000))
    with pytest.raises(archives.TooLarge), unpacked(packed, smallest=1000) as stream:
        stream.read()
    # A header may say less than there is.
    path = zip_of(tmp_path, (REPORT, b"x" * 10_000))
    content = path.read_bytes().replace((10_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    path.write_bytes(content)
    assert failures("mimic_cxr", tmp_path) == [("50000001", "file cannot be read")]


def test_a_packed_list_of_a_bomb_is_refused(tmp_path: Path) -> None:
    """100 MB in 100 KB."""
    path = tmp_path / "list.csv.gz"
    with gzip.open(path, "wb", 1) as stream:
        stream.write(b"id\n")
        for _ in range(100):
            stream.write(b"\n" * 2**20)
    with pytest.raises(InputError, match=r"list.csv.gz: unpacks to more than 64 MB"):
        read_text(path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:100],
        lambda data: data[:-30],
        lambda data: b"",
        lambda data: b"PK\x05\x06" + b"\xff" * 18,
        lambda data: data.replace(b"PK\x03\x04", b"PK\x03\x05"),
        lambda data: data.replace(b"PK\x01\x02\x14\x03\x14\x00", b"PK\x01\x02\x14\x03\xff\x00"),
    ],
)
def test_a_damaged_zip_is_one_line_or_a_failure(tmp_path, damage):
    path = zip_of(tmp_path, (REPORT, b"\n FINDINGS: Clear.\n" * 50))
    path.write_bytes(damage(path.read_bytes()))
    try:
        assert failures("mimic_cxr", tmp_path) == [("50000001", "file cannot be read")]
    except InputError as error:
        assert "not a whole zip archive" in str(error) and "\n" not in str(error)


def test_compression_and_encryption_that_zipfile_lacks(tmp_path: Path) -> None:
    path = zip_of(tmp_path, (REPORT, b"text"))
    for at, value in ((8, 99), (6, 1)):  # method, flags of the local header and of the directory
        content = bytearray(path.read_bytes())
        content[at] = content[content.rfind(b"PK\x01\x02") + at + 2] = value
        (tmp_path / "b").mkdir(exist_ok=True)
        (tmp_path / "b" / path.name).write_bytes(content)
        assert failures("mimic_cxr", tmp_path / "b") == [("50000001", "file cannot be read")]


def test_plain_tar_and_zip_are_read(tmp_path: Path) -> None:
    path = tar_of(tmp_path, ("1.xml", XML % b""))
    path.write_bytes(gzip.decompress(path.read_bytes()))
    assert [member.name for member in tar_files(path, ".xml")] == ["1.xml"]
    with open_zip(zip_of(tmp_path, ("a.txt", b"text"))) as archive:
        assert read_member(archive, "a.txt") == b"text"
        with pytest.raises(KeyError):
            read_member(archive, "b.txt")


@pytest.mark.parametrize("encoding", [b"x-unknown", b"utf-7", b"shift_jis", b"\xff"])
def test_an_xml_encoding_nobody_knows_is_a_failed_report(tmp_path: Path, encoding: bytes) -> None:
    tar_of(tmp_path, ("1.xml", XML % (b' encoding="%s"' % encoding)), ("2.xml", XML % b""))
    assert dict(failures("open_i", tmp_path))["CXR1"] is None  # the second, which is CXR1 by uId
    assert len(open_i.read_reports(tmp_path)[1]) == 1


def test_an_id_of_5000_digits_and_a_name_that_is_no_utf_8(tmp_path: Path) -> None:
    folder = tmp_path / "ecgen-radiology"
    folder.mkdir()
    long = (XML % b"").replace(b"CXR1", b"CXR" + b"7" * 5000)
    (folder / "1.xml").write_bytes(long)
    (folder / "2.xml").write_bytes(XML % b"")
    (tmp_path / "ecgen-radiology" / "\udcff.xml").write_bytes(b"")
    reports, drops = open_i.read_reports(tmp_path)
    assert [len(report.study_id) for report in reports] == [4, 5003]
    assert drops[0].examples[0].encode() and drops[0].examples[0].endswith("\\udcff.xml")
    assert ("CXR\\udcff", "empty file") in failures("open_i", tmp_path)
    assert open_i.read(tmp_path, Request()).studies["study_id"].str.len().max() == 5003


OUT = ("/etc/passwd", "../x", "a/../../x", "a\\..\\x", "\\x", "a\0b", "a/" + "x" * 300, "a/" * 600)


@pytest.mark.parametrize("place", OUT)
def test_a_list_may_name_no_path_outside(tmp_path: Path, place: str) -> None:
    assert leads_out(place) and not leads_out("files/p10/a..b/s1.txt")
    path = tmp_path / "list.csv"
    path.write_text(f"id,path\n1,{place}\n2,a/b.txt\n3,\n")
    rows, damage = read_csv(path, {"id": "id", "path": "path"})
    assert rows["path"].tolist() == ["a/b.txt"]
    assert [(drop.reason, drop.count) for drop in damage] == [
        ("list.csv: path is blank, or no path below its folder", 2)
    ]
    (tmp_path / "secret.txt").write_text("\n FINDINGS: secret\n")
    root = tmp_path / "mimic"
    root.mkdir()
    (root / "cxr-study-list.csv").write_text("subject_id,study_id,path\np1,s1,../secret.txt\n")
    assert list_reports("mimic_cxr", root).references == []


def test_long_fields_short_rows_and_columns_that_stand_twice(tmp_path: Path) -> None:
    """Over 128 KB, where Python's reader stops by default; it reads what pandas does not."""
    path, long = tmp_path / "list.csv", "x" * 200_000
    path.write_text(f"id,text,text\n1,{long},a\n2,b\n3,c,d,e\n4,f,g\n")
    rows, damage = read_text(path)
    assert list(rows.columns) == ["id", "text", "text.1"] and rows["text"].iloc[0] == long
    assert rows["id"].tolist() == ["1", "4"] and damage[0].count == 2
    path.write_text('\n\n"\n1,2,3\n')
    with pytest.raises(InputError):
        read_text(path)


def test_ids_that_are_no_utf_8_in_a_parquet_file(tmp_path: Path) -> None:
    offsets = pa.array([0, 2, 4], pa.int32()).buffers()[1]
    ids = pa.StringArray.from_buffers(2, offsets, pa.py_buffer(b"ab\xff\xfe"))
    pq.write_table(pa.table({"image_id": ids}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"a.parquet: not a readable Parquet file .Invalid UTF8"):
        read_table(tmp_path / "a.parquet")


@pytest.mark.parametrize("content", [b"\xff{}", b"[" * 100_000, b"1" * 5000, b"{}{}", b"", b"[]"])
def test_metrics_that_are_no_object_of_json(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "metrics.json").write_bytes(content)
    with pytest.raises(InputError, match=r"metrics.json: "):
        read_object(tmp_path / "metrics.json")
    with pytest.raises(InputError, match="cannot be read"):
        read_object(tmp_path)


def test_ids_that_a_spreadsheet_takes_for_formulas(tmp_path: Path) -> None:
    ids = pd.Series(["=cmd|' /C calc'!A0", "@SUM(A1)", "+x", "-x", "\t=1", "-5", "+1.5", "s1", ""])
    assert inert(pd.Series(["-1+cmd|x", "+.5", "-1e-3"])).tolist() == ["'-1+cmd|x", "+.5", "-1e-3"]
    assert inert(ids).tolist() == [
        *("'=cmd|' /C calc'!A0", "'@SUM(A1)", "'+x", "'-x", "'\t=1", "-5", "+1.5", "s1", ""),
    ]
    (tmp_path / "a.csv").write_text("id,report\n=1+1,Small left effusion.\ns2,Clear lungs.\n")
    label([f"--{o}={tmp_path / v}" for o, v in (("input", "a.csv"), ("output", "b.csv"))] + ID)
    assert [line.split(",")[0] for line in (tmp_path / "b.csv").read_text().splitlines()] == [
        *("id", "'=1+1", "s2"),
    ]


@pytest.mark.parametrize("name", ["plain.csv", "packed.csv", "packed.csv.gz"])
def test_a_table_is_gzipped_by_what_it_holds(tmp_path, name):
    """A browser may unpack a file, or leave ``.gz`` from its name."""
    content = b"id,report\ns1,Clear.\n"
    (tmp_path / name).write_bytes(gzip.compress(content) if "packed" in name else content)
    rows, damaged = read_csv(tmp_path / name, {"id": "id", "report": "text"})
    assert rows.to_numpy().tolist() == [["s1", "Clear."]] and damaged == []


@pytest.mark.parametrize("mark", ["", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("line", ["sep=;", "SEP=,", "sep=\t"])
def test_excel_s_line_before_the_header_is_named(tmp_path, line, mark):
    path = tmp_path / "a.csv"
    path.write_bytes(f"{line}\r\nid;report\r\ns1;Clear.\r\n".encode(mark or "utf-8"))
    with pytest.raises(InputError, match=r"a.csv:1: is .*(?i:sep)=.*delete that line"):
        read_csv(path, {"id": "id"})
    path.write_text("sep=x,report\n1,Clear.\n")  # a header all the same
    assert len(read_csv(path, {"report": "text"})[0]) == 1


def test_files_are_compared_with_the_publisher_s_checksums(tmp_path, capsys, caplog):
    caplog.set_level("INFO", "cxrflow")
    names = [f"files/p10/{number}.dcm" for number in range(20)]
    (tmp_path / "files/p10").mkdir(parents=True)
    lines = []
    for name in names:
        (tmp_path / name).write_text(name)
        lines.append(f"{hashlib.sha256(name.encode()).hexdigest()}  {name}\n")
    (tmp_path / "SHA256SUMS.txt").write_text("".join(lines))
    (tmp_path / names[3]).unlink()
    verify.main(["--root", str(tmp_path), "--threads", "3"])
    assert capsys.readouterr().out == f"{tmp_path}: 19 files are as published, 1 are not there\n"
    (tmp_path / names[7]).write_text("other")
    with pytest.raises(InputError, match=r"1 of 20 files failed .*other content .*p10/7.dcm"):
        verify.verify(tmp_path)
    for number in (11, 12, 13):
        (tmp_path / names[number]).write_text("other")
    (tmp_path / names[14]).unlink()
    (tmp_path / names[14]).mkdir()
    caplog.clear()
    with pytest.raises(InputError, match="5 of 20 files failed"):
        verify.verify(tmp_path)
    differing = [f"{tmp_path / names[n]}: other content than published" for n in (7, 11, 12, 13)]
    assert sorted(caplog.messages) == sorted(
        [
            *differing,
            f"{tmp_path / names[14]}: cannot be read (Is a directory)",
            f"{tmp_path}: 18 of 20 listed files read",
        ]
    )
    (tmp_path / names[14]).rmdir()
    for number in (7, 11, 12, 13, 14):
        (tmp_path / names[number]).write_text(names[number])
    caplog.clear()
    shares = [verify.verify(tmp_path, 0.1, seed).kept for seed in range(3, 6)]
    assert set(shares) <= {1, 2}
    assert f"{tmp_path}: 2 of 20 listed files read" in caplog.messages
    (tmp_path / "SHA256SUMS.txt").write_text(f"{'0' * 64}  ../../etc/passwd\n")
    with pytest.raises(InputError, match=r"SHA256SUMS.txt:1: expected a SHA-256 and a path"):
        verify.verify(tmp_path)
    (tmp_path / "SHA256SUMS.txt").write_text(f"{'0' * 64}  gone.dcm\n")
    with pytest.raises(InputError, match="of 1 listed files none is there"):
        verify.verify(tmp_path)


def test_candidates_whose_labels_are_all_blank_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "image-retrieval/candidate.csv"
    path.parent.mkdir()
    place, observations = "CheXpert-v1.0/train/patient{:05d}/study1/view1_frontal.jpg", 14
    header = ",".join(["Path", *retrieval_8x200.OBSERVATIONS])
    blank, one = "," * observations, ",1" + ",0" * (observations - 1)
    path.write_text(f"{header}\n{place.format(1)}{blank}\n{place.format(2)}{one}\n")
    rows, drops = retrieval_8x200._candidates(tmp_path)
    assert rows["category"].tolist() == [retrieval_8x200.OBSERVATIONS[0]]
    assert [drop.count for drop in drops] == [1]
