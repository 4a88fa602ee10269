"""Losses of further pairs: another view of the images, or another text (DeCLIP).

Supervision by further pairs (low-data study, Appendix C) applies the terms of the plain pairs to
pairs in which another view of the image or another text takes the place of the first.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from cxrflow.pretrain.objective import Encoders, Term, TextOutput, Views
from cxrflow.pretrain.terms import term_class
from cxrflow.pretrain.terms.base_settings import Terms
from cxrflow.pretrain.validation.permutation import Comparisons


class Projection(NamedTuple):
    """Texts that are known by their projections alone."""

    projected: Tensor  # [N, P]


class Pairing(Views):
    """A batch in which view ``image`` of the images belongs to the texts ``text``."""

    def __init__(
        self,
        views: Views,
        image: int,
        text: TextOutput | Projection,
        equal_texts: Tensor | None = None,
    ) -> None:
        super().__init__(views.batch)
        self.images = {0: views.images[image]}
        self.texts = {"intact": cast(TextOutput, text)}
        self.equal_texts = equal_texts


class PairLosses(nn.Module):
    """The weighted sum of terms of images and texts, averaged over several pairings."""

    def __init__(self, base: Terms, encoders: Encoders) -> None:
        super().__init__()
        self.terms = nn.ModuleDict()
        for name, settings in base.named().items():
            self.terms[name] = term_class(name, settings)(settings, encoders)

    def loss(self, pairings: Sequence[Views]) -> Tensor:
        """This process's share; a scalar."""
        losses = [
            term.settings.weight * term.loss(pairing)
            for pairing in pairings
            for term in self._terms()
        ]
        return torch.stack(losses).sum() / len(pairings)

    def comparisons(self, pairings: Sequence[Views]) -> Comparisons:
        """The scores of all terms and pairings; the texts of all are permuted alike."""
        scores = []
        for term in self._terms():
            for pairing in pairings:
                compared = term.comparisons(pairing)
                assert compared is not None
                factor = term.settings.weight * compared.slope / len(pairings)
                scores.append(factor * compared.groups[0].score_KK)
        return Comparisons.of_batch(torch.stack(scores).sum(0))

    def _terms(self) -> list[Term]:
        terms: Any = self.terms.values()
        return list(terms)
