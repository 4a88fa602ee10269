"""Corpus readers on invented files in the published layouts, whole and damaged."""

import csv
import gc
import gzip
import hashlib
import json
import resource
import sys
import tracemalloc
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from command_options import options
from cxr_files.errors import InputError
from cxr_files.row_file import row_file
from cxrflow.text import corpus
from cxrflow.text.documents import DocumentWriter, open_documents, training_texts
from cxrflow.text.settings import CorpusSettings

HEADER = ["ROW_ID", "SUBJECT_ID", "HADM_ID", "CHARTDATE", "CHARTTIME", "STORETIME", "CATEGORY"]
HEADER += ["DESCRIPTION", "CGID", "ISERROR", "TEXT"]


def article(pmid: object, body: str, version: int = 1, language: str = "eng") -> str:
    return (
        f'<PubmedArticle><MedlineCitation Status="MEDLINE" Owner="NLM"><PMID Version="{version}">'
        f'{pmid}</PMID><Article PubModel="Print"><ArticleTitle>Trial of H<sub>2</sub>O.'
        f"</ArticleTitle>{body}<Language>{language}</Language></Article><OtherAbstract>"
        "<AbstractText>Not this one.</AbstractText></OtherAbstract></MedlineCitation>"
        f"<PubmedData><ReferenceList><PMID>1</PMID></ReferenceList></PubmedData></PubmedArticle>"
    )


def abstract(*parts: str) -> str:
    return f"<Abstract>{''.join(parts)}<CopyrightInformation>(c)</CopyrightInformation></Abstract>"


def plain(text: str) -> str:
    return abstract(f"<AbstractText>{text}</AbstractText>")


def write_pubmed(folder: Path, number: int, articles: list[str], deleted: list[int] = []) -> Path:  # noqa: B006
    folder.mkdir(parents=True, exist_ok=True)
    removed = "".join(f'<PMID Version="1">{pmid}</PMID>' for pmid in deleted)
    text = (
        '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD '
        'PubMedArticle, 1st January 2022//EN" "pubmed_220101.dtd">\n<PubmedArticleSet>\n'
        + "\n".join(articles)
        + (f"<DeleteCitation>{removed}</DeleteCitation>" if removed else "")
        + "</PubmedArticleSet>"
    )
    path = folder / f"pubmed22n{number:04d}.xml.gz"
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    return path


def build(layout: str, root: Path, output: Path, **settings: object) -> tuple[dict, dict]:
    corpus.main(options(layout=layout, root=root, settings=settings, output=output))
    table = pq.read_table(output / "documents.parquet").to_pydict()
    documents = dict(zip(table["document_id"], table["text"], strict=True))
    assert len(documents) == len(table["text"])
    return documents, json.loads((output / "corpus.json").read_text())


def dropped(counts: dict, step: int = -1) -> dict[str, int]:
    return {item["reason"]: item["count"] for item in counts["steps"][step]["dropped"]}


def test_pubmed_records_are_read_replaced_and_deleted(tmp_path):
    root = tmp_path / "pubmed"
    structured = abstract(
        '<AbstractText Label="AIM" NlmCategory="OBJECTIVE">See H<sub>2</sub>O\n and <i>x</i>.'
        '</AbstractText><AbstractText Label="RESULTS">None.</AbstractText><AbstractText/>'
    )
    baseline = [
        article(1, structured),
        article(2, plain("old")),
        article(3, plain("to be deleted")),
        article(4, ""),
        article(6, plain("old six")),
        article(7, plain("deux"), language="fre"),
        article("x", plain("no number")),
        article(9, plain("v2"), version=2),
        article(9, plain("v1"), version=1),
    ]
    write_pubmed(root / "baseline", 1, baseline)
    write_pubmed(root / "updatefiles", 2, [article(2, plain("new"))], deleted=[3])
    write_pubmed(root / "updatefiles", 3, [article(5, plain("five")), article(6, "")], deleted=[8])
    documents, counts = build("pubmed", root, tmp_path / "out")
    assert documents == {
        "1": "AIM: See H2O and x. RESULTS: None.", "2": "new", "5": "five", "7": "deux", "9": "v2",
    }  # fmt: skip
    assert counts["documents"] == 5 and counts["steps"][0]["kept"] == 3
    assert dropped(counts) == {
        "no abstract": 2, "deleted (DeleteCitation)": 1, "PMID is not a number": 1,
        "replaced by a newer record": 3,
    }  # fmt: skip


