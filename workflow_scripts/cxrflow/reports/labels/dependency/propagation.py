"""Edges that NegBio adds to a graph before matching (Peng et al. 2018; its propagation step).

Twice over: what is negated with a word is negated with its apposition, its conjuncts and what
stands behind "of"; "area", "amount" and "combination of X" count as X. One published rule compares
a word with a text and so never fires, "without A of B" for other A than evidence; it does here,
as its comment says it should.
"""

from cxrflow.reports.labels.dependency.graph import Graph

ROUNDS = 2
QUANTITIES = frozenset(("area", "amount", "combination"))
SHARED_BY_NOUNS = frozenset(("aux", "cop", "neg", "amod"))


def _from_edge(graph: Graph, governor: int, dependant: int, relation: str) -> list[tuple]:
    """The edges (governor, dependant, relation) that follow from one edge."""
    nodes = graph.nodes
    below, above = graph.children[governor], graph.parents[governor]
    nouns = nodes[governor].tag.startswith("N") and nodes[dependant].tag.startswith("N")
    new: list[tuple[int, int, str]] = []
    if relation == "appos":
        new += [(parent, dependant, label) for parent, label in above.items()]
        new += [(dependant, child, label) for child, label in below.items() if label == "neg"]
    elif relation == "dep" and nouns:
        further = graph.children[dependant].items()
        new += [(governor, child, label) for child, label in further if label == "neg"]
    elif relation.startswith("conj") and nouns:
        for child, label in below.items():
            lemma = nodes[child].lemma
            if (
                label in SHARED_BY_NOUNS
                or (label in ("dep", "compound") and lemma == "no")
                or (label == "case" and lemma == "without")
            ):
                new.append((dependant, child, label))
    elif relation == "nmod:of":
        if nodes[governor].lemma in QUANTITIES:
            new += [(parent, dependant, label) for parent, label in above.items()]
        for child, label in below.items():
            if label == "neg" or (label == "case" and nodes[child].lemma == "without"):
                new.append((dependant, child, label))
    elif relation == "neg" and any(nodes[child].lemma in ("or", "and") for child in below):
        # "No A and B" read as one noun with A in front of it.
        for child, label in below.items():
            if label == "compound" and nodes[child].tag.startswith("N"):
                new.append((child, dependant, "neg"))
    return new


def propagate(graph: Graph) -> None:
    """Add the edges to ``graph``."""
    for _ in range(ROUNDS):
        new = []
        for i, node in enumerate(graph.nodes):
            below = graph.children[i]
            # "Hypoinflated but clear of …"
            if node.lemma == "hypoinflated":
                for child, label in below.items():
                    if label == "conj:but" and graph.nodes[child].lemma == "clear":
                        new += [(child, of, r) for of, r in below.items() if r == "nmod:of"]
        for edge in graph.edges():
            new += _from_edge(graph, *edge)
        added = [graph.add(*edge) for edge in new]
        if not any(added):
            break
