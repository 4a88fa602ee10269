"""Every model of every paper: its recipe is whole at each scale, and one step of it can be made."""

import json
from pathlib import Path

import pytest
import yaml
from programs import program
from tiny_hospital import FRAMES, IMAGE, TEXT, TRAINING, Stages

from cxrflow.command import overlay
from cxrflow.config import make_config
from cxrflow.config.schema import Config
from cxrflow.papers import paper_names

FILE = Path(__file__).parents[2] / "config.yaml"
ONE_STEP = {"training": {**TRAINING, "steps": 1, "epochs": None, "accumulate": 1}}
SIZES = {
    "text": {**ONE_STEP, "encoder": TEXT, "length": 48},
    "image": {**ONE_STEP, "encoder": IMAGE},
    "joint": {**ONE_STEP, "encoder": IMAGE, "length": 48},
    "temporal": {**ONE_STEP, "encoder": FRAMES, "length": 48},
    "caption": {
        **ONE_STEP,
        "encoder": {**IMAGE, "normalisation": "none"},  # of grey pixels
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
    recipe = DEMO.recipes[name]
    settings = DEMO.model(name).settings.model_dump(mode="json")
    return json.dumps(overlay(settings, SIZES[recipe.program]))


# Of models that differ in their sizes and starts alone, the first.
DISTINCT = {small(name): name for name in reversed(DEMO.recipes)}


@pytest.mark.parametrize("name", [*reversed(DISTINCT.values())])
def test_a_step_of_every_model(name: str, finished: Stages, tmp_path: Path) -> None:
    recipe, models = DEMO.recipes[name], finished.models
    inputs: dict[str, Path] = {}
    if recipe.program in ("text", "caption"):
        inputs["vocabulary"] = finished.vocabulary
    if recipe.program == "text":
        inputs |= {"tokens": finished.tokens} if recipe.corpora else {}
    else:
        inputs["pixels"] = finished.pixels
    start = models / ("joint" if recipe.program == "report" else "words")
    starts = {"start": start, "text": models / "sections", "image": models / "images"}
    inputs |= {option: starts[option] for option in recipe.parents}
    output, settings = tmp_path / "model", json.loads(small(name))
    end = program(
        f"pretrain.{recipe.program}",
        settings,
        pairs=finished.cohort / "pairs.parquet",
        **inputs,
        model=name,
        seed=0,
        state=tmp_path / "state",
        output=output,
    )
    end.succeeds()
    run = json.loads((output / "run.json").read_text())
    line = json.loads((output / "metrics.jsonl").read_text().splitlines()[0])
    assert run["model"] == name and settings["terms"].keys() <= line.keys()
