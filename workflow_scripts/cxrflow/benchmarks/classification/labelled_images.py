"""What the classifications on RSNA start from: labelled images, their features, class prompts."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import Tensor

from cxrflow.benchmarks.classification.settings import PneumoniaSettings, PromptAverage
from cxrflow.benchmarks.features import Features
from cxrflow.benchmarks.inputs import drop_rows, model_benchmark_parser
from cxrflow.errors import InputError

COLUMNS = ("sample_id", "subject_id", "image_id", "label", "class")
SHOWN = ("sample_id", "subject_id", "image_id", "class", "label")  # of a prediction's table


def classification_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with the model, the cohort, the features and the result folder."""
    made = model_benchmark_parser(description)
    made.add_argument("--cohort", type=Path, required=True, help="results/cohorts/<cohort>")
    made.add_argument(
        "--features", type=Path, required=True, help="results/features/<m>/seed<k>/<cohort>"
    )
    return made


def labelled_images(
    table: pd.DataFrame, features: Features
) -> tuple[pd.DataFrame, list[dict[str, Any]]]:
    """The samples with a label and features (their place is the column ``row``), and the others.

    InputError when no sample is left, or the labels are not 0 and 1.
    """
    rows = features.rows(table["image_id"].tolist())
    tests = {
        "image is not in the pixel store": rows < 0,
        "label is missing": table["label"].isna(),
    }
    samples, dropped = drop_rows(table.assign(row=rows), tests)
    samples["label"] = samples["label"].astype(int)
    if sorted(samples["label"].unique()) != [0, 1]:
        found = sorted(samples["label"].unique())
        raise InputError(f"samples.parquet: column 'label' has {found}; want 0, 1")
    return samples, dropped


def features_of(samples: pd.DataFrame, features: Features, kind: str) -> Tensor:
    """The features [N, F] of samples with a ``row``; InputError when there are none of a kind."""
    if kind not in features.by_kind:
        raise InputError(
            f"features.safetensors: '{kind}' is missing; found {', '.join(features.by_kind)}"
        )
    return features.by_kind[kind][samples["row"].tolist()]


def class_embedding(
    model: Any, prompts: Sequence[str], average: PromptAverage = "normalised"
) -> NDArray[np.float64]:
    """Embedding [P] of a class: the mean of its prompts' embeddings, of length one again.

    ``average`` "raw" takes the mean before each prompt is brought to length one.
    """
    texts = list(prompts)
    raw = average == "raw"
    embedded = model.encode_text(texts, normalise=False) if raw else model.encode_text(texts)
    mean = embedded.double().cpu().numpy().mean(axis=0)
    return np.asarray(mean / np.linalg.norm(mean))


def class_embeddings(model: Any, settings: PneumoniaSettings) -> NDArray[np.float64]:
    """Embeddings [2, P] of the negative and the positive class."""
    prompts = (settings.negative_prompts, settings.positive_prompts)
    return np.stack([class_embedding(model, texts, settings.prompt_average) for texts in prompts])
