"""WordPiece training by merging pairs: what the tokenizers library does, but reproducible.

The library's ``WordPieceTrainer`` (BioViL Appendix E.1) starts from single characters and merges,
again and again, the most frequent pair of neighbouring pieces. Ties go to the pair with the
smaller ids, and the library numbers the ``##`` characters in the order of a randomly seeded hash
map: two runs on the same text give different vocabularies. Here the characters are numbered in
code-point order; apart from that the result is the library's (tests compare them). Starting from
word counts also makes it faster and keeps memory to the distinct words.

All words lie in one flat array of ``S`` pieces, linked to their neighbours; a merge looks only at
the places where its pair was seen. Places and pieces are 32-bit, counts of pairs are 64-bit.
"""

import heapq
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxrflow.text.tokenizer import PREFIX

Ints = NDArray[np.int64]
Places = NDArray[np.int32]
_SHIFT = 32  # a pair (a, b) is the number a << 32 | b, whose order is that of (a, b)
_LOW = 2**_SHIFT - 1
_COUNT = 64  # an entry of the heap is -count << 64 | pair
_PAIR = 2**_COUNT - 1
_NONE = -1  # the piece beyond the end of a word, and where a merge took one away


def _characters(counts: Mapping[str, int]) -> tuple[Ints, Ints, Ints]:
    """Code points of all words in a row ``[S]``, length and count of each word ``[W]``."""
    codes = np.frombuffer("".join(counts).encode("utf-32-le", "surrogatepass"), dtype="<u4")
    lengths = np.fromiter(map(len, counts), dtype=np.int64, count=len(counts))
    weights = np.fromiter(counts.values(), dtype=np.int64, count=len(counts))
    return codes, lengths, weights


def _alphabet(codes: Ints, lengths: Ints, weights: Ints, limit: int) -> list[str]:
    # bincount adds in float64, which is exact up to 2^53 characters.
    frequency = np.bincount(codes, np.repeat(weights.astype(np.float64), lengths))
    seen = np.flatnonzero(frequency)
    kept = seen[np.lexsort((seen, -frequency[seen]))][:limit]
    return [chr(code) for code in sorted(kept.tolist())]


def choose_alphabet(counts: Mapping[str, int], limit: int) -> list[str]:
    """The ``limit`` most frequent characters, in code-point order; ties keep the smaller ones."""
    return _alphabet(*_characters(counts), limit)


def train_wordpiece(
    counts: Mapping[str, int],
    size: int,
    special: Sequence[str],
    min_frequency: int = 2,
    limit_alphabet: int = 1000,
) -> list[str]:
    """Pieces in id order: special tokens, characters, ``##`` characters, merges.

    Stops at ``size`` pieces or when no pair occurs ``min_frequency`` times. Characters beyond the
    alphabet are left out of their words, as the library does.
    """
    codes, lengths, weights = _characters(counts)
    alphabet = _alphabet(codes, lengths, weights, limit_alphabet)
    known = np.zeros(codes.max(initial=0) + 1, dtype=bool)
    known[[ord(c) for c in alphabet]] = True
    word = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    if not known[codes].all():
        word, codes = word[known[codes]], codes[known[codes]]
    first = np.ones(len(codes), dtype=bool)
    np.not_equal(word[1:], word[:-1], out=first[1:])
    followers = [chr(code) for code in np.unique(codes[~first]).tolist()]
    pieces = [*special, *(c for c in alphabet if c not in special)]
    pieces += [PREFIX + c for c in followers]
    number = {piece: index for index, piece in enumerate(pieces)}
    as_first, as_follower = np.zeros((2, len(known)), dtype=np.int32)
    as_first[[ord(c) for c in alphabet]] = [number[c] for c in alphabet]
    as_follower[[ord(c) for c in followers]] = [number[PREFIX + c] for c in followers]
    piece = np.where(first, as_first[codes], as_follower[codes])
    del codes
    merger = _Merger(piece, first, weights[word], max(1, min_frequency))
    del piece, first, word
    while len(pieces) < size:
        pair = merger.most_frequent()
        if pair is None:
            break
        left, right = pieces[pair >> _SHIFT], pieces[pair & _LOW]
        merged = left + right.removeprefix(PREFIX)
        new = number.setdefault(merged, len(pieces))
        if new == len(pieces):
            pieces.append(merged)
        merger.merge(pair, new)
    return pieces


