"""A results folder for tests of the page, made from a configuration by no training at all.

Everything has the shape its stage writes; numbers are drawn from seeded generators. Scores,
pictures and tables: page_score_fixtures.
"""

import json
import re
from collections.abc import Sequence
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
from page_score_fixtures import (
    write_agreement,
    write_counts,
    write_rankings,
    write_scores,
    write_table,
)

from cxr_files.atomic import SEAL, read_json, write_json, write_sealed
from cxr_files.settings import overlay
from cxr_labels.observations import OBSERVATIONS
from cxrflow.config import load_config, make_config
from cxrflow.config.configuration import Config
from cxrflow.names import short_name
from cxrflow.show.page.page import build_pages

ROOT = Path(__file__).parents[2]
# Real, public data in the place of MIMIC-CXR: reports of one set, radiographs of another.
REAL: dict[str, Any] = {
    "synthetic_hospital": None,
    "papers": ["biovil"],
    "datasets": {
        "open_i": {"root": "/data/public/open_i", "in_place_of": "mimic_cxr"},
        "covid_chestxray": {"root": "/data/public/covid_chestxray"},
    },
    "cohorts": {
        "biovil/mimic_cxr_reports": {"require": ["findings", "impression"]},
        "biovil/mimic_cxr": {"dataset": "covid_chestxray"},
        **{f"biovil/mimic_cxr_{name}": None for name in ("labelled", "more", "raw")},
    },
    "reports": {"splitter": "rules"},
}
CONTROL = "biovil/biovil_shuffled_pairs"
MLM = {
    "loss": 1.3,
    "p": 0.001,
    "permuted": {"value": 5.7, "low": 5.5, "high": 5.9},
    "rank": {"value": 0.9, "low": 0.85, "high": 0.95},
}


def load(**changes: Any) -> Config:
    """The demo's configuration of one paper with every row, and changes laid over it."""
    laid = overlay(_base(), {"papers": ["biovil"], "extent": "all", **changes})
    return make_config(laid, [ROOT / "config.yaml"], check_roots=False)


@cache
def _base() -> dict[str, Any]:
    return load_config([ROOT / "config.yaml"], check_roots=False).values.model_dump(mode="json")


def pages(root: Path, papers: Sequence[str] = ()) -> dict[str, str]:
    """The pages of a results folder, by their paths from the first one's folder."""
    front = root / "report/index.html"
    built = build_pages(root / "report/config.json", root, front, papers)
    return {path.relative_to(front.parent).as_posix(): html for path, html in built.items()}


def build(root: Path) -> str:
    """All pages of a results folder, the first one first."""
    return "".join(reversed(pages(root).values()))


def words(html: str) -> str:
    """A page's text, as it is read."""
    return unescape(re.sub(r"<[^>]*>", "", html))


def edit(path: Path, **changes: Any) -> None:
    """Change fields of a JSON file."""
    content = read_json(path) | changes
    if SEAL in content:
        write_sealed(path, {name: value for name, value in content.items() if name != SEAL})
    else:
        write_json(path, content)


def write_record(root: Path, config: Config, overlays: Sequence[str] = ()) -> dict[str, Any]:
    """Write down the configuration."""
    record = {"values": config.values.model_dump(mode="json"), "resolved": config.resolved()}
    write_json(root / "report/config.json", record | {"configfiles": ["config.yaml", *overlays]})
    return record