def test_a_record_added_again_after_its_deletion_is_kept(tmp_path):
    root = tmp_path / "pubmed"
    write_pubmed(root, 1, [article(1, plain("first")), article(2, plain("same file"))])
    write_pubmed(root, 2, [article(2, plain("again"))], deleted=[1, 2])
    write_pubmed(root, 3, [article(1, plain("back"))])
    documents, _ = build("pubmed", root, tmp_path / "out")
    assert documents == {"1": "back"}


def test_pubmed_md5_twins_are_compared(tmp_path):
    root = tmp_path / "pubmed"
    path = write_pubmed(root, 1, [article(1, plain("one"))])
    twin = path.with_name(path.name + ".md5")
    twin.write_text(f"MD5({path.name})= {hashlib.md5(path.read_bytes()).hexdigest()}\n")
    assert build("pubmed", root, tmp_path / "out")[0] == {"1": "one"}
    twin.write_text(f"MD5({path.name})= {'0' * 32}\n")
    with pytest.raises(InputError, match=r"pubmed22n0001\.xml\.gz: MD5 is .* says 0000"):
        build("pubmed", root, tmp_path / "out")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[: len(data) // 2], "not a whole gzip file"),
        (lambda data: b"no gzip at all", "not a whole gzip file"),
        (lambda data: gzip.compress(gzip.decompress(data)[:-30]), "not PubMed XML"),
        (lambda data: gzip.compress(b"<Other></Other>"), r"not PubMed XML \(root element is Other"),
        (lambda data: gzip.compress(gzip.decompress(data) + b"\xff"), "not PubMed XML"),
        (lambda data: b"", "not PubMed XML"),
        (lambda data: gzip.compress(b"<?xml version='1.0' encoding='x-no'?><a/>"), "not PubMed"),
        (lambda data: gzip.compress(b"<PubmedArticleSet>" + b" " * 2**27), "not PubMed XML .unpac"),
    ],
)
def test_damaged_pubmed_files(tmp_path, damage, message):
    root = tmp_path / "pubmed"
    write_pubmed(root, 1, [article(1, plain("one"))])
    path = write_pubmed(root, 2, [article(n, plain(f"text {n}")) for n in range(2, 400)])
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=rf"pubmed22n0002\.xml\.gz: {message}") as error:
        build("pubmed", root, tmp_path / "out")
    assert "\n" not in str(error.value)
    assert not list(tmp_path.glob("*out*")), "nothing half-written may stay"
    documents, counts = build("pubmed", root, tmp_path / "out", max_failed_share=0.5)
    assert documents == {"1": "one"}, "a skipped file contributes nothing"
    assert dropped(counts, 0) == {"unreadable": 1}
    with pytest.raises(InputError, match=r"1 of 2 .*\(1\): unreadable, e\.g\. pubmed22n0002"):
        build("pubmed", root, tmp_path / "out2", max_failed_share=0.4)


def test_pubmed_folder_without_files(tmp_path):
    with pytest.raises(InputError, match="no PubMed files"):
        build("pubmed", tmp_path, tmp_path / "out")
    with pytest.raises(InputError, match="data root not found"):
        build("pubmed", tmp_path / "absent", tmp_path / "out")
    write_pubmed(tmp_path, 1, [article(1, "")])
    with pytest.raises(InputError, match=r"no document left \(1 no abstract\)"):
        build("pubmed", tmp_path, tmp_path / "out")


def test_two_processes_give_the_same_bytes(tmp_path):
    root = tmp_path / "pubmed"
    for number in range(1, 4):
        write_pubmed(root, number, [article(n, plain(f"{n} {number}")) for n in range(number, 9)])
    arguments = ["--layout", "pubmed", "--root", str(root)]
    for threads in ("1", "2"):
        corpus.main([*arguments, "--threads", threads, "--output", str(tmp_path / threads)])
    first, second = (tmp_path / n / "documents.parquet" for n in "12")
    assert first.read_bytes() == second.read_bytes()


