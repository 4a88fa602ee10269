"""Tables and folders as sources of reports: what is read is what was written."""

import csv
from pathlib import Path

import numpy as np
import pytest

from cxrflow.errors import InputError
from cxrflow.reports import label_input
from cxrflow.reports.label_input import Table, find_source
from cxrflow.reports.texts import RawReport

ALPHABET = [*"ab ,.;'\"\n", "\r\n", "ü", "\t", '""', "NA", "null"]


def texts_of(path: Path, **options: str | bool) -> list[tuple[str, str | None]]:
    items = find_source(path, **options).items()  # type: ignore[arg-type]
    return [(item.study_id, item.text) for item in items if isinstance(item, RawReport)]


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
@pytest.mark.parametrize("seed", range(3))
def test_texts_come_back_as_written_over_many_batches(
    tmp_path: Path, seed: int, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(label_input, "BATCH_ROWS", 7)
    rng = np.random.default_rng(seed)
    texts = ["".join(rng.choice(ALPHABET, size=rng.integers(0, 200))) for _ in range(300)]
    path = tmp_path / f"in.{suffix}"
    with open(path, "w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, delimiter="\t" if suffix == "tsv" else ",")
        writer.writerows([["id", "text"], *([f"{n:04d}", text] for n, text in enumerate(texts))])
    assert len(list(Table(path).batches(["text"]))) == 43
    assert texts_of(path) == [(str(n), text) for n, text in enumerate(texts)]
    by_id = texts_of(path, id_column="id")
    assert by_id == [(f"{n:04d}", text) for n, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("columns", "chosen"),
    [
        (["id", "Report Impression"], 1),
        (["REPORT", "findings_count"], 0),
        (["study", "report_text", "labels"], 1),
        (["anything"], 0),
        (["a", " Text "], 1),
    ],
)
def test_one_obvious_text_column_is_found(tmp_path: Path, columns: list[str], chosen: int) -> None:
    path = tmp_path / "in.csv"
    path.write_text(",".join(columns) + "\n" + ",".join(map(str, range(len(columns)))) + "\n")
    assert texts_of(path) == [("0", str(chosen))]


@pytest.mark.parametrize("columns", [["a", "b"], ["report", "impression"], ["text", "text"]])
def test_none_or_several_are_listed(tmp_path: Path, columns: list[str]) -> None:
    path = tmp_path / "in.csv"
    path.write_text(",".join(columns) + "\n1,2\n")
    with pytest.raises(InputError, match=rf"--text-column .*'{columns[0]}', '{columns[1]}'"):
        find_source(path)


def test_files_are_listed_by_path_and_read_only_when_asked(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.txt", "a/b/c.txt", "d.text"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    source = find_source(tmp_path)
    reader = label_input.open_items(source.kind, source.root)
    assert reader is not None and source.total == 3
    (tmp_path / "a" / "z.txt").unlink()
    reports = [reader.read(item) for item in source.items() if not isinstance(item, RawReport)]
    assert [(r.study_id, r.text, r.failure) for r in reports] == [
        ("a/b/c.txt", "a/b/c.txt", None),
        ("a/z.txt", None, "file cannot be read"),
        ("b.txt", "b.txt", None),
    ]
