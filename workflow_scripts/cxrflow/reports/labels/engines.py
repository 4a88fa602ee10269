"""The engine that the settings name."""

from cxrflow.reports.labels.labeller import Labeller
from cxrflow.reports.labels.scope.labeller import ScopeLabeller
from cxrflow.reports.settings import LabelSettings


def make_labeller(settings: LabelSettings) -> Labeller:
    """A labeller as ``labels.engine`` says."""
    return ScopeLabeller(settings.alternatives)
