"""The studies program: of each study one image and one text, drawn anew in every epoch.

ConVIRT section 3.2 and 3.3: a study's report goes with all of its images, of which an image and a
sentence are sampled for a step. Its baseline Contrastive-Binary-Loss (section 4.3) draws a text of
another study beside them.

Shapes: N studies of a split.
"""

from functools import cached_property

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from cxrflow.compute.keyed_random import BITS, row_state, uniform
from cxrflow.encoders.cxr_bert import CXRBert, text_projection
from cxrflow.encoders.image_encoder import ImageOutput
from cxrflow.encoders.settings import ImageEncoderSettings
from cxrflow.errors import InputError
from cxrflow.images.store import PixelStore
from cxrflow.pretrain.image_text_pairs import ImageTextProgram, PairViews
from cxrflow.pretrain.inputs import Pairs
from cxrflow.pretrain.objective import Batch
from cxrflow.pretrain.report_text import TextOutput
from cxrflow.pretrain.resident_images import SplitImages
from cxrflow.pretrain.settings import StudyPretrainingSettings
from cxrflow.text.report_batch import Section
from cxrflow.text.sentences import has_text, sentences_of

IMAGE, OTHER_TEXT = 48, 49  # streams of the keyed draws


class StudyPairs(Pairs):
    """Pairs of a cohort with a row an image."""

    def images(
        self, name: str, sections: tuple[Section, ...], store: PixelStore, max_dropped_share: float
    ) -> pd.DataFrame:
        """Images of a split with pixels in ``store``, of reports with text in some of ``sections``.

        What is left out is counted in ``dropped``.
        """
        frame = self.split(name, (), store, max_dropped_share)
        reports = zip(*(sentences_of(frame, section) for section in sections), strict=True)
        there = np.array([any(map(has_text, report)) for report in reports], dtype=bool)
        missing = f"no text in {' or '.join(sections)}"
        frame = self._keep(frame, there, name, missing)
        if frame.empty:
            raise InputError(f"{self.path}: split '{name}': every report has {missing}")
        return frame.reset_index(drop=True)


class StudyImages(SplitImages):
    """The images of N studies; ``images`` has ``study_id`` and ``image_id``, a row an image."""

    def __init__(
        self, store: PixelStore, images: pd.DataFrame, studies: pd.Series, device: torch.device
    ) -> None:
        super().__init__(store, images, device)
        places = images.reset_index(drop=True).groupby("study_id").indices
        own = [places[study] for study in studies]
        self._counts = np.array([len(one) for one in own], dtype=np.int64)
        self._first = np.cumsum(self._counts) - self._counts
        self._images = np.concatenate(own)

    def __len__(self) -> int:
        return len(self._counts)

    def drawn(self, studies: NDArray[np.int64], seed: int, epoch: int) -> NDArray[np.int64]:
        """The row of one image of each study, every image of a study as likely as the others."""
        state = row_state(torch.from_numpy(studies), seed, epoch, IMAGE)
        numbers = uniform(state, torch.zeros(1, dtype=torch.int64)).numpy()
        return self._images[self._first[studies] + (numbers * self._counts[studies] >> BITS)]


class StudyViews(PairViews):
    """An image and a text of every study, and a text of another."""

    _program: "StudyTextProgram"

    @cached_property
    def image(self) -> ImageOutput:
        """The images that are drawn, after their encoder, augmented in training."""
        program, seed, epoch = self._program, self.batch.seed, self.batch.epoch
        images = program.images[self._split]
        frames = images.take(images.drawn(self.batch.own, seed, epoch))
        if self._split == "train":
            return program.image(frames.each(lambda one: program.augmentation(one, seed, epoch)))
        return program.image(frames.each(program.augmentation.centre))

    @cached_property
    def other_text(self) -> TextOutput:
        """For each study the text of another one of the split, drawn anew in every epoch."""
        rows, seed, epoch = self.batch.rows, self.batch.seed, self.batch.epoch
        studies = len(self._texts[0].reports)
        state = row_state(torch.from_numpy(rows), seed, epoch, OTHER_TEXT)
        numbers = uniform(state, torch.zeros(1, dtype=torch.int64)).numpy()
        others = (rows + 1 + (numbers * (studies - 1) >> BITS)) % studies
        return self._passes(self._texts[0], self.batch._replace(rows=others))

    @property
    def tokens(self) -> int:  # type: ignore[override]
        others = int(self.other_text.mask.sum()) if "other_text" in vars(self) else 0
        return super().tokens + others


class StudyTextProgram(ImageTextProgram):
    """Trains both encoders on the studies of a cohort."""

    settings: StudyPretrainingSettings
    images: dict[str, StudyImages]

    def views(self, split: str, batch: Batch) -> StudyViews:
        """What is drawn of the studies."""
        return StudyViews(self, split, batch)


def renew_projection(text: CXRBert, settings: ImageEncoderSettings) -> None:
    """Give a text encoder a new projection, of the kind and width of the image encoder's.

    It is drawn as torch draws linear layers, as that of the images is; BERT's own smaller weights
    would, in a narrow encoder, soon be lost in what all texts have in common.
    """
    head = {
        "projection_head": settings.projection_head,
        "projection_size": settings.projection,
    }
    text.config = text.config.model_copy(update=head)
    text.cls_projection_head = text_projection(text.config)
