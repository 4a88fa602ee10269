"""How often each word of a corpus occurs: the input of the WordPiece trainer.

"Words" are what BERT's normaliser and pre-tokeniser leave: lower-cased, without accents, split at
white space and around every punctuation mark. Neither looks across white space, so raw words are
counted first and only the distinct ones are normalised, which is many times faster than
normalising the corpus and gives the same counts.
"""

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from threading import Lock
from typing import Self

import numpy as np
from tokenizers import normalizers, pre_tokenizers

from cxrflow.text.ascii_words import LOWERED, VISIBLE, apart
from cxrflow.text.word_table import NEWLINE, Bytes, Ints, Words, WordTable, grown

_CHUNK = 1 << 16  # raw words normalised at a time


@dataclass(frozen=True)
class CountedWords:
    """``W`` different words and their counts ``[W]``; ``text`` is UTF-8, a newline after each."""

    text: Bytes
    counts: Ints

    @classmethod
    def of(cls, counts: Mapping[str, int]) -> Self:
        """From word → occurrences."""
        text = "".join(f"{word}\n" for word in counts).encode("utf-8")
        numbers = np.fromiter(counts.values(), dtype=np.int64, count=len(counts))
        return cls(np.frombuffer(text, dtype=np.uint8), numbers)

    def as_dict(self) -> dict[str, int]:
        """Word → occurrences."""
        words = self.text.tobytes().decode("utf-8").split("\n")[:-1]
        return dict(zip(words, self.counts.tolist(), strict=True))

    def __len__(self) -> int:
        return len(self.counts)


class _CountTable:
    """Words and their counts, while they grow."""

    def __init__(self) -> None:
        self.table = WordTable()
        self._counts = np.zeros(1 << 12, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.table)

    def add(self, words: Words, weights: Ints | int = 1) -> None:
        """Count every word, or as often as its weight ``[T]`` says."""
        numbers = self.table.numbers(words)
        self._counts = grown(self._counts, len(self))
        np.add.at(self._counts, numbers, weights)

    def words(self, start: int = 0, end: int | None = None) -> CountedWords:
        """The words from number ``start`` on, before ``end``."""
        end = len(self) if end is None else min(end, len(self))
        return CountedWords(self.table.text(start, end), self._counts[start:end])


class WordCounts:
    """Counts of normalised words, fed with texts; one thread at a time, each with its own twin.

    ``raw_limit`` distinct raw words are held before they are normalised and merged: raw words
    ("effusion.", "(effusion)") are far more numerous than normalised ones.
    """

    def __init__(self, lowercase: bool = True, raw_limit: int = 2_000_000) -> None:
        self._normalizer = normalizers.BertNormalizer(lowercase=lowercase)
        self._splitter = pre_tokenizers.BertPreTokenizer()
        self._lowercase = lowercase
        self._raw_limit = raw_limit
        self._raw = _CountTable()
        self._words = _CountTable()
        self._lock = Lock()  # of the normalised words, which all twins share

    def twin(self) -> Self:
        """A counter for another thread, whose words come to the same counts once flushed."""
        other = copy(self)
        other._raw = _CountTable()
        return other

    def add(self, texts: Iterable[str | None]) -> None:
        """Count the words of ``texts``; a missing text (None) has none."""
        self._raw.add(Words(text.encode("utf-8") for text in texts if text))
        if len(self._raw) > self._raw_limit:
            self.flush()

    def counts(self) -> CountedWords:
        """Normalised words of this counter and of twins that have been flushed."""
        self.flush()
        return self._words.words()

    def flush(self) -> None:
        """Normalise the raw words counted so far."""
        raw, self._raw = self._raw, _CountTable()
        for start in range(0, len(raw), _CHUNK):
            self._normalise(raw.words(start, start + _CHUNK))

    def _normalise(self, raw: CountedWords) -> None:
        ends = np.flatnonzero(raw.text == NEWLINE)
        hidden = ~VISIBLE[raw.text]
        hidden[ends] = False
        other = np.zeros(len(raw), dtype=bool)
        other[np.searchsorted(ends, np.flatnonzero(hidden))] = True
        by_library = np.repeat(other, np.diff(ends, prepend=-1))
        text = raw.text if not other.any() else raw.text[~by_library]
        words = Words([apart(LOWERED[text] if self._lowercase else text).tobytes()])
        # The raw word of each word is the one whose line it stands on; the first line is empty.
        line = np.cumsum(words.text == NEWLINE)[words.begins] - 1
        with self._lock:
            self._words.add(words, raw.counts[~other][line])
        self._normalise_by_library(raw.text[by_library], raw.counts[other])

    def _normalise_by_library(self, text: Bytes, counts: Ints) -> None:
        found: list[bytes] = []
        weights: list[int] = []
        raw = text.tobytes().decode("utf-8").split("\n")[:-1]
        for word, count in zip(raw, counts.tolist(), strict=True):
            split = self._splitter.pre_tokenize_str(self._normalizer.normalize_str(word))
            found += [part.encode("utf-8") for part, _ in split]
            weights += [count] * len(split)
        with self._lock:
            self._words.add(Words(found), np.array(weights, dtype=np.int64))
