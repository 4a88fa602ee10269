"""WordPiece training by merging pairs: what the tokenizers library does, but reproducible.

The library's ``WordPieceTrainer`` (BioViL Appendix E.1) starts from single characters and merges,
again and again, the most frequent pair of neighbouring pieces. Ties go to the pair with the
smaller ids, and the library numbers the ``##`` characters in the order of a randomly seeded hash
map: two runs on the same text give different vocabularies. Here the characters are numbered in
code-point order; apart from that the result is the library's (tests compare them).

All words lie in one flat array of ``S`` pieces, linked to their neighbours; a merge looks only at
the places where its pair was seen. Places and pieces are 32-bit, counts of pairs are 64-bit.
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cxrflow.text.tokenizer import PREFIX

Ints = NDArray[np.int64]
Places = NDArray[np.int32]
Codes = NDArray[np.uint32]
_SHIFT = 32  # a pair (a, b) is the number a << 32 | b, whose order is that of (a, b)
_LOW = 2**_SHIFT - 1
_COUNT = 64  # an entry of the heap is -count << 64 | pair
_PAIR = 2**_COUNT - 1
_MOST_PIECES = 2**16  # a pair of pieces is a 32-bit key where pairs are sorted
_CHUNK = 2**20  # characters or places looked at together where all have to be
_FALL = 2  # pairs are counted anew when the most frequent has become so many times rarer
_BUCKET_BITS = 20
_MIX = np.uint32(0x9E3779B1)  # odd: spreads the numbers of pairs over the buckets
_UNCOUNTED = 2**63  # more than any count
_NONE = -1  # the piece beyond the end of a word, and where a merge took one away


def _characters(counts: Mapping[str, int]) -> tuple[Codes, Places, Ints]:
    """Code points of all words in a row, the word of each, both ``[S]``; counts ``[W]``."""
    codes = np.frombuffer("".join(counts).encode("utf-32-le"), dtype="<u4")
    lengths = np.fromiter(map(len, counts), dtype=np.int64, count=len(counts))
    word = np.repeat(np.arange(len(counts), dtype=np.int32), lengths)
    return codes, word, np.fromiter(counts.values(), dtype=np.int64, count=len(counts))


def _alphabet(codes: Codes, word: Places, counts: Ints, limit: int) -> list[str]:
    frequency = np.zeros(int(codes.max(initial=0)) + 1)
    for start in range(0, len(codes), _CHUNK):
        part = slice(start, start + _CHUNK)
        # bincount adds in float64, which is exact up to 2^53 characters.
        frequency += np.bincount(codes[part], counts[word[part]], minlength=len(frequency))
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
    """Pieces in id order, from the counts of words: special tokens, characters, ``##`` characters,
    merges.

    Stops at ``size`` pieces (at most 65,536) or when no pair occurs ``min_frequency`` times.
    Characters beyond the alphabet are left out of their words, as the library does.
    """
    if size > _MOST_PIECES:
        raise ValueError(f"size is {size}, expected at most {_MOST_PIECES}")
    codes, word, occurrences = _characters(counts)
    alphabet = _alphabet(codes, word, occurrences, limit_alphabet)
    known = np.zeros(int(codes.max(initial=0)) + 1, dtype=bool)
    known[[ord(c) for c in alphabet]] = True
    if not known.all() and not known[codes].all():
        word, codes = word[known[codes]], codes[known[codes]]
    first = np.ones(len(codes), dtype=bool)
    np.not_equal(word[1:], word[:-1], out=first[1:])
    follows = np.zeros(len(known), dtype=bool)
    follows[codes[~first]] = True
    followers = [chr(code) for code in np.flatnonzero(follows).tolist()]
    pieces = [*special, *(c for c in alphabet if c not in special)]
    pieces += [PREFIX + c for c in followers]
    number = {piece: index for index, piece in enumerate(pieces)}
    as_first, as_follower = np.zeros((2, len(known)), dtype=np.int32)
    as_first[[ord(c) for c in alphabet]] = [number[c] for c in alphabet]
    as_follower[[ord(c) for c in followers]] = [number[PREFIX + c] for c in followers]
    piece = as_follower[codes]
    piece[first] = as_first[codes[first]]
    del codes  # arrays of S are what takes the memory
    narrow = occurrences.max(initial=0) < 2**31
    weight = (occurrences.astype(np.int32) if narrow else occurrences)[word]
    del word
    merger = _Merger(piece, first, weight, max(1, min_frequency))
    del piece, first, weight
    while len(pieces) < size:
        pair = merger.most_frequent()
        if pair is None:
            break
        left, right = pieces[pair >> _SHIFT], pieces[pair & _LOW]
        merged = left + right.removeprefix(PREFIX)
        new = number.setdefault(merged, len(pieces))
        fresh = new == len(pieces)
        if fresh:
            pieces.append(merged)
        merger.merge(pair, new)
        if not fresh:
            merger.recount(new)
    return pieces


class _Merger:
    """The flat array of pieces, the counts of its frequent pairs and where each of them was seen.

    ``piece`` and ``weight`` are the pieces ``[S]`` and the counts of their words; ``first`` marks
    where a word begins. Pairs that occur fewer than ``least`` times are never merged.

    By far the most pairs are rare. Only those that occur ``_bound`` times are kept: a pair cannot
    become more frequent later, for every merge makes a new piece (:meth:`recount` is for the
    exception). When they are used up, all pairs are counted anew with a lower bound, after words
    that have become one piece, and places that were merged away, have been left out.
    """

    def __init__(
        self, piece: Places, first: NDArray[np.bool_], weight: NDArray[Any], least: int
    ) -> None:
        self._least = least
        self._bound = _UNCOUNTED
        self._count: dict[int, int] = {}
        self._heap: list[int] = []
        self._lay_out(piece, first, weight)

    def _lay_out(self, piece: Places, first: NDArray[np.bool_], weight: NDArray[Any]) -> None:
        end = len(piece)
        # A sentinel ends the array: the neighbour of every word's first and last piece.
        self._piece = np.append(piece, np.int32(_NONE))
        self._weight = weight
        begins = np.flatnonzero(first)
        self._previous = np.arange(-1, end, dtype=np.int32)
        self._previous[begins] = end
        self._next = np.arange(1, end + 2, dtype=np.int32)
        self._next[begins[1:] - 1] = end
        self._next[end:] = end

    def _close_up(self) -> None:
        """Leave out what can be in no pair any more."""
        end = len(self._weight)
        first = self._previous[:-1] == end
        keep = (self._piece[:-1] != _NONE) & ~(first & (self._next[:-1] == end))
        del self._previous, self._next
        self._seen, self._used = np.empty(0, dtype=np.int32), 0
        self._lay_out(self._piece[:-1][keep], first[keep], self._weight[keep])

    def _count_pairs(self) -> None:
        """Find all pairs from a new bound on; the pieces of a word lie side by side."""
        self._count, self._heap = {}, []
        # Where a pair was seen: a stretch (start << 32 | length) of one array that only grows.
        self._where: dict[int, int] = {}
        base = int(self._piece.max(initial=0)) + 1
        # Many pairs share a bucket; none is more frequent than its bucket.
        totals = np.zeros(1 << _BUCKET_BITS, dtype=np.int64)
        for part, inner, _, bucket in self._neighbours(base):
            weight = np.where(inner, self._weight[part], 0)
            np.add.at(totals, bucket, weight.astype(np.int64))  # slow where the types differ
        # No pair that is left reaches the last bound, though a bucket may.
        most = min(int(totals.max()), self._bound - 1)
        self._bound = max(self._least, most // _FALL)
        often = totals >= self._bound
        found = [(np.empty(0, dtype=np.int32), np.empty(0, dtype=np.uint32))]
        for part, inner, keys, bucket in self._neighbours(base):
            chosen = np.flatnonzero(often[bucket] & inner)
            found.append(((part.start + chosen).astype(np.int32), keys[chosen]))
        places, keys = map(np.concatenate, zip(*found, strict=True))
        del found
        groups = _group(keys, self._weight[places], places)
        self._add((groups.key // base) << _SHIFT | groups.key % base, groups)

    def _neighbours(
        self, base: int
    ) -> Iterator[tuple[slice, NDArray[np.bool_], Codes, NDArray[np.int32]]]:
        """A part of the places at a time: whether the next place is in the same word, the pair of
        the two pieces as one number (left × base + right), and the bucket of that number."""
        end = len(self._weight)
        for start in range(0, end, _CHUNK):
            part = slice(start, min(start + _CHUNK, end))
            keys = self._piece[part].astype(np.uint32) * np.uint32(base)
            keys += self._piece[start + 1 : part.stop + 1].astype(np.uint32)
            bucket = ((keys * _MIX) >> np.uint32(32 - _BUCKET_BITS)).astype(np.int32)
            yield part, self._next[part] < end, keys, bucket

    def most_frequent(self) -> int | None:
        """The pair with the highest count, ties to the smaller ids; None if all are too rare.

        The heap holds each pair with its count or with an older, higher one, which is put right
        when it comes to the top.
        """
        while True:
            while self._heap:
                entry = self._heap[0]
                pair = entry & _PAIR
                count = self._count.get(pair, 0)
                if count == -(entry >> _COUNT):
                    return pair
                if count >= self._bound:
                    heapq.heapreplace(self._heap, (-count << _COUNT) | pair)
                else:
                    heapq.heappop(self._heap)
            if self._bound == self._least:
                return None
            self._close_up()
            self._count_pairs()

    def merge(self, pair: int, new: int) -> None:
        """Replace the pair by piece ``new`` wherever it stands; left to right where it overlaps."""
        first, second = pair >> _SHIFT, pair & _LOW
        piece, following, previous = self._piece, self._next, self._previous
        places = self._stretch(self._where.pop(pair))
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
        groups = _group(left[inner], weight[inner], before[inner])
        self._take(groups.key << _SHIFT | first, groups)
        self._add(groups.key << _SHIFT | new, groups)
        inner = right != _NONE
        touching = right != after_was
        if touching.any():
            inner &= ~touching
            groups = _group(right[touching], weight[touching], places[touching])
            self._take(np.array([second << _SHIFT | first]), groups)
            self._add(np.array([new << _SHIFT | new]), groups)
        groups = _group(right[inner], weight[inner], places[inner])
        self._take(groups.key | second << _SHIFT, groups)
        self._add(groups.key | new << _SHIFT, groups)

    def recount(self, new: int) -> None:
        """Count all pairs of piece ``new``, which was there before: "#", "#" and "a" may be "##a".

        Its pairs had counts already, of which the rare ones have been forgotten.
        """
        places = np.flatnonzero(self._piece == new).astype(np.int32)
        before, right = self._previous[places], self._piece[self._next[places]]
        left = self._piece[before]
        inner = (left != _NONE) & (left != new)  # new, new: counted by its left side
        groups = _group(left[inner], self._weight[places[inner]], before[inner])
        self._add(groups.key << _SHIFT | new, groups)
        inner = right != _NONE
        groups = _group(right[inner], self._weight[places[inner]], places[inner])
        self._add(groups.key | new << _SHIFT, groups)

    def _every_other(self, places: Places) -> Places:
        """Of overlapping pairs (a a a) keep the first, third … of each run; ``places`` ascend."""
        follows = np.zeros(len(places), dtype=bool)
        follows[1:] = self._next[places[:-1]] == places[1:]
        index = np.arange(len(places))
        start = np.maximum.accumulate(np.where(follows, 0, index))
        return places[(index - start) % 2 == 0]

    def _take(self, pairs: Ints, groups: "_Groups") -> None:
        """Take the groups' counts from the pairs."""
        total, where = self._count, self._where
        for pair, count in zip(pairs.tolist(), groups.total.tolist(), strict=True):
            # Rare pairs are not there, nor is the merged one, though "a a a" meets it once again.
            left = total.get(pair, 0) - count
            if left > 0:
                total[pair] = left
            elif left == 0:
                del total[pair], where[pair]

    def _add(self, pairs: Ints, groups: "_Groups") -> None:
        """The pairs now have the groups' counts and places; rare ones are left out."""
        often = groups.total >= self._bound
        if not often.any():
            return
        length = (groups.end - groups.begin)[often]
        places = groups.places
        if not often.all():
            places = places[np.repeat(often, groups.end - groups.begin)]
        begin = self._store(places) + np.cumsum(length) - length
        kept, counts = pairs[often].tolist(), groups.total[often].tolist()
        self._count.update(zip(kept, counts, strict=True))
        self._where.update(zip(kept, (begin << _SHIFT | length).tolist(), strict=True))
        for pair, count in zip(kept, counts, strict=True):
            heapq.heappush(self._heap, (-count << _COUNT) | pair)

    def _store(self, places: Places) -> int:
        start, self._used = self._used, self._used + len(places)
        if self._used > len(self._seen):
            seen = np.empty(self._used + self._used // 2, dtype=np.int32)
            seen[:start] = self._seen[:start]
            self._seen = seen
        self._seen[start : self._used] = places
        return start

    def _stretch(self, stretch: int) -> Places:
        start = stretch >> _SHIFT
        return self._seen[start : start + (stretch & _LOW)]


class _Groups(NamedTuple):
    """Places sorted by a key: each different key, its total, and where its places lie."""

    key: Ints
    total: Ints
    begin: Ints
    end: Ints
    places: Places


def _group(keys: NDArray[Any], weights: NDArray[Any], places: Places) -> _Groups:
    """Group ``places`` by ``keys`` (below 2^32); the total of a key is that of its weights."""
    if not len(keys):
        none = np.empty(0, dtype=np.int64)
        return _Groups(none, none, none, none, places)
    order = np.argsort(keys.astype(np.uint16), kind="stable")  # radix sort: low digit, high one
    if keys.max() >= 2**16:
        order = order[np.argsort((keys[order] >> 16).astype(np.uint16), kind="stable")]
    keys = keys[order]
    end = np.flatnonzero(np.append(keys[1:] != keys[:-1], True)) + 1
    begin = np.append(0, end[:-1])
    total = np.add.reduceat(weights[order], begin, dtype=np.int64)
    return _Groups(keys[begin].astype(np.int64), total, begin, end, places[order])
