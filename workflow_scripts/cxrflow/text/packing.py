"""Packing: documents share rows of fixed length (RoBERTa's packing, BioViL Appendix E.1).

Each document stands as ``[CLS] … [SEP]``; one longer than a row is cut into chunks, at word
borders. Which lengths share a row is decided once on the histogram of lengths (best fit, longest
first), so planning 30 million documents takes seconds; which documents of those lengths meet is
drawn anew for every (seed, epoch). Documents of a row do not see each other: ``document`` numbers
them, and positions restart.

Shapes: ``B`` rows, ``L`` = length, ``K`` chunks of the corpus, ``R`` rows of an epoch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from cxr_files.arrays import read_array
from cxr_files.atomic import fingerprint, read_object, require_whole
from cxr_files.errors import InputError
from cxrflow.text.report_batch import Ints, offsets_of, ranges
from cxrflow.text.tokenizer import VocabularyInfo

#: Fields of ``tokens.json`` that are read.
FIELDS = {"vocabulary_fingerprint": str, "fingerprint": str}
_STREAM = 0x9ACC  # keeps these draws apart from others with the same seed and epoch


@dataclass(frozen=True)
class Plan:
    """Rows of one epoch: row ``r`` holds chunks ``chunks[offsets[r]:offsets[r + 1]]``.

    Indexing with a slice or an array of row numbers gives those rows, again as a plan, so that
    ``corpus.batch(plan[step * B : (step + 1) * B])`` is the batch of any step.
    """

    chunks: Ints
    offsets: Ints  # [R + 1]
    keys: Ints  # [R], row numbers in the epoch's full plan: the rows' keys for masking

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, rows: slice | Ints) -> "Plan":
        chosen = np.arange(len(self))[rows]
        starts, counts = self.offsets[chosen], np.diff(self.offsets)[chosen]
        offsets = offsets_of(counts)
        return Plan(self.chunks[ranges(starts, counts)], offsets, self.keys[chosen])


def fit_lengths(histogram: Ints, capacity: int) -> list[tuple[tuple[int, ...], int]]:
    """Best-fit-decreasing bin packing of a length histogram.

    ``histogram[l]`` chunks have length ``l``. Returns (lengths of a row, how many such rows). All
    rows of equal free space and content move together, so the work grows with the number of
    different lengths, not of chunks.
    """
    free: list[dict[tuple[int, ...], int]] = [{} for _ in range(capacity + 1)]
    for length in range(len(histogram) - 1, 0, -1):
        remaining = int(histogram[length])
        while remaining:
            space = next((s for s in range(length, capacity) if free[s]), capacity)
            content, rows = free[space].popitem() if free[space] else ((), remaining)
            # Best fit fills a row as far as this length goes before it turns to another row.
            copies = min(space // length, remaining)
            filled_rows = min(rows, remaining // copies)
            if rows > filled_rows and content:
                free[space][content] = rows - filled_rows
            filled = content + copies * (length,)
            bins = free[space - copies * length]
            bins[filled] = bins.get(filled, 0) + filled_rows
            remaining -= filled_rows * copies
    return [row_kind for bins in free for row_kind in bins.items()]


class PackedCorpus:
    """Token folders of one vocabulary, as rows of ``length`` tokens.

    ``folders`` are outputs of ``cxrflow.text.tokens``. Raises :class:`InputError` if they are of
    another ``vocabulary``.
    """

    def __init__(
        self,
        folders: Sequence[str | Path],
        length: int,
        vocabulary: VocabularyInfo,
    ) -> None:
        if length < 3:
            raise InputError(f"length is {length}; expected at least 3: [CLS], a token, [SEP]")
        self.length = length
        self.vocabulary = vocabulary
        self._tokens: list[NDArray[np.uint16]] = []
        starts, sizes, prints = [], [], []
        base = 0
        for folder in map(Path, folders):
            facts = read_object(folder / "tokens.json", FIELDS)
            if facts["vocabulary_fingerprint"] != vocabulary.fingerprint:
                raise InputError(
                    f"{folder}/tokens.json: vocabulary_fingerprint is "
                    f"{facts['vocabulary_fingerprint']}, expected {vocabulary.fingerprint}: "
                    "the tokens were made with another vocabulary"
                )
            tokens, offsets = _open_tokens(folder)
            begin, size = _cut(tokens, offsets, length - 2, vocabulary.continues)
            starts.append(begin + base)
            sizes.append(size)
            prints.append(facts["fingerprint"])
            self._tokens.append(tokens)
            base += len(tokens)
        self._borders = np.cumsum([0, *(len(tokens) for tokens in self._tokens)])
        self._starts: Ints = np.concatenate([np.zeros(0, dtype=np.int64), *starts])
        self._sizes = np.concatenate([np.zeros(0, dtype=np.int32), *sizes]).astype(np.int32)
        if not len(self._starts):
            raise InputError(f"{', '.join(map(str, folders)) or 'no token folder'}: no tokens")
        self.fingerprint = fingerprint([length, vocabulary.fingerprint, prints])
        self._lay_out()

    def _lay_out(self) -> None:
        """Lay out the lengths of each row's chunks, which are the same in every epoch."""
        groups = fit_lengths(np.bincount(self.lengths, minlength=self.length + 1), self.length)
        slots = [np.tile(np.array(content), rows) for content, rows in groups]
        counts = np.repeat([len(content) for content, _ in groups], [rows for _, rows in groups])
        self._slots_by_length = np.argsort(np.concatenate(slots), kind="stable")
        self._row_offsets = offsets_of(counts)

    @property
    def rows(self) -> int:
        """Rows of an epoch, R: the same for every seed and epoch."""
        return len(self._row_offsets) - 1

    @property
    def tokens(self) -> int:
        """Tokens of an epoch with [CLS] and [SEP], without padding."""
        return int(self._sizes.sum()) + 2 * len(self._sizes)

    @property
    def lengths(self) -> Ints:
        """``[K]``: tokens of each chunk with [CLS] and [SEP]."""
        return self._sizes.astype(np.int64) + 2

    @property
    def fill(self) -> float:
        """Share of the row positions that hold a token."""
        return self.tokens / (self.rows * self.length)

    def plan(self, seed: int, epoch: int) -> Plan:
        """The rows of one epoch, a pure function of corpus, seed and epoch."""
        rng = np.random.default_rng([_STREAM, seed, epoch])
        shuffled = rng.permutation(len(self._starts))
        # A stable sort keeps the shuffle among chunks of one length, which then fill its slots.
        by_length = shuffled[np.argsort(self._sizes[shuffled], kind="stable")]
        chunks = np.empty_like(by_length)
        chunks[self._slots_by_length] = by_length
        order = rng.permutation(self.rows)
        plan = Plan(chunks, self._row_offsets, np.arange(self.rows))[order]
        return Plan(plan.chunks, plan.offsets, np.arange(self.rows))

    def batch(self, rows: Plan) -> dict[str, torch.Tensor]:
        """The rows as tensors, all int64 on the CPU.

        ``input_ids`` [B, L] (padded), ``document`` [B, L] (0, 1 … within the row; −1 padding),
        ``position_ids`` [B, L] (restart at every [CLS]; 0 padding), ``keys`` [B] for masking.
        """
        batch, length = len(rows), self.length
        ids = np.full((batch, length), self.vocabulary.pad, dtype=np.int64)
        document = np.full((batch, length), -1, dtype=np.int64)
        position = np.zeros((batch, length), dtype=np.int64)

        per_row = np.diff(rows.offsets)
        row = np.repeat(np.arange(batch), per_row)
        number = np.arange(len(row)) - rows.offsets[row]
        sizes = self._sizes[rows.chunks].astype(np.int64)
        ends = np.cumsum(sizes + 2)
        before = np.concatenate([[0], ends])[rows.offsets[:-1]]
        start = ends - sizes - 2 - before[row] + row * length  # flat place of each [CLS]

        token_places = ranges(start, sizes + 2)
        document.ravel()[token_places] = np.repeat(number, sizes + 2)
        position.ravel()[token_places] = token_places - np.repeat(start, sizes + 2)
        ids.ravel()[start] = self.vocabulary.cls_
        ids.ravel()[start + sizes + 1] = self.vocabulary.sep
        ids.ravel()[ranges(start + 1, sizes)] = self._gather(
            ranges(self._starts[rows.chunks], sizes)
        )
        return {
            "input_ids": torch.from_numpy(ids),
            "document": torch.from_numpy(document),
            "position_ids": torch.from_numpy(position),
            "keys": torch.from_numpy(rows.keys.astype(np.int64)),
        }

    def _gather(self, places: Ints) -> Ints:
        """Tokens at positions in all folders, concatenated."""
        if len(self._tokens) == 1:
            return self._tokens[0][places].astype(np.int64)
        gathered = np.empty(len(places), dtype=np.int64)
        for number, tokens in enumerate(self._tokens):
            low, high = self._borders[number], self._borders[number + 1]
            in_folder = (places >= low) & (places < high)
            gathered[in_folder] = tokens[places[in_folder] - low]
        return gathered


