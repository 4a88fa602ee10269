"""The inputs of a benchmark that scores a model: beside the cohort its encoders and features."""

from argparse import Namespace
from collections.abc import Sequence
from functools import cached_property
from typing import Any, cast

import torch

from cxrflow.benchmarks.features import Features, read_features
from cxrflow.benchmarks.inputs import Inputs, Pixels
from cxrflow.benchmarks.model_pixels import ModelPixels, model_pixels
from cxrflow.encoders.image_encoder import ImageEncoder, load_image_encoder
from cxrflow.models.model import Model
from cxrflow.training.precision import choose_device


class ModelInputs(Inputs):
    """The inputs of a task with the folder of a model, or of another row, which has none."""

    def __init__(
        self,
        options: Namespace,
        file: str = "samples.parquet",
        columns: Sequence[str] = (),
        device: str = "auto",
    ) -> None:
        super().__init__(options, file, columns)
        self.device: torch.device = choose_device(device)

    @property
    def without_model(self) -> bool:
        """True for a row that has no model's folder."""
        return getattr(self.options, "model", None) is None

    @cached_property
    def model(self) -> Any:
        """The model, with whichever encoders it has."""
        return Model.load(self.options.model, self.device)

    def load(self) -> None:
        """Load the model, if one is scored: its pixels are then in the geometry that it says."""
        if self.row is None:
            _ = self.model

    @cached_property
    def text_model(self) -> Any | None:
        """The model where it has a text encoder and so can embed prompts, else None."""
        if self.without_model or not (self.options.model / "config.json").is_file():
            return None
        return self.model

    @cached_property
    def image(self) -> ImageEncoder:
        """The image encoder alone, in evaluation mode; without a projection where it has none."""
        return load_image_encoder(self.options.model, trunk_alone=True).to(self.device).eval()

    @cached_property
    def pixels(self) -> Pixels:
        """The pixels as the model sees them; another row sees what an untrained one does."""
        if self.without_model:
            return cast(Pixels, ModelPixels(self.options.pixels, None, {}))
        if "model" not in vars(self):
            return model_pixels(self.options.pixels, self.options.model)
        store = ModelPixels(self.options.pixels, self.model.geometry, self.model.run)
        return cast(Pixels, store)

    @cached_property
    def features(self) -> Features:
        """The features of the cohort's images by this model, or of another row."""
        return self.ask(features)


def features(inputs: ModelInputs) -> Features:
    """Those that a model's folder of features holds."""
    return read_features(inputs.options.features, inputs.options.model)
