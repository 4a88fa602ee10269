"""What many unit tests start from: a small synthetic hospital, configurations."""

import shutil
from functools import partial
from pathlib import Path

import pytest
import yaml
from config_overlays import DEMO
from page_fixtures import build, load, write_results
from phantom_fixtures import written

from cxrflow.config import load_config

__all__ = ["written"]


@pytest.fixture(scope="session")
def synthetic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder of the demo's configuration, for the report page; nobody changes it."""
    root = tmp_path_factory.mktemp("synthetic")
    write_results(root, load())
    return root


@pytest.fixture(scope="session")
def pixels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of 60 pictures of benchmark_fakes, which lie beside it; nobody changes it."""
    from benchmark_fakes import make_store

    return make_store(tmp_path_factory.mktemp("pictures"), 60)


@pytest.fixture(scope="session")
def html(synthetic: Path) -> str:
    """The page of that folder."""
    return build(synthetic)


@pytest.fixture
def results(synthetic: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    shutil.copytree(synthetic, tmp_path / "results")
    return tmp_path / "results"


@pytest.fixture(scope="session")
def text_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text model of three layers with its tokenizer; nobody changes it."""
    from small_text import write_text_model

    return write_text_model(tmp_path_factory.mktemp("text"))


@pytest.fixture
def text(text_folder: Path):
    """The model of that folder."""
    from cxrflow.encoders.cxr_bert import load_text_encoder

    return load_text_encoder(text_folder).eval()


@pytest.fixture(scope="session")
def demo():
    """The demo's configuration; nobody changes it."""
    return load_config([DEMO])


@pytest.fixture
def paper(tmp_path):
    """Write a paper's YAML, from its text or its values, and give its path."""

    def write(values, name="mine.yaml"):
        text = values if isinstance(values, str) else yaml.safe_dump(values, sort_keys=False)
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
        return str(tmp_path / name)

    return write


@pytest.fixture
def overlay(tmp_path):
    """Write an overlay and load it over the demo's configuration, or over what lies on that."""

    def load(values, check_roots=True, over=None):
        files = [DEMO]
        for name, laid in (("over.yaml", over), ("overlay.yaml", values)):
            if laid is not None:
                files.append(tmp_path / name)
                files[-1].write_text(yaml.safe_dump(laid), encoding="utf-8")
        return load_config(files, check_roots)

    return load


@pytest.fixture
def unrooted(overlay):
    """The same, where neither data nor weights need to lie where the overlay says."""
    return partial(overlay, check_roots=False)