class _Merger:
    """The flat array of pieces, the counts of its pairs and where each pair was seen.

    ``piece`` and ``weight`` are the pieces ``[S]`` and the counts of their words; ``first`` marks
    where a word begins. Pairs that occur fewer than ``least`` times are never merged.
    """

    def __init__(self, piece: Places, first: NDArray[np.bool_], weight: Ints, least: int) -> None:
        end = len(piece)
        self._least = least
        # A sentinel ends the array: the neighbour of every word's first and last piece.
        self._piece = np.append(piece, np.int32(_NONE))
        narrow = weight.max(initial=0) < 2**31
        self._weight: NDArray[Any] = weight.astype(np.int32) if narrow else weight
        begins = np.flatnonzero(first)
        self._previous = np.arange(-1, end, dtype=np.int32)
        self._previous[begins] = end
        self._next = np.arange(1, end + 2, dtype=np.int32)
        self._next[begins[1:] - 1] = end
        self._next[end:] = end
        self._count: dict[int, int] = {}
        self._heap: list[int] = []
        # Where a pair was seen: a stretch (start << 32 | length) of one array that only grows.
        self._where: dict[int, int] = {}
        self._seen = np.empty(2 * end + 1, dtype=np.int32)
        self._used = 0
        places = np.flatnonzero(self._next[:-1] < end).astype(np.int32)
        pieces = int(piece.max(initial=0)) + 1
        keys = self._piece[places].astype(np.int64) * pieces + self._piece[places + 1]
        keys, counts, stretches = self._grouped(keys, self._weight[places], places)
        pairs = (keys // pieces) << _SHIFT | keys % pieces
        self._add(pairs.tolist(), counts, stretches)

    def most_frequent(self) -> int | None:
        """The pair with the highest count, ties to the smaller ids; None if all are too rare.

        The heap holds each pair with its count or with an older, higher one, which is put right
        when it comes to the top.
        """
        while self._heap:
            entry = self._heap[0]
            pair = entry & _PAIR
            count = self._count.get(pair, 0)
            if count == -(entry >> _COUNT):
                return pair
            if count >= self._least:
                heapq.heapreplace(self._heap, (-count << _COUNT) | pair)
            else:
                heapq.heappop(self._heap)
        return None

    def merge(self, pair: int, new: int) -> None:
        """Replace the pair by piece ``new`` wherever it stands; left to right where it overlaps."""
        first, second = pair >> _SHIFT, pair & _LOW
        piece, following, previous = self._piece, self._next, self._previous
        places = self._places(pair)
        seconds = following[places]
        stands = (piece[places] == first) & (piece[seconds] == second)
        places, seconds = places[stands], seconds[stands]
        if first == second:
            places = self._every_other(np.sort(places))
            seconds = following[places]
        before, after = previous[places], following[seconds]
        after_was = piece[after]
        piece[places] = new
        piece[seconds] = _NONE
        following[places] = after
        previous[after] = places
        del self._count[pair]
        weight = self._weight[places]
        # Where two merged pairs touch, what stands between them is the right side of the first.
        left, right = piece[before], piece[after]
        inner = left != _NONE
        others, counts, stretches = self._grouped(left[inner], weight[inner], before[inner])
        old, now = others << _SHIFT | first, others << _SHIFT | new
        self._exchange(old, now, counts, stretches)
        inner = right != _NONE
        touching = right != after_was
        if touching.any():
            inner &= ~touching
            _, counts, stretches = self._grouped(
                right[touching], weight[touching], places[touching]
            )
            old, now = np.array([second << _SHIFT | first]), np.array([new << _SHIFT | new])
            self._exchange(old, now, counts, stretches)
        others, counts, stretches = self._grouped(right[inner], weight[inner], places[inner])
        old, now = others | second << _SHIFT, others | new << _SHIFT
        self._exchange(old, now, counts, stretches)

    def _every_other(self, places: Places) -> Places:
        """Of overlapping pairs (a a a) keep the first, third … of each run; ``places`` ascend."""
        follows = np.zeros(len(places), dtype=bool)
        follows[1:] = self._next[places[:-1]] == places[1:]
        index = np.arange(len(places))
        start = np.maximum.accumulate(np.where(follows, 0, index))
        return places[(index - start) % 2 == 0]

    def _grouped(
        self, keys: Ints, weights: NDArray[Any], places: Places
    ) -> tuple[Ints, list[int], list[int]]:
        """Distinct keys (below 2^32), the sums of their weights, and the stretches of places."""
        if not len(keys):
            return keys.astype(np.int64), [], []
        order = np.argsort(keys.astype(np.uint16), kind="stable")  # radix sort: low digit, high one
        if keys.max() >= 2**16:
            order = order[np.argsort((keys[order] >> 16).astype(np.uint16), kind="stable")]
        keys = keys[order]
        borders = np.flatnonzero(np.append(keys[1:] != keys[:-1], True)) + 1
        starts = np.append(0, borders[:-1])
        sums = np.add.reduceat(weights[order], starts, dtype=np.int64)
        stretches = (self._store(places[order]) + starts) << _SHIFT | (borders - starts)
        return keys[starts].astype(np.int64), sums.tolist(), stretches.tolist()

    def _exchange(self, old: Ints, new: Ints, counts: list[int], stretches: list[int]) -> None:
        """Take ``counts`` from the pairs ``old`` and give them to the pairs ``new``."""
        total, where = self._count, self._where
        for pair, count in zip(old.tolist(), counts, strict=True):
            # The merged pair itself is not there any more, though "a a a" meets it once again.
            left = total.get(pair, 0) - count
            if left > 0:
                total[pair] = left
            elif left == 0:
                del total[pair], where[pair]
        self._add(new.tolist(), counts, stretches)

    def _add(self, pairs: list[int], counts: list[int], stretches: list[int]) -> None:
        if not self._count.keys().isdisjoint(pairs):  # the merged piece could be spelt before
            for index, pair in enumerate(pairs):
                if pair in self._count:
                    counts[index] += self._count[pair]
                    places = np.append(self._places(pair), self._stretch(stretches[index]))
                    stretches[index] = self._store(places) << _SHIFT | len(places)
        self._count.update(zip(pairs, counts, strict=True))
        self._where.update(zip(pairs, stretches, strict=True))
        for pair, count in zip(pairs, counts, strict=True):
            if count >= self._least:
                heapq.heappush(self._heap, (-count << _COUNT) | pair)

    def _store(self, places: Places) -> int:
        start, self._used = self._used, self._used + len(places)
        while self._used > len(self._seen):
            self._seen = np.append(self._seen, np.empty_like(self._seen))
        self._seen[start : self._used] = places
        return start

    def _stretch(self, stretch: int) -> Places:
        start = stretch >> _SHIFT
        return self._seen[start : start + (stretch & _LOW)]

    def _places(self, pair: int) -> Places:
        return self._stretch(self._where.pop(pair))
