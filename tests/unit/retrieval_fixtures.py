"""A small set for retrieval: pictures of three categories, queries that are images and texts."""

from pathlib import Path

import numpy as np
import pandas as pd
import torch
from benchmark_fakes import write_cohort

from cxrflow.benchmarks.features import Features
from cxrflow.images.store import PixelStore

CATEGORIES = ("Edema", "Pleural Effusion", "No Finding")
CANDIDATES, QUERIES = 36, 9


def retrieval_samples() -> pd.DataFrame:
    """Twelve candidates and three query images of each category; patients have two images."""
    numbers = np.arange(CANDIDATES + QUERIES)
    return pd.DataFrame(
        {
            "sample_id": [f"image{n}" for n in numbers],
            "subject_id": [f"p{n // 2}" for n in numbers],
            "image_id": [f"image{n}" for n in numbers],
            "part": ["candidate"] * CANDIDATES + ["query"] * QUERIES,
            "category": [CATEGORIES[n % 3] for n in numbers],
        }
    )


def retrieval_texts() -> pd.DataFrame:
    """Two texts of each category."""
    rows = [(f"{name}{n}", name, f"{name} is seen, {n}") for name in CATEGORIES for n in range(2)]
    return pd.DataFrame(rows, columns=["query_id", "category", "text"])


def write_retrieval(
    folder: Path, samples: pd.DataFrame | None = None, texts: pd.DataFrame | None = None
) -> Path:
    """The folder of a cohort of kind retrieval."""
    table = retrieval_samples() if samples is None else samples
    write_cohort(folder, "samples.parquet", table)
    (retrieval_texts() if texts is None else texts).to_parquet(folder / "queries.parquet")
    return folder


def category_features(noise: float, width: int = 16) -> Features:
    """Each category a direction, and noise."""
    table = retrieval_samples()
    rng = np.random.default_rng(2)
    directions = rng.normal(size=(len(CATEGORIES), width))
    drawn = directions[table["category"].map(CATEGORIES.index)]
    drawn = torch.tensor(drawn + noise * rng.normal(size=drawn.shape)).float()
    by_kind = {"pooled": drawn, "projected": torch.nn.functional.normalize(drawn, dim=1)}
    return Features(table[["image_id"]], by_kind, "shorter64", "pixels")


def bright_and_dark(pixels: Path, studies: pd.DataFrame) -> pd.DataFrame:
    """Studies whose texts are longer, and of other words, where the image is brighter than most.

    Every other one is of training.
    """
    store = PixelStore(pixels)
    brightness = store.read(store.rows(studies["image_id"])).mean(axis=(1, 2))
    many = "Bright and with many other words in it, one after another"
    words = np.where(brightness > np.median(brightness), many, "Dark")
    return studies.assign(
        impression=[f"{word} {n}" for n, word in enumerate(words)],
        split=["train", "test"] * (len(studies) // 2),
    )
