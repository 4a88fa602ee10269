"""The order of samples, and the random numbers that it and augmentation draw by key."""

import itertools

import numpy as np
import pytest
import torch

from cxr_files.errors import InputError
from cxrflow.compute.keyed_random import KeyedRandom, splitmix64
from cxrflow.training.sampler import (
    KindsSampler,
    UniformSampler,
    choose_sampler,
    contrastive_batches,
    drawn_batches,
    epoch_order,
    even_batches,
)
from cxrflow.training.samples import SampleTable
from cxrflow.training.settings import SamplerSettings


def cohort(pairs: int, singles: int, seed: int = 0) -> np.ndarray:
    """Which samples are pairs, mixed up."""
    return np.random.default_rng(seed).permutation(np.arange(pairs + singles) < pairs)


def of_kinds(pairs: int, singles: int, batch_size: int, shares: int, seed: int = 0) -> KindsSampler:
    return KindsSampler(cohort(pairs, singles), batch_size, shares, seed)


def share_sizes(batch_size: int, world: int) -> list[int]:
    return [len(share) for share in np.array_split(np.arange(batch_size), world)]


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


def random_sizes(number: int, largest: int) -> list[tuple[int, int, int, int]]:
    """Pairs, singles, batch size, processes."""
    generator = np.random.default_rng(0)
    lowest, highest = (0, 0, 1, 1), (largest, largest, 25, 7)
    return [tuple(generator.integers(lowest, highest).tolist()) for _ in range(number)]


def test_as_many_batches_as_possible() -> None:
    """Against an exhaustive search, and an error exactly when that finds none."""
    refused = 0
    for sizes in random_sizes(800, 60):
        expected = most_batches(*sizes)
        if expected:
            assert of_kinds(*sizes).batches_per_epoch == expected, sizes
        else:
            refused += 1
            pairs, singles, batch_size, world = sizes
            shares = f"batch_size is {batch_size}, in {world} share"
            said = f"{shares}.*; {pairs} .* and {singles} without"
            with pytest.raises(InputError, match=said):
                of_kinds(*sizes)
    assert 50 < refused < 500


def test_an_epoch_of_kinds() -> None:
    """Of many sizes: whole shares of one kind, no sample twice, the counts that were promised."""
    seen = 0
    for pairs, singles, batch_size, world in random_sizes(400, 300):
        if not most_batches(pairs, singles, batch_size, world):
            continue
        seen += 1
        is_pair = cohort(pairs, singles, seen)
        sampler = KindsSampler(is_pair, batch_size, world, seed=3)
        rows = sampler.epoch(seen)
        assert rows.shape == (sampler.batches_per_epoch, batch_size)
        assert len(np.unique(rows)) == rows.size
        for batch in rows:
            for share in np.array_split(batch, world):
                assert len(set(is_pair[share])) <= 1
        used = int(is_pair[rows].sum())
        out = sampler.left_out
        assert out == (pairs - used, singles - (rows.size - used))
        if batch_size % world == 0:
            assert sum(out) <= batch_size + batch_size // world - 2
        assert used or not pairs
        assert used < rows.size or not singles
    assert seen > 250


@pytest.mark.parametrize(("batch_size", "world"), [(240, 8), (100, 8), (32, 1), (64, 3)])
def test_kinds_are_in_proportion_to_the_data(batch_size: int, world: int) -> None:
    pairs, singles = 1700, 2305
    out = of_kinds(pairs, singles, batch_size, world).left_out
    used, rows = pairs - out[0], pairs + singles - sum(out)
    assert abs(used - rows * pairs / (pairs + singles)) <= max(share_sizes(batch_size, world))


def test_batches_are_those_of_the_epoch_in_any_order() -> None:
    sampler = of_kinds(70, 55, 13, 4, seed=1)
    whole = [sampler.epoch(epoch) for epoch in range(2)]
    for epoch, index in ((1, 2), (0, 0), (1, 0), (0, 3)):
        np.testing.assert_array_equal(sampler.rows(epoch, index), whole[epoch][index])


def test_epochs_and_seeds_differ_and_repeat() -> None:
    first = of_kinds(40, 60, 12, 4).epoch(0)
    np.testing.assert_array_equal(first, of_kinds(40, 60, 12, 4).epoch(0))
    for seed, epoch in ((0, 1), (1, 0)):
        assert (of_kinds(40, 60, 12, 4, seed).epoch(epoch) != first).mean() > 0.8


def test_every_sample_has_its_turn() -> None:
    """What one epoch leaves out, another uses; and which shares are pairs changes too."""
    is_pair = cohort(37, 64)
    sampler = KindsSampler(is_pair, 20, 4, 0)
    assert all(sampler.left_out)
    epochs = [sampler.epoch(epoch) for epoch in range(20)]
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
    rows = KindsSampler(is_pair, batch_size, 8, 0).epoch(0)
    firsts = np.cumsum([0, *share_sizes(batch_size, 8)[:-1]])
    kinds = is_pair[rows[:, firsts]]
    np.testing.assert_allclose(kinds.mean(axis=0), 0.4, atol=0.13)
    halves = np.array_split(kinds, 2)
    np.testing.assert_allclose([half.mean() for half in halves], 0.4, atol=0.07)


