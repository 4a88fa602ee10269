"""The tree patterns that the CheXpert labeller's rules are written in, and their matching.

A pattern names a word and what hangs on it, in NegBio's language (Peng et al. 2018):

    {} < {dependency:/nmod:of/} ({lemma:/evidence/} > {dependency:/neg/} {})=x

``{lemma:/re/,tag:/re/}`` is a word (``{}`` any word), ``=x`` a name for it, ``A > {…} B`` an edge
from A to its dependant B, ``A < {…} B`` an edge to its governor B. Several relations in a row,
with ``&`` or without, all start at the first word; parentheses make a word with relations of its
own out of B, or hold A's first relations together.

Two habits of NegBio matter, since the published rules were tuned with them. An expression gets
``^`` in front and ``$`` behind without a group, so that of ``normal|unremarkable`` the first
matches whatever begins with it ("normally") and the last must end the value. And an attribute that
a word or an edge does not have (a ``lemma`` of an edge, a ``dependency`` of a word, both of which
occur in the published files) never matches.
"""

import re
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from cxrflow.errors import InputError
from cxrflow.reports.labels.dependency.graph import Graph

ATTRIBUTES = frozenset(("lemma", "tag", "text", "dependency"))
SYMBOL = re.compile(r"\s*(/[^/\n\r]*/|[^\W\d]\w*|[{}()&:,=<>]|$)")


@dataclass(frozen=True, slots=True)
class Test:
    """An attribute must match an expression."""

    attribute: str
    expression: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Relation:
    """An edge to a governor (``up``) or a dependant that matches ``other``."""

    up: bool
    tests: tuple[Test, ...]
    other: "Pattern"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A word: its attributes, its name (or ""), and its relations, all of which must hold."""

    tests: tuple[Test, ...]
    name: str
    relations: tuple[Relation, ...]
    text: str = ""

    def names(self) -> Iterator[str]:
        """The names given in the pattern."""
        if self.name:
            yield self.name
        for relation in self.relations:
            yield from relation.other.names()


@lru_cache(maxsize=100_000)
def _matches(expression: re.Pattern[str], value: str) -> bool:
    return expression.match(value) is not None


class _Reader:
    """Reads one pattern, symbol by symbol; errors are ValueErrors that say what was expected."""

    def __init__(self, text: str):
        self._symbols: list[str] = []
        at = 0
        while at < len(text):
            symbol = SYMBOL.match(text, at)
            if symbol is None:
                raise ValueError(f"unknown text {text[at:].strip()[:20]!r}")
            self._symbols.append(symbol.group(1))
            at = symbol.end()
        self._at = 0
        self._text = text

    def _next(self) -> str:
        return self._symbols[self._at] if self._at < len(self._symbols) else ""

    def _take(self, wanted: Callable[[str], bool], name: str) -> str:
        symbol = self._next()
        if not wanted(symbol):
            raise ValueError(f"{symbol or 'the end'!r} where {name} is expected")
        self._at += 1
        return symbol

    def _expect(self, symbol: str) -> None:
        self._take(lambda found: found == symbol, repr(symbol))

    def read(self) -> Pattern:
        """The whole text as one pattern."""
        pattern = self._word_with_relations()
        self._take(lambda symbol: not symbol, "a relation or the end")
        names = list(pattern.names())
        if len(set(names)) < len(names):
            raise ValueError("a name is given twice")
        return Pattern(pattern.tests, pattern.name, pattern.relations, " ".join(self._text.split()))

    def _word_with_relations(self) -> Pattern:
        word = self._word()
        relations = list(word.relations)
        while self._next() and self._next() in "&<>":
            if self._next() == "&":
                if len(relations) == len(word.relations):
                    raise ValueError("'&' where a relation is expected")
                self._at += 1
            up = self._take(lambda symbol: symbol in ("<", ">"), "'<' or '>'") == "<"
            tests = self._attributes()
            relations.append(Relation(up, tests, self._word()))
        return Pattern(word.tests, word.name, tuple(relations))

    def _word(self) -> Pattern:
        if self._next() == "(":
            self._at += 1
            pattern = self._word_with_relations()
            self._expect(")")
            return pattern
        tests = self._attributes()
        name = ""
        if self._next() == "=":
            self._at += 1
            name = self._take(str.isidentifier, "a name")
        return Pattern(tests, name, ())

    def _attributes(self) -> tuple[Test, ...]:
        tests: list[Test] = []
        self._expect("{")
        while self._next() != "}":
            if tests:
                self._expect(",")
            attribute = self._take(ATTRIBUTES.__contains__, "lemma, tag, text or dependency")
            self._expect(":")
            expression = self._take(lambda symbol: symbol.startswith("/"), "/an expression/")[1:-1]
            if expression:
                expression = expression if expression.startswith("^") else f"^{expression}"
                expression = expression if expression.endswith("$") else f"{expression}$"
            try:
                tests.append(Test(attribute, re.compile(expression)))
            except re.error as error:
                raise ValueError(f"/{expression}/ is no regular expression ({error})") from None
        self._expect("}")
        return tuple(tests)


def read_pattern(text: str) -> Pattern:
    """Compile one pattern.

    Raises:
        ValueError: ``text`` is no pattern.
    """
    return _Reader(text).read()


def read_patterns(name: str, text: str) -> tuple[Pattern, ...]:
    """The patterns of a file's text, one a line, in order; "#" starts a comment line.

    Raises:
        InputError: a line is no pattern; says ``name`` and the line.
    """
    patterns = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            patterns.append(read_pattern(line))
        except ValueError as error:
            raise InputError(f"{name}: line {number}: {error}") from None
    return tuple(patterns)


class Matcher:
    """Matches patterns at words of one graph.

    What was found for a part of a pattern at a word is kept, so that a pattern costs no more than
    its parts times the edges of the graph. ``allowed`` bounds which words a named word may be.
    """

    def __init__(self, graph: Graph, allowed: Mapping[str, Container[int]] | None = None):
        self._graph = graph
        self._allowed = allowed or {}
        # By identity: the patterns must outlive the matcher.
        self._found: dict[tuple[int, int], tuple[int, ...] | None] = {}

    def find(self, pattern: Pattern, index: int) -> tuple[int, ...] | None:
        """The words of a match with word ``index`` as the pattern's first, or None."""
        key = (id(pattern), index)
        if key not in self._found:
            self._found[key] = self._search(pattern, index)
        return self._found[key]

    def _search(self, pattern: Pattern, index: int) -> tuple[int, ...] | None:
        node = self._graph.nodes[index]
        for test in pattern.tests:
            value = None if test.attribute == "dependency" else getattr(node, test.attribute)
            if value is None or not _matches(test.expression, value):
                return None
        if pattern.name in self._allowed and index not in self._allowed[pattern.name]:
            return None
        words: tuple[int, ...] = (index,)
        for relation in pattern.relations:
            found = self._search_relation(relation, index)
            if found is None:
                return None
            words += found
        return words

    def _search_relation(self, relation: Relation, index: int) -> tuple[int, ...] | None:
        edges = self._graph.parents[index] if relation.up else self._graph.children[index]
        for other, label in edges.items():
            if all(
                test.attribute == "dependency" and _matches(test.expression, label)
                for test in relation.tests
            ):
                found = self.find(relation.other, other)
                if found is not None:
                    return found
        return None
