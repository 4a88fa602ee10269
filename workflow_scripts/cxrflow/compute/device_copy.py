"""Copies of tensors from the host to the device that computes with them."""

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
