"""Bad results of an earlier stage: damaged tables, stores, vocabularies and model folders.

What a stage wrote can be cut off, edited or taken from another run. The next program says so in
one line, or leaves rows out and counts them; it never trains or scores on something else silently.
"""

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bad_input_fixtures import (
    TEXT,
    TRAINING,
    End,
    Stages,
    absent,
    change_parquet,
    program,
)

from cxrflow.files import read_json

Run = Callable[[Stages, Path], End]

# Every program that reads a Parquet table, the table, and a column that it needs.
READERS: dict[str, tuple[str, str, Run]] = {
    "cohort, sections": ("corpus/sections", "impression", lambda s, o: s.make_cohort(o)),
    "cohort, sentences": ("corpus/sentences", "sentence", lambda s, o: s.make_cohort(o)),
    "cohort, documents": ("corpus/documents", "text", lambda s, o: s.make_cohort(o)),
    "store, images": ("cohort/images", "image_path", lambda s, o: s.make_pixels(o)),
    "vocabulary": ("cohort/documents", "text", lambda s, o: s.make_vocabulary(o)),
    "tokens": ("cohort/documents", "text", lambda s, o: s.make_tokens(o)),
    "phase II": ("cohort/pairs", "study_id", lambda s, o: s.train_words(o)),
    "phase III": ("cohort/pairs", "split", lambda s, o: s.train_sections(o)),
    "SimCLR": ("cohort/pairs", "image_id", lambda s, o: s.train_images(o)),
    "SimCLR, store": ("pixels/index", "image_id", lambda s, o: s.train_images(o)),
    "joint": ("cohort/pairs", "image_id", lambda s, o: s.train_joint(o)),
    "grounding": ("grounding/samples", "boxes", lambda s, o: s.ground(o)),
    "grounding, store": ("pixels-grounding/index", "original_width", lambda s, o: s.ground(o)),
    "zero-shot": ("rsna/samples", "label", lambda s, o: s.classify(o)),
    "mask prediction": ("cohort/pairs", "subject_id", lambda s, o: s.predict_masks(o)),
    "vocabulary comparison": (
        "cohort/pairs", "findings", lambda s, o: s.compare_vocabularies(o)
    ),
}  # fmt: skip


def no_state(output: Path) -> bool:
    """No training state was begun beside ``output``."""
    return not output.with_name(f"state-{output.name}").exists()


