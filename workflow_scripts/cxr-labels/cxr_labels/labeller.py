"""The interface of both labelling engines, and the choice between them."""

from collections.abc import Sequence
from typing import Protocol

from cxr_files.errors import InputError
from cxr_labels.observations import Labels
from cxr_labels.scope.labeller import ScopeLabeller
from cxr_labels.settings import LabellerSettings


class Labeller(Protocol):
    """Labels reports, each a list of sentences."""

    def label(self, reports: Sequence[Sequence[str]]) -> list[Labels]:
        """The labels of each report."""
        ...


def counted(labeller: Labeller, reports: Sequence[Sequence[str]]) -> list[tuple[Labels, int]]:
    """The labels of each report, and how many unread words alone withhold No Finding."""
    if isinstance(labeller, ScopeLabeller):
        return labeller.counted(reports)
    return [(labels, 0) for labels in labeller.label(reports)]


def make_labeller(settings: LabellerSettings) -> Labeller:
    """A labeller as ``labels.engine`` says.

    Raises:
        InputError: the weights that the engine needs are not named, or are damaged.
    """
    if settings.engine == "scope":
        return ScopeLabeller()
    if settings.chexbert is None:
        raise InputError("labels.engine is 'chexbert': labels.chexbert must name the weights")
    # Imported here: it loads torch, without which workers of the other engine start faster.
    from cxr_labels.chexbert import CheXbertLabeller

    return CheXbertLabeller(settings.chexbert)
