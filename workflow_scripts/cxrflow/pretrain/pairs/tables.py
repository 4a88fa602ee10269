"""Pairs and their texts as joint training reads them: a row a study, an image, or with priors."""

from pathlib import Path

import numpy as np
import pandas as pd
import torch
from tokenizers import Tokenizer

from cxr_files.errors import InputError
from cxrflow.data.cohorts.settings import ALL, TrainingShare
from cxrflow.images.store import PixelStore
from cxrflow.pretrain.inputs import PRIOR, Pairs
from cxrflow.pretrain.report_text import REPORT, Texts, sentence_pool
from cxrflow.pretrain.resident_images import SplitImages, StudyImages
from cxrflow.pretrain.settings import JointPretrainingSettings
from cxrflow.text.report_batch import ReportTokens, Section
from cxrflow.text.report_prompts import PRIOR_STUDY


class PairTable(Pairs):
    """Pairs of which each row is a sample."""

    def rows(
        self, split: str, settings: JointPretrainingSettings, store: PixelStore, priors: bool
    ) -> pd.DataFrame:
        """Return the rows of a split with a stored image and the section that must have text."""
        sections = (required_section(settings),)
        return self.split(split, sections, store, settings.max_dropped_share, priors)

    def samples_of(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return one row for each sample."""
        return rows

    def images(
        self, store: PixelStore, rows: pd.DataFrame, image_reports: pd.DataFrame,
        device: torch.device, priors: bool,
    ) -> SplitImages:  # fmt: skip
        """Return the images beside the texts of the samples: those of ``image_reports``."""
        return SplitImages(store, image_reports, device, priors)


class StudyTable(PairTable):
    """Pairs with a row an image; a sample is a study (ConVIRT section 3.2)."""

    def rows(
        self, split: str, settings: JointPretrainingSettings, store: PixelStore, priors: bool
    ) -> pd.DataFrame:
        """Return the rows with a stored image whose report has text in a section that is read."""
        return self.reported(split, sections_read(settings), store, settings.max_dropped_share)

    def samples_of(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the first row of each study."""
        return rows.drop_duplicates("study_id", ignore_index=True)

    def images(
        self, store: PixelStore, rows: pd.DataFrame, image_reports: pd.DataFrame,
        device: torch.device, priors: bool,
    ) -> SplitImages:  # fmt: skip
        """Return all images of the studies."""
        return StudyImages(store, rows, image_reports["study_id"], device)


class PriorTable(PairTable):
    """Pairs with their prior images."""

    def __init__(self, path: str | Path, share: TrainingShare = ALL) -> None:
        super().__init__(path, share)
        require_earlier_priors(self)


def required_section(settings: JointPretrainingSettings) -> Section:
    """The section without which a report is left out: IMPRESSION wherever it is read."""
    sections = sections_read(settings)
    return "impression" if "impression" in sections else "findings"


def sections_read(settings: JointPretrainingSettings) -> tuple[Section, ...]:
    """The sections that texts are made of."""
    if settings.text == "sentence":
        return settings.sentence_sections
    return REPORT if settings.text == "report" else ("impression",)


def pair_texts(
    settings: JointPretrainingSettings, pairs: pd.DataFrame, tokenizer: Tokenizer, training: bool
) -> Texts:
    """The texts that the images of ``pairs`` are compared with."""
    of_sentences = settings.text == "sentence"
    if of_sentences:
        pairs = sentence_pool(pairs, settings.sentence_sections)
    reports = ReportTokens(pairs, tokenizer, settings.length)
    shuffle = settings.sentence_shuffling and training
    sections: tuple[Section, ...] = ("impression",) if of_sentences else sections_read(settings)
    augmentation, augmented = settings.text_augmentation, None
    if augmentation is not None:
        augmented = augmentation.code("AugmentedReports")(augmentation, reports, tokenizer)
    return Texts(reports, sections, shuffle, of_sentences, augmented)


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
    is_listed = rows[PRIOR].isin(images.index).to_numpy()
    priors = images.reindex(rows[PRIOR])
    study_times, prior_times = (
        pd.to_datetime(times, errors="coerce", format="mixed").to_numpy()
        for times in (rows["study_time"], priors["study_time"])
    )
    tests = {
        (PRIOR, "is the image itself"): rows[PRIOR].to_numpy() == rows["image_id"].to_numpy(),
        (PRIOR_STUDY, "is the study itself"): itself[rows.index].to_numpy(),
        (PRIOR, "is another patient's"): is_listed
        & (priors["subject_id"].to_numpy() != rows["subject_id"].to_numpy()),
        (PRIOR, "is not earlier"): is_listed & (prior_times >= study_times),
    }
    for (column, fault), wrong in tests.items():
        if np.any(wrong):
            study = rows["study_id"].to_numpy()[wrong][0]
            raise InputError(
                f"{pairs.path}: the prior of {int(np.sum(wrong))} study or studies {fault} "
                f"({column} of study {study}); expected an earlier one of the same patient"
            )
