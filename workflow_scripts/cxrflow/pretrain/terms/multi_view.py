"""Multi-view supervision: a second view of an image, and an augmented text, make further pairs.

DeCLIP (Li et al. 2022) as the low-data study trains with it (Appendix C): the base losses of an
image I, its second view I', its text T and the augmented text T', L_MVS of Eq. 5. Each pair is
compared within a batch of such pairs.
"""

from torch import Tensor

from cxrflow.pretrain.declip.pairing import Pairing, PairLosses
from cxrflow.pretrain.objective import Encoders, Term, Views
from cxrflow.pretrain.terms.settings import MultiViewSettings
from cxrflow.pretrain.validation.permutation import Comparisons

PAIRS = ((0, "augmented"), (1, "intact"), (1, "augmented"))  # (I, T'), (I', T), (I', T')


class MultiView(Term):
    """The mean of the base losses over three further pairs."""

    settings: MultiViewSettings
    compares = True
    pairs = "image and text"

    def __init__(self, settings: MultiViewSettings, encoders: Encoders) -> None:
        super().__init__(settings, encoders)
        self.base = PairLosses(settings.base, encoders)

    def loss(self, views: Views) -> Tensor:
        return self.base.loss(self._pairings(views))

    def comparisons(self, views: Views) -> Comparisons:
        return self.base.comparisons(self._pairings(views))

    def _pairings(self, views: Views) -> list[Views]:
        return [Pairing(views, image, views.texts[text]) for image, text in PAIRS]