def _open_tokens(folder: Path) -> tuple[NDArray[np.uint16], Ints]:
    try:
        # Hashing the whole file takes some 10 s for the largest corpora, which train for days.
        require_whole(folder / "tokens.npy")
        tokens = np.load(folder / "tokens.npy", mmap_mode="r")
    except FileNotFoundError as error:
        raise InputError(f"{error.filename}: file not found") from None
    except ValueError as error:
        raise InputError(f"{folder}: damaged token files ({error})") from None
    offsets = read_array(folder / "offsets.npy", dimensions=1)
    if not offsets.size:
        raise InputError(f"{folder / 'offsets.npy'}: holds no numbers")
    if tokens.dtype != np.uint16 or int(offsets[-1]) != len(tokens) or (np.diff(offsets) < 0).any():
        raise InputError(
            f"{folder}: offsets.npy ends at {int(offsets[-1])}, but tokens.npy holds "
            f"{len(tokens)} of type {tokens.dtype}; expected ascending to that number, uint16"
        )
    return tokens, offsets


def _cut(
    tokens: NDArray[np.uint16], offsets: Ints, capacity: int, continues: NDArray[np.bool_]
) -> tuple[Ints, NDArray[np.int32]]:
    """Starts and sizes of the chunks, at most ``capacity`` tokens each; empty documents have none.

    A chunk ends before a word that would not fit; only a word longer than a row is split. The
    loop runs over the chunks of the longest document, each turn over all that are still open.
    """
    begin, end = offsets[:-1], offsets[1:]
    open_ = end > begin
    begin, end, document = begin[open_], end[open_], np.flatnonzero(open_)
    starts, sizes, documents = [], [], []
    while len(begin):
        stop = np.minimum(begin + capacity, end)
        inside = np.flatnonzero(stop < end)
        limit = stop[inside]
        moving = inside
        while len(moving):
            moving = moving[continues[tokens[stop[moving]]] & (stop[moving] > begin[moving])]
            stop[moving] -= 1
        stuck = stop[inside] == begin[inside]
        stop[inside[stuck]] = limit[stuck]
        starts.append(begin)
        sizes.append((stop - begin).astype(np.int32))
        documents.append(document)
        rest = stop < end
        begin, end, document = stop[rest], end[rest], document[rest]
    if not starts:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)
    order = np.argsort(np.concatenate(documents), kind="stable")
    return np.concatenate(starts)[order], np.concatenate(sizes)[order]
