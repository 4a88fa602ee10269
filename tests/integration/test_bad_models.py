"""Bad vocabularies, model folders and training states: cut off, edited or taken from another run.

The next program says so in one line; it never trains or scores on something else silently.
"""

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from programs import absent, program
from tiny_hospital import TEXT, TRAINING, Stages, no_state

from cxr_files.atomic import CHECKSUMS


def test_tokens_of_another_vocabulary(stages: Stages, tmp_path: Path) -> None:
    stages.make_vocabulary(tmp_path / "other", size=200).succeeds()
    end = stages.train_words(tmp_path / "model", vocabulary=tmp_path / "other")
    end.refuses(stages.tokens, "vocabulary_fingerprint", "made with another vocabulary")
    assert absent(tmp_path / "model") and no_state(tmp_path / "model")


def test_model_that_was_trained_with_another_vocabulary(stages: Stages, tmp_path: Path) -> None:
    # As many pieces, in another order: every id is valid and means something else.
    pieces = (stages.vocabulary / "vocab.txt").read_text().splitlines()
    shutil.copytree(stages.vocabulary, tmp_path / "other")
    for name in ("tokenizer.json", CHECKSUMS):
        (tmp_path / "other" / name).unlink()
    (tmp_path / "other" / "vocab.txt").write_text("\n".join(pieces[:5] + pieces[:4:-1]) + "\n")
    end = stages.train_sections(tmp_path / "model", vocabulary=tmp_path / "other")
    end.refuses(stages.models / "words", tmp_path / "other", "vocabulary")
    assert absent(tmp_path / "model") and no_state(tmp_path / "model")


@pytest.mark.parametrize("name", ["words", "sections"])
def test_tokenizer_with_more_pieces_than_the_model(stages, tmp_path, name):
    stages.make_vocabulary(tmp_path / "larger", size=380).succeeds()
    for file in ("vocab.txt", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tmp_path / "larger" / file, stages.models / name / file)
    (stages.models / name / CHECKSUMS).unlink()
    if name == "sections":
        end = stages.train_joint(tmp_path / "result")
    else:
        end = stages.predict_masks(tmp_path / "result", stages.models / name)
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


@pytest.mark.parametrize("damage", ["gone", "never there", "cut"])
@pytest.mark.parametrize(
    ("model", "file"), [(model, file) for model, files in MODEL_FILES.items() for file in files]
)
def test_model_folder_with_a_missing_or_cut_file(stages, tmp_path, model, file, damage):
    path = stages.models / model / file
    if damage == "never there":  # and so listed nowhere
        (stages.models / model / CHECKSUMS).unlink()
    if damage != "cut":
        path.unlink()
        if file == "tokenizer.json":
            path.with_name("vocab.txt").unlink()
    else:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    run = stages.ground if model == "joint" else stages.train_joint
    end = run(tmp_path / "result")
    # A model folder may well have one half only; then the program says which half it misses.
    halves = {"config.json": "no text encoder", "image/config.json": "no image encoder"}
    if damage == "never there" and model == "joint" and file in halves:
        end.refuses(path.parents[file.count("/")], halves[file])
    elif damage == "never there" and file == "tokenizer.json":
        end.refuses(path.parent, "expected tokenizer.json or vocab.txt")
    else:
        end.refuses(path)
    assert absent(tmp_path / "result") and no_state(tmp_path / "result")


def change_weights(folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """Rewrite a model folder's weights, as somebody does who means it: without checksums."""
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    weights = load_file(path)
    change(weights)
    save_file(weights, path, metadata={"format": "pt"})
    (folder / CHECKSUMS).unlink()
    return path


def test_weights_that_lack_a_parameter(stages: Stages, tmp_path: Path) -> None:
    lost = "cls_projection_head.dense_to_output.weight"
    path = change_weights(stages.models / "joint", lambda weights: weights.pop(lost))
    end = stages.ground(tmp_path / "result")
    end.refuses(path, lost)
    assert absent(tmp_path / "result")


def test_state_of_other_settings_is_kept(stages: Stages, tmp_path: Path) -> None:
    from cxrflow.training.state import StateFolder

    state = StateFolder(tmp_path / "state-model")
    state.claim({"model": "tiny", "settings": {"training": {}}})
    state.save(1, {"step": 1})
    end = stages.train_images(tmp_path / "model")
    end.refuses(
        tmp_path / "state-model",
        "other settings or data",
        "Delete the folder",
        "settings.training.batch_size: None -> 4",
    )
    assert absent(tmp_path / "model") and list((tmp_path / "state-model").glob("step-*.pt"))


def test_weights_that_are_not_finite(stages: Stages, tmp_path: Path) -> None:
    name = "bert.embeddings.word_embeddings.weight"
    path = change_weights(stages.models / "words", lambda weights: weights[name].mul_(math.nan))
    end = stages.train_sections(tmp_path / "model")
    end.refuses(path, f"{name} holds ", "numbers that are not finite")
    assert absent(tmp_path / "model") and no_state(tmp_path / "model")


def test_a_loss_that_is_not_finite_stops_a_training_with_the_batch(
    stages: Stages, tmp_path: Path
) -> None:
    # Finite itself, but products of two such numbers in the attention are not.
    name = "bert.embeddings.LayerNorm.weight"
    change_weights(stages.models / "words", lambda weights: weights[name].fill_(1e30))
    end = stages.train_sections(tmp_path / "model")
    end.refuses("tiny: term 'section_matching' is nan at step 0", "the batch begins with samples")
    assert absent(tmp_path / "model")


def test_packed_rows_have_no_sections_to_match(stages: Stages, tmp_path: Path) -> None:
    terms = {"section_matching": {}, "mlm": {}}
    settings = {"encoder": TEXT, "length": 48, "training": TRAINING, "terms": terms}
    end = program(
        "pretrain.text",
        settings,
        vocabulary=stages.vocabulary,
        tokens=stages.tokens,
        pairs=stages.cohort / "pairs.parquet",
        model="tiny",
        seed=0,
        state=tmp_path / "state",
        output=tmp_path / "model",
    )
    end.refuses("terms.section_matching", "--tokens", "expected null")
    assert absent(tmp_path / "model") and not (tmp_path / "state").exists()
