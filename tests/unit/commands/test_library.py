"""The package as a library: its extras, each installed alone, its public names, their examples."""

import ast
import doctest
import os
import pydoc
import re
import rlcompleter
import shutil
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import cxrflow
import user_script
from command_options import run_to_end
from cxr_files.errors import InputError
from cxr_files.extras import lacking
from cxr_files.program import refusal
from cxr_labels.settings import ReportSettings
from cxrflow import losses, metrics
from cxrflow.programs.public_names import public_name
from cxrflow.programs.source_code import PACKAGE, PACKAGES

TOP = PACKAGE.parents[1]
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))["project"]
IMPORT = re.compile(
    r"^ *(?:from (\w+)[\w.]* import |import (\w+)[\w.]*(?: as \w+)?$)", re.MULTILINE
)
SUBSETS = (None, "models", "workflow")


@cache
def required(extra: str | None) -> set[str]:
    """The distributions that an extra of ours brings, those of the plain package included."""
    ours = PROJECT["optional-dependencies"]
    waiting = [(text, "") for text in (*PROJECT["dependencies"], *(ours[extra] if extra else ()))]
    brought: set[tuple[str, str]] = set()
    while waiting:
        text, wanted = waiting.pop()
        requirement = Requirement(text)
        if requirement.marker and not requirement.marker.evaluate({"extra": wanted}):
            continue
        name = canonicalize_name(requirement.name)
        for inner in ("", *requirement.extras):
            if name == "cxrflow":
                waiting += [(text, "") for text in ours[inner]] if inner else []
            elif (name, inner) not in brought:
                brought.add((name, inner))
                waiting += [(text, inner) for text in metadata.requires(name) or ()]
    return {name for name, _ in brought}


def top_levels(names: set[str]) -> set[str]:
    """What these distributions put into site-packages."""
    files = (file.parts[0] for name in names for file in metadata.files(name) or ())
    return {name for name in files if name not in ("..", "__pycache__")}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheels of all our packages as pip unpacks them, without their dependencies."""
    source, wheels, target = (tmp_path_factory.mktemp(name) for name in ("source", "whl", "site"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(TOP / name, source)
    skipped = shutil.ignore_patterns("__pycache__", "*.egg-info")
    scripts = source / PACKAGE.parent.name
    shutil.copytree(PACKAGE.parent, scripts, ignore=skipped)
    for folder in (source, *scripts.glob("cxr-*")):
        # In a process of its own: setuptools remembers the folder that it has built.
        code = f"from setuptools import build_meta as b; b.build_wheel({str(wheels)!r})"
        done = run_to_end([sys.executable, "-c", code], cwd=folder)
        assert done.returncode == 0, done.stderr
    for path in wheels.glob("*.whl"):
        with zipfile.ZipFile(path) as wheel:
            wheel.extractall(target)
    return target


# What each subset does, in a Python that sees nothing else.
PLAIN = """
import sys
import cxrflow
assert not {"numpy", "pandas", "pydantic"} & set(sys.modules)
from cxrflow import metrics
from cxrflow.__main__ import main

CONFIG = sys.argv[1]

def command(*words):
    sys.argv = ["cxrflow", *words]
    try:
        main()
    except SystemExit as end:
        return end.code
    return 0

with open("reports.csv", "w") as file:
    file.write("report\\nSmall left effusion.\\nNo pneumothorax.\\n")
assert command("label", "--input", "reports.csv", "--output", "labels.csv") == 0
assert cxrflow.label(["Small left effusion."])["Pleural Effusion"].tolist() == [1.0]
assert len([getattr(metrics, name) for name in metrics.__all__]) > 20
import pydoc
assert {"label", "metrics"} <= set(dir(cxrflow)) and "load" not in dir(cxrflow)
assert "label(texts" in pydoc.render_doc(cxrflow)
for lacking in ("load", "losses.nt_xent"):
    try:
        eval(f"cxrflow.{lacking}")
    except ModuleNotFoundError as error:
        assert "the extra 'models' of cxrflow brings it: pip install '.[models]'" in str(error)
    else:
        raise AssertionError(lacking)
assert command("ground", "--model", "m", "--image", "i.png", "--phrase", "Edema") == 2
assert command("config", "check", "--configfile", CONFIG) == 0
assert command("config", "check") == 2
assert command("targets") == 2
assert not {"torch", "snakemake"} & set(sys.modules)
"""
MODELS = """
import sys
import numpy as np, torch
import cxrflow
from cxrflow import losses
from cxrflow.commands.export import export
from cxrflow.encoders.image_encoder import ImageEncoder, save_image_encoder
from cxrflow.encoders.settings import ResNetSettings
from cxr_files.atomic import write_json
from pathlib import Path
import cxrflow.benchmarks.grounding.one_image, cxrflow.images.store

