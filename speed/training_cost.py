"""What the papers' trainings cost on this machine: some steps at full size, on invented data.

    python -m speed.training_cost --configfile config.yaml paper.yaml --output results/bench

The training programs run as the workflow runs them, with the papers' settings but fewer steps, on
invented images and reports whose sizes are those of MIMIC-CXR. Rates are those of the last
``--steps``, after ``--warm-up``, within which FLOPs are counted and kernels are chosen; validation
and saving are left out. ``training_cost.json`` gets a row a model as soon as it is there: samples
and tokens a second, MFU, share of time in which the model waited for data, peak memory, and the
hours of the whole training at that rate.
"""

import argparse
import gc
import json
import logging
import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from PIL import Image

from cxr_files.errors import InputError
from cxr_labels.observations import OBSERVATIONS
from cxrflow.config import load_config
from cxrflow.config.gpu_hours import updates
from cxrflow.config.models import Models
from cxrflow.images.build import build_store
from cxrflow.images.geometry import Geometry
from cxrflow.images.settings import PixelSettings
from cxrflow.images.shards import Source
from cxrflow.names import paper_of
from cxrflow.text.report_batch import SECTIONS
from cxrflow.text.tokenizer import VocabularyInfo
from speed.race import machine
from speed.races.mlm_step import write_tokens
from speed.races.section_step import invent_reports
from speed.text_steps import invent_vocabulary

log = logging.getLogger("cxrflow")
SEED, VALIDATED = 0, 64
DOCUMENTS = 64_000  # 16 batches of phase II
POSITIVE = 0.1  # of every finding's labels
#: Every training of another kind or size.
MODELS = (
    *("biovil/cxr_bert_phase2", "biovil/cxr_bert", "biovil/simclr", "biovil/biovil"),
    *("biovil/gloria", "biovil_t/biovil_t", "biovil_t/report_biovil_t"),
    *("convirt/convirt", "convirt/simclr", "convirt/moco"),
    *("convirt/caption_lstm", "convirt/caption_transformer"),
    *("low_data/simclr", "low_data/infonce", "low_data/ours"),
    *("medcutmix/mgca", "medcutmix/medcutmix_50"),
)


