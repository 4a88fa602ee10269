"""The order samples are visited in: a pure function of seed and epoch, so nothing to save.

Batches of pairs and singles follow BioViL-T, appendix E.2: a sample with a prior image is a pair,
one without is a single, and what a process works on at a time is wholly of one kind.
"""

from functools import lru_cache

import numpy as np

from cxrflow.errors import InputError


def epoch_order(samples: int, seed: int, epoch: int) -> np.ndarray:
    """A permutation of ``range(samples)`` for one epoch, int64 [samples]."""
    return np.random.default_rng([seed, epoch, samples]).permutation(samples)


def batch_rows(samples: int, batch_size: int, seed: int, epoch: int, index: int) -> np.ndarray:
    """Rows of batch ``index`` of an epoch; the incomplete last batch is left out.

    Contrastive objectives need whole batches. A data set smaller than one batch is one batch.
    """
    size = min(batch_size, samples)
    return epoch_order(samples, seed, epoch)[index * size : (index + 1) * size]


def batches_per_epoch(samples: int, batch_size: int) -> int:
    """Number of whole batches of an epoch."""
    return samples // min(batch_size, samples) if samples else 0


def contrastive_batches(samples: int, batch_size: int) -> list[np.ndarray]:
    """Whole batches of ``range(samples)`` in order, for validation with a contrastive objective.

    One sample has nothing to be told apart from: its loss would be zero whatever the model.
    """
    if samples < 2:
        raise InputError(
            f"the validation split has {samples} sample(s); contrastive objectives need at least 2"
        )
    size = min(batch_size, samples)
    return [np.arange(begin, begin + size) for begin in range(0, samples - size + 1, size)]


def share(rows: np.ndarray, rank: int, world: int) -> np.ndarray:
    """The part of a batch that process ``rank`` of ``world`` works on: neighbouring rows.

    Sizes differ by at most one; in the order of ranks the parts are ``rows`` again.
    """
    return np.array_split(rows, world)[rank]


def epoch_of_kinds(
    is_pair: np.ndarray, batch_size: int, world: int, seed: int, epoch: int
) -> np.ndarray:
    """Rows of all batches of an epoch whose shares are of one kind each, int64 [batches, rows].

    ``is_pair`` [samples], bool. Each of the ``world`` shares of a batch (``share``) holds only
    pairs or only singles. No sample comes twice; as few as possible are left out, others in every
    epoch; the kinds are in proportion to the data, as nearly as whole shares allow. Which shares
    are pairs is drawn anew for every epoch, so that a batch is mixed on average.

    InputError as in ``batches_of_kinds``.
    """
    pair_rows, single_rows = np.flatnonzero(is_pair), np.flatnonzero(~is_pair)
    batches, larger, smaller = _pair_shares(len(pair_rows), len(single_rows), batch_size, world)
    generator = np.random.default_rng([seed, epoch, len(is_pair), batch_size, world])
    pairs, singles = generator.permutation(pair_rows), generator.permutation(single_rows)

    _, extra = divmod(batch_size, world)  # so many shares come first and have one row more
    holds_pairs = np.zeros((batches, world), dtype=bool)
    for shares, number in ((holds_pairs[:, :extra], larger), (holds_pairs[:, extra:], smaller)):
        shares[...] = generator.permutation(np.arange(shares.size) < number).reshape(shares.shape)
    sizes = [len(part) for part in np.array_split(np.arange(batch_size), world)]
    pair_slots = np.repeat(holds_pairs, sizes, axis=1)

    rows = np.empty((batches, batch_size), dtype=np.int64)
    taken = np.count_nonzero(pair_slots)
    rows[pair_slots], rows[~pair_slots] = pairs[:taken], singles[: rows.size - taken]
    return rows


def batch_rows_of_kinds(
    is_pair: np.ndarray,
    batch_size: int,
    world: int,
    rank: int,
    seed: int,
    epoch: int,
    index: int,
) -> np.ndarray:
    """Rows of process ``rank`` in batch ``index`` of ``epoch_of_kinds``, all of one kind."""
    return share(epoch_of_kinds(is_pair, batch_size, world, seed, epoch)[index], rank, world)


def batches_of_kinds(pairs: int, singles: int, batch_size: int, world: int) -> int:
    """Number of batches of an epoch of ``epoch_of_kinds``.

    InputError if there is no batch, or if one kind is there but too rare to fill a share.
    """
    return _pair_shares(pairs, singles, batch_size, world)[0]


def left_out_of_kinds(pairs: int, singles: int, batch_size: int, world: int) -> tuple[int, int]:
    """How many pairs and how many singles every epoch of ``epoch_of_kinds`` leaves out."""
    batches, larger, smaller = _pair_shares(pairs, singles, batch_size, world)
    used = (larger + smaller) * (batch_size // world) + larger
    return pairs - used, singles - (batches * batch_size - used)


@lru_cache(maxsize=8)
def _pair_shares(pairs: int, singles: int, batch_size: int, world: int) -> tuple[int, int, int]:
    """Batches of an epoch; how many of their larger and of their smaller shares hold pairs.

    ``batch_size % world`` shares of a batch have one row more than the others.
    """
    size, extra = divmod(batch_size, world)
    samples = pairs + singles
    for batches in range(samples // batch_size, 0, -1):
        # With so many shares of pairs, any number of pairs from fewest to most can be used.
        shares = np.arange(batches * world + 1)
        fewest = shares * size + np.maximum(shares - batches * (world - extra), 0)
        most = shares * size + np.minimum(shares, batches * extra)
        # Neither more pairs nor more singles than there are, and some of either if there are any.
        rows = batches * batch_size
        fewest = np.maximum(fewest, max(rows - singles, min(pairs, 1)))
        most = np.minimum(most, min(pairs, rows - min(singles, 1)))
        wanted = rows * pairs / samples
        used = np.clip(round(wanted), fewest, most)
        distance = np.where(fewest <= most, np.abs(used - wanted), np.inf)
        # Of equals, what gives the larger and the smaller shares the same proportion of pairs.
        from_even = np.abs(shares - shares[-1] * pairs / samples)
        best = int(np.lexsort((from_even, distance))[0])
        if distance[best] < np.inf:
            larger = int(used[best]) - best * size
            return batches, larger, best - larger
        # A batch fewer leaves more to choose from.
    raise InputError(
        f"training.batch_size is {batch_size}, for {world} process(es) with samples of one kind "
        f"each; {pairs} samples with a prior image and {singles} without are too few of a kind; "
        "expected a smaller batch_size or more processes"
    )
