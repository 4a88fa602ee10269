"""Two folders of results side by side."""

import json
import re
from pathlib import Path

import pytest

from cxr_files.errors import InputError
from cxrflow.commands.compare.compare import compare, main

HEAD = "row,column,ours,ours_sd,low,high,seeds,published,published_sd,reason"


def folder(root: Path, tables: dict[str, list[str]]) -> Path:
    """A results folder with these tables, each by its lines."""
    for name, lines in tables.items():
        file = root / f"tables/{name}.csv"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join([HEAD, *lines]) + "\n", encoding="utf-8")
    return root


@pytest.fixture
def both(tmp_path: Path) -> tuple[Path, Path]:
    """Folders that share two cells; of one a spreadsheet would take the label for a formula."""
    first = folder(
        tmp_path / "first",
        {
            "biovil/headline/table5": ["BioViL,cnr,1.0,,0.9,1.1,3,,,", "Old,cnr,9,,,,1,,,"],
            "biovil/table5": [
                "BioViL,cnr,1.25,,1.2,1.3,3,1.027,,",
                "GLoRIA,cnr,,,,,,0.93,,not run",
            ],
            "biovil/table1": ["'+ more,cut,✓,,,,1,,,", "'+ more,auroc,0.5,,,,1,,,"],
            "biovil/orderings": ["BioViL,cnr,7,,,,1,,,"],
        },
    )
    second = folder(
        tmp_path / "second",
        {
            "biovil/headline/table5": ["BioViL,cnr,0.75,,0.7,0.8,1,,,", "GLoRIA,cnr,0.5,,,,1,,,"],
            "biovil/table1": ["'+ more,auroc,0.75,,,,1,,,"],
            "convirt/table2": ["ConVIRT,p10,12.5,,10,15,1,,,"],
        },
    )
    return first, second


def test_cells_of_both_are_compared_and_the_others_counted(both):
    compared = compare(*both)
    assert [(pair.place[1:], pair.first.value, pair.second.value) for pair in compared.pairs] == [
        (("table5", "BioViL", "cnr"), 1.25, 0.75),  # the whole table, not its headline
        (("table1", "+ more", "auroc"), 0.5, 0.75),
    ]
    assert [pair.difference for pair in compared.pairs] == [-0.5, 0.25]
    assert [pair.apart for pair in compared.pairs] == [True, None]
    assert compared.only == (1, 2)  # Old; GLoRIA and ConVIRT


@pytest.mark.parametrize(("low", "apart"), [("1.25", False), ("1.31", True)])
def test_intervals_that_touch_are_not_apart(tmp_path, low, apart):
    first = folder(tmp_path / "a", {"p/t": ["r,c,1.25,,1.2,1.3,3,,,"]})
    second = folder(tmp_path / "b", {"p/t": [f"r,c,1.4,,{low},1.5,3,,,"]})
    (pair,) = compare(first, second).pairs
    assert pair.apart is apart


def test_it_prints_a_line_a_cell_and_the_counts(both, capsys):
    main(list(map(str, both)))
    head, *lines, counts = capsys.readouterr().out.splitlines()
    assert head.split()[:4] == ["paper", "table", "row", "score"]
    assert re.split(r"  +", lines[0]) == [
        "biovil", "table5", "BioViL", "cnr", "1.25 (1.2 to 1.3)", "0.75 (0.7 to 0.8)", "−0.5",
        "apart",
    ]  # fmt: skip
    assert counts == (
        f"2 cells in both, intervals apart in 1, overlapping in 0; 1 only in {both[0]}, "
        f"2 only in {both[1]}"
    )


def test_a_csv_has_the_numbers_and_a_page_the_same_lines(both, tmp_path):
    table, page = tmp_path / "out.csv", tmp_path / "out.html"
    for output in (table, page):
        main([*map(str, both), "--output", str(output)])
    lines = table.read_text(encoding="utf-8").splitlines()
    assert lines[1:] == [
        "biovil,table5,BioViL,cnr,1.25,1.2,1.3,0.75,0.7,0.8,-0.5,apart",
        "biovil,table1,'+ more,auroc,0.5,,,0.75,,,0.25,",
    ]
    html = page.read_text(encoding="utf-8")
    (packed,) = re.findall(r'type="application/json"[^>]*>(.*?)</script>', html)
    content = json.loads(packed)
    rows = [
        [entry[0] if isinstance(entry, list) else content["texts"][entry] for entry in row]
        for row in content["rows"]
    ]
    assert rows[1] == [
        "biovil", "table1", "+ more", "auroc", "0.5", "0.75", "+0.25", "",
        0.5, None, None, 0.75, None, None, 0.25,
    ]  # fmt: skip
    assert len(content["columns"]) == len(rows[1])
    assert not re.search(r"(?:src|href)=", html)  # nothing is loaded


def test_what_cannot_be_compared_is_one_line(both, tmp_path):
    with pytest.raises(InputError, match=r"expected a name that ends with \.html or \.csv"):
        main([*map(str, both), "--output", str(tmp_path / "out.txt")])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no tables; expected a finished run's results"):
        compare(both[0], tmp_path / "empty")
    other = folder(tmp_path / "other", {"mine/t": ["r,c,1,,,,1,,,"]})
    with pytest.raises(InputError, match="no cell in common: 3 and 1 cells"):
        compare(both[0], other)
    with pytest.raises(
        InputError, match=r"first/\.\./first: is .*first, too; expected two folders"
    ):
        compare(both[0], both[0] / "../first")
    for content, said in (
        (b"row,column\nr,c\n", "column 'ours' is missing"),
        (
            HEAD.encode() + b"\nr,c,1,,,,1,,,\nr,c,2,,,,1,,,\n",
            "3: row 'r', column 'c' stands .* twice",
        ),
        (HEAD.encode() + b"\nr,c,1,,about 2,,1,,,\n", "2: low is 'about 2'; expected a number"),
        (HEAD.encode() + b"\nr,c,1\n", "2: 3 fields; expected 10"),
        (HEAD.encode() + b"\nr\xff,c,1,,,,1,,,\n", "not UTF-8"),
    ):
        (other / "tables/mine/t.csv").write_bytes(content)
        with pytest.raises(InputError, match=rf"mine/t\.csv:? ?{said}"):
            compare(both[0], other)


def test_runs_of_different_scale_are_said_to_be(both, tmp_path):
    for root, scale in zip(both, ("demo", "paper"), strict=True):
        (root / "report").mkdir()
        (root / "report/config.json").write_text(json.dumps({"values": {"scale": scale}}))
    assert compare(*both).counts.endswith(". The runs are of different scale: demo and paper")


def test_a_recorded_run_is_a_folder_too(both, tmp_path):
    record = tmp_path / "record"
    (both[0] / "tables").rename(record)
    (record / "run.json").write_text('{"scale": "demo"}')
    assert len(compare(record, both[1]).pairs) == 2
