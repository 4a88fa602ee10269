"""What a sample of each training program costs, from its encoders' sizes and its data's lengths.

Text lengths are those of the whole training split, so an epoch's work is exact but for the number
of masked tokens, of which the expected one is taken, and for the samples that its incomplete last
batch leaves out, and for drawn sentences, which stand with the lengths of the first epoch's. The
B x B products of the global terms are left out: they are under 0.1 %.
"""

import copy
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from cxrflow.pretrain.settings import JointPretrainingSettings, MaskedLanguageSettings
from cxrflow.text.packing import PackedCorpus
from cxrflow.text.report_batch import SECTIONS, ReportTokens, Section
from cxrflow.training.work import (
    Work,
    layers_work,
    local_alignment_work,
    projection_work,
    token_prediction_work,
    transformer_work,
)

if TYPE_CHECKING:
    from transformers import BertConfig

    from cxrflow.encoders.image_encoder import ImageEncoder

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
    sentence_seed: int | None = None,
    frozen_layers: int = 0,
) -> Work:
    """One section of a report: intact and masked sequence, projection, masked tokens' head.

    With ``sentence_seed`` one sentence of it. Layers that are frozen have a forward pass alone,
    a third of the work.
    """
    lengths_N = reports.lengths(section, sentence_seed)
    work = transformer_work(config, lengths_N, value_bytes)
    work *= 1 - 2 / 3 * frozen_layers / config.num_hidden_layers
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


def local_term_work(
    config: "BertConfig",
    settings: JointPretrainingSettings,
    reports: ReportTokens,
    image: "ImageEncoder",
    side: int,
    sentence_seed: int | None,
) -> Work:
    """GLoRIA's local term of a pair: its words, projected, against all images of the batch.

    ``side``: pixels of a square image.
    """
    if settings.local_alignment.weight == 0:
        return Work(0.0, 0.0)
    shadow = copy.deepcopy(image).to("meta").eval()
    regions = shadow(torch.empty(1, 1, side, side, device="meta")).projected_patches[0, ..., 0]
    pieces = float(np.mean(reports.lengths("impression", sentence_seed) - SPECIAL))
    words = pieces * reports.words_per_piece("impression") + settings.local_alignment.cls_is_word
    size, width = settings.training.batch_size, config.projection_size
    matching = local_alignment_work(words, regions.numel(), size, width)
    return matching + projection_work(config) * words
