"""Every model of every paper: its recipe is whole at each scale, and one step of it can be made."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from programs import program
from tiny_hospital import FRAMES, IMAGE, TEXT, TRAINING, Stages

from cxr_files.settings import overlay
from cxrflow.config import make_config
from cxrflow.config.configuration import Config
from cxrflow.encoders.image_encoder import load_image_encoder, read_image_settings
from cxrflow.encoders.released.settings import ImportSettings
from cxrflow.models.model import Model
from cxrflow.papers import paper_names
from cxrflow.pretrain.imported import import_weights
from cxrflow.programs.source_code import code_digest
from released_files import write_clip
from small_sizes import VIT

# In the first step, and of the same pairs whatever is made of them.
MIXING = {"terms": {"cutmix": {"pairs": 40, "layer": 1, "warmup_epochs": 0, "control": None}}}
FILE = Path(__file__).parents[2] / "config.yaml"
ONE_STEP = {"training": {**TRAINING, "steps": 1, "epochs": None, "accumulate": 1}}
GREY = {**IMAGE, "normalisation": "none"}
# Of pictures of 64 pixels; another kind than the encoder they could start from.
SQUARES = {**VIT, "patch": 16, "channels": 3, "projection_head": {"hidden": 16}}
VIEWS = {"augmentation": {"size": 64}}
TRANSFORMER = {**ONE_STEP, "encoder": {**VIT, "patch": 16, "channels": 3}, **VIEWS}
SIZES: dict[str, Any] = {
    "initial": {"encoder": GREY},
    "supervised": {**ONE_STEP, "encoder": GREY},
    "text": {**ONE_STEP, "encoder": TEXT, "length": 48},
    "image": {**ONE_STEP, "encoder": GREY, "ghost_batch": None},
    "joint": {**ONE_STEP, "encoder": GREY, "length": 48},
    "studies": {**ONE_STEP, "encoder": GREY, "length": 48},
    "image_reports": {
        "training": {**ONE_STEP["training"], "stopping": {"monitor": "loss", "mode": "min"}},
        **{"encoder": SQUARES, "length": 48, "ghost_batch": None, **VIEWS},
    },
    "temporal": {**ONE_STEP, "encoder": FRAMES, "length": 48},
    "caption": {
        **ONE_STEP,
        "encoder": GREY,
        "decoder": {"report_length": 24, "width": 16},
        "written_validation": 2,
    },
    "report": {**ONE_STEP, "decoder": {"length": 48, "report_length": 24}, "written_validation": 2},
}


def configuration(scale: str) -> Config:
    """Every paper of ours at a scale."""
    changed = {"papers": paper_names(), "scale": scale, "extent": "all"}
    return make_config({**yaml.safe_load(FILE.read_text()), **changed}, [FILE])


DEMO = configuration("demo")


def small(name: str) -> str:
    """A model's settings but for its sizes."""
    recipe = DEMO.models[name].recipe
    settings = DEMO.models[name].settings.model_dump(mode="json")
    settings.pop("training_share", None)  # a size
    is_transformer = settings.get("encoder", {}).get("kind") == "vit"
    alone = is_transformer and recipe.program in ("supervised", "image")
    mixing = MIXING if (settings.get("terms") or {}).get("cutmix") else {}
    sizes = TRANSFORMER if alone else SIZES[recipe.program]
    if recipe.program == "image_reports" and not is_transformer:
        sizes = {**sizes, "encoder": {**GREY, "projection_head": {"hidden": 16}}}
    return json.dumps(overlay(overlay(settings, sizes), mixing))


CLIP = "low_data/clip_released"  # published weights, which nothing trains
# Of models that differ in their sizes and starts alone, the first.
DISTINCT = {small(name): name for name in reversed(list(DEMO.models)) if not name.startswith(CLIP)}


def labelled(cohort: Path, folder: Path, classes: list[str]) -> Path:
    """The images of a cohort of pairs, each of one of the classes."""
    pairs = pd.read_parquet(cohort / "pairs.parquet").dropna(subset="image_id")
    labels = list(np.eye(len(classes))[np.arange(len(pairs)) % len(classes)])
    samples = pairs[["subject_id", "image_id", "split"]]
    samples = samples.assign(sample_id=pairs["image_id"], labels=labels)
    samples.to_parquet(folder / "samples.parquet")
    flow = json.loads((cohort / "flow.json").read_text()) | {"classes": classes}
    (folder / "flow.json").write_text(json.dumps(flow))
    return folder / "samples.parquet"


def labelled_pairs(cohort: Path, folder: Path, classes: list[str]) -> Path:
    """A cohort of pairs in which every image has all of the classes."""
    pairs = pd.read_parquet(cohort / "pairs.parquet")
    pairs = pairs.assign(labels=[np.ones(len(classes))] * len(pairs))
    pairs.to_parquet(folder / "pairs.parquet")
    flow = json.loads((cohort / "flow.json").read_text()) | {"classes": classes}
    (folder / "flow.json").write_text(json.dumps(flow))
    return folder / "pairs.parquet"


