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


@pytest.mark.parametrize("lowercase", [True, False])
def test_ids_equal_the_library(lowercase):
    tokenizer = bert_tokenizer(VOCABULARY, lowercase)
    rng = random.Random(0)
    words = ["".join(rng.choices("aaabbbcA1.#", k=rng.randint(1, 12))) for _ in range(3000)]
    words += [*(c for c in string.printable if not c.isspace() and c != "["), "a" * 100, "x" * 100]
    trie = PieceTrie(tokenizer)
    assert all(map(trie.takes, words))
    found = [np.frombuffer(data, dtype=np.uint16).tolist() for data in trie.encode(words)]
    expected = tokenizer.encode_batch(words, add_special_tokens=False)
    assert found == [encoding.ids for encoding in expected]


def test_what_is_left_to_the_library():
    tokenizer = bert_tokenizer(VOCABULARY, lowercase=True)
    trie = PieceTrie(tokenizer)
    assert not any(map(trie.takes, ["é", "[MASK]", "a" * 101, "a\x7f", ""]))
    assert trie.encode([]) == []
    tokenizer.add_tokens([AddedToken("abba")])
    with pytest.raises(ValueError, match="tokens were added"):
        PieceTrie(tokenizer)
