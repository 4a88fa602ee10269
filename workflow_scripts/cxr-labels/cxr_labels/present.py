"""The findings that our labeller reads in a sentence as present."""

from cxr_labels.observations import POSITIVE
from cxr_labels.scope.labeller import read_sentence


def positive_findings(sentence: str) -> set[str]:
    """The findings that a sentence says are there."""
    return {r.observation for r in read_sentence(sentence) if r.value == POSITIVE}
