"""A tiny cohort of pictures and an encoder, for linear and fine-tuned classification."""

from argparse import Namespace

import numpy as np
import pandas as pd
import torch
from benchmark_fakes import QUICK, SIZE, make_store, result_of, write_cohort

from cxr_files.atomic import write_json
from cxrflow.benchmarks.classification.transfer import read_splits
from cxrflow.benchmarks.inputs import Cohort
from cxrflow.benchmarks.runner import inputs_of
from cxrflow.encoders.image_encoder import ImageEncoder, save_image_encoder
from cxrflow.encoders.settings import ResNetSettings

COUNT = 120
GEOMETRY = f"shorter{SIZE}"
TRUNK = {"block": "basic", "layers": [1, 1, 1, 1], "width": 8, "channels": 1, "projection": 16}
SHARES = {**QUICK, "geometry": GEOMETRY, "fractions": [0.2, 1.0], "run_seeds": [0, 3]}
LINEAR = {**SHARES, "learning_rate": 0.02, "batch_size": 16, "epochs": 25}
TUNED = {
    **SHARES,
    "fractions": [0.5],
    "warmup_steps": 5,
    "training": {
        "batch_size": 16,
        "epochs": 3,
        "validations": 3,
        "optimiser": {"name": "adam", "learning_rate": 1e-3, "weight_decay": 1e-6},
        "schedule": {"decay": "plateau", "warmup": 0, "factor": 0.5, "patience": 3},
        "stopping": {"keep": "best", "patience": 10, "monitor": "auroc", "mode": "max"},
    },
}


def make_world(folder):
    """A store of pictures, two of three with a bright square, and an encoder of random weights."""
    pixels = make_store(folder, COUNT)
    torch.manual_seed(0)
    image = ImageEncoder(ResNetSettings.model_validate(TRUNK))
    save_image_encoder(image, folder / "model")
    record = {"model": "tiny/model", "settings": {}, "data": {"geometry": "longer999"}}
    record |= {"learnt": None, "drawn": True}
    write_json(folder / "model/run.json", record)
    return Namespace(pixels=pixels, model=folder / "model")


def samples(labels):
    """A cohort's table: half to learn from, a sixth to choose by, a third to be scored on."""
    numbers = np.arange(COUNT)
    split = np.array(["train", "test", "train", "validate", "test", "train"])[numbers // 6 % 6]
    return pd.DataFrame(
        {
            "sample_id": [f"s{n}" for n in numbers],
            "subject_id": [f"p{n // 4}" for n in numbers],
            "group_id": [f"g{n // 2}" for n in numbers],
            "image_id": [f"image{n}" for n in numbers],
            "image_path": [f"pictures/image{n}.png" for n in numbers],
            "labels": list(np.asarray(labels, dtype=float)),
            "subgroup": None,
            "split": split,
        }
    )


def single():
    """Is there a square? A tenth is labelled wrong."""
    wrong = np.random.default_rng(1).random(COUNT) < 0.1
    return samples((((np.arange(COUNT) % 3 > 0) ^ wrong) * 1.0)[:, None])


def several():
    """Two classes of the square, one of chance, and a third of the labels unknown or uncertain."""
    rng, square = np.random.default_rng(2), np.arange(COUNT) % 3 > 0
    labels = np.stack([square, ~square, rng.random(COUNT) < 0.5], axis=1).astype(float)
    labels[rng.random(labels.shape) < 0.2] = np.nan
    labels[rng.random(labels.shape) < 0.1] = -1
    return samples(labels)


def exclusive():
    """No square, or one in either half of the numbers' places."""
    place = np.where(np.arange(COUNT) % 3 == 0, 0, 1 + (np.arange(COUNT) % 5 > 2))
    return samples(np.eye(3)[place])


CLASSES = {1: ["Square"], 3: ["Square", "Plain", "Chance"]}


def options(world, folder, table):
    classes = CLASSES[len(table["labels"].iloc[0])]
    cohort = write_cohort(folder / "cohort", "samples.parquet", table, classes)
    given = {"cohort": cohort, "model": world.model, "pixels": world.pixels}
    return Namespace(**given, state=folder / "state")


def splits_of(world, table, classes, settings):
    """The splits that a run of linear or of fine-tuned classification reads."""
    folders = Namespace(cohort=world.pixels, pixels=world.pixels)
    inputs = inputs_of("linear_classification", folders, settings)
    inputs.cohort = Cohort(table, {"fingerprint": "f"}, classes)
    return read_splits(inputs, settings)


def linear(world, folder, table, **values):
    return result_of("linear_classification", LINEAR | values, options(world, folder, table))


def tuned(world, folder, table, **values):
    return result_of("fine_tuned_classification", TUNED | values, options(world, folder, table))
