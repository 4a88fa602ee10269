"""Which words the rules know, and which state no finding (``rules/scope/harmless.yaml``)."""

from functools import cache, lru_cache
from string import ascii_lowercase
from typing import NamedTuple

from cxr_labels.rules import read_rules
from cxr_labels.scope.cue_words import knows
from cxr_labels.scope.mentions import mention_tree
from cxr_labels.scope.phrases import PhraseTree
from cxr_labels.spelling import SHORTEST, Speller

SHORT = 4  # letters of a word that is compared with harmless ones


class Harmless(NamedTuple):
    """The content of ``rules/scope/harmless.yaml``."""

    words: frozenset[str]
    exceptions: frozenset[str]
    denied: frozenset[str]
    speller: Speller
    phrases: PhraseTree[None]


@cache
def harmless() -> Harmless:
    rules = read_rules("scope/harmless")
    words = frozenset(word for row in rules["filler"].values() for word in row.split())
    speller = Speller([w for w in words if len(w) >= SHORTEST - 1], rules["adverbs_but"])
    phrases = PhraseTree((phrase, None) for phrase in rules["phrases"])
    exceptions, denied = frozenset(rules["adverbs_but"]), frozenset(rules["denied"].split())
    return Harmless(words, exceptions, denied, speller, phrases)


@lru_cache(maxsize=100_000)
def is_harmless(word: str) -> bool:
    """True for a word that states no finding wherever it stands, a misspelt one included."""
    rules = harmless()
    if word in rules.words or len(word) == 1 or not word.isalpha() or set(word) == {"x"}:
        return True
    if word.endswith("ly") and word not in rules.exceptions:
        return True
    if mention_tree().atoms(word) or knows(word):
        return False
    if SHORT <= len(word) < SHORTEST:
        return not rules.words.isdisjoint(_slips(word))
    return rules.speller.correct(word) in rules.words


def _slips(word: str) -> set[str]:
    """The words of which a short one may be a slip: two letters swapped, or one left out.

    No other slips: "clot" is no "lot".
    """
    places = range(len(word) + 1)
    longer = {word[:i] + letter + word[i:] for i in places for letter in ascii_lowercase}
    return longer | {word[:i] + word[i : i + 2][::-1] + word[i + 2 :] for i in places}


def is_known(word: str) -> bool:
    """True for a word of the rules, spelled right."""
    return word in harmless().words or bool(mention_tree().atoms(word)) or knows(word)
