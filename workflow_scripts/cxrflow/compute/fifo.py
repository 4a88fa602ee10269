"""First-in, first-out queues in buffers, as momentum contrast and DeCLIP keep them."""

import torch
from torch import Tensor


def enqueue(place: Tensor, *queues: tuple[Tensor, Tensor]) -> None:
    """Put new rows in the place of the oldest of each queue, across its end; of too many the last.

    ``place`` is int64, a scalar: where the oldest row of the queues stands; it moves on in place.
    Each of ``queues`` is a queue [K, ...] and its new rows [N, ...], N and K being those of all.
    """
    size, new = len(queues[0][0]), len(queues[0][1])
    rows = min(size, new)
    places = (place + torch.arange(rows, device=place.device)) % size
    for queue, new_rows in queues:
        queue[places] = new_rows[new - rows :]
    place.add_(rows).remainder_(size)
