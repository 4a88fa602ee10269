"""A task's score as a value of the validation, which may decide what is kept.

MedCutMix (section 3.1) keeps the weights with the best zero-shot AUROC on CheXpert's valid part.
The task is any benchmark of images and texts. It is put to the weights as they are, with their
tokenizer as it is exported, in the precision of evaluations. Its metrics are values named
``selection/<metric>``. Classes have none of their own there.
"""

from argparse import Namespace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from cxr_files.atomic import file_digest, read_object
from cxr_files.errors import InputError
from cxr_files.settings import read_settings
from cxrflow.benchmarks.registry import BENCHMARKS, imported
from cxrflow.models.model import Model
from cxrflow.pretrain.objective import TermsProgram
from cxrflow.similarity.cosine import Cosine
from cxrflow.text.tokenizer import read_tokenizer

PREFIX = "selection/"


class Selection:
    """The score of a task, by the weights of a program.

    ``cohort``, ``pixels``: folders of what is scored; ``settings``: of the benchmark.
    """

    def __init__(
        self, program: TermsProgram, benchmark: str, settings: Any, cohort: Path, pixels: Path
    ) -> None:
        self.program, self.settings = program, settings
        self.benchmark = BENCHMARKS[benchmark]
        self.options = Namespace(cohort=cohort, pixels=pixels, model=Path(), training=None)
        with TemporaryDirectory() as folder:
            program.export(Path(folder))
            self.tokenizer = read_tokenizer(folder)

    def __call__(self) -> dict[str, float]:
        """The task's metrics; the first process computes them for all."""
        processes = self.program.run.processes
        values = processes.collect(processes.first(self._score))[0]
        assert values is not None
        return values

    @torch.no_grad()
    def _score(self) -> dict[str, float]:
        device = self.program.run.device
        with torch.autocast(device.type, enabled=False):
            predictions = imported(self.benchmark.program).predict(self._inputs(), self.settings)
        assert predictions.statistic is not None
        metrics = predictions.statistic(np.ones((1, len(predictions.table))))
        return {f"{PREFIX}{name}": float(x[0]) for name, x in metrics.items() if "/" not in name}

    def _inputs(self) -> Any:
        """What the benchmark reads: the program's encoders in place of a model folder's."""
        file = "pairs.parquet" if self.benchmark.kind == "pairs" else "samples.parquet"
        columns = getattr(imported(self.benchmark.program), "COLUMNS", ())
        device = str(self.program.run.device)
        inputs = imported("model_inputs:ModelInputs")(self.options, file, columns, device)
        store = imported("model_pixels:ModelPixels")(self.options.pixels, None, self._record())
        inputs.model = self._model(str(store.geometry))
        inputs.pixels = store
        if self.benchmark.reads == "features":
            inputs.features = self._features(inputs)
        return inputs

    def _model(self, geometry: str) -> Model:
        text, image = (self.program.modules[half] for half in ("text", "image"))
        similarities = [term.similarity() for term in self.program.terms.values()]
        similarity = next(filter(None, similarities), None) or Cosine()
        run = {**self._record(), "data": {"geometry": geometry}}
        device: Any = self.program.run.device
        text_encoder: Any = text.eval()
        image_encoder: Any = image.eval()
        halves = (text_encoder, image_encoder, self.tokenizer)
        return Model(Path(), device, run, *halves, None, similarity.eval())

    def _record(self) -> dict[str, Any]:
        return {"settings": self.program.settings.record()}

    def _features(self, inputs: Any) -> Any:
        """The features of the cohort's images, as the benchmark gets them from a file else."""
        features = imported("features")
        image: Any = self.program.modules["image"]
        images = features.images_to_encode(inputs.cohort.table, image.takes_prior)
        stored = images[inputs.pixels.holds(images["image_id"])].reset_index(drop=True)
        batch = (features.FeatureSettings().batch_size, self.program.run.device)
        reads = inputs.model.similarity.reads_patches
        by_kind = features.encode(image, inputs.pixels, stored, *batch, patches=reads)
        pixels = inputs.pixels
        return features.Features(stored, by_kind, str(pixels.geometry), pixels.fingerprint)


def select_by(program: TermsProgram, options: Namespace) -> dict[str, Any]:
    """Let a program's validation score the task of the options; return its record for run.json.

    Raises:
        InputError: the program lacks an encoder, or an option is missing.
    """
    for name in ("selection_pixels", "selection_task"):
        if getattr(options, name) is None:
            raise InputError(f"--{name.replace('_', '-')} is missing; --selection needs it")
    task, cohort = options.selection_task, options.selection
    try:
        benchmark = BENCHMARKS.named(task)
    except ValueError as error:
        raise InputError(f"--selection-task {error}") from None
    settings = read_settings(options.selection_settings, benchmark.settings)
    program.selection = Selection(program, task, settings, cohort, options.selection_pixels)
    file = "pairs" if benchmark.kind == "pairs" else "samples"
    flow = read_object(cohort / "flow.json", ("dataset",))
    return {
        "benchmark": task,
        "name": flow["dataset"],
        "layout": flow.get("layout"),
        "synthetic": bool(flow.get("synthetic")),
        "settings": settings.record(),
        "fingerprint": file_digest(cohort / f"{file}.parquet")[:16],
        "pixels": file_digest(options.selection_pixels / "store.json")[:16],
    }
