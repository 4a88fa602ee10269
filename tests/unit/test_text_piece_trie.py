"""Pieces of ASCII words: the ids of the tokenizers library, word by word."""

import random
import string

import numpy as np
import pytest
from tokenizers import AddedToken

from cxrflow.text.piece_trie import PieceTrie
from cxrflow.text.tokenizer import SPECIAL_TOKENS, bert_tokenizer

PIECES = ["a", "b", "c", "A", "abc", "##a", "##b", "##ab", "##bca", ".", "#", "##", "1", "##1"]
VOCABULARY = {piece: number for number, piece in enumerate([*SPECIAL_TOKENS, *PIECES])}


def lines(words: list[str]) -> np.ndarray:
    return np.frombuffer("".join(f"{word}\n" for word in words).encode(), dtype=np.uint8)


@pytest.mark.parametrize("lowercase", [True, False])
def test_ids_equal_the_library(lowercase):
    tokenizer = bert_tokenizer(VOCABULARY, lowercase)
    rng = random.Random(0)
    words = ["".join(rng.choices("aaabbbcA1.#", k=rng.randint(1, 12))) for _ in range(3000)]
    words += [*(c for c in string.printable if not c.isspace() and c != "["), "a" * 100, "x" * 100]
    trie = PieceTrie(tokenizer)
    assert trie.takes(lines(words)).all()
    ids, counts = trie.encode(lines(words))
    found = [part.tolist() for part in np.split(ids, np.cumsum(counts)[:-1])]
    expected = tokenizer.encode_batch(words, add_special_tokens=False)
    assert found == [encoding.ids for encoding in expected]


def test_what_is_left_to_the_library():
    tokenizer = bert_tokenizer(VOCABULARY, lowercase=True)
    trie = PieceTrie(tokenizer)
    words = ["é", "a", "[MASK]", "a" * 101, "a" * 100, "a\x7f", "", "b"]
    assert trie.takes(lines(words)).nonzero()[0].tolist() == [1, 4, 7]
    assert not len(trie.takes(lines([])))
    assert [len(part) for part in trie.encode(lines([]))] == [0, 0]
    tokenizer.add_tokens([AddedToken("abba")])
    with pytest.raises(ValueError, match="tokens were added"):
        PieceTrie(tokenizer)
