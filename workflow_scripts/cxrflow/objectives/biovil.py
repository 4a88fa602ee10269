"""BioViL's losses: sections (Eq. 1), images and texts (Eq. 2), masked words (section 2.1).

Beside them what they share with others: ConVIRT's Eq. 4, the likelihood of a report (BioViL-T
Appendix F.1), the scores of a batch, and their symmetric cross-entropy.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

ALL = slice(None)


def global_alignment(
    image_NP: Tensor,
    text_NP: Tensor,
    temperature: float = 0.5,
    rows: slice = ALL,
    image_to_text: float = 0.5,
    equal_NN: Tensor | None = None,
) -> Tensor:
    """Match N images with their N texts in the L2-normalised joint space; a scalar.

    BioViL's Eq. 2 (section 2.2) sums both directions; ConVIRT's Eq. 4 gives the share lambda, here
    ``image_to_text``, to the one that finds the text of an image, and 1 - lambda to the other.
    This is twice ConVIRT's sum, which at equal shares is Eq. 2.
    ``rows``: the pairs of this process, ``equal_NN``: those that are no negatives, see
    :func:`symmetric_contrastive`.

    >>> import torch
    >>> from cxrflow.losses import global_alignment
    >>> pairs = torch.eye(3)  # three images, each like its own text alone
    >>> global_alignment(pairs, pairs) < global_alignment(pairs, pairs.roll(1, 0))
    tensor(True)
    """
    image_NP, text_NP = (normalize(embedding.float(), dim=1) for embedding in (image_NP, text_NP))
    return symmetric_contrastive(image_NP, text_NP, temperature, rows, image_to_text, equal_NN)


def section_matching(
    findings_NP: Tensor,
    impression_NP: Tensor,
    temperature: float = 0.5,
    normalised: bool = True,
    rows: slice = ALL,
) -> Tensor:
    """Match IMPRESSION to FINDINGS of the same report among N reports (RSM, Eq. 1); a scalar.

    ``findings_NP`` and ``impression_NP`` are projected [CLS] tokens. The paper does not say
    whether they are L2-normalised as in Eq. 2; ``normalised`` (default) makes them so, since one
    projection serves both equations and tau is 0.5 in both. ``rows``: the reports of this
    process, see :func:`symmetric_contrastive`.

    >>> import torch
    >>> from cxrflow.losses import section_matching
    >>> findings, impression = torch.eye(4), torch.eye(4)
    >>> round(section_matching(findings, impression, temperature=0.5).item(), 3)
    0.682
    """
    if normalised:
        findings_NP, impression_NP = (
            normalize(embedding.float(), dim=1) for embedding in (findings_NP, impression_NP)
        )
    return symmetric_contrastive(findings_NP, impression_NP, temperature, rows)


def symmetric_contrastive(
    a_NP: Tensor,
    b_NP: Tensor,
    temperature: float,
    rows: slice = ALL,
    first_share: float = 0.5,
    equal_NN: Tensor | None = None,
) -> Tensor:
    """Sum of both directions' cross-entropies of row i against all rows, mean over N.

    Right-hand side of BioViL Eq. 1 and 2: ``-1/N sum_i (log softmax_j(a_i.b_j/t)[i] +
    log softmax_j(b_i.a_j/t)[i])``. The callers normalise the inputs. ``rows``
    takes the sum over these i alone, still divided by N: the share of one of several processes.
    ``first_share`` weighs the direction from a to b; see :func:`symmetric_cross_entropy`.
    ``equal_NN``, bool, False on its diagonal: pairs of i and j that are left out of the sums.
    """
    logits_NN = products(a_NP, b_NP) / temperature
    if equal_NN is not None:
        logits_NN = logits_NN.masked_fill(equal_NN, float("-inf"))
    return symmetric_cross_entropy(logits_NN, rows, first_share)


def products(a_NP: Tensor, b_MP: Tensor) -> Tensor:
    """Dot products of all rows of both, [N, M], in float32 at least.

    In mixed precision too: autocast would make them bfloat16 whatever the inputs are, and a cosine
    of 8 bits, divided by a temperature, is too coarse.
    """
    kind = torch.promote_types(torch.promote_types(a_NP.dtype, b_MP.dtype), torch.float32)
    with torch.autocast(a_NP.device.type, enabled=False):
        return a_NP.to(kind) @ b_MP.to(kind).mT


def symmetric_cross_entropy(logits_NN: Tensor, rows: slice = ALL, row_share: float = 0.5) -> Tensor:
    """Cross-entropies of ``rows`` and of these columns, over N; targets are the diagonal.

    Rows count ``2 row_share`` times and columns ``2 (1 - row_share)`` times, so that equal shares
    are the plain sum of both.

    >>> import torch
    >>> from cxrflow.losses import symmetric_cross_entropy
    >>> round(symmetric_cross_entropy(torch.zeros(2, 2)).item(), 3)  # 2 log 2: all are alike
    1.386
    """
    target = torch.arange(len(logits_NN), device=logits_NN.device)[rows]
    row_sum, column_sum = (
        nn.functional.cross_entropy(logits[rows], target, reduction="sum")
        for logits in (logits_NN, logits_NN.T)
    )
    return (2 * row_share * row_sum + 2 * (1 - row_share) * column_sum) / len(logits_NN)


def masked_language_modelling(logits_MV: Tensor, targets_M: Tensor, divisor: int) -> Tensor:
    """Cross-entropy summed over M masked positions, divided by ``divisor``; a scalar.

    The paper writes ``-1/|B| sum_w log p(w_m | w_rest)``: the sum over the masked tokens of a
    sequence, mean over the sequences, so that ``divisor`` is their number. The library it trained
    with averages over masked tokens, and lambda_MLM = 0.1 only balances Eq. 1 with that one. Where
    a batch is computed in parts, the divisor is that of the whole batch. Without masked positions
    the loss is zero, with a gradient.

    >>> import torch
    >>> from cxrflow.losses import masked_language_modelling
    >>> logits, targets = torch.zeros(2, 5), torch.tensor([1, 4])  # 2 masked words, 5 word pieces
    >>> round(masked_language_modelling(logits, targets, divisor=2).item(), 3)  # log 5
    1.609
    """
    if targets_M.numel() == 0:
        return logits_MV.sum() * 0.0
    return nn.functional.cross_entropy(logits_MV.float(), targets_M, reduction="sum") / divisor


def report_likelihood(logits_TV: Tensor, targets_T: Tensor, tokens: int) -> Tensor:
    """Minus the sum of log p(w_t | w_<t, prior report, patches) over T tokens, over ``tokens``.

    ``tokens`` are those of the whole batch, of which T may be a share: a scalar.

    >>> import torch
    >>> from cxrflow.losses import report_likelihood
    >>> logits, targets = torch.zeros(3, 4), torch.tensor([0, 1, 3])  # 3 tokens, 4 word pieces
    >>> round(report_likelihood(logits, targets, tokens=3).item(), 3)  # log 4
    1.386
    """
    return nn.functional.cross_entropy(logits_TV.float(), targets_T, reduction="sum") / tokens
