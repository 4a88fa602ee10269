"""A finished run and what is new: nothing is trained again but what a change can change."""

from pathlib import Path

import pytest

from .conftest import Checkout, models_of
from .test_extending import PACKAGE, extend

pytestmark = pytest.mark.slow

# Cohorts of its own on images that are stored already, one of them curated, and a model more.
PAPER = """
cohorts:
  pairs: {extends: biovil/mimic_cxr, choose: first}
  curated: {extends: toy/curated, curation: {margin: 0.1}}
models:
  more: {extends: toy/joint, cohort: pairs}
tasks:
  grounding: {extends: toy/phrase_grounding}
  choice: {extends: toy/curation, cohort: curated}
tables:
  choice: {extends: toy/curation, task: choice}
  grounding: {extends: toy/grounding, task: grounding, rows: [{label: more, model: more}]}
"""


def edit(folder: Path, file: str, old: str, new: str) -> None:
    path = folder / PACKAGE / file
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{file}: nothing to edit"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_nothing_is_trained_again_for_what_is_new(finished_copy: Checkout) -> None:
    """A comment, a docstring, a field of another term; a term, a data set, a benchmark, papers."""
    folder = extend(finished_copy.folder)
    edit(folder, "training/engine.py", '"""', '"""Said otherwise. ')
    edit(folder, "objectives/simclr.py", "    views = ", "    # Remark.\n    views = ")
    local = "    temp1: float"
    edit(folder, "pretrain/terms/settings.py", local, f"    temp0: float = 1.0\n{local}")
    (folder / "mine.yaml").write_text(PAPER, encoding="utf-8")
    changed = finished_copy.write("new.yaml", {"papers": ["toy.yaml", "mine.yaml"]})
    jobs = changed.plan()
    # The field is of a term that `local` uses: its settings are others now.
    assert models_of(jobs) == {"toy/local", "mine/more"}
    # The other cohort has a store of its own.
    stored = {job.wildcards["cohort"] for job in jobs if job.rule == "store_pixels"}
    assert stored == {"mine/pairs"}
    # Another choice among them is made by a model that is there.
    assert {j.wildcards["cohort"] for j in jobs if j.rule == "curate_images"} == {"mine/curated"}
    scored = {(j.wildcards["task"], j.wildcards["model"]) for j in jobs if j.rule == "evaluate"}
    assert scored == {
        ("toy/phrase_grounding", "toy/local"),
        *(("mine/grounding", model) for model in ("toy/joint", "toy/local", "mine/more")),
    }


def test_other_arithmetic_trains_its_models_and_what_starts_from_them(
    finished_copy: Checkout,
) -> None:
    """Which edit counts for which stage: tests/unit/test_source_files.py."""
    edit(finished_copy.folder, "objectives/simclr.py", "/ temperature", "* temperature")
    assert models_of(finished_copy.plan()) == {
        f"toy/{name}" for name in ("images", "joint", "local", "frames", "writer")
    }
