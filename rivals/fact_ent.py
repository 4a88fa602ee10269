"""fact_ENT and fact_ENTNLI (Miura et al. 2021): do two reports name the same entities?

Entities are phrases of our labeller, without anatomy. Shapes: N pairs of reports.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, product
from typing import Literal

from cxr_labels.scope.labeller import read_sentence

Entity = tuple[str, str]  # phrase, and how what is said of it relates to the other text
Place = tuple[int, int, str]  # pair of reports, side of it, sentence


@lru_cache(200_000)
def entities_of(sentence: str) -> tuple[tuple[str, str, int], ...]:
    """What our labeller reads in a sentence: phrase, observation and state, each place once."""
    places = {(r.start, r.end): r for r in reversed(read_sentence(sentence))}
    return tuple((r.phrase.lower(), r.observation, r.value) for r in places.values())


def entity_match(
    reference: Sequence[Entity], hypothesis: Sequence[Entity], repeated: bool
) -> float:
    """fact_ENTNLI: the harmonic mean of both texts' shares of entities that the other one supports.

    It supports an entity that it entails, or that it names and does not contradict. Where all
    relations are neutral, this is fact_ENT. ``repeated``: an entity that the reference names twice
    counts twice (code).
    """
    shares = []
    sides = (reference, hypothesis, repeated), (hypothesis, reference, False)
    for counted, other, each_time in sides:
        if not each_time:
            counted = list({entity[0]: entity for entity in counted}.values())
        phrases = {phrase for phrase, _ in other}
        hits = sum(
            relation == "entailment" or (phrase in phrases and relation == "neutral")
            for phrase, relation in counted
        )
        shares.append(hits / max(1, len(counted)))
    return 2 * shares[0] * shares[1] / sum(shares) if all(shares) else 0.0


def related_by_state(*sides: Sequence[str]) -> list[list[Entity]]:
    """The entities of both texts, related by the states that our labeller reads in them.

    A state is 1 (present), 0 (absent) or -1 (uncertain).
    """
    read = [[*chain(*map(entities_of, lines))] for lines in sides]
    stated = [{entity[1:] for entity in side} for side in read]

    def relation(observation: str, state: int, other: set[tuple[str, int]]) -> str:
        if (observation, state) in other:
            return "entailment"
        return "contradiction" if (observation, 1 - state) in other else "neutral"

    return [
        [(phrase, relation(observation, state, other)) for phrase, observation, state in side]
        for side, other in zip(read, reversed(stated), strict=True)
    ]


def closest_sentences(
    reports: Sequence[tuple[Sequence[str], Sequence[str]]],
    score_of: Callable[[Sequence[str], Sequence[str]], Iterable[float]],
) -> dict[Place, str]:
    """For each sentence, the sentence of the other report of its pair with the highest score."""
    pairs = [(n, a, b) for n, sides in enumerate(reports) for a, b in product(*sides)]
    best: dict[Place, tuple[float, str]] = {}
    scores = score_of([a for _, a, _ in pairs], [b for *_, b in pairs])
    for (n, a, b), score in zip(pairs, scores, strict=True):
        for side, own, other in ((0, a, b), (1, b, a)):
            if score > best.get((n, side, own), (-1.0, ""))[0]:
                best[n, side, own] = float(score), other
    return {place: other for place, (_, other) in best.items()}


class Facts:
    """The entities of reports, each with how its sentence relates to the other report.

    ``inferred`` says where the relation comes from. ``states``: what our labeller reads in both
    reports. ``model``: as in the public code, the ``model`` reads a sentence as the hypothesis; the
    premise is the sentence of the other report with the highest ``score``. None: all are neutral.
    """

    def __init__(
        self,
        inferred: Literal["model", "states"] | None,
        model: Callable[[Sequence[str], Sequence[str]], Sequence[str]] | None = None,
        score: Callable[[Sequence[str], Sequence[str]], Iterable[float]] | None = None,
    ) -> None:
        if inferred == "model" and (model is None or score is None):
            raise ValueError("inferred is 'model'; expected a model and a score")
        self.inferred, self.model, self.score = inferred, model, score

    def __call__(
        self, references: Sequence[Sequence[str]], others: Sequence[Sequence[str]]
    ) -> Iterator[list[list[Entity]]]:
        """Of N references and N others, in sentences: the entities of both sides, [N][2]."""
        reports, relations = list(zip(references, others, strict=True)), dict[Place, str]()
        if self.inferred == "states":
            yield from (related_by_state(*sides) for sides in reports)
            return
        if self.model is not None and self.score is not None:
            closest = closest_sentences(reports, self.score)
            said = self.model([*closest.values()], [own for *_, own in closest])
            relations = dict(zip(closest, said, strict=True))
        for n, sides in enumerate(reports):
            yield [
                [(e[0], relations.get((n, s, h), "neutral")) for h in side for e in entities_of(h)]
                for s, side in enumerate(sides)
            ]
