"""The interface of both labelling engines, and the choice between them."""

from collections.abc import Sequence
from typing import Protocol

from cxr_files.errors import InputError
from cxr_labels.observations import POSITIVE, UNCERTAIN, Labels
from cxr_labels.scope.labeller import ScopeLabeller
from cxr_labels.settings import LabellerSettings


class Labeller(Protocol):
    """Labels reports, each a list of sentences."""

    def label(self, reports: Sequence[Sequence[str]]) -> list[Labels]:
        """The labels of each report."""
        ...


def withheld(labeller: Labeller, sentences: Sequence[str], labels: Labels) -> int:
    """The number of unread words for which alone a report has no No Finding."""
    # Most reports have a finding besides; the mediastinum's uncertainty and devices are none.
    if not isinstance(labeller, ScopeLabeller) or labels[0] == POSITIVE:
        return 0
    if POSITIVE in labels[1:-1] or UNCERTAIN in labels[2:-1]:
        return 0
    return len(labeller.unread(sentences))


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
