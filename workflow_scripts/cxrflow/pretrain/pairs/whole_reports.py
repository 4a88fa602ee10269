"""The program of images and their whole reports, as MGCA trains (Wang et al. 2022).

A sample is an image. Its text is the report's IMPRESSION and FINDINGS, cleaned.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from tokenizers import Tokenizer

from cxr_files.errors import InputError
from cxrflow.encoders.cxr_bert import CXRBert
from cxrflow.images.store import PixelStore
from cxrflow.pretrain.inputs import Run
from cxrflow.pretrain.pairs.images_and_texts import ImageTextProgram
from cxrflow.pretrain.pairs.tables import PairTable
from cxrflow.pretrain.report_text import REPORT, Texts
from cxrflow.pretrain.settings import ImageReportSettings, JointPretrainingSettings
from cxrflow.text.cleaned_reports import (
    FEWEST_WORDS,
    CleanedSentence,
    clean_in_tokenizer,
    cleaned_sentences,
    count_words,
)
from cxrflow.text.report_batch import ReportTokens
from cxrflow.training.program import ParameterRule


class ReportTable(PairTable):
    """Pairs of an image and a report that has enough words after cleaning."""

    def rows(
        self, split: str, settings: JointPretrainingSettings, store: PixelStore, priors: bool
    ) -> pd.DataFrame:
        """Return the rows with a stored image and enough words."""
        frame = self.split(split, (), store, settings.max_dropped_share)
        words = np.array([count_words(sentences) for sentences in cleaned_reports(frame)])
        reason = f"fewer than {FEWEST_WORDS} words in {' and '.join(REPORT)}, cleaned"
        return self.keep_reports(frame, words >= FEWEST_WORDS, split, reason)


def cleaned_reports(pairs: pd.DataFrame) -> list[list[CleanedSentence]]:
    """The cleaned sentences of each row's report."""
    sections = zip(*(pairs[section] for section in REPORT), strict=True)
    return [cleaned_sentences(report) for report in sections]


def report_texts(
    settings: JointPretrainingSettings, pairs: pd.DataFrame, tokenizer: Tokenizer, training: bool
) -> Texts:
    """The cleaned reports of ``pairs``, which take the place of IMPRESSION."""
    cleaned = cleaned_reports(pairs)
    columns = {
        "impression_sentences": [[s.cleaned for s in report] for report in cleaned],
        "impression_written": [[s.written for s in report] for report in cleaned],
    }
    reports = pairs.assign(**{n: pd.Series(v, pairs.index, object) for n, v in columns.items()})
    tokens = ReportTokens(reports, tokenizer, settings.length)
    return Texts(tokens, ("impression",), settings.sentence_shuffling and training)


class ImageReportProgram(ImageTextProgram):
    """Trains both encoders on images and reports."""

    settings: ImageReportSettings

    def __init__(self, settings: ImageReportSettings, run: Run, *inputs: Any) -> None:
        """``inputs`` are those of an :class:`ImageTextProgram`."""
        *_, text, folder = inputs
        prepare_text(text, settings, folder)
        super().__init__(settings, run, *inputs)
        if settings.decay_all:
            self.parameter_rules = [*self.parameter_rules, ParameterRule("*", decay=True)]

    def export(self, folder: Path) -> None:
        """Both encoders, and a tokenizer that cleans what it is given."""
        super().export(folder)
        clean_in_tokenizer(folder)


def prepare_text(text: CXRBert, settings: ImageReportSettings, folder: Path) -> None:
    """Remove what MGCA's published code does not use of a text encoder, as settings say."""
    layers = settings.text_layers
    if layers is not None:
        if layers > text.config.num_hidden_layers:
            raise InputError(
                f"settings: key 'text_layers' is {layers}, but {folder} has "
                f"{text.config.num_hidden_layers} layers; expected no more than that"
            )
        text.bert.encoder.layer = text.bert.encoder.layer[:layers]
        text.config = text.config.model_copy(update={"num_hidden_layers": layers})
    text.single_position = settings.single_position
    if not settings.segment_embedding:
        segments = text.bert.embeddings.token_type_embeddings.weight.requires_grad_(False)
        with torch.no_grad():
            segments.zero_()
