"""CSV lists, study times and DICOM header scans, whole and damaged; tallies of what is lost."""

import gzip
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pydicom
import pytest
from data_fixtures import write_csv, write_dicom
from PIL import Image

from cxr_files.csv_table import bare_ids, read_csv
from cxr_files.drops import Drop, Tally
from cxr_files.errors import InputError
from cxrflow.data.readers import dicom_headers, study_time
from cxrflow.data.readers.common_tables import among, drop_repeats, require_unique

COLUMNS = {"name": "id", "size": "value", "note": "text"}


def read(path: Path) -> tuple[pd.DataFrame, list[Drop]]:
    return read_csv(path, COLUMNS)  # type: ignore[arg-type]


def test_reads_by_name_whatever_the_order_and_plain_or_gzipped(tmp_path: Path) -> None:
    text = "note,size,extra,name\nNA,3,?,a\n,4.5,?,b\n"
    (tmp_path / "plain.csv").write_text(text)
    (tmp_path / "zipped.csv.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("plain.csv", "zipped.csv.gz"):
        frame, damaged = read(tmp_path / name)
        assert frame["name"].tolist() == ["a", "b"]
        assert frame["size"].tolist() == [3.0, 4.5]
        assert frame["note"][0] == "NA" and pd.isna(frame["note"][1])
        assert damaged == []


def test_byte_order_mark_and_crlf_are_no_part_of_the_values(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("\ufeffname,size,note\r\na,3,x\r\n".encode())
    frame, _ = read(tmp_path / "t.csv")
    assert frame.iloc[0].tolist() == ["a", 3.0, "x"]


def test_editions_that_spell_a_column_otherwise_are_read(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", ("NAME", "Size ", "no-te"), [("a", 3, "x")])
    frame, _ = read(path)
    assert frame.iloc[0].to_dict() == {"name": "a", "size": 3.0, "note": "x"}
    # What stands there as it is spelt is itself; of two others neither can be chosen.
    exact = write_csv(tmp_path / "e.csv", ("name", "Name", "size", "note"), [("a", "b", 3, "x")])
    assert read(exact)[0]["name"].tolist() == ["a"]
    twice = write_csv(tmp_path / "d.csv", ("NAME", "Name", "size", "note"), [("a", "b", 3, "x")])
    with pytest.raises(InputError, match=r"d\.csv: columns \['NAME', 'Name'\] could all be 'name'"):
        read(twice)


def test_missing_column_names_file_column_and_expectation(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", ("name", "note"), [("a", "b")])
    with pytest.raises(InputError, match=r"t\.csv: column 'size' is missing; expected name, size"):
        read(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        ("name,size,note\na,1,caf\u00e9\n".encode("latin-1"), "not UTF-8"),
        ("name,size,note\na,1,x\n".encode("utf-16")[:-1], "begins with the mark of UTF-16, but"),
        (b'name,size,note\na,1,x,extra\nb,2,"never closed\n', "closed quotes"),
    ],
)
def test_unreadable_file_is_one_clear_error(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_cut_off_gzip_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"name,size,note\n" + b"a,1,x\n" * 5000)[:40])
    with pytest.raises(InputError, match="cut off"):
        read(path)


@pytest.mark.parametrize("first_extra", [False, True])
def test_damaged_rows_are_counted_with_reason_and_place(tmp_path: Path, first_extra: bool) -> None:
    lines = ["name,size,note", "a,1,x", "b,many,x", ",3,x", "c,4,x"]
    if first_extra:
        lines.insert(2, "d,5,x,one,too,many")
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines) + "\n")
    frame, damaged = read(path)
    assert frame["name"].tolist() == ["a", "c"]
    reasons = {drop.reason: drop for drop in damaged}
    assert reasons["t.csv: size is not a number"].examples == (f"{path}:{3 + first_extra}",)
    assert reasons["t.csv: name is blank"].count == 1
    assert ("t.csv: wrong number of fields (expected 3)" in reasons) == first_extra
    assert all(drop.failed for drop in damaged)


