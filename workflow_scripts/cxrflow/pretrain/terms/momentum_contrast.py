"""MoCo v2: one view of an image against the other's key and a queue of keys of earlier images.

He et al. 2020, Algorithm 1, with the head of Chen et al. 2020 (MoCo v2); ConVIRT's baseline. Keys
come from another encoder that follows the trained one slowly.

The published code computes batch statistics on each GPU alone and shuffles the keys between them,
so that a query and its key cannot be matched by the statistics they share. Here statistics are
those of the whole batch, in one process or several, and shuffling would change nothing; with
``ghost_batch`` they are those of groups, and keys are shuffled between these.

Shapes: N images of a batch, F features of the trunk, P width of the head, K keys of the queue.
"""

from collections.abc import Sequence
from copy import deepcopy
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from cxrflow.keyed_random import row_state
from cxrflow.objectives.momentum_contrast import momentum_contrast
from cxrflow.pretrain.objective import Term
from cxrflow.pretrain.terms.settings import MomentumContrastSettings

if TYPE_CHECKING:
    from cxrflow.pretrain.two_views import TwoViews, TwoViewsProgram

SHUFFLING = 32  # stream of the keyed draws


class KeyEncoder(nn.Module):
    """The head of queries, and what keys come from: trunk, head and queue."""

    queue: Tensor  # [K, P], unit vectors; at first random ones, as published
    place: Tensor  # of the oldest key in the queue

    def __init__(self, trunk: nn.Module, features: int, settings: MomentumContrastSettings) -> None:
        super().__init__()
        self.query_head = nn.Sequential(
            nn.Linear(features, settings.hidden),
            nn.ReLU(inplace=True),
            nn.Linear(settings.hidden, settings.output),
        )
        self.trunk = deepcopy(trunk).requires_grad_(False)
        self.head = deepcopy(self.query_head).requires_grad_(False)
        keys = torch.randn(settings.queue, settings.output)
        self.register_buffer("queue", normalize(keys, dim=1))
        self.register_buffer("place", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def forward(self, pixels: Tensor) -> Tensor:
        """Keys of images, [N, P], of the queue's data type."""
        return normalize(self.head(self.trunk(pixels).mean((2, 3))).to(self.queue.dtype), dim=1)

    @torch.no_grad()
    def follow(self, trained: Sequence[Tensor], momentum: float) -> None:
        """Eq. 2: a step of the key encoder towards the parameters of queries' trunk and head."""
        own = [*self.trunk.parameters(), *self.head.parameters()]
        for key, query in zip(own, [*trained, *self.query_head.parameters()], strict=True):
            key.mul_(momentum).add_(query, alpha=1 - momentum)

    @torch.no_grad()
    def enqueue(self, key_NP: Tensor) -> None:
        """Put keys in the place of the oldest."""
        size = len(self.queue)
        key_NP = key_NP[-size:]
        places = (self.place + torch.arange(len(key_NP), device=key_NP.device)) % size
        self.queue[places] = key_NP
        self.place.add_(len(key_NP)).remainder_(size)


class MomentumContrast(Term):
    """InfoNCE of queries with their keys among those of the queue."""

    settings: MomentumContrastSettings
    state: KeyEncoder

    def __init__(self, settings: MomentumContrastSettings, program: "TwoViewsProgram") -> None:
        super().__init__(settings, program)
        self.state = KeyEncoder(program.trunk, program.trunk.encoder.features, settings)
        self._trained = list(program.trunk.parameters())
        self._shuffled = program.settings.ghost_batch is not None
        self._keys: Tensor | None = None  # of a training batch, until the weights are updated

    def keys(self, views: "TwoViews") -> tuple[Tensor, slice]:
        """Keys of the second views of the whole batch, [N, P], and where this process's are."""
        pixels, (rows, seed, epoch, _) = views.pixels(1), views.batch
        if not self._shuffled:
            (key_NP,), own = views.gather(self.state(pixels))
            return key_NP, own
        (pixels,), own = views.gather(pixels)
        order_N = row_state(torch.from_numpy(rows), seed, epoch, SHUFFLING).argsort()
        order_N = order_N.to(pixels.device)
        (shuffled_NP,), _ = views.gather(self.state(pixels[order_N][own]))
        return shuffled_NP[order_N.argsort()], own

    def loss(self, views: "TwoViews") -> Tensor:
        query_NP = self.state.query_head(views.features[:, 0])
        key_NP, own = self.keys(views)
        if self.state.training:
            self._keys = key_NP
        state, tau = self.state, self.settings.temperature
        return momentum_contrast(query_NP, key_NP[own], state.queue, tau, len(key_NP))

    def after_update(self) -> None:
        assert self._keys is not None
        self.state.follow(self._trained, self.settings.momentum)
        self.state.enqueue(self._keys)
