"""Local alignment of words and image regions: GLoRIA's local loss (Huang et al. 2021).

BioViL-T section 3.2 trains with it (weight 0.5, temperatures not given) and the low-data study
calls it L_GLoRIA (Eq. 2 to 4). For every word w of every text and every image b::

    s[w, b, m] = t_w . v_bm                                              similarity to region m
    p = softmax of s over the words of the text                          not in the equations
    a = softmax of temp1 * p over the regions m
    c[w, b] = sum_m a[w, b, m] v_bm                                      context of the word
    Z[b, text] = log sum_w exp(temp2 * cos(t_w, c[w, b]))                over the text's words

The loss is the sum of the cross-entropies of temp3 * Z along its rows and its columns
(``biovil.symmetric_cross_entropy``).

Shapes: B images of M regions, I texts of at most L words, N words in all, D features. Work goes
chunk by chunk of texts, the words of a chunk in one matrix product. The backward pass is written
by hand: it reuses what fits into ``kept_bytes`` and computes the rest a second time, so memory
stays bounded where all of N x B x M would not fit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from cxrflow.compute.device_copy import sent
from cxrflow.objectives.biovil import symmetric_cross_entropy

SMALLEST_NORM = 1e-8  # floor of |t||c| in the cosine, as in the published code
# Bytes of a chunk and of what is kept. A CPU is quick while a chunk stays in its cache, a GPU while
# launches are few.
SMALL, LARGE = (8 * 2**20, 512 * 2**20), (512 * 2**20, 4 * 2**30)


@dataclass(frozen=True)
class Matching:
    """How words are compared with an image. The defaults are GLoRIA's published code.

    ``word_softmax``: the softmax over words before the one over regions. The code has it; the
    equations of the low-data study (Eq. 2) go from s straight to ``softmax(s / tau_2)``.
    ``match``: ``cosine`` of word and context (code), or their ``dot`` product (low-data Eq. 3).
    ``aggregation``: ``sum`` over words inside the logarithm (code and Eq. 3), or ``mean``, the
    code's other choice, which does not favour long texts.

    The low-data study is ``Matching(1 / tau_2, 1 / tau_3, False, "dot")`` on L2-normalised words
    and regions, with temp3 = tau_3 / tau and half the loss.

    >>> from cxrflow.losses import Matching
    >>> Matching(word_softmax=False, match="dot").temp1  # the low-data study's form
    4.0
    """

    temp1: float = 4.0
    temp2: float = 5.0
    word_softmax: bool = True
    match: Literal["cosine", "dot"] = "cosine"
    aggregation: Literal["sum", "mean"] = "sum"


def local_similarity(
    region_BMD: Tensor,
    word_ILD: Tensor,
    lengths: Sequence[int],
    matching: Matching = Matching(),
    chunk_bytes: int | None = None,
    kept_bytes: int | None = None,
) -> Tensor:
    """Z of every image and every text, in float32 (float64 for float64 inputs), shape B x I.

    Text i is the first ``lengths[i]`` of its L words; what stands behind them is not read and gets
    a gradient of zero. ``chunk_bytes`` bounds one words x images x regions tensor, of which up to
    four live at a time; a chunk has at least one text. ``kept_bytes`` bounds the tensors saved for
    backward besides inputs and scores; 0 computes everything twice. By default both are what suits
    the device. Raises :class:`ValueError` for shapes that do not fit, for a text without words and
    for lengths beyond L.

    >>> import torch
    >>> from cxrflow.losses import Matching, local_similarity
    >>> regions = torch.eye(4).view(2, 2, 4)  # two images of two regions each
    >>> words = torch.eye(4).view(2, 2, 4)  # the words of text i are the regions of image i
    >>> local_similarity(regions, words, [2, 2], Matching(temp2=1.0)).argmax(1).tolist()
    [0, 1]
    """
    texts, longest, width = word_ILD.shape
    if region_BMD.shape[2] != width:
        raise ValueError(f"regions have {region_BMD.shape[2]} features, words {width}")
    if len(lengths) != texts or not all(1 <= length <= longest for length in lengths):
        raise ValueError(f"{texts} lengths of 1 to {longest} words are needed, not {lengths}")
    sizes = [int(length) for length in lengths]
    word_mask_IL = torch.arange(longest) < torch.tensor(sizes)[:, None]
    index_N = sent(word_mask_IL.flatten().nonzero().flatten(), word_ILD.device)
    kind = torch.promote_types(torch.promote_types(region_BMD.dtype, word_ILD.dtype), torch.float32)
    chunk, kept = LARGE if _together(word_ILD.device) else SMALL
    score_BN = _Match.apply(
        region_BMD.to(kind),
        word_ILD.flatten(0, 1)[index_N].to(kind),
        sizes,
        matching,
        chunk if chunk_bytes is None else chunk_bytes,
        kept if kept_bytes is None else kept_bytes,
    )
    padded = score_BN.new_full((len(region_BMD), texts * longest), float("-inf"))
    padded = padded.index_copy(1, index_N, matching.temp2 * score_BN)
    total_BI = padded.unflatten(1, (texts, longest)).logsumexp(2)
    if matching.aggregation == "mean":
        size_I = sent(torch.tensor(sizes, dtype=total_BI.dtype), total_BI.device)
        total_BI = total_BI - size_I.log()
    return total_BI


def local_alignment(
    region_BMD: Tensor,
    word_BLD: Tensor,
    lengths: Sequence[int],
    temp3: float = 10.0,
    matching: Matching = Matching(),
) -> Tensor:
    """Match the M regions of B images with the words of their B texts; a scalar.

    The cross-entropies of ``temp3`` times :func:`local_similarity` along rows and columns, summed;
    their mean over B. Text i is the first ``lengths[i]`` of its L words. The defaults are GLoRIA's
    published code.

    Raises:
        ValueError: shapes do not fit, or a length is not in 1 to L.

    >>> import torch
    >>> from cxrflow.losses import local_alignment
    >>> features = torch.eye(4)
    >>> regions = features.view(2, 2, 4)  # two images of two regions each
    >>> words = features.view(2, 2, 4)  # the words of text i are the regions of image i
    >>> loss = local_alignment(regions, words, lengths=[2, 2])
    >>> loss < local_alignment(regions, words.flip(0), lengths=[2, 2])
    tensor(True)
    """
    return symmetric_cross_entropy(
        temp3 * local_similarity(region_BMD, word_BLD, lengths, matching)
    )


def _chunks(sizes: list[int], bytes_per_word: int, chunk_bytes: int) -> list[list[int]]:
    """Word counts of consecutive texts, as many to a chunk as ``chunk_bytes`` allow."""
    chunks: list[list[int]] = []
    for size in sizes:
        if chunks and (sum(chunks[-1]) + size) * bytes_per_word <= chunk_bytes:
            chunks[-1].append(size)
        else:
            chunks.append([size])
    return chunks


class _Match(torch.autograd.Function):
    """Score of each of N words, packed text after text, against each of B images; B x N.

    A chunk's W words are held as W x B x M: a softmax over regions then runs over neighbours, a
    text is one contiguous block, and the products with all images at once need no copies.
    """

    @staticmethod
    def forward(
        ctx: Any,
        region_BMD: Tensor,
        word_ND: Tensor,
        sizes: list[int],
        matching: Matching,
        chunk_bytes: int,
        kept_bytes: int,
    ) -> Tensor:
        region_BMD = region_BMD.contiguous()
        images, regions, _ = region_BMD.shape
        chunks = _chunks(sizes, images * regions * region_BMD.element_size(), chunk_bytes)
        score_BN = region_BMD.new_empty(images, len(word_ND))
        norm_BN = torch.empty_like(score_BN)
        saved: list[Tensor] = []
        # t . c is the mean of t . v by attention; the context itself is asked for by gradients.
        by_mean = matching.match == "dot" and not matching.word_softmax
        by_mean &= matching.temp1 != 0 and not any(ctx.needs_input_grad)
        start = 0
        with torch.autocast(region_BMD.device.type, enabled=False):
            for chunk in chunks:
                words = slice(start, start := start + sum(chunk))
                scaled_WBM = _scaled(region_BMD, word_ND[words], chunk, matching)
                attention_WBM = torch.softmax(scaled_WBM, 2)
                if by_mean:
                    mean_WB = torch.linalg.vecdot(attention_WBM, scaled_WBM) / matching.temp1
                    score_BN[:, words] = mean_WB.T
                    continue
                attention_BWM = attention_WBM.transpose(0, 1)
                context_BWD = torch.bmm(attention_BWM, region_BMD)
                torch.linalg.vecdot(context_BWD, word_ND[words], out=score_BN[:, words])
                torch.linalg.vector_norm(context_BWD, dim=2, out=norm_BN[:, words])
                kept_bytes -= scaled_WBM.nbytes + context_BWD.nbytes
                if kept_bytes >= 0:
                    saved += [scaled_WBM, context_BWD]
        if matching.match == "cosine":
            score_BN /= (norm_BN * torch.linalg.vector_norm(word_ND, dim=1)).clamp(SMALLEST_NORM)
        ctx.matching, ctx.chunks = matching, chunks
        ctx.save_for_backward(region_BMD, word_ND, score_BN, norm_BN, *saved)
        return score_BN

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_BN: Tensor) -> tuple[Tensor | None, ...]:
        region_BMD, word_ND, score_BN, norm_BN, *saved = ctx.saved_tensors
        matching = ctx.matching
        to_word_BN, to_context_BN, to_itself_N = _slopes(
            grad_BN, score_BN, norm_BN, torch.linalg.vector_norm(word_ND, dim=1), matching
        )
        d_region_BMD = torch.zeros_like(region_BMD)
        d_word_ND = word_ND * to_itself_N[:, None]
        start = 0
        with torch.autocast(region_BMD.device.type, enabled=False):
            for number, chunk in enumerate(ctx.chunks):
                words = slice(start, start := start + sum(chunk))
                word_WD, to_word_BW1 = word_ND[words], to_word_BN[:, words, None]
                if 2 * number < len(saved):
                    scaled_WBM, context_BWD = saved[2 * number : 2 * number + 2]
                    attention_WBM = torch.softmax(scaled_WBM, 2)
                else:
                    scaled_WBM = _scaled(region_BMD, word_WD, chunk, matching)
                    attention_WBM = torch.softmax(scaled_WBM, 2)
                    context_BWD = torch.bmm(attention_WBM.transpose(0, 1), region_BMD)
                d_word_ND[words] += torch.linalg.vecdot(to_word_BW1, context_BWD, dim=0)
                d_context_BWD = (context_BWD * to_context_BN[:, words, None]).addcmul_(
                    to_word_BW1, word_WD
                )
                d_region_BMD.baddbmm_(attention_WBM.permute(1, 2, 0), d_context_BWD)
                d_attention_WBM = torch.empty_like(attention_WBM)
                torch.bmm(d_context_BWD, region_BMD.mT, out=d_attention_WBM.transpose(0, 1))
                d_similarity_WBM = torch._softmax_backward_data(
                    d_attention_WBM, attention_WBM, 2, attention_WBM.dtype
                )
                if matching.word_softmax:
                    # scaled = temp1 * p, so this is p * (temp1 * d - sum over words of it times p).
                    d_similarity_WBM.mul_(scaled_WBM)
                    for block in _blocks(chunk, word_WD.device):
                        slope, share = d_similarity_WBM[block.words], scaled_WBM[block.words]
                        slope.addcmul_(
                            share, block.reduced(slope, "sum"), value=-1 / matching.temp1
                        )
                else:
                    d_similarity_WBM.mul_(matching.temp1)
                d_similarity_WX = d_similarity_WBM.flatten(1)  # X: all B * M regions
                d_word_ND[words].addmm_(d_similarity_WX, region_BMD.flatten(0, 1))
                d_region_BMD.flatten(0, 1).addmm_(d_similarity_WX.T, word_WD)
        return d_region_BMD, d_word_ND, None, None, None, None


class _Block(NamedTuple):
    """Words of a chunk whose sums over their texts are taken at once: W of T texts."""

    words: slice
    lengths_T: Tensor | None = None  # None: of a single text
    text_W: Tensor | None = None

    def reduced(self, values_WBM: Tensor, kind: Literal["max", "sum"]) -> Tensor:
        """The maximum or sum over the words of each word's text; broadcasts to W x B x M."""
        if self.lengths_T is None:
            return values_WBM.amax(0) if kind == "max" else values_WBM.sum(0)
        reduced_TBM = torch.segment_reduce(
            values_WBM, kind, lengths=self.lengths_T, axis=0, unsafe=True
        )
        return reduced_TBM[self.text_W]


