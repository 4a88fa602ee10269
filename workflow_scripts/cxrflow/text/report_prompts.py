"""Input and target sequences of a report decoder (BioViL-T section 3.3, Appendix F.1).

A sequence is a *prompt* and the report: ``[CLS] prior [SEP] report [SEP]``. The last [SEP] ends the
report, the one before it the prior report, which may be empty: a study without one begins with
``[CLS] [SEP]``. Only tokens of the report and its end are predicted. Lengths do not depend on each
other, or the room of a prior report would tell the length of the report.

Shapes: N studies, B of a batch, L tokens of its longest sequence, T predicted tokens.
"""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from cxrflow.encoders.settings import ReportDecoderSettings
from cxrflow.text.sentences import sentences_of
from cxrflow.text.tokenizer import VocabularyInfo, ids_of

PRIOR_STUDY = "prior_study_id"


class ReportBatch(NamedTuple):
    """B sequences on the CPU."""

    ids: Tensor  # [B, L]
    mask: Tensor  # [B, L]
    positions: Tensor  # [T] in the flattened B*L, each before a token that is predicted
    targets: Tensor  # [T]


class ReportPrompts:
    """The prompts of N studies and, in training, their reports.

    ``priors`` are texts, None where there is none. ``cut_priors`` and ``cut_reports`` count what
    did not fit: a prior report keeps its last tokens, a report its first ones and has no end then.
    """

    def __init__(
        self,
        priors: Sequence[str | None],
        tokenizer: Tokenizer,
        settings: ReportDecoderSettings,
        reports: Sequence[str] = (),
    ) -> None:
        special = VocabularyInfo.from_tokenizer(tokenizer)
        room = settings.length - settings.report_length - 2  # [CLS] and [SEP]
        self.end = special.sep
        earlier = ids_of(tokenizer, [text or "" for text in priors])
        if not settings.prior_report:
            earlier = [[] for _ in earlier]
        between = [special.sep] if settings.prior_report and settings.separator else []
        self.cut_priors = sum(len(ids) > room for ids in earlier)
        self.prompts = [[special.cls_, *ids[-room:], *between] for ids in earlier]
        self.reports, longest = ids_of(tokenizer, reports), settings.report_length
        self.cut_reports = sum(len(ids) >= longest for ids in self.reports)
        self.reports = [[*ids, self.end][:longest] for ids in self.reports]

    def __len__(self) -> int:
        return len(self.prompts)

    def batch(self, rows: NDArray[np.int64]) -> ReportBatch:
        """The sequences of these studies; nothing is predicted after the last token."""
        pairs = [(self.prompts[row], self.reports[row]) for row in rows]
        sequences = [torch.tensor([*prompt, *report]) for prompt, report in pairs]
        ids_BL = pad_sequence(sequences, batch_first=True)
        length_B = torch.tensor([len(sequence) for sequence in sequences])
        begin_B = torch.tensor([len(prompt) for prompt, _ in pairs])
        place_L = torch.arange(ids_BL.shape[1])
        predicted_BL = (place_L >= begin_B[:, None]) & (place_L < length_B[:, None])
        positions_T = predicted_BL.flatten().nonzero().flatten() - 1
        mask_BL = (place_L < length_B[:, None]).long()
        return ReportBatch(ids_BL, mask_BL, positions_T, ids_BL[predicted_BL])


def report_texts(pairs: pd.DataFrame, sections: Sequence[str]) -> list[str]:
    """Each row's ``sections`` as one text, in this order; empty where it has none of them."""
    columns = [sentences_of(pairs, section) for section in sections]
    return [" ".join(chain.from_iterable(row)) for row in zip(*columns, strict=True)]


def prior_texts(
    rows: pd.DataFrame, pairs: pd.DataFrame, sections: Sequence[str]
) -> list[str | None]:
    """The prior reports of ``rows``, from the studies in ``pairs``; None where there is none."""
    studies = pairs.drop_duplicates("study_id")
    texts = dict(zip(studies["study_id"], report_texts(studies, sections), strict=True))
    return [texts.get(study) or None for study in rows[PRIOR_STUDY]]
