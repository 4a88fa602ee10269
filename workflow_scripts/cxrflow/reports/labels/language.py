"""Detection of texts in other languages: the labellers know English alone.

Counted are English words and unknown words of a text; words that radiology shares between
languages ("pneumothorax", "normal") count for neither. ``rules/english.yaml`` lists both kinds.
"""

import re
from collections.abc import Iterable
from functools import cache, lru_cache

from cxrflow.reports.labels.scope.cue_words import knows
from cxrflow.reports.labels.scope.mentions import mention_tree, speller
from cxrflow.reports.rules import read_rules
from cxrflow.reports.spelling import Speller

UNKNOWN_LANGUAGE = "too few words known"
WORD = re.compile(r"[^\W\d_]{2,}")
ENDINGS = ("ing", "ed", "ly", "ness")


@cache
def _lists() -> tuple[frozenset[str], frozenset[str], Speller]:
    data = read_rules("english")
    shared, words = frozenset(data["shared"].split()), frozenset(data["words"].split())
    return shared, words - shared, Speller(words | shared)


@lru_cache(maxsize=100_000)
def _kind(word: str) -> bool | None:
    """True for an English word, False for an unknown one, None for one shared by languages."""
    shared, english, misspelt = _lists()
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
def _count(sentence: str) -> tuple[int, int]:
    """Count English and unknown words; cached, as reports repeat sentences by the thousand."""
    kinds = [_kind(word) for word in WORD.findall(sentence.lower())]
    return kinds.count(True), kinds.count(False)


def known_share(sentences: Iterable[str]) -> float:
    """The share of English words among those that are English or unknown; 1 if none is."""
    counts = [_count(sentence) for sentence in sentences]
    english, unknown = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0)
    return english / (english + unknown) if english + unknown else 1.0
