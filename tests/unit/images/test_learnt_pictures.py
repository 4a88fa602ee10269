"""Pictures that are scored in one data set and learnt from in another."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from benchmark_fakes import store_of
from test_equal_pictures import picture

from cxrflow.show.page.learnt_pictures import learners, learnt_pictures

TRAINED, SCORED = "a/pairs", "b/rsna"


def cohort(root: Path, name: str, pictures: dict[str, int], splits: list[str]) -> None:
    """A cohort with its pixel store; ``pictures``: by image, the seed of what it shows."""
    folder, work = root / "cohorts" / name, root / "work" / name
    folder.mkdir(parents=True)
    (work / "root").mkdir(parents=True)
    for image, seed in pictures.items():
        picture(seed).save(work / "root" / f"{image}.png")
    table = pd.DataFrame({"image_id": list(pictures), "split": splits, "subject_id": None})
    table.to_parquet(folder / "samples.parquet")
    target = root / "pixels" / name
    target.mkdir(parents=True)
    store_of(work, pictures, geometry="square32").rename(target / "square32")


def run_of(root: Path, geometry: str = "square32") -> Any:
    datasets = {TRAINED: "open_i", SCORED: "rsna"}
    parents = {
        "a/start": (TRAINED, []),
        "a/model": (SCORED, ["a/start"]),
        "a/unscored": (TRAINED, []),
    }
    models = {
        name: SimpleNamespace(
            recipe=SimpleNamespace(cohort=cohort), imported=False, ancestors=[*starts, name]
        )
        for name, (cohort, starts) in parents.items()
    }
    scored = [("b/probe", "a/model"), ("b/probe", "reference/nothing")]
    config = SimpleNamespace(
        cohorts={name: SimpleNamespace(dataset=value) for name, value in datasets.items()},
        models=models,
        results={"b": SimpleNamespace(all=lambda extent: scored)},
        library=SimpleNamespace(tasks={"b/probe": SimpleNamespace(cohort=SCORED)}),
        whole=SimpleNamespace(stores=[(TRAINED, "square32"), (SCORED, geometry)]),
    )
    return SimpleNamespace(config=config, root=root, papers={"b": "all"})


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of three test images one is in training elsewhere, one in the test part there."""
    folder = tmp_path_factory.mktemp("run")
    cohort(folder, TRAINED, {"x": 1, "y": 2, "z": 3}, ["train", "validate", "test"])
    cohort(folder, SCORED, {"p": 2, "q": 3, "r": 9, "s": 1}, ["test", "test", "test", "train"])
    return folder


def test_only_models_that_are_scored_and_what_they_are_made_of_count(root: Path) -> None:
    assert learners(run_of(root), SCORED) == {TRAINED: ["a/start"]}


def test_an_equal_picture_under_another_name_is_a_failed_check(root: Path) -> None:
    check = learnt_pictures(run_of(root), SCORED, names=True)
    assert check is not None and not check["passed"]
    assert check["detail"] == "1 image(s) equal to images of a/pairs (p), from which a/start learnt"
    hidden = learnt_pictures(run_of(root), SCORED, names=False)
    assert hidden is not None and "(p)" not in hidden["detail"]


def test_other_pictures_pass(root: Path, tmp_path: Path) -> None:
    cohort(tmp_path, TRAINED, {"x": 5, "y": 6}, ["train", "test"])
    cohort(tmp_path, SCORED, {"p": 2, "x": 6}, ["test", "test"])
    check = learnt_pictures(run_of(tmp_path), SCORED, names=True)
    assert check is not None and check["passed"] and check["detail"].endswith("is in a/pairs")


def test_stores_of_two_geometries_cannot_be_compared(root: Path) -> None:
    assert learnt_pictures(run_of(root, geometry="square16"), SCORED, names=True) is None
