"""A tiny hospital taken through every stage, and a way to run a program and look at its end.

Programs run in this process as ``python -m`` runs them, command line and exit code included; with
``real`` they are processes of their own.
"""

import contextlib
import importlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pydicom
from pydicom.uid import ExplicitVRLittleEndian

from cxrflow.command import run

GEOMETRY = "shorter32"
HOSPITAL = {
    "patients": 20,
    "image_size": 64,
    "rsna_images": 12,
    "abstracts": 8,
    "notes": 8,
    "ms_cxr_patient_share": 0.3,
    "spoilt_share": 0.0,
    "compressed_share": 0.0,
}
SHARES = {"train": 0.5, "validate": 0.25, "test": 0.25}
TEXT = {"layers": 1, "width": 16, "heads": 2, "feed_forward": 32, "positions": 64, "projection": 8}
IMAGE = {"block": "basic", "layers": [1, 1, 1, 1], "width": 4, "channels": 1, "projection": 8}
TRAINING = {
    "batch_size": 4,
    "steps": 2,
    "precision": "fp32",
    "device": "cpu",
    "log_steps": 1,
    "validations": 1,
}
AUGMENTATION = {"angle": 10}


@dataclass(frozen=True)
class End:
    """How a program ended: exit code, what it said on stderr, and its log."""

    code: int
    stderr: str

    @property
    def errors(self) -> list[str]:
        """Lines of stderr that are not log lines or warnings of a library."""
        lines = self.stderr.splitlines()
        start = next((i for i, line in enumerate(lines) if line.startswith("error: ")), len(lines))
        return lines[start:]

    def refuses(self, *words: object) -> None:
        """Exit code 2, and one line that holds every one of ``words``."""
        assert self.code == 2, self.stderr
        assert "Traceback" not in self.stderr
        assert len(self.errors) == 1, self.stderr
        for word in words:
            assert str(word) in self.errors[0], f"{word!r} is not in: {self.errors[0]}"

    def succeeds(self) -> None:
        """Exit code 0 without a traceback."""
        assert self.code == 0, self.stderr
        assert "Traceback" not in self.stderr


def program(module: str, *arguments: object, real: bool = False) -> End:
    """Run ``python -m cxrflow.<module>``; a dictionary among the arguments is ``--settings``."""
    words: list[str] = []
    for argument in arguments:
        words += (
            ["--settings", json.dumps(argument)] if isinstance(argument, dict) else [str(argument)]
        )
    if real:
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", f"cxrflow.{module}", *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return End(done.returncode, done.stderr)
    package = importlib.import_module(f"cxrflow.{module}")
    if not hasattr(package, "main"):
        package = importlib.import_module(f"cxrflow.{module}.__main__")
    before, heard, code = sys.argv, io.StringIO(), 0
    sys.argv = [module, *words]
    try:
        with contextlib.redirect_stderr(heard), contextlib.redirect_stdout(io.StringIO()):
            run(package.main)
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.argv = before
    return End(code, heard.getvalue())


def absent(path: Path) -> bool:
    """Neither ``path`` nor a half of it was left behind."""
    return not path.exists() and not list(path.parent.glob(f".{path.name}.*.partial"))


