"""The small synthetic hospital that the tests of its writers look at: written once."""

from pathlib import Path

import pytest
from phantom_fixtures import SETTINGS

from cxrflow.phantom.__main__ import WRITERS


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every data set; nobody changes it."""
    made = tmp_path_factory.mktemp("hospital")
    for name, write in WRITERS.items():
        assert write(SETTINGS, made / name, 1)
    return made
