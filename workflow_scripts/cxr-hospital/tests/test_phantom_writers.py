"""Data sets are written repeatably, to the byte, and finished; texts in published layouts."""

import gzip
import hashlib
import json
import re
import xml.etree.ElementTree as ElementTree
from datetime import datetime
from pathlib import Path

import pandas as pd
import pytest
from phantom_fixtures import SETTINGS, digests

from cxr_files.errors import InputError
from cxr_hospital.draw import WRITERS, main, writer
from cxr_hospital.settings import OF, HospitalSettings
from cxr_hospital.writers import folder
from cxr_hospital.writers.stanza_text import label_sentence

LARGER = {
    "ms_cxr_patient_share": 0.9,
    "rsna_images": 30,
    "rsna_opacity_share": 0.2,
    "rsna_not_normal_share": 0.4,
    "abstracts": 300,
    "mednli_pairs": 1500,
    "generic_pictures": 40,
    "captioned_pictures": 20,
    "nih_patients": 15,
    "padchest_patients": 20,
    "rsna_mapping": True,
    "radnli_pairs": 260,
    "notes": 220,
    "splitter_reports": 15,
    "covidx_shortcut": True,
    "finding_truth": True,
    "chexpert_test_patients": 9,
}


@pytest.mark.parametrize("name", WRITERS)
def test_bytes_depend_on_nothing_of_other_data_sets_nor_on_processes(name, written, tmp_path):
    fields = SETTINGS.model_dump(include=HospitalSettings.fields_of(name))
    changes = {setting: LARGER[setting] for setting in OF if name not in OF[setting]}
    writer(name)(HospitalSettings.model_validate({**fields, **changes}), tmp_path / name, 2)
    ours, expected = digests(tmp_path / name), digests(written / name)
    if changes:  # the manifest says what the whole hospital was
        assert ours.pop("MANIFEST.json") != expected.pop("MANIFEST.json")
    assert ours == expected


def test_every_setting_that_is_of_some_data_sets_is_known_and_of_them() -> None:
    assert set(OF) == set(LARGER) < set(HospitalSettings.model_fields)
    for setting, datasets in OF.items():
        assert [name for name in WRITERS if setting in HospitalSettings.fields_of(name)] == [
            name for name in WRITERS if name in datasets
        ]


@pytest.mark.parametrize("name", WRITERS)
def test_manifest(name: str, written: Path) -> None:
    manifest = json.loads((written / name / "MANIFEST.json").read_text())
    assert manifest["dataset"] == name
    assert manifest["synthetic"] is True
    assert manifest["settings"]["seed"] == SETTINGS.seed
    assert all(isinstance(count, int) for count in manifest["counts"].values())
    assert writer(name)(SETTINGS, written / name, 1) is False


def test_other_settings_replace_the_folder(tmp_path: Path) -> None:
    write = writer("pubmed")
    write(SETTINGS.model_copy(update={"abstracts": 1200}), tmp_path / "pubmed", 1)
    assert (tmp_path / "pubmed" / "pubmed26n0003.xml.gz").is_file()
    assert write(SETTINGS, tmp_path / "pubmed", 1)
    assert not (tmp_path / "pubmed" / "pubmed26n0003.xml.gz").exists()


def test_half_written_folder_is_finished(written, tmp_path, monkeypatch):
    output = tmp_path / "mimic_cxr"

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("cxr_hospital.writers.mimic_cxr.write_zip", killed)
        with pytest.raises(KeyboardInterrupt):
            writer("mimic_cxr")(SETTINGS, output, 1)
    assert (output / "files").is_dir() and not (output / "MANIFEST.json").exists()
    assert writer("mimic_cxr")(SETTINGS, output, 1)
    assert digests(output) == digests(written / "mimic_cxr")


def test_a_folder_of_someone_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="no earlier run wrote"):
        writer("pubmed")(SETTINGS, tmp_path, 1)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_command_line(tmp_path: Path, written: Path) -> None:
    def draw(folder: str, layout: str, *words: str, **settings: object) -> None:
        main(
            [str(tmp_path / folder), "--layout", layout, "--settings", json.dumps(settings), *words]
        )

    draw("out", "mimic_iii", "--threads", "1", **SETTINGS.model_dump(mode="json"))
    assert digests(tmp_path / "out") == digests(written / "mimic_iii")
    with pytest.raises(SystemExit):
        draw("x", "rsna", "--jpg")
    with pytest.raises(InputError, match="unknown key 'patiens'"):
        draw("out", "mimic_iii", patiens=3)


