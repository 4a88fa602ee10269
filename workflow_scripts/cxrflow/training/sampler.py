"""Which samples stand together in a batch: pure functions of seed and epoch, so nothing to save.

Training draws its batches by a sampler; those of validation are always the same.
"""

import logging
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Protocol, TypeVar

import numpy as np

from cxr_files.errors import InputError
from cxrflow.training.samples import SampleTable
from cxrflow.training.settings import SamplerSettings

log = logging.getLogger("cxrflow")

Batch = TypeVar("Batch")


def epoch_order(samples: int, seed: int, epoch: int) -> np.ndarray:
    """A permutation of ``range(samples)`` for one epoch, int64 [samples]."""
    return np.random.default_rng([seed, epoch, samples]).permutation(samples)


class Sampler(Protocol):
    """The batches of every epoch."""

    batches_per_epoch: int

    def rows(self, epoch: int, index: int) -> np.ndarray:
        """Rows of the data in batch ``index`` of ``epoch``, int64 [batch]."""


def choose_sampler(
    settings: SamplerSettings,
    samples: SampleTable,
    batch_size: int,
    seed: int,
    world: int = 1,
    compares: bool = False,
) -> Sampler:
    """The sampler that a run's ``training.sampler`` names, of the training samples.

    ``compares``: the objective compares the samples of a batch with each other, and is an easier
    one with fewer, as the log then says.
    """
    if compares and len(samples) < batch_size:
        log.warning(
            "training.batch_size is %d, but only %d training samples are left: a batch has these "
            "alone, and samples are compared with fewer others",
            *(batch_size, len(samples)),
        )
    return SAMPLERS[settings.name](settings, samples, batch_size, seed, world)


class UniformSampler:
    """Every epoch another permutation, cut into whole batches; the incomplete last one is left out.

    A data set smaller than one batch is one batch.
    """

    def __init__(self, samples: int, batch_size: int, seed: int) -> None:
        self.batch_size = min(batch_size, samples)
        self.batches_per_epoch = samples // self.batch_size if samples else 0
        self._order = lru_cache(maxsize=1)(partial(epoch_order, samples, seed))

    def rows(self, epoch: int, index: int) -> np.ndarray:
        order = self._order(epoch)
        return order[index * self.batch_size : (index + 1) * self.batch_size]


class KindsSampler:
    """Batches whose shares are of one kind each, pairs or singles (BioViL-T, appendix E.2).

    A sample with a prior image is a pair, one without is a single; ``is_pair`` [samples], bool.
    Each of the ``shares`` of a batch (``Processes.share``), what a GPU of the paper works on at a
    time, holds only pairs or only singles. No sample comes twice; as few as possible are left out
    (``left_out``: pairs and singles), others in every epoch; the kinds are in proportion to the
    data, as nearly as whole shares allow. Which shares are pairs is drawn anew for every epoch, so
    that a batch is mixed on average.

    InputError if there is no batch, or if one kind is there but too rare to fill a share.
    """

    def __init__(self, is_pair: np.ndarray, batch_size: int, shares: int, seed: int) -> None:
        self.is_pair, self.batch_size, self.shares, self.seed = is_pair, batch_size, shares, seed
        pairs = int(np.count_nonzero(is_pair))
        singles = len(is_pair) - pairs
        self.batches_per_epoch, self._larger, self._smaller = _pair_shares(
            pairs, singles, batch_size, shares
        )
        size, self._extra = divmod(batch_size, shares)  # so many shares are one row larger
        used_pairs = (self._larger + self._smaller) * size + self._larger
        self.left_out = (
            pairs - used_pairs,
            singles - (self.batches_per_epoch * batch_size - used_pairs),
        )
        self._epoch = lru_cache(maxsize=1)(self.epoch)

    def rows(self, epoch: int, index: int) -> np.ndarray:
        return self._epoch(epoch)[index]

    def epoch(self, epoch: int) -> np.ndarray:
        """Rows of all batches of an epoch, int64 [batches, batch]."""
        draw = [self.seed, epoch, len(self.is_pair), self.batch_size, self.shares]
        generator = np.random.default_rng(draw)
        pairs = generator.permutation(np.flatnonzero(self.is_pair))
        singles = generator.permutation(np.flatnonzero(~self.is_pair))
        holds_pairs = np.zeros((self.batches_per_epoch, self.shares), dtype=bool)
        larger, smaller = holds_pairs[:, : self._extra], holds_pairs[:, self._extra :]
        for slots, number in ((larger, self._larger), (smaller, self._smaller)):
            slots[...] = generator.permutation(np.arange(slots.size) < number).reshape(slots.shape)
        sizes = [len(share) for share in np.array_split(np.arange(self.batch_size), self.shares)]
        pair_slots = np.repeat(holds_pairs, sizes, axis=1)
        rows = np.empty((self.batches_per_epoch, self.batch_size), dtype=np.int64)
        pair_count = np.count_nonzero(pair_slots)
        rows[pair_slots], rows[~pair_slots] = pairs[:pair_count], singles[: rows.size - pair_count]
        return rows