@pytest.mark.parametrize("damage", ["cut", "empty", "no Parquet", "gone", "missing column"])
@pytest.mark.parametrize("reader", READERS)
def test_bad_parquet_is_one_line(stages: Stages, tmp_path: Path, reader: str, damage: str) -> None:
    table, column, run = READERS[reader]
    path = stages.results / f"{table}.parquet"
    content = path.read_bytes()
    if damage == "missing column":
        change_parquet(path, lambda frame: frame.drop(columns=column))
    elif damage == "gone":
        path.unlink()
    else:
        path.write_bytes(
            {"cut": content[: len(content) // 2], "empty": b"", "no Parquet": b"a,b\n1,2\n" * 99}[
                damage
            ]
        )
    end = run(stages, tmp_path / "result")
    end.refuses(path, *([f"column '{column}' is missing"] if damage == "missing column" else []))
    assert absent(tmp_path / "result") and no_state(tmp_path / "result")


@pytest.mark.parametrize(
    ("file", "run"),
    [
        ("cohort/flow.json", lambda s, o: s.train_joint(o)),
        ("grounding/flow.json", lambda s, o: s.ground(o)),
        ("pixels/store.json", lambda s, o: s.train_images(o)),
        ("tokens/tokens.json", lambda s, o: s.train_words(o)),
        ("vocabulary/tokenizer.json", lambda s, o: s.make_tokens(o)),
        ("models/joint/run.json", lambda s, o: s.ground(o)),
        ("models/joint/config.json", lambda s, o: s.ground(o)),
        ("models/joint/image/config.json", lambda s, o: s.ground(o)),
        ("models/images/image/config.json", lambda s, o: s.train_joint(o)),
    ],
)
@pytest.mark.parametrize("content", ["", "{", "{}", "[]", "\xff"])
def test_bad_json_is_one_line(
    stages: Stages, tmp_path: Path, file: str, run: Run, content: str
) -> None:
    path = stages.results / file
    path.write_bytes(content.encode("latin-1"))
    end = run(stages, tmp_path / "result")
    if content == "{}" and file == "models/joint/image/config.json":
        # Every size of an encoder has a default, so it is the weights that do not fit.
        end.refuses(path.with_name("model.safetensors"))
    elif content == "{}" and file == "models/joint/config.json":
        end.refuses(path.parent)
    else:
        end.refuses(path)
    assert absent(tmp_path / "result") and no_state(tmp_path / "result")


# ---------------------------------------------------------------- pairs


def with_twin(frame: pd.DataFrame) -> pd.DataFrame:
    """The first training row again."""
    return pd.concat([frame, frame[frame["split"] == "train"].iloc[:1]])


def with_leak(frame: pd.DataFrame) -> pd.DataFrame:
    """A training row's patient also in validation."""
    twin = frame[frame["split"] == "train"].iloc[:1]
    return pd.concat([frame, twin.assign(study_id="1", image_id="i", split="validate")])


@pytest.mark.parametrize("name", ["train_words", "train_sections", "train_images", "train_joint"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (with_twin, ["study_id", "several rows", "expected each once"]),
        (with_leak, ["1 patient(s) stand in two splits"]),
        (lambda frame: frame[frame["split"] != "train"], ["no row of split 'train'"]),
        (lambda frame: frame[frame["split"] != "validate"], ["no row of split 'validate'"]),
    ],
)
def test_pairs_that_cannot_be_trained_on(
    stages: Stages, tmp_path: Path, name: str, change: Callable, words: list[str]
) -> None:
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


def test_section_without_a_token_is_left_out_and_counted(stages: Stages, tmp_path: Path) -> None:
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
        [drop] = [d for d in data["dropped"] if study in d["examples"]]
        assert drop["split"] == "train" and sections in drop["reason"]
        assert data["train_samples"] >= before[name] - 1


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


# ---------------------------------------------------------------- pixel store


def without(stages: Stages, tmp_path: Path, images: list[str]) -> Path:
    """A store like the cohort's that could not read some images."""
    rows = pd.read_parquet(stages.cohort / "pairs.parquet")
    for path in rows.loc[rows["image_id"].isin(images), "image_path"]:
        (stages.data("mimic_cxr") / path).write_bytes(b"")
    stages.make_pixels(tmp_path / "pixels", max_failed_share=1.0).succeeds()
    assert read_json(tmp_path / "pixels" / "store.json")["failed"] == len(images)
    return tmp_path / "pixels"


@pytest.mark.parametrize("name", ["images", "joint"])
def test_training_leaves_out_images_that_are_not_stored(
    stages: Stages, tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
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
    assert (
        drop["split"] == "train" and drop["count"] == 1 and drop["examples"] == [lost["study_id"]]
    )
    assert any("not in the pixel store" in line for line in caplog.messages)

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


# ---------------------------------------------------------------- vocabularies and models


def test_tokens_of_another_vocabulary(stages: Stages, tmp_path: Path) -> None:
    stages.make_vocabulary(tmp_path / "other", size=200).succeeds()
    end = stages.train_words(tmp_path / "model", vocabulary=tmp_path / "other")
    end.refuses(stages.tokens, "vocabulary_fingerprint", "made with another vocabulary")
    assert absent(tmp_path / "model") and no_state(tmp_path / "model")


def test_model_that_was_trained_with_another_vocabulary(stages: Stages, tmp_path: Path) -> None:
    # As many pieces, in another order: every id is valid and means something else.
    pieces = (stages.vocabulary / "vocab.txt").read_text().splitlines()
    shutil.copytree(stages.vocabulary, tmp_path / "other")
    (tmp_path / "other" / "tokenizer.json").unlink()
    (tmp_path / "other" / "vocab.txt").write_text("\n".join(pieces[:5] + pieces[:4:-1]) + "\n")
    end = stages.train_sections(tmp_path / "model", vocabulary=tmp_path / "other")
    end.refuses(stages.models / "words", tmp_path / "other", "vocabulary")
    assert absent(tmp_path / "model") and no_state(tmp_path / "model")


@pytest.mark.parametrize("name", ["words", "sections"])
def test_tokenizer_with_more_pieces_than_the_model(
    stages: Stages, tmp_path: Path, name: str
) -> None:
    stages.make_vocabulary(tmp_path / "larger", size=380).succeeds()
    for file in ("vocab.txt", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tmp_path / "larger" / file, stages.models / name / file)
    run = stages.train_joint if name == "sections" else stages.predict_masks
    end = (
        stages.train_joint(tmp_path / "result")
        if run == stages.train_joint
        else stages.predict_masks(tmp_path / "result", stages.models / name)
    )
    end.refuses(stages.models / name, "pieces", "vocab_size")
    assert absent(tmp_path / "result")


MODEL_FILES: dict[str, list[str]] = {
    "sections": ["config.json", "model.safetensors", "tokenizer.json"],
    "images": ["image/config.json", "image/model.safetensors"],
    "joint": [
        "config.json", "model.safetensors", "tokenizer.json", "image/config.json",
        "image/model.safetensors", "run.json",
    ],
}  # fmt: skip


@pytest.mark.parametrize("damage", ["gone", "cut"])
@pytest.mark.parametrize(
    ("model", "file"), [(model, file) for model, files in MODEL_FILES.items() for file in files]
)
def test_model_folder_with_a_missing_or_cut_file(
    stages: Stages, tmp_path: Path, model: str, file: str, damage: str
) -> None:
    path = stages.models / model / file
    if damage == "gone":
        path.unlink()
        if file == "tokenizer.json":
            path.with_name("vocab.txt").unlink()
    else:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    run = stages.ground if model == "joint" else stages.train_joint
    end = run(tmp_path / "result")
    # A model folder may well have one half only; then the program says which half it misses.
    halves = {"config.json": "no text half", "image/config.json": "no image half"}
    if damage == "gone" and model == "joint" and file in halves:
        end.refuses(path.parents[file.count("/")], halves[file])
    elif damage == "gone" and file == "tokenizer.json":
        end.refuses(path.parent, "expected tokenizer.json or vocab.txt")
    else:
        end.refuses(path)
    assert absent(tmp_path / "result") and no_state(tmp_path / "result")


def test_weights_that_lack_a_parameter(stages: Stages, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    path = stages.models / "joint" / "model.safetensors"
    weights = load_file(path)
    del weights["cls_projection_head.dense_to_output.weight"]
    save_file(weights, path, metadata={"format": "pt"})
    end = stages.ground(tmp_path / "result")
    end.refuses(path, "cls_projection_head.dense_to_output.weight")
    assert absent(tmp_path / "result")


def test_geometry_of_another_store(stages: Stages, tmp_path: Path) -> None:
    program(
        "images.store", "--root", stages.data("rsna"), "--images", stages.rsna / "images.parquet",
        "--geometry", "square32", "--output", tmp_path / "square",
    ).succeeds()  # fmt: skip
    end = stages.classify(tmp_path / "result", pixels=tmp_path / "square")
    end.refuses(tmp_path / "square", "square32", "shorter32")
    assert absent(tmp_path / "result")


def test_state_of_other_settings_is_kept(stages: Stages, tmp_path: Path) -> None:
    from cxrflow.training.state import StateFolder

    state = StateFolder(tmp_path / "state-model")
    state.claim({"model": "tiny", "settings": {"training": {}}})
    state.save(1, {"step": 1})
    end = stages.train_images(tmp_path / "model")
    end.refuses(tmp_path / "state-model", "other settings or data", "Delete the folder")
    assert absent(tmp_path / "model") and list((tmp_path / "state-model").glob("step-*.pt"))


def test_damaged_state_goes_back_to_the_one_before(stages: Stages, tmp_path: Path) -> None:
    from cxrflow.training.state import StateFolder

    state = StateFolder(tmp_path / "state")
    for step in (1, 2):
        state.save(step, {"step": step})
    newest = tmp_path / "state" / "step-000000002.pt"
    newest.write_bytes(newest.read_bytes()[:-9])
    assert state.load() == {"step": 1}


def test_non_finite_weights_stop_a_training_with_the_batch(stages: Stages, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    path = stages.models / "words" / "model.safetensors"
    weights = load_file(path)
    name = "bert.embeddings.word_embeddings.weight"
    weights[name] = weights[name] * np.nan
    save_file(weights, path, metadata={"format": "pt"})
    end = stages.train_sections(tmp_path / "model")
    end.refuses("tiny: term 'rsm' is nan at step 0", "the batch begins with samples")
    assert absent(tmp_path / "model")


def test_results_that_do_not_belong_in_one_table(stages: Stages, tmp_path: Path) -> None:
    stages.classify(tmp_path / "ours").succeeds()
    ours = tmp_path / "ours" / "metrics.json"
    content = read_json(ours)

    def table(*files: Path) -> End:
        return program("report.tables", "--paper", "biovil", "--table", "table6", "--metrics",
                       *files, "--output", tmp_path / "table")  # fmt: skip

    other = tmp_path / "other.json"
    for change, words in (
        (lambda c: c.pop("protocol"), ["field 'protocol' is missing"]),
        (lambda c: c["data"].update(synthetic=False), ["synthetic data", "real data"]),
        (lambda c: None, ["is given twice"]),
    ):
        changed = json.loads(json.dumps(content))
        change(changed)
        other.write_text(json.dumps(changed))
        table(ours, other).refuses(other, *words)
    other.write_text("{")
    table(ours, other).refuses(other, "not valid JSON")
    table(ours, tmp_path / "nowhere.json").refuses(tmp_path / "nowhere.json", "not found")
    assert not list(tmp_path.glob("table*"))


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_phase_and_inputs_that_do_not_fit(stages: Stages, tmp_path: Path, share: float) -> None:
    settings = {"encoder": TEXT, "length": 48, "training": TRAINING, "rsm": {"weight": share}}
    tokens = ["--tokens", stages.tokens] if share else []
    end = program(
        "pretrain.text", settings, "--vocabulary", stages.vocabulary, *tokens, "--pairs",
        stages.cohort / "pairs.parquet", "--model", "tiny", "--seed", 0, "--state",
        tmp_path / "state", "--output", tmp_path / "model",
    )  # fmt: skip
    end.refuses("rsm.weight", "--tokens", share)
    assert absent(tmp_path / "model") and not (tmp_path / "state").exists()
