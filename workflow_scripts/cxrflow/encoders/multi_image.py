"""The image trunk of BioViL-T: a ResNet shared by two images, and a transformer that compares them.

BioViL-T section 3.1, Eq. 1; the paper leaves sizes open, which are those of the authors' published
inference code, as are the names of parameters. Every patch of the current and of the prior image is
a token. The features of a patch are its own (static) beside what the transformer gives for it
(difference); without a prior a learned vector stands for the latter and the transformer is not run.

Shapes: B studies, K of which have a prior, D width, L patches of an image, h x w grid.
"""

import math

import torch
from torch import Tensor, nn

from cxrflow.encoders.attention import Dropout, attention
from cxrflow.encoders.image_encoder import Frames, ImageTrunk, Patches, coloured, pooled
from cxrflow.encoders.resnet import STAGES, ResNet
from cxrflow.encoders.settings import ComparisonSettings, MultiImageSettings

EPSILON = 1e-6  # of layer normalisation
DEVIATION = 0.02  # of initial weights


def space_encoding(
    height: int, width: int, features: int, device: torch.device | None = None
) -> Tensor:
    """Sines and cosines of the places of a grid, [h * w, D]: S of Eq. 1.

    Half of the features are of y, the other half of x (Carion et al. 2020): coordinates from 1,
    scaled so that the last is 2 pi, over wavelengths that grow to 10,000.
    """
    half = features // 2
    number = torch.arange(half, device=device)
    wavelength = 10_000 ** (2 * number.div(2, rounding_mode="floor") / half)
    waves = []
    for size in (height, width):
        place = torch.arange(1, size + 1, device=device) * (2 * math.pi / (size + 1e-6))
        angle = place[:, None] / wavelength
        pairs = torch.stack([angle[:, 0::2].sin(), angle[:, 1::2].cos()], dim=2)
        waves.append(pairs.flatten(1))
    y = waves[0][:, None].expand(height, width, half)
    x = waves[1][None].expand(height, width, half)
    return torch.cat([y, x], dim=2).flatten(0, 1)


class TokenAttention(nn.Module):
    """Every token attends to all tokens of its study, those of both images."""

    def __init__(self, settings: ComparisonSettings) -> None:
        super().__init__()
        self.heads, width = settings.heads, settings.width
        self.proj_q, self.proj_k, self.proj_v = (
            nn.Linear(width, width, bias=False) for _ in range(3)
        )
        self.attn_drop = Dropout(settings.dropout)
        self.proj = nn.Linear(width, width)
        self.proj_drop = Dropout(settings.dropout)

    def forward(self, tokens_KLD: Tensor) -> Tensor:
        q, k, v = (
            layer(tokens_KLD).unflatten(2, (self.heads, -1)).transpose(1, 2)
            for layer in (self.proj_q, self.proj_k, self.proj_v)
        )
        dropout = self.attn_drop.p * self.training
        context = attention(q, k, v, dropout_p=dropout)
        return self.proj_drop(self.proj(context.transpose(1, 2).flatten(2)))


class FeedForward(nn.Module):
    """Two linear layers with GELU between them."""

    def __init__(self, settings: ComparisonSettings) -> None:
        super().__init__()
        self.fc1 = nn.Linear(settings.width, settings.feed_forward)
        self.fc2 = nn.Linear(settings.feed_forward, settings.width)
        self.drop = Dropout(settings.dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.drop(self.fc2(self.drop(nn.functional.gelu(self.fc1(tokens)))))


class Block(nn.Module):
    """A transformer block: A_k of Eq. 1, normalised before attention and perceptron.

    The encodings of place and time are added in every block to the input of query, key and value.
    """

    def __init__(self, settings: ComparisonSettings) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(settings.width, EPSILON)
        self.attn = TokenAttention(settings)
        self.norm2 = nn.LayerNorm(settings.width, EPSILON)
        self.mlp = FeedForward(settings)
        self.drop_path = settings.drop_path

    def forward(self, tokens_KLD: Tensor, encoding_LD: Tensor) -> Tensor:
        attended = self.attn(self.norm1(tokens_KLD) + encoding_LD)
        tokens_KLD = tokens_KLD + self._dropped(attended)
        return tokens_KLD + self._dropped(self.mlp(self.norm2(tokens_KLD)))

    def _dropped(self, change_KLD: Tensor) -> Tensor:
        """Stochastic depth (Huang et al. 2016): of some studies the change is left out."""
        if not self.training or self.drop_path == 0:
            return change_KLD
        keep = 1 - self.drop_path
        factor_K11 = change_KLD.new_empty(len(change_KLD), 1, 1).bernoulli_(keep)
        return change_KLD * (factor_K11 / keep)


class Comparison(nn.Module):
    """The transformer over the patches of two images, or of one."""

    def __init__(self, settings: ComparisonSettings) -> None:
        super().__init__()
        width = settings.width
        self.blocks = nn.ModuleList(Block(settings) for _ in range(settings.blocks))
        self.norm_post = nn.LayerNorm(width, EPSILON)
        self.type_embed = None  # T of Eq. 1: current, prior
        if settings.time_encoding:
            self.type_embed = nn.Parameter(torch.empty(2, 1, width))
            nn.init.trunc_normal_(self.type_embed, std=DEVIATION)
        self.pos_drop = Dropout(settings.dropout)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=DEVIATION)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, *images_KDhw: Tensor) -> Tensor:
        """Current patches and, if there are any, those of the priors: P_diff [K, D, h, w]."""
        current = images_KDhw[0]
        features, height, width = current.shape[1:]
        space_LD = space_encoding(height, width, features, current.device)
        times = [space_LD] * len(images_KDhw)
        if self.type_embed is not None:
            times = [space_LD + time for time in self.type_embed[: len(images_KDhw)]]
        encoding = torch.cat(times)
        tokens = torch.cat([image.flatten(2).transpose(1, 2) for image in images_KDhw], dim=1)
        tokens = self.pos_drop(tokens)
        for block in self.blocks:
            tokens = block(tokens, encoding)
        tokens_KLD = self.norm_post(tokens[:, : height * width])
        return tokens_KLD.transpose(1, 2).unflatten(2, (height, width))


