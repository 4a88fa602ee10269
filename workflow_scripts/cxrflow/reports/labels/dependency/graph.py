"""A sentence's dependency graph: words, and labelled edges from governor to dependant.

The graph that NegBio's patterns are matched against (Peng et al. 2018, section "Negation and
uncertainty detection"). Between two words there is one edge at most, as in NegBio: what comes
first stays.
"""

from collections.abc import Iterable
from dataclasses import dataclass


class BrokenParse(Exception):
    """A parse that is no tree of the sentence: the sentence counts as unread."""


@dataclass(frozen=True, slots=True)
class Node:
    """A word: lower-case lemma, Penn tag, and its characters ``start`` to ``end`` in the text."""

    text: str
    lemma: str
    tag: str
    start: int
    end: int


class Graph:
    """Nodes by number, and for each node its dependants and its governors with the relation."""

    def __init__(self, nodes: Iterable[Node]):
        self.nodes = tuple(nodes)
        self.children: list[dict[int, str]] = [{} for _ in self.nodes]
        self.parents: list[dict[int, str]] = [{} for _ in self.nodes]

    def add(self, governor: int, dependant: int, relation: str) -> bool:
        """Add an edge unless the two words have one already; True when it was added."""
        if governor == dependant or dependant in self.children[governor]:
            return False
        self.children[governor][dependant] = relation
        self.parents[dependant][governor] = relation
        return True

    def remove(self, governor: int, dependant: int) -> None:
        """Take the edge between two words away."""
        del self.children[governor][dependant]
        del self.parents[dependant][governor]

    def edges(self) -> list[tuple[int, int, str]]:
        """All edges: governor, dependant, relation."""
        return [(g, d, r) for g, below in enumerate(self.children) for d, r in below.items()]

    def has_child(self, index: int, *relations: str) -> bool:
        """Whether a dependant of the word hangs on one of these relations."""
        return any(r in relations for r in self.children[index].values())
