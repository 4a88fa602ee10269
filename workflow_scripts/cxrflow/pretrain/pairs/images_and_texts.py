"""The program of N images and their N texts (BioViL section 2.2, ConVIRT, GLoRIA).

The methods of BioViL's Table 5 are terms and options of it. In ConVIRT's own training (its section
3.2) a sample is a study, and its images are those that are drawn of studies.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cxr_files.errors import InputError
from cxrflow.compute.device_copy import sent
from cxrflow.encoders.cxr_bert import CXRBert, save_text_encoder
from cxrflow.encoders.image_encoder import (
    Frames,
    ImageEncoder,
    ImageOutput,
    only_current,
    pooled,
    save_image_encoder,
)
from cxrflow.images.augment import Augmentation, StoredPixels
from cxrflow.kinds import is_outside
from cxrflow.pretrain.inputs import Run, copy_tokenizer
from cxrflow.pretrain.objective import Batch, Computed, Term, TermsProgram, TextOutput
from cxrflow.pretrain.report_text import PASSES, ComposableViews, TextPasses, Texts
from cxrflow.pretrain.resident_images import SplitImages
from cxrflow.pretrain.settings import JointPretrainingSettings
from cxrflow.pretrain.starts import freeze_below
from cxrflow.pretrain.terms.base_settings import Needs, OutsideTermSettings, Terms
from cxrflow.similarity.folder import kind_of, require_loadable, save_similarity
from cxrflow.text.report_batch import ReportSentence
from cxrflow.training.samples import SampleTable

log = logging.getLogger("cxrflow")


class PairViews(ComposableViews):
    """Images and a text of every sample."""

    _program: "ImageTextProgram"

    def __init__(self, program: "ImageTextProgram", split: str, batch: Batch) -> None:
        texts = program.texts[split]
        sources = {name: partial(source, texts) for name, source in PASSES.items()}
        super().__init__(program.passes, sources, ("intact",), batch)
        self._program, self._split = program, split
        self._together = max(1, program.needs.images) if program.stacked else 1  # in one pass
        self._passes = Computed(self._pass)
        self.images = Computed(self._encoded)
        self._encoder_inputs: dict[int, Frames[Tensor]] = {}  # by pass, until they are encoded

    def prepare(self, needs: Needs) -> None:
        super().prepare(needs)
        passes = range(0, max(1, needs.images), self._together)
        self._encoder_inputs = {number: self._frames(number) for number in passes}

    def _encoded(self, number: int) -> ImageOutput:
        if self._together == 1:
            return self._passes[number]
        return self._passes[0].rows(slice(number, None, self._together))

    def _pass(self, number: int) -> ImageOutput:
        """All views after the image encoder, those of an image as neighbours, or one view."""
        image, stage = self._program.image, self._program.needs.stage
        if number or stage is None:
            return image(self._frames(number))
        return image.project(image.encoder.forward_from(self._paused, stage))

    @cached_property
    def _paused(self) -> Frames[Tensor]:
        """Features of the first pass after the stage whose features a term reads."""
        stage = self._program.needs.stage
        assert stage is not None
        return self._program.image.encoder.forward_until(self._frames(0), stage)

    def _frames(self, number: int) -> Frames[Tensor]:
        if number in self._encoder_inputs:
            return self._encoder_inputs.pop(number)
        if self._together == 1:
            return self.pixels(number)
        return neighbours([self.pixels(view) for view in range(self._together)])

    @property
    def features(self) -> Tensor:
        return only_current(self._paused)[:: self._together]

    def resumed(self, features: Tensor, mean_pooled: bool = False) -> ImageOutput:
        image, stage = self._program.image, self._program.needs.stage
        assert stage is not None
        # Compiled blocks would be compiled for each number of images anew, and a few times only.
        with torch.compiler.set_stance("force_eager"):
            patches = image.encoder.forward_from(Frames(features), stage)
        return image.project(pooled(patches.grid) if mean_pooled else patches)

    @cached_property
    def sentences(self) -> list[list[ReportSentence]]:
        return self._program.texts[self._split].sentences(self.batch)

    def composed(self, texts: Sequence[Sequence[int]]) -> TextOutput:
        assert "intact" not in self.texts, "intact texts were read before others are composed"
        reports = self._program.texts[self._split].reports
        keys = torch.zeros(len(texts), dtype=torch.int64)  # no word is masked
        words = [self._words["intact"], (reports.sequences(texts, keys), None)]
        self.texts["intact"], composed = self._program.passes.together(words, self.batch)
        self.composed_tokens = int(composed.mask.sum())
        return composed

    def training_texts(self, rows: np.ndarray) -> TextOutput:
        texts = self._program.texts["train"]
        batch = self.batch._replace(rows=rows, samples=self._program.samples["train"])
        return self._program.passes((texts.intact(batch), None), batch)

    def shown_masks(
        self, places: Sequence[int], masks: Callable[[np.ndarray], np.ndarray]
    ) -> Tensor:
        (_, seed, epoch, *_) = self.batch
        images = self._program.images[self._split]
        rows = images.drawn(self.batch.rows[list(places)], seed, epoch)
        stored = images.take(rows).current
        pixels = sent(torch.from_numpy(masks(rows)), stored.pixels.device)
        return self._program.augmentation.moved(stored._replace(pixels=pixels), seed, epoch)

    def pixels(self, number: int) -> Frames[Tensor]:
        """View ``number`` of the images, augmented; the first one is the centre in validation."""
        program, (_, seed, epoch, *_) = self._program, self.batch
        frames = self._stored
        if self._split == "train" or number:
            return frames.each(lambda image: program.augmentation(image, seed, epoch, number))
        return frames.each(program.augmentation.centre)

    @cached_property
    def _stored(self) -> Frames[StoredPixels]:
        images, (_, seed, epoch, *_) = self._program.images[self._split], self.batch
        return images.take(images.drawn(self.batch.own, seed, epoch))


def neighbours(views: Sequence[Frames[Tensor]]) -> Frames[Tensor]:
    """One batch of all views, in which those of an image stand beside each other."""

    def stacked(tensors: Sequence[Tensor | None]) -> Tensor:
        return torch.stack([x for x in tensors if x is not None], dim=1).flatten(0, 1)

    current, first = stacked([view.current for view in views]), views[0]
    if first.prior is None:
        return Frames(current)
    rows = first.rows
    if rows is not None:
        places = torch.arange(len(views), device=rows.device)
        rows = (rows[:, None] * len(views) + places).flatten()
    return Frames(current, stacked([view.prior for view in views]), rows)


class ImageTextProgram(TermsProgram):
    """Trains both encoders on the images and texts of a cohort."""

    text_names = tuple(PASSES)
    guides = False  # masked words are predicted beside patches

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
        self.stacked = settings.view_statistics == "shared"
        super().__init__(
            settings,
            run,
            {"text": text, "image": image},
            samples,
            settings.ghost_batch,
            self.vocabulary,
        )
        _require_loadable(self.terms)
        composing = [name for name, term in self.terms.items() if term.composes]
        if len(composing) > 1:
            raise InputError(
                f"settings: terms.{composing[0]} and terms.{composing[1]} both compose texts; "
                "expected one term that does"
            )
        self.steady = self.needs.stage is None  # the images that are mixed after it vary in number
        _warn_of_unread(settings, self.needs)
        self.passes = TextPasses(text, self.vocabulary, self.needs, run.device)
        freeze_below(text, settings.frozen_layers)
        self.skips = freeze_unread(settings.terms, image, text, self.guides)

    def views(self, split: str, batch: Batch) -> PairViews:
        """Images and texts."""
        return PairViews(self, split, batch)

    def export(self, folder: Path) -> None:
        """Both encoders, the tokenizer and, where a term has one, the model's similarity."""
        save_text_encoder(self.text, folder)
        save_image_encoder(self.image, folder)
        for similarity in filter(None, (term.similarity() for term in self.terms.values())):
            save_similarity(similarity, folder)
        copy_tokenizer(self.tokenizer, folder)


