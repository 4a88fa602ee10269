"""MoCo v2: one view of an image against the other's key and a queue of keys of earlier images.

He et al. 2020, Algorithm 1, with the head of Chen et al. 2020 (MoCo v2); ConVIRT's baseline. Keys
come from another encoder that follows the trained one slowly.

The published code computes batch statistics on each GPU alone and shuffles the keys between them,
so that a query and its key cannot be matched by the statistics they share. Here statistics are
those of the whole batch, in one process or several, and shuffling would change nothing; with
``ghost_batch`` they are those of groups, and keys are shuffled between these.

Shapes: N images of a batch, F features of the trunk, P width of the head, K keys of the queue.
"""

from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from cxrflow.compute.device_copy import sent
from cxrflow.compute.fifo import enqueue
from cxrflow.compute.keyed_random import row_state
from cxrflow.encoders.image_encoder import Frames
from cxrflow.objectives.biovil import products
from cxrflow.objectives.momentum_contrast import momentum_contrast
from cxrflow.pretrain.objective import Encoders, Term, Views
from cxrflow.pretrain.terms.settings import MomentumContrastSettings
from cxrflow.pretrain.validation.permutation import Comparisons

SHUFFLING = 32  # stream of the keyed draws


class MomentumContrast(Term):
    """InfoNCE of queries with their keys among those of the queue."""

    settings: MomentumContrastSettings
    compares = False  # other images are the queue's
    pairs = "two views of an image"
    queue: Tensor  # [K, P], unit vectors; at first random ones, as published
    place: Tensor  # of the oldest key in the queue

    def __init__(self, settings: MomentumContrastSettings, encoders: Encoders) -> None:
        super().__init__(settings, encoders)
        features, hidden = encoders.trunk.features, settings.hidden
        self.head = nn.Sequential(
            nn.Linear(features, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, settings.output)
        )
        self.key_trunk = deepcopy(encoders.trunk).requires_grad_(False)
        self.key_head = deepcopy(self.head).requires_grad_(False)
        keys = torch.randn(settings.queue, settings.output)
        self.register_buffer("queue", normalize(keys, dim=1))
        self.register_buffer("place", torch.zeros((), dtype=torch.int64))
        self._trained = [*encoders.trunk.parameters(), *self.head.parameters()]
        self._shuffled = encoders.ghost_batch is not None
        self._keys: Tensor | None = None  # of a training batch, until the weights are updated

    def loss(self, views: Views) -> Tensor:
        query_NP = self.head(views.images[0].pooled)
        key_NP, rows = self.keys(views)
        if self.training:
            self._keys = key_NP
        tau = self.settings.temperature
        return momentum_contrast(query_NP, key_NP[rows], self.queue, tau, len(key_NP))

    def comparisons(self, views: Views) -> Comparisons:
        """Each query with each key of the batch, which takes the place of its own."""
        query_NP = normalize(self.head(views.images[0].pooled).to(self.queue.dtype), dim=1)
        key_NP, _ = self.keys(views)
        tau = self.settings.temperature
        logits_NN, others_NK = (products(query_NP, keys) / tau for keys in (key_NP, self.queue))
        others_N1 = others_NK.logsumexp(dim=1, keepdim=True)
        return Comparisons.of_batch(logits_NN - torch.logaddexp(logits_NN, others_N1))

    @torch.no_grad()
    def keys(self, views: Views) -> tuple[Tensor, slice]:
        """Keys of the second views of the whole batch, [N, P], and where this process's are."""
        frames, batch = views.pixels(1), views.batch
        order_N = torch.arange(len(batch.rows))
        if self._shuffled:
            (pixels,), rows = batch.gather(frames.current)
            samples = torch.from_numpy(batch.rows)
            order_N = row_state(samples, batch.seed, batch.epoch, SHUFFLING).argsort()
            frames = Frames(pixels[sent(order_N, pixels.device)][rows])
        key_NP = self.key_head(self.key_trunk(frames).pooled).to(self.queue.dtype)
        (key_NP,), rows = batch.gather(normalize(key_NP, dim=1))
        return key_NP[sent(order_N.argsort(), key_NP.device)], rows

    def after_update(self) -> None:
        followers = [*self.key_trunk.parameters(), *self.key_head.parameters()]
        momentum = self.settings.momentum
        for key, query in zip(followers, self._trained, strict=True):  # He et al., Eq. 2
            key.mul_(momentum).add_(query, alpha=1 - momentum)
        assert self._keys is not None
        enqueue(self.place, (self.queue, self._keys))
