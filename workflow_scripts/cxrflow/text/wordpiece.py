"""WordPiece training (BioViL Appendix E.1): by the tokenizers library, but reproducible.

The library's ``WordPieceTrainer`` starts from single characters and merges, again and again, the
most frequent pair of neighbouring pieces. Ties go to the pair with the smaller ids, and by itself
it numbers the ``##`` characters in the order of a randomly seeded hash map: two runs on the same
text give different vocabularies. Here it is given all characters in code-point order, as if they
were special tokens, which leaves nothing to chance.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from cxrflow.text.tokenizer import PREFIX

_LINE = 2**16  # characters passed to the library at once


class WordCounts:
    """Count the words of a corpus, text by text.

    "Words" are what BERT's normaliser and pre-tokeniser leave: lower-cased, without accents, split
    at white space and around every punctuation mark. Neither looks across blanks, so raw words are
    counted first and only the distinct ones are normalised, which is many times faster than
    normalising the corpus and gives the same counts.

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


def choose_alphabet(counts: Mapping[str, int], limit: int) -> list[str]:
    """The ``limit`` most frequent characters, in code-point order; ties keep the smaller ones."""
    frequency: Counter[str] = Counter()
    for word, count in counts.items():
        for character in word:
            frequency[character] += count
    return sorted(sorted(frequency, key=lambda c: (-frequency[c], c))[:limit])


def train_wordpiece(
    counts: Mapping[str, int],
    size: int,
    special: Sequence[str],
    min_frequency: int = 2,
    limit_alphabet: int = 1000,
) -> list[str]:
    """Pieces in id order: special tokens, characters, ``##`` characters, merges.

    Stops at ``size`` pieces or when no pair occurs ``min_frequency`` times. Characters beyond the
    alphabet are left out of their words. Words hold no white space.
    """
    alphabet = choose_alphabet(counts, limit_alphabet)
    characters = frozenset(alphabet)
    words: Counter[str] = Counter()
    for word, count in counts.items():
        words["".join(c for c in word if c in characters)] += count
    followers = sorted({c for word in words for c in word[1:]})
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=min_frequency,
        show_progress=False,
        special_tokens=list(dict.fromkeys([*special, *alphabet, *(PREFIX + c for c in followers)])),
    )
    tokenizer = Tokenizer(models.WordPiece())
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.train_from_iterator(_lines(words), trainer)
    ids = tokenizer.get_vocab()
    return sorted(ids, key=ids.__getitem__)


def _lines(counts: Mapping[str, int]) -> Iterator[str]:
    """Each word as often as it occurs: the library takes no counts."""
    for word, count in counts.items():
        most = _LINE // (len(word) + 1) + 1
        for start in range(0, count, most):
            yield f"{word} " * min(most, count - start)
