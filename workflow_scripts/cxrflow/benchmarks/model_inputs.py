"""The inputs of a benchmark that scores a model: beside the cohort its halves and features."""

from argparse import Namespace
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch

import cxrflow
from cxrflow.benchmarks.features import Features, read_features, trained_geometry
from cxrflow.benchmarks.inputs import Inputs, Pixels, open_pixels
from cxrflow.encoders.image_encoder import ImageEncoder, load_image_half
from cxrflow.training.precision import choose_device


class ModelInputs(Inputs):
    """The inputs of a task with the folder of a model, or of a reference row, which has none."""

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
    def is_reference(self) -> bool:
        """True for a reference row, which has no model."""
        return getattr(self.options, "model", None) is None

    @cached_property
    def model(self) -> Any:
        """The model, with whichever halves it has."""
        return cxrflow.load(self.options.model, self.device)

    @cached_property
    def text_model(self) -> Any | None:
        """The model where it has a text half and so can embed prompts, else None."""
        if self.is_reference or not (self.options.model / "config.json").is_file():
            return None
        return self.model

    @cached_property
    def image(self) -> ImageEncoder:
        """The image half alone, in evaluation mode; without a projection where it has none."""
        return load_image_half(self.options.model, trunk_alone=True).to(self.device).eval()

    @cached_property
    def pixels(self) -> Pixels:
        """The pixel store, which has the geometry that the model was trained on."""
        if self.is_reference:
            return super().pixels
        loaded = "model" in vars(self)
        geometry = self.model.geometry if loaded else trained_geometry(self.options.model)
        return open_pixels(self.options.pixels, geometry)

    @cached_property
    def features(self) -> Features:
        """The features of the cohort's images by this model."""
        return read_features(self.options.features, self.options.model)
