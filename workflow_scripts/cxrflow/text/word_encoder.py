"""Encoding a corpus fast: the ids the tokenizers library gives, several times sooner.

BERT's normaliser and pre-tokeniser never look across white space, so the ids of a text are those of
its words one after the other, and words repeat: each distinct word is cut into pieces once, every
other occurrence is a look-up in a :class:`WordTable`.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from typing import Self

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, pre_tokenizers

from cxrflow.errors import InputError
from cxrflow.text.piece_trie import PieceTrie
from cxrflow.text.word_table import NEWLINE, Ints, Words, WordTable, grown

LARGEST_VOCABULARY = 65_535  # token files are uint16
_CHUNK = 2**20  # bytes of text at a time: the arrays of a few should fit into the processor's cache

Ids = NDArray[np.uint16]


class WordPieces:
    """A tokenizer that encodes words: ASCII words by :class:`PieceTrie`, others by the library.

    Several threads may use it. Raises :class:`InputError` for a tokenizer that is not BERT's, has
    more than 65,535 pieces or an added token of several words.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        if not isinstance(tokenizer.pre_tokenizer, pre_tokenizers.BertPreTokenizer):
            found = type(tokenizer.pre_tokenizer).__name__
            raise InputError(f"tokenizer: pre-tokeniser is {found}, expected BertPreTokenizer")
        for token in tokenizer.get_added_tokens_decoder().values():
            if token.content.split() != [token.content]:
                raise InputError(
                    f"tokenizer: added token is {token.content!r}, expected no white space in it"
                )
        size = tokenizer.get_vocab_size(with_added_tokens=True)
        if size > LARGEST_VOCABULARY:
            raise InputError(
                f"tokenizer: {size} pieces; token files are uint16 and take at most "
                f"{LARGEST_VOCABULARY}"
            )
        self._tokenizer = tokenizer
        try:
            self._trie: PieceTrie | None = PieceTrie(tokenizer)
        except ValueError:  # the library does it all, more slowly
            self._trie = None

    def encode(self, text: NDArray[np.uint8]) -> tuple[Ids, Ints, Ints]:
        """Ids ``[P]`` of the words in ``text`` (a newline after each), in some order.

        And for each word ``[W]`` where its ids begin and how many they are.
        """
        if self._trie is None:
            taken = np.zeros(np.count_nonzero(text == NEWLINE), dtype=bool)
        else:
            taken = self._trie.takes(text)
            if taken.all():
                ids, counts = self._trie.encode(text)
                return ids, np.cumsum(counts) - counts, counts
        line = np.append(0, np.cumsum(text == NEWLINE)[:-1])
        by_trie = taken[line]
        ids, counts = np.empty(0, dtype=np.uint16), np.empty(len(taken), dtype=np.int64)
        if self._trie is not None:
            ids, counts[taken] = self._trie.encode(text[by_trie])
        words = text[~by_trie].tobytes().decode("utf-8").split("\n")[:-1]
        encodings = self._tokenizer.encode_batch_fast(words, add_special_tokens=False)
        others = [encoding.ids for encoding in encodings]
        counts[~taken] = list(map(len, others))
        begins = np.empty(len(taken), dtype=np.int64)
        begins[taken] = np.cumsum(counts[taken]) - counts[taken]
        begins[~taken] = len(ids) + np.cumsum(counts[~taken]) - counts[~taken]
        flat = [number for numbers in others for number in numbers]
        return np.append(ids, np.array(flat, dtype=np.uint16)), begins, counts


class WordEncoder:
    """Texts → ids of their pieces, without [CLS] and [SEP]; one thread at a time.

    Once ``cache_words`` distinct words are remembered, the memory starts anew. Raises
    :class:`InputError` for a tokenizer that is not fit (:class:`WordPieces`).
    """

    def __init__(self, tokenizer: Tokenizer, cache_words: int = 2_000_000) -> None:
        self._pieces = WordPieces(tokenizer)
        self._cache_words = cache_words
        self._forget()

    def twin(self) -> Self:
        """An encoder for another thread, which shares all but the words remembered."""
        other = copy(self)
        other._forget()
        return other

    def _forget(self) -> None:
        self._table = WordTable()
        # Ids of the words in the table; where those of each begin, and how many they are.
        self._ids: Ids = np.empty(1 << 12, dtype=np.uint16)
        self._used = 0
        self._begins: Ints = np.empty(1 << 12, dtype=np.int64)
        self._counts: Ints = np.empty(1 << 12, dtype=np.int64)

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        """Ids of each text."""
        ids, counts = self.encode_flat(texts)
        return np.split(ids, np.cumsum(counts)[:-1]) if len(counts) else []

    def encode_flat(self, texts: Sequence[str]) -> tuple[Ids, Ints]:
        """Ids of all texts in a row ``[P]``, and how many each text has ``[N]``."""
        found = [self._encode(chunk) for chunk in _chunks(texts)]
        if not found:
            return np.empty(0, dtype=np.uint16), np.empty(0, dtype=np.int64)
        return np.concatenate([ids for ids, _ in found]), np.concatenate([n for _, n in found])

    def _encode(self, texts: list[bytes]) -> tuple[Ids, Ints]:
        if len(self._table) >= self._cache_words:
            self._forget()
        words = Words(texts)
        known = len(self._table)
        numbers = self._table.numbers(words)
        self._learn(known)
        counts = self._counts[numbers]
        # Place of every id in the memory: where its word begins there, and so many further.
        ends = np.append(0, np.cumsum(counts))
        places = np.repeat(self._begins[numbers] - ends[:-1], counts) + np.arange(ends[-1])
        ids = self._ids[places]
        lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        last = np.searchsorted(words.begins, 1 + np.cumsum(lengths + 1))
        return ids, np.diff(ends[last], prepend=0)

    def _learn(self, known: int) -> None:
        """Ids of the words whose numbers are ``known`` and above."""
        if known == len(self._table):
            return
        ids, begins, counts = self._pieces.encode(self._table.text(known))
        used, size = self._used + len(ids), len(self._table)
        self._ids = grown(self._ids, used)
        self._begins, self._counts = grown(self._begins, size), grown(self._counts, size)
        self._ids[self._used : used] = ids
        self._begins[known:size] = self._used + begins
        self._counts[known:size] = counts
        self._used = used


def _chunks(texts: Sequence[str]) -> Iterator[list[bytes]]:
    """``texts`` as UTF-8 in lists of about ``_CHUNK`` bytes."""
    chunk: list[bytes] = []
    size = 0
    for text in texts:
        chunk.append(text.encode("utf-8"))
        size += len(chunk[-1])
        if size >= _CHUNK:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
