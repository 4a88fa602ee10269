"""Nearest-neighbour supervision: an image beside the text nearest to its own among earlier texts.

DeCLIP (Li et al. 2022) as the low-data study trains with it (Appendix C): the loss of both views of
an image with its text's neighbour, L_NN of Eq. 5. The queue holds the projections of texts. With
``text: reencode`` (ours) it also holds which texts they are, and those that are found are encoded
again.

Shapes: N samples of all processes, P width of the joint space, K texts of the queue.
"""

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from cxr_files.errors import InputError
from cxrflow.compute.device_copy import sent
from cxrflow.compute.fifo import enqueue
from cxrflow.objectives.biovil import products
from cxrflow.pretrain.declip.pairing import Pairing, PairLosses, Projection
from cxrflow.pretrain.objective import Encoders, Term, TextOutput, Views
from cxrflow.pretrain.terms.settings import NeighbourSettings
from cxrflow.pretrain.validation.permutation import Comparisons

EMPTY = -1  # the study of a place without a text, and of texts that are never in the queue


class Neighbours(Term):
    """The mean of the base losses of (I, T_NN) and (I', T_NN)."""

    settings: NeighbourSettings
    compares = True
    pairs = "image and text"
    queue: Tensor  # [K, P], unit vectors of texts
    studies: Tensor  # int64 [K], the number of each one's study; random vectors' are below EMPTY
    place: Tensor  # of the oldest text in the queue
    rows: Tensor  # int64 [K], the training sample of each text; where texts are encoded again

    def __init__(self, settings: NeighbourSettings, encoders: Encoders) -> None:
        super().__init__(settings, encoders)
        samples, width = encoders.samples, encoders.image.settings.projection
        names = samples.ids if samples.groups is None else samples.groups
        _, self._numbers, counts = np.unique(names, return_inverse=True, return_counts=True)
        size = min(settings.queue, len(samples))
        # A study's texts are at most twice in a row: late in an epoch, early in the next one.
        self._least = 2 * int(counts.max()) + 1
        if 0 < size < self._least:
            raise InputError(
                f"settings: key 'terms.neighbours.queue' is {settings.queue} with {len(samples)} "
                f"training samples; expected a queue of at least {self._least} texts, so that some "
                "are of other studies, or 0"
            )
        if settings.start == "full":
            self._least = size
        self.base = PairLosses(settings.base, encoders)
        vectors, studies = torch.zeros(size, width), torch.full((size,), EMPTY)
        if settings.start == "random":
            vectors = normalize(torch.randn(size, width), dim=1)
            studies = EMPTY - 1 - torch.arange(size)
        self.register_buffer("queue", vectors)
        self.register_buffer("studies", studies)
        self.register_buffer("place", torch.zeros((), dtype=torch.int64))
        self.reencodes = settings.text == "reencode"
        if self.reencodes:
            self.register_buffer("rows", torch.full((size,), EMPTY))
        self._populated = False
        # Of a batch, until weights are updated: texts, their studies and samples.
        self._texts: tuple[Tensor, Tensor, Tensor] | None = None

    def loss(self, views: Views) -> Tensor:
        pairings = self._pairings(views)
        return self.base.loss(pairings) if pairings else self.queue.new_zeros(())

    def comparisons(self, views: Views) -> Comparisons | None:
        pairings = self._pairings(views)
        return self.base.comparisons(pairings) if pairings else None

    def _pairings(self, views: Views) -> list[Views]:
        """Both views of the images with the neighbours of their texts; empty if there are none."""
        if not len(self.queue):
            return []
        text = views.texts["intact"].projected.detach().to(self.queue.dtype)
        (text_NP,), rows = views.batch.gather(normalize(text, dim=1))
        study_N = torch.full((len(text_NP),), EMPTY, device=text_NP.device)
        if self.training:
            samples = views.batch.rows
            study_N = sent(torch.from_numpy(self._numbers[samples]), text_NP.device)
            self._texts = text_NP, study_N, sent(torch.from_numpy(samples), text_NP.device)
        # Once populated it stays so, and the check, which waits for a GPU, can be skipped.
        self._populated = self._populated or int((self.studies != EMPTY).sum()) >= self._least
        if not self._populated:
            return []
        place_N = self.nearest(text_NP, study_N)
        equal_NN = None
        if self.settings.shared == "masked":
            equal_NN = self.studies[place_N, None] == self.studies[place_N]
            equal_NN = equal_NN.fill_diagonal_(False)
        neighbour: TextOutput | Projection = Projection(self.queue[place_N][rows])
        if self.reencodes:
            neighbour = views.training_texts(self.rows[place_N].cpu().numpy())
        return [Pairing(views, image, neighbour, equal_NN) for image in (0, 1)]

    def nearest(self, text_NP: Tensor, study_N: Tensor) -> Tensor:
        """Place in the queue of the nearest text of another study, by the cosine; int64 [N]."""
        excluded_NK = (study_N[:, None] == self.studies) | (self.studies == EMPTY)
        return products(text_NP, self.queue).masked_fill(excluded_NK, float("-inf")).argmax(1)

    def after_update(self) -> None:
        if self._texts is not None:
            text_NP, study_N, sample_N = self._texts
            more = [(self.rows, sample_N)] if self.reencodes else []
            enqueue(self.place, (self.queue, text_NP), (self.studies, study_N), *more)
