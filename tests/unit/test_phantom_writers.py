"""Every data set of the synthetic hospital is written repeatably, to the byte, and finished."""

import json
from pathlib import Path

import pytest
from phantom_fixtures import SETTINGS, digests

from cxrflow.errors import InputError
from cxrflow.phantom.__main__ import WRITERS, main, writer
from cxrflow.phantom.writers import folder


@pytest.mark.parametrize("name", WRITERS)
def test_bytes_do_not_depend_on_the_number_of_processes(
    name: str, written: Path, tmp_path: Path
) -> None:
    writer(name)(SETTINGS, tmp_path / name, 2)
    assert digests(tmp_path / name) == digests(written / name)


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


def test_half_written_folder_is_finished(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "mimic_cxr"

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("cxrflow.phantom.writers.mimic_cxr._zip_reports", killed)
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
    given = ["--dataset", "mimic_iii", "--output", str(tmp_path / "out"), "--threads", "1"]
    main([*given, "--settings", SETTINGS.model_dump_json()])
    assert digests(tmp_path / "out") == digests(written / "mimic_iii")
    with pytest.raises(SystemExit):
        main(["--dataset", "rsna", "--output", str(tmp_path / "x"), "--jpg"])
    with pytest.raises(InputError, match="unknown key 'patiens'"):
        main([*given, "--settings", '{"patiens": 3}'])


def test_equal_data_are_equal_bytes(tmp_path: Path) -> None:
    folder.write_gzip(tmp_path / "a.gz", b"text")
    folder.write_gzip(tmp_path / "b.gz", b"text")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    folder.write_table(tmp_path / "t.csv", ("a", "b"), [(1, None), ("x,y", 2.0)])
    assert (tmp_path / "t.csv").read_text() == 'a,b\n1,\n"x,y",2.0\n'
