"""List files: each layout names those that its readers open, so that an edit reruns who read it."""

import os
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import get_args
from unittest.mock import patch

import pytest
from data_fixtures import covid_chestxray, open_i_report, read, write_csv
from phantom_fixtures import SETTINGS

from cxr_files.csv_table import find_file
from cxr_files.reading import require_regular
from cxr_hospital.draw import writer
from cxrflow.config.datasets import Datasets
from cxrflow.config.parts import Dataset
from cxrflow.data.layouts import LAYOUTS, Layout, Part, Use, layout
from cxrflow.data.readers.common_tables import Request
from cxrflow.data.readers.mimic_iv import read_patients
from cxrflow.reports.texts import list_reports, open_reader
from cxrflow.text.documents import DocumentWriter
from cxrflow.text.settings import CorpusSettings

# An image or a text is one of thousands, known by a list or by its folder.
ITEMS = (".dcm", ".dicom", ".jpeg", ".jpg", ".png", ".xml", ".xml.gz")
LISTED = [(name, use) for name in LAYOUTS for use in get_args(Use) if layout(name).lists.get(use)]

_opened: list[str] = []
_hooked: list[bool] = []


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and isinstance(arguments[0], str | os.PathLike):
        _opened.append(os.fspath(arguments[0]))


def _opened_by_arrow(path: str | os.PathLike[str]) -> Path:
    """Python does not see it open a file."""
    _opened.append(os.fspath(path))
    return require_regular(path)


@contextmanager
def opened_below(root: Path) -> Iterator[set[Path]]:
    """The files below ``root`` that are opened meanwhile, items left out."""
    if not _hooked:  # none can be taken off again
        sys.addaudithook(_hook)
        _hooked.append(True)
    _opened.clear()
    files: set[Path] = set()
    with patch("cxr_files.parquet.require_regular", _opened_by_arrow):
        yield files
    paths = {Path(name).resolve() for name in _opened if not os.path.isdir(name)}
    files |= {path for path in paths if path.is_relative_to(root.resolve())}
    files -= {path for path in files if path.name.lower().endswith(ITEMS)}


def read_reports(one: Layout, root: Path) -> None:
    list_reports(one.name, root)
    open_reader(one.name, root)


def read_documents(one: Layout, root: Path) -> None:
    with DocumentWriter(root.with_name(f"{one.name}.parquet")) as writer:
        one.reader("documents")(root, CorpusSettings(), writer)


READERS: dict[Use, tuple[Callable[[Layout, Path], object], tuple[Use, ...]]] = {
    "tables": (lambda one, root: one.read(root, Request()), ("tables",)),
    "labels": (lambda one, root: one.read(root, Request(labels=True)), ("tables", "labels")),
    "published": (
        lambda one, root: one.reader("published")(root, Request()),
        ("tables", "published"),
    ),
    "reports": (read_reports, ("reports",)),
    "documents": (read_documents, ("documents",)),
    "demographics": (lambda one, root: read_patients(root), ("demographics",)),
}


@pytest.fixture(scope="session")
def roots(written: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder in each layout with every list: drawn ones, of others the smallest that is read."""
    folder = tmp_path_factory.mktemp("others")
    open_i = folder / "open_i"
    write_csv(open_i / "indiana_projections.csv", ("filename", "projection"), [])
    report = folder / "1.xml"
    report.write_text(open_i_report(1, "Clear.", "Normal.", ["CXR1_1"]))
    with tarfile.open(open_i / "NLMCXR_reports.tgz", "w:gz") as archive:
        archive.add(report, "ecgen-radiology/1.xml")
    vindr = folder / "vindr_cxr"
    for number, part in enumerate(("train", "test")):
        header = ("image_id", *layout("vindr_cxr").classes)
        row = [(f"image{number}", *[0] * (len(header) - 1))]
        write_csv(vindr / f"annotations/image_labels_{part}.csv", header, row)
        sides = ("image_id", "class_name", "x_min", "y_min", "x_max", "y_max")
        write_csv(vindr / f"annotations/annotations_{part}.csv", sides, [])
    mapped = SETTINGS.model_copy(update={"rsna_mapping": True})
    assert writer("rsna")(mapped, folder / "rsna", 1)
    others = {
        **dict.fromkeys(
            ("chextemporal_mimic", "chextemporal_rexgradient"), written / "chextemporal_chexpert"
        ),
        "padchest_gr_spanish": written / "padchest_gr",
        "covid_chestxray": covid_chestxray(folder / "covid_chestxray"),
        "hospital": written / "captioned_pictures",
        "open_i": open_i,
        "rsna": folder / "rsna",
        "vindr_cxr": vindr,
    }
    return {name: others.get(name, written / name) for name in LAYOUTS}


@pytest.mark.parametrize(("name", "use"), LISTED)
def test_a_reader_opens_the_lists_that_its_layout_names(name, use, roots):
    one, root = layout(name), roots[name]
    reader, uses = READERS[use]
    with opened_below(root) as opened:
        reader(one, root)
    assert opened == {file.resolve() for file in one.list_files(root, *uses)}
    absent = [key for key, names in one.lists[use].items() if find_file(root, *names) is None]
    assert not absent


def test_every_reader_s_lists_are_named() -> None:
    """But for PubMed, whose thousand files are all there is."""
    for name in LAYOUTS:
        parts = {part for part in get_args(Part) if getattr(layout(name), part)}
        assert name == "pubmed" or parts <= {*layout(name).lists}


def test_of_the_names_of_a_list_the_first_that_is_there_is_an_input(tmp_path: Path) -> None:
    def files() -> list[str]:
        return [path.name for path in layout("nih").list_files(tmp_path, "tables")]

    assert files() == []  # the reader says what is missing
    (tmp_path / "Data_Entry_2017.csv.gz").touch()
    (tmp_path / "test_list.txt").touch()
    assert files() == ["Data_Entry_2017.csv.gz", "test_list.txt"]
    (tmp_path / "Data_Entry_2017_v2020.csv").touch()
    assert files() == ["Data_Entry_2017_v2020.csv", "test_list.txt"]
    assert layout("nih").list_files(tmp_path / "test_list.txt", "tables") == []


def test_a_root_inside_the_release_has_its_lists_above(roots: dict[str, Path]) -> None:
    root = roots["mimic_cxr"] / "files"
    with opened_below(root.parent) as opened:
        read("mimic_cxr", root)
    files = layout("mimic_cxr").list_files(root, "tables")
    assert opened == {file.resolve() for file in files} and len(files) == 2


def test_a_drawn_data_set_is_known_by_its_manifest(roots: dict[str, Path]) -> None:
    real = Dataset(layout="mura", root=str(roots["mura"]))
    data = Datasets({"mura": real, "rsna": Dataset(synthetic=True)}, SETTINGS)
    assert len(data.list_files("mura", "tables")) == 4
    assert data.list_files("rsna", "tables") == []
