"""Every patch is looked at as much as any other, over a whole report (Xu et al. 2015)."""

from torch import Tensor

from cxrflow.objectives.doubly_stochastic import doubly_stochastic
from cxrflow.pretrain.objective import Term, Views
from cxrflow.pretrain.terms.writing_settings import DoublyStochasticSettings


class DoublyStochastic(Term):
    """Of a captioner with soft attention."""

    settings: DoublyStochasticSettings
    compares = False

    def loss(self, views: Views) -> Tensor:
        assert views.written.attended is not None
        return doubly_stochastic(views.written.attended, len(views.batch.rows))
