"""WordPiece for many ASCII words at once: the longest-match rule as array operations.

All words walk through one trie side by side, a character a step, so that the cost of a step is
shared by thousands of words. The ids are those of the tokenizers library; words it treats in ways
of its own (not ASCII, very long, special tokens) are left to it.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, normalizers

from cxrflow.text.ascii_words import LOWERED, VISIBLE, apart
from cxrflow.text.tokenizer import PREFIX
from cxrflow.text.word_table import NEWLINE, Bytes, Ints

_DEAD, _FIRST, _FOLLOWER = 0, 1, 2  # trie nodes: no such piece; roots of a word and of its rest
_NO_CHARACTER = 0  # the trie's column of characters that are in no piece
_NONE = -1
_BLANK = ord(" ")  # words end with it or a character below it


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
        self._longest = int(model.max_input_chars_per_word)
        self._unknown = vocabulary[model.unk_token]
        self._build(vocabulary)

    def takes(self, words: Bytes) -> NDArray[np.bool_]:
        """``[W]``: which of ``words`` (a newline after each) may be given to :meth:`encode`.

        They are visible ASCII, without the [ that begins every added token.
        """
        ends = np.flatnonzero(words == NEWLINE)
        lengths = np.diff(ends, prepend=-1) - 1
        taken = (lengths > 0) & (lengths <= self._longest)
        other = ~VISIBLE[words] | (words == ord("["))
        other[ends] = False
        taken[np.searchsorted(ends, np.flatnonzero(other))] = False
        return taken

    def encode(self, words: Bytes) -> tuple[NDArray[np.uint16], Ints]:
        """Ids of all ``words`` in a row ``[P]``, and how many each word has ``[W]``."""
        text = apart(LOWERED[words] if self._lowercase else words)
        stands = text > _BLANK
        begins = np.flatnonzero(stands & ~np.append(False, stands[:-1]))
        pieces = self._walk(text, begins)
        there = pieces != _NONE
        ends = np.cumsum(there)[text == NEWLINE]
        return pieces[there].astype(np.uint16), np.diff(ends, prepend=0)

    def _walk(self, text: Bytes, begins: Ints) -> NDArray[np.int32]:
        """The id of the piece that begins at each place of ``text``, or -1."""
        found = np.full(len(text), _NONE, dtype=np.int32)
        lost = [begins[:0]]
        columns = self._column[text]
        start = begins.copy()  # of the piece in progress
        place = begins.copy()  # of the next character
        node = np.full(len(begins), _FIRST * self._width, dtype=np.int32)
        while len(place):
            following = self._next.take(node + columns.take(place))
            stuck = np.flatnonzero(following == _DEAD)
            place += 1
            if len(stuck):
                # Take the longest piece on the way here and begin the next one after it.
                last = node[stuck] // self._width
                piece = self._best.take(last)
                after = place[stuck] - 1 - self._back.take(last)
                began = start[stuck]
                found[began] = piece
                nothing = piece == _NONE
                lost.append(began[nothing])
                start[stuck] = place[stuck] = after
                following[stuck] = _FOLLOWER * self._width
                rest = np.ones(len(place), dtype=bool)
                rest[stuck[nothing | (text.take(after) <= _BLANK)]] = False
                start, place, following = start[rest], place[rest], following[rest]
            node = following
        self._mark_unknown(text, begins, np.concatenate(lost), found)
        return found

    def _mark_unknown(
        self, text: Bytes, begins: Ints, lost: Ints, found: NDArray[np.int32]
    ) -> None:
        """[UNK] in place of all pieces of the words that could not be spelt to their end."""
        if not len(lost):
            return
        begin = begins[np.searchsorted(begins, lost, side="right") - 1]
        gaps = np.flatnonzero(text <= _BLANK)
        lengths = gaps[np.searchsorted(gaps, begin)] - begin
        # The places of all these words: begin + 0, 1, … length - 1 of each.
        steps = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        found[np.repeat(begin, lengths) + steps] = _NONE
        found[begin] = self._unknown

    def _build(self, vocabulary: Mapping[str, int]) -> None:
        """The trie, a level of nodes at a time.

        ``_next[node * width + column]`` is the next node, times the width; ``_best`` the longest
        piece on the way to a node and ``_back`` by how many characters it is shorter.
        """
        spelt: dict[bytes, int] = {bytes([_FIRST]): _NONE, bytes([_FOLLOWER]): _NONE}
        for piece, number in vocabulary.items():
            follows = piece.startswith(PREFIX) and len(piece) > len(PREFIX)
            if piece and piece.isascii() and piece.isprintable() and " " not in piece:
                root, rest = (_FOLLOWER, piece[len(PREFIX) :]) if follows else (_FIRST, piece)
                spelt[bytes([root]) + rest.encode("ascii")] = number
        rows = sorted(spelt)
        numbers = np.array([spelt[row] for row in rows], dtype=np.int32)
        longest = max(map(len, rows))
        letters = np.array(rows).view(np.uint8).reshape(len(rows), longest)
        lengths = np.count_nonzero(letters, axis=1)
        used = np.flatnonzero(np.bincount(letters[:, 1:].ravel())[1:]) + 1
        self._column = np.full(256, _NO_CHARACTER, dtype=np.uint8)
        self._column[used] = np.arange(1, len(used) + 1)
        self._width = len(used) + 1
        # Row by row a node for each letter, had the rows no common beginnings: room for all nodes.
        most = int(lengths.sum()) + 1
        best, back, parent_of, letter_of = np.zeros((4, most), dtype=np.int32)
        best[_DEAD] = _NONE
        node = np.zeros(len(rows), dtype=np.int32)
        nodes = 1
        for level in range(longest):
            longer = np.flatnonzero(lengths > level)
            letter, parent = letters[longer, level], node[longer]
            new = np.append(True, (parent[1:] != parent[:-1]) | (letter[1:] != letter[:-1]))
            node[longer] = nodes - 1 + np.cumsum(new)
            made = slice(nodes, nodes + int(new.sum()))
            parent_of[made], letter_of[made] = parent[new], letter[new]
            best[made], back[made] = best[parent[new]], back[parent[new]] + 1
            last = lengths == level + 1
            best[node[last]], back[node[last]] = numbers[last], 0
            nodes = made.stop
        self._best, self._back = best[:nodes].copy(), back[:nodes].copy()
        self._next = np.full(nodes * self._width, _DEAD, dtype=np.int32)
        inner = np.arange(_FOLLOWER + 1, nodes, dtype=np.int32)
        place = parent_of[inner] * self._width + self._column[letter_of[inner]]
        self._next[place] = inner * self._width
