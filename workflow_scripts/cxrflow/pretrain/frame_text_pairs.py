"""The temporal program: studies, some with a prior image, and their texts (BioViL-T section 3).

Images and texts are aligned as in joint training, but the image encoder compares an image with its
prior, and masked words are predicted by looking at the patches it gives.

Shapes: B studies, L tokens, h x w patches of width P.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from cxrflow.compute.device_copy import sent
from cxrflow.encoders.cxr_bert import CXRBert
from cxrflow.encoders.guided_text import GuidedText, save_guidance
from cxrflow.encoders.image_encoder import ImageEncoder, read_image_settings
from cxrflow.encoders.settings import ImageEncoderSettings
from cxrflow.errors import InputError
from cxrflow.pretrain.image_text_pairs import ImageTextProgram, PairViews, start_image
from cxrflow.pretrain.inputs import PRIOR, Pairs, move
from cxrflow.pretrain.objective import Batch, Run
from cxrflow.pretrain.report_text import MaskedText, TextPasses, Texts, totals, train_only
from cxrflow.pretrain.resident_images import SplitImages
from cxrflow.pretrain.settings import TemporalPretrainingSettings
from cxrflow.text.masking import WordMasker
from cxrflow.text.report_batch import ReportTokens, Section
from cxrflow.text.report_prompts import PRIOR_STUDY
from cxrflow.training.program import ParameterRule
from cxrflow.training.samples import SampleTable


@dataclass(frozen=True)
class JoinedSections:
    """Reports whose sections are read as one text, sentences shuffled within their section."""

    reports: ReportTokens
    sections: Sequence[Section]
    shuffle: bool

    def take(self, batch: Batch) -> dict[str, Tensor]:
        """This process's texts: ``ReportTokens.batch``, [CLS], one section after another, [SEP]."""
        parts = [
            self.reports.batch(batch.own, section, batch.seed, batch.epoch, self.shuffle)
            for section in self.sections
        ]
        ids, kept = [], []
        for number, part in enumerate(parts):
            length_B1 = part["attention_mask"].sum(1, keepdim=True)
            place_L = torch.arange(part["input_ids"].shape[1])
            begin = int(number > 0)  # [CLS] of the first section alone
            end_B1 = length_B1 - int(number < len(parts) - 1)  # [SEP] of the last alone
            ids.append(part["input_ids"])
            kept.append((place_L >= begin) & (place_L < end_B1))
        ids_BL, kept_BL = torch.cat(ids, dim=1), torch.cat(kept, dim=1)
        lengths_B = kept_BL.sum(1).clamp(max=self.reports.max_length)
        order_BL = (~kept_BL).long().argsort(dim=1, stable=True)[:, : int(lengths_B.max())]
        mask_BL = torch.arange(order_BL.shape[1]) < lengths_B[:, None]
        vocabulary = self.reports.vocabulary
        ids_BL = ids_BL.gather(1, order_BL).masked_fill(~mask_BL, vocabulary.pad)
        ids_BL[torch.arange(len(ids_BL)), lengths_B - 1] = vocabulary.sep  # also where it is cut
        return {
            "input_ids": ids_BL,
            "attention_mask": mask_BL.long(),
            "keys": parts[0]["keys"],
        }


class Split(NamedTuple):
    """The studies of a split."""

    images: SplitImages
    texts: Texts  # that images are aligned with
    masked: JoinedSections


class FrameViews(PairViews):
    """Frames and texts of every sample; masked texts are read beside the image."""

    _program: "FrameTextProgram"

    @cached_property
    def _masked(self) -> MaskedText:
        program, batch = self._program, self.batch
        taken = program.masked_texts[self._split].take(batch)
        ids, mask = taken["input_ids"], taken["attention_mask"]
        masked = program.masker(ids, mask.bool(), taken["keys"], batch.seed, batch.epoch)
        device = program.run.device
        hidden = program.guided.states(
            program.text,
            sent(masked.input_ids, device),
            mask,
            self.image.unnormalised_patches.flatten(1, 2),
        )
        logits = program.text.predict_tokens(hidden, sent(masked.positions, device))
        targets = sent(masked.targets, device)
        return MaskedText(logits, targets, *totals(batch.processes, len(targets), len(ids)))

    @property
    def masked(self) -> list[MaskedText]:
        return [self._masked]


