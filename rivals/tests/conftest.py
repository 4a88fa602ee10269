"""Where Python looks for the rivals, and what their tests share."""

import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
sys.path[:0] = [str(folder) for folder in (TOP, TOP / "tests", TOP / "tests/unit")]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small text model."""
    from small_text import write_text_model

    return write_text_model(tmp_path_factory.mktemp("reader"))
