"""Studies of a cohort of pairs: an image in the store, a text of its report."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pandas as pd
import torch
from torch import Tensor

from cxrflow.benchmarks.inputs import Pixels, drop_rows, image_batches
from cxrflow.similarity.similarity import EncodedImages
from cxrflow.text.report_prompts import report_texts

STUDY = ("subject_id", "study_id", "image_id", "split", "findings", "impression")


class Studies(NamedTuple):
    """Studies with an image and a text, and how many others there are and why."""

    table: pd.DataFrame  # with ``sample_id`` and ``text`` beside the cohort's columns
    dropped: list[dict[str, Any]]


def usable_studies(rows: pd.DataFrame, pixels: Pixels, sections: tuple[str, ...]) -> Studies:
    """Return the rows with an image in the store and text in one of the ``sections``."""
    table = rows.assign(sample_id=rows["image_id"], text=report_texts(rows, sections))
    tests = {
        "no image": table["image_id"].isna(),
        "image is not in the pixel store": ~pixels.holds(table["image_id"].fillna("")),
        f"no text in {' or '.join(sections)}": table["text"] == "",
    }
    return Studies(*drop_rows(table, tests))


def encoded_batches(
    model: Any, pixels: Pixels, table: pd.DataFrame, batch_size: int
) -> Iterator[EncodedImages]:
    """The studies' images as the model's similarity compares them, as they come."""
    for _, frames in image_batches(pixels, table, batch_size, model.takes_prior):
        yield EncodedImages.of(model.encode_image(frames))


@torch.inference_mode()
def encode_studies(
    model: Any, pixels: Pixels, table: pd.DataFrame, batch_size: int
) -> dict[str, Tensor]:
    """The same, all of them, by kind of feature: what the model's similarity reads of images."""
    batches = [*encoded_batches(model, pixels, table, batch_size)]
    by_kind = {"projected": torch.cat([batch.embedding.cpu() for batch in batches])}
    if model.similarity.reads_patches:
        by_kind["patches"] = torch.cat([b.patches.cpu() for b in batches if b.patches is not None])
    return by_kind
