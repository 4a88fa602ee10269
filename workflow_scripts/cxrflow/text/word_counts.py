"""How often each word of a corpus occurs: the input of the WordPiece trainer.

"Words" are what BERT's normaliser and pre-tokeniser leave: lower-cased, without accents, split at
white space and around every punctuation mark. Neither looks across blanks, so raw words are
counted first and only the distinct ones are normalised, which is many times faster than
normalising the corpus and gives the same counts.
"""

from collections import Counter
from collections.abc import Iterable

from tokenizers import normalizers, pre_tokenizers


class WordCounts:
    """Counts of normalised words, fed with texts.

    ``raw_limit`` distinct raw words are held before they are normalised and merged: raw words
    ("effusion.", "(effusion)") are far more numerous than normalised ones.
    """

    def __init__(self, lowercase: bool = True, raw_limit: int = 2_000_000) -> None:
        self._normalizer = normalizers.BertNormalizer(lowercase=lowercase)
        self._splitter = pre_tokenizers.BertPreTokenizer()
        self._raw_limit = raw_limit
        self._raw: Counter[str] = Counter()
        self._words: Counter[str] = Counter()

    def add(self, texts: Iterable[str | None]) -> None:
        """Count the words of ``texts``; a missing text (None) has none."""
        for text in texts:
            if text:
                # Not at other white space: BERT's normaliser deletes some of it, inside a word.
                blank = text.replace("\n", " ").replace("\t", " ").replace("\r", " ")
                self._raw.update(blank.split(" "))
        if len(self._raw) > self._raw_limit:
            self._normalise()

    def counts(self) -> Counter[str]:
        """Word → occurrences."""
        self._normalise()
        return self._words

    def _normalise(self) -> None:
        for raw, count in self._raw.items():
            split = self._splitter.pre_tokenize_str(self._normalizer.normalize_str(raw))
            for word, _ in split:
                self._words[word] += count
        self._raw.clear()
