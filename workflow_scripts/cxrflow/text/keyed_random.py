"""Random numbers as a function of (seed, epoch, key, place): no state, the same on every device.

A row's numbers do not depend on the batch it stands in, on the number of workers or on what was
drawn before, so a resumed run draws what an undisturbed one does. The generator is SplitMix64's
output function on counters; 64-bit integer arithmetic wraps alike in PyTorch on CPU and CUDA.
"""

import torch

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
BITS = 32  # numbers lie in [0, 2^32)


def _signed(value: int) -> int:
    """The int64 with the same 64 bits."""
    value &= _MASK
    return value - (1 << 64) if value >> 63 else value


def mix(value: torch.Tensor) -> torch.Tensor:
    """SplitMix64's finaliser on int64 bits, elementwise."""
    value = (value ^ _shift(value, 30)) * _signed(_FIRST)
    value = (value ^ _shift(value, 27)) * _signed(_SECOND)
    return value ^ _shift(value, 31)


def _shift(value: torch.Tensor, bits: int) -> torch.Tensor:
    """Logical shift right: PyTorch's is arithmetic."""
    return (value >> bits) & ((1 << (64 - bits)) - 1)


def row_state(keys: torch.Tensor, seed: int, epoch: int, stream: int) -> torch.Tensor:
    """A state ``[B]`` for each key; ``stream`` separates draws of different purpose."""
    state = torch.zeros_like(keys, dtype=torch.int64)
    for value in (seed, epoch, stream):
        state = mix(state + _signed(value * _GOLDEN + _GOLDEN))
    return mix(state ^ mix(keys.to(torch.int64) * _signed(_GOLDEN)))


def uniform(state: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Integers uniform in [0, 2^32), int64, for states and places that broadcast."""
    return _shift(mix(state + (places + 1) * _signed(_GOLDEN)), 64 - BITS)


def threshold(probability: float) -> int:
    """``uniform(…) < threshold(p)`` has probability p."""
    return round(probability * (1 << BITS))