class Invented(NamedTuple):
    """The inputs that do not hang on a model, and the images that stores are made of."""

    root: Path
    images: int
    processes: int

    def write(self) -> None:
        """The cohort, PNG files of its images, a vocabulary and its tokens."""
        reports = invent_reports().iloc[np.arange(self.images) % 2000].reset_index(drop=True)
        number = pd.Series(range(self.images)).astype(str)
        rng = np.random.default_rng(SEED)
        positive = rng.random((self.images, len(OBSERVATIONS))) < POSITIVE
        reports["findings_sentences"] = [
            [*(f"There is {OBSERVATIONS[column].lower()}." for column in row.nonzero()[0]), *text]
            for row, text in zip(positive, reports["findings_sentences"], strict=True)
        ]
        half = np.arange(self.images) % 2 == 1  # have a prior; of BioViL-T's two of three
        pairs = reports.assign(
            dataset="invented", subject_id=(number.astype(int) // 2).astype(str), study_id=number,
            image_id=number, image_path=number + ".png", view="PA",
            study_time=np.where(half, "2150-01-02 10:00:00", "2150-01-01 10:00:00"),
            prior_image_id=number.shift(1).where(half), prior_study_id=number.shift(1).where(half),
            split=np.where(np.arange(self.images) < VALIDATED, "validate", "train"),
            labels=list(positive.astype(float)),
            **{name: reports[f"{name}_sentences"].str.join(" ") for name in SECTIONS},
        )  # fmt: skip
        self.root.mkdir()
        (self.root / "vocabulary").mkdir()
        pairs.to_parquet(self.root / "pairs.parquet")
        flow = {"cohort": "invented", "dataset": "invented", "synthetic": True}
        flow["classes"] = list(OBSERVATIONS)
        (self.root / "flow.json").write_text(json.dumps(flow))
        invent_vocabulary(self.root / "vocabulary")
        self._write_images()
        self._write_tokens()

    def _write_images(self) -> None:
        rng = np.random.default_rng(SEED)
        for number in range(self.images):
            coarse = Image.fromarray(rng.integers(0, 255, (20, 17), dtype=np.uint8))
            coarse.resize((544, 640), Image.Resampling.BICUBIC).save(
                self.root / f"{number}.png", compress_level=1
            )

    def _write_tokens(self) -> None:
        sizes = np.random.default_rng(SEED).lognormal(np.log(200), 0.8, DOCUMENTS)
        info = VocabularyInfo.from_folder(self.root / "vocabulary")
        write_tokens(self.root / "tokens", sizes.clip(5, 2000).astype(np.int64), info)

    def store(self, geometry: str) -> Path:
        """A pixel store of all images, made when it is first asked for; what was begun goes on."""
        folder = self.root / "pixels" / geometry
        if not (folder / "store.json").is_file():
            folder.parent.mkdir(exist_ok=True)
            sources = [Source(str(number), f"{number}.png") for number in range(self.images)]
            build_store(
                self.root,
                sources,
                Geometry.parse(geometry),
                PixelSettings(),
                folder,
                self.processes,
            )
        return folder


def options(config: Models, name: str, invented: Invented, done: Path) -> dict[str, Any]:
    """The files and folders that a training reads."""
    model = config.models[name]
    read: dict[str, Any] = {"pairs": invented.root / "pairs.parquet"}
    if "vocabulary" in model.recipe.kind.accepts:
        read["vocabulary"] = invented.root / "vocabulary"
    if config.models[name].corpora:
        read["tokens"] = invented.root / "tokens"
    if model.geometry is not None:
        read["pixels"] = invented.store(model.geometry)
    # What it starts from counts for nothing but its shapes: any model of the same program does, and
    # weights of a program that is not measured are left out.
    for option, parent in config.models[name].parents.items():
        program = config.models[parent].recipe.program
        configured = [one for one in MODELS if one in config.models]
        alike = [one for one in configured if config.models[one].recipe.program == program]
        if not alike:
            continue
        standing = next((one for one in (parent, *alike) if (done / one).is_dir()), None)
        if standing is None:
            raise FileNotFoundError(f"{name} starts from {parent}, which is not in {done}")
        read[option] = done / standing
    return read


def cost(
    config: Models,
    name: str,
    invented: Invented,
    folder: Path,
    steps: int,
    warm_up: int,
    changes: Mapping[str, Any],
    done: Path | None = None,
) -> dict[str, Any]:
    """Train a model for a few steps; its row of the table. It starts from what is in ``done``."""
    model = config.models[name]
    settings = model.settings.model_dump(mode="json")
    whole = settings["training"]
    short = {
        **{"steps": steps + warm_up, "epochs": None, "validations": 1, "validate_steps": None},
        **{
            "validation_batches": 1,
            "checkpoint_validations": None,
            "log_steps": warm_up,
            **changes,
        },
    }
    short["stopping"] = whole["stopping"] | {"monitor": "loss"}
    short["schedule"] = whole["schedule"] | {"milestones": []}
    short["schedule"] |= {"decay": "linear"} if whole["schedule"]["decay"] == "multistep" else {}
    settings["training"] = {**whole, **short}
    for term in settings.get("terms", {}).values():  # what waits for later epochs takes part
        for waits in {"warmup_epochs", "rest_epochs"} & set(term or ()):
            term[waits] = 0
    if "written_validation" in settings:
        settings["written_validation"] = 2
    read = options(config, name, invented, done or folder)
    line = ["--settings", json.dumps(settings), "--model", name, "--seed", str(SEED)]
    line += ["--state", str(folder / "state" / name), "--output", str(folder / name)]
    for option, value in read.items():
        line += [f"--{option}", str(value)]
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    import_module(f"cxrflow.pretrain.{model.recipe.program}").main(line)
    run = json.loads((folder / name / "run.json").read_text())
    lines = map(json.loads, (folder / name / "metrics.jsonl").read_text().splitlines())
    begun, *_, ended = (line for line in lines if line["split"] == "train")
    seconds = (ended["time"] - begun["time"]) / steps
    batch = settings["training"]["batch_size"]
    length = updates(model)
    if length is None:
        raise InputError(f"{name}: nobody counts the rows of its cohort, so its length is unknown")
    peak = run["peak_flops_per_second"]
    rate = run["flops_per_step"] / seconds
    return {
        "model": name,
        "batch": batch,
        "precision": run["precision"],
        "seconds_per_step": round(seconds, 4),
        "samples_per_second": round(batch / seconds, 1),
        "tokens_per_second": round(
            run["tokens_per_second"] / run["samples_per_second"] * batch / seconds
        ),
        "tflops_per_second": round(rate / 1e12, 1),
        "mfu": peak and round(rate / peak, 3),
        "data_wait_share": round((ended["data_wait"] - begun["data_wait"]) / steps / seconds, 4),
        "peak_memory_gb": round(run["peak_memory_mb"] / 1024, 1),
        "parameters": run["parameters"],
        "whole_steps": length,
        "whole_hours": round(length * seconds / 3600, 2),
    }


def main() -> None:
    """Entry point; see the module's docstring."""
    parser = argparse.ArgumentParser(
        prog="python -m speed.training_cost",
        description=(__doc__ or "").replace("``", "`"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    files = ["config.yaml", "paper.yaml"]
    add("--configfile", nargs="+", default=files, help=f"default: {' '.join(files)}")
    everyone = f"default: {', '.join(MODELS)}"
    add("--models", nargs="*", default=MODELS, metavar="MODEL", help=everyone)
    add("--images", type=int, default=640, help="images that are invented (default: 640)")
    add("--steps", type=int, default=10, help="steps that are timed (default: 10)")
    add("--warm-up", type=int, default=4, help="steps before those, not timed (default: 4)")
    add("--set", type=json.loads, default={}, help="JSON that is laid over the key `training`")
    add("--processes", type=int, default=os.cpu_count(), help="processes that store the images")
    add("--output", type=Path, default=Path("results/bench"), help="folder of training_cost.json")
    add("--work", type=Path, help="folder to keep models and invented data in (default: none)")
    given = parser.parse_args()
    os.environ.setdefault("CXR_DATA", "/unused")
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    papers = f"papers={json.dumps(sorted({*map(paper_of, MODELS)}))}"
    config = load_config(given.configfile, check_roots=False, typed=[papers])
    given.output.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="cxrflow-cost-") as temporary:
        folder = given.work or Path(temporary)
        invented = Invented(folder / "invented", given.images, given.processes)
        if not invented.root.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            invented.write()
        rows: list[Mapping[str, Any]] = []
        for name in given.models:
            try:
                row = cost(config, name, invented, folder, given.steps, given.warm_up, given.set)
            except Exception as error:
                row = {"model": name, "failed": f"{type(error).__name__}: {error}"[:2000]}
                log.exception("%s", name)
            rows.append(row)
            print(json.dumps(row), flush=True)
            (given.output / "training_cost.json").write_text(
                json.dumps({"machine": machine(), "set": given.set, "rows": rows}, indent=1) + "\n"
            )
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