class Trunk(ImageTrunk):
    """Current and prior images to static and difference features, side by side.

    Its stages are those of the ResNet. Images are compared after the last.
    """

    stages = STAGES

    def __init__(self, settings: MultiImageSettings) -> None:
        super().__init__()
        self.settings, comparison = settings, settings.comparison
        self.encoder = ResNet(settings)
        self.backbone_to_vit = nn.Conv2d(self.encoder.features, comparison.width, 1, bias=False)
        self.vit_pooler = Comparison(comparison)
        self.missing_previous_emb = None  # p_miss of section 3.1
        if comparison.decomposition:
            self.missing_previous_emb = nn.Parameter(torch.empty(1, comparison.width, 1, 1))
            nn.init.trunc_normal_(self.missing_previous_emb, std=DEVIATION)
        self.features = comparison.width * (1 + comparison.decomposition)

    def forward(self, frames: Frames[Tensor]) -> Patches:
        features = self.encoder(coloured(_together(frames), self.settings))
        return self._compared(features, frames)

    def forward_until(self, frames: Frames[Tensor], stage: int) -> Frames[Tensor]:
        features = self.encoder.until(coloured(_together(frames), self.settings), stage)
        current, prior = features.tensor_split([len(frames.current)])
        return Frames(current, None if frames.prior is None else prior, frames.rows)

    def forward_from(self, hidden: Frames[Tensor], stage: int) -> Patches:
        return self._compared(self.encoder.after(_together(hidden), stage), hidden)

    def _compared(self, features: Tensor, frames: Frames[Tensor]) -> Patches:
        """Patches of studies from the ResNet's features of current images and priors."""
        current, prior, rows = frames
        patches = self.backbone_to_vit(features)
        static_BDhw, prior_KDhw = patches.split([len(current), len(patches) - len(current)])
        if self.missing_previous_emb is None:
            grid = self._by_comparison_alone(static_BDhw, prior_KDhw, rows)
        else:
            difference = self.missing_previous_emb.to(patches.dtype).expand_as(static_BDhw)
            if prior is not None:
                chosen = static_BDhw if rows is None else static_BDhw[rows]
                compared = self.vit_pooler(chosen, prior_KDhw)
                difference = _scattered(difference, compared, rows)
            elif self.training:
                difference = difference + self._unused()
            grid = torch.cat([static_BDhw, difference], dim=1)
        return pooled(grid)

    def _by_comparison_alone(
        self, static_BDhw: Tensor, prior_KDhw: Tensor, rows: Tensor | None
    ) -> Tensor:
        """Without static features (Table 7): where there is no prior, of one image's tokens."""
        if not len(prior_KDhw):
            return self.vit_pooler(static_BDhw)
        if rows is None or len(rows) == len(static_BDhw):
            return self.vit_pooler(static_BDhw, prior_KDhw)
        alone = torch.ones(len(static_BDhw), dtype=torch.bool, device=rows.device)
        alone[rows] = False
        single = alone.nonzero()[:, 0]
        grid = _scattered(static_BDhw, self.vit_pooler(static_BDhw[single]), single)
        return _scattered(grid, self.vit_pooler(static_BDhw[rows], prior_KDhw), rows)

    def _unused(self) -> Tensor:
        """Zero, with a gradient for every parameter of the transformer that is not run.

        Processes that train together wait for one, and one process then does the same as several.
        """
        return torch.stack([0 * weight.sum() for weight in self.vit_pooler.parameters()]).sum()


def _together(frames: Frames[Tensor]) -> Tensor:
    """All images in one batch, whose statistics are theirs together."""
    current, prior, _ = frames
    return current if prior is None else torch.cat([current, prior])


def _scattered(all_BDhw: Tensor, some_KDhw: Tensor, rows: Tensor | None) -> Tensor:
    """``all_BDhw`` with ``some_KDhw`` in its ``rows``; None: in all."""
    if rows is None:
        rows = torch.arange(len(all_BDhw), device=all_BDhw.device)
    return all_BDhw.index_copy(0, rows, some_KDhw.to(all_BDhw.dtype))
