"""Word phrases compiled into one tree, and all their matches in a tokenised sentence.

A phrase is a row of words: ``word*`` any word starting so, ``a|b`` either, ``?word`` may be
absent, ``..2`` up to two words of any kind, ``~2`` up to two that the set calls plain (they join
nothing and, in cues, name no finding). Words before one that begins with ``>`` must stand there but
are not matched: of "pleura : ..2 >fluid" the fluid is. Matching walks the tree from every word, so
its time is linear in the sentence for a given set of phrases; no regular expression can run away.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

PayloadT = TypeVar("PayloadT")

# A single quote that is no apostrophe.
QUOTE = re.compile(r"(?<!\w)'|'(?!\w)")
TOKEN = re.compile(r"\+/-|[A-Za-z]++(?:'[A-Za-z]{1,2}\b)?|\d++(?:\.\d++)?|_++|[^\sA-Za-z0-9_]")
GAP = re.compile(r"(\.\.|~)(\d)")
ANY, PLAIN = "*", "~"
# Words between which a gap of plain words must not reach.
JOINING = frozenset(
    ("and", "or", "nor", "but", "with", "without", "no", "not", "is", "are", "was", "were", "has")
    + ("have", "had", "which", "that", "while")
)


class Token(NamedTuple):
    """A word or mark in lower case, and its span in the sentence."""

    word: str
    start: int
    end: int


def tokenize(sentence: str) -> list[Token]:
    """Words and marks in lower case; a hyphen inside a word is dropped, a slash reads "or"."""
    text = sentence.replace("’", "'").replace('"', " ")  # quotes say nothing of a finding
    if "'" in text:
        text = QUOTE.sub(" ", text)
    if text.isascii():
        text = text.lower()
        tokens = [Token(m[0], *m.span()) for m in TOKEN.finditer(text)]
        if "-" not in text and "/" not in text and "calcif" not in text:
            return tokens
    else:  # of some letters the lower case is longer
        tokens = [Token(m[0].lower(), *m.span()) for m in TOKEN.finditer(text)]
    merged: list[Token] = []
    for i, token in enumerate(tokens):
        if token.word in ("-", "/") and 0 < i < len(tokens) - 1:
            before, after = tokens[i - 1], tokens[i + 1]
            if before.end == token.start and token.end == after.start:
                if token.word == "-" and (before.word.isalnum() or after.word.isalnum()):
                    continue
                if token.word == "/" and before.word.isalpha() and after.word.isalpha():
                    merged.append(Token("or", token.start, token.end))
                    continue
        if token.word.startswith("calcif") and merged and merged[-1].word == "non":
            merged[-1] = Token("non" + token.word, merged[-1].start, token.end)
            continue
        merged.append(token)
    return merged


class Element(NamedTuple):
    """A place of a phrase: ``least`` to ``most`` words, each one of ``words``."""

    words: tuple[str, ...]
    least: int = 1
    most: int = 1
    begins: bool = False  # what is matched begins here


def elements(phrase: str) -> list[Element]:
    """The places of a phrase."""
    before, mark, matched = phrase.rpartition(" >")
    found = [_element(part) for part in matched.split()]
    if mark:
        found[0] = found[0]._replace(begins=True)
    return [*map(_element, before.split()), *found]


def _element(part: str) -> Element:
    if gap := GAP.fullmatch(part):
        return Element((ANY if gap[1] == ".." else PLAIN,), 0, int(gap[2]))
    if part.startswith("?") and len(part) > 1:
        return Element(tuple(part[1:].split("|")), 0)
    return Element(tuple(part.split("|")))


@dataclass(slots=True)
class _Node(Generic[PayloadT]):
    """A place in the tree. What follows it is added when a sentence first comes here."""

    waiting: list[tuple[list[Element], int, PayloadT]] = field(default_factory=list)
    edges: dict[str, "_Node[PayloadT]"] = field(default_factory=dict)
    payloads: list[tuple[PayloadT, int]] = field(default_factory=list)  # with their word counts


class Match(NamedTuple, Generic[PayloadT]):
    """Words ``start`` to ``end`` (exclusive) of the sentence match a phrase of ``payload``."""

    start: int
    end: int
    payload: PayloadT


class PhraseTree(Generic[PayloadT]):
    """Finds every phrase of a set in a row of words."""

    def __init__(
        self,
        phrases: Iterable[tuple[str, PayloadT]],
        plain: Callable[[str], bool] = lambda word: word not in JOINING,
    ):
        self._plain = plain
        self._root: _Node[PayloadT] = _Node()
        for phrase, payload in phrases:
            self._root.waiting.append((elements(phrase), 0, payload))
        words = {w for rest, _, _ in self._root.waiting for element in rest for w in element.words}
        self._prefixes = {word[:-1] for word in words - {ANY} if word.endswith("*")}
        self._exact = {word for word in words - {PLAIN} if not word.endswith("*")}
        self._atoms_of: dict[str, tuple[str, ...]] = {}
        _grow(self._root)

    def atoms(self, word: str) -> tuple[str, ...]:
        """The words of the phrase set that ``word`` counts as; () for a word in no phrase."""
        atoms = self._atoms_of.get(word)
        if atoms is None:
            stems = (word[:n] for n in range(3, min(len(word), 20) + 1))
            atoms = tuple(f"{stem}*" for stem in stems if stem in self._prefixes)
            if word in self._exact:
                atoms = (word, *atoms)
            if len(self._atoms_of) > 200_000:
                self._atoms_of.clear()
            self._atoms_of[word] = atoms
        return atoms

    def matches(self, words: Sequence[str]) -> list[Match[PayloadT]]:
        """All matches, by their first word, context included; of one payload there the longest."""
        cache = self._atoms_of
        atoms = [cache[word] if word in cache else self.atoms(word) for word in words]
        matches: list[Match[PayloadT]] = []
        root = self._root.edges
        for start, first in enumerate(atoms):
            nodes = [root[atom] for atom in first if atom in root] if first else []
            if not nodes:
                continue
            longest: dict[int, Match[PayloadT]] = {}
            position = start + 1
            while nodes:
                following = []
                for node in nodes:
                    if node.waiting:
                        _grow(node)
                    for payload, matched in node.payloads:
                        longest[id(payload)] = Match(position - matched, position, payload)
                    if position < len(atoms) and node.edges:
                        for atom in atoms[position]:
                            if atom in node.edges:
                                following.append(node.edges[atom])
                        if words[position][0].isalnum():
                            if ANY in node.edges:
                                following.append(node.edges[ANY])
                            if PLAIN in node.edges and self._plain(words[position]):
                                following.append(node.edges[PLAIN])
                nodes = following
                position += 1
            matches += longest.values()
        return matches


def _grow(node: _Node[PayloadT]) -> None:
    """Add the words and payloads that follow a node."""
    for rest, matched, payload in node.waiting:
        _follow(node, rest, matched, payload)
    node.waiting.clear()


def _follow(node: _Node[PayloadT], rest: list[Element], matched: int, payload: PayloadT) -> None:
    if not rest:
        if (payload, matched) not in node.payloads:
            node.payloads.append((payload, matched))
        return
    element, after = rest[0], rest[1:]
    if element.begins:
        matched = 0
    if not element.least:
        _follow(node, after, matched, payload)
    if element.most > 1:
        after = [element._replace(least=0, most=element.most - 1, begins=False), *after]
    for word in element.words:
        following = node.edges.get(word)
        if following is None:
            following = node.edges[word] = _Node()
        following.waiting.append((after, matched + 1, payload))
