"""Mentions of the 14 CheXpert observations in a sentence (the labeller's first stage).

The phrases are data: ``rules/scope/mentions.yaml``. A mention that overlaps an "unless"
phrase of its observation does not count (the published labeller calls these unmentions).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from cxr_labels.rules import read_rules
from cxr_labels.scope.phrases import PhraseTree
from cxr_labels.spelling import Speller

Kind = Literal["finding", "hint", "organ", "unless", "harmless"]


@dataclass(frozen=True, slots=True)
class Mention:
    """Words ``start`` to ``end`` (exclusive) of the sentence mention ``observation``."""

    observation: str
    kind: Kind
    start: int
    end: int


@cache
def mention_tree() -> PhraseTree[tuple[str, Kind]]:
    """The tree of all mention phrases; payload (observation, kind)."""
    return PhraseTree(
        (phrase, (observation, kind))
        for observation, kinds in read_rules("scope/mentions").items()
        for kind, phrases in kinds.items()
        for phrase in phrases
    )


@cache
def speller() -> Speller:
    """Corrects words one slip away from a word of the phrases."""
    words = read_rules("scope/spelling")
    return Speller(words["known"], words["protected"])


def find_mentions(words: Sequence[str]) -> list[Mention]:
    """Mentions by place; inside one observation the longest of overlapping ones.

    An "unless" phrase inside a mention does not cancel it: "pleural or pericardial effusion".
    """
    candidates: list[tuple[int, int, str, Kind]] = []
    barred: list[tuple[int, int, str, Kind]] = []
    for match in mention_tree().matches(words):
        observation, kind = match.payload
        candidate = (match.start, match.end, observation, kind)
        (barred if kind in ("unless", "harmless") else candidates).append(candidate)
    if not candidates:
        return []
    # Longest first at a start, a finding before an organ, so that "enlarged heart" is a finding.
    candidates.sort(key=lambda m: (m[0], -m[1], m[3]))
    bars: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for start, end, observation, _ in barred:
        for word in range(start, end):
            bars.setdefault((observation, word), []).append((start, end))
    mentions: list[Mention] = []
    reach: dict[str, int] = {}
    for start, end, observation, kind in candidates:
        if start < reach.get(observation, 0):
            continue
        overlapping = (
            bar for word in range(start, end) for bar in bars.get((observation, word), ())
        )
        if any(not (start <= a and b <= end and (a, b) != (start, end)) for a, b in overlapping):
            continue
        reach[observation] = end
        mentions.append(Mention(observation, kind, start, end))
    return mentions