def test_uniform_batches_visit_every_sample_once_an_epoch() -> None:
    sampler = UniformSampler(103, 10, seed=3)
    assert sampler.batches_per_epoch == 10
    rows = np.concatenate([sampler.rows(5, index) for index in range(10)])
    np.testing.assert_array_equal(rows, epoch_order(103, 3, 5)[:100])
    assert len(set(rows)) == 100
    few = UniformSampler(7, 10, seed=3)
    assert few.batches_per_epoch == 1 and sorted(few.rows(0, 0)) == list(range(7))
    assert UniformSampler(0, 10, seed=3).batches_per_epoch == 0


def test_the_sampler_that_settings_name(caplog) -> None:
    is_pair = cohort(40, 60)
    kinds, samples = SamplerSettings(name="of_kinds"), SampleTable(range(100), is_pair)
    assert isinstance(choose_sampler(SamplerSettings(), samples, 10, 0), UniformSampler)
    for settings, shares in ((kinds, 2), (kinds.model_copy(update={"shares": 5}), 5)):
        sampler = choose_sampler(settings, samples, 10, 0, world=2)
        wanted = KindsSampler(is_pair, 10, shares, 0).epoch(1)[2]
        np.testing.assert_array_equal(sampler.rows(1, 2), wanted)
    with pytest.raises(InputError, match="'training.sampler.name' is 'of_kinds'"):
        choose_sampler(kinds, SampleTable(range(100)), 10, 0)
    few = SampleTable(range(9))
    assert choose_sampler(SamplerSettings(), few, 10, 0).batches_per_epoch == 1
    assert choose_sampler(SamplerSettings(), few, 9, 0, compares=True).batches_per_epoch == 1
    assert not caplog.messages
    assert choose_sampler(SamplerSettings(), few, 10, 0, compares=True).batches_per_epoch == 1
    assert "batch_size is 10, but only 9 training samples are left" in caplog.text


def test_validation_batches_are_drawn_once() -> None:
    batches = list(range(0, 90, 10))
    assert drawn_batches(batches, None) == drawn_batches(batches, 50) == batches
    some = drawn_batches(batches, 4)
    assert len(set(some)) == 4 and some == sorted(some) == drawn_batches(batches, 4)


def test_validation_batches_part_neighbours_and_stay_the_same():
    """Two studies a patient, neighbours in the split: few of a batch are of one patient."""
    batches = contrastive_batches(400, 32)
    rows = np.concatenate(batches)
    assert [len(batch) for batch in batches] == [32] * 12 and len(set(rows)) == len(rows)
    assert np.mean([len(set(batch // 2)) for batch in batches]) > 29
    np.testing.assert_array_equal(rows, np.concatenate(contrastive_batches(400, 32)))
    assert sorted(contrastive_batches(5, 32)[0]) == list(range(5))
    with pytest.raises(InputError, match="has 1 sample"):
        contrastive_batches(1, 32)


def test_even_batches_leave_nobody_out_and_are_the_whole_ones_where_these_do() -> None:
    batches = even_batches(452, 32)
    assert sorted({len(batch) for batch in batches}) == [30, 31] and len(batches) == 15
    assert sorted(np.concatenate(batches)) == list(range(452))
    for one, other in zip(even_batches(96, 32), contrastive_batches(96, 32), strict=True):
        np.testing.assert_array_equal(one, other)
    assert [len(batch) for batch in even_batches(5, 32)] == [5]
    assert [len(batch) for batch in even_batches(1, 32)] == [1]


def keyed(epoch: int = 0, view: int = 0) -> KeyedRandom:
    return KeyedRandom(torch.arange(300) * 17 + 3, seed=11, epoch=epoch, view=view)


def test_splitmix64_is_the_published_generator() -> None:
    """The first outputs for state 1234567, computed with Python's unbounded integers."""
    state, mask = 1234567, (1 << 64) - 1
    for _ in range(5):
        ours = int(splitmix64(torch.tensor([state - (1 << 64) if state >> 63 else state]))) & mask
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        assert ours == z ^ (z >> 31)


def test_keyed_numbers_are_uniform_normal_and_uncorrelated() -> None:
    random = keyed()
    uniform = random.uniform(0, 500).double()
    assert float(uniform.min()) >= 0 and float(uniform.max()) < 1
    assert float(uniform.mean()) == pytest.approx(0.5, abs=0.003)
    assert float(uniform.var()) == pytest.approx(1 / 12, rel=0.01)
    first, second = random.uniform_pair(1, 500)
    normal = random.normal(2, 501)
    assert normal.shape == (300, 501)
    assert float(normal.mean()) == pytest.approx(0, abs=0.01)
    assert float(normal.std()) == pytest.approx(1, rel=0.01)
    for one, other in (
        (uniform, first),
        (first, second),
        (uniform, keyed(view=1).uniform(0, 500)),
        (uniform, keyed(epoch=1).uniform(0, 500)),
        (uniform[:-1], uniform[1:]),
        (uniform[:, :-1], uniform[:, 1:]),
    ):
        pair = torch.stack([one.double().ravel(), other.double().ravel()])
        assert abs(float(torch.corrcoef(pair)[0, 1])) < 0.01