@pytest.mark.parametrize("name", [*reversed(DISTINCT.values())])
def test_a_step_of_every_model(name: str, finished: Stages, tmp_path: Path) -> None:
    recipe, models = DEMO.models[name].recipe, finished.models
    inputs: dict[str, Any] = {"pairs": finished.cohort / "pairs.parquet"}
    if recipe.program in ("text", "caption"):
        inputs["vocabulary"] = finished.vocabulary
    if recipe.program == "text":
        inputs |= {"tokens": finished.tokens} if recipe.corpora else {}
    else:
        inputs["pixels"] = finished.pixels
    if recipe.program == "supervised":
        findings = json.loads(small(name))["terms"].get("findings") or {}
        classes = findings.get("classes", ["even", "odd"])
        inputs["pairs"] = labelled(finished.cohort, tmp_path, classes)
    elif recipe.program == "initial":
        inputs = {"geometry": "shorter64"}
    start = models / ("joint" if recipe.program == "report" else "words")
    starts = {"start": start, "text": models / "sections", "image": models / "images"}
    output, settings = tmp_path / "model", json.loads(small(name))
    if mixing := (settings.get("terms") or {}).get("cutmix"):
        inputs["pairs"] = labelled_pairs(finished.cohort, tmp_path, mixing["classes"])
    if settings.get("encoder", {}).get("kind") == "vit":
        starts.pop("image")
    inputs |= {option: starts[option] for option in recipe.parents if option in starts}
    if recipe.program != "initial":
        inputs["state"] = tmp_path / "state"
    made = {**inputs, "model": name, "seed": 0, "output": output}
    program(f"pretrain.{recipe.program}", settings, **made).succeeds()
    run = json.loads((output / "run.json").read_text())
    if recipe.program == "initial":
        assert run["model"] == name and "permuted_pairs" not in run
        kept = recipe.image is not None and settings["encoder"].get("kind") != "multi_image"
        assert run["drawn"] is not kept  # a trunk that compares has more than what it starts from
        assert load_image_encoder(output, trunk_alone=True).projector is None
        return
    line = json.loads((output / "metrics.jsonl").read_text().splitlines()[0])
    terms = {term for term, values in settings["terms"].items() if values is not None}
    assert run["model"] == name and terms <= line.keys()
    if recipe.program != "report":  # here it starts from another kind of encoder
        # What the workflow watches, but for the task that selects weights: here the loss does.
        selecting = "pretrain.validation.selection", "benchmarks."
        code = [module for module in DEMO.models[name].code if not module.startswith(selecting)]
        assert run["codes"] == [code_digest(*code)]


def test_a_step_from_the_published_clip(finished: Stages, tmp_path: Path) -> None:
    """Both encoders go on from the imported folder, the attention pooling as well."""
    write_clip(tmp_path / "published")
    import_weights(
        "clip",
        *(tmp_path / "published", None, ImportSettings(geometry="square64")),
        *("low_data/clip_released", 0, tmp_path / "clip"),
    )
    settings = configuration("paper").models["low_data/clip"].settings.model_dump(mode="json")
    imported = read_image_settings(tmp_path / "clip/image/config.json").model_dump(mode="json")
    settings |= {**ONE_STEP, "encoder": imported, "ghost_batch": None}
    inputs = {"pairs": finished.cohort / "pairs.parquet", "pixels": finished.pixels}
    inputs |= {"text": tmp_path / "clip", "image": tmp_path / "clip"}
    folders = {"state": tmp_path / "state", "output": tmp_path / "model"}
    program(
        "pretrain.joint", settings, **inputs, **folders, model="low_data/clip", seed=0
    ).succeeds()
    start, trained = Model.load(tmp_path / "clip"), Model.load(tmp_path / "model")
    rates = [
        (old - new).abs().max()
        for half in ("text_encoder", "image_encoder")
        for old, new in zip(
            getattr(start, half).parameters(), getattr(trained, half).parameters(), strict=True
        )
    ]
    assert all(0 <= rate < 1e-2 for rate in rates) and max(rates) > 0
    assert trained.encode_text(["No pleural effusion"]).shape == (1, 24)


FURTHER = """
models:
  "{method}_further":
    vary:
      method:
        biovil: {extends: biovil/biovil}
        convirt: {extends: convirt/convirt}
    settings:
      augmentation: {second_crop: {}}
      text_augmentation: {}
      terms:
        multi_view: {weight: 0.2}
        neighbours: {weight: 0.2, start: random}
"""


@pytest.mark.parametrize("method", ["biovil", "convirt"])
def test_a_file_adds_further_pairs_to_a_method(method, finished, tmp_path):
    """Second views, augmented texts and nearest neighbours, without a line of code."""
    file = tmp_path / "mine.yaml"
    file.write_text(FURTHER)
    values = yaml.safe_load(FILE.read_text()) | {"papers": [str(file)], "scale": "demo"}
    config = make_config(values, [FILE])
    name = f"mine/{method}_further"
    recipe, models = config.models[name].recipe, finished.models
    settings = overlay(config.models[name].settings.model_dump(mode="json"), SIZES[recipe.program])
    inputs = {"pairs": finished.cohort / "pairs.parquet", "pixels": finished.pixels}
    inputs |= {"text": models / "sections", "image": models / "images"}
    folders = {"state": tmp_path / "state", "output": tmp_path / "model"}
    program(
        f"pretrain.{recipe.program}", settings, **inputs, **folders, model=name, seed=0
    ).succeeds()
    line = json.loads((tmp_path / "model/metrics.jsonl").read_text().splitlines()[0])
    plain = DEMO.models[f"{method}/{method}"].settings.terms.named()
    assert {*plain, "multi_view", "neighbours"} <= line.keys()
    run = json.loads((tmp_path / "model/run.json").read_text())
    assert run["codes"] == [code_digest(*config.models[name].code)]
