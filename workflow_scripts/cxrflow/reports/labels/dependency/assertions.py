"""What a sentence asserts of its mentions, by the published pattern files (the second stage).

Every word under a mention is tried: uncertainty that outranks negation, then negation, then
uncertainty; the first pattern that matches decides for the word. A mention with several words can
be both, and then is negative (the labeller's aggregation reads negation first). What holds of a
mention holds of every mention inside it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from cxrflow.reports.labels.dependency.graph import Graph
from cxrflow.reports.labels.dependency.mentions import Mention, lower, published
from cxrflow.reports.labels.dependency.patterns import Matcher, Pattern, read_patterns
from cxrflow.reports.labels.observations import NEGATIVE, POSITIVE, UNCERTAIN

# "Impression: no …" is negated whole, without a parse.
ALL_NEGATED = re.compile(r"(?:findings|impression): no ")


@dataclass(frozen=True, slots=True)
class Verdict:
    """A mention's value, the rule behind it, and the rule's other words in the cleaned sentence.

    ``cue`` is a span of characters, None where no other words decide.
    """

    mention: Mention
    value: int
    rule: str
    cue: tuple[int, int] | None


@cache
def _rules(name: str) -> tuple[Pattern, ...]:
    file = published("patterns", f"{name}.txt")
    return read_patterns(file.name, file.read_text("utf-8"))


class _Rules:
    """The three files on one graph."""

    def __init__(self, graph: Graph):
        self._graph = graph
        # A rule's key word does not count where it is negated: "not resolved", "not clear".
        keys = {i for i in range(len(graph.nodes)) if not graph.has_child(i, "neg")}
        self._free = Matcher(graph)
        self._keyed = Matcher(graph, {"key": keys})
        self._verdicts: dict[int, tuple[int, str, tuple[int, ...]] | None] = {}

    def verdict(self, index: int) -> tuple[int, str, tuple[int, ...]] | None:
        """Value, rule and other words for one word; None if no pattern matches."""
        if index not in self._verdicts:
            self._verdicts[index] = self._decide(index)
        return self._verdicts[index]

    def _decide(self, index: int) -> tuple[int, str, tuple[int, ...]] | None:
        graph = self._graph
        new = any(
            relation == "amod" and graph.nodes[child].lemma == "new"
            for child, relation in graph.children[index].items()
        )
        stages = (
            ("uncertain first", UNCERTAIN, "pre_negation_uncertainty", self._free),
            ("negation", NEGATIVE, "negation", self._keyed),
            ("uncertainty", UNCERTAIN, "post_negation_uncertainty", self._free),
        )
        for kind, value, file, matcher in stages:
            if kind == "negation" and new:
                continue
            for pattern in _rules(file):
                words = matcher.find(pattern, index)
                if words is not None:
                    return value, f"{kind}: {pattern.text}", words[1:]
        return None


def negated_whole(text: str, mentions: Sequence[Mention]) -> list[Verdict] | None:
    """Verdicts of a sentence like "Impression: no …", or None if it is none."""
    start = ALL_NEGATED.match(lower(text))
    if start is None:
        return None
    cue = (0, start.end() - 1)
    return [Verdict(m, NEGATIVE, f"negation: {text[slice(*cue)]}", cue) for m in mentions]


def assess(graph: Graph, mentions: Sequence[Mention]) -> list[Verdict]:
    """What the sentence asserts of each mention; ``graph`` has been propagated."""
    rules = _Rules(graph)
    marks: list[dict[int, Verdict]] = [{} for _ in mentions]
    for mention in mentions:
        for index, node in enumerate(graph.nodes):
            if node.start >= mention.end or node.end <= mention.start:
                continue
            found = rules.verdict(index)
            if found is None:
                continue
            value, rule, others = found
            cue = None
            if others:
                nodes = [graph.nodes[i] for i in others]
                cue = (min(n.start for n in nodes), max(n.end for n in nodes))
            for inner, mark in zip(mentions, marks, strict=True):
                if mention.start <= inner.start and inner.end <= mention.end:
                    mark.setdefault(value, Verdict(inner, value, rule, cue))
    return [
        mark.get(NEGATIVE) or mark.get(UNCERTAIN) or Verdict(mention, POSITIVE, "mention", None)
        for mention, mark in zip(mentions, marks, strict=True)
    ]
