"""A results folder for tests of the report page, made from a configuration by no training at all.

Everything has the shape its stage writes; numbers are drawn from seeded generators. The tables are
made by the program that makes them, the pictures by the benchmark's own drawing.
"""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from label_fixtures import given_like, write_corpus

from cxrflow.benchmarks import label_agreement
from cxrflow.benchmarks.grounding_figures import draw_pair
from cxrflow.benchmarks.ms_cxr_statistics import BACKGROUND, FINDINGS, TOTAL
from cxrflow.config import make_config
from cxrflow.config.label_comparisons import GivenLabels
from cxrflow.config.loading import load_config
from cxrflow.config.models import overlay
from cxrflow.config.ms_cxr_statistics import statistics_datasets
from cxrflow.config.row_comparisons import row_comparisons
from cxrflow.config.schema import BENCHMARK_ROLES, Config
from cxrflow.files import write_json
from cxrflow.phantom.drawing import draw
from cxrflow.phantom.patient import make_patient
from cxrflow.phantom.settings import HospitalSettings
from cxrflow.report import tables

ROOT = Path(__file__).parents[2]
REAL: dict[str, Any] = {
    "datasets": {
        "open_i": {"layout": "open_i", "root": "/data/public/open_i"},
        "covid_chestxray": {"layout": "covid_chestxray", "root": "/data/public/covid_chestxray"},
    },
    "roles": {
        "reports": "open_i", "images": "covid_chestxray", "pairs": "covid_chestxray",
        "pairs_more": None, "pairs_raw": None, "corpora": ["open_i"],
        "grounding": None, "grounding_raw": None, "classification": None,
        "inference": None, "inference_training": None,
    },
    "cohorts": {
        "open_i": {"dataset": "open_i", "kind": "pairs", "require": ["findings", "impression"]},
        "covid_chestxray": {"dataset": "covid_chestxray", "kind": "pairs"},
    },
    "reports": {"splitter": "rules"},
}  # fmt: skip
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
}  # fmt: skip
# How much of the leading model's score the others have.
WORSE = {"biovil": 1.0, "baseline_phase2": 0.78, "biovil_shuffled_pairs": 0.58, "cxr_bert": 0.97}
PHRASES = {
    "Pleural Effusion": "Moderate left pleural effusion",
    "Pneumothorax": "Small right apical pneumothorax",
    "Consolidation": "Consolidation in the right lower lobe",
}


def load(**changes: Any) -> Config:
    """The demo's configuration with changes laid over it."""
    base = load_config([ROOT / "config.yaml"], check_roots=False).model_dump(mode="json")
    return make_config(overlay(base, changes), [ROOT / "config.yaml"], check_roots=False)