class FrameTextProgram(ImageTextProgram):
    """Trains both encoders on studies with and without a prior image."""

    settings: TemporalPretrainingSettings

    def __init__(
        self,
        settings: TemporalPretrainingSettings,
        run: Run,
        samples: Mapping[str, SampleTable],
        splits: dict[str, Split],
        image: ImageEncoder,
        text: CXRBert,
        vocabulary: Path,
    ) -> None:
        super().__init__(
            settings,
            run,
            samples,
            {name: split.images for name, split in splits.items()},
            {name: split.texts for name, split in splits.items()},
            image,
            text,
            vocabulary,
        )
        self.steady = not splits["train"].images.have_priors
        names = ("encoder.vit_pooler.type_embed", "encoder.missing_previous_emb")
        there = dict(image.named_parameters())
        self.parameter_rules = [
            ParameterRule(f"image.{name}", decay=False) for name in names if name in there
        ]
        if settings.terms.mlm is not None:
            self._predict_masked(settings, splits)

    def _predict_masked(
        self, settings: TemporalPretrainingSettings, splits: dict[str, Split]
    ) -> None:
        assert settings.terms.mlm is not None
        width, vocabulary = self.image.settings.projection, self.vocabulary
        self.masked_texts = {name: split.masked for name, split in splits.items()}
        self.masker = WordMasker(vocabulary, settings.terms.mlm.masking)
        self.guided = GuidedText(self.text, width, vocabulary.cls_, settings.mlm_token)
        self.modules["guided"] = self.guided
        move(self.guided, self.run.device, self.run.processes)
        # The texts that images are aligned with are read intact, by themselves.
        aligning = [term for term in self.terms.values() if not term.masks]
        self.passes = TextPasses(self.text, vocabulary, aligning, self.run.device)
        train_only(self.text, tokens=True, projection=True)

    def views(self, split: str, batch: Batch) -> FrameViews:
        """Frames and texts."""
        return FrameViews(self, split, batch)

    def export(self, folder: Path) -> None:
        """Both halves, the tokenizer and what lets text look at images."""
        super().export(folder)
        if self.settings.terms.mlm is not None:
            save_guidance(self.guided, folder)


def start_trunk(folder: str | Path | None, settings: ImageEncoderSettings) -> ImageEncoder:
    """An image encoder that compares; its ResNet, or all of its trunk, starts from ``folder``.

    The paper starts from BioViL (section 3.1), whose trunk is a ResNet alone.
    """
    if folder is None:
        return ImageEncoder(settings)
    known = read_image_settings(Path(folder) / "image" / "config.json")
    if known.kind == settings.kind:
        return start_image(folder, settings)
    image = ImageEncoder(settings)
    one = start_image(folder, settings.single)
    image.encoder.load_state_dict({**image.encoder.state_dict(), **one.encoder.state_dict()})
    return image


def require_earlier_priors(pairs: Pairs) -> None:
    """Each prior is another image, of the same patient's earlier study; else an InputError.

    Of a prior whose own study is no row of the table only what its ids say can be known.
    """
    frame = pairs.frame
    missing = [name for name in ("study_time", PRIOR) if name not in frame]
    if missing:
        raise InputError(f"{pairs.path}: column '{missing[0]}' is missing; expected the priors")
    # A prior report is the prior study's, whether or not that has an image.
    itself = frame["study_id"] == frame.get(PRIOR_STUDY)
    rows = frame[frame[PRIOR].notna() | itself]
    images = frame.drop_duplicates("image_id").set_index("image_id")
    known = rows[PRIOR].isin(images.index).to_numpy()
    priors = images.reindex(rows[PRIOR])
    own, before = (
        pd.to_datetime(times, errors="coerce", format="mixed").to_numpy()
        for times in (rows["study_time"], priors["study_time"])
    )
    tests = {
        (PRIOR, "is the image itself"): rows[PRIOR].to_numpy() == rows["image_id"].to_numpy(),
        (PRIOR_STUDY, "is the study itself"): itself[rows.index].to_numpy(),
        (PRIOR, "is another patient's"): known
        & (priors["subject_id"].to_numpy() != rows["subject_id"].to_numpy()),
        (PRIOR, "is not earlier"): known & (before >= own),
    }
    for (column, what), wrong in tests.items():
        if np.any(wrong):
            study = rows["study_id"].to_numpy()[wrong][0]
            raise InputError(
                f"{pairs.path}: the prior of {int(np.sum(wrong))} study or studies {what} "
                f"({column} of study {study}); expected an earlier one of the same patient"
            )


def joined_sections(
    settings: TemporalPretrainingSettings, texts: Texts, pairs: pd.DataFrame, tokenizer: Any
) -> JoinedSections:
    """What masked words are predicted in, beside the ``texts`` that images are aligned with."""
    whole = settings.text == "impression"  # else ``texts`` hold sentences of all sections
    reports = texts.reports if whole else ReportTokens(pairs, tokenizer, settings.length)
    return JoinedSections(reports, settings.mlm_sections, texts.shuffle)