def freeze_unread(terms: Terms, image: ImageEncoder, text: CXRBert, guides: bool = False) -> bool:
    """Freeze the parts of encoders that no term reads, and say whether some are not always read.

    Processes that train together wait for every parameter that could have a gradient.
    ``guides``: patches are read by masked words, too.
    """
    projector, term_settings = image.projector, terms.named().values()
    assert projector is not None
    needs = [term.needs for term in term_settings]
    words, wholes, pooled = (
        [term.sometimes for term in needs if term.parts & parts]
        for parts in ({"patches", "words"}, {"whole"}, {"pooled"})
    )
    if not (words or wholes or guides):
        projector.requires_grad_(False)
    if not words:
        text.cls_projection_head.freeze_local()
    if not (words or guides):
        projector.freeze_local()
    if not wholes:
        projector.freeze_global()
        text.cls_projection_head.freeze_global()
    if not pooled:
        image.encoder.freeze_pooling()
    # A term from outside may have parameters of its own, and skip a step.
    outside = any(isinstance(term, OutsideTermSettings) for term in term_settings)
    return outside or any(skips and all(skips) for skips in (words, wholes, pooled))


def _require_loadable(terms: Mapping[str, Term]) -> None:
    """Refuse a similarity that could not be loaded from the model's folder, before the first step.

    Of code outside of the package the workflow trusts the modules that the settings name.
    """
    similarities = {name: term.similarity() for name, term in terms.items()}
    given_similarities = {
        name: similarity for name, similarity in similarities.items() if similarity is not None
    }
    if len(given_similarities) > 1:
        names = " and ".join(f"terms.{name}" for name in given_similarities)
        raise InputError(f"{names} both give the model its similarity; expected at most one")
    for name, similarity in given_similarities.items():
        require_loadable(similarity, f"terms.{name}")
        kind, settings = kind_of(similarity), terms[name].settings
        named_code = (getattr(settings, "kind", None), settings.similarity)
        if is_outside(kind) and kind.partition(":")[0] not in {
            str(code).partition(":")[0] for code in named_code
        }:
            raise InputError(
                f"terms.{name}: no setting names the module of its similarity {kind}; expected it "
                "in the term's own module, or `similarity` of the term's settings to be this name"
            )


def _warn_of_unread(settings: JointPretrainingSettings, needs: Needs) -> None:
    """Say which views are described, but read by no term."""
    views = {
        "augmentation.second_crop": settings.augmentation.second_crop and needs.images < 2,
        "text_augmentation": settings.text_augmentation and "augmented" not in needs.texts,
    }
    for key in (key for key, unread in views.items() if unread):
        log.warning("settings: key '%s' is set, but no term reads what it makes", key)
