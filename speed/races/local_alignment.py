"""Local alignment against the loop over texts as GLoRIA publishes it, and against no loop at all.

Work is the loss with its gradients for regions and words, in float32.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from cxrflow.objectives.local_alignment import Matching, local_similarity
from cxrflow.training.precision import choose_device
from speed.race import Race, Work

TEMP1, TEMP2, TEMP3 = 4.0, 5.0, 10.0
LONGEST = 97
SIZES = [(20, 128, 256), (30, 128, 196), (48, 768, 361)]  # images and texts, features, regions


def both_directions(similarity_BB: Tensor) -> Tensor:
    logits = TEMP3 * similarity_BB
    target = torch.arange(len(logits), device=logits.device)
    return cross_entropy(logits, target) + cross_entropy(logits.T, target)


def ours(region_BMD: Tensor, word_BLD: Tensor, lengths: list[int]) -> Tensor:
    """Chunks of texts, with a backward pass of its own."""
    return both_directions(local_similarity(region_BMD, word_BLD, lengths))


def loop_over_texts(region_BMD: Tensor, word_BLD: Tensor, lengths: list[int]) -> Tensor:
    """One text at a time, its words repeated for every image, features before positions."""
    images, regions, _ = region_BMD.shape
    region_BDM = region_BMD.transpose(1, 2)
    columns = []
    for text_LD, length in zip(word_BLD, lengths, strict=True):
        word_BDW = text_LD[:length].T[None].repeat(images, 1, 1)
        attention = torch.bmm(region_BDM.transpose(1, 2).contiguous(), word_BDW)
        attention = attention.view(images * regions, length).softmax(1)
        attention = attention.view(images, regions, length).transpose(1, 2).contiguous()
        attention = (TEMP1 * attention.view(images * length, regions)).softmax(1)
        attention = attention.view(images, length, regions).transpose(1, 2).contiguous()
        context_BDW = torch.bmm(region_BDM, attention)
        word = word_BDW.transpose(1, 2).contiguous().flatten(0, 1)
        context = context_BDW.transpose(1, 2).contiguous().flatten(0, 1)
        norms = (word.norm(dim=1) * context.norm(dim=1)).clamp(min=1e-8)
        cosine = ((word * context).sum(1) / norms).view(images, length)
        columns.append((TEMP2 * cosine).exp().sum(1, keepdim=True).log())
    return both_directions(torch.cat(columns, 1))


def all_at_once(region_BMD: Tensor, word_BLD: Tensor, lengths: list[int]) -> Tensor:
    """Every text with every image in one tensor of texts x images x words x regions."""
    there_IL = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    matching = Matching(TEMP1, TEMP2)
    word_ILD = word_BLD[:, : max(lengths)]
    return both_directions(at_once(region_BMD, word_ILD, there_IL.to(word_BLD.device), matching))


def at_once(region_BMD: Tensor, word_ILD: Tensor, there_IL: Tensor, matching: Matching) -> Tensor:
    """``local_similarity``, B x I, without chunks; ``there_IL`` (bool): which words there are."""
    there_ILx = there_IL[:, None, :, None]
    share_IBLM = torch.einsum("ild,bmd->iblm", word_ILD, region_BMD)
    if matching.word_softmax:
        share_IBLM = share_IBLM.masked_fill(~there_ILx, float("-inf")).softmax(2)
    attention_IBLM = (matching.temp1 * share_IBLM).softmax(3)
    context_IBLD = torch.einsum("iblm,bmd->ibld", attention_IBLM, region_BMD)
    if matching.match == "dot":
        score_IBL = (word_ILD[:, None] * context_IBLD).sum(3)
    else:
        score_IBL = torch.cosine_similarity(word_ILD[:, None], context_IBLD, dim=3)
    score_IBL = (matching.temp2 * score_IBL).masked_fill(~there_ILx[..., 0], float("-inf"))
    total_BI = score_IBL.logsumexp(2).T
    return total_BI - there_IL.sum(1).log() if matching.aggregation == "mean" else total_BI


def same(ours: tuple[Tensor, ...], peer: tuple[Tensor, ...]) -> None:
    """Loss to 1e-6 of itself, gradients to 1e-5 of their largest entry."""
    (loss, *gradients), (peer_loss, *peer_gradients) = ours, peer
    torch.testing.assert_close(loss, peer_loss, rtol=1e-6, atol=0)
    for found, wanted in zip(gradients, peer_gradients, strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5 * float(wanted.abs().max()))


def race(images: int, features: int, regions: int) -> Race:
    generator, device = torch.Generator().manual_seed(0), choose_device("auto")
    lengths = torch.randint(20, LONGEST + 1, (images,), generator=generator).tolist()
    # Features are scaled to dot products of order one, where both softmaxes matter.
    region_BMD, word_BLD = (
        (torch.randn(images, length, features, generator=generator) / features**0.25)
        .to(device)
        .requires_grad_()
        for length in (regions, LONGEST)
    )

    def work(loss: Callable[..., Tensor]) -> Work:
        def turn() -> tuple[Tensor, ...]:
            value = loss(region_BMD, word_BLD, lengths)
            return value.detach(), *torch.autograd.grad(value, (region_BMD, word_BLD))

        return turn

    peers = {"loop over texts": work(loop_over_texts)}
    pairs_bytes = 4 * images * images * max(lengths) * max(regions, features)
    if pairs_bytes <= 512 * 2**20:
        peers["all at once"] = work(all_at_once)
    return Race(
        name=f"local_alignment_{images}x{features}x{regions}",
        what=f"GLoRIA's local loss with gradients: {images} pairs, {sum(lengths)} words of "
        f"{features} features, {regions} regions; float32",
        ours=work(ours),
        peers=peers,
        check=same,
        gates={"loop over texts": 1.8},
        amount=images,
        unit="pair",
        notes=[
            "The gate is for the median of the three sizes.",
            "'all at once' runs where one of its tensors is at most 512 MiB.",
        ],
    )


def races() -> list[Race]:
    return [race(*size) for size in SIZES]