def note(row: int, text: str, category: str = "Nursing", is_error: str = "") -> list[str]:
    return [str(row), "9", "", "2150-03-04", "", "", category, "Report", "", is_error, text]


def write_notes(root: Path, rows: list[list[str]], name: str = "NOTEEVENTS.csv.gz") -> Path:
    root.mkdir(parents=True, exist_ok=True)
    path = root / name
    opened = gzip.open if name.endswith(".gz") else open
    with opened(path, "wt", newline="", encoding="utf-8") as stream:
        csv.writer(stream, quoting=csv.QUOTE_ALL).writerows(rows)
    return path


def test_notes(tmp_path):
    rows = [
        HEADER,
        note(1, 'Dr. [**Last Name\n 12**], [** **][**2150-3-1**].\n\nSaid "no, never".'),
        note(2, "an error", is_error="1"),
        note(3, "  \n "),
        note(4, "echo, clear", "Echo"),
        note(1, "the same id"),
    ]
    write_notes(tmp_path / "iii", rows)
    documents, counts = build("mimic_iii", tmp_path / "iii", tmp_path / "out")
    assert documents == {"1": 'Dr. ___, ______.\n\nSaid "no, never".', "4": "echo, clear"}
    assert dropped(counts) == {
        "marked as error (ISERROR)": 1, "no text": 1, "ROW_ID there before": 1,
    }  # fmt: skip


def test_notes_header_may_be_unquoted_and_lower_case(tmp_path):
    path = tmp_path / "noteevents.csv"
    path.write_text(",".join(HEADER).lower() + '\n1,9,,,,,ECG,Report,,,"a\nb"\n')
    assert build("mimic_iii", tmp_path, tmp_path / "out")[0] == {"1": "a\nb"}


def test_notes_without_a_column(tmp_path):
    short = [name for name in HEADER if name != "ISERROR"]
    write_notes(tmp_path / "iii", [short, note(1, "x")[:-1]])
    with pytest.raises(InputError, match=r"NOTEEVENTS\.csv\.gz: column 'ISERROR' is missing"):
        build("mimic_iii", tmp_path / "iii", tmp_path / "out")


def test_damaged_notes(tmp_path):
    rows = [HEADER, *(note(n, f"text {n}\nmore, of it " * 9) for n in range(1, 500))]
    path = write_notes(tmp_path / "a", rows)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=r"NOTEEVENTS\.csv\.gz: not a whole gzip file after line"):
        build("mimic_iii", tmp_path / "a", tmp_path / "out")
    path.write_bytes(gzip.compress(gzip.decompress(content)[:-9]))
    with pytest.raises(InputError, match="not whole CSV after line"):
        build("mimic_iii", tmp_path / "a", tmp_path / "out")
    path.write_bytes(gzip.compress(gzip.decompress(content).replace(b"text 7", b"caf\xe9")))
    with pytest.raises(InputError, match="not UTF-8 after line"):
        build("mimic_iii", tmp_path / "a", tmp_path / "out")
    path.write_bytes(gzip.compress(gzip.decompress(content) + b"\n" * 300_000))
    with pytest.raises(InputError, match="100000 blank lines up to line"):
        build("mimic_iii", tmp_path / "a", tmp_path / "out")
    with pytest.raises(InputError, match="NOTEEVENTS.csv or noteevents.csv not found"):
        build("mimic_iii", tmp_path, tmp_path / "out2")


def test_blank_lines_between_notes_are_no_rows(tmp_path):
    path = write_notes(tmp_path / "iii", [HEADER, note(1, "a"), note(2, "b")], "NOTEEVENTS.csv")
    lines = path.read_text().splitlines()
    path.write_text("\n\n".join(lines) + "\n\n\n")
    documents, counts = build("mimic_iii", tmp_path / "iii", tmp_path / "out")
    assert documents == {"1": "a", "2": "b"} and dropped(counts) == {}


