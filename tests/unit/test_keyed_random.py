"""Random numbers by key: the generator, and that its numbers look random."""

import pytest
import torch

from cxrflow.compute.keyed_random import KeyedRandom, splitmix64


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
