"""The block ``reports.entities`` of the configuration: defaults, what programs get, its folder."""

from pathlib import Path

import pytest
import yaml

from cxrflow.config import load_config
from cxrflow.errors import InputError
from cxrflow.reports.entities.settings import EntitySettings, EntityTaggerSettings
from cxrflow.source_files import PACKAGE

DEMO = PACKAGE.parents[1] / "config.yaml"


def overlay(tmp_path: Path, entities: dict) -> list[Path]:
    mine = tmp_path / "mine.yaml"
    mine.write_text(yaml.safe_dump({"reports": {"entities": entities}}))
    return [DEMO, mine]


def test_programs_get_their_own_part() -> None:
    reports = load_config([DEMO]).reports
    assert "entities" not in reports.settings()  # the corpus does not depend on them
    assert EntitySettings.model_validate(reports.entities.settings()) == EntitySettings()
    assert reports.entities.stanza_folder is None
    assert reports.entities.training == EntityTaggerSettings()


def test_the_folder_must_be_there(tmp_path: Path) -> None:
    files = overlay(tmp_path, {"stanza_folder": str(tmp_path / "models")})
    message = r"mine.yaml: key 'reports.entities.stanza_folder' is .*no such folder"
    with pytest.raises(InputError, match=message):
        load_config(files)
    (tmp_path / "models").mkdir()
    assert load_config(files).reports.entities.stanza_folder == str(tmp_path / "models")


def test_unknown_keys_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown key 'reports.entities.training.step'"):
        load_config(overlay(tmp_path, {"training": {"step": 3}}))
