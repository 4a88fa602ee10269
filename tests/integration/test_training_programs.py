"""The four trainings, each killed by SIGKILL at random moments, against an undisturbed run.

CXR_KILLS sets how many kills each training suffers (3 by default, to keep the test short).
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

KILLS = int(os.environ.get("CXR_KILLS", "3"))
# Long enough that the last kill still finds the run training.
LONGER = max(2, KILLS)
STARTED = re.compile("starting: |resuming at step")
FINDINGS = ("effusion", "pneumothorax", "consolidation", "edema", "cardiomegaly")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
TRAINING = {
    "batch_size": 16,
    "precision": "fp32",
    "save_minutes": 0.001,
    "log_steps": 5,
    "optimiser": {"learning_rate": 1e-3},
}
TEXT = {
    "layers": 2,
    "width": 32,
    "heads": 4,
    "feed_forward": 64,
    "positions": 64,
    "projection": 16,
}
IMAGE = {"block": "basic", "layers": [1, 1, 1, 1], "width": 8, "channels": 1, "projection": 16}


def program(module: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", f"cxrflow.{module}", *map(str, arguments)]


def complete(command: list[str]) -> None:
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cohort of 80 small images with sentences, its pixel store, vocabulary and tokens."""
    folder = tmp_path_factory.mktemp("inputs")
    generator = np.random.default_rng(0)
    rows = []
    for number in range(80):
        name = FINDINGS[number % len(FINDINGS)]
        side = ("left", "right")[number % 2]
        Image.fromarray(generator.integers(0, 255, (48, 40), dtype=np.uint8)).save(
            folder / f"{number}.png"
        )
        findings = [f"There is a {side} {name}.", "The heart is normal.", "No fracture is seen."]
        impression = [f"New {side} {name}.", "No other finding."]
        rows.append(
            {
                "dataset": "toy",
                "subject_id": str(number),
                "study_id": str(number),
                "image_id": f"image{number}",
                "image_path": f"{number}.png",
                "view": "PA",
                "findings": " ".join(findings),
                "impression": " ".join(impression),
                "findings_sentences": findings,
                "impression_sentences": impression,
                "split": "validate" if number >= 64 else "train",
            }
        )
    pairs = pd.DataFrame(rows)
    cohort = folder / "cohort"
    cohort.mkdir()
    pairs.to_parquet(cohort / "pairs.parquet")
    pairs[["image_id", "image_path"]].to_parquet(cohort / "images.parquet")
    documents = pd.DataFrame(
        {
            "document_id": pairs["study_id"],
            "text": pairs["findings"] + " " + pairs["impression"],
            "split": pairs["split"],
        }
    )
    documents.to_parquet(cohort / "documents.parquet")
    flow = {"cohort": "toy", "dataset": "toy", "synthetic": True}
    (cohort / "flow.json").write_text(json.dumps(flow))
    complete(
        program(
            "images.store",
            "--root",
            folder,
            "--images",
            cohort / "images.parquet",
            "--geometry",
            "shorter32",
            "--threads",
            1,
            "--output",
            folder / "pixels",
        )
    )
    complete(
        program(
            "text.vocabulary",
            "--documents",
            cohort / "documents.parquet",
            "--settings",
            '{"size": 200}',
            "--output",
            folder / "vocabulary",
        )
    )
    complete(
        program(
            "text.tokens",
            "--documents",
            cohort / "documents.parquet",
            "--vocabulary",
            folder / "vocabulary",
            "--output",
            folder / "tokens",
        )
    )
    return folder


Command = Callable[[str, Path], list[str]]


