"""The words of a sentence, and what the rules of denial and change read in them."""

from collections import Counter

from cxrflow.benchmarks.temporal.settings import WORDS
from cxrflow.text.words import words_of

Counts = Counter[str]

#: Words that say that a finding is absent or that a structure is normal, in reports and notes.
DENIALS = frozenset(
    (
        *("no", "not", "none", "nor", "neither", "never", "without", "rather", "cannot"),
        *("absent", "absence", "deny", "denies", "denied", "negative", "free", "clear", "cleared"),
        *("normal", "unremarkable", "intact", "spared", "resolved", "resolution", "gone"),
    )
)


def count_words(text: str) -> Counts:
    """Return how often each word stands in a text."""
    return Counter(word for word in words_of(text) if word[0].isalnum())


def denies(words: Counts) -> bool:
    """True if a word of denial is among the words."""
    return not DENIALS.isdisjoint(words)


def changes(words: Counts) -> frozenset[str]:
    """The directions of change that have a word among the words."""
    return frozenset(
        direction for direction, terms in WORDS.items() if not words.keys().isdisjoint(terms)
    )