def _together(device: torch.device) -> bool:
    """Whether all texts of a chunk are one block: a GPU waits for launches, a CPU for memory."""
    return device.type == "cuda"


def _blocks(chunk: list[int], device: torch.device) -> list[_Block]:
    if _together(device):
        lengths_T = torch.tensor(chunk)
        text_W = torch.repeat_interleave(lengths_T)
        return [_Block(slice(0, sum(chunk)), sent(lengths_T, device), sent(text_W, device))]
    ends = list(accumulate(chunk))
    return [_Block(slice(end - size, end)) for size, end in zip(chunk, ends, strict=True)]


def _scaled(region_BMD: Tensor, word_WD: Tensor, chunk: list[int], matching: Matching) -> Tensor:
    """Logits of the softmax over regions, W x B x M; the chunk's texts share no words."""
    scaled_WBM = (word_WD @ region_BMD.flatten(0, 1).T).unflatten(1, region_BMD.shape[:2])
    if matching.word_softmax:
        blocks = _blocks(chunk, word_WD.device)
        for block in blocks:
            scaled_WBM[block.words] -= block.reduced(scaled_WBM[block.words], "max")
        scaled_WBM.exp_()
        for block in blocks:
            values_WBM = scaled_WBM[block.words]
            values_WBM *= matching.temp1 / block.reduced(values_WBM, "sum")
    else:
        scaled_WBM *= matching.temp1
    return scaled_WBM


def _slopes(
    grad_BN: Tensor, score_BN: Tensor, norm_BN: Tensor, length_N: Tensor, matching: Matching
) -> tuple[Tensor, Tensor, Tensor]:
    """Factors ``to_word``, ``to_context`` and ``to_itself`` of a score's gradients:
    d score / dc = to_word t + to_context c, and d score / dt = to_word c + to_itself t."""
    if matching.match == "dot":
        return grad_BN, torch.zeros_like(grad_BN), torch.zeros_like(length_N)
    tiny = torch.finfo(norm_BN.dtype).tiny
    product_BN = norm_BN * length_N
    # Below the floor the denominator is a constant.
    free_BN = torch.where(product_BN > SMALLEST_NORM, grad_BN * score_BN, 0.0)
    to_context_BN = -free_BN / norm_BN.square().clamp(tiny)
    to_itself_N = -free_BN.sum(0) / length_N.square().clamp(tiny)
    return grad_BN / product_BN.clamp(SMALLEST_NORM), to_context_BN, to_itself_N
