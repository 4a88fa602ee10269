"""One set of versions: pyproject.toml, constraints.txt, envs/*.yaml."""

import importlib
import importlib.util
import os
import re
import shutil
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from command_options import run_to_end

ROOT = Path(__file__).parents[2]
PINS = {
    canonicalize_name(name): pin
    for name, pin in (
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if not line.startswith("#")
    )
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
# What cxrflow is built on, which `make` installs from the checkout.
PACKAGES = {
    project["name"]: project
    for file in sorted(ROOT.glob("workflow_scripts/cxr-*/pyproject.toml"))
    for project in [tomllib.loads(file.read_text())["project"]]
}
# What `make` installs without tools of development, and what of it Snakemake itself needs.
INSTALLED = [
    text
    for texts in (
        *(PROJECT["dependencies"], EXTRAS["models"], EXTRAS["workflow"]),
        *(project["dependencies"] for project in PACKAGES.values()),
    )
    for text in texts
    if Requirement(text).name not in ("cxrflow", *PACKAGES)
]
WORKFLOW = {"snakemake", "snakemake-executor-plugin-slurm", "rich"}


def test_constraints_name_no_registry_and_no_build():
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert line.startswith("#") or re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line), line


def test_constraints_satisfy_the_project():
    for text in (*INSTALLED, *EXTRAS["dev"]):
        wanted = Requirement(text)
        if wanted.name == "cxrflow":
            continue
        pin = PINS[canonicalize_name(wanted.name)]
        assert wanted.specifier.contains(pin), f"{text}: constraints.txt has {pin}"


def test_packages_ask_for_each_other_by_their_versions():
    for project in (PROJECT, *PACKAGES.values()):
        for text in project["dependencies"]:
            wanted = Requirement(text)
            if wanted.name in PACKAGES:
                assert str(wanted.specifier) == f"=={PACKAGES[wanted.name]['version']}", text
    modules = {name: importlib.import_module(name.replace("-", "_")) for name in PACKAGES}
    for name, module in modules.items():
        assert module.__version__ == PACKAGES[name]["version"]


def test_what_is_installed_admits_the_lowest_python_of_the_project():
    """A package that asks for 3.11.5 cannot be installed by a Python that is promised to do."""
    (lowest,) = (str(bound.version) for bound in SpecifierSet(PROJECT["requires-python"]))
    asked = {
        package.metadata["Name"]: package.metadata["Requires-Python"] or ""
        for package in distributions()
        if PINS.get(canonicalize_name(package.metadata["Name"])) == package.version
    }
    assert len(asked) > len(PINS) // 2
    assert {n: text for n, text in asked.items() if f"{lowest}.0" not in SpecifierSet(text)} == {}


def test_torch_is_a_tested_range_and_exact_in_the_lock():
    (stated,) = (text for text in EXTRAS["models"] if Requirement(text).name == "torch")
    tested = Requirement(stated).specifier
    assert {"2.11.0", PINS["torch"]} == {v for v in ("2.11.0", PINS["torch"]) if v in tested}
    assert "2.10.0" not in tested and "2.14.0" not in tested


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_environment_equals_constraints(name):
    conda, pip = [], []
    for item in yaml.safe_load((ROOT / f"envs/{name}.yaml").read_text())["dependencies"]:
        (pip.extend(item["pip"]) if isinstance(item, dict) else conda.append(item))
    found = {canonicalize_name(line.split("==")[0]): line.split("==")[1] for line in pip}
    for line in conda:
        if line.startswith("pytorch-cpu="):
            found["torch"] = line.split("=")[1]
    wanted = {canonicalize_name(Requirement(text).name) for text in INSTALLED}
    assert found == {package: PINS[package] for package in wanted - WORKFLOW}


def test_make_real_asks_for_its_folder_before_it_installs_anything(tmp_path):
    for name in ("Makefile", "constraints.txt", "pyproject.toml"):
        shutil.copy2(ROOT / name, tmp_path)
    environment = {name: os.environ[name] for name in ("PATH",)}
    done = run_to_end(["make", "real"], cwd=tmp_path, env=environment)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: make real CXR_REAL_DATA=folder")
    assert not (tmp_path / ".venv").exists()


def test_the_apptainer_image_is_the_lock_and_nothing_else():
    """Line by line: a Python that we support, files that are there, the versions of the lock."""
    text = (ROOT / "envs/cxrflow.def").read_text()
    parts = dict(re.findall(r"^%(\w+)\n((?:    .*\n|\n)+)", text, re.MULTILINE))
    assert set(parts) == {"files", "post", "environment", "test", "labels"}
    base = re.search(r"^Bootstrap: docker\nFrom: python:([\d.]+)-slim", text, re.MULTILINE)
    assert base is not None
    assert SpecifierSet(PROJECT["requires-python"]).contains(f"{base[1]}.0")
    copied = {}
    for line in parts["files"].split("\n"):
        if line.strip():
            source, target = line.split()
            assert (ROOT / source).exists() and target == f"/opt/cxrflow/{source}", line
            copied[source] = target
    # What pip needs of a project to read its dependencies.
    assert {"constraints.txt", "pyproject.toml", PROJECT["readme"], "LICENSE"} <= copied.keys()
    installs = re.findall(r"pip install (.*)", parts["post"])
    packages = "/opt/cxrflow/workflow_scripts/cxr-*"
    assert installs == [f"-c {copied['constraints.txt']} {packages} '/opt/cxrflow[workflow]'"]
    # No version but the lock's.
    assert "==" not in text and ">=" not in text
    imported = re.search(r"import ([\w, ]+)", parts["test"])
    assert imported is not None
    for name in imported[1].split(", "):
        assert importlib.util.find_spec(name), name
    readme = (ROOT / "README.md").read_text() + (ROOT / "docs/slurm.md").read_text()
    assert "envs/cxrflow.def" in readme


def test_both_images_install_the_same():
    """The Dockerfile takes every file, command and variable of the Apptainer definition."""
    definition = (ROOT / "envs/cxrflow.def").read_text()
    docker = (ROOT / "envs/Dockerfile").read_text()
    parts = dict(re.findall(r"^%(\w+)\n((?:    .*\n|\n)+)", definition, re.MULTILINE))

    def lines(text: str) -> list[str]:
        found = (line.strip().removesuffix("&& \\").strip() for line in text.splitlines())
        return [line for line in found if line and not line.startswith("#")]

    base = re.search(r"^From: (.*)", definition, re.MULTILINE)
    assert base is not None and f"\nFROM {base[1]}\n" in docker
    assert re.findall(r"^COPY (.*)", docker, re.MULTILINE) == lines(parts["files"])
    runs = re.findall(r"^RUN ((?:.*\\\n)*.*)", docker, re.MULTILINE)
    assert [lines(run) for run in runs] == [lines(parts["post"]), lines(parts["test"])]
    (variables,) = lines(parts["environment"])
    assert f"\nENV {variables.removeprefix('export ')}\n" in docker


def test_the_citation_is_that_of_this_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == PROJECT["version"] and cited["license"] == "MIT"
    assert {"cff-version", "message", "title", "authors"} <= cited.keys()
    linked = {paper["url"] for paper in cited["references"] if "url" in paper}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert linked == set(re.findall(r"https://(?:arxiv\.org/abs|doi\.org)/[\w./]+", readme))