def change_csv(path: Path, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    """Rewrite a CSV, every column as text."""
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    change(table).to_csv(path, index=False)


def change_parquet(path: Path, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    """Rewrite a parquet file."""
    change(pd.read_parquet(path)).to_parquet(path, index=False)


def dropped(flow: Mapping[str, Any]) -> dict[str, int]:
    """Counts by reason over all steps of a flow.json."""
    found: dict[str, int] = {}
    for step in flow["steps"]:
        for drop in step["dropped"]:
            found[drop["reason"]] = found.get(drop["reason"], 0) + drop["count"]
    return found


def write_dicom(path: Path, pixels: np.ndarray, photometric: str = "MONOCHROME2") -> None:
    """``pixels`` uint16 [H, W] or uint8 [H, W, 3] in the file at ``path``, header kept."""
    header = pydicom.dcmread(path)
    colour = pixels.ndim == 3
    bits = 8 if colour else 16
    header.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    header.Rows, header.Columns = pixels.shape[:2]
    header.SamplesPerPixel, header.PhotometricInterpretation = 3 if colour else 1, photometric
    header.BitsAllocated = header.BitsStored = bits
    header.HighBit, header.PixelRepresentation = bits - 1, 0
    if colour:
        header.PlanarConfiguration = 0
    header["PixelData"].VR = "OB" if colour else "OW"
    header.PixelData = np.ascontiguousarray(pixels).tobytes()
    header.save_as(path, enforce_file_format=True)


class Stages:
    """The commands of the workflow on the hospital in ``root``; results go where they are told."""

    def __init__(self, root: Path, results: Path) -> None:
        self.root, self.results = root, results
        self.cohort, self.corpus = results / "cohort", results / "corpus"
        self.pixels, self.vocabulary = results / "pixels", results / "vocabulary"
        self.tokens, self.models = results / "tokens", results / "models"
        self.grounding, self.rsna = results / "grounding", results / "rsna"

    def data(self, name: str) -> Path:
        return self.root / name

    def make_corpus(self, output: Path, real: bool = False, **settings: object) -> End:
        return program(
            "reports.corpus",
            settings,
            "--layout",
            "mimic_cxr",
            "--root",
            self.data("mimic_cxr"),
            "--output",
            output,
            real=real,
        )

    def make_cohort(
        self, output: Path, corpus: Path | None = None, real: bool = False, **settings: object
    ) -> End:
        return program(
            "data.cohort",
            {"splits": {"shares": SHARES}, **settings},
            "--layout",
            "mimic_cxr",
            "--root",
            self.data("mimic_cxr"),
            "--corpus",
            corpus or self.corpus,
            "--held-out",
            f"ms_cxr={self.data('ms_cxr')}",
            "--output",
            output,
            real=real,
        )

    def make_grounding(self, output: Path) -> End:
        return program(
            "data.cohort",
            {"kind": "grounding"},
            "--layout",
            "ms_cxr",
            "--root",
            self.data("ms_cxr"),
            "--images-layout",
            "mimic_cxr",
            "--images-root",
            self.data("mimic_cxr"),
            "--output",
            output,
        )

    def make_rsna(self, output: Path) -> End:
        return program(
            "data.cohort",
            {"kind": "classification"},
            "--layout",
            "rsna",
            "--root",
            self.data("rsna"),
            "--output",
            output,
        )

    def make_pixels(
        self,
        output: Path,
        images: Path | None = None,
        dataset: str = "mimic_cxr",
        real: bool = False,
        **settings: object,
    ) -> End:
        return program(
            "images.store",
            {"images_per_shard": 8, **settings},
            "--root",
            self.data(dataset),
            "--images",
            images or self.cohort / "images.parquet",
            "--geometry",
            GEOMETRY,
            "--output",
            output,
            real=real,
        )

    def make_vocabulary(self, output: Path, documents: Path | None = None, size: int = 300) -> End:
        return program(
            "text.vocabulary",
            {"size": size},
            "--documents",
            documents or self.cohort / "documents.parquet",
            "--output",
            output,
        )

    def make_tokens(
        self, output: Path, documents: Path | None = None, vocabulary: Path | None = None
    ) -> End:
        return program(
            "text.tokens",
            "--documents",
            documents or self.cohort / "documents.parquet",
            "--vocabulary",
            vocabulary or self.vocabulary,
            "--output",
            output,
        )

    def _train(self, kind: str, settings: dict[str, Any], folder: Path, *more: object) -> End:
        return program(
            f"pretrain.{kind}",
            settings,
            "--model",
            "tiny",
            "--seed",
            0,
            "--state",
            folder.with_name(f"state-{folder.name}"),
            "--output",
            folder,
            *more,
        )

    def train_words(
        self,
        folder: Path,
        tokens: Path | None = None,
        vocabulary: Path | None = None,
        pairs: Path | None = None,
    ) -> End:
        """Phase II."""
        settings = {"encoder": TEXT, "length": 48, "training": TRAINING}
        return self._train(
            "text",
            settings,
            folder,
            "--vocabulary",
            vocabulary or self.vocabulary,
            "--tokens",
            tokens or self.tokens,
            "--pairs",
            pairs or self.cohort / "pairs.parquet",
        )

    def train_sections(
        self,
        folder: Path,
        start: Path | None = None,
        vocabulary: Path | None = None,
        pairs: Path | None = None,
    ) -> End:
        """Phase III."""
        settings = {"length": 48, "training": TRAINING, "rsm": {"weight": 1.0}}
        return self._train(
            "text",
            settings,
            folder,
            "--vocabulary",
            vocabulary or self.vocabulary,
            "--start",
            start or self.models / "words",
            "--pairs",
            pairs or self.cohort / "pairs.parquet",
        )

    def train_images(
        self,
        folder: Path,
        pixels: Path | None = None,
        pairs: Path | None = None,
        **settings: object,
    ) -> End:
        """SimCLR."""
        settings = {
            "encoder": IMAGE,
            "augmentation": AUGMENTATION,
            "head_hidden": 8,
            "head_output": 4,
            "training": TRAINING,
            **settings,
        }
        return self._train(
            "image",
            settings,
            folder,
            "--pixels",
            pixels or self.pixels,
            "--pairs",
            pairs or self.cohort / "pairs.parquet",
        )

    def train_joint(
        self,
        folder: Path,
        pixels: Path | None = None,
        pairs: Path | None = None,
        text: Path | None = None,
        image: Path | None = None,
        **settings: object,
    ) -> End:
        settings = {
            "encoder": IMAGE,
            "augmentation": AUGMENTATION,
            "length": 48,
            "training": TRAINING,
            **settings,
        }
        return self._train(
            "joint",
            settings,
            folder,
            "--pixels",
            pixels or self.pixels,
            "--pairs",
            pairs or self.cohort / "pairs.parquet",
            "--text",
            text or self.models / "sections",
            "--image",
            image or self.models / "images",
        )

    def ground(
        self,
        output: Path,
        model: Path | None = None,
        pixels: Path | None = None,
        cohort: Path | None = None,
    ) -> End:
        return program(
            "benchmarks.phrase_grounding",
            {"device": "cpu", "intervals": {"replicates": 100}},
            "--model",
            model or self.models / "joint",
            "--cohort",
            cohort or self.grounding,
            "--pixels",
            pixels or self.pixels.with_name("pixels-grounding"),
            "--output",
            output,
        )

    def classify(
        self,
        output: Path,
        model: Path | None = None,
        pixels: Path | None = None,
        cohort: Path | None = None,
        **settings: object,
    ) -> End:
        settings = {"device": "cpu", "split": None, "intervals": {"replicates": 100}, **settings}
        return program(
            "benchmarks.zero_shot_classification",
            settings,
            "--model",
            model or self.models / "joint",
            "--cohort",
            cohort or self.rsna,
            "--pixels",
            pixels or self.pixels.with_name("pixels-rsna"),
            "--output",
            output,
        )

    def predict_masks(
        self, output: Path, model: Path | None = None, pairs: Path | None = None
    ) -> End:
        settings = {"device": "cpu", "max_length": 48, "intervals": {"replicates": 100}}
        return program(
            "benchmarks.mask_prediction",
            settings,
            "--model",
            model or self.models / "joint",
            "--pairs",
            pairs or self.cohort / "pairs.parquet",
            "--output",
            output,
        )

    def compare_vocabularies(self, output: Path, pairs: Path | None = None) -> End:
        return program(
            "benchmarks.vocabulary",
            "--vocabulary",
            f"ours={self.vocabulary}",
            "--pairs",
            pairs or self.cohort / "pairs.parquet",
            "--output",
            output,
        )


def build(folder: Path) -> Stages:
    """Draw the hospital and take it through every stage, each of which must succeed."""
    stages = Stages(folder / "data", folder / "results")
    for dataset in ("mimic_cxr", "ms_cxr", "rsna", "pubmed", "mimic_iii"):
        program(
            "phantom", HOSPITAL, "--dataset", dataset, "--output", stages.data(dataset)
        ).succeeds()
    results = stages.results
    for end in (
        stages.make_corpus(stages.corpus),
        stages.make_cohort(stages.cohort),
        stages.make_grounding(stages.grounding),
        stages.make_rsna(stages.rsna),
        stages.make_pixels(stages.pixels),
        stages.make_pixels(results / "pixels-grounding", stages.grounding / "images.parquet"),
        stages.make_pixels(results / "pixels-rsna", stages.rsna / "images.parquet", "rsna"),
        stages.make_vocabulary(stages.vocabulary),
        stages.make_tokens(stages.tokens),
        stages.train_words(stages.models / "words"),
        stages.train_sections(stages.models / "sections"),
        stages.train_images(stages.models / "images"),
        stages.train_joint(stages.models / "joint"),
    ):
        end.succeeds()
    return stages
