"""WordPiece training by merging pairs: what the tokenizers library does, but reproducible.

The library's ``WordPieceTrainer`` (BioViL Appendix E.1) starts from single characters and merges,
again and again, the most frequent pair of neighbouring pieces. Ties go to the pair with the
smaller ids, and the library numbers the ``##`` characters in the order of a randomly seeded hash
map: two runs on the same text give different vocabularies. Here the characters are numbered in
code-point order; apart from that the result is the library's (tests compare them). Starting from
word counts also makes it faster and keeps memory to the distinct words.

All words lie in one flat array of ``S`` pieces, linked to their neighbours; a merge looks only at
the places where its pair was seen. Counts are 64-bit.
"""

import heapq
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cxrflow.text.tokenizer import PREFIX

Ints = NDArray[np.int64]
_SHIFT = 32  # a pair (a, b) is the number a << 32 | b, whose order is that of (a, b)


def choose_alphabet(counts: Mapping[str, int], limit: int) -> list[str]:
    """The ``limit`` most frequent characters, in code-point order; ties keep the smaller ones."""
    frequency: dict[str, int] = {}
    for word, count in counts.items():
        for character in word:
            frequency[character] = frequency.get(character, 0) + count
    kept = sorted(frequency, key=lambda character: (-frequency[character], character))[:limit]
    return sorted(kept)


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
    words = {word: counts[word] for word in sorted(counts)}
    alphabet = choose_alphabet(words, limit_alphabet)
    known = set(alphabet)
    spelt = [[c for c in word if c in known] for word in words]
    followers = sorted({c for letters in spelt for c in letters[1:]})
    pieces = [*special, *(c for c in alphabet if c not in special)]
    pieces += [PREFIX + c for c in followers]
    number = {piece: index for index, piece in enumerate(pieces)}
    flat = [
        number[c] if position == 0 else number[PREFIX + c]
        for letters in spelt
        for position, c in enumerate(letters)
    ]
    lengths = np.array([len(letters) for letters in spelt], dtype=np.int64)
    weights = np.fromiter(words.values(), dtype=np.int64, count=len(words))
    merger = _Merger(np.array(flat, dtype=np.int64), lengths, weights)
    while len(pieces) < size:
        pair = merger.most_frequent(max(1, min_frequency))
        if pair is None:
            break
        first, second = pieces[pair >> _SHIFT], pieces[pair & (2**_SHIFT - 1)]
        merged = first + second.removeprefix(PREFIX)
        new = number.setdefault(merged, len(pieces))
        if new == len(pieces):
            pieces.append(merged)
        merger.merge(pair, new)
    return pieces


class _Merger:
    """The flat array of pieces, the counts of its pairs and where each pair was seen."""

    def __init__(self, piece: Ints, lengths: Ints, weights: Ints) -> None:
        total = len(piece)
        # Two sentinels end the array, so that "the piece after the last" is always readable: -1.
        self._piece = np.concatenate([piece, [-1, -1]])
        self._weight = np.concatenate([np.repeat(weights, lengths), [0, 0]])
        ends = np.cumsum(lengths)
        firsts = (ends - lengths)[lengths > 0]
        lasts = (ends - 1)[lengths > 0]
        self._next = np.arange(1, total + 3)
        self._next[lasts] = total
        self._next[total:] = total
        self._previous = np.arange(-1, total + 1)
        self._previous[firsts] = total
        self._previous[total:] = total
        self._count: dict[int, int] = {}
        self._where: dict[int, list[Ints]] = {}
        self._heap: list[tuple[int, int]] = []
        places = np.arange(total)[self._next[:total] < total]
        self._add(self._pairs(places), places)

    def most_frequent(self, least: int) -> int | None:
        """The pair with the highest count, ties to the smaller ids; None below ``least``."""
        while self._heap:
            negative, pair = self._heap[0]
            count = self._count.get(pair, 0)
            if count == -negative:
                return pair if count >= least else None
            heapq.heappop(self._heap)  # outdated: every change of a count pushed a new entry
        return None

    def merge(self, pair: int, new: int) -> None:
        """Replace the pair by piece ``new`` wherever it stands; left to right where it overlaps."""
        first, second = pair >> _SHIFT, pair & (2**_SHIFT - 1)
        piece, following, previous = self._piece, self._next, self._previous
        found = self._where.pop(pair)
        places = np.concatenate(found) if len(found) > 1 else found[0]
        places = places[(piece[places] == first) & (piece[following[places]] == second)]
        places = np.unique(places)
        if first == second:
            places = self._every_other(places)
        end = len(piece) - 2
        second_places = following[places]
        before = previous[places]
        old = np.unique(np.concatenate([before[before < end], places, second_places]))
        old = old[following[old] < end]
        self._subtract(self._pairs(old), old)
        after = following[second_places]
        piece[places] = new
        piece[second_places] = -1
        following[places] = after
        inner = after < end
        previous[after[inner]] = places[inner]
        before = previous[places]
        edges = np.unique(np.concatenate([before[before < end], places]))
        edges = edges[following[edges] < end]
        self._add(self._pairs(edges), edges)
        self._count.pop(pair, None)

    def _every_other(self, places: Ints) -> Ints:
        """Of overlapping pairs (a a a) keep the first, third … of each run."""
        follows = np.zeros(len(places), dtype=bool)
        follows[1:] = self._next[places[:-1]] == places[1:]
        index = np.arange(len(places))
        start = np.maximum.accumulate(np.where(follows, 0, index))
        return places[(index - start) % 2 == 0]

    def _pairs(self, places: Ints) -> Ints:
        return (self._piece[places] << _SHIFT) | self._piece[self._next[places]]

    def _grouped(self, pairs: Ints, places: Ints) -> tuple[list[int], list[int], Ints, Ints]:
        """Distinct pairs, their weights, and the places sorted by pair with group borders."""
        order = np.argsort(pairs, kind="stable")
        pairs, places = pairs[order], places[order]
        starts = np.flatnonzero(np.concatenate([[True], pairs[1:] != pairs[:-1]]))
        sums = np.add.reduceat(self._weight[places], starts)
        return pairs[starts].tolist(), sums.tolist(), places, np.append(starts, len(places))

    def _add(self, pairs: Ints, places: Ints) -> None:
        if not len(pairs):
            return
        keys, sums, places, borders = self._grouped(pairs, places)
        for index, (key, weight) in enumerate(zip(keys, sums, strict=True)):
            self._count[key] = count = self._count.get(key, 0) + weight
            seen = places[borders[index] : borders[index + 1]]
            self._where.setdefault(key, []).append(seen)
            heapq.heappush(self._heap, (-count, key))

    def _subtract(self, pairs: Ints, places: Ints) -> None:
        if not len(pairs):
            return
        keys, sums, _, _ = self._grouped(pairs, places)
        for key, weight in zip(keys, sums, strict=True):
            count = self._count[key] - weight
            if count:
                self._count[key] = count
                heapq.heappush(self._heap, (-count, key))
            else:
                self._count.pop(key)
                self._where.pop(key, None)
