"""The corpus program on small copies of every published layout, good and damaged."""

import errno
import gzip
import io
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cxr_files.atomic import read_json
from cxr_files.errors import InputError
from cxr_labels.observations import OBSERVATIONS
from cxr_labels.sections import SpecialCase, parse_report
from cxr_labels.settings import ReportSettings, SectionSettings
from cxrflow.reports.corpus import _Tables, build_corpus, main
from cxrflow.reports.texts import list_reports, read_texts

GOOD = (
    "\n FINDINGS: \n \n Small left\n effusion.\n"
    " \n IMPRESSION: \n \n 1. Left effusion.\n 2. No edema.\n"
)
PLACE = "files/p19/p1999000{n}/s5999000{n}.txt"


def write_mimic(root: Path, contents: dict[int, bytes | None]) -> Path:
    """A live tree with its study list; ``None`` = listed, no file."""
    lines = ["subject_id,study_id,path"]
    for number, content in contents.items():
        place = PLACE.format(n=number)
        lines.append(f"1999000{number},5999000{number},{place}")
        if content is not None:
            (root / place).parent.mkdir(parents=True, exist_ok=True)
            (root / place).write_bytes(content)
    (root / "cxr-study-list.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    return root


def run(root: Path, layout: str = "mimic_cxr", threads: int = 1, **settings: Any) -> Path:
    output = root.parent / f"corpus-{len(list(root.parent.iterdir()))}"
    chosen = ReportSettings.model_validate(settings)
    build_corpus(layout, str(root), output, chosen, threads=threads)
    return output


def record(folder: Path) -> dict[str, Any]:
    return read_json(folder / "corpus.json")


def drops(corpus: dict[str, Any]) -> dict[str, tuple[int, list[str]]]:
    """Count and examples by reason."""
    found = [drop for step in corpus["steps"] for drop in step["dropped"]]
    return {drop["reason"]: (drop["count"], drop["examples"]) for drop in found}


def real(name: str) -> Path:
    """The folder of a real data set, or no test."""
    root = Path(os.environ.get("CXR_REAL_DATA", ""), name)
    if "CXR_REAL_DATA" not in os.environ or not root.is_dir():
        pytest.skip(f"CXR_REAL_DATA names no folder with {name}")
    return root


def table(folder: Path, name: str) -> pd.DataFrame:
    return pd.read_parquet(folder / f"{name}.parquet")


def test_mimic_tree_gives_all_tables(tmp_path: Path) -> None:
    root = write_mimic(tmp_path / "mimic", {1: GOOD.encode(), 2: GOOD.encode()})
    folder = tmp_path / "out" / "mimic_cxr"
    main(["--layout", "mimic_cxr", "--root", str(root), "--output", str(folder)])
    sections = table(folder, "sections")
    assert list(sections["study_id"]) == ["59990001", "59990002"]
    assert sections.loc[0, "subject_id"] == "19990001"
    assert sections.loc[0, "findings"] == "Small left\n effusion."
    assert sections.loc[0, "outcome"] == "findings and impression"
    assert sections.loc[0, "conclusion"] == sections.loc[0, "impression"]
    assert pd.isna(sections.loc[0, "last_paragraph"])
    sentences = table(folder, "sentences").query("study_id == '59990001'")
    assert list(sentences[["section", "index", "sentence"]].itertuples(index=False, name=None)) == [
        ("findings", 0, "Small left effusion."),
        ("impression", 0, "Left effusion."),
        ("impression", 1, "No edema."),
    ]
    labels = table(folder, "labels")
    assert tuple(labels.columns) == ("study_id", *OBSERVATIONS)
    assert labels.loc[0, "Pleural Effusion"] == 1 and labels.loc[0, "Edema"] == 0
    assert pd.isna(labels.loc[0, "No Finding"])
    documents = table(folder, "documents")
    assert documents.loc[0, "text"] == "Small left effusion.\n1. Left effusion. 2. No edema."
    corpus = record(folder)
    assert corpus["reports"] == 2 and corpus["synthetic"] is False and drops(corpus) == {}
    assert corpus["labels"]["Pleural Effusion"] == {"positive": 2}


def test_archive_and_tree_read_the_same(tmp_path: Path) -> None:
    tree = write_mimic(tmp_path / "tree", {1: GOOD.encode(), 2: b"\n FINDINGS: Clear.\n"})
    zipped = tmp_path / "zipped"
    zipped.mkdir()
    with zipfile.ZipFile(zipped / "mimic-cxr-reports.zip", "w") as archive:
        for path in sorted(tree.glob("files/**/*.txt")):
            archive.write(path, path.relative_to(tree))
    assert list(read_texts("mimic_cxr", tree)) == list(read_texts("mimic_cxr", zipped))
    (tree / "cxr-study-list.csv.gz").unlink()
    assert list(read_texts("mimic_cxr", tree)) == list(read_texts("mimic_cxr", zipped))


def test_bad_reports_are_counted_with_reasons_and_stay_as_rows(tmp_path: Path) -> None:
    contents: dict[int, bytes | None] = {
        1: GOOD.encode(),
        2: b" \n ",
        3: "\n FINDINGS: h\xe9morragie\n".encode("latin-1"),
        4: b"\n INDICATION: Cough.\n",
        5: None,
        6: b"a\x00b",
        7: b"\n IMPRESSION: " + b"effusion " * 1_200_000,
        8: "\n FINDINGS: Clear.\n".encode("utf-16")[:-1],
    }
    root = write_mimic(tmp_path / "mimic", contents)
    folder = run(root, max_failed_share=0.9)
    corpus = record(folder)
    assert drops(corpus) == {
        "empty file": (1, ["59990002"]),
        "not UTF-8 text": (2, ["59990003", "59990008"]),
        "no usable section": (1, ["59990004"]),
        "file not found": (1, ["59990005"]),
        "not text (NUL bytes)": (1, ["59990006"]),
        "longer than 200000 characters": (1, ["59990007"]),
    }
    sections = table(folder, "sections")
    assert len(sections) == 8 and sum(corpus["outcomes"].values()) == 8
    assert sections.loc[1, "outcome"] == "empty file" and pd.isna(sections.loc[1, "findings"])
    assert sections.loc[3, "indication"] == "Cough."
    assert list(table(folder, "labels")["study_id"]) == ["59990001"]


def test_too_many_bad_reports_end_the_program_and_write_nothing(tmp_path: Path) -> None:
    root = write_mimic(tmp_path / "mimic", {1: GOOD.encode(), 2: b""})
    with pytest.raises(InputError, match=r"1 of 2 reports failed at.*\(1\): empty file") as raised:
        build_corpus("mimic_cxr", str(root), tmp_path / "out", ReportSettings())
    assert "\n" not in str(raised.value) and "effusion" not in str(raised.value)
    assert not (tmp_path / "out").exists()


def test_result_does_not_depend_on_processes_or_chunks(tmp_path: Path) -> None:
    texts = {n: GOOD.replace("left", "left " * n).encode() for n in range(1, 8)}
    root = write_mimic(tmp_path / "mimic", texts)
    one, two = run(root), run(root, threads=2, chunk=2)
    for name in ("sections", "sentences", "labels", "documents"):
        pd.testing.assert_frame_equal(table(one, name), table(two, name))
    assert record(one)["fingerprint"] == record(two)["fingerprint"]


def test_typos_and_special_cases_are_applied(tmp_path, monkeypatch):
    text = b"\n INDICATION: Smal efusion on the left.\n"
    root = write_mimic(tmp_path / "mimic", {1: text, 2: text, 3: GOOD.encode()})
    typos = tmp_path / "typos.py"
    typos.write_text("{'s59990001': [['smal', 'Small']], 's59990002': [['smal', 'Small']]}")
    cases = {"59990001": SpecialCase("indication"), "59990002": SpecialCase(None, 14, 26)}
    monkeypatch.setattr("cxr_labels.parsing.special_cases", lambda: cases)
    folder = run(root, typo_list=str(typos))
    sections = table(folder, "sections")
    assert list(sections["conclusion"][:2]) == ["Small efusion on the left.", "Small efusion"]
    assert sections.loc[1, "conclusion_from"] == "special case: offsets"
    assert list(table(folder, "labels")["Pleural Effusion"]) == [1, 1, 1]
    assert record(folder)["counts"]["typos_corrected"] == 2


def test_published_special_cases_are_counted_and_only_in_the_real_data_set(tmp_path: Path) -> None:
    studies = {"59279892": "TECHNIQUE", "50525523": "NOTE", "50798377": "NOTE", "59990001": "NOTE"}
    root = tmp_path / "mimic"
    for study, heading in studies.items():
        path = root / f"files/p19/p19990001/s{study}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = f"{heading}: Small effusion. {'x' * 178} No edema.\n\n IMPRESSION: Clear."
        path.write_text(f"\n {text}")
    folder = run(root, max_failed_share=1)
    sections = table(folder, "sections").set_index("study_id")
    assert sections["conclusion"]["59279892"].startswith("Small effusion.")
    assert sections["conclusion"]["50525523"].startswith("x No edema.")
    assert sections["conclusion"].isna()["50798377"]
    assert sections["impression"]["50525523"] == "Clear."
    assert record(folder)["outcomes"] == {
        "special case: technique": 1,
        "special case: offsets": 1,
        "special case: no usable text": 1,
        "impression only": 1,
    }
    (root / "MANIFEST.json").write_text('{"synthetic": true}')
    assert set(table(run(root), "sections")["outcome"]) == {"impression only"}


def test_both_sections_can_be_labelled(tmp_path: Path) -> None:
    text = b"\n FINDINGS: Rib fracture.\n \n IMPRESSION: No edema.\n"
    root = write_mimic(tmp_path / "mimic", {1: text})
    conclusion = table(run(root), "labels")
    both = table(run(root, labels={"text": "findings_and_impression"}), "labels")
    assert pd.isna(conclusion.loc[0, "Fracture"]) and both.loc[0, "Fracture"] == 1


def test_study_listed_twice_is_read_once(tmp_path: Path) -> None:
    root = write_mimic(tmp_path / "mimic", {1: GOOD.encode()})
    row = f"19990001,59990001,{PLACE.format(n=1)}"
    (root / "cxr-study-list.csv.gz").unlink()
    (root / "cxr-study-list.csv").write_text(f"subject_id,study_id,path\n{row}\n{row}\n")
    folder = run(root)
    assert len(table(folder, "sections")) == 1
    assert drops(record(folder)) == {"study listed twice": (1, ["59990001"])}


@pytest.mark.parametrize(
    ("layout", "files", "message"),
    [
        ("mimic_cxr", {}, "no report"),
        ("mimic_cxr", {"cxr-study-list.csv": b"study_id,path\n"}, "column 'subject_id'"),
        ("mimic_cxr", {"cxr-study-list.csv.gz": b"not gzip"}, "not gzip"),
        ("mimic_cxr", {"mimic-cxr-reports.zip": b"not zip"}, "not a whole zip"),
        ("open_i", {}, "neither ecgen-radiology"),
        ("open_i", {"NLMCXR_reports.tgz": b"not tar"}, "not a tar archive"),
        ("covid_chestxray", {}, "metadata.csv not found"),
        ("covid_chestxray", {"metadata.csv": b"Patientid,filename\n"}, "column 'modality'"),
    ],
)
def test_a_root_that_is_not_the_data_set_is_one_clear_line(tmp_path, layout, files, message):
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as raised:
        list_reports(layout, tmp_path)
    assert "\n" not in str(raised.value)


def test_missing_root_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="absent: data root not found"):
        list_reports("open_i", tmp_path / "absent")


