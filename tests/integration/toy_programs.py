"""The trainings at toy size: their inputs and their commands."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

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
# Several cells of 32 pixels: words choose between patches.
FINER = {**IMAGE, "dilate": [False, True, True]}
HEAD = {"hidden": 32, "output": 16}
QUEUE = {**HEAD, "queue": 40, "momentum": 0.9}  # no multiple of a batch
# GLoRIA's local term beside what ConVIRT changes of joint training.
WITH_WORDS: dict[str, Any] = {
    "terms": {
        "global_alignment": {"image_to_text": 0.75},
        "local_alignment": {"layers": 2},
        "mlm": {},
    },
    "text": "sentence",
    "text_pooling": "max",
    "frozen_layers": 1,
}


def program(module: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", f"cxrflow.{module}", *map(str, arguments)]


def complete(command: list[str]) -> None:
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def write_inputs(folder: Path) -> None:
    """A cohort of 80 small images with sentences, its pixel store, vocabulary and tokens."""
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
            "images.store_pixels",
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


Command = Callable[[str, Path], list[str]]


def commands(inputs: Path, done: Path, length: int = 1) -> dict[str, Command]:
    """Each training as a command of (name of the run, its folder); ``length`` times as long."""

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
    images = {"encoder": IMAGE, "augmentation": elastic}
    joint = {
        **images,
        "terms": {"global_alignment": {}, "mlm": {}},
        "length": 48,
        "training": {
            **TRAINING,
            "epochs": 25 * length,
            "stopping": {"keep": "best"},
            "deterministic": True,
        },
    }
    started = [
        *("--pixels", inputs / "pixels"),
        *("--text", done / "phase III", "--image", done / "SimCLR"),
    ]
    return {
        "phase II": with_pairs(
            "pretrain.text",
            {**text, "training": {**TRAINING, "epochs": 60 * length}, "terms": {"mlm": {}}},
            "--vocabulary",
            inputs / "vocabulary",
            "--tokens",
            inputs / "tokens",
        ),
        "phase III": with_pairs(
            "pretrain.text",
            {
                **text,
                "training": {**TRAINING, "epochs": 30 * length},
                "terms": {"section_matching": {}, "mlm": {}},
            },
            "--vocabulary",
            inputs / "vocabulary",
            "--start",
            done / "phase II",
        ),
        "SimCLR": with_pairs(
            "pretrain.image",
            {
                **images,
                "terms": {"simclr": HEAD},
                "training": {
                    **TRAINING,
                    "epochs": 40 * length,
                    "optimiser": {"name": "adam", "learning_rate": 1e-3, "lars": True},
                },
            },
            "--pixels",
            inputs / "pixels",
        ),
        "MoCo": with_pairs(
            "pretrain.image",
            {
                **images,
                "terms": {"momentum_contrast": QUEUE},
                "training": {**TRAINING, "epochs": 40 * length},
            },
            "--pixels",
            inputs / "pixels",
        ),
        "joint": with_pairs("pretrain.joint", joint, *started),
        "joint with words": with_pairs(
            "pretrain.joint", {**joint, **WITH_WORDS, "encoder": FINER}, *started
        ),
    }
