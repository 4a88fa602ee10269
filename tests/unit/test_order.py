"""The order of samples: shares of a batch, and batches whose shares are wholly pairs or singles."""

import itertools

import numpy as np
import pytest

from cxrflow.errors import InputError
from cxrflow.training.order import (
    batch_rows_of_kinds,
    batches_of_kinds,
    epoch_of_kinds,
    left_out_of_kinds,
    share,
)


def cohort(pairs: int, singles: int, seed: int = 0) -> np.ndarray:
    """Which samples are pairs, mixed up."""
    return np.random.default_rng(seed).permutation(np.arange(pairs + singles) < pairs)


def share_sizes(batch_size: int, world: int) -> list[int]:
    return [len(share(np.arange(batch_size), rank, world)) for rank in range(world)]


def most_batches(pairs: int, singles: int, batch_size: int, world: int) -> int:
    """By trying every number of larger and smaller shares of pairs."""
    size, extra = divmod(batch_size, world)
    for batches in range((pairs + singles) // batch_size, 0, -1):
        larger, smaller = range(batches * extra + 1), range(batches * (world - extra) + 1)
        for first, second in itertools.product(larger, smaller):
            used = first * (size + 1) + second * size
            rest = batches * batch_size - used
            if bool(pairs) <= used <= pairs and bool(singles) <= rest <= singles:
                return batches
    return 0


@pytest.mark.parametrize(("samples", "world"), [(12, 4), (13, 4), (3, 4), (0, 2), (7, 1)])
def test_shares_are_neighbours_and_even(samples: int, world: int) -> None:
    rows = np.random.default_rng(samples).permutation(samples)
    shares = [share(rows, rank, world) for rank in range(world)]
    np.testing.assert_array_equal(np.concatenate(shares), rows)
    sizes = [len(part) for part in shares]
    assert sizes == [len(part) for part in np.array_split(rows, world)]
    assert max(sizes) - min(sizes) <= 1


def random_sizes(number: int, largest: int) -> list[tuple[int, int, int, int]]:
    """Pairs, singles, batch size, processes."""
    generator = np.random.default_rng(0)
    return [
        (
            int(generator.integers(0, largest)),
            int(generator.integers(0, largest)),
            int(generator.integers(1, 25)),
            int(generator.integers(1, 7)),
        )
        for _ in range(number)
    ]


def test_as_many_batches_as_possible() -> None:
    """Against an exhaustive search, and an error exactly when that finds none."""
    refused = 0
    for sizes in random_sizes(800, 60):
        expected = most_batches(*sizes)
        if expected:
            assert batches_of_kinds(*sizes) == expected, sizes
        else:
            refused += 1
            with pytest.raises(InputError, match="expected a smaller batch_size"):
                batches_of_kinds(*sizes)
    assert 50 < refused < 500


def test_an_epoch_of_kinds() -> None:
    """Of many sizes: whole shares of one kind, no sample twice, the counts that were promised."""
    seen = 0
    for pairs, singles, batch_size, world in random_sizes(400, 300):
        if not most_batches(pairs, singles, batch_size, world):
            continue
        seen += 1
        is_pair = cohort(pairs, singles, seen)
        rows = epoch_of_kinds(is_pair, batch_size, world, seed=3, epoch=seen)
        batches = batches_of_kinds(pairs, singles, batch_size, world)
        assert rows.shape == (batches, batch_size)
        assert len(np.unique(rows)) == rows.size
        for batch in rows:
            for rank in range(world):
                assert len(set(is_pair[share(batch, rank, world)])) <= 1
        used = int(is_pair[rows].sum())
        out = left_out_of_kinds(pairs, singles, batch_size, world)
        assert out == (pairs - used, singles - (rows.size - used))
        if batch_size % world == 0:
            assert sum(out) <= batch_size + batch_size // world - 2
        assert used or not pairs
        assert used < rows.size or not singles
    assert seen > 250


@pytest.mark.parametrize(("batch_size", "world"), [(240, 8), (100, 8), (32, 1), (64, 3)])
def test_kinds_are_in_proportion_to_the_data(batch_size: int, world: int) -> None:
    pairs, singles = 1700, 2305
    out = left_out_of_kinds(pairs, singles, batch_size, world)
    used, rows = pairs - out[0], pairs + singles - sum(out)
    assert abs(used - rows * pairs / (pairs + singles)) <= max(share_sizes(batch_size, world))


def test_ranks_together_make_the_batch_of_the_epoch() -> None:
    is_pair = cohort(70, 55)
    for batch_size, world in ((12, 4), (13, 4), (10, 3), (5, 1)):
        whole = epoch_of_kinds(is_pair, batch_size, world, seed=1, epoch=2)
        for index in (0, len(whole) - 1):
            parts = [
                batch_rows_of_kinds(is_pair, batch_size, world, rank, 1, 2, index)
                for rank in range(world)
            ]
            assert [len(part) for part in parts] == share_sizes(batch_size, world)
            np.testing.assert_array_equal(np.concatenate(parts), whole[index])


def test_epochs_and_seeds_differ_and_repeat() -> None:
    is_pair = cohort(40, 60)
    first = epoch_of_kinds(is_pair, 12, 4, seed=0, epoch=0)
    np.testing.assert_array_equal(first, epoch_of_kinds(is_pair, 12, 4, seed=0, epoch=0))
    for seed, epoch in ((0, 1), (1, 0)):
        assert (epoch_of_kinds(is_pair, 12, 4, seed, epoch) != first).mean() > 0.8


def test_every_sample_has_its_turn() -> None:
    """What one epoch leaves out, another uses; and which shares are pairs changes too."""
    is_pair = cohort(37, 64)
    assert all(left_out_of_kinds(37, 64, 20, 4))
    epochs = [epoch_of_kinds(is_pair, 20, 4, 0, epoch) for epoch in range(20)]
    assert set(np.concatenate(epochs).ravel()) == set(range(101))
    kinds = np.stack([is_pair[rows[:, ::5]] for rows in epochs])  # [epochs, batches, shares]
    assert 0.2 < kinds.mean() < 0.5
    assert (kinds.any(axis=0) & ~kinds.all(axis=0)).all()


@pytest.mark.parametrize("batch_size", [40, 42])
def test_batches_are_mixed_on_average(batch_size: int) -> None:
    """Every process, and every part of the epoch, gets pairs about as often as the data has them.

    The deviation of a mean of 240 drawings is about 0.03, of 950 about 0.016.
    """
    is_pair = cohort(4000, 6000)
    rows = epoch_of_kinds(is_pair, batch_size, 8, 0, 0)
    firsts = np.cumsum([0, *share_sizes(batch_size, 8)[:-1]])
    kinds = is_pair[rows[:, firsts]]
    np.testing.assert_allclose(kinds.mean(axis=0), 0.4, atol=0.13)
    halves = np.array_split(kinds, 2)
    np.testing.assert_allclose([half.mean() for half in halves], 0.4, atol=0.07)


@pytest.mark.parametrize(("pairs", "singles"), [(0, 50), (50, 0)])
def test_one_kind_alone_is_left_out_as_little_as_in_plain_batches(pairs: int, singles: int) -> None:
    assert batches_of_kinds(pairs, singles, 12, 4) == 4
    assert sum(left_out_of_kinds(pairs, singles, 12, 4)) == 2


@pytest.mark.parametrize(
    ("pairs", "singles", "batch_size", "world"),
    [(3, 100, 8, 1), (7, 7, 16, 4), (5, 5, 8, 1), (35, 35, 120, 4), (0, 0, 4, 2)],
)
def test_too_few_of_a_kind(pairs: int, singles: int, batch_size: int, world: int) -> None:
    with pytest.raises(InputError) as caught:
        epoch_of_kinds(cohort(pairs, singles), batch_size, world, 0, 0)
    message = str(caught.value)
    for part in (f"batch_size is {batch_size}", f"{world} process", f"{pairs} samples with"):
        assert part in message
    assert "\n" not in message
