"""The inputs of a benchmark that scores a model: beside the cohort its encoders and features."""

from argparse import Namespace
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from cxrflow.benchmarks.inputs import Inputs, Pixels

# Each is imported by what reads it: many reference rows need no torch, which costs two seconds.
if TYPE_CHECKING:
    import torch

    from cxrflow.benchmarks.features import Features
    from cxrflow.encoders.image_encoder import ImageEncoder


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
        self._device = device

    @cached_property
    def device(self) -> "torch.device":
        """The device of the model, and of whatever else is computed with torch."""
        from cxrflow.training.precision import choose_device

        return choose_device(self._device)

    @property
    def without_model(self) -> bool:
        """True for a row that has no model's folder."""
        return getattr(self.options, "model", None) is None

    @cached_property
    def model(self) -> Any:
        """The model, with whichever encoders it has."""
        from cxrflow.models.model import Model

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
    def image(self) -> "ImageEncoder":
        """The image encoder alone, in evaluation mode; without a projection where it has none."""
        from cxrflow.encoders.image_encoder import load_image_encoder

        return load_image_encoder(self.options.model, trunk_alone=True).to(self.device).eval()

    @cached_property
    def pixels(self) -> Pixels:
        """The pixels as the model sees them; another row sees what an untrained one does."""
        from cxrflow.benchmarks.model_pixels import ModelPixels, model_pixels

        if self.without_model:
            return cast(Pixels, ModelPixels(self.options.pixels, None, {}))
        if "model" not in vars(self):
            return model_pixels(self.options.pixels, self.options.model)
        store = ModelPixels(self.options.pixels, self.model.geometry, self.model.run)
        return cast(Pixels, store)

    @cached_property
    def features(self) -> "Features":
        """The features of the cohort's images by this model, or of another row."""
        return self.ask(features)


def features(inputs: ModelInputs) -> "Features":
    """Those that a model's folder of features holds."""
    from cxrflow.benchmarks.features import read_features

    return read_features(inputs.options.features, inputs.options.model)
