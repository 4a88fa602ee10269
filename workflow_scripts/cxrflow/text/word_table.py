"""Numbers for the words of a corpus, looked up for a hundred thousand words at once.

Counting words and encoding them (BioViL Appendix E.1) both begin with "which word is this?", asked
billions of times. A word of up to 24 bytes is three 64-bit numbers, so that a hash table of arrays
answers for a whole stretch of text with a few NumPy calls and no Python object per word. Words are
compared in full: two different ones never share a number.
"""

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Keys = NDArray[np.uint64]  # [3, T]: the bytes of T words, little end first, zeros after the end

NEWLINE = 10
_PARTS = 3
_LONGEST = 8 * _PARTS
_FREE = -1
# The first n bytes of a 64-bit number, n = 0 … 8.
_FIRST_BYTES = np.array([(1 << 8 * n) - 1 for n in range(9)], dtype=np.uint64)
# Odd numbers of no particular meaning, one for each part and one for the sum.
_FACTORS = [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93]


def grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    """``array`` with room for ``size`` along its last axis, by steps of a half; zeros are added."""
    room = array.shape[-1]
    if size <= room:
        return array
    larger = np.zeros((*array.shape[:-1], max(size, room + room // 2)), dtype=array.dtype)
    larger[..., :room] = array
    return larger


class Words:
    """The words of some texts: where they lie in ``text``, UTF-8 with zeros after its end.

    Words are split at blanks, tabs and line ends alone. Other white space and what BERT's
    normaliser deletes stay in the words: whoever takes a word apart has to see to them.
    """

    def __init__(self, texts: Iterable[bytes]) -> None:
        joined = b"\n%b\n" % b"\n".join(texts)
        padding = _LONGEST + 8 + -len(joined) % 8  # a word's parts may be read past its end
        self.text: Bytes = np.frombuffer(joined + bytes(padding), dtype=np.uint8)
        text = self.text[: len(joined)]
        blank = (text == ord(" ")) | (text == NEWLINE) | (text == ord("\t")) | (text == ord("\r"))
        borders = np.flatnonzero(blank[1:] != blank[:-1]) + 1
        self.begins: Ints = borders[::2]
        self.ends: Ints = borders[1::2]
        self._zeros = np.flatnonzero(text == 0) if b"\0" in joined else borders[:0]

    def __len__(self) -> int:
        return len(self.begins)

    def odd(self) -> Ints:
        """Words that are no key: those too long, and those that hold a zero byte."""
        is_odd = self.ends - self.begins > _LONGEST
        is_odd[np.searchsorted(self.begins, self._zeros, side="right") - 1] = True
        return np.flatnonzero(is_odd)

    def keys(self, chosen: Ints | slice) -> Keys:
        """``[3, T]`` for the words ``chosen``."""
        begins = self.begins[chosen]
        lengths = self.ends[chosen] - begins
        whole = self.text.view("<u8")
        first, shift = begins >> 3, ((begins & 7) << 3).astype(np.uint64)
        back = np.uint64(64) - shift  # NumPy shifts by 64 to zero
        found = np.empty((_PARTS, len(begins)), dtype=np.uint64)
        low = whole[first]
        for part in range(_PARTS):
            high = whole[first + (part + 1)]
            kept = _FIRST_BYTES[np.clip(lengths - 8 * part, 0, 8)]
            found[part] = ((low >> shift) | (high << back)) & kept
            low = high
        return found


class WordTable:
    """Different words numbered 0, 1, … as they come."""

    def __init__(self) -> None:
        self._size = 0
        self._keys: Keys = np.zeros((_PARTS, 1 << 12), dtype=np.uint64)
        # Words that are no key; theirs is zero. Their numbers ascend.
        self._odd: dict[bytes, int] = {}
        self._odd_words: list[bytes] = []
        self._odd_numbers: list[int] = []
        self._bits = 0
        self._slots = np.empty(0, dtype=np.int32)

    def __len__(self) -> int:
        return self._size

    def numbers(self, words: Words) -> NDArray[np.int32]:
        """``[T]``: the number of every word; new words get the next ones."""
        found = np.empty(len(words), dtype=np.int32)
        odd = words.odd()
        self._make_room(self._size + len(words))
        if not len(odd):
            self._look_up(words.keys(slice(None)), found, np.arange(len(words)))
            return found
        for index in odd.tolist():
            word = words.text[words.begins[index] : words.ends[index]].tobytes()
            if word not in self._odd:
                self._odd[word] = self._size
                self._odd_words.append(word)
                self._odd_numbers.append(self._size)
                self._size += 1
            found[index] = self._odd[word]
        regular = np.ones(len(words), dtype=bool)
        regular[odd] = False
        chosen = np.flatnonzero(regular)
        self._look_up(words.keys(chosen), found, chosen)
        return found

    def text(self, start: int = 0, end: int | None = None) -> Bytes:
        """The words from number ``start`` on, before ``end``, in order, a newline after each."""
        end = self._size if end is None else end
        lines = np.full((end - start, _LONGEST + 1), NEWLINE, dtype=np.uint8)
        keys = np.ascontiguousarray(self._keys[:, start:end].T)
        lines[:, :_LONGEST] = keys.astype("<u8", copy=False).view(np.uint8)
        flat = lines[lines != 0]
        odd = slice(*(bisect_left(self._odd_numbers, number) for number in (start, end)))
        rows = np.array(self._odd_numbers[odd], dtype=np.int64) - start
        parts = np.split(flat, np.flatnonzero(flat == NEWLINE)[rows]) if len(rows) else [flat]
        for index, word in enumerate(self._odd_words[odd]):
            parts[index] = np.append(parts[index], np.frombuffer(word, dtype=np.uint8))
        return np.concatenate(parts)

    def _look_up(self, keys: Keys, found: NDArray[np.int32], index: Ints) -> None:
        """Write the numbers of ``keys`` to ``found[index]``; open addressing, all side by side."""
        slots = self._slots
        slot = self._first_slot(keys)
        while len(index):
            number = slots[slot]
            free = np.flatnonzero(number == _FREE)
            if len(free):
                # All who want a free slot write to it; the one who is read back has it, and the
                # others may be the same word.
                wanted = slot[free]
                slots[wanted] = free
                won = slots[wanted] == free
                new = np.arange(self._size, self._size + np.count_nonzero(won), dtype=np.int32)
                self._keys[:, new] = keys[:, free[won]]
                self._size += len(new)
                slots[wanted[won]] = new
                number[free] = slots[wanted]
            differs = self._keys[0].take(number) ^ keys[0]
            for part in range(1, _PARTS):
                differs |= self._keys[part].take(number) ^ keys[part]
            found[index] = number  # right or overwritten in the next round
            rest = np.flatnonzero(differs)
            index, keys = index[rest], keys[:, rest]
            slot = (slot[rest] + 1) & (len(slots) - 1)

    def _first_slot(self, keys: Keys) -> Ints:
        mixed = sum(key * np.uint64(factor) for key, factor in zip(keys, _FACTORS, strict=False))
        mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(_FACTORS[_PARTS])
        return (mixed >> np.uint64(64 - self._bits)).astype(np.int64)

    def _make_room(self, size: int) -> None:
        """At least ``size`` words, and twice as many slots."""
        self._keys = grown(self._keys, size)
        bits = (2 * size - 1).bit_length()
        if bits <= self._bits:
            return
        self._bits = bits
        self._slots = np.full(1 << bits, _FREE, dtype=np.int32)
        number = np.flatnonzero(self._keys[0, : self._size])
        slot = self._first_slot(self._keys[:, number])
        while len(number):
            free = self._slots[slot] == _FREE
            self._slots[slot[free]] = number[free]
            rest = self._slots[slot] != number
            number, slot = number[rest], (slot[rest] + 1) & (len(self._slots) - 1)