folder = Path("model")
settings = ResNetSettings(block="basic", layers=(1, 1, 1, 1), width=8, projection=4)
save_image_encoder(ImageEncoder(settings), folder)
write_json(folder / "run.json", {"data": {"geometry": "square32"}})
model = cxrflow.load(folder)
image = np.arange(1200, dtype=np.uint8).reshape(40, 30)
assert model.encode_image(image).projected_global.shape == (1, 4)
export(folder, Path("exported"))
assert cxrflow.load("exported").image_features(torch.zeros(1, 1, 32, 32)).ndim == 2
assert losses.nt_xent(torch.eye(2), torch.eye(2)).isfinite()
assert not {"snakemake", "sklearn", "stanza", "SimpleITK", "jinja2"} & set(sys.modules)
"""


# The labeller alone, in a Python that sees neither numpy nor pandas.
LABELLER = """
import sys
from cxr_labels import label, label_rows
from cxr_labels.command import command

def label_command(*words):
    sys.argv = ["cxr-labels", "--input", "reports.csv", *words]
    try:
        command()
    except SystemExit as end:
        return end.code
    return 0

with open("reports.csv", "w") as file:
    file.write("accession,report\\nA7,Small left effusion.\\n=A8,No effusion.\\n")
assert label_command("--output", "labels.csv") == 0
print(open("labels.csv").read())
assert label_command("--output", "labels.parquet") == 2
assert [row["Pleural Effusion"] for row in label_rows(["Left effusion.", "Edema."])] == [1.0, None]
try:
    label(["Edema."])
except ModuleNotFoundError as error:
    assert "the extra 'tables' of cxr-labels brings it: pip install '.[tables]'" in str(error)
else:
    raise AssertionError("label")
