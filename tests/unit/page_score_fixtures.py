"""Scores, pictures and tables of a results folder for tests of the page.

Numbers are drawn from seeded generators; tables, comparisons and pictures are made by the programs
that make them.
"""

import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from label_fixtures import given_like, write_corpus

from cxr_files.atomic import write_json, write_sealed
from cxrflow.benchmarks.data import label_agreement
from cxrflow.benchmarks.data.ms_cxr_statistics import BACKGROUND, FINDINGS, TOTAL
from cxrflow.benchmarks.grounding.pictures import draw_pair
from cxrflow.config.configuration import Config
from cxrflow.config.label_comparisons import ReferenceLabels
from cxrflow.names import short_name
from cxrflow.papers import load_paper
from cxrflow.show.tables import make_table, orderings

SCORES = {
    "phrase_grounding": {"cnr": 1.27, "miou": 0.243},
    "zero_shot_classification": {
        "auroc": 0.871, "accuracy": 0.79, "sensitivity": 0.83, "specificity": 0.77, "f1": 0.72,
    },
    "linear_probe": {
        f"{name}/{share}": value
        for share in (1, 10, 100)
        for name, value in (("auroc", 0.9), ("accuracy", 0.8), ("f1", 0.7))
    },
    "segmentation": {
        f"{name}{share}": value
        for share in ("", "/5", "/100")
        for name, value in (("iou", 0.36), ("dice", 0.5), ("cnr", 1.5))
    },
    "mask_prediction": {"mask_accuracy": 0.764, "most_frequent_accuracy": 0.09, "margin": 0.674},
    "natural_language_inference": {"accuracy": 0.6, "accuracy_sd": 0.02, "majority": 0.7},
    "sentence_similarity": {"syn_sim": 0.85, "cont_gap": 0.8, "auroc": 0.93},
    "pair_retrieval": {
        f"{name}/{direction}": value
        for direction in ("image_to_text", "text_to_image")
        for name, value in (
            ("recall/1", 0.2), ("recall/5", 0.4), ("recall/10", 0.6),
            ("other_study/recall/10", 0.1), ("median_rank", 7.0),
        )
    },
    "retrieval_auroc": {
        f"{name}/global": value
        for name, value in (
            ("auroc", 0.7), ("other_study/auroc", 0.5),
            ("query_auroc/image_to_text", 0.72), ("query_auroc/text_to_image", 0.71),
        )
    },
    "fold_probe": {"balanced_accuracy": 0.7, "auroc": 0.76, "auroc/edema": 0.8},
    "zero_shot_findings": {"auroc": 0.81, "auroc/edema": 0.9},
}  # fmt: skip


# How much of the leading model's score the others have.
WORSE = {"biovil": 1.0, "baseline_phase2": 0.78, "biovil_shuffled_pairs": 0.58, "cxr_bert": 0.97}
PHRASES = {
    "Pleural Effusion": "Moderate left pleural effusion",
    "Pneumothorax": "Small right apical pneumothorax",
    "Consolidation": "Consolidation in the right lower lobe",
}


def _estimate(value: float, n: int) -> dict[str, Any]:
    return {"value": value, "low": 0.94 * value, "high": 1.05 * value, "n": n}


def _write_metrics(
    root: Path, config: Config, task: str, place: str, model: str, seed: int, metrics: Any
) -> None:
    resolved = config.tasks[task]
    dataset = config.cohorts[resolved.task.cohort].dataset
    content = {"task": task, "benchmark": resolved.task.benchmark, "model": model, "seed": seed}
    content["learnt"] = None if not place or "/reference/" in place else True
    content["data"] = {
        "name": dataset, "synthetic": config.data.drawn(dataset), "fingerprint": "77aa",
    }  # fmt: skip
    protocol = resolved.settings.model_dump(mode="json")
    write_json(
        root / f"benchmarks/{task}{place}/metrics.json",
        content | {"protocol": protocol, "metrics": metrics},
    )


