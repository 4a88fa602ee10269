"""The joint program: N images and their N texts (BioViL section 2.2).

The other methods of BioViL's Table 5 are options and other terms of it: GLoRIA's local alignment
beside the global one (GLoRIA, BioViL-L); ConVIRT's sentences, pooling, frozen layers and uneven
directions.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from cxrflow.encoders.cxr_bert import CXRBert, save_text_half
from cxrflow.encoders.image_encoder import (
    ImageEncoder,
    ImageOutput,
    read_image_settings,
    save_image_half,
)
from cxrflow.encoders.settings import ImageEncoderSettings
from cxrflow.encoders.weights import load_weights, read_weights
from cxrflow.errors import InputError
from cxrflow.images.augment import Augmentation
from cxrflow.pretrain.inputs import copy_tokenizer
from cxrflow.pretrain.objective import Batch, Run, TermsProgram
from cxrflow.pretrain.report_text import (
    TextOutput,
    TextPasses,
    Texts,
    TextViews,
    freeze_below,
    sentence_pool,
)
from cxrflow.pretrain.resident_images import SplitImages
from cxrflow.pretrain.settings import JointPretrainingSettings
from cxrflow.similarity.folder import save_similarity
from cxrflow.text.report_batch import ReportTokens
from cxrflow.training.samples import SampleTable


class PairViews(TextViews):
    """An image and a text of every sample."""

    def __init__(self, program: "ImageTextProgram", split: str, batch: Batch) -> None:
        super().__init__(program.passes, [program.texts[split]], batch)
        self._program, self._split = program, split

    @cached_property
    def image(self) -> ImageOutput:
        """The images after their encoder, augmented in training."""
        program, seed, epoch = self._program, self.batch.seed, self.batch.epoch
        frames = program.images[self._split].take(self.batch.own)
        if self._split == "train":
            return program.image(frames.each(lambda one: program.augmentation(one, seed, epoch)))
        return program.image(frames.each(program.augmentation.centre))

    @property
    def text(self) -> TextOutput:
        """The texts after theirs."""
        return self.texts[0]


class ImageTextProgram(TermsProgram):
    """Trains both encoders on the pairs of a cohort."""

    def __init__(
        self,
        settings: JointPretrainingSettings,
        run: Run,
        samples: Mapping[str, SampleTable],
        images: Mapping[str, SplitImages],
        texts: Mapping[str, Texts],
        image: ImageEncoder,
        text: CXRBert,
        vocabulary: Path,
    ) -> None:
        if text.config.projection_size != image.settings.projection:
            raise InputError(
                f"settings: key 'encoder.projection' is {image.settings.projection}, but the text "
                f"model projects to {text.config.projection_size}; the joint space has one width"
            )
        self.images, self.texts, self.image, self.text = images, texts, image, text
        self.vocabulary = texts["train"].reports.vocabulary
        self.tokenizer = vocabulary
        self.augmentation = Augmentation(settings.augmentation)
        super().__init__(
            settings,
            run,
            {"text": text, "image": image},
            samples,
            settings.ghost_batch,
        )
        self.passes = TextPasses(text, self.vocabulary, self.terms.values(), run.device)
        freeze_below(text, settings.frozen_layers)

    def views(self, split: str, batch: Batch) -> PairViews:
        """Images and texts."""
        return PairViews(self, split, batch)

    def export(self, folder: Path) -> None:
        """Both halves, the tokenizer and, where a term has one, the model's similarity."""
        save_text_half(self.text, folder)
        save_image_half(self.image, folder)
        for similarity in filter(None, (term.similarity() for term in self.terms.values())):
            save_similarity(similarity, folder)
        copy_tokenizer(self.tokenizer, folder)


def pair_texts(
    settings: JointPretrainingSettings, pairs: pd.DataFrame, tokenizer: Any, training: bool
) -> Texts:
    """What the images of ``pairs`` are compared with."""
    drawn = settings.text == "sentence"
    if drawn:
        pairs = sentence_pool(pairs, settings.sentence_sections)
    reports = ReportTokens(pairs, tokenizer, settings.length)
    return Texts(reports, "impression", settings.sentence_shuffling and training, drawn)


def start_image(folder: str | Path | None, settings: ImageEncoderSettings) -> ImageEncoder:
    """An image encoder whose trunk starts from ``folder``; the projection is always new.

    SimCLR has no projection to the joint space (BioViL section 2.2 projects for joint training).
    The trunk keeps its sizes; dilation has no weights, so ``settings`` decides the grid.
    """
    if folder is None:
        return ImageEncoder(settings)
    source = Path(folder) / "image"
    free = {name: getattr(settings, name) for name in settings.weightless}
    known = read_image_settings(source / "config.json").model_copy(update=free)
    if known != settings:
        raise InputError(
            f"{source / 'config.json'}: the trunk has sizes {known.model_dump(exclude=set(free))}"
            f", but settings.encoder says {settings.model_dump(exclude=set(free))}"
        )
    image, path = ImageEncoder(settings), source / "model.safetensors"
    prefix = "encoder."  # there may be a projection besides
    weights = {
        name.removeprefix(prefix): value
        for name, value in read_weights(path).items()
        if name.startswith(prefix)
    }
    load_weights(image.encoder, weights, path)
    return image
