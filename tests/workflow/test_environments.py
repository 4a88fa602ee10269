"""One set of versions: pyproject.toml, constraints.txt, envs/*.yaml."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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
WORKFLOW = {"snakemake", "snakemake-executor-plugin-slurm", "snakemake-logger-plugin-rich"}


def test_constraints_name_no_registry_and_no_build():
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert line.startswith("#") or re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line), line


def test_constraints_satisfy_the_project():
    optional = PROJECT["optional-dependencies"]["dev"]
    for text in (*PROJECT["dependencies"], *optional):
        wanted = Requirement(text)
        pin = PINS[canonicalize_name(wanted.name)]
        assert wanted.specifier.contains(pin), f"{text}: constraints.txt has {pin}"


def test_torch_is_pinned_in_both():
    assert f"torch=={PINS['torch']}" in PROJECT["dependencies"]


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_environment_equals_constraints(name):
    conda, pip = [], []
    for item in yaml.safe_load((ROOT / f"envs/{name}.yaml").read_text())["dependencies"]:
        (pip.extend(item["pip"]) if isinstance(item, dict) else conda.append(item))
    found = {canonicalize_name(line.split("==")[0]): line.split("==")[1] for line in pip}
    for line in conda:
        if line.startswith("pytorch-cpu="):
            found["torch"] = line.split("=")[1]
    wanted = {canonicalize_name(Requirement(text).name) for text in PROJECT["dependencies"]}
    assert found == {package: PINS[package] for package in wanted - WORKFLOW}


def test_make_real_asks_for_its_folder_before_it_installs_anything(tmp_path):
    for name in ("Makefile", "constraints.txt", "pyproject.toml"):
        shutil.copy2(ROOT / name, tmp_path)
    environment = {name: os.environ[name] for name in ("PATH",)}
    done = subprocess.run(
        ["make", "real"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("usage: make real CXR_REAL_DATA=folder")
    assert not (tmp_path / ".venv").exists()