def write_scores(root: Path, config: Config, task: str, name: str, seed: int) -> None:
    """What a task finds of a model: worse than the leading one's, better with a higher seed."""
    benchmark = config.library.tasks[task].benchmark
    folder = root / f"benchmarks/{task}/{name}/seed{seed}"
    factor = WORSE.get(short_name(name), 0.5) * (1 + 0.02 * seed)
    metrics = {key: _estimate(value * factor, 400) for key, value in SCORES[benchmark].items()}
    settings = config.tasks[task].settings.model_dump(mode="json")
    if benchmark == "phrase_grounding":
        for number, finding in enumerate(settings["categories"]):
            slug = "_".join(finding.lower().split())
            metrics[f"cnr/{slug}"] = _estimate((1.7 - 0.12 * number) * factor, 31)
            metrics[f"miou/{slug}"] = _estimate((0.32 - 0.02 * number) * factor, 31)
    _write_metrics(root, config, task, f"/{name}/seed{seed}", name, seed, metrics)
    if benchmark == "zero_shot_classification":
        generator = np.random.default_rng([seed, 5])
        labels = (generator.random(400) < 0.33).astype(int)
        scores = generator.normal(1.6 * factor * labels, 1.0)
        pd.DataFrame({"label": labels, "score": scores}).to_parquet(folder / "predictions.parquet")
    if benchmark == "phrase_grounding" and settings["figures"]:
        _pictures(folder / "figures")


def _pictures(folder: Path) -> None:
    """For each phrase pictures with a box, and a map that is on it, nearby or far off."""
    folder.mkdir(parents=True)
    entries: list[dict[str, Any]] = []
    for finding, phrase in PHRASES.items():
        for rank, far in (("best", 0), ("median", 12), ("worst", 60)):
            file = f"{len(entries):02d}_{finding.lower().replace(' ', '_')}_{rank}.png"
            (folder / file).write_bytes(_pair(far))
            caption = (
                f"{rank.capitalize()} by CNR of {finding}. CNR 1.20, mIoU 0.21; cosine from -0.11."
            )
            named = {"file": file, "title": f"{finding}: {phrase}", "caption": caption}
            entries.append(named | {"category": finding, "cnr": 1.2, "order": len(entries)})
    write_json(folder / "examples.json", entries)


@cache
def _pair(far: int) -> bytes:
    """A radiograph with a box beside its map, whose peak is so many pixels off; PNG."""
    rows, columns = np.mgrid[0:128, 0:128]
    heat = np.exp(-(((columns - 64 + far) / 30) ** 2) - ((rows - 64) / 30) ** 2)
    return draw_pair((rows + columns).astype(np.uint8), heat, np.array([[50.0, 50, 28, 28]]))


def write_counts(root: Path, config: Config, task: str) -> None:
    """What is measured without a model: the vocabularies, or the statistics of MS-CXR."""
    settings = config.tasks[task].settings.model_dump(mode="json")
    benchmark = config.library.tasks[task].benchmark
    if benchmark == "vocabulary":
        metrics: dict[str, Any] = {"words": _estimate(51.2, 442)}
        for name in map(short_name, config.whole.vocabularies):
            metrics[f"tokens/{name}"] = _estimate(55.9, 442)
            metrics[f"increase/{name}"] = _estimate(0.091, 442)
            metrics[f"unknown/{name}"] = _estimate(0.0, 442)
            metrics[f"size/{name}"] = _estimate(2000, 1)
            for word in settings["words"]:
                spelling = "✓" if word != "bibasilar" else "bi-bas-ilar"
                metrics[f"spelling/{name}/{word}"] = {
                    "value": spelling, "low": None, "high": None, "n": 1,
                }  # fmt: skip
    else:
        names = ("pairs", "images", "subjects", "women", "women_percent", "age", "age_sd", "tokens")
        counted = {"value": 61.0, "low": None, "high": None, "n": 61}
        metrics = {f"{name}/{row}": counted for name in names for row in (*FINDINGS, TOTAL)}
        metrics |= {f"{name}/{BACKGROUND}": counted for name in names if name in names[2:-1]}
    _write_metrics(root, config, task, "", benchmark, 0, metrics)


