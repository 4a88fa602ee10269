"""LoVT (Müller et al. 2022): sentences of a report against regions of its image.

Regions are the cells of a ResNet, sentences the maxima of their tokens' last states. Attention
pools them to image and report, which are told from those of other pairs. Within a pair, what a
region sees of the sentences is told from what other regions see; sentences likewise. Facts are of
the public code, philip-mueller/lovt, experiment LoVT_100; docs/rivals.md says what differs here.

Shapes: N pairs of this process, h x w cells, R regions, S sentences of the longest report, X of
either, L tokens, D features of either encoder, P joint space.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import normalize

from cxr_files.errors import InputError
from cxrflow.compute.device_copy import sent
from cxrflow.encoders.resnet import STAGES
from cxrflow.objectives.biovil import products, symmetric_contrastive
from cxrflow.pretrain.objective import Encoders, Term, Views
from cxrflow.pretrain.terms.base_settings import NOTHING, Needs, OutsideTermSettings
from cxrflow.pretrain.validation.permutation import Comparisons
from cxrflow.similarity.settings import SimilaritySettings
from cxrflow.similarity.similarity import EncodedImages, EncodedTexts, Similarity


class LovtSettings(OutsideTermSettings):
    """Sizes, temperatures and weights; the defaults are the code's."""

    title = "LoVT"

    projection: int = Field(512, ge=2, description="width of the joint space")
    hidden: int = Field(2048, ge=1, description="width inside the projections")
    heads: int = Field(8, ge=1, description="of the attention that pools")
    temperature: float = Field(0.1, gt=0, description="of images and reports")
    image_to_text: float = Field(0.75, ge=0, le=1, description="share of that direction")
    local_temperature: float = Field(0.3, gt=0, description="of regions, and of sentences")
    region_weight: float = Field(0.75, ge=0, description="of the loss of regions")
    sentence_weight: float = Field(0.75, ge=0, description="of the loss of sentences")
    reach: float = Field(
        0.5,
        ge=0,
        description="a region's positives: regions no further away, in diagonals of the image; "
        "0: itself alone",
    )
    decay: float = Field(
        1.0, ge=0, description="a positive at distance d, in diagonals, counts as exp(-decay d)"
    )
    padding: bool = Field(
        False,
        description="shorter reports are filled up with sentences of zeros, which count in batch "
        "statistics and in the mean that asks: the code. false: they do not count",
    )

    @property
    def needs(self) -> Needs:
        """Cells and tokens before any projection: it has its own."""
        return Needs(images=1, texts=("intact",), stage=STAGES, parts=NOTHING)


class Parts(NamedTuple):
    """N images with their regions, or N reports with their sentences, projected."""

    whole: Tensor  # [N, P]
    part: Tensor  # [N, X, P]
    weight: Tensor  # [N, X], how much pooling attends to each, without gradient; 0 at padding
    real: Tensor  # bool [N, X]

    def repeated(self, row: int) -> "Parts":
        """One of them as often as there are."""
        return Parts(*(each[row : row + 1].expand_as(each) for each in self))


def linear(inputs: int, outputs: int, nonlinearity: Any = "linear") -> nn.Linear:
    """A layer that begins as the code's."""
    layer = nn.Linear(inputs, outputs)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity=nonlinearity)
    nn.init.zeros_(layer.bias)
    return layer


def perceptron(inputs: int, settings: LovtSettings) -> nn.Sequential:
    """A projection to the joint space."""
    inner = linear(inputs, settings.hidden, "relu")
    outer = linear(settings.hidden, settings.projection)
    return nn.Sequential(inner, nn.BatchNorm1d(settings.hidden), nn.ReLU(), outer)


def by_part(module: nn.Module, states_NXD: Tensor, real_NX: Tensor, padding: bool) -> Tensor:
    """``module`` of every part [N, X, P]; without ``padding`` of the real ones, zero elsewhere."""
    if padding:
        return module(states_NXD.flatten(0, 1)).unflatten(0, real_NX.shape)
    real_KP = module(states_NXD[real_NX])
    parts_NXP = real_KP.new_zeros(*real_NX.shape, real_KP.shape[1])
    parts_NXP[real_NX] = real_KP
    return parts_NXP


