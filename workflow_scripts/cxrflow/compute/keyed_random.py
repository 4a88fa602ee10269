"""Random numbers that depend on their purpose, not on when they are drawn.

Every number is a hash (SplitMix64: Steele, Lea, Flood 2014) of seed, epoch, key and a counter: no
state. So a sample is augmented, masked or shuffled alike in whatever batch, order, process or
device count it comes, and a resumed run draws what an undisturbed one does. 64-bit integer
arithmetic wraps alike in PyTorch on CPU and CUDA.

:class:`KeyedRandom` gives real numbers for a batch of images; :func:`row_state` and
:func:`uniform` give integers for places in a batch of texts.
"""

import math
from copy import copy
from typing import Final, Self

import torch
from torch import Tensor

BITS: Final = 32  # of the integers that `uniform` gives


def _signed(value: int) -> int:
    """Return the 64-bit two's complement of ``value``, as an int64 tensor holds it."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


_GOLDEN: Final = _signed(0x9E3779B97F4A7C15)
_FIRST: Final = _signed(0xBF58476D1CE4E5B9)
_SECOND: Final = _signed(0x94D049BB133111EB)
_MASK_24: Final = (1 << 24) - 1


def _shifted(x: Tensor, bits: int) -> Tensor:
    """Shift right logically; torch's own shift keeps the sign."""
    return (x >> bits).bitwise_and_((1 << (64 - bits)) - 1)


def _mix(x: Tensor) -> Tensor:
    """Apply SplitMix64's finaliser to an int64 tensor of any shape."""
    x = (x ^ _shifted(x, 30)).mul_(_FIRST)
    x = (x ^ _shifted(x, 27)).mul_(_SECOND)
    return x ^ _shifted(x, 31)


def splitmix64(x: Tensor) -> Tensor:
    """Apply one step of SplitMix64 to an int64 tensor of any shape."""
    return _mix(x + _GOLDEN)


class KeyedRandom:
    """Numbers for a batch of samples; row b depends on ``keys[b]``, seed, epoch and view.

    ``stream`` names what the numbers are for; two streams are independent.
    """

    def __init__(self, keys: Tensor, seed: int, epoch: int, view: int) -> None:
        state = torch.full_like(keys, _signed(seed))
        for word in (epoch, view):
            state = splitmix64(state) ^ _signed(word)
        self._base = splitmix64(splitmix64(state) ^ keys)  # [B]

    def rows(self, rows: Tensor | slice) -> Self:
        """Return the generator of some of the samples."""
        selection = copy(self)
        selection._base = self._base[rows]
        return selection

    def _bits(self, stream: int, count: int) -> Tensor:
        """Return int64 [B, count]."""
        base = splitmix64(self._base ^ _signed(stream + 1))
        counter = torch.arange(count, device=base.device, dtype=torch.int64)
        return splitmix64(base[:, None] + counter * _SECOND)

    def uniform(self, stream: int, count: int) -> Tensor:
        """Return float32 [B, count] in [0, 1), in steps of 2**-24."""
        return _to_unit(_shifted(self._bits(stream, count), 40))

    def uniform_pair(self, stream: int, count: int) -> tuple[Tensor, Tensor]:
        """Return two float32 [B, count] in [0, 1) from one set of bits."""
        bits = self._bits(stream, count)
        return _to_unit(_shifted(bits, 40)), _to_unit((bits >> 8).bitwise_and_(_MASK_24))

    def normal(self, stream: int, count: int) -> Tensor:
        """Return float32 [B, count], standard normal (Box-Muller)."""
        first, second = self.uniform_pair(stream, (count + 1) // 2)
        radius = torch.log1p(-first).mul_(-2).sqrt_()
        angle = second.mul_(2 * math.pi)
        normals = torch.cat([radius * torch.cos(angle), radius.mul_(torch.sin(angle))], dim=1)
        return normals[:, :count]


def _to_unit(bits: Tensor) -> Tensor:
    return bits.to(torch.float32).mul_(2.0**-24)


def row_state(keys: Tensor, seed: int, epoch: int, stream: int) -> Tensor:
    """Return a state [B] for each key; ``stream`` separates draws of different purpose."""
    state = torch.zeros_like(keys, dtype=torch.int64)
    for value in (seed, epoch, stream):
        state = splitmix64(state + _signed(value * _GOLDEN))
    return _mix(state ^ _mix(keys.to(torch.int64) * _GOLDEN))


def uniform(state: Tensor, places: Tensor) -> Tensor:
    """Return int64 uniform in [0, 2^32) for states and places that broadcast."""
    return _shifted(splitmix64(state + places * _GOLDEN), 64 - BITS)


def threshold(probability: float) -> int:
    """Return t such that ``uniform(…) < t`` has this probability."""
    return round(probability * (1 << BITS))