def _tests(output: Path, config: Config, paper: str, table: str) -> list[str]:
    """Paired tests of the rows of a table, as the option that takes them."""
    asked = config.results[paper].comparisons(table)
    if not asked:
        return []
    entries = [
        one.model_dump()
        | {"difference": -0.2, "difference_low": -0.4, "difference_high": -0.01, "reason": None}
        | {
            "seeds": 3,
            "p": (0.3, 0.04, 0.0004)[number % 3],
            "p_holm": (0.6, 0.2, 0.004)[number % 3],
        }
        for number, one in enumerate(asked)
    ]
    path = output.with_name(f"{output.name}.tests.json")
    write_sealed(path, {"protocol": {"level": 0.95}, "cells": [], "comparisons": entries})
    return ["--tests", str(path)]


def write_agreement(root: Path, config: Config, given: ReferenceLabels) -> None:
    """A comparison by the program itself, of reports that differ from what is given now and then.

    A third of them say so in a way that is read otherwise, a few in a way that is not read.
    """
    generator = np.random.default_rng(7)
    reports, changes = {}, {}
    for number in range(120):
        study = f"5{number:07d}"
        kind = int(generator.integers(0, 6))
        sentences = [
            ["Small left pleural effusion.", "No pneumothorax."],
            ["No acute cardiopulmonary process."],
            ["Mild pulmonary edema.", "Cardiomegaly."],
            ["Findings suggestive of pneumonia."],
            ["No pneumothorax.", f"Ill-defined shadow number {number % 3} in the left lung."],
            ["Opacity that may represent atelectasis.", "No pleural effusion."],
        ][kind]
        reports[study] = sentences
        if kind == 3:
            changes[f"s{study}"] = {"Pneumonia": -1.0}
        if kind == 4:
            changes[f"s{study}"] = {"Lung Opacity": 1.0, "No Finding": np.nan}
    with tempfile.TemporaryDirectory() as folder:
        drawn = config.data.drawn(given.dataset)
        corpus = write_corpus(
            Path(folder, "corpus"), reports, dataset=given.dataset, synthetic=drawn
        )
        table = given_like(corpus, **changes)
        ours = label_agreement.CorpusLabels.read(corpus)
        settings = given.settings
        made = label_agreement.compare(ours, table.iloc[:-2], given.reference, settings)
        output = root / "benchmarks/label_agreement" / given.dataset / given.reference
        label_agreement.write(output, *made, engine="scope")


def _files(root: Path, config: Config, cells: Iterable[tuple[str, str | None]]) -> list[str]:
    """Results as the option that takes them."""
    files = [
        root / "benchmarks" / task / ("" if model is None else f"{model}/seed{seed}")
        for task, model in cells
        for seed in ([0] if model is None else config.models.seeds_of(model))
    ]
    return ["--metrics", *(str(file / "metrics.json") for file in files)] if files else []


def _source(config: Config, paper: str) -> str:
    (source,) = (source for source in config.values.papers if load_paper(source).name == paper)
    return source


def write_table(root: Path, config: Config, paper: str, table: str) -> None:
    """A table, by the program itself."""
    output = root / f"tables/{paper}/{table}"
    named = _files(root, config, config.results[paper].cells(table))
    named += [*_tests(output, config, paper, table), "--output", str(output)]
    make_table.main(["--paper", _source(config, paper), "--table", table, *named])


def write_rankings(root: Path, config: Config, paper: str) -> None:
    """What a paper claims, by the program itself."""
    cells = {one: None for table in config.results[paper].tables() for one in
             config.results[paper].cells(table)}  # fmt: skip
    named = [*_files(root, config, cells), "--output", str(root / f"tables/{paper}/orderings")]
    orderings.main(["--paper", _source(config, paper), *named])
