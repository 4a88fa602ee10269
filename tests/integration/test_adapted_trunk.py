"""An image encoder is trained further on images alone, from another model's trunk."""

import json
from pathlib import Path

import torch
from programs import program
from safetensors.torch import load_file
from tiny_hospital import AUGMENTATION, IMAGE, TRAINING, Stages

from cxrflow.pretrain.inputs import model_fingerprint

STANDING = {"optimiser": {"name": "sgd", "learning_rate": 1e-12, "weight_decay": 0.0}}


def test_simclr_starts_from_the_trunk_that_its_recipe_names(
    finished: Stages, tmp_path: Path
) -> None:
    start = finished.models / "images"
    settings = {
        "encoder": IMAGE,
        "augmentation": AUGMENTATION,
        "terms": {"simclr": {"hidden": 8, "output": 4}},
        "training": {**TRAINING, "steps": 1, **STANDING},
    }
    trunks = {"start": load_file(start / "image/model.safetensors")}
    for name, options in (("new", {}), ("adapted", {"image": start})):
        program(
            "pretrain.image",
            settings,
            pairs=finished.cohort / "pairs.parquet",
            pixels=finished.pixels,
            model="tiny",
            seed=1,
            state=tmp_path / f"state-{name}",
            output=tmp_path / name,
            **options,
        ).succeeds()
        trunks[name] = load_file(tmp_path / name / "image/model.safetensors")
    learnt = [name for name, value in trunks["start"].items() if value.dim() == 4]
    assert len(learnt) > 5
    for name in learnt:
        torch.testing.assert_close(trunks["adapted"][name], trunks["start"][name])
        assert not torch.allclose(trunks["new"][name], trunks["start"][name])
    runs = {
        name: json.loads((tmp_path / name / "run.json").read_text())
        for name in trunks
        if name != "start"
    }
    assert runs["adapted"]["data"]["image"] == model_fingerprint(start / "image")
    assert "image" not in runs["new"]["data"]
