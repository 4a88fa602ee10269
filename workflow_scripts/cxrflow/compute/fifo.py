"""First-in, first-out queues in buffers, as momentum contrast and DeCLIP keep them."""

import torch
from torch import Tensor


def enqueue(place: Tensor, *queues: tuple[Tensor, Tensor]) -> None:
    """Replace the oldest rows of each queue by new rows; of too many, by the last ones.

    ``place`` is an int64 scalar, the place of the oldest row, and is moved on. Each of ``queues``
    is a queue [K, ...] and its new rows [N, ...]; K and N are the same for all. A queue is a ring:
    after its last row comes its first.
    """
    size, new = len(queues[0][0]), len(queues[0][1])
    rows = min(size, new)
    places = (place + torch.arange(rows, device=place.device)) % size
    for queue, new_rows in queues:
        queue[places] = new_rows[new - rows :]
    place.add_(rows).remainder_(size)
