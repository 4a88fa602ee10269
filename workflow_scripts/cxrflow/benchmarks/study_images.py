"""Studies of a cohort of pairs: an image in the store, a text of its report."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from cxrflow.benchmarks.inputs import Cohort, Pixels, drop_rows, image_batches, read_cohort
from cxrflow.similarity.similarity import EncodedImages
from cxrflow.text.report_prompts import report_texts

COLUMNS = ("subject_id", "study_id", "image_id", "split", "findings", "impression")


@dataclass(frozen=True)
class Studies:
    """The studies of a split; ``table`` has ``sample_id`` and ``text`` beside the cohort's rows."""

    cohort: Cohort
    table: pd.DataFrame
    dropped: list[dict[str, Any]]


def read_studies(
    folder: Path, pixels: Pixels, sections: tuple[str, ...], split: str | None
) -> Studies:
    """The studies with an image in the store and text in one of the ``sections``."""
    cohort = read_cohort(folder, "pairs.parquet", COLUMNS, split)
    return Studies(cohort, *usable_studies(cohort.table, pixels, sections))


def usable_studies(
    rows: pd.DataFrame, pixels: Pixels, sections: tuple[str, ...]
) -> tuple[pd.DataFrame, list[dict[str, Any]]]:
    """The rows with an image in the store and a ``text``, and what was left out."""
    table = rows.assign(sample_id=rows["image_id"], text=report_texts(rows, sections))
    tests = {
        "no image": table["image_id"].isna(),
        "image is not in the pixel store": ~pixels.holds(table["image_id"].fillna("")),
        f"no text in {' or '.join(sections)}": table["text"] == "",
    }
    return drop_rows(table, tests)


@torch.inference_mode()
def encode_studies(
    model: Any, pixels: Pixels, table: pd.DataFrame, batch_size: int
) -> dict[str, Tensor]:
    """The studies' images as the model's similarity reads them, by kind of feature.

    A model that compares images sees priors.
    """
    batches = [
        EncodedImages.of(model.encode_image(frames))
        for _, frames in image_batches(pixels, table, batch_size, model.takes_prior)
    ]
    by_kind = {"projected": torch.cat([batch.embedding.cpu() for batch in batches])}
    if model.similarity.reads_patches:
        by_kind["patches"] = torch.cat([b.patches.cpu() for b in batches if b.patches is not None])
    return by_kind
