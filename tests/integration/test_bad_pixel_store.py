"""Bad pixel stores: images that are not in them, half-written shards, and stores of something else.

The next program says so in one line, or leaves images out and counts them; it never trains or
scores on something else silently.
"""

import logging
from pathlib import Path

import pandas as pd
import pytest
from programs import absent
from tiny_hospital import Stages, no_state

from cxrflow.files.atomic import read_json


def without(stages: Stages, tmp_path: Path, images: list[str]) -> Path:
    """A store like the cohort's that could not read some images."""
    rows = pd.read_parquet(stages.cohort / "pairs.parquet")
    for path in rows.loc[rows["image_id"].isin(images), "image_path"]:
        (stages.data("mimic_cxr") / path).write_bytes(b"")
    stages.make_pixels(tmp_path / "pixels", max_failed_share=1.0).succeeds()
    assert read_json(tmp_path / "pixels" / "store.json")["dropped"][0]["count"] == len(images)
    return tmp_path / "pixels"


@pytest.mark.parametrize("name", ["images", "joint"])
def test_training_leaves_out_images_that_are_not_stored(stages, tmp_path, name, caplog):
    rows = pd.read_parquet(stages.cohort / "pairs.parquet").query("split == 'train'")
    lost = rows.iloc[0]
    pixels = without(stages, tmp_path, [lost["image_id"]])
    train = stages.train_images if name == "images" else stages.train_joint
    before = read_json(stages.models / name / "run.json")["data"]
    with caplog.at_level(logging.WARNING):
        train(tmp_path / "model", pixels, max_dropped_share=0.5).succeeds()
    data = read_json(tmp_path / "model" / "run.json")["data"]
    assert data["train_samples"] == before["train_samples"] - 1
    [drop] = [d for d in data["dropped"] if "pixel store" in d["reason"]]
    assert drop["part"] == "train" and drop["count"] == 1
    said = [line for line in caplog.messages if "not in the pixel store" in line]
    assert said and lost["study_id"] in said[0] and lost["study_id"] not in str(data)

    end = train(tmp_path / "strict", pixels, max_dropped_share=0.01)
    end.refuses(pixels, f"1 of {len(rows)}", "max_dropped_share", lost["image_id"])
    assert absent(tmp_path / "strict") and no_state(tmp_path / "strict")


def test_benchmarks_count_images_that_are_not_stored(stages: Stages, tmp_path: Path) -> None:
    for folder, dataset, cohort, score in (
        ("grounding", "mimic_cxr", stages.grounding, stages.ground),
        ("rsna", "rsna", stages.rsna, stages.classify),
    ):
        samples = pd.read_parquet(cohort / "samples.parquet")
        image = samples["image_id"].iloc[0]
        (stages.data(dataset) / samples["image_path"].iloc[0]).write_bytes(b"")
        pixels = tmp_path / f"pixels-{folder}"
        stages.make_pixels(
            pixels, cohort / "images.parquet", dataset, max_failed_share=1.0
        ).succeeds()
        score(tmp_path / folder, pixels=pixels).succeeds()
        data = read_json(tmp_path / folder / "metrics.json")["data"]
        lost = samples["image_id"] == image
        assert data["dropped"] == [
            {
                "reason": "image is not in the pixel store",
                "count": int(lost.sum()),
                "examples": samples["sample_id"][lost].head(5).tolist(),
                "failed": False,
            }
        ]
        assert data["samples"] == int((~lost).sum())
        predictions = pd.read_parquet(tmp_path / folder / "predictions.parquet")
        assert set(predictions["sample_id"]) == set(samples["sample_id"][~lost])


def test_store_of_another_data_set_leaves_nothing_to_score(stages: Stages, tmp_path: Path) -> None:
    end = stages.classify(tmp_path / "result", pixels=stages.pixels)
    end.refuses("no sample is left", "image is not in the pixel store")
    assert absent(tmp_path / "result")


@pytest.mark.parametrize("damage", ["half", "gone", "no store.json", "no index"])
def test_half_written_shard(stages: Stages, tmp_path: Path, damage: str) -> None:
    before = {p.name: p.read_bytes() for p in stages.pixels.glob("shard-*.npy")}
    path = stages.pixels / "shard-00001.npy"
    if damage == "half":
        path.write_bytes(path.read_bytes()[:-700])
    elif damage == "gone":
        path.unlink()
    elif damage == "no store.json":
        path.write_bytes(path.read_bytes()[:-700])
        (stages.pixels / "store.json").unlink()
    else:
        path = stages.pixels / "index.parquet"
        path.unlink()
    named = stages.pixels if damage == "no store.json" else path
    for end in (stages.train_images(tmp_path / "a"), stages.train_joint(tmp_path / "b")):
        end.refuses(named)
    assert absent(tmp_path / "a") and absent(tmp_path / "b")
    stages.make_pixels(stages.pixels).succeeds()
    assert {p.name: p.read_bytes() for p in stages.pixels.glob("shard-*.npy")} == before
    stages.train_images(tmp_path / "a").succeeds()


def test_geometry_of_another_store(stages: Stages, tmp_path: Path) -> None:
    stages.make_pixels(
        tmp_path / "square", stages.rsna / "images.parquet", "rsna", geometry="square32"
    ).succeeds()
    end = stages.classify(tmp_path / "result", pixels=tmp_path / "square")
    end.refuses(tmp_path / "square", "square32", "shorter32")
    assert absent(tmp_path / "result")
