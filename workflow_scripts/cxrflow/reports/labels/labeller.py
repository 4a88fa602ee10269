"""What both labelling engines promise, and the one that the settings name."""

from collections.abc import Sequence
from typing import Protocol

from cxrflow.errors import InputError
from cxrflow.reports.labels.observations import Labels
from cxrflow.reports.labels.scope.labeller import ScopeLabeller
from cxrflow.reports.settings import LabelSettings


class Labeller(Protocol):
    """Labels reports that are given as sentences."""

    def label(self, reports: Sequence[Sequence[str]]) -> list[Labels]:
        """The labels of each report."""
        ...


def make_labeller(settings: LabelSettings) -> Labeller:
    """A labeller as ``labels.engine`` says.

    Raises:
        InputError: the weights that the engine needs are not named, or are damaged.
    """
    if settings.engine == "scope":
        return ScopeLabeller()
    if settings.chexbert is None:
        raise InputError("labels.engine is 'chexbert': labels.chexbert must name the weights")
    # Here, as it brings torch, which the other engine's workers start faster without.
    from cxrflow.reports.labels.chexbert import CheXbertLabeller

    return CheXbertLabeller(settings.chexbert)
