"""Rules that compare two sentences by their words, without a model.

A word is BERT's, in lower case; punctuation is none. Each rule gives a similarity in [0, 1], so
that a threshold of a model's cosines fits it too.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from cxrflow.metrics.intervals import Floats
from cxrflow.text.report_prompts import words_of

#: Words that say that a finding is absent or that a structure is normal, in reports and notes.
DENIALS = frozenset(
    (
        *("no", "not", "none", "nor", "neither", "never", "without", "rather", "cannot"),
        *("absent", "absence", "deny", "denies", "denied", "negative", "free", "clear", "cleared"),
        *("normal", "unremarkable", "intact", "spared", "resolved", "resolution", "gone"),
    )
)

Counts = Counter[str]


def count_words(text: str) -> Counts:
    """Return how often each word stands in a text."""
    return Counter(word for word in words_of(text) if word[0].isalnum())


def denies(words: Counts) -> bool:
    """True if a word of denial is among the words."""
    return not DENIALS.isdisjoint(words)


def cosine(first: Counts, second: Counts, weight: Callable[[str], float]) -> float:
    """Return the cosine of two vectors of word counts, each word with its weight."""
    product = sum(first[word] * second[word] * weight(word) ** 2 for word in first)
    lengths = (
        sum((count * weight(word)) ** 2 for word, count in words.items())
        for words in (first, second)
    )
    return product / math.sqrt(math.prod(lengths)) if product else 0.0


def inverse_document_frequency(corpus: Sequence[str]) -> Callable[[str], float]:
    """Return the weight of a word by the texts of a corpus, smoothed: log((1 + N) / (1 + n)) + 1.

    N: texts, n: those with the word (Salton and Buckley 1988; scikit-learn's default).
    """
    texts = Counter(word for text in corpus for word in count_words(text))
    return lambda word: math.log((1 + len(corpus)) / (1 + texts[word])) + 1


def similarities(
    rule: str, first: Sequence[str], second: Sequence[str], corpus: Sequence[str]
) -> Floats:
    """Return the similarity [N] of N pairs of sentences by a rule.

    ``negation``: 1 where both sentences deny or neither does, else 0. ``words``: cosine of word
    counts. ``tfidf``: the same, rare words of ``corpus`` counting more. ``overlap``: words in both,
    of the words in either. ``length``: the shorter's number of words, of the longer's. ``random``:
    uniform draws.
    """
    if rule == "random":
        return np.random.default_rng(0).random(len(first))
    weight = inverse_document_frequency(corpus)
    compare: dict[str, Callable[[Counts, Counts], float]] = {
        "negation": lambda a, b: float(denies(a) == denies(b)),
        "words": lambda a, b: cosine(a, b, lambda word: 1.0),
        "tfidf": lambda a, b: cosine(a, b, weight),
        "overlap": lambda a, b: len(a.keys() & b.keys()) / max(1, len(a.keys() | b.keys())),
        "length": lambda a, b: min(a.total(), b.total()) / max(1, a.total(), b.total()),
    }
    pairs = zip(map(count_words, first), map(count_words, second), strict=True)
    return np.array([compare[rule](*pair) for pair in pairs])