def _pair_shares(pairs: int, singles: int, batch_size: int, shares: int) -> tuple[int, int, int]:
    """Batches of an epoch; how many of their larger and of their smaller shares hold pairs.

    ``batch_size % shares`` shares of a batch have one row more than the others.
    """
    size, extra = divmod(batch_size, shares)
    samples = pairs + singles
    for batches in range(samples // batch_size, 0, -1):
        # With so many shares of pairs, any number of pairs from fewest to most can be used.
        numbers = np.arange(batches * shares + 1)
        fewest = numbers * size + np.maximum(numbers - batches * (shares - extra), 0)
        most = numbers * size + np.minimum(numbers, batches * extra)
        # Neither more pairs nor more singles than there are, and some of either if there are any.
        rows = batches * batch_size
        fewest = np.maximum(fewest, max(rows - singles, min(pairs, 1)))
        most = np.minimum(most, min(pairs, rows - min(singles, 1)))
        proportional_pairs = rows * pairs / samples
        used_pairs = np.clip(round(proportional_pairs), fewest, most)
        distance = np.where(fewest <= most, np.abs(used_pairs - proportional_pairs), np.inf)
        # Of equals, what gives the larger and the smaller shares the same proportion of pairs.
        from_even = np.abs(numbers - numbers[-1] * pairs / samples)
        best = int(np.lexsort((from_even, distance))[0])
        if distance[best] < np.inf:
            larger = int(used_pairs[best]) - best * size
            return batches, larger, best - larger
        # A batch fewer leaves more to choose from.
    raise InputError(
        f"training.batch_size is {batch_size}, in {shares} share(s) with samples of one kind each; "
        f"{pairs} samples with a prior image and {singles} without are too few of a kind; expected "
        "a smaller batch_size or more shares (training.sampler.shares)"
    )


def _of_kinds(
    settings: SamplerSettings, samples: SampleTable, batch_size: int, seed: int, world: int
) -> KindsSampler:
    if samples.with_prior is None:
        raise InputError(
            "settings: key 'training.sampler.name' is 'of_kinds', but this program's samples are "
            "of one kind; expected 'uniform'"
        )
    return KindsSampler(samples.with_prior, batch_size, settings.shares or world, seed)


#: By ``training.sampler.name``: a sampler of these settings, samples, batch size, seed and number
#: of processes. What it draws by is in the samples' attributes.
SAMPLERS: dict[str, Callable[[SamplerSettings, SampleTable, int, int, int], Sampler]] = {
    "uniform": lambda settings, samples, size, seed, world: UniformSampler(
        len(samples), size, seed
    ),
    "of_kinds": _of_kinds,
}


def contrastive_batches(samples: int, batch_size: int) -> list[np.ndarray]:
    """Whole batches of ``range(samples)``, for validation with a contrastive objective.

    Shuffled, always alike: a split's neighbours are studies of one patient, whose images are no
    fair negatives of each other, and training's batches are shuffled too. One sample has nothing
    to be told apart from: its loss would be zero whatever the model.
    """
    if samples < 2:
        raise InputError(
            f"the validation split has {samples} sample(s); contrastive objectives need at least 2"
        )
    size = min(batch_size, samples)
    order = epoch_order(samples, 0, 0)
    return [order[begin : begin + size] for begin in range(0, samples - size + 1, size)]


def even_batches(samples: int, batch_size: int) -> list[np.ndarray]:
    """All of ``range(samples)`` in batches whose sizes differ by at most one, for validation.

    For objectives that are means over single samples, in the order of :func:`contrastive_batches`.
    """
    number = -(-samples // batch_size)
    return np.array_split(epoch_order(samples, 0, 0), max(1, number))


def drawn_batches(batches: list[Batch], number: int | None) -> list[Batch]:
    """So many ``batches`` of a validation, the same ones every time and in order; None: all."""
    if number is None:
        return batches
    return [batches[place] for place in sorted(epoch_order(len(batches), 0, 0)[:number])]
