"""Pictures that are scored in one data set and learnt from in another."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from benchmark_fakes import store_of
from test_equal_pictures import picture

from cxr_files.attempts import FOLDER
from cxr_files.errors import InputError
from cxrflow.config.held_out import compared_cohorts, learners
from cxrflow.images.compared import Compared, note
from cxrflow.images.copies import Copy, check_noted, compared_copies, likenesses
from cxrflow.images.store import PixelStore
from cxrflow.show.page.learnt_pictures import learnt_pictures

TRAINED, SCORED = "a/pairs", "b/rsna"


def cohort(
    root: Path, name: str, pictures: dict[str, int], splits: list[str], geometry: str = "square32"
) -> None:
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
    store_of(work, pictures, geometry=geometry).rename(target / geometry)


def run_of(root: Path) -> Any:
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
        cohorts={
            name: SimpleNamespace(of_one_set=[SimpleNamespace(dataset=value)])
            for name, value in datasets.items()
        },
        models=models,
        results={"b": SimpleNamespace(all=lambda extent: scored)},
        library=SimpleNamespace(tasks={"b/probe": SimpleNamespace(cohort=SCORED)}),
    )
    return SimpleNamespace(config=config, root=root, scored={"b": scored})


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of three test images one is in training elsewhere, one in the test part there."""
    folder = tmp_path_factory.mktemp("run")
    cohort(folder, TRAINED, {"x": 1, "y": 2, "z": 3}, ["train", "validate", "test"])
    cohort(folder, SCORED, {"p": 2, "q": 3, "r": 9, "s": 1}, ["test", "test", "test", "train"])
    return folder


def test_only_models_that_are_scored_and_what_they_are_made_of_count(root: Path) -> None:
    run = run_of(root)
    results = run.config.results["b"].all("all")
    assert learners(run.config, SCORED, results) == {TRAINED: ["a/start"]}
    assert learners(run.config, TRAINED, results) == {}


def test_a_copy_under_another_name_is_a_failed_check(root: Path) -> None:
    check = learnt_pictures(run_of(root), SCORED, names=True)
    assert check is not None and not check["passed"]
    said = "1 image(s) are copies of images of a/pairs (p), from which a/start learnt"
    assert check["detail"] == said
    hidden = learnt_pictures(run_of(root), SCORED, names=False)
    assert hidden is not None and "(p)" not in hidden["detail"]


def test_other_pictures_pass(tmp_path: Path) -> None:
    cohort(tmp_path, TRAINED, {"x": 5, "y": 6}, ["train", "test"])
    cohort(tmp_path, SCORED, {"p": 2, "x": 6}, ["test", "test"])
    check = learnt_pictures(run_of(tmp_path), SCORED, names=True)
    assert check is not None and check["passed"] and check["detail"].endswith("is in a/pairs")


def test_stores_of_two_geometries_are_compared(tmp_path: Path) -> None:
    cohort(tmp_path, TRAINED, {"x": 1, "y": 2}, ["train", "validate"])
    cohort(tmp_path, SCORED, {"p": 2, "q": 7}, ["test", "test"], "square24")
    assert compared_copies(tmp_path, SCORED, TRAINED) == [Copy("p", "y")]
    assert learnt_pictures(run_of(tmp_path / "none"), SCORED, names=True) is None


def test_the_later_store_ends_a_run(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, str(root / "refused"))
    store = root / "pixels" / SCORED / "square32"
    check_noted(store)  # nothing is noted
    note([Compared(SCORED, TRAINED, ["a/start"]), Compared("b/other", TRAINED, ["a/start"])])
    said = r"1 test images of cohort b/rsna are copies of images of a/pairs \(p is y\), from which"
    for built in (store, root / "pixels" / TRAINED / "square32"):
        with pytest.raises(InputError, match=said):
            check_noted(built)
    check_noted(root / "pixels/b/other/square32")


def test_what_is_known_is_not_looked_at_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compared_copies(root, SCORED, TRAINED)
    monkeypatch.setattr("cxrflow.images.copies.alike", None)
    assert compared_copies(root, SCORED, TRAINED) == first == [Copy("p", "y")]
    store = PixelStore(root / "pixels" / SCORED / "square32")
    kept = likenesses(store)
    monkeypatch.setattr("cxrflow.images.copies.likeness", None)
    assert (likenesses(store) == kept).all() and kept.shape == (4, 3, 256)
    (store.path / "likeness.npz").write_bytes(b"cut off")
    monkeypatch.undo()
    assert (likenesses(store) == kept).all()


def test_other_parts_of_the_same_images_are_compared_anew(tmp_path: Path) -> None:
    """As after a patient was held out, which leaves the stores as they are."""
    cohort(tmp_path, TRAINED, {"x": 1, "y": 2}, ["train", "train"])
    cohort(tmp_path, SCORED, {"p": 2, "q": 7}, ["test", "test"])
    assert compared_copies(tmp_path, SCORED, TRAINED) == [Copy("p", "y")]
    table = pd.read_parquet(tmp_path / "cohorts" / TRAINED / "samples.parquet")
    table.assign(split=["train", "test"]).to_parquet(
        tmp_path / "cohorts" / TRAINED / "samples.parquet"
    )
    assert compared_copies(tmp_path, SCORED, TRAINED) == []


def test_only_real_cohorts_are_compared(root: Path) -> None:
    config = run_of(root).config
    for drawn, expected in ((set(), [Compared(SCORED, TRAINED, ["a/start"])]), ({"rsna"}, [])):
        config.data = SimpleNamespace(drawn=lambda name, drawn=drawn: name in drawn)
        assert compared_cohorts(config, [("b/probe", "a/model")]) == expected
