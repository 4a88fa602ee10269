"""Correction of words with one typing error: "effussion", "impressoin".

A word counts as a misspelling of a known one when one letter is missing, extra, wrong or swapped
with its neighbour (Damerau–Levenshtein distance 1, in the "optimal string alignment" form).
"""

from collections.abc import Iterable

SHORTEST, LONGEST = 6, 30  # words that are corrected


def one_slip_apart(a: str, b: str) -> bool:
    """True when exactly one insertion, deletion, substitution or neighbour swap turns a into b."""
    if a == b or abs(len(a) - len(b)) > 1:
        return False
    if len(a) > len(b):
        a, b = b, a
    start = 0
    while start < len(a) and a[start] == b[start]:
        start += 1
    if len(a) < len(b):
        return a[start:] == b[start + 1 :]
    if a[start + 1 :] == b[start + 1 :]:
        return True
    return a[start : start + 2] == b[start : start + 2][::-1] and a[start + 2 :] == b[start + 2 :]


def _shortened(word: str) -> set[str]:
    return {word} | {word[:i] + word[i + 1 :] for i in range(len(word))}


class Speller:
    """Corrects words to known ones.

    Words at distance 1 agree after deleting at most one letter of each, so a table of the known
    words' deletions has all candidates in a few look-ups.
    """

    def __init__(self, vocabulary: Iterable[str], protected: Iterable[str] = ()):
        self._accepted = set(vocabulary) | set(protected)
        self._table: dict[str, list[str]] = {}
        for word in sorted(set(vocabulary)):
            for key in _shortened(word):
                self._table.setdefault(key, []).append(word)

    def knows(self, word: str) -> bool:
        """True if ``word`` needs no correction."""
        return word in self._accepted

    def correct(self, word: str) -> str:
        """The known word that ``word`` misspells (the first by alphabet), or ``word`` itself."""
        if not SHORTEST <= len(word) <= LONGEST or word in self._accepted:
            return word
        candidates = {c for key in _shortened(word) for c in self._table.get(key, ())}
        return min((c for c in candidates if one_slip_apart(word, c)), default=word)
