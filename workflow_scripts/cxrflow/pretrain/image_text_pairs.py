"""The joint program: global alignment of N images with N impressions, and MLM on the text.

The other objectives of BioViL's Table 5 are options of it: GLoRIA's local alignment beside the
global one (GLoRIA, BioViL-L); ConVIRT's sentences, pooling, frozen layers and uneven directions.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from cxrflow.encoders.cxr_bert import CXRBert, save_text_half
from cxrflow.encoders.image_encoder import ImageEncoder, read_image_settings, save_image_half
from cxrflow.encoders.settings import ImageEncoderSettings
from cxrflow.encoders.weights import load_weights, read_weights
from cxrflow.errors import InputError
from cxrflow.images.augment import Augmentation
from cxrflow.images.store import PixelStore
from cxrflow.objectives.global_alignment import global_alignment
from cxrflow.pretrain.inputs import copy_tokenizer, mean_losses, moved, require_whole_ghosts
from cxrflow.pretrain.local_term import LocalTerm
from cxrflow.pretrain.report_text import encode_reports, freeze_below, sentence_pool, train_only
from cxrflow.pretrain.resident_images import SplitImages, other_patients
from cxrflow.pretrain.settings import JointPretrainingSettings
from cxrflow.text.masking import WordMasker
from cxrflow.text.report_batch import ReportTokens
from cxrflow.text.tokenizer import VocabularyInfo
from cxrflow.training.order import batch_rows, batches_per_epoch, contrastive_batches
from cxrflow.training.processes import ALONE, Processes
from cxrflow.training.program import Losses


class ImageTextProgram:
    """BioViL's objective on a cohort of image-impression pairs."""

    def __init__(
        self,
        settings: JointPretrainingSettings,
        store: PixelStore,
        train: pd.DataFrame,
        validation: pd.DataFrame,
        text: CXRBert,
        image: ImageEncoder,
        tokenizer: Any,
        vocabulary: Path,
        seed: int,
        device: torch.device,
        processes: Processes,
    ) -> None:
        self.settings, self.seed, self.device = settings, seed, device
        self.processes = processes
        require_whole_ghosts(settings.training.batch_size, settings.ghost_batch, processes)
        self.vocabulary = vocabulary
        self.ids = train["study_id"].tolist()
        self.one_sentence = settings.text == "sentence"
        texts = {"train": train, "validate": validation}
        if self.one_sentence:
            sections = settings.sentence_sections
            texts = {name: sentence_pool(pairs, sections) for name, pairs in texts.items()}
        self.reports = {
            name: ReportTokens(pairs, tokenizer, settings.length) for name, pairs in texts.items()
        }
        self.images = {
            "train": SplitImages(store, train["image_id"], device),
            "validate": SplitImages(store, validation["image_id"], device),
        }
        self.partner = np.arange(len(train))
        if settings.shuffled_pairs:
            self.partner = other_patients(train["subject_id"], seed)
        self.augmentation = Augmentation(settings.augmentation)
        pieces = VocabularyInfo.from_tokenizer(tokenizer)
        self.masker = WordMasker.from_settings(pieces, settings.mlm.masking)
        self.local: LocalTerm | None = None
        if settings.local_alignment.weight > 0:
            self.local = LocalTerm(settings.local_alignment, text, pieces)
        if text.config.projection_size != image.settings.projection:
            raise InputError(
                f"settings: key 'encoder.projection' is {image.settings.projection}, but the text "
                f"model projects to {text.config.projection_size}; the joint space has one width"
            )
        self.text, self.image = text, image
        train_only(text, tokens=settings.mlm.weight > 0, projection=True)
        freeze_below(text, settings.frozen_layers)
        self.modules = moved(
            {"text": text, "image": image}, device, processes, settings.ghost_batch
        )
        self.batches_per_epoch = batches_per_epoch(len(train), settings.training.batch_size)

    def _batch(self, epoch: int, index: int) -> np.ndarray:
        size = self.settings.training.batch_size
        return batch_rows(len(self.ids), size, self.seed, epoch, index)

    def batch_ids(self, epoch: int, index: int) -> Sequence[str]:
        """Study ids of a batch."""
        return [self.ids[row] for row in self._batch(epoch, index)]

    def losses(self, epoch: int, index: int, part: int, parts: int) -> Losses:
        """The joint objective of a batch of augmented images and shuffled sentences."""
        batch = self._batch(epoch, index)
        pixels, keys = self.images["train"].take(self.partner[self.processes.share(batch)])
        images = self.augmentation(pixels, keys, self.seed, epoch)
        return self._objective("train", images, batch, self.seed, epoch, self.processes)

    def _objective(
        self,
        split: str,
        images: torch.Tensor,
        batch: np.ndarray,
        seed: int,
        epoch: int,
        processes: Processes,
    ) -> Losses:
        """This process's share of a batch, whose ``images`` are its own alone."""
        settings = self.settings
        embedded = self.image(images.contiguous(memory_format=torch.channels_last))
        encoded = encode_reports(
            self.text,
            self.masker,
            settings.mlm,
            self.reports[split],
            batch,
            "impression",
            seed,
            epoch,
            settings.sentence_shuffling and split == "train",
            self.device,
            processes,
            self.one_sentence,
            self.local,
        )
        (image, text), own = processes.gather(
            len(batch), embedded.projected_global, encoded.projected
        )
        alignment = global_alignment(
            image, text, settings.alignment.temperature, own, settings.alignment.image_to_text
        )
        total = settings.alignment.weight * alignment
        terms = {"global_alignment": alignment.detach()}
        if self.local is not None and encoded.words is not None:
            local = self.local.loss(embedded, encoded.words, len(batch), processes)
            total = total + settings.local_alignment.weight * local
            terms["local_alignment"] = local.detach()
        if encoded.mlm is not None:
            total = total + settings.mlm.weight * encoded.mlm
            terms["mlm"] = encoded.mlm.detach()
        return Losses(total, terms, len(images), encoded.tokens)

    def validate(self) -> dict[str, float]:
        """Mean objective on the validation pairs, unaugmented and in their own order."""
        images = self.images["validate"]
        batches = contrastive_batches(len(images), self.settings.training.batch_size)
        found = []
        for batch in batches[self.processes.rank :: self.processes.world]:
            centred = self.augmentation.centre(images.take(batch)[0])
            found.append(self._objective("validate", centred, batch, 0, 0, ALONE))
        return mean_losses(found, self.processes)

    def export(self, folder: Path) -> None:
        """Both halves and the tokenizer."""
        save_text_half(self.text, folder)
        save_image_half(self.image, folder)
        copy_tokenizer(self.vocabulary, folder)


def start_image(folder: str | Path | None, settings: ImageEncoderSettings) -> ImageEncoder:
    """An image encoder whose trunk goes on from ``folder``; the projection is always new.

    SimCLR has no projection to the joint space (BioViL section 2.2 projects for joint training).
    The trunk keeps its sizes; dilation has no weights, so ``settings`` decides the grid.
    """
    if folder is None:
        return ImageEncoder(settings)
    source = Path(folder) / "image"
    free = {"projection": settings.projection, "dilate": settings.dilate}
    known = read_image_settings(source / "config.json").model_copy(update=free)
    if known != settings:
        raise InputError(
            f"{source / 'config.json'}: the trunk has sizes {known.model_dump(exclude=set(free))}"
            f", but settings.encoder says {settings.model_dump(exclude=set(free))}"
        )
    image = ImageEncoder(settings)
    load_trunk(image, source / "model.safetensors")
    return image


def load_trunk(image: ImageEncoder, path: Path) -> None:
    """Load the trunk's weights from a checkpoint that may hold a projection besides."""
    prefix = "encoder."
    weights = {
        name.removeprefix(prefix): value
        for name, value in read_weights(path).items()
        if name.startswith(prefix)
    }
    load_weights(image.encoder, weights, path)
