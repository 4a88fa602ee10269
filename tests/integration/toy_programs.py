"""The trainings at toy size: their inputs, their settings and their commands."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from PIL import Image
from programs import End, command, program

from small_sizes import FRAMES, IMAGE, TEXT, VIT

FINDINGS = ("effusion", "pneumothorax", "consolidation", "edema", "cardiomegaly")
TRAINING = {
    "batch_size": 16,
    "deterministic": torch.cuda.is_available(),  # so that a killed run is exact there, too
    "save_minutes": 0.001,
    "log_steps": 5,
    "optimiser": {"learning_rate": 1e-3},
}
GREY = {**IMAGE, "channels": 1}
# Several cells of 32 pixels: words choose between patches.
FINER = {**GREY, "dilate": [False, True, True]}
COMPARING = {**FRAMES, "kind": "multi_image", "channels": 1}
WRITTEN = {"length": 48, "report_length": 24}
LSTM = {"kind": "captioning_lstm", "width": 32, "report_length": 24}
MESHED = {
    **{"kind": "captioning_transformer", "layers": 2, "width": 32, "heads": 2},
    **{"feed_forward": 32, "memory": 4, "report_length": 24},
}
HEAD = {"hidden": 32, "output": 16}
QUEUE = {**HEAD, "queue": 40, "momentum": 0.9}  # no multiple of a batch
UNEVEN = {"image_to_text": 0.75}
PLATEAU = {  # ConVIRT's schedule, with its checkpoints
    "optimiser": {"name": "adam", "learning_rate": 1e-3, "weight_decay": 1e-6},
    "schedule": {"decay": "plateau", "factor": 0.5, "patience": 2, "warmup": 0},
    "stopping": {"keep": "best"},
    "validate_steps": 5,
    "checkpoint_validations": 4,
}
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
# MGCA's terms and projections; prototypes rest in the first epoch.
MGCA: dict[str, Any] = {
    "encoder": {**VIT, "projection_head": {"kind": "mgca", "hidden": 24}},
    "terms": {
        "global_alignment": {"temperature": 0.07, "weight": 1.0},
        "token_alignment": {},
        "prototypes": {"number": 12},
    },
}

# Its warm-up ends in the middle of the training.
CUTMIX: dict[str, Any] = {"classes": FINDINGS, "pairs": 20, "warmup_epochs": 7, "layer": 1}


class Toy(NamedTuple):
    """A training: its program, settings and inputs."""

    module: str
    settings: dict[str, Any]
    inputs: dict[str, Any]

    def changed(self, **training: Any) -> dict[str, Any]:
        """The settings, with changes of those of the training."""
        return {**self.settings, "training": {**TRAINING, **self.settings["training"], **training}}

    def _run(self, name: str, folder: Path, training: dict[str, Any]) -> dict[str, Any]:
        places = {"state": folder / f"state-{name}", "output": folder / name}
        run = {"module": self.module, "settings": self.changed(**training)}
        return {**run, **self.inputs, **places, "model": "toy", "seed": 0}

    def command(self, name: str, folder: Path, **training: Any) -> list[str]:
        """Of a run called ``name`` in a folder."""
        return command(**self._run(name, folder, training))

    def train(self, name: str, folder: Path, **training: Any) -> End:
        """The same in this process."""
        return program(**self._run(name, folder, training))


def write_inputs(folder: Path) -> None:
    """A cohort of 80 small images with sentences, its pixel store, vocabulary and tokens."""
    generator = np.random.default_rng(0)
    rows = []
    for number in range(80):
        name = FINDINGS[number % len(FINDINGS)]
        side = ("left", "right")[number % 2]
        pixels = generator.integers(0, 255, (48, 40), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
        prior = (
            str(number - 5) if number % 3 and number >= 5 and number not in range(64, 69) else None
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
                "study_time": "2150-01-01 10:00:00",
                "prior_image_id": f"earlier{number}" if number % 3 else None,
                "view": "PA",
                "findings": " ".join(findings),
                "impression": " ".join(impression),
                "findings_sentences": findings,
                "impression_sentences": impression,
                "labels": [float(name == label) for label in FINDINGS],
                "prior_study_id": prior,
                "split": "validate" if number >= 64 else "train",
            }
        )
    pairs = pd.DataFrame(rows)
    cohort = folder / "cohort"
    cohort.mkdir()
    pairs.to_parquet(cohort / "pairs.parquet")
    earlier = pairs["prior_image_id"].dropna()
    priors = pd.DataFrame({"image_id": earlier, "image_path": earlier + ".png"})
    for path in priors["image_path"]:
        pixels = generator.integers(0, 255, (48, 40), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / path)
    images = pd.concat([pairs[["image_id", "image_path"]], priors])
    images.to_parquet(cohort / "images.parquet")
    text = pairs["findings"] + " " + pairs["impression"]
    documents = pairs[["split"]].assign(document_id=pairs["study_id"], text=text)
    documents.to_parquet(cohort / "documents.parquet")
    flow = {"cohort": "toy", "dataset": "toy", "synthetic": True, "classes": FINDINGS}
    (cohort / "flow.json").write_text(json.dumps(flow))
    write_images_of_studies(folder / "images of studies", pairs)
    write_samples(folder / "samples", pairs)
    write_sentence_pairs(folder / "sentence pairs", pairs)
    stored = {"root": folder, "images": cohort / "images.parquet", "geometry": "shorter32"}
    texts = {"documents": cohort / "documents.parquet"}
    words = folder / "vocabulary"
    program("images.store_pixels", **stored, output=folder / "pixels").succeeds()
    program("text.vocabulary", {"size": 200}, **texts, output=words).succeeds()
    program("text.tokens", **texts, vocabulary=words, output=folder / "tokens").succeeds()


def write_images_of_studies(folder: Path, pairs: pd.DataFrame) -> None:
    """The same images, two a study: that of an even number has its neighbour, too."""
    folder.mkdir()
    number = pairs["study_id"].astype(int) // 2 * 2
    texts = [name for name in pairs if name.startswith(("findings", "impression"))]
    shared = pairs[texts].iloc[number].set_index(pairs.index)
    named = {name: number.astype(str) for name in ("subject_id", "study_id")}
    pairs.assign(**named, **{name: shared[name] for name in texts}).to_parquet(
        folder / "pairs.parquet"
    )
    flow = {"cohort": "images", "dataset": "toy", "synthetic": True, "settings": {"unit": "image"}}
    (folder / "flow.json").write_text(json.dumps(flow))


def write_samples(folder: Path, pairs: pd.DataFrame) -> None:
    """The same images, each of one of the classes."""
    folder.mkdir()
    labels = np.eye(len(FINDINGS))[np.arange(len(pairs)) % len(FINDINGS)]
    samples = pairs[["subject_id", "image_id", "split"]].assign(
        sample_id=pairs["image_id"], labels=list(labels)
    )
    samples.to_parquet(folder / "samples.parquet")
    flow = {"cohort": "samples", "dataset": "toy", "synthetic": True, "classes": FINDINGS}
    (folder / "flow.json").write_text(json.dumps(flow))


def write_sentence_pairs(folder: Path, pairs: pd.DataFrame) -> None:
    """A finding entails itself, says nothing of the heart and contradicts its absence."""
    folder.mkdir()
    names = [FINDINGS[number % len(FINDINGS)] for number in range(len(pairs))]
    hypotheses = [
        ("There is {}.", "The heart is normal.", "There is no {}.")[n % 3]
        for n in range(len(pairs))
    ]
    samples = pairs[["split"]].assign(
        sample_id=pairs["study_id"],
        premise=pairs["impression_sentences"].str[0],
        hypothesis=[text.format(name) for text, name in zip(hypotheses, names, strict=True)],
        label=[("entailment", "neutral", "contradiction")[n % 3] for n in range(len(pairs))],
    )
    samples.to_parquet(folder / "samples.parquet")
    flow = {"cohort": "sentences", "dataset": "toy", "synthetic": True}
    (folder / "flow.json").write_text(json.dumps(flow))


def trainings(inputs: Path, done: Path, length: int = 1) -> dict[str, Toy]:
    """Each training, ``length`` times as long; ``done``: the folder of what they start from."""

    def terms(epochs: int, *, more: dict[str, Any] | None = None, **named: Any) -> dict[str, Any]:
        return {"terms": named, "training": {"epochs": epochs * length, **(more or {})}}

    pairs = {"pairs": inputs / "cohort" / "pairs.parquet"}
    words = {**pairs, "vocabulary": inputs / "vocabulary"}
    stored = {**pairs, "pixels": inputs / "pixels"}
    packed = {**words, "tokens": [inputs / "tokens"]}
    sections = {**words, "start": done / "phase II"}
    text = {"encoder": TEXT, "length": 48, "dropout": 0.25, "attention_dropout": 0.25}
    elastic = {"angle": 20, "elastic_probability": 0.5, "noise": 0.05, "crop_scale": [0.75, 1.0]}
    images = {"encoder": GREY, "augmentation": elastic}
    lars = {"optimiser": {"name": "adam", "learning_rate": 1e-3, "lars": True}}
    kinds = {"sampler": {"name": "of_kinds", "shares": 4}}
    frames = terms(20, more=kinds, global_alignment={}, local_alignment={"layers": 2}, mlm={})
    best = {"stopping": {"keep": "best"}, "deterministic": True}
    joint = {**images, "length": 48, **terms(25, more=best, global_alignment={}, mlm={})}
    # DeCLIP's terms beside both losses of the low-data study.
    cropped = {**elastic, "second_crop": {"of": "area"}}
    sides = {"mlm": {"forward": "shared", "masking": {"unit": "token"}}, "simclr": HEAD}
    both_losses = {"global_alignment": {}, "local_alignment": {"layers": 2}}
    further = {**sides, "multi_view": {"base": both_losses}}
    further["neighbours"] = {"queue": 40, "start": "random"}
    declip = {
        **{**joint, "augmentation": cropped, "text_augmentation": {}, "encoder": FINER},
        **terms(12, more=best, **both_losses, **further),
    }
    both = {**stored, "text": done / "phase III", "image": done / "SimCLR"}
    written = {"decoder": WRITTEN, "augmentation": elastic, "written_validation": 6}
    bleu = {"stopping": {"keep": "best", "monitor": "bleu_2", "mode": "max"}}
    report = {**written, **terms(12, more=bleu, report_likelihood={})}
    fast = {"optimiser": {"name": "adam", "learning_rate": 1e-2}}
    plateau = {"schedule": {"decay": "plateau", "patience": 8, "factor": 0.5}}
    cider = {"stopping": {"keep": "best", "monitor": "cider", "mode": "max"}, **plateau, **fast}
    limited = {**cider, "gradient_limit": 0.005}  # so that it binds
    caption = {
        "encoder": FINER,
        "decoder": LSTM,
        "augmentation": elastic,
        "image_rate": 0.25,
        "written_validation": 6,
        **terms(25, more=limited, report_likelihood={}, doubly_stochastic={}),
    }
    only = {"terms": {"report_likelihood": {}}, "decoder": MESHED}
    described = {**stored, "vocabulary": inputs / "vocabulary", "image": done / "SimCLR"}
    # ConVIRT's and its baseline's, of images and sentences that are drawn of studies.
    drawn = {"text": "sentence", "text_pooling": "max", "frozen_layers": 1}
    studies = {**joint, **drawn, **terms(40, more=PLATEAU, global_alignment=UNEVEN)}
    linear = {"encoder": {**GREY, "projection_head": {"kind": "linear"}}}
    matched = {**studies, **linear, **terms(40, more=PLATEAU, pair_matching={"hidden": 8})}
    of_studies = {**both, "pairs": inputs / "images of studies" / "pairs.parquet"}
    classes = {**stored, "pairs": inputs / "samples" / "samples.parquet"}
    whole = {"augmentation": {"angle": 20}, "length": 48, **terms(15, more=best), **MGCA}
    mgca = {**stored, "text": done / "phase III", "image": done / "supervised transformer"}
    transformer = {**images, "encoder": VIT, **terms(40, classification={})}
    toys: dict[str, Any] = {
        "phase II": ("text", {**text, **terms(60, mlm={})}, packed),
        "phase III": ("text", {**text, **terms(30, section_matching={}, mlm={})}, sections),
        "sentence pairs": (
            "sentence_pairs",
            {"length": 32, **terms(30, more=fast, entailment={})},
            {"pairs": inputs / "sentence pairs" / "samples.parquet", "start": done / "phase II"},
        ),
        "SimCLR": ("image", {**images, **terms(40, more=lars, simclr=HEAD)}, stored),
        "MoCo": ("image", {**images, **terms(40, momentum_contrast=QUEUE)}, stored),
        "supervised": ("supervised", {**images, **terms(40, classification={})}, classes),
        "supervised transformer": ("supervised", transformer, classes),
        "joint": ("joint", joint, both),
        "MGCA": ("image_reports", whole, mgca),
        "MedCutMix": (
            "image_reports",
            {**whole, "terms": {**MGCA["terms"], "cutmix": CUTMIX}},
            mgca,
        ),
        "studies": ("studies", studies, of_studies),
        "matched pairs": ("studies", matched, of_studies),
        "joint with words": ("joint", {**joint, **WITH_WORDS, "encoder": FINER}, both),
        "DeCLIP": ("joint", declip, both),
        "temporal": ("temporal", {**joint, **frames, "encoder": COMPARING}, both),
        "report": ("report", report, {**stored, "start": done / "temporal"}),
        "report of MGCA": ("report", report, {**stored, "start": done / "MGCA"}),
        "Caption-LSTM": ("caption", caption, described),
        "Caption-Transformer": ("caption", {**caption, **only}, described),
    }
    return {name: Toy(f"pretrain.{kind}", *rest) for name, (kind, *rest) in toys.items()}
