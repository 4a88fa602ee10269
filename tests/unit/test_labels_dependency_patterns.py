"""The tree patterns: reading them, and matching against a slow, literal matcher."""

import itertools
import re

import numpy as np
import pytest
from dependency_fixtures import plain

from cxrflow.errors import InputError
from cxrflow.reports.labels.dependency.graph import Graph, Node
from cxrflow.reports.labels.dependency.mentions import published
from cxrflow.reports.labels.dependency.patterns import (
    Matcher,
    Pattern,
    read_pattern,
    read_patterns,
)

FILES = {"pre_negation_uncertainty": 9, "negation": 77, "post_negation_uncertainty": 67}


def published_patterns() -> list[Pattern]:
    texts = [(name, published("patterns", f"{name}.txt").read_text("utf-8")) for name in FILES]
    return [pattern for name, text in texts for pattern in read_patterns(name, text)]


def roots(text: str, graph: Graph) -> set[int]:
    pattern, matcher = read_pattern(text), Matcher(graph)
    return {i for i in range(len(graph.nodes)) if matcher.find(pattern, i) is not None}


@pytest.mark.parametrize(("name", "count"), FILES.items())
def test_every_published_pattern_compiles(name: str, count: int) -> None:
    text = published("patterns", f"{name}.txt").read_text("utf-8")
    assert len(read_patterns(name, text)) == count


# no <- evidence -> of-pneumonia, and "new" at pneumonia
GRAPH = plain(
    ["evidence", "no", "pneumonia", "new"],
    (0, 1, "neg"),
    (0, 2, "nmod:of"),
    (2, 3, "amod"),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", {0, 1, 2, 3}),
        ("{lemma:/pneumonia/}", {2}),
        ("{lemma:/no|new/}", {1, 3}),
        ("{lemma:/evidence/,tag:/N.*/}", {0}),
        ("{lemma:/evidence/,tag:/V.*/}", set()),
        ("{} > {} {}", {0, 2}),
        ("{} < {} {}", {1, 2, 3}),
        ("{} <{dependency:/nmod:of/} ({lemma:/evidence/} >{dependency:/neg/} {})", {2}),
        ("{} < {} ({} > {} {lemma:/no/} > {} {lemma:/pneumonia/})", {1, 2}),
        ("{} < {} ({} > {} {lemma:/no/} & > {} {lemma:/nothing/})", set()),
        ("({} > {} {lemma:/no/}) > {} {lemma:/pneumonia/}", {0}),
        ("({} > {} {lemma:/new/}) < {dependency:/nmod:of/} {}", {2}),
        ("{} > {} ({} > {} {lemma:/new/})", {0}),
        ("(({} > {} {}) < {} {}) > {dependency:/amod/} {}", {2}),
        ("{}<{}({lemma:/pneumonia/}<{}{lemma:/evidence/}=e)", {3}),
        ("{} > {lemma:/nmod/} {}", set()),
        ("{dependency:/neg/}", set()),
    ],
)
def test_roots(text: str, expected: set[int]) -> None:
    assert roots(text, GRAPH) == expected


def test_first_alternative_may_begin_a_value_and_the_last_may_end_it() -> None:
    """As in NegBio: "^" and "$" go to the outer alternatives only."""
    graph = plain(["normally", "unremarkable", "unremarkably", "abnormal", "normal"])
    assert roots("{lemma:/normal|unremarkable/}", graph) == {0, 1, 4}
    assert roots("{lemma:/normal/}", graph) == {4}


