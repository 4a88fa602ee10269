"""WordPiece for many ASCII words at once: the longest-match rule as array operations.

All words walk through one trie side by side, a character a step, so that the cost of a step is
shared by hundreds of thousands of words. The ids are those of the tokenizers library; words it
treats in ways of its own (not ASCII, very long, special tokens) are left to it.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, normalizers

from cxrflow.text.tokenizer import PREFIX

Ints = NDArray[np.int64]
_CHARACTERS = 128
_PUNCTUATION = [c for c in range(33, 127) if not chr(c).isalnum()]
_WORD_END = 10  # newline, after every raw word
_TOKEN_END = 0  # around punctuation marks
_DEAD, _FIRST, _FOLLOWER = 0, 1, 2  # trie nodes: no such piece; roots of a word and of its rest


class PieceTrie:
    """Ids of ASCII words under a BERT tokenizer.

    Raises :class:`ValueError` where the tokenizer does anything to ASCII words that is not done
    here; the pre-tokeniser has to be BERT's.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        model, normalizer = tokenizer.model, tokenizer.normalizer
        if not isinstance(model, models.WordPiece) or not isinstance(
            normalizer, normalizers.BertNormalizer
        ):
            raise ValueError("not a WordPiece with BERT's normaliser")
        added = tokenizer.get_added_tokens_decoder().values()
        if model.continuing_subword_prefix != PREFIX or any(t.content[:1] != "[" for t in added):
            raise ValueError(f"continuations are not marked {PREFIX}, or tokens were added")
        vocabulary = tokenizer.get_vocab(with_added_tokens=False)
        self._lowercase = bool(normalizer.lowercase)
        # What encode() may be given: visible ASCII, without the [ that begins every added token.
        longest = int(model.max_input_chars_per_word)
        self.takes = re.compile(rf"[!-Z\\-~]{{1,{longest}}}").fullmatch
        self._unknown = vocabulary[model.unk_token]
        self._next, self._piece = _trie(vocabulary)

    def encode(self, words: Sequence[str]) -> list[bytes]:
        """Ids of each word as the bytes of a uint16 array; ``takes`` has to accept every word."""
        if not words:
            return []
        text = ("\n".join(words) + "\n").encode("ascii")
        if self._lowercase:
            text = text.lower()
        characters = np.frombuffer(text, dtype=np.uint8)
        marks = np.zeros(_CHARACTERS, dtype=bool)
        marks[_PUNCTUATION] = True
        spread = np.where(marks[characters], 3, 1)
        padded = np.zeros(int(spread.sum()), dtype=np.uint8)
        padded[np.cumsum(spread) - 1 - spread // 2] = characters
        stands = (padded != _WORD_END) & (padded != _TOKEN_END)
        begins = np.flatnonzero(stands & ~np.append(False, stands[:-1]))
        token, pieces = self._walk(padded, begins)
        word = np.cumsum(padded == _WORD_END)[begins][token]
        borders = 2 * np.searchsorted(word, np.arange(len(words) + 1))
        data = pieces.astype(np.uint16).tobytes()
        return [data[start:end] for start, end in pairwise(borders.tolist())]

    def _walk(self, text: NDArray[np.uint8], begins: Ints) -> tuple[Ints, Ints]:
        """Pieces of the tokens that begin at ``begins``: their token's number and their id."""
        active = np.arange(len(begins))
        place, end = begins.copy(), begins.copy()
        node = np.full(len(begins), _FIRST)
        best = np.full(len(begins), -1)
        tokens, ids, unknown = [active[:0]], [active[:0]], [active[:0]]
        while len(active):
            node = self._next[node, text[place]]
            place = place + 1
            piece = self._piece[node]
            found = piece >= 0
            best = np.where(found, piece, best)
            end = np.where(found, place, end)
            stuck = np.flatnonzero(node == _DEAD)
            if not len(stuck):
                continue
            nothing = best[stuck] < 0
            unknown.append(active[stuck[nothing]])
            emitted = stuck[~nothing]
            tokens.append(active[emitted])
            ids.append(best[emitted])
            place[stuck], node[stuck], best[stuck] = end[stuck], _FOLLOWER, -1
            rest = np.ones(len(active), dtype=bool)
            rest[stuck[nothing]] = False
            finished = text[end[emitted]]
            rest[emitted[(finished == _WORD_END) | (finished == _TOKEN_END)]] = False
            active, place, end = active[rest], place[rest], end[rest]
            node, best = node[rest], best[rest]
        token, piece, lost = map(np.concatenate, (tokens, ids, unknown))
        whole = np.ones(len(begins), dtype=bool)
        whole[lost] = False
        token, piece = token[whole[token]], piece[whole[token]]
        token = np.append(token, lost)
        piece = np.append(piece, np.full(len(lost), self._unknown))
        order = np.argsort(token, kind="stable")
        return token[order], piece[order]


def _trie(vocabulary: Mapping[str, int]) -> tuple[NDArray[np.int32], Ints]:
    """The next node by node and character ``[N, 128]``, and each node's piece ``[N]`` or -1."""
    children: dict[tuple[int, int], int] = {}
    piece_of: dict[int, int] = {}
    for piece, number in vocabulary.items():
        follows = piece.startswith(PREFIX) and len(piece) > len(PREFIX)
        spelling = piece[len(PREFIX) :] if follows else piece
        if not spelling.isascii():
            continue
        node = _FOLLOWER if follows else _FIRST
        for character in spelling.encode("ascii"):
            node = children.setdefault((node, character), len(children) + _FOLLOWER + 1)
        piece_of[node] = number
    nodes = len(children) + _FOLLOWER + 1
    following = np.full((nodes, _CHARACTERS), _DEAD, dtype=np.int32)
    for (node, character), child in children.items():
        following[node, character] = child
    pieces = np.full(nodes, -1)
    pieces[list(piece_of)] = list(piece_of.values())
    return following, pieces