def write_results(
    root: Path, config: Config, controls: bool = False, overlays: Sequence[str] = ()
) -> Path:
    """Write every product of ``config`` below ``root``; gives the recorded configuration's path."""
    record = write_record(root, config, overlays)
    for number, name in enumerate(config.whole.cohorts):
        write_json(root / f"cohorts/{name}/flow.json", _flow(config, name, 227_835 // 4**number))
    for name in config.whole.corpora:
        write_json(root / f"corpus/{name}/corpus.json", _corpus(config, name))
    for name in config.whole.vocabularies:
        _vocabulary(root, config, name)
    for number, (name, made) in enumerate(record["resolved"]["models"].items()):
        if controls or not config.models[name].recipe.control:
            for seed in config.models.seeds_of(name):
                _training(root, config, name, seed, made["settings"], number)
    results = [one for paper in config.library.chosen for one in config.results[paper].all("all")]
    if controls:
        results += [(task, CONTROL) for task in config.tasks.of_model(CONTROL)]
    for task, model in dict.fromkeys(results):
        if model is None:
            write_counts(root, config, task)
        else:
            for seed in config.models.seeds_of(model):
                write_scores(root, config, task, model, seed)
    for given in config.label_comparisons():
        write_agreement(root, config, given)
    for paper in config.library.chosen:
        for table in config.results[paper].tables():
            write_table(root, config, paper, table)
        if config.library.chosen[paper].orderings:
            write_rankings(root, config, paper)
    return root / "report/config.json"


def _drop(reason: str, count: int, failed: bool = False) -> dict[str, Any]:
    ids = [f"5{number:07d}" for number in range(min(5, count))]
    return {"reason": reason, "count": count, "examples": ids, "failed": failed}


def _step(name: str, unit: str, kept: int, *dropped: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "unit": unit, "kept": kept, "dropped": list(dropped)}


def _flow(config: Config, name: str, size: int) -> dict[str, Any]:
    found = config.cohorts[name]
    cohort, drawn = found.recipe, config.data.drawn(found.dataset)
    size = size if drawn else 150
    tenth = size // 10
    flow: dict[str, Any] = {
        "cohort": short_name(name), "dataset": found.dataset, "layout": found.dataset,
        "kind": cohort.kind,
        "synthetic": drawn, "fingerprint": "0123456789abcdef",
        "settings": cohort.settings().record(),
        "checks": [{"name": "patient in one split", "passed": True, "detail": "each in one split"}],
        "notes": ["3 reports are left out of documents.parquet (e.g. s50000001, s50000002)"],
    }  # fmt: skip
    if cohort.kind == "nli":
        return flow | {
            "steps": [_step("pairs listed", "samples", size, _drop("gold_label is -", 2))],
            "splits": {"validate": {"samples": size // 2}, "test": {"samples": size - size // 2}},
            "labels": {"test/entailment": size // 2, "test/neutral": size - size // 2},
        }
    if cohort.kind != "pairs":
        unit = "samples" if cohort.kind == "grounding" else "images"
        return flow | {
            "steps": [
                _step(f"{unit} listed", unit, size),
                _step("image file usable", unit, size - 3, _drop("file not found", 3, True)),
            ],
            "splits": {"test": {unit: size - 3, "patients": size // 2, "images": size - 3}},
            "categories": {"Pneumothorax": size // 2, "Pleural Effusion": size - 3 - size // 2},
        }
    left = size - 3 * tenth
    return flow | {
        "steps": [
            _step("images listed", "images", size + tenth,
                  _drop("DICOM without pixels", 2, True)),
            _step("studies listed", "studies", size),
            _step("has impression", "studies", left,
                  _drop("no impression (findings only)", 3 * tenth)),
            _step("one image a study", "images", left,
                  _drop("another image of the study was chosen (random)", 4 * tenth)),
        ],
        "splits": {
            "train": {"studies": left * 8 // 10, "patients": left // 3, "images": left * 8 // 10,
                      "with_prior": left // 2},
            "validate": {"studies": left - left * 8 // 10 - tenth, "patients": left // 20,
                         "images": left - left * 8 // 10 - tenth, "with_prior": tenth // 3},
            "test": {"studies": tenth, "patients": tenth // 2, "images": tenth,
                     "with_prior": tenth // 4},
        },
        "checks": [
            {"name": "study ids unique", "passed": True, "detail": f"{left} rows, no study twice"},
            {"name": "patient in one split", "passed": True, "detail": "each in one split"},
            {"name": "held-out patients not trained on", "passed": True,
             "detail": "no patient of ms_cxr (96) in train or validate"},
        ],
        "priors": {
            "found": left // 2,
            "none": [_drop("first study of the patient", left - left // 2)],
        },
        "held_out": [{"name": item, "patients": 96, "patients_here": 95, "studies_in_test": tenth}
                     for item in found.held_out],
    }  # fmt: skip


def _corpus(config: Config, name: str) -> dict[str, Any]:
    found = {"dataset": name, "layout": name, "synthetic": config.data.drawn(name)}
    if name in ("pubmed", "mimic_iii"):
        dropped = [_drop("no abstract", 141), _drop("replaced by a newer record", 12)]
        steps = [_step("take abstracts", "articles", 1500, *dropped)]
        return found | {"documents": 1500, "characters": 1_071_450, "steps": steps}
    generator = np.random.default_rng(0)
    labels = {}
    for number, finding in enumerate(OBSERVATIONS):
        positive = int(generator.integers(40, 900)) // (1 + number // 4)
        counts = {"positive": positive, "uncertain": positive // 9, "negative": 2 * positive // 3}
        labels[finding] = counts | {"blank": 3955 - sum(counts.values())}
    return found | {
        "reports": 3955,
        "steps": [_step("reports listed", "reports", 3955, _drop("study listed twice", 2)),
                  _step("reports read", "reports", 3954, _drop("empty file", 1, failed=True))],
        "outcomes": {"findings and impression": 3419, "impression only": 502,
                     "no usable section": 28, "findings only": 6},
        "counts": {"sentences": 24_318, "labelled": 3927, "typos_corrected": 310},
        "labels": labels,
    }  # fmt: skip


def _vocabulary(root: Path, config: Config, name: str) -> None:
    sources = [
        {"dataset": dataset, "documents": 1500, "other_splits": 0, "characters": 1_000_000,
         "sha256": "0" * 64}
        for dataset in config.texts.datasets(name)
    ]  # fmt: skip
    write_json(
        root / f"vocabulary/{name}/vocabulary.json",
        {"size": 2000, "distinct_words": 9120, "words": 412_345, "sources": sources,
         "settings": {}, "fingerprint": "fedcba9876543210"},
    )  # fmt: skip
    for dataset in config.texts.datasets(name):
        write_json(
            root / f"tokens/{name}/{dataset}/tokens.json",
            {"vocabulary": short_name(name), "dataset": dataset, "documents": 1500,
             "tokens": 251_300, "unknown": 3},
        )  # fmt: skip


def _training(
    root: Path, config: Config, name: str, seed: int, settings: dict[str, Any], number: int
) -> None:
    recipe = config.models[name].recipe
    folder = root / f"models/{name}/seed{seed}"
    dataset = config.cohorts[recipe.cohort].dataset
    steps = 600
    write_json(
        folder / "run.json",
        {
            "model": name, "program": recipe.program, "seed": seed, "settings": settings,
            "data": {"name": dataset, "cohort": short_name(recipe.cohort),
                     "synthetic": config.data.drawn(dataset), "fingerprint": "00ff",
                     "train_samples": 2404},
            "code_version": "0.1.0", "torch_version": "2.13.0", "device": "cpu",
            "precision": "bf16", "threads": 2, "steps": steps, "epochs": 16.0, "kept_step": 570,
            "seconds": 84.2 + 31 * number, "samples_per_second": 412.7,
            "tokens_per_second": 0.0 if recipe.program == "image" else 18_450.3,
            "peak_memory_mb": 1184, "parameters": 1_148_932,
            "finished": f"2026-11-21T04:{10 + number}:00+00:00",
            "permuted_pairs": {"differs": True, "terms": {"mlm": MLM}},
        },
    )  # fmt: skip
    terms = {
        "text": {"section_matching": (3.4, 0.9), "mlm": (2.2, 1.2)}
        if recipe.start
        else {"mlm": (7.6, 1.1)},
        "image": {},
        "supervised": {"findings": (0.4, 0.3)},
        "joint": {"global_alignment": (4.1, 2.0), "mlm": (2.4, 1.3)},
    }[recipe.program]
    generator = np.random.default_rng([seed, number])
    lines = []
    for step in range(3, steps + 1, 3):
        decay = np.exp(-4 * step / steps)
        values = {
            key: float(end + (start - end) * decay + generator.normal(0, 0.03 * (start - end)))
            for key, (start, end) in terms.items()
        }
        loss = sum(values.values()) or float(3.5 + 2 * decay + generator.normal(0, 0.05))
        entry = {"step": step, "epoch": step / 37, "time": step / 7, "learning_rate": 1e-3}
        lines.append({**entry, "split": "train", **values, "loss": loss})
        if step % 60 == 0:
            worse = {key: 1.04 * value for key, value in values.items()}
            lines.append({**entry, "split": "validate", **worse, "loss": 1.04 * loss})
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "metrics.jsonl").write_text(text, encoding="utf-8")
