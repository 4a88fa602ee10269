"""Copies of tensors from the host to the device that computes with them."""

from collections.abc import Mapping

import torch
from torch import Tensor


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """Return ``tensor`` on ``device``.

    A GPU gets it from pinned memory: from any other the host would wait until the GPU has done all
    that it was given before, and could not prepare the next step meanwhile.
    """
    if device.type != "cuda" or tensor.device.type != "cpu":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def sent_values(values: Mapping[str, float | Tensor], like: Tensor) -> dict[str, Tensor]:
    """Return ``values`` on the device of ``like``; the numbers among them go there in one copy."""
    numbers = {name: value for name, value in values.items() if not isinstance(value, Tensor)}
    if not numbers:
        return dict(values)  # type: ignore[arg-type]
    on_device = sent(torch.tensor([*numbers.values()], dtype=like.dtype), like.device)
    return {**values, **dict(zip(numbers, on_device, strict=True))}
