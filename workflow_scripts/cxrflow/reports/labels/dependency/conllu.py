"""Parsed sentences as words with heads, and reading them from CoNLL-U files.

CoNLL-U (universaldependencies.org/format.html): ten tab-separated columns a word, a blank line
after a sentence, "#" before comments. Ranges of multi-word tokens ("4-5 cannot") give their words'
place in the text; empty nodes ("8.1") are left out.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cxrflow.errors import InputError
from cxrflow.reports.labels.dependency.graph import BrokenParse
from cxrflow.reports.labels.dependency.mentions import lower

COLUMNS = 10
ID = re.compile(r"([1-9]\d{0,5})(?:([-.])([1-9]\d{0,5}))?|0\.[1-9]\d{0,5}")


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a parse; ``head`` is the governor's number from 1, or 0 for the root.

    ``extra`` holds all (head, relation) pairs of the DEPS column. ``start`` and ``end`` are the
    word's characters in the sentence (of its token, when several words share one).
    """

    form: str
    lemma: str
    upos: str
    xpos: str
    head: int
    relation: str
    extra: tuple[tuple[int, str], ...] = ()
    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class Token:
    """A surface token: its form and the numbers of its words, first and last."""

    form: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Parse:
    """One sentence of a file: its text, surface tokens, and words that have no place yet."""

    text: str
    tokens: tuple[Token, ...]
    words: tuple[Word, ...]


def _column(value: str, form: str = "") -> str:
    return value if value != "_" or form == "_" else ""


def _extra(column: str) -> tuple[tuple[int, str], ...]:
    """The DEPS column's pairs; edges of empty nodes are left out."""
    if column == "_":
        return ()
    pairs = (pair.partition(":") for pair in column.split("|"))
    return tuple((int(head), relation) for head, _, relation in pairs if head.isdecimal())


def _sentence(name: str, comments: Sequence[str], rows: Sequence[tuple[int, str]]) -> Parse:
    tokens: list[Token] = []
    words: list[Word] = []
    text = ""
    for number, line in rows:
        where = f"{name}: line {number}"
        columns = line.split("\t")
        if len(columns) != COLUMNS:
            raise InputError(f"{where}: {len(columns)} columns; expected {COLUMNS} with tabs")
        found = ID.fullmatch(columns[0])
        if found is None:
            raise InputError(f"{where}: ID {columns[0]!r}; expected 1, 2 …, a range or 1.1")
        first, mark, last = found.groups()
        if mark == "." or first is None:
            continue
        if int(first) != len(words) + 1:
            raise InputError(f"{where}: ID {columns[0]}; expected {len(words) + 1}")
        gap = "" if "SpaceAfter=No" in columns[9].split("|") else " "
        if mark == "-":
            tokens.append(Token(columns[1], int(first), int(last)))
            text += columns[1] + gap
            continue
        if not tokens or tokens[-1].last < int(first):
            tokens.append(Token(columns[1], int(first), int(first)))
            text += columns[1] + gap
        _, form, lemma, upos, xpos, _, head, relation, extra, _ = columns
        if not (head.isdecimal() or head == "_"):
            raise InputError(f"{where}: HEAD {head!r}; expected a word's number or 0")
        lemma = _column(lemma, form) or form
        # A word without a head has no place in the tree: the sentence will count as unread.
        place = int(head) if head.isdecimal() else -1
        word = Word(form, lemma, _column(upos), _column(xpos), place, relation, _extra(extra))
        words.append(word)
    if tokens and tokens[-1].last > len(words):
        raise InputError(f"{where}: the range {tokens[-1].first}-{tokens[-1].last} has no words")
    for comment in comments:
        key, sign, value = comment.lstrip("#").partition("=")
        if sign and key.strip() == "text":
            text = value
    return Parse(" ".join(text.split()), tuple(tokens), tuple(words))


def read_conllu(name: str, text: str) -> Iterator[Parse]:
    """The sentences of a CoNLL-U file's text.

    Raises:
        InputError: a line is no CoNLL-U; says ``name`` and the line.
    """
    comments: list[str] = []
    rows: list[tuple[int, str]] = []
    for number, line in enumerate((*text.split("\n"), ""), start=1):
        line = line.rstrip("\r")
        if line.startswith("#") and not rows:
            comments.append(line)
        elif line.strip():
            rows.append((number, line))
        elif rows:
            yield _sentence(name, comments, rows)
            comments, rows = [], []


def placed(parse: Parse, text: str, spellings: Mapping[str, str]) -> list[Word]:
    """The parse's words with their places in ``text``, which may differ in case and blanks.

    ``spellings`` gives, in lower case, how ``text`` may write a token in another way.

    Raises:
        BrokenParse: a token is not where it must be.
    """
    words = list(parse.words)
    lowered = lower(text)
    at = 0
    for token in parse.tokens:
        while lowered[at : at + 1].isspace():
            at += 1
        form = lower(token.form)
        if not lowered.startswith(form, at):
            form = spellings.get(form, form)
            if not lowered.startswith(form, at):
                raise BrokenParse(f"{token.form!r} is not at character {at}")
            if token.first == token.last:
                i = token.first - 1
                words[i] = replace(words[i], form=form, lemma=form)
        for i in range(token.first - 1, token.last):
            words[i] = replace(words[i], start=at, end=at + len(form))
        at += len(form)
    if lowered[at:].strip():
        raise BrokenParse(f"no token for {text[at:]!r}")
    return words
