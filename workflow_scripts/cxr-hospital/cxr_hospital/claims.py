"""Claims of sentences about a patient, and their relations: the labels of RadNLI and MedNLI.

BioViL section 4.2 names the three relations of a premise and a hypothesis. Here a sentence is one
or several *claims*, and the relation is computed from them, never from the words. So a pair of the
synthetic hospital has a true label in either direction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ENTAILMENT, CONTRADICTION, NEUTRAL = "entailment", "contradiction", "neutral"
LABELS = (ENTAILMENT, CONTRADICTION, NEUTRAL)
BOTH = "both"
RESOLVED = "resolved"


@dataclass(frozen=True)
class Claim:
    """The presence or absence of a topic; an empty field is not stated.

    ``side``: left, right or both. ``zone``: of a lung, on that side. ``grade``: mild, moderate or
    severe. ``change`` since the prior study: new, improved, stable, worsened; ``resolved`` goes
    with ``present=False``.
    """

    topic: str
    present: bool = True
    side: str = ""
    zone: str = ""
    grade: str = ""
    change: str = ""


@dataclass(frozen=True)
class Topics:
    """Relations between topics.

    ``parents``: topic -> a more general one that it implies, which may have a parent too.
    ``places``: topics of which a patient may have several at once, and the fields by which these
    differ (side, zone).
    """

    parents: Mapping[str, str]
    places: Mapping[str, tuple[str, ...]]

    def implied(self, topic: str) -> tuple[str, ...]:
        """Return ``topic``, its parent, the parent's parent and so on."""
        line = [topic]
        while line[-1] in self.parents:
            line.append(self.parents[line[-1]])
        return tuple(line)

    def related(self, a: str, b: str) -> bool:
        """True if both are the same topic, or one implies the other."""
        return a in self.implied(b) or b in self.implied(a)

    def relation(self, premise: Sequence[Claim], hypothesis: Sequence[Claim]) -> str:
        """Entailment where every claim follows, contradiction where one is excluded, or neutral."""
        if any(self.excludes(a, b) for a in premise for b in hypothesis):
            return CONTRADICTION
        if all(any(self.entails(a, b) for a in premise) for b in hypothesis):
            return ENTAILMENT
        return NEUTRAL

    def entails(self, a: Claim, b: Claim) -> bool:
        """True if ``b`` follows from ``a``."""
        if a.present != b.present:
            return False
        if not a.present:
            # "No effusion" covers the left one; "no left effusion" does not cover any other.
            return (
                a.topic in self.implied(b.topic)
                and a.side in ("", b.side)
                and a.zone in ("", b.zone)
                and b.change in ("", a.change)
            )
        general = b.topic in self.implied(a.topic) and not (b.grade or b.change)
        return (
            (a.topic == b.topic or general)
            and (b.side in ("", a.side) or a.side == BOTH)
            and b.zone in ("", a.zone)
            and b.grade in ("", a.grade)
            and b.change in ("", a.change)
        )

    def excludes(self, a: Claim, b: Claim) -> bool:
        """True if ``a`` and ``b`` contradict each other."""
        if a.present != b.present:
            present, absent = (a, b) if a.present else (b, a)
            return (
                absent.topic in self.implied(present.topic)
                and (not absent.side or present.side in (absent.side, BOTH))
                and absent.zone in ("", present.zone)
            )
        if not a.present or a.topic != b.topic or not self._same_place(a, b):
            return False
        return any(
            first and second and first != second
            for first, second in ((a.grade, b.grade), (a.change, b.change))
        )

    def _same_place(self, a: Claim, b: Claim) -> bool:
        """True if both are about the same finding, not about two of a kind."""
        fields = self.places.get(a.topic, ())
        sides = {a.side, b.side}
        same_side = BOTH in sides or (len(sides) == 1 and sides != {""})
        same_zone = bool(a.zone) and a.zone == b.zone
        return (same_side or "side" not in fields) and (same_zone or "zone" not in fields)
