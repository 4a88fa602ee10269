"""Bad pairs and documents: no training or vocabulary is made of rows that cannot be right.

Rows may stand there twice, in two splits, not at all, or without a word. The next program says so
in one line, or leaves them out and counts them.
"""

import json
from pathlib import Path

import pandas as pd
import pytest
from programs import absent, change_parquet
from tiny_hospital import Stages, no_state

from cxrflow.files.atomic import read_json


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
