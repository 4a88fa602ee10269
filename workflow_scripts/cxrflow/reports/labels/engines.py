"""The engine that the settings name."""

from cxrflow.errors import InputError
from cxrflow.reports.labels.dependency.labeller import DependencyLabeller
from cxrflow.reports.labels.dependency.parsers import ConlluParses, StanzaParser
from cxrflow.reports.labels.labeller import Labeller
from cxrflow.reports.labels.scope.labeller import ScopeLabeller
from cxrflow.reports.settings import LabelSettings


def make_labeller(settings: LabelSettings) -> Labeller:
    """A labeller as ``labels.engine`` says.

    Raises:
        InputError: what the engine needs (parser or parses, weights) is not named, or is damaged.
    """
    if settings.engine == "scope":
        return ScopeLabeller(settings.alternatives)
    if settings.engine == "chexbert":
        if settings.chexbert is None:
            raise InputError("labels.engine is 'chexbert': labels.chexbert must name the weights")
        # Here, as it brings torch, which the other engines' workers start faster without.
        from cxrflow.reports.labels.chexbert import CheXbertLabeller

        return CheXbertLabeller(settings.chexbert)
    if settings.parses is not None:
        return DependencyLabeller(ConlluParses(settings.parses))
    if settings.parser is not None:
        return DependencyLabeller(StanzaParser(settings.parser))
    raise InputError(
        "labels.engine is 'dependency': labels.parser (a stanza folder) or labels.parses "
        "(CoNLL-U) must be set"
    )
