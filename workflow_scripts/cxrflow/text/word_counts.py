"""How often each word of a corpus occurs: the input of the WordPiece trainer.

"Words" are what BERT's normaliser and pre-tokeniser leave: lower-cased, without accents, split at
white space and around every punctuation mark. Neither looks across white space, so raw words are
counted first and only the distinct ones are normalised, which is several times faster than
normalising the corpus and gives the same counts.
"""

import re
from collections import Counter
from collections.abc import Iterable

from tokenizers import normalizers, pre_tokenizers

# Characters at which str.split() splits but which BERT's normaliser deletes.
_DELETED = re.compile("[\x0b\x0c\x1c-\x1f\x85]")
_ASCII_WORDS = re.compile(r"[A-Za-z0-9]+|[!-/:-@\[-`{-~]")


def raw_words(text: str) -> list[str]:
    """``text`` split at white space as BERT's normaliser sees it."""
    # Most texts hold no such character; a regular expression over each would cost more than this.
    if not text.isprintable() and _DELETED.search(text):
        text = _DELETED.sub("", text)
    return text.split()


class WordCounts:
    """Counts of normalised words, fed with texts.

    ``raw_limit`` distinct raw words are held before they are normalised and merged: raw words
    ("effusion.", "(effusion)") are far more numerous than normalised ones.
    """

    def __init__(self, lowercase: bool = True, raw_limit: int = 2_000_000) -> None:
        self._normalizer = normalizers.BertNormalizer(lowercase=lowercase)
        self._splitter = pre_tokenizers.BertPreTokenizer()
        self._lowercase = lowercase
        self._raw_limit = raw_limit
        self._raw: Counter[str] = Counter()
        self._words: Counter[str] = Counter()

    def add(self, texts: Iterable[str]) -> None:
        """Count the words of ``texts``; a missing text (None) has none."""
        self._raw.update(raw_words("\n".join(text for text in texts if text)))
        if len(self._raw) > self._raw_limit:
            self._merge()

    def update(self, words: dict[str, int]) -> None:
        """Add counts another :class:`WordCounts` arrived at."""
        self._words.update(words)

    def counts(self) -> dict[str, int]:
        """Normalised word → occurrences."""
        self._merge()
        return dict(self._words)

    def _merge(self) -> None:
        words = self._words
        for raw, count in self._raw.items():
            for word in self._split(raw):
                words[word] += count
        self._raw = Counter()

    def _split(self, raw: str) -> list[str]:
        if raw.isascii() and raw.isprintable():
            found = _ASCII_WORDS.findall(raw)
            return [word.lower() for word in found] if self._lowercase else found
        normalised = self._normalizer.normalize_str(raw)
        return [word for word, _ in self._splitter.pre_tokenize_str(normalised)]