def commands(inputs: Path, done: Path) -> dict[str, Command]:
    """Each training as a command of (name of the run, its folder)."""

    def places(name: str, folder: Path) -> list[object]:
        return [
            "--model",
            "toy",
            "--seed",
            0,
            "--state",
            folder / f"state-{name}",
            "--output",
            folder / name,
        ]

    def with_pairs(module: str, settings: dict[str, object], *more: object) -> Command:
        return lambda name, folder: program(
            module,
            "--settings",
            json.dumps(settings),
            "--pairs",
            inputs / "cohort" / "pairs.parquet",
            *more,
            *places(name, folder),
        )

    text = {"encoder": TEXT, "length": 48, "dropout": 0.25, "attention_dropout": 0.25}
    elastic = {"angle": 20, "elastic_probability": 0.5, "noise": 0.05, "crop_scale": [0.75, 1.0]}
    return {
        "phase II": with_pairs(
            "pretrain.text",
            {**text, "training": {**TRAINING, "epochs": 60 * LONGER}},
            "--vocabulary",
            inputs / "vocabulary",
            "--tokens",
            inputs / "tokens",
        ),
        "phase III": with_pairs(
            "pretrain.text",
            {**text, "training": {**TRAINING, "epochs": 30 * LONGER}, "rsm": {"weight": 1.0}},
            "--vocabulary",
            inputs / "vocabulary",
            "--start",
            done / "phase II",
        ),
        "SimCLR": with_pairs(
            "pretrain.image",
            {
                "encoder": IMAGE,
                "augmentation": elastic,
                "head_hidden": 32,
                "head_output": 16,
                "training": {
                    **TRAINING,
                    "epochs": 40 * LONGER,
                    "optimiser": {"name": "adam", "learning_rate": 1e-3, "lars": True},
                },
            },
            "--pixels",
            inputs / "pixels",
        ),
        "joint": with_pairs(
            "pretrain.joint",
            {
                "encoder": IMAGE,
                "augmentation": elastic,
                "length": 48,
                "training": {**TRAINING, "epochs": 25 * LONGER, "stopping": {"keep": "best"}},
            },
            "--pixels",
            inputs / "pixels",
            "--text",
            done / "phase III",
            "--image",
            done / "SimCLR",
        ),
    }


@pytest.fixture(scope="module")
def undisturbed(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    for name, command in commands(inputs, folder).items():
        complete(command(name, folder))
    return folder


def killed_at_random(command: list[str], generator: random.Random) -> str | None:
    """Start, wait until it trains, kill at a random moment; what it said when it began.

    None when the run came to its end before the kill.
    """
    process = subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    begun = next((line for line in process.stderr if STARTED.search(line)), "")
    time.sleep(generator.uniform(0.1, 2.0))
    process.kill()
    process.communicate()
    return begun if process.returncode == -signal.SIGKILL else None


@pytest.mark.parametrize("name", ["phase II", "phase III", "SimCLR", "joint"])
def test_killed_training_ends_with_the_same_weights(
    name: str, inputs: Path, undisturbed: Path, tmp_path: Path
) -> None:
    command = commands(inputs, undisturbed)[name](name, tmp_path)
    generator = random.Random(name)
    begun = [killed_at_random(command, generator) for _ in range(KILLS)]
    killed = [line for line in begun if line is not None]
    assert len(killed) > KILLS // 2, "the runs are too short for this machine"
    assert any("resuming at step" in line for line in killed), killed
    complete(command)
    compared = 0
    for weights in sorted((undisturbed / name).rglob("*.safetensors")):
        again = load_file(tmp_path / name / weights.relative_to(undisturbed / name))
        for key, value in load_file(weights).items():
            assert torch.equal(value, again[key]), key
            compared += 1
    assert compared > 10
    assert not (tmp_path / f"state-{name}").exists()


def test_joint_model_folder_is_complete(undisturbed: Path) -> None:
    import cxrflow

    model = cxrflow.load(undisturbed / "joint")
    assert model.geometry == "shorter32"
    pixels = torch.rand(2, 1, 32, 32)
    texts = ["New left effusion.", "No other finding."]
    similarity = model.similarity_map(pixels, texts)
    assert similarity.shape == (2, 1, 1) and similarity.abs().max() <= 1 + 1e-6
    image = model.encode_image(pixels).projected_global
    torch.testing.assert_close(image.norm(dim=1), torch.ones(2))
    run = json.loads((undisturbed / "joint" / "run.json").read_text())
    assert run["data"]["synthetic"] is True and run["samples_per_second"] > 0
    lines = [
        json.loads(line)
        for line in (undisturbed / "joint" / "metrics.jsonl").read_text().splitlines()
    ]
    steps = [line["step"] for line in lines if line["split"] == "train"]
    assert steps == sorted(set(steps)), "no line is written twice"