def test_malformed_note_rows_are_counted_or_fatal(tmp_path):
    rows = [HEADER, note(1, "a"), note(2, "b")[:-2], ["x", *note(3, "c")[1:]], note(4, "d")]
    write_notes(tmp_path / "iii", rows, "NOTEEVENTS.csv")
    with pytest.raises(InputError, match=r"2 of 4 notes failed.*malformed row, e.g. row 2"):
        build("mimic_iii", tmp_path / "iii", tmp_path / "out")
    documents, counts = build("mimic_iii", tmp_path / "iii", tmp_path / "out", max_failed_share=0.5)
    assert documents == {"1": "a", "4": "d"} and dropped(counts) == {"malformed row": 2}


def test_memory_stays_flat(tmp_path):
    """Once a row group is full, more notes take no more memory."""
    peaks = []
    for size in (2_000, 6_000):
        root = tmp_path / str(size)
        write_notes(root, [HEADER, *(note(n, f"{n} " * 2000) for n in range(size))])
        tracemalloc.start()
        corpus.build_corpus("mimic_iii", root, CorpusSettings(), tmp_path / f"o{size}")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert open_documents(tmp_path / "o6000" / "documents.parquet").num_row_groups >= 3
    assert peaks[1] < 1.2 * peaks[0], peaks


def test_documents_can_be_read_by_split(tmp_path):
    import pyarrow as pa

    path = tmp_path / "documents.parquet"
    pq.write_table(
        pa.table({"document_id": ["1", "2", "3"], "text": ["a", None, "c"],
                  "split": ["train", "train", "test"]}), path
    )  # fmt: skip
    assert list(training_texts(path, 10)) == [["a", ""]]
    with DocumentWriter(tmp_path / "plain.parquet") as writer:
        writer.add("1", "x")
    assert list(training_texts(tmp_path / "plain.parquet", 9)) == [["x"]]


@pytest.fixture
def full(monkeypatch) -> Iterator[list[object]]:
    """Files end at 64 bytes; what is printed of errors that nobody can catch."""
    printed: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))
    yield printed
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("fault", [None, KeyError("a report")])
def test_what_a_full_disk_refuses_is_said_once(full, tmp_path, fault):
    """Not again by Arrow, whose writers print a traceback when they are left open."""
    for writer in (
        DocumentWriter(tmp_path / "documents.parquet"),
        row_file(tmp_path / "labels.parquet", {"id": "str", "text": "str"}),
    ):
        text = " ".join(sha256(bytes([number])).hexdigest() for number in range(9))
        with pytest.raises((OSError, KeyError)), writer as rows:
            rows.add("1", text) if isinstance(rows, DocumentWriter) else rows.add([("1", text)])
            if fault:
                raise fault
        del writer, rows
        gc.collect()
    assert full == []


def test_bad_document_files(tmp_path):
    import pyarrow as pa

    with pytest.raises(InputError, match="file not found"):
        open_documents(tmp_path / "absent.parquet")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(InputError, match=r"bad\.parquet: not a readable Parquet file"):
        open_documents(tmp_path / "bad.parquet")
    texts = [sha256(bytes([number % 256, number // 256])).hexdigest() for number in range(2000)]
    with DocumentWriter(tmp_path / "whole.parquet") as writer:
        for number, text in enumerate(texts):
            writer.add(str(number), text)
    data = (tmp_path / "whole.parquet").read_bytes()
    for place in (len(data) // 2, len(data) * 2 // 3):  # opened, and then not readable
        (tmp_path / "hole.parquet").write_bytes(data[:place] + b"\xff" * 64 + data[place + 64 :])
        with pytest.raises(InputError, match=r"hole\.parquet: row group 0 cannot be read"):
            list(training_texts(tmp_path / "hole.parquet", 100))
    pq.write_table(pa.table({"document_id": ["1"], "text": [1]}), tmp_path / "number.parquet")
    with pytest.raises(InputError, match=r"column 'text' holds int64, expected text"):
        open_documents(tmp_path / "number.parquet")
    pq.write_table(pa.table({"document_id": ["1"]}), tmp_path / "short.parquet")
    with pytest.raises(InputError, match=r"short\.parquet: column 'text' is missing"):
        open_documents(tmp_path / "short.parquet")
