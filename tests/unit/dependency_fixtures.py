"""Hand-written parses for the tests of the ``dependency`` engine."""

from collections.abc import Sequence
from pathlib import Path

from cxrflow.reports.labels.dependency.conllu import Parse, placed, read_conllu
from cxrflow.reports.labels.dependency.conversion import to_graph
from cxrflow.reports.labels.dependency.graph import Graph, Node

PARSES = Path(__file__).parent / "parses"
# UD v2 trees, as a parser of today gives them; UD v1 graphs; parses that are none.
SENTENCES = PARSES / "sentences.conllu"
VERSION_1 = PARSES / "version_1.conllu"
BROKEN = PARSES / "broken.conllu"


def tree(*rows: str) -> Graph:
    """The converted graph of words "form lemma tag head relation", one a row."""
    lines, forms = [], []
    for number, row in enumerate(rows, start=1):
        form, lemma, tag, head, relation = row.split()
        forms.append(form)
        lines.append(f"{number}\t{form}\t{lemma}\t_\t{tag}\t_\t{head}\t{relation}\t_\t_\n")
    (parse,) = read_conllu("tree", "".join(lines) + "\n")
    return graph_of(parse, " ".join(forms))


def graph_of(parse: Parse, text: str | None = None) -> Graph:
    """The graph of one sentence of a file."""
    return to_graph(placed(parse, parse.text if text is None else text, {}))


def plain(lemmas: Sequence[str], *edges: tuple[int, int, str], tag: str = "NN") -> Graph:
    """A graph of nouns with the given lemmas and edges (governor, dependant, relation)."""
    graph = Graph(Node(lemma, lemma, tag, i, i + 1) for i, lemma in enumerate(lemmas))
    for edge in edges:
        graph.add(*edge)
    return graph


def named(graph: Graph) -> set[tuple[str, str, str]]:
    """All edges with words for numbers: governor, dependant, relation."""
    return {(graph.nodes[g].text, graph.nodes[d].text, r) for g, d, r in graph.edges()}
