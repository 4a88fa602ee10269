"""The tiny hospital of the bad-input tests: made once, copied for each test that damages it."""

import shutil
from pathlib import Path

import pytest
from tiny_hospital import Stages, build
from toy_programs import write_inputs


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Stages:
    """The whole hospital and all results, undamaged; nobody writes into it."""
    return build(tmp_path_factory.mktemp("hospital"))


@pytest.fixture
def stages(finished: Stages, tmp_path: Path) -> Stages:
    """A copy of hospital and results that a test may damage."""
    shutil.copytree(finished.root.parent, tmp_path / "copy", copy_function=shutil.copy2)
    return Stages(tmp_path / "copy" / "data", tmp_path / "copy" / "results")


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the toy trainings read; nobody writes into it."""
    folder = tmp_path_factory.mktemp("inputs")
    write_inputs(folder)
    return folder
