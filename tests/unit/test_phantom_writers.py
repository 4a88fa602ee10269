"""Every data set of the synthetic hospital is written repeatably, to the byte, and finished."""

import json
from pathlib import Path

import pytest
from phantom_fixtures import SETTINGS, digests

from cxrflow.errors import InputError
from cxrflow.phantom.__main__ import WRITERS, main, writer
from cxrflow.phantom.settings import OF, HospitalSettings
from cxrflow.phantom.writers import folder

LARGER = {
    "ms_cxr_patient_share": 0.9,
    "rsna_images": 30,
    "rsna_opacity_share": 0.2,
    "rsna_not_normal_share": 0.4,
    "abstracts": 300,
    "mednli_pairs": 1500,
    "generic_pictures": 40,
    "radnli_pairs": 260,
    "notes": 220,
    "splitter_reports": 15,
    "covidx_shortcut": True,
}


@pytest.mark.parametrize("name", WRITERS)
def test_bytes_do_not_depend_on_processes_nor_on_what_other_data_sets_are_told(
    name: str, written: Path, tmp_path: Path
) -> None:
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
        patched.setattr("cxrflow.phantom.writers.mimic_cxr.write_zip", killed)
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
    arguments = ["--dataset", "mimic_iii", "--output", str(tmp_path / "out"), "--threads", "1"]
    main([*arguments, "--settings", SETTINGS.model_dump_json()])
    assert digests(tmp_path / "out") == digests(written / "mimic_iii")
    with pytest.raises(SystemExit):
        main(["--dataset", "rsna", "--output", str(tmp_path / "x"), "--jpg"])
    with pytest.raises(InputError, match="unknown key 'patiens'"):
        main([*arguments, "--settings", '{"patiens": 3}'])


def test_equal_data_are_equal_bytes(tmp_path: Path) -> None:
    folder.write_gzip(tmp_path / "a.gz", b"text")
    folder.write_gzip(tmp_path / "b.gz", b"text")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    folder.write_table(tmp_path / "t.csv", ("a", "b"), [(1, None), ("x,y", 2.0)])
    assert (tmp_path / "t.csv").read_text() == 'a,b\n1,\n"x,y",2.0\n'