class Projections(nn.Module):
    """Attention pooling and both projections, of images or of reports."""

    def __init__(self, width: int, settings: LovtSettings) -> None:
        super().__init__()
        if width % settings.heads:
            raise InputError(
                f"settings: key 'heads' of LoVT is {settings.heads}, but an encoder has {width} "
                "features; expected a divisor of them"
            )
        self.padding = settings.padding
        self.pooling = nn.MultiheadAttention(width, settings.heads, batch_first=True)
        self.whole, self.part = perceptron(width, settings), perceptron(width, settings)

    def forward(self, states_NXD: Tensor, real_NX: Tensor) -> Parts:
        """Of states that are zero at padding; their mean asks for the whole."""
        number_N1 = real_NX.sum(1, keepdim=True)
        mean_ND = states_NXD.sum(1) / (real_NX.shape[1] if self.padding else number_N1)
        whole_N1D, weight_N1X = self.pooling(mean_ND[:, None], states_NXD, states_NXD, ~real_NX)
        part_NXP = by_part(self.part, states_NXD, real_NX, self.padding)
        return Parts(self.whole(whole_N1D[:, 0]), part_NXP, weight_N1X[:, 0].detach(), real_NX)


class Alignment(nn.Module):
    """Attention between the regions and the sentences of a pair, by the same weights both ways."""

    def __init__(self, settings: LovtSettings) -> None:
        super().__init__()
        width = settings.projection
        self.key, self.value, self.out = (linear(width, width) for _ in range(3))
        self.norm, self.padding = nn.BatchNorm1d(width), settings.padding

    def forward(self, regions: Parts, sentences: Parts) -> tuple[Tensor, Tensor]:
        """What regions see of sentences [N, R, P], and sentences of regions [N, S, P]."""
        score_NRS = self.key(regions.part) @ self.key(sentences.part).mT
        score_NRS = score_NRS / math.sqrt(regions.part.shape[2])
        by_regions = self.seen(regions, sentences, score_NRS)
        return by_regions, self.seen(sentences, regions, score_NRS.mT)

    def seen(self, own: Parts, others: Parts, score_NXY: Tensor) -> Tensor:
        """What each of ``own`` sees of ``others``."""
        share_NXY = score_NXY.masked_fill(~others.real[:, None], -torch.inf).softmax(2)
        share_NXY = share_NXY * own.real[:, :, None]
        states_NXP = self.out(share_NXY @ self.value(others.part))
        return by_part(self.norm, states_NXP, own.real, self.padding)


def unit(states: Tensor) -> Tensor:
    """Of length 1, in float32 at least."""
    return normalize(states.to(torch.promote_types(states.dtype, torch.float32)), dim=-1)


def local_loss(own: Parts, seen_NXP: Tensor, positive_XX: Tensor, temperature: float) -> Tensor:
    """Cross-entropy [N] within each sample, the mean of parts to what they see, and back.

    Args:
        own: regions or sentences; a part counts by its weight.
        seen_NXP: what each sees of the other kind.
        positive_XX: share of each that is right for a part; rows add up to 1.
        temperature: of the cosines.
    """
    score_NXX = products(unit(own.part), unit(seen_NXP)) / temperature
    weight_NX = own.weight.to(score_NXX)
    weight_NX = weight_NX / weight_NX.sum(1, keepdim=True)
    loss_N = weight_NX.new_zeros(len(weight_NX))
    for both_NXX in (score_NXX, score_NXX.mT):
        among_NX = both_NXX.masked_fill(~own.real[:, None], -torch.inf).logsumexp(2)
        right_NX = (positive_XX.to(both_NXX) * both_NXX).sum(2)
        loss_N = loss_N + (weight_NX * (among_NX - right_NX)).sum(1) / 2
    return loss_N


def neighbours(height: int, width: int, reach: float, decay: float) -> Tensor:
    """Positives of each region [R, R] by its distance from others; rows add up to 1."""
    places = [divmod(cell, width) for cell in range(height * width)]
    squares = [[(y - v) ** 2 + (x - u) ** 2 for v, u in places] for y, x in places]
    # Squares of whole numbers: a distance that is the reach does not hang on rounding.
    square_RR = torch.tensor(squares, dtype=torch.float64) / (height**2 + width**2)
    near_RR = torch.exp(-decay * square_RR.sqrt()) * (square_RR <= reach**2)
    return near_RR / near_RR.sum(1, keepdim=True)


