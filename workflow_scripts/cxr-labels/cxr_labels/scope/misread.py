"""Characters that a scanner's reading confused: "N0", "en1arged", "pleura|", "terrninates".

A word is mended where the change makes it one that the rules know; all others stay as they are.
"""

import itertools
import re
from functools import lru_cache

from cxr_labels.scope.mentions import speller
from cxr_labels.scope.vocabulary import harmless, is_known

# Digits and bars are looked for only where they touch a letter.
CONFUSED = {"0": "o", "1": "li", "|": "li", "!": "li", "5": "s"}
TOUCHING = re.compile(r"[01|5!](?:(?=[A-Za-z])|(?<=[A-Za-z][01|5]))")
WORD = re.compile(r"(?<![\w.|])[A-Za-z01|5!]*[A-Za-z][A-Za-z01|5!]*(?!\w)")
SHORT_WORDS = frozenset(("no", "of", "on", "or", "to", "in", "is", "it"))  # of two letters
SHORTEST = 3
MOST = 6  # confused characters of a word
# Letters that look like others.
PAIRS = (("rn", "m"), ("m", "rn"), ("cl", "d"), ("vv", "w"), ("l", "i"), ("ii", "n"), ("ri", "n"))


def has_misread(text: str) -> bool:
    """True if a word of the text is mended; the quick tests come first."""
    if not TOUCHING.search(text):
        return False
    return any(mended(match) != match[0] for match in WORD.finditer(text))


def mended(match: re.Match[str]) -> str:
    """The word without digits and bars, if it is known so."""
    return _mended(match[0])


@lru_cache(maxsize=50_000)
def _mended(word: str) -> str:
    body = word.rstrip("!")
    confused = [character for character in body if character in CONFUSED]
    letters = len(body) - len(confused)
    if not confused or len(confused) > min(MOST, max(letters, 1)):
        return word
    choices = (CONFUSED.get(character, character) for character in body)
    variants = ["".join(letters_chosen) for letters_chosen in itertools.product(*choices)]
    for known in (_is_word, is_known):  # whole words before those that only begin like one
        for new in variants:
            lower = new.lower()
            if lower in SHORT_WORDS if len(lower) < SHORTEST else known(lower):
                plain = "".join(c for c in body if c.isalpha())
                upper = len(plain) > 1 and plain.isupper()
                return (new.upper() if upper else new) + word[len(body) :]
    return word


def _is_word(word: str) -> bool:
    return word in harmless().words or speller().knows(word)


def unconfused(word: str) -> str:
    """The known word that an unknown one, in lower case, is with one pair of letters confused."""
    for pair, letter in PAIRS:
        if pair in word and (len(word) > SHORTEST or pair == "l"):
            for new in (word.replace(pair, letter), word.replace(pair, letter, 1)):
                if len(new) > 1 and is_known(new):
                    return new
    return word