def test_options_are_settings(tmp_path: Path) -> None:
    main([str(tmp_path / "a"), *["--layout", "mimic_iv", "--patients", "3", "--seed", "7"]])
    settings = '{"patients": 3, "seed": 7}'
    main([str(tmp_path / "b"), "--layout", "mimic_iv", "--settings", settings])
    assert digests(tmp_path / "a") == digests(tmp_path / "b")
    main([str(tmp_path / "c"), *["--layout", "mimic_iv", "--patients", "3", "--seed", "8"]])
    assert digests(tmp_path / "a") != digests(tmp_path / "c")


def test_equal_data_are_equal_bytes(tmp_path: Path) -> None:
    folder.write_gzip(tmp_path / "a.gz", b"text")
    folder.write_gzip(tmp_path / "b.gz", b"text")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    folder.write_table(tmp_path / "t.csv", ("a", "b"), [(1, None), ("x,y", 2.0)])
    assert (tmp_path / "t.csv").read_text() == 'a,b\n1,\n"x,y",2.0\n'


def _records(path: Path) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(gzip.decompress(path.read_bytes())))


def test_pubmed(written: Path) -> None:
    base = written / "pubmed"
    files = sorted(base.glob("pubmed26n*.xml.gz"))
    for path in files:
        checksum = Path(f"{path}.md5").read_text()
        digest = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
        assert checksum == f"MD5({path.name})= {digest}\n"
    first, update = _records(files[0]), _records(files[-1])
    pmids = [record.findtext("MedlineCitation/PMID") for record in first]
    assert len(set(pmids)) == len(pmids) == SETTINGS.abstracts
    deleted = [pmid.text for record in update if record.tag == "DeleteCitation" for pmid in record]
    revised = [record.findtext("MedlineCitation/PMID") for record in update[:-1]]
    assert deleted and set(deleted) <= set(pmids)
    assert revised and set(revised) <= set(pmids) and not set(revised) & set(deleted)
    articles = [record.find("MedlineCitation/Article") for record in first]
    texts = [article.findall("Abstract/AbstractText") for article in articles]
    assert any(not parts for parts in texts)
    assert any(len(parts) > 1 and parts[0].get("Label") == "BACKGROUND" for parts in texts)
    assert any(part.find("sub") is not None for parts in texts for part in parts)
    languages = {article.findtext("Language") for article in articles}
    assert "eng" in languages and len(languages) > 1
    words = {
        word
        for parts in texts
        for part in parts
        for word in re.findall("[a-z]+", "".join(part.itertext()).lower())
    }
    assert len(words) > 1500


def test_mimic_iii(written: Path) -> None:
    path = written / "mimic_iii" / "NOTEEVENTS.csv.gz"
    notes = pd.read_csv(path, dtype={"ISERROR": str})
    assert list(notes) == [
        *("ROW_ID", "SUBJECT_ID", "HADM_ID", "CHARTDATE", "CHARTTIME", "STORETIME"),
        *("CATEGORY", "DESCRIPTION", "CGID", "ISERROR", "TEXT"),
    ]
    assert len(notes) == SETTINGS.notes and notes.TEXT.notna().all()
    assert notes.TEXT.str.contains("\n").mean() > 0.5
    assert notes.TEXT.str.contains('"').any()
    assert notes.TEXT.str.contains(r"\[\*\*").any()
    assert (notes.CATEGORY == "Physician ").any()
    assert set(notes.ISERROR.dropna()) == {"1"}
    summaries = notes[notes.CATEGORY == "Discharge summary"]
    assert summaries.CHARTTIME.isna().all()
    datetime.fromisoformat(notes.CHARTDATE[0])
    raw = gzip.decompress(path.read_bytes()).decode()
    assert '""' in raw and raw.startswith('"ROW_ID","SUBJECT_ID"')


def test_sentence_labels() -> None:
    text = "1. No 2.5 cm mass, per Dr. ___."
    labels = label_sentence(text)
    ends = [i for i, digit in enumerate(labels) if digit != "0"]
    starts = [0, *(end + 1 for end in ends)]
    tokens = [text[a : b + 1].strip() for a, b in zip(starts, ends, strict=False)]
    assert tokens == ["1.", "No", "2.5", "cm", "mass", ",", "per", "Dr.", "___", "."]
    assert labels[-1] == "2" and labels.count("2") == 1


def test_stanza_text_is_aligned(written: Path) -> None:
    base = written / "stanza_text"
    for part in ("train", "dev"):
        text = (base / f"{part}.txt").read_text()
        labels = (base / f"{part}.toklabels").read_text()
        assert len(text) == len(labels)
        assert set(labels) <= set("012\n")
        assert [i for i, c in enumerate(text) if c == "\n"] == [
            i for i, c in enumerate(labels) if c == "\n"
        ]
        sentences = sum(labels.count(digit) for digit in "2")
        counts = json.loads((base / "MANIFEST.json").read_text())["counts"]
        assert sentences == counts[f"{part}_sentences"] > 5
    assert "___" in (base / "train.txt").read_text()