def sentence_states(states_NLD: Tensor, lengths: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """The maximum [N, S, D] over the tokens of each sentence, zero at padding; real ones [N, S].

    ``lengths``: tokens of the sentences of each report, which stand one after the other behind
    [CLS]. It, [SEP] and padding belong to none.
    """
    most = max(map(len, lengths))
    number_NL = torch.full(states_NLD.shape[:2], most)
    for numbers_L, of_report in zip(number_NL, lengths, strict=True):
        owner = torch.arange(len(of_report)).repeat_interleave(torch.tensor(of_report))
        numbers_L[1 : 1 + len(owner)] = owner
    number_NLD = sent(number_NL, states_NLD.device)[:, :, None].expand_as(states_NLD)
    empty = states_NLD.new_zeros(len(lengths), most + 1, states_NLD.shape[2])
    states_NSD = empty.scatter_reduce(1, number_NLD, states_NLD, "amax", include_self=False)
    real_NS = torch.arange(most) < torch.tensor([*map(len, lengths)])[:, None]
    return states_NSD[:, :most], sent(real_NS, states_NLD.device)


class Lovt(Term):
    """Images against reports of the batch; regions and sentences within their pair."""

    settings: LovtSettings
    compares = True
    pairs = "image and text"

    def __init__(self, settings: LovtSettings, encoders: Encoders) -> None:
        super().__init__(settings, encoders)
        image, text = encoders.image, encoders.text
        if image is None or text is None:
            raise InputError("terms: LoVT reads images and texts, which this program has not")
        if image.settings.kind != "resnet":
            raise InputError(
                f"settings: key 'encoder.kind' is {image.settings.kind!r}, but LoVT's regions are "
                "the cells of a resnet; expected that"
            )
        self.regions = Projections(encoders.trunk.features, settings)
        self.sentences = Projections(text.config.hidden_size, settings)
        self.alignment = Alignment(settings)
        self.losses: dict[str, Tensor] = {}

    def similarity(self) -> "Untrained":
        """None that could be scored."""
        return Untrained(SimilaritySettings())

    def parts(self, views: Views) -> tuple[Parts, Parts, Tensor]:
        """The regions and the sentences, and the positives of regions."""
        grid_NDhw: Any = views.features  # type: ignore[attr-defined]
        states_NRD, text = grid_NDhw.flatten(2).mT, views.texts["intact"]
        real_NR = torch.ones(states_NRD.shape[:2], dtype=torch.bool, device=states_NRD.device)
        own = views.batch.processes.share(np.arange(len(views.batch.rows)))
        reports = [views.sentences[place] for place in own]  # type: ignore[attr-defined]
        lengths = [[len(s.tokens) for s in report if len(s.tokens)] for report in reports]
        height, width = grid_NDhw.shape[2:]
        positive_RR = neighbours(height, width, self.settings.reach, self.settings.decay)
        return (
            self.regions(states_NRD, real_NR),
            self.sentences(*sentence_states(text.states[-1], lengths)),
            sent(positive_RR, states_NRD.device),
        )

    def local(self, regions: Parts, sentences: Parts, positive_RR: Tensor) -> tuple[Tensor, Tensor]:
        """The losses of regions and of sentences, [N] both."""
        by_regions, by_sentences = self.alignment(regions, sentences)
        itself_SS = torch.eye(sentences.real.shape[1], device=positive_RR.device)
        temperature = self.settings.local_temperature
        return (
            local_loss(regions, by_regions, positive_RR, temperature),
            local_loss(sentences, by_sentences, itself_SS, temperature),
        )

    def loss(self, views: Views) -> Tensor:
        settings, (regions, sentences, positive_RR) = self.settings, self.parts(views)
        projections = unit(regions.whole), unit(sentences.whole)
        (image_NP, text_NP), own = views.batch.gather(*projections)
        of_regions, of_sentences = (
            loss_N.sum() / len(views.batch.rows)
            for loss_N in self.local(regions, sentences, positive_RR)
        )
        # The package's sum of both directions is twice the code's mean of them.
        sums = settings.temperature, own, settings.image_to_text
        of_pairs = symmetric_contrastive(image_NP, text_NP, *sums) / 2
        self.losses = {"pairs": of_pairs, "regions": of_regions, "sentences": of_sentences}
        local = settings.region_weight * of_regions + settings.sentence_weight * of_sentences
        return of_pairs + local

    def comparisons(self, views: Views) -> Comparisons:
        """Each image with each report: the cosine, less the losses within such a pair."""
        settings, (regions, sentences, positive_RR) = self.settings, self.parts(views)
        score_NN = products(unit(regions.whole), unit(sentences.whole)) / settings.temperature
        for row in range(len(score_NN)):
            losses = self.local(regions.repeated(row), sentences, positive_RR)
            score_NN[row] -= settings.region_weight * losses[0]
            score_NN[row] -= settings.sentence_weight * losses[1]
        return Comparisons.of_batch(score_NN)

    def logged(self) -> dict[str, Tensor]:
        return {name: loss.detach() for name, loss in self.losses.items()}


class Untrained(Similarity):
    """LoVT's projections end with its training, and those of the model's folder are untrained."""

    settings: SimilaritySettings

    def forward(self, images: EncodedImages, texts: EncodedTexts) -> NoReturn:
        raise InputError(
            "a model of LoVT does not compare images with texts: its projections are not kept; "
            "expected a task that reads its trunk, by a recipe `program: initial` with `image`"
        )

    maps = forward
