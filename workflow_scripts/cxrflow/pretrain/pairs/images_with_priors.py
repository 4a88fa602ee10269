"""The temporal program: studies, some with a prior image, and their texts (BioViL-T section 3).

Images and texts are aligned as in joint training, but the image encoder compares an image with its
prior, and masked words are predicted by looking at the patches it gives.

Shapes: B studies, L tokens, h x w patches of width P.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from tokenizers import Tokenizer
from torch import Tensor

from cxrflow.compute.device_copy import sent
from cxrflow.encoders.guided_text import GuidedText, save_guidance
from cxrflow.pretrain.inputs import Run, move
from cxrflow.pretrain.objective import Batch, MaskedText
from cxrflow.pretrain.pairs.images_and_texts import ImageTextProgram, PairViews, freeze_unread
from cxrflow.pretrain.pairs.tables import pair_texts
from cxrflow.pretrain.report_text import TextPasses, Texts
from cxrflow.pretrain.settings import TemporalPretrainingSettings
from cxrflow.pretrain.starts import train_only
from cxrflow.pretrain.terms.base_settings import Needs
from cxrflow.text.report_batch import MaskedBatch, ReportTokens
from cxrflow.training.program import ParameterRule


@dataclass(frozen=True, kw_only=True)
class FrameTexts(Texts):
    """Texts that images are aligned with, and those whose words are masked."""

    masked: Texts


def frame_texts(
    settings: TemporalPretrainingSettings, pairs: pd.DataFrame, tokenizer: Tokenizer, training: bool
) -> FrameTexts:
    """Make both texts of ``pairs``."""
    texts = pair_texts(settings, pairs, tokenizer, training)
    tokens = texts.reports
    if settings.text == "sentence":  # a pool of sentences stands in the place of IMPRESSION
        tokens = ReportTokens(pairs, tokenizer, settings.length)
    masked = Texts(tokens, settings.mlm_sections, texts.shuffle)
    return FrameTexts(**vars(texts), masked=masked)


class FrameViews(PairViews):
    """Frames and texts of every sample; masked texts are read beside the image."""

    _program: "FrameTextProgram"

    def prepare(self, needs: Needs) -> None:
        super().prepare(needs)
        if needs.masking is not None:
            _ = self._guided_words

    @cached_property
    def _guided_words(self) -> tuple[Tensor, MaskedBatch]:
        tokens = self._program.texts[self._split].masked.intact(self.batch)
        masked = self._program.masking.masked(tokens, self.batch)
        assert masked is not None
        return tokens["attention_mask"], masked

    @cached_property
    def _guided(self) -> MaskedText:
        program, (mask, masked) = self._program, self._guided_words
        ids = sent(masked.input_ids, program.run.device)
        patches_BMP = self.images[0].unnormalised_patches.flatten(1, 2)
        hidden = program.guided.states(program.text, ids, mask, patches_BMP)
        return program.masking.predicted(masked, hidden, self.batch)

    @property
    def masked(self) -> list[MaskedText]:  # type: ignore[override]
        return [self._guided]


class FrameTextProgram(ImageTextProgram):
    """Trains both encoders on studies with and without a prior image."""

    settings: TemporalPretrainingSettings
    texts: Mapping[str, FrameTexts]

    def __init__(self, settings: TemporalPretrainingSettings, run: Run, *inputs: Any) -> None:
        """``inputs`` are those of an :class:`ImageTextProgram`."""
        self.guides = settings.terms.mlm is not None
        super().__init__(settings, run, *inputs)
        image, text = self.image, self.text
        self.steady = self.steady and not self.images["train"].have_priors
        parameters = dict(image.named_parameters())
        undecayed = ("encoder.vit_pooler.type_embed", "encoder.missing_previous_emb")
        self.parameter_rules = [
            *self.parameter_rules,
            *(ParameterRule(f"image.{n}", decay=False) for n in undecayed if n in parameters),
        ]
        if settings.terms.mlm is not None:
            self.masking, width = self.passes, image.settings.projection
            self.guided = GuidedText(text, width, self.vocabulary.cls_, settings.mlm_token)
            self.modules["guided"] = self.guided
            move(self.guided, run.device, run.processes)
            # The texts that images are aligned with are read intact, by themselves.
            intact = replace(self.needs, masking=None)
            self.passes = TextPasses(text, self.vocabulary, intact, run.device)
            train_only(text, tokens=True, projection=True)
            freeze_unread(settings.terms, image, text, self.guides)

    def views(self, split: str, batch: Batch) -> FrameViews:
        """Frames and texts."""
        return FrameViews(self, split, batch)

    def export(self, folder: Path) -> None:
        """Both encoders, the tokenizer and what lets text look at images."""
        super().export(folder)
        if self.settings.terms.mlm is not None:
            save_guidance(self.guided, folder)