def open_i_xml(number: int, findings: str, impression: str) -> bytes:
    return (
        f'<?xml version="1.0"?><eCitation><uId id="CXR{number}"/><Abstract>'
        f'<AbstractText Label="FINDINGS">{findings}</AbstractText>'
        f'<AbstractText Label="IMPRESSION">{impression}</AbstractText>'
        '<AbstractText Label="COMPARISON"/></Abstract></eCitation>'
    ).encode()


def test_open_i_folder_and_archive(tmp_path: Path) -> None:
    files = {
        "2.xml": open_i_xml(2, "", "Normal chest."),
        "10.xml": open_i_xml(10, "Heart size normal.", "Clear."),
        "3.xml": b"<eCitation>",
        "4.xml": b"",
    }
    folder, archive = tmp_path / "folder", tmp_path / "archive"
    (folder / "ecgen-radiology").mkdir(parents=True)
    archive.mkdir()
    with tarfile.open(archive / "NLMCXR_reports.tgz", "w:gz") as tar:
        for name, content in files.items():
            (folder / "ecgen-radiology" / name).write_bytes(content)
            member = tarfile.TarInfo(f"ecgen-radiology/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    assert list(read_texts("open_i", folder)) == list(read_texts("open_i", archive))
    sections = table(run(folder, "open_i", max_failed_share=0.5), "sections")
    assert list(sections["study_id"]) == ["CXR2", "CXR3", "CXR4", "CXR10"]
    assert list(sections["outcome"]) == [
        *("impression only", "not XML", "empty file", "findings and impression")
    ]
    assert sections["subject_id"].isna().all()


def test_covid_notes_are_the_impression(tmp_path: Path) -> None:
    root = tmp_path / "covid"
    root.mkdir()
    (root / "metadata.csv").write_text(
        "Patientid,offset,modality,filename,clinical notes\n"
        '2,0,X-ray,a.jpg,"Infiltrate in the left lung. No effusion."\n'
        "2,3,X-ray,b.jpg,\n2,5,CT,c.jpg,Slices\n2,0,X-ray,a.jpg,again\n"
    )
    folder = run(root, "covid_chestxray")
    sections = table(folder, "sections")
    assert list(sections["study_id"]) == ["a.jpg"]
    assert sections.loc[0, "impression"] == "Infiltrate in the left lung. No effusion."
    assert drops(record(folder)) == {
        "modality CT": (1, ["c.jpg"]),
        "filename repeated": (1, ["a.jpg"]),
        "no clinical notes": (1, ["b.jpg"]),
    }


OWN = "INDICATION: CHF.\nFindings: Left effusion.\nImpression: No edema.\n"


def test_headings_of_another_form_are_refused_or_read(tmp_path: Path) -> None:
    root = write_mimic(tmp_path / "own", {n: OWN.encode() for n in range(1, 5)})
    with pytest.raises(InputError) as raised:
        run(root)
    for words in (r"'\n FINDINGS:'", "'Findings:' (4)", "reports.sections.headings: any"):
        assert words in str(raised.value)
    folder = run(root, sections={"headings": "any"}, labels={"text": "findings_and_impression"})
    sections = table(folder, "sections")
    assert set(sections["findings"]) == {"Left effusion."}
    assert set(sections["indication"]) == {"CHF."}
    assert set(table(folder, "labels")["Pleural Effusion"]) == {1}


def test_headings_that_became_a_last_paragraph_are_told(tmp_path, caplog):
    late = f" EXAMINATION: Chest.\n \n{OWN}"
    texts = {1: f"\n{late}".encode(), 2: f"\n{late}".encode(), 3: GOOD.encode()}
    with pytest.raises(InputError, match="2 of 3 reports have findings or an impression under"):
        run(write_mimic(tmp_path / "a" / "b", texts))
    root = write_mimic(tmp_path / "c" / "d", {1: f"\n{late}".encode(), 2: GOOD.encode()})
    run(root)
    assert "1 of 2 reports have findings or an impression under" in caplog.text


def test_unknown_headings_are_told_and_read_by_their_names(tmp_path, caplog):
    root = tmp_path / "hospital"
    (root / "reports").mkdir(parents=True)
    lines = ["study_id,patient_id"]
    for number in range(4):
        lines.append(f"{number},p{number}")
        text = "Anlass: CHF.\nBefund: No effusion.\nBeurteilung: No edema.\n"
        (root / "reports" / f"{number}.TXT").write_text(text)
    (root / "studies.csv").write_text("\n".join(lines))
    folder = run(root, "hospital")
    assert "4 reports have no heading of findings or impression" in caplog.text
    assert "'Anlass:' (4), 'Befund:' (4), 'Beurteilung:' (4)" in caplog.text
    assert set(table(folder, "sections")["outcome"]) == {"no heading, read whole"}
    caplog.clear()
    names = {"findings": ["Befund"], "impression": ["Beurteilung"], "indication": ["anlass"]}
    folder = run(root, "hospital", sections={"names": names})
    assert set(table(folder, "sections")["findings"]) == {"No effusion."}
    assert set(table(folder, "sections")["indication"]) == {"CHF."}
    assert not caplog.text


def test_addenda_and_other_languages_are_counted(tmp_path: Path) -> None:
    contents: dict[int, bytes | None] = {
        1: GOOD.encode(),
        2: b"\n ADDENDUM: Rib fracture.\n" + GOOD.encode(),
        3: "\n FINDINGS: Kein Pleuraerguss.\n \n IMPRESSION: Unauffällig.\n".encode(),
    }
    folder = run(write_mimic(tmp_path / "mimic", contents))
    labels = table(folder, "labels")
    assert list(labels["study_id"]) == ["59990001", "59990002"]
    assert labels["Fracture"].isna().all()
    corpus = record(folder)
    assert corpus["counts"]["addenda"] == 1
    assert drops(corpus) == {"another language: too few words known": (1, ["59990003"])}
    assert len(table(folder, "sections")) == len(table(folder, "documents")) == 3


@pytest.mark.real
def test_real_open_i_counts(tmp_path: Path) -> None:
    corpus = build_corpus("open_i", str(real("open_i")), tmp_path / "open_i", ReportSettings())
    assert corpus["reports"] == 3955
    assert corpus["outcomes"] == {
        "findings and impression": 3419,
        "impression only": 502,
        "findings only": 6,
        "no usable section": 28,
    }
    assert corpus["counts"]["labelled"] == 3927
    assert [step["dropped"] for step in corpus["steps"]][2] == []


FORMS: dict[str, Callable[[str, str], str]] = {
    "flush left": lambda name, text: f"{name.upper()}: {text}\n",
    "small letters": lambda name, text: f"  {name.title()} :\n{text}\n\n",
    "alone": lambda name, text: f"{name.upper()}\n{text}\n\n",
    "one line": lambda name, text: f"{name.upper()}: {text} ",
}


@pytest.mark.real
@pytest.mark.parametrize("form", FORMS)
def test_real_open_i_in_other_forms_has_the_same_sections(form: str) -> None:
    other = []
    for report in read_texts("open_i", real("open_i")):
        parts = {
            name: " ".join((report.sections or {}).get(name, "").rstrip(" .").split())
            for name in ("indication", "comparison", "findings", "impression")
        }
        text = "".join(FORMS[form](name, part) for name, part in parts.items())
        found = parse_report(text, SectionSettings(headings="any")).sections
        main = ("findings", "impression")
        if any(" ".join(found.get(n, "").split()) != parts[n] for n in main) and any(
            parts[n] for n in main
        ):
            other.append(report.study_id)
    assert len(other) <= 1  # one quotes an examination, its comparison and history in its findings


@pytest.mark.real
def test_real_covid_notes(tmp_path: Path) -> None:
    root = str(real("covid_chestxray"))
    corpus = build_corpus("covid_chestxray", root, tmp_path / "covid", ReportSettings())
    assert corpus["outcomes"] == {"impression only": 133}
    assert drops(corpus)["no clinical notes"][0] == 2
    assert drops(corpus)["modality CT"][0] == 23


def test_every_table_is_closed_where_one_cannot_be(tmp_path: Path) -> None:
    """Arrow would close them after the error has been said, and print why it cannot."""

    def refused() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    tables = _Tables(tmp_path)
    first, *others = tables._writers.values()
    first.close = refused
    with pytest.raises(OSError, match="No space left"), tables:
        pass
    assert not any(writer.is_open for writer in others)
    first.is_open = False  # its file is closed
    opened = [os.readlink(file) for file in Path("/proc/self/fd").iterdir() if file.is_symlink()]
    assert not [file for file in opened if str(tmp_path) in file]
