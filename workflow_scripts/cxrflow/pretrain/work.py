"""What a sample of each training program costs, from its encoders' sizes and its data's lengths.

Text lengths are those of the whole training split, so an epoch's work is exact but for the number
of masked tokens, of which the expected one is taken, and for the samples that its incomplete last
batch leaves out. The B x B products of the contrastive terms are left out: they are under 0.1 %.
"""

from typing import TYPE_CHECKING

import numpy as np
from torch import nn

from cxrflow.pretrain.settings import MaskedLanguageSettings
from cxrflow.text.packing import PackedCorpus
from cxrflow.text.report_batch import SECTIONS, ReportTokens, Section
from cxrflow.training.work import (
    Work,
    layers_work,
    projection_work,
    token_prediction_work,
    transformer_work,
)

if TYPE_CHECKING:
    from transformers import BertConfig

SPECIAL = 2  # [CLS] and [SEP] of a sequence, which are never masked


def packed_row_work(
    config: "BertConfig", corpus: PackedCorpus, rate: float, value_bytes: int
) -> Work:
    """Phase II: the documents of a row, each attending to itself, and the masked tokens' head."""
    lengths_K = corpus.lengths
    document = transformer_work(config, lengths_K, value_bytes)
    masked = rate * float(np.mean(lengths_K - SPECIAL))
    document += token_prediction_work(config, masked)
    return document * (len(lengths_K) / corpus.rows)


def section_work(
    config: "BertConfig",
    mlm: MaskedLanguageSettings,
    reports: ReportTokens,
    section: Section,
    value_bytes: int,
) -> Work:
    """One section of a report: intact and masked sequence, projection, masked tokens' head."""
    lengths_N = reports.lengths(section)
    work = transformer_work(config, lengths_N, value_bytes)
    if mlm.weight > 0:
        work *= 2 if mlm.forward == "separate" else 1
        masked = mlm.masking.rate * float(np.mean(lengths_N - SPECIAL))
        work += token_prediction_work(config, masked)
    return work + projection_work(config)


def report_work(
    config: "BertConfig", mlm: MaskedLanguageSettings, reports: ReportTokens, value_bytes: int
) -> Work:
    """Phase III: both sections of a report."""
    found = [section_work(config, mlm, reports, section, value_bytes) for section in SECTIONS]
    return found[0] + found[1]


def two_views_work(
    trunk: nn.Module, head: nn.Module, shape: tuple[int, int, int], value_bytes: int
) -> Work:
    """SimCLR: both views [C, H, W] of an image through the trunk and the head."""
    network = nn.Sequential(trunk, nn.AdaptiveAvgPool2d(1), nn.Flatten(), head)
    return layers_work(network, shape, value_bytes) * 2
