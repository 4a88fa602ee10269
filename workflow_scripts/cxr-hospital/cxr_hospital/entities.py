"""True tags of the entities in a report's sentence, for a named entity recogniser.

The words come from ``wording.entities``, the severity words from each observation's wording, the
devices from their names. A misspelt word has the tag of the right one. Tags are BIOES: ``S-`` an
entity of one token, ``B-``, ``I-``, ``E-`` first, middle and last token of a longer one, ``O``
outside.
"""

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cxr_hospital.grammar import alternatives, split_list
from cxr_hospital.wording import devices, entities
from cxr_hospital.wording.observations import ALL_WORDINGS
from cxr_hospital.wording.spelling import MISSPELLINGS

#: Tokens, as stanza's tokenizer learns them from the same text.
TOKEN = re.compile(
    r"_{2,}|(?:Dr|Mr|Ms|Mrs|vs|St)\.|\d+\.(?=\s[A-Z])|\d+(?:[.:,]\d+)*|[a-z]/[a-z]+|\w+(?:['-]\w+)*|\S"
)
#: Words of a severity ("small area of", "mild to moderate") that are no modifiers by themselves.
_JOINING = frozenset({"to", "of", "area"})
_CORRECTIONS = {wrong: right for right, options in MISSPELLINGS.items() for wrong in options}
_MEASURE = re.compile(r"[\d.]+ [cm]m")


@dataclass(frozen=True)
class TaggedToken:
    """Characters ``start`` to ``end`` (exclusive) of a sentence, and their BIOES tag."""

    start: int
    end: int
    tag: str


def tag_sentence(sentence: str) -> list[TaggedToken]:
    """The tokens of ``sentence`` with their tags."""
    tokens = list(TOKEN.finditer(sentence))
    typed = [token.group().lower() for token in tokens]
    words = [_CORRECTIONS.get(word, word) for word in typed]
    lexicon, longest = _lexicon()
    tags: list[str] = []
    while (start := len(tags)) < len(words):
        for length in range(min(longest, len(words) - start), 0, -1):
            kind = lexicon.get(tuple(words[start : start + length]))
            if kind is not None:
                tags += _bioes(kind, length)
                break
        else:
            tags.append("O")
    return [
        TaggedToken(token.start(), token.end(), tag)
        for token, tag in zip(tokens, tags, strict=True)
    ]


def _bioes(kind: str, length: int) -> list[str]:
    if kind == "O":
        return ["O"] * length
    if length == 1:
        return [f"S-{kind}"]
    return [f"B-{kind}", *[f"I-{kind}"] * (length - 2), f"E-{kind}"]


@functools.cache
def _lexicon() -> tuple[Mapping[tuple[str, ...], str], int]:
    """Phrases, as rows of lower-case tokens, with their types; and the longest row's length."""
    lexicon = {
        tuple(token.lower() for token in TOKEN.findall(phrase)): kind for kind, phrase in _phrases()
    }
    return lexicon, max(map(len, lexicon))


def _phrases() -> Iterator[tuple[str, str]]:
    """Yield (type, phrase); of repeated phrases the last type counts."""
    for wording in ALL_WORDINGS:
        for degree in wording.degrees.values():
            for text in alternatives(degree):
                if _MEASURE.fullmatch(text):
                    yield "OBSERVATION_MODIFIER", text
                else:
                    words = text.split()
                    yield from (("OBSERVATION_MODIFIER", w) for w in words if w not in _JOINING)
    for kind, rows in entities.WORDS.items():
        yield from ((kind, word) for row in rows for word in row.split())
    for nouns, _ in devices.DEVICES.values():
        for noun in nouns:
            names = alternatives(noun.replace("$lat ", ""))
            yield from (("OBSERVATION", name) for name in names)
    for kind, rows in entities.PHRASES.items():
        yield from ((kind, phrase) for row in rows for phrase in split_list(row))