def write_results(
    root: Path, config: Config, controls: bool = False, overlays: Sequence[str] = ()
) -> Path:
    """Write every product of ``config`` below ``root``; gives the recorded configuration's path."""
    described = config.described()
    files = ["config.yaml", *overlays]
    write_json(root / "report/config.json", described | {"configfiles": files})
    for number, name in enumerate(config.cohorts_in_use()):
        write_json(root / f"cohorts/{name}/flow.json", _flow(config, name, 227_835 // 4**number))
    for name in [*config.text_datasets(), "covid_chestxray"]:
        if name in config.datasets:
            write_json(root / f"corpus/{name}/corpus.json", _corpus(config, name))
    for name in config.vocabularies:
        _vocabulary(root, config, name)
    for number, (name, made) in enumerate(described["models"].items()):
        if controls or not config.recipes[name].control:
            for seed in config.seeds_of(name):
                _training(root, config, name, seed, made["settings"], number)
                for benchmark in config.benchmarks_of(name):
                    _scores(root, config, benchmark, name, seed)
    _words(root, config)
    if config.available("ms_cxr_statistics"):
        _statistics(root, config)
    for given in config.label_comparisons():
        _agreement(root, config, given)
    for paper in config.papers:
        for table in config.tables(paper):
            _table(root, config, paper, table)
    return root / "report/config.json"


def _synthetic(config: Config, dataset: str) -> bool:
    return config.datasets[dataset].synthetic


def _drop(reason: str, count: int, failed: bool = False) -> dict[str, Any]:
    ids = [f"5{number:07d}" for number in range(min(5, count))]
    return {"reason": reason, "count": count, "examples": ids, "failed": failed}


def _step(name: str, unit: str, kept: int, *dropped: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "unit": unit, "kept": kept, "dropped": list(dropped)}


def _flow(config: Config, name: str, size: int) -> dict[str, Any]:
    cohort = config.cohorts[name]
    drawn = _synthetic(config, cohort.dataset)
    size = size if drawn else 150
    tenth = size // 10
    flow: dict[str, Any] = {
        "cohort": name, "dataset": cohort.dataset, "layout": cohort.dataset, "kind": cohort.kind,
        "synthetic": drawn, "fingerprint": "0123456789abcdef", "settings": cohort.settings(),
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
            _step("images listed", "images", size + 6 * tenth),
            _step("image file usable", "images", size + 6 * tenth - 2,
                  _drop("DICOM without pixels", 2, True)),
            _step("frontal view", "images", size + tenth,
                  _drop("view LATERAL", 4 * tenth), _drop("view LL", tenth - 2)),
            _step("studies listed", "studies", size),
            _step("report found", "studies", size),
            _step("has impression", "studies", size - 2 * tenth,
                  _drop("no impression (findings only)", tenth),
                  _drop("no impression (last paragraph only)", tenth)),
            _step("frontal image", "studies", left, _drop("no frontal image", tenth)),
            _step("one image a study", "images", left,
                  _drop("another image of the study was chosen (random)", 2 * tenth),
                  _drop("the study was left out", 2 * tenth)),
            _step("split known", "studies", left),
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
            {"name": "study ids unique", "passed": True, "detail": f"{left} studies, each once"},
            {"name": "patient in one split", "passed": True, "detail": "each in one split"},
            {"name": "held-out patients not trained on", "passed": True,
             "detail": "no patient of ms_cxr (96) in train or validate"},
        ],
        "priors": {
            "found": left // 2,
            "none": [_drop("first study of the patient", left - left // 2)],
        },
        "held_out": [{"name": item, "patients": 96, "patients_here": 95, "studies_in_test": tenth}
                     for item in cohort.held_out],
    }  # fmt: skip


def _corpus(config: Config, name: str) -> dict[str, Any]:
    found = {"dataset": name, "layout": name, "synthetic": _synthetic(config, name)}
    if name in ("pubmed", "mimic_iii"):
        dropped = [_drop("no abstract", 141), _drop("replaced by a newer record", 12)]
        steps = [_step("take abstracts", "articles", 1500, *dropped)]
        return found | {"documents": 1500, "characters": 1_071_450, "steps": steps}
    generator = np.random.default_rng(0)
    findings = [
        "No Finding", "Pleural Effusion", "Lung Opacity", "Pneumonia", "Pneumothorax", "Edema",
        "Cardiomegaly", "Atelectasis", "Consolidation", "Support Devices", "Fracture",
        "Lung Lesion", "Pleural Other", "Enlarged Cardiomediastinum",
    ]  # fmt: skip
    labels = {}
    for number, finding in enumerate(findings):
        positive = int(generator.integers(40, 900)) // (1 + number // 4)
        counts = {"positive": positive, "uncertain": positive // 9, "negative": 2 * positive // 3}
        labels[finding] = counts | {"blank": 3955 - sum(counts.values())}
    return found | {
        "reports": 3955,
        "skipped": {"study listed twice": 2},
        "failed": [{"reason": "empty file", "count": 1, "examples": ["s50000009"]}],
        "outcomes": {"findings and impression": 3419, "impression only": 502,
                     "no usable section": 28, "findings only": 6},
        "counts": {"sentences": 24_318, "labelled": 3927, "typos_corrected": 310},
        "labels": labels,
    }  # fmt: skip


def _vocabulary(root: Path, config: Config, name: str) -> None:
    sources = [
        {"dataset": dataset, "documents": 1500, "other_splits": 0, "characters": 1_000_000,
         "sha256": "0" * 64}
        for dataset in config.text_datasets()
    ]  # fmt: skip
    write_json(
        root / f"vocabulary/{name}/vocabulary.json",
        {"size": 2000, "distinct_words": 9120, "words": 412_345, "sources": sources,
         "settings": {}, "fingerprint": "fedcba9876543210"},
    )  # fmt: skip
    for dataset in config.text_datasets():
        write_json(
            root / f"tokens/{name}/{dataset}/tokens.json",
            {"vocabulary": name, "dataset": dataset, "documents": 1500, "tokens": 251_300,
             "unknown": 3},
        )  # fmt: skip


def _training(
    root: Path, config: Config, name: str, seed: int, settings: dict[str, Any], number: int
) -> None:
    recipe = config.recipes[name]
    folder = root / f"models/{name}/seed{seed}"
    cohort = getattr(config.roles, recipe.pairs)
    dataset = config.cohorts[cohort].dataset
    steps = 600
    write_json(
        folder / "run.json",
        {
            "model": name, "program": recipe.program, "seed": seed, "settings": settings,
            "data": {"name": dataset, "cohort": cohort, "synthetic": _synthetic(config, dataset),
                     "fingerprint": "00ff", "train_samples": 2404},
            "code_version": "0.1.0", "torch_version": "2.13.0", "device": "cpu",
            "precision": "bf16", "threads": 2, "steps": steps, "epochs": 16.0, "kept_step": 570,
            "seconds": 84.2 + 31 * number, "samples_per_second": 412.7,
            "tokens_per_second": 0.0 if recipe.program == "image" else 18_450.3,
            "peak_memory_mb": 1184, "parameters": 1_148_932,
            "finished": f"2026-11-21T04:{10 + number}:00+00:00",
        },
    )  # fmt: skip
    terms = {
        "text": {"mlm": (7.6, 1.1)} if not recipe.start else {"rsm": (3.4, 0.9), "mlm": (2.2, 1.2)},
        "image": {},
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


def _estimate(value: float, n: int) -> dict[str, Any]:
    return {"value": value, "low": 0.94 * value, "high": 1.05 * value, "n": n}


def _scores(root: Path, config: Config, benchmark: str, name: str, seed: int) -> None:
    dataset = config.cohorts[getattr(config.roles, BENCHMARK_ROLES[benchmark])].dataset
    drawn = _synthetic(config, dataset)
    folder = root / f"benchmarks/{benchmark}/{name}/seed{seed}"
    factor = WORSE.get(name, 0.5) * (1 + 0.02 * seed)
    metrics = {key: _estimate(value * factor, 400) for key, value in SCORES[benchmark].items()}
    settings = getattr(config.benchmarks, benchmark).model_dump(mode="json")
    if benchmark == "phrase_grounding":
        for number, finding in enumerate(settings["categories"]):
            slug = "_".join(finding.lower().split())
            metrics[f"cnr/{slug}"] = _estimate((1.7 - 0.12 * number) * factor, 31)
            metrics[f"miou/{slug}"] = _estimate((0.32 - 0.02 * number) * factor, 31)
    write_json(
        folder / "metrics.json",
        {"benchmark": benchmark, "model": name, "seed": seed,
         "data": {"name": dataset, "synthetic": drawn, "fingerprint": "77aa"},
         "protocol": settings, "metrics": metrics},
    )  # fmt: skip
    if benchmark == "zero_shot_classification":
        generator = np.random.default_rng([seed, 5])
        labels = (generator.random(400) < 0.33).astype(int)
        scores = generator.normal(1.6 * factor * labels, 1.0)
        pd.DataFrame({"label": labels, "score": scores}).to_parquet(folder / "predictions.parquet")
    if benchmark == "phrase_grounding" and settings["figures"]:
        _pictures(folder / "figures")


def _pictures(folder: Path) -> None:
    """Drawn chests with boxes of a finding, and a map that is near, nearby or far from them."""
    folder.mkdir(parents=True)
    settings = HospitalSettings(spoilt_share=0.0)
    entries: list[dict[str, Any]] = []
    wanted = {name: 3 for name in PHRASES}
    rows, columns = np.mgrid[0:128, 0:128]
    for index in range(300):
        patient = make_patient(settings, index)
        study = patient.studies[0]
        image = next((one for one in study.images if one.view in ("AP", "PA")), None)
        finding = next((one for one in study.findings if wanted.get(one.name)), None)
        if image is None or finding is None:
            continue
        drawing = draw(patient, study, image, 128)
        boxes = np.array(drawing.boxes.get(finding.key, []), dtype=float).reshape(-1, 4)
        if not len(boxes):
            continue
        wanted[finding.name] -= 1
        rank = wanted[finding.name]
        picture = (drawing.image[:128, :128] * 255).astype(np.uint8)
        picture = np.pad(picture, [(0, 128 - side) for side in picture.shape])
        x, y, w, h = boxes[0]
        far = (0, 12, 60)[2 - rank]
        place = ((columns - x - w / 2 + far) / (w + 14)) ** 2 + ((rows - y - h / 2) / (h + 14)) ** 2
        name = ("worst", "median", "best")[rank]
        file = f"{len(entries):02d}_{'_'.join(finding.name.lower().split())}_{name}.png"
        (folder / file).write_bytes(draw_pair(picture, np.exp(-2 * place), boxes))
        entries.append(
            {
                "file": file, "title": f"{finding.name}: {PHRASES[finding.name]}",
                "caption": f"{name.capitalize()} by CNR of {finding.name}. "
                f"CNR {0.2 + 0.8 * rank:.2f}, mIoU 0.21; cosine from -0.11 (violet) to 0.62 "
                "(yellow); dashed: the annotated boxes.",
                "category": finding.name, "cnr": 0.2 + 0.8 * rank, "order": len(entries),
            }
        )  # fmt: skip
        if not any(wanted.values()):
            break
    entries.sort(key=lambda entry: (entry["category"], -entry["cnr"]))
    write_json(folder / "examples.json", entries)


def _words(root: Path, config: Config) -> None:
    settings = config.benchmarks.vocabulary.model_dump(mode="json")
    dataset = config.report_dataset
    metrics: dict[str, Any] = {"words": _estimate(51.2, 442)}
    for name in config.vocabularies:
        metrics[f"tokens/{name}"] = _estimate(55.9, 442)
        metrics[f"increase/{name}"] = _estimate(0.091, 442)
        metrics[f"unknown/{name}"] = _estimate(0.0, 442)
        metrics[f"size/{name}"] = _estimate(2000, 1)
        for word in settings["words"]:
            whole = word != "bibasilar"
            spelling = "✓" if whole else "bi-bas-ilar"
            metrics[f"spelling/{name}/{word}"] = {
                "value": spelling, "low": None, "high": None, "n": 1,
            }  # fmt: skip
    write_json(
        root / "benchmarks/vocabulary/metrics.json",
        {"benchmark": "vocabulary", "model": "vocabulary", "seed": 0,
         "data": {"name": dataset, "synthetic": _synthetic(config, dataset), "fingerprint": "1"},
         "protocol": settings, "metrics": metrics},
    )  # fmt: skip


def _statistics(root: Path, config: Config) -> None:
    """The statistics of MS-CXR: numbers without an interval."""
    dataset = statistics_datasets(config)[0]
    names = ("pairs", "images", "subjects", "women", "women_percent", "age", "age_sd", "tokens")
    counted = {"value": 61.0, "low": None, "high": None, "n": 61}
    metrics = {f"{name}/{row}": counted for name in names for row in (*FINDINGS, TOTAL)}
    metrics |= {f"{name}/{BACKGROUND}": counted for name in names if name in names[2:-1]}
    write_json(
        root / "benchmarks/ms_cxr_statistics/metrics.json",
        {"benchmark": "ms_cxr_statistics", "model": "ms_cxr_statistics", "seed": 0,
         "data": {"name": dataset, "synthetic": _synthetic(config, dataset), "fingerprint": "1"},
         "protocol": config.benchmarks.ms_cxr_statistics.model_dump(mode="json"),
         "metrics": metrics},
    )  # fmt: skip


def _tests(output: Path, config: Config, paper: str, table: str) -> list[str]:
    """Paired tests of the rows of a table, as the option that takes them."""
    asked = row_comparisons(config, paper, table)
    if not asked:
        return []
    entries = [
        one.model_dump()
        | {"difference": -0.2, "difference_low": -0.4, "difference_high": -0.01, "reason": None}
        | {"p": (0.3, 0.04, 0.0004)[number % 3], "p_holm": (0.6, 0.2, 0.004)[number % 3]}
        for number, one in enumerate(asked)
    ]
    path = output.with_name(f"{output.name}.tests.json")
    write_json(path, {"protocol": {"level": 0.95, "replicates": 5000}, "comparisons": entries})
    return ["--tests", str(path)]


def _agreement(root: Path, config: Config, given: GivenLabels) -> None:
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
        drawn = _synthetic(config, given.dataset)
        corpus = write_corpus(
            Path(folder, "corpus"), reports, dataset=given.dataset, synthetic=drawn
        )
        table = given_like(corpus, **changes)
        ours = label_agreement.Ours.read(corpus)
        settings = given.settings
        made = label_agreement.compare(ours, table.iloc[:-2], given.reference, settings)
        output = root / "benchmarks/label_agreement" / given.dataset / given.reference
        label_agreement.write(output, *made, engine="scope")


def _table(root: Path, config: Config, paper: str, table: str) -> None:
    files = []
    for benchmark, model in config.table_cells(paper, table):
        folder = root / "benchmarks" / benchmark
        if model is None:
            files.append(folder / "metrics.json")
        else:
            files += [
                folder / f"{model}/seed{seed}/metrics.json" for seed in config.seeds_of(model)
            ]
    output = root / f"tables/{paper}/{table}"
    named = ["--metrics", *map(str, files)] if files else []
    named += _tests(output, config, paper, table)
    tables.main(["--paper", paper, "--table", table, *named, "--output", str(output)])