def test_match_names_its_words_and_allowed_bounds_them() -> None:
    pattern = read_pattern("{} <{} ({lemma:/evidence/}=key >{} {lemma:/no/})")
    assert Matcher(GRAPH).find(pattern, 2) == (2, 0, 1)
    assert Matcher(GRAPH, {"key": {0}}).find(pattern, 2) == (2, 0, 1)
    assert Matcher(GRAPH, {"key": {1, 2, 3}}).find(pattern, 2) is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{lemma:/a/", "'the end' where '}' is expected|'the end' where ',' is expected"),
        ("{} > {dependency:/x/}", "'the end' where '{' is expected"),
        ("({} > {} {}", "'the end' where '\\)' is expected"),
        ("{} {}", "'{' where a relation or the end is expected"),
        ("{} & > {} {}", "'&' where a relation is expected"),
        ("{} > {} {} & {}", "'{' where '<' or '>' is expected"),
        ("{lema:/a/}", "'lema' where lemma, tag, text or dependency is expected"),
        ("{lemma:a}", "'a' where /an expression/ is expected"),
        ("{lemma:/(/}", "is no regular expression"),
        ("{}=x > {} {}=x", "a name is given twice"),
        ("{} | {}", "unknown text"),
    ],
)
def test_bad_pattern_names_file_and_line(line: str, message: str) -> None:
    with pytest.raises(InputError, match=f"rules.txt: line 3: .*(?:{message})"):
        read_patterns("rules.txt", f"# comment\n\n{line}\n{{}}\n")


def literal_roots(pattern: Pattern, graph: Graph) -> set[int]:
    """The roots by going through all pairs of words and all edges, part by part."""

    def holds(tests, values: dict[str, str]) -> bool:
        return all(
            t.attribute in values and re.match(t.expression, values[t.attribute]) for t in tests
        )

    found = {
        i
        for i, n in enumerate(graph.nodes)
        if holds(pattern.tests, {"lemma": n.lemma, "tag": n.tag, "text": n.text})
    }
    for relation in pattern.relations:
        others = literal_roots(relation.other, graph)
        found = {
            root
            for (root, other), (g, d, label) in itertools.product(
                itertools.product(found, others), graph.edges()
            )
            if (g, d) == ((other, root) if relation.up else (root, other))
            and holds(relation.tests, {"dependency": label})
        }
    return found


def test_matching_agrees_with_the_literal_matcher_on_random_graphs() -> None:
    """Graphs of words and relations of the patterns, two patterns planted in each."""
    patterns = published_patterns()
    rng = np.random.default_rng(5)
    vocabulary = sorted(_values(patterns, "lemma"))
    relations = sorted(_values(patterns, "dependency"))
    hits = set()
    for _ in range(40):
        nodes: list[Node] = []
        edges: list[tuple[int, int, str]] = []

        def plant(pattern: Pattern, nodes=nodes, edges=edges) -> int:
            at = len(nodes)
            lemma = _value(pattern.tests, "lemma", vocabulary, rng)
            tag = _value(pattern.tests, "tag", ["NN", "VBN", "JJ"], rng)
            nodes.append(Node(lemma, lemma, tag, at, at + 1))
            for relation in pattern.relations:
                other = plant(relation.other)
                label = _value(relation.tests, "dependency", relations, rng)
                edges.append((other, at, label) if relation.up else (at, other, label))
            return at

        for k in rng.integers(len(patterns), size=2):
            plant(patterns[k])
        for _ in range(2):
            g, d = rng.integers(len(nodes), size=2)
            edges.append((int(g), int(d), str(rng.choice(relations))))
        graph = Graph(nodes)
        for edge in edges:
            graph.add(*edge)
        matcher = Matcher(graph)
        for k, pattern in enumerate(patterns):
            ours = {i for i in range(len(nodes)) if matcher.find(pattern, i) is not None}
            assert ours == literal_roots(pattern, graph), pattern.text
            if ours:
                hits.add(k)
    assert len(hits) > len(patterns) / 2


def _values(patterns: list[Pattern], attribute: str) -> set[str]:
    """Every alternative that the patterns name for an attribute."""
    found = set()
    for pattern in patterns:
        for tests, other in [(pattern.tests, None)] + [
            (r.tests, r.other) for r in pattern.relations
        ]:
            for test in tests:
                if test.attribute == attribute:
                    found |= set(_alternatives(test.expression.pattern))
            if other is not None:
                found |= _values([other], attribute)
    return found


def _alternatives(expression: str) -> list[str]:
    return expression.strip("^$").replace(".*", "s").replace(".", "/").split("|")


def _value(tests, attribute: str, others: list[str], rng: np.random.Generator) -> str:
    """A value that passes the tests, or any of ``others``."""
    for test in tests:
        if test.attribute == attribute:
            others = _alternatives(test.expression.pattern)
    return str(rng.choice(others))