def test_every_row_longer_than_the_header_is_damage_not_a_shift(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("name,size,note\nx,a,1,n\ny,b,2,n\n")
    frame, damaged = read(path)
    assert frame.empty and damaged[0].count == 2


@pytest.mark.parametrize(
    ("end", "names", "cut_off"),
    [
        ("c,1\n", ["a", "b"], True),
        ("c", ["a", "b"], True),
        ("c,4,x\n\nd", ["a", "b", "c"], True),
        ("c,1,", ["a", "b", "c"], False),
        ("c,1,x\n\n  \n", ["a", "b", "c"], False),
        ("c,1\nd,2\n", ["a", "b", "c", "d"], False),  # published with fewer, as NIH's boxes
    ],
)
def test_a_last_row_that_is_cut_off_is_damage(
    tmp_path: Path, end: str, names: list[str], cut_off: bool
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f'name,size,note\na,1,"x, y\nz"\nb,2,x\n{end}')
    frame, damaged = read(path)
    assert frame["name"].tolist() == names
    reasons = ["t.csv: cut off (its last row has fewer fields than the one before)"] * cut_off
    assert [drop.reason for drop in damaged] == reasons and all(drop.failed for drop in damaged)


def test_same_row_twice_is_counted_and_differing_rows_of_one_id_raise() -> None:
    frame = pd.DataFrame({"id": ["a", "a", "b"], "v": [1, 1, 2]})
    kept, drops = drop_repeats(frame, "id")
    assert kept["id"].tolist() == ["a", "b"] and drops[0].count == 1
    with pytest.raises(InputError, match=r"src: 1 value\(s\) of id .*\(a\)"):
        require_unique(pd.DataFrame({"id": ["a", "a"], "v": [1, 2]}), "id", "src")


def test_ids_lose_letters_and_float_tails() -> None:
    ids = bare_ids(pd.Series(["p19990001", "s5", "19990001.0", "42"]))
    assert ids.tolist() == ["19990001", "5", "19990001", "42"]


def test_times_of_the_jpg_table_have_lost_their_leading_zeros() -> None:
    read = pd.Series(["70512.5", "0.0", "235959.999", "512"])
    times = study_time.from_numbers(pd.Series(["21710304"] * 4), read)
    wanted = ("07:05:12.500", "00:00:00.000", "23:59:59.999", "00:05:12.000")
    assert study_time.iso(times).tolist() == [f"2171-03-04T{time}" for time in wanted]
    assert study_time.order(times).argsort().tolist() == [1, 3, 0, 2]


def test_times_of_dicom_headers_may_be_cut_short_and_may_be_missing() -> None:
    times = study_time.from_dicom(
        pd.Series(["21710304", "21710304", "21710304", "2171", None, "21719999"], dtype="str"),
        pd.Series(["070512.5", "0705", None, "07", "07", "07"], dtype="str"),
    )
    wanted = ("07:05:12.500", "07:05:00.000", "00:00:00.000")
    assert study_time.iso(times).tolist()[:3] == [f"2171-03-04T{time}" for time in wanted]
    assert study_time.iso(times)[3:].isna().all() and study_time.order(times)[3:].isna().all()


def test_header_scan_tells_damage_apart_and_does_not_depend_on_processes(tmp_path, monkeypatch):
    whole = write_dicom(tmp_path / "whole.dcm", view="AP")
    content = whole.read_bytes()
    rows_tag = content.index(b"\x28\x00\x10\x00")
    for name, part in {
        "empty.dcm": b"",
        "text.dcm": b"this is no picture " * 40,
        "header.dcm": content[: rows_tag - 3],
        "pixels.dcm": content[:-100],
        "bare.dcm": content[: content.index(b"\xe0\x7f\x10\x00")],
    }.items():
        (tmp_path / name).write_bytes(part)
    names = ["whole.dcm", "empty.dcm", "text.dcm", "header.dcm", "pixels.dcm"]
    names += ["bare.dcm", "absent.dcm"]
    one = dicom_headers.scan(tmp_path, names)
    assert one["failure"].fillna("").tolist() == [
        "",
        "file is empty",
        "not a DICOM file",
        "header is cut off or has no Rows and Columns",
        "pixel data is cut off or absent",
        "pixel data is cut off or absent",
        "file not found",
    ]
    assert one.loc[0, ["view", "study_date", "image_height", "image_width"]].tolist() == [
        *("AP", "21710304", 12.0, 10.0)
    ]
    monkeypatch.setattr(dicom_headers, "_CHUNK", 2)
    pd.testing.assert_frame_equal(one, dicom_headers.scan(tmp_path, names, threads=2))


def test_header_scan_refuses_what_the_store_cannot_read_and_nothing_else(tmp_path: Path) -> None:
    whole = write_dicom(tmp_path / "whole.dcm", view="AP")
    content = whole.read_bytes()
    syntax = content.index(b"1.2.840.10008.1.2.1\0")
    (tmp_path / "bare.dcm").write_bytes(content[132:])  # without the mark of DICOM
    Image.new("L", (30, 20), 7).save(tmp_path / "picture.dcm", "PNG")
    shared_colour = pydicom.dcmread(whole)
    shared_colour.SamplesPerPixel, shared_colour.PlanarConfiguration = 3, 0
    shared_colour.PhotometricInterpretation = "YBR_FULL_422"
    shared_colour.BitsAllocated, shared_colour.BitsStored, shared_colour.HighBit = 8, 8, 7
    shared_colour.PixelData = bytes(2 * 12 * 10)
    shared_colour.save_as(tmp_path / "colour.dcm")
    os.mkfifo(tmp_path / "queue.dcm")
    for name, other in {"private.dcm": b"1.2.840.113619.5.2", "unknown.dcm": b"9.9"}.items():
        (tmp_path / name).write_bytes(
            content[:syntax] + other.ljust(20, b"\0") + content[syntax + 20 :]
        )
    (tmp_path / "cut.dcm").write_bytes((tmp_path / "picture.dcm").read_bytes()[:20])
    names = ["bare", "picture", "colour", "queue", "private", "unknown", "cut"]
    found = dicom_headers.scan(tmp_path, [f"{name}.dcm" for name in names])
    assert found["failure"].str.partition(" (")[0].fillna("").tolist() == [
        *("", "", "", "not a regular file"),
        "transfer syntax '1.2.840.113619.5.2' is not supported",
        "transfer syntax '9.9' is not supported",
        "damaged image file",
    ]
    assert found.loc[:2, "image_height"].tolist() == [12, 20, 12]
    assert found["view"].fillna("").tolist()[:3] == ["AP", "", "AP"]


def test_a_tally_adds_up_by_reason_and_keeps_the_first_examples() -> None:
    tally = Tally("rows read", "rows", 3, [Drop.of("blank", []), Drop.of("old", [1])])
    tally.drop("old", range(2, 9))
    tally.drop("old", ["x"], failed=True)
    old = {"reason": "old", "count": 8, "examples": ["1", "2", "3", "4", "5"], "failed": False}
    assert tally.as_json() == {
        **{"name": "rows read", "unit": "rows", "kept": 3},
        "dropped": [old, {"reason": "old", "count": 1, "examples": ["x"], "failed": True}],
    }
    assert tally.failed == 1
    assert Drop.of("old", "ab", part="test").as_json()["part"] == "test"


def test_too_much_damage_ends_the_stage_and_choice_does_not_count() -> None:
    tally = Tally("rows read", "rows", 6)
    tally.drop("not wanted", range(2))
    tally.drop("cut off", ["a:3"], failed=True)
    tally.drop("blank id", ["a:5", "a:7", "a:9"], failed=True)
    tally.require_few("a.csv", 4 / 12)
    with pytest.raises(InputError) as error:
        tally.require_few("a.csv", 0.3)
    assert str(error.value) == (
        "a.csv: 4 of 12 rows failed at 'rows read', more than max_failed_share 0.3 allows; "
        "most often (3): blank id, e.g. a:5, a:7"
    )


def test_names_among_others_are_those_of_pandas() -> None:
    rng = np.random.default_rng(0)
    names = pd.Series(rng.integers(0, 40, 200).astype(str), index=range(100, 300))
    names[names == "7"] = None
    for listed in ([], ["3", "3", "39"], pd.Series(rng.integers(0, 60, 30).astype(str)), {"0"}):
        pd.testing.assert_series_equal(among(names, listed), names.isin(list(listed)))
    assert not among(names, pd.Series(["1", None], dtype="str"))[names.isna()].any()
