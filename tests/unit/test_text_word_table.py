"""Words by number: the same word has one number, and different words have different ones."""

import random

import numpy as np
import pytest

from cxrflow.errors import InputError
from cxrflow.text import word_table
from cxrflow.text.tokenizer import SPECIAL_TOKENS, bert_tokenizer
from cxrflow.text.word_encoder import WordEncoder
from cxrflow.text.word_table import Words, WordTable

ODD = ["a" * 24, "a" * 25, "é" * 12, "é" * 13, "a\0", "\0", "a\0b", "x" * 300, "a"]


def words_of(seed: int, count: int, longest: int = 30) -> list[bytes]:
    rng = random.Random(seed)
    words = ["".join(rng.choices("abé", k=rng.randint(1, longest))) for _ in range(count)]
    return [word.encode() for word in [*words, *ODD]]


@pytest.mark.parametrize("collide", [False, True])
def test_numbers(collide, monkeypatch):
    if collide:  # every word wants the same slot
        monkeypatch.setattr(word_table, "_FACTORS", [0] * 4)
    table, number_of = WordTable(), {}
    for seed in range(4):
        words = words_of(seed % 3, 300 if collide else 20_000)
        numbers = table.numbers(Words(words)).tolist()
        for word, number in zip(words, numbers, strict=True):
            assert number_of.setdefault(word, number) == number
    assert sorted(number_of.values()) == list(range(len(table)))
    spelt = sorted(number_of, key=number_of.__getitem__)
    for start, end in ((0, None), (17, len(table) - 5), (20, 20)):
        assert table.text(start, end).tobytes() == b"".join(w + b"\n" for w in spelt[start:end])


def test_where_words_are_split():
    texts = [b" a\tb\r\nc", b"", b"d\x0be\xc2\xa0f ", b"\n", b"g"]
    words = Words(texts)
    pairs = zip(words.begins.tolist(), words.ends.tolist(), strict=True)
    found = [words.text[begin:end].tobytes() for begin, end in pairs]
    assert found == [b"a", b"b", b"c", b"d\x0be\xc2\xa0f", b"g"] and len(words) == 5
    assert not len(Words([])) and not len(Words([b" "]))


@pytest.mark.parametrize("added", [[], ["abba"]])
def test_ids_of_odd_words_equal_the_library(added):
    """An added token that the trie does not know leaves all words to the library."""
    pieces = {piece: number for number, piece in enumerate([*SPECIAL_TOKENS, "a", "##a", "b", "e"])}
    tokenizer = bert_tokenizer(pieces, lowercase=True)
    tokenizer.add_tokens(added)
    rng = random.Random(0)
    words = [word.decode() for word in words_of(0, 400)]
    texts = [" ".join(rng.choices(words, k=rng.randint(0, 9))) for _ in range(500)]
    expected = [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)]
    first = WordEncoder(tokenizer, cache_words=300)
    second = first.twin()
    for part in (slice(0, 250), slice(250, 500)):
        for encoder in (first, second, first):
            assert [ids.tolist() for ids in encoder.encode(texts[part])] == expected[part]
    ids, counts = first.encode_flat(["", "a"])
    assert (ids.tolist(), counts.tolist()) == ([5], [0, 1]) and ids.dtype == np.uint16
    assert first.encode([]) == []


def test_an_added_token_of_two_words_is_refused():
    tokenizer = bert_tokenizer({token: n for n, token in enumerate(SPECIAL_TOKENS)}, True)
    tokenizer.add_tokens(["a b"])
    with pytest.raises(InputError, match="added token is 'a b', expected no white space"):
        WordEncoder(tokenizer)
