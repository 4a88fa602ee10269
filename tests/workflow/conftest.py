"""A checkout of its own for tests that run the workflow, so that they may change and delete."""

import copy
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from cxrflow.papers import load_paper

ROOT = Path(__file__).parents[2]
PARTS = ("Snakefile", "config.yaml", "paper.yaml", "real.yaml", "rules", "envs", "slurm")
SIZES: dict[str, dict[str, Any]] = {
    "text": {
        "encoder": {"layers": 2, "width": 32, "heads": 2, "feed_forward": 64, "projection": 16},
        "length": 64,
        "training": {"batch_size": 8, "epochs": 1, "steps": None, "log_steps": 5},
    },
    "image": {
        "encoder": {"block": "basic", "layers": [1, 1, 1, 1], "width": 8, "projection": 16},
        "training": {"batch_size": 8, "epochs": 1, "steps": None, "log_steps": 5},
    },
    "joint": {
        # The trunk is that of the image model, the width of the joint space the text encoder's.
        "encoder": {"block": "basic", "layers": [1, 1, 1, 1], "width": 8, "projection": 16},
        "length": 64,
        "training": {"batch_size": 8, "epochs": 1, "steps": None, "log_steps": 5},
    },
}


@dataclass(frozen=True)
class Checkout:
    """A copy of the workflow, and the overlays its runs use."""

    folder: Path
    overlays: tuple[str, ...] = ()

    def snakemake(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run snakemake here; the programs of the running Python come first in PATH."""
        command = [sys.executable, "-m", "snakemake", *arguments]
        if self.overlays:
            command += ["--configfile", *self.overlays]
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return subprocess.run(
            command,
            cwd=self.folder,
            env=os.environ | {"PATH": path} | environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )

    def planned(self, *arguments: str) -> dict[str, int]:
        """Jobs by rule that a run would make now."""
        done = self.snakemake("-n", "--cores", "2", *arguments)
        assert done.returncode == 0, done.stdout
        lines = done.stdout.partition("Job stats:")[2].partition("total")[0]
        counted = re.findall(r"^(\w+) +(\d+)$", lines, re.MULTILINE)
        return {rule: int(count) for rule, count in counted if rule not in ("all", "count")}

    def write(self, name: str, values: dict[str, Any]) -> str:
        """Write an overlay file and give its name."""
        (self.folder / name).write_text(yaml.safe_dump(values), encoding="utf-8")
        return name


def copy_of(source: Path, folder: Path) -> Path:
    """Copy the workflow's parts, and results where there are any."""
    skip = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in (*PARTS, "workflow_scripts", "results", ".snakemake"):
        path = source / name
        if name in ("results", ".snakemake") and source == ROOT:
            continue
        if path.is_dir():
            shutil.copytree(path, folder / name, ignore=skip)
        elif path.is_file():
            shutil.copy2(path, folder / name)
    return folder


def tiny_models() -> dict[str, Any]:
    """Each model of the demo's paper at the smallest size, for the caller to change."""
    made = load_paper("biovil").models
    return {name: copy.deepcopy(SIZES[model.program]) for name, model in made.items()}


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A fresh checkout."""
    return Checkout(copy_of(ROOT, tmp_path))


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A checkout in which the whole graph has run at a tiny scale; not to be changed."""
    folder = copy_of(ROOT, tmp_path_factory.mktemp("workflow"))
    shutil.copy(ROOT / "tests/workflow/tiny.yaml", folder / "tiny.yaml")
    made = Checkout(folder, ("tiny.yaml", "tiny_models.yaml"))
    made.write("tiny_models.yaml", {"models": tiny_models()})
    done = made.snakemake("--cores", "2", "--show-failed-logs")
    assert done.returncode == 0, done.stdout[-6000:]
    return made


@pytest.fixture
def finished_copy(finished: Checkout, tmp_path: Path) -> Checkout:
    """A copy of the finished checkout that a test may change."""
    return Checkout(copy_finished(finished.folder, tmp_path), finished.overlays)


def copy_finished(source: Path, folder: Path) -> Path:
    """Copy a finished checkout with its overlays, times included."""
    copy_of(source, folder)
    for overlay in source.glob("tiny*.yaml"):
        shutil.copy2(overlay, folder / overlay.name)
    return folder
