"""Bad pairs, documents and pixel stores: no training, vocabulary or score is made of what is wrong.

Rows may stand there twice, in two splits, not at all, or without a word; images may lie in no
store, in half a store, or in one of something else. The next program says so in one line, or leaves
them out and counts them.
"""

import json
import logging
from pathlib import Path

import pandas as pd
import pytest
from programs import absent, change_parquet
from tiny_hospital import Stages, no_state

from cxr_files.atomic import read_json


def with_twin(frame: pd.DataFrame) -> pd.DataFrame:
    """The first training row again."""
    return pd.concat([frame, frame[frame["split"] == "train"].iloc[:1]])


def with_leak(frame: pd.DataFrame) -> pd.DataFrame:
    """A training row's patient also in validation."""
    twin = frame[frame["split"] == "train"].iloc[:1]
    return pd.concat([frame, twin.assign(study_id="1", image_id="i", split="validate")])


@pytest.mark.parametrize(
    "name", ["train_words", "train_sections", "train_images", "train_joint", "train_temporal"]
)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (with_twin, ["study_id", "several rows", "expected each once"]),
        (with_leak, ["1 patient(s) stand in two splits"]),
        (lambda frame: frame[frame["split"] != "train"], ["no row of split 'train'"]),
        (lambda frame: frame[frame["split"] != "validate"], ["no row of split 'validate'"]),
    ],
)
def test_pairs_that_cannot_be_trained_on(stages, tmp_path, name, change, words):
    if name == "train_words" and words == ["no row of split 'train'"]:
        pytest.skip("phase II trains on token files; it takes no training row from the pairs")
    path = stages.cohort / "pairs.parquet"
    twin = pd.read_parquet(path).query("split == 'train'").iloc[0]
    change_parquet(path, change)
    end = getattr(stages, name)(tmp_path / "model")
    end.refuses(path, *words)
    if change is with_twin:
        end.refuses(twin["study_id"])
    if change is with_leak:
        end.refuses(twin["subject_id"])
    assert absent(tmp_path / "model") and no_state(tmp_path / "model")


def test_section_without_a_token_is_left_out_and_counted(stages, tmp_path, caplog):
    path = stages.cohort / "pairs.parquet"
    study = pd.read_parquet(path).query("split == 'train'")["study_id"].iloc[0]

    def silence(frame: pd.DataFrame) -> pd.DataFrame:
        hit = frame["study_id"] == study
        for section in ("findings", "impression"):
            frame[section] = frame[section].mask(hit, " \u200b\u0301 ")
            frame[f"{section}_sentences"] = [
                [" \u200b\u0301 "] if h else old
                for h, old in zip(hit, frame[f"{section}_sentences"], strict=True)
            ]
        return frame

    before = {
        name: read_json(stages.models / name / "run.json")["data"]["train_samples"]
        for name in ("sections", "joint")
    }
    change_parquet(path, silence)
    stages.train_sections(tmp_path / "sections").succeeds()
    stages.train_joint(tmp_path / "joint").succeeds()
    for name, sections in (("sections", "findings"), ("joint", "impression")):
        data = read_json(tmp_path / name / "run.json")["data"]
        assert [d for d in data["dropped"] if sections in d["reason"] and d["part"] == "train"]
        assert [line for line in caplog.messages if sections in line and study in line]
        assert study not in json.dumps(data)  # a model names no study
        assert data["train_samples"] >= before[name] - 1


@pytest.mark.parametrize("what", ["is another patient's", "is not earlier", "is the image itself"])
def test_priors_that_cannot_be_compared_with(stages: Stages, tmp_path: Path, what: str) -> None:
    path = stages.cohort / "pairs.parquet"
    frame = pd.read_parquet(path)
    later = frame[frame["prior_image_id"].isin(frame["image_id"])].iloc[0]
    prior = frame[frame["image_id"] == later["prior_image_id"]].iloc[0]
    stranger = frame.loc[frame["subject_id"] != later["subject_id"], "image_id"].iloc[0]
    study, image = {
        "is another patient's": (later["study_id"], stranger),
        "is not earlier": (prior["study_id"], later["image_id"]),
        "is the image itself": (later["study_id"], later["image_id"]),
    }[what]

    def change(frame: pd.DataFrame) -> pd.DataFrame:
        wrong = frame["study_id"] == study
        return frame.assign(prior_image_id=frame["prior_image_id"].mask(wrong, image))

    change_parquet(path, change)
    stages.train_temporal(tmp_path / "model").refuses(path, "prior_image_id", study, what)
    assert absent(tmp_path / "model") and no_state(tmp_path / "model")
    stages.train_joint(tmp_path / "joint").succeeds()  # does not read them


def test_a_prior_without_pixels_is_none_and_counted(stages: Stages, tmp_path: Path) -> None:
    path = stages.cohort / "pairs.parquet"
    train = pd.read_parquet(path).query("split == 'train'")
    having = int(train["prior_image_id"].notna().sum())
    study = train.loc[train["prior_image_id"].notna(), "study_id"].iloc[0]

    def change(frame: pd.DataFrame) -> pd.DataFrame:
        hit = frame["study_id"] == study
        return frame.assign(prior_image_id=frame["prior_image_id"].mask(hit, "lost"))

    change_parquet(path, change)
    stages.train_temporal(tmp_path / "model").succeeds()
    data = read_json(tmp_path / "model" / "run.json")["data"]
    reason = "prior is not in the pixel store"
    assert [d["part"] for d in data["dropped"] if d["reason"].startswith(reason)] == ["train"]
    assert study not in json.dumps(data)
    assert data["train_samples"] == len(train)
    assert data["train_samples_with_prior"] == having - 1


def test_documents_without_a_token(stages: Stages, tmp_path: Path) -> None:
    path = stages.cohort / "documents.parquet"
    change_parquet(path, lambda frame: frame.assign(text=["", None, *frame["text"].iloc[2:]]))
    stages.make_tokens(tmp_path / "tokens").succeeds()
    facts = read_json(tmp_path / "tokens" / "tokens.json")
    train = pd.read_parquet(path).query("split == 'train'")
    assert facts["documents"] == len(train)
    assert facts["empty"] == (train["text"].fillna("") == "").sum()
    stages.train_words(tmp_path / "model", tmp_path / "tokens").succeeds()

    change_parquet(path, lambda frame: frame.assign(text=""))
    stages.make_vocabulary(tmp_path / "vocabulary").refuses(path, "no text")
    assert absent(tmp_path / "vocabulary")
    stages.make_tokens(tmp_path / "silent").succeeds()
    end = stages.train_words(tmp_path / "silent model", tmp_path / "silent")
    end.refuses(tmp_path / "silent", "no tokens")
    assert absent(tmp_path / "silent model")


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