assert not {"numpy", "pandas", "pyarrow", "torch"} & set(sys.modules)
"""


def size_of(path: Path) -> int:
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)


def test_the_labeller_alone_is_small(installed: Path, tmp_path: Path) -> None:
    """What `pip install` of cxr-files and cxr-labels brings: at most 80 MB, and it labels."""
    waiting = ["cxr-labels"]
    brought: dict[str, list[Path]] = {}
    while waiting:
        name = canonicalize_name(Requirement(waiting.pop()).name)
        if name in brought:
            continue
        ours = next(iter(metadata.distributions(name=name, path=[str(installed)])), None)
        package = ours or metadata.distribution(name)
        tops = {file.parts[0] for file in package.files or () if file.parts[0] not in ("..",)}
        brought[name] = [Path(str(package.locate_file(top))) for top in tops - {"__pycache__"}]
        waiting += [
            text
            for text in package.requires or ()
            if (marker := Requirement(text).marker) is None or marker.evaluate({"extra": ""})
        ]
    assert not {"numpy", "pandas", "pyarrow", "scipy"} & set(brought)
    links = tmp_path / "site-packages"
    links.mkdir()
    for path in {path for paths in brought.values() for path in paths}:
        (links / path.name).symlink_to(path)
    assert sum(size_of(path) for paths in brought.values() for path in paths) < 80e6
    environment = {**os.environ, "PYTHONPATH": str(links)}
    done = run_to_end([sys.executable, "-S", "-c", LABELLER], cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    header, first, second, *_ = done.stdout.splitlines()
    assert header.startswith("row,accession,No Finding") and first.startswith("0,A7,")
    assert second.startswith("1,'=A8,")
    assert "the extra 'tables' of cxr-labels brings it" in done.stderr


@pytest.mark.parametrize(("extra", "code"), [(None, PLAIN), ("models", MODELS)])
def test_a_subset_installed_alone_does_what_it_says(
    extra: str | None, code: str, installed: Path, tmp_path: Path
) -> None:
    links = tmp_path / "site-packages"
    links.mkdir()
    site = Path(metadata.distribution("numpy").locate_file(""))
    for name in top_levels(required(extra)):
        (links / name).symlink_to(site / name)
    path = os.pathsep.join(map(str, (installed, links)))
    environment = {**os.environ, "PYTHONPATH": path}
    done = run_to_end(
        [sys.executable, "-S", "-c", code, TOP / "config.yaml"], cwd=tmp_path, env=environment
    )
    assert done.returncode == 0, done.stderr
    if extra is None:
        assert "is not installed; the extra 'models' of cxrflow brings it: pip" in done.stderr
        assert done.stderr.count("call it in a checkout of cxrflow") == 2


def test_the_wheel_holds_types_and_data_and_no_tests(installed: Path) -> None:
    """And what it says of itself: the extras, ranges, no torch without one."""
    assert (installed / "cxrflow/py.typed").is_file()
    for name, folder in PACKAGES.items():
        data = {path.relative_to(folder) for path in folder.rglob("*.yaml")}
        package = installed / name
        assert data == {path.relative_to(package) for path in package.rglob("*.yaml")}
    (said,) = installed.glob("cxrflow-*.dist-info/METADATA")
    lines = said.read_text("utf-8").splitlines()
    assert {f"Provides-Extra: {name}" for name in SUBSETS if name} <= set(lines)
    (torch_line,) = (line for line in lines if line.startswith("Requires-Dist: torch"))
    assert "==" not in torch_line.partition(";")[0] and 'extra == "models"' in torch_line
    assert not list(installed.glob("test*"))


def test_extras_grow_and_make_installs_all() -> None:
    brought = [required(name) for name in SUBSETS]
    for smaller, larger in zip(brought, brought[1:], strict=False):
        assert smaller < larger
    assert "cxrflow[workflow]" in PROJECT["optional-dependencies"]["dev"]
    assert "'.[dev]'" in (TOP / "Makefile").read_text("utf-8")


def test_a_missing_library_is_named_with_the_extra_that_brings_it() -> None:
    """All libraries of the package, those of the plain one aside."""
    brought = {
        name: {top.removesuffix(".py") for top in top_levels(required(name))} for name in SUBSETS
    }
    texts = (
        path.read_text("utf-8") for folder in PACKAGES.values() for path in folder.rglob("*.py")
    )
    imported = {name for text in texts for names in IMPORT.findall(text) for name in names if name}
    outside = imported - {*sys.stdlib_module_names, *PACKAGES, "_typeshed"}
    assert outside <= brought["workflow"] | {"yaml"}
    for library in outside - brought[None] - {"yaml"}:
        line = lacking(ModuleNotFoundError(name=library))
        extra = re.search(r"the extra '(\w+)' of cxrflow brings it", line or "")
        assert extra is not None and library in brought[extra[1]], library
    for error in (
        ModuleNotFoundError(name="torch.nn"),
        ModuleNotFoundError(name="cxrflow.nowhere"),
    ):
        assert refusal(error) == lacking(error)
    assert lacking(ModuleNotFoundError(name="cxrflow.nowhere")) is None


PUBLIC = [(package, name) for package in (cxrflow, metrics, losses) for name in package.__all__]


def of_type_checkers(package: Path) -> Iterator[str]:
    """Names that a type checker sees."""
    for node in ast.parse((package / "__init__.py").read_text("utf-8")).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for statement in ast.walk(node):
                if isinstance(statement, ast.ImportFrom):
                    yield from (alias.name for alias in statement.names)


def test_public_names_are_those_of_type_checkers() -> None:
    for package in (cxrflow, metrics, losses):
        assert package.__file__ is not None
        folder = Path(package.__file__).parent
        names = set(package.__all__) - {"__version__"}
        assert names == set(of_type_checkers(folder)), package
        # A module of that name would take the function's place once it is imported.
        modules = {path.stem for path in folder.iterdir()} - {"metrics", "losses"}
        assert not names & modules
        assert list(package.__all__) == sorted(package.__all__)
    with pytest.raises(AttributeError, match="module 'cxrflow' has no attribute 'nothing'"):
        public_name("cxrflow", "nothing")


@pytest.mark.parametrize(
    ("package", "name"), PUBLIC, ids=lambda value: getattr(value, "__name__", value)
)
def test_each_public_name_has_an_example_that_runs(package: object, name: str) -> None:
    thing = getattr(package, name)
    if name in ("__version__", "InputError", "losses", "metrics"):
        return
    tests = [test for test in doctest.DocTestFinder(recurse=False).find(thing, name, globs={})]
    assert sum(len(test.examples) for test in tests) > 1, f"{name}: no example"
    for test in tests:
        assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


def test_labels_are_those_of_the_command_and_say_why_there_are_none() -> None:
    table = cxrflow.label(
        iter(["Cardiomegaly.", "  ", "Kein Pleuraerguss und keine Stauung der Lunge."])
    )
    assert table["outcome"].tolist()[:2] == ["labelled", "empty"]
    assert table["outcome"][2] != "labelled" and table.iloc[2, :14].isna().all()
    assert table["Cardiomegaly"][0] == 1.0 and table.shape == (3, 16)
    assert cxrflow.label([]).shape == (0, 16)
    one = cxrflow.label(["Edema."] * 3, ReportSettings(chunk=2))
    assert one["Edema"].tolist() == [1.0] * 3
    for wrong, message in (
        ("Edema.", "texts is one text of 6 characters;"),
        (["Edema.", None], r"texts\[1\] is of type NoneType;"),
        ([["Edema.", "No edema."]], r"texts\[0\] is of type list;"),
        ([np.array(["Edema."])], r"texts\[0\] is of type ndarray;"),
    ):
        with pytest.raises(InputError, match=message) as raised:
            cxrflow.label(wrong)  # type: ignore[arg-type]
        assert "dema" not in str(raised.value)


def test_labels_of_a_series_join_to_their_own_rows() -> None:
    reports = pd.DataFrame({"text": ["Edema.", "No edema."]}, index=["p9", "p4"])
    joined = reports.join(cxrflow.label(reports["text"]))
    assert joined["Edema"].to_dict() == {"p9": 1.0, "p4": 0.0}
    part = cxrflow.label(pd.Series(["Edema.", "No edema.", "Edema."])[lambda s: s != "Edema."])
    assert part.index.tolist() == [1] and part["Edema"].tolist() == [0.0]
    for wrong in (reports, {"text": "Edema."}):
        with pytest.raises(InputError, match="expected a list or a Series of texts"):
            cxrflow.label(wrong)  # type: ignore[arg-type]


def test_dir_help_and_tab_show_the_public_names() -> None:
    for package in (cxrflow, metrics, losses):
        assert set(package.__all__) <= set(dir(package))
    completer = rlcompleter.Completer({"cxrflow": cxrflow})
    assert {"cxrflow.label(", "cxrflow.load(", "cxrflow.PixelStore("} <= set(
        completer.attr_matches("cxrflow.")
    )
    text = pydoc.plain(pydoc.render_doc(cxrflow))
    assert all(re.search(rf"^ +{name}\b.*  \w", text, re.M) for name in cxrflow.__all__[:2])
    assert "label(texts" in text and "load(path" in text and "docs/library.md" in text


def test_a_device_that_is_not_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for device, said in (
        ("cuda", "'device' is 'cuda', but torch sees no GPU; expected cpu"),
        ("cuda:3", "'device' is 'cuda:3', but torch sees no GPU"),
        ("gpu", "'device' is 'gpu'; expected cpu, cuda or cuda:<n>"),
    ):
        with pytest.raises(InputError, match=said):
            cxrflow.load("no folder", device)


def test_a_users_script_runs(tmp_path: Path) -> None:
    """What mypy has read in `make lint`; the model of `contrast` is that of test_model.py."""
    assert user_script.reports_with("Edema", ["Edema.", "No edema.", "Mild edema."]) == [0, 2]
    regions, words = torch.randn(2, 2, 3, 4, generator=torch.Generator().manual_seed(0))
    assert user_script.local_step(regions.requires_grad_(), words, [3, 2]) > 0
    assert regions.grad is not None and regions.grad.abs().sum() > 0
    with pytest.raises(AttributeError, match="has no attribute 'lable'"):
        user_script.misspelt()
    with pytest.raises(InputError, match="model folder not found"):
        user_script.contrast(
            str(tmp_path / "m"), np.zeros((4, 4), np.uint8), "Edema", np.eye(4) > 0
        )
    with pytest.raises(InputError, match="not a complete pixel store"):
        user_script.stored(str(tmp_path), ["a"])


def test_losses_are_those_of_trainings() -> None:
    """The one function that is not in objectives/: GLoRIA's loss as its term computes it."""
    from cxrflow.objectives.biovil import symmetric_cross_entropy
    from cxrflow.objectives.local_alignment import local_similarity

    regions, words = torch.randn(3, 5, 4), torch.randn(3, 6, 4)
    expected = symmetric_cross_entropy(10 * local_similarity(regions, words, [6, 2, 3]))
    assert torch.equal(losses.local_alignment(regions, words, [6, 2, 3]), expected)
