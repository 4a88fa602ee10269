"""Detection of texts in other languages: the labellers know English alone.

Counted are English words and unknown words of a text; words that radiology shares between
languages ("pneumothorax", "normal") count for neither. A text of one or two unknown words is
foreign only if one of them is known from another language or has letters that English lacks: the
rest are names and rare terms. ``rules/english.yaml`` lists all kinds.
"""

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import NamedTuple

from cxr_labels.rules import read_rules
from cxr_labels.scope.cue_words import knows
from cxr_labels.scope.mentions import mention_tree, speller
from cxr_labels.spelling import Speller

UNKNOWN_LANGUAGE = "another language: too few words known"
MOST_UNKNOWN = 2  # unknown words that a text without English may have
WORD = re.compile(r"[^\W\d_]{2,}")
ENDINGS = ("ing", "ed", "ly", "ness")


class _Lists(NamedTuple):
    shared: frozenset[str]
    english: frozenset[str]
    foreign: frozenset[str]
    speller: Speller


@cache
def _lists() -> _Lists:
    data = read_rules("english")
    shared, words, foreign = (
        frozenset(data[name].split()) for name in ("shared", "words", "foreign")
    )
    return _Lists(shared, words - shared, foreign - words - shared, Speller(words | shared))


@lru_cache(maxsize=100_000)
def _kind(word: str) -> bool | None:
    """True for an English word, False for an unknown one, None for one shared by languages."""
    shared, english, foreign, misspelt = _lists()
    if word in foreign:
        return False
    if word in shared or set(word) == {"x"}:  # "XXXX" stands for what was removed
        return None
    if word in english or word.endswith(ENDINGS):
        return True
    tree = mention_tree()
    if tree.atoms(word) or tree.atoms(speller().correct(word)):
        return None
    corrected = misspelt.correct(word)
    return None if corrected in shared else knows(word) or corrected in english


@lru_cache(maxsize=50_000)
def _count(sentence: str) -> tuple[int, int, int]:
    """Count English, unknown and foreign words; cached, because reports repeat sentences."""
    words = WORD.findall(sentence.lower())
    kinds = [_kind(word) for word in words]
    if False not in kinds:  # of most sentences, all words are known
        return kinds.count(True), 0, 0
    foreign = sum(
        kind is False and (word in _lists().foreign or not word.isascii())
        for word, kind in zip(words, kinds, strict=True)
    )
    return kinds.count(True), kinds.count(False), foreign


def is_english(sentences: Iterable[str], least_known: float) -> bool:
    """False if fewer than this share of the words are English, and enough are foreign."""
    counts = [_count(sentence) for sentence in sentences]
    unknown = sum(count[1] for count in counts)
    if not unknown:  # of most texts, all words are known
        return True
    english, _, foreign = map(sum, zip(*counts, strict=True))
    if english / (english + unknown) >= least_known:
        return True
    return not foreign and unknown <= MOST_UNKNOWN
