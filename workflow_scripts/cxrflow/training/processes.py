"""Training in several processes, which torchrun starts: who does what, and what they exchange.

Every process computes its share of one batch, the same rows whatever else runs. The objective of
the batch is the *sum* of what the processes return, and gradients are summed over them, so that one
process with N samples and several with N in all do the same, up to rounding. Objectives that
compare the samples of a batch (Eq. 1 and 2 of BioViL) get all of its embeddings by :meth:`gather`,
through which gradients travel back to the process that computed them.

Messages about tensors on a GPU go through NCCL, all others through Gloo.
"""

import contextlib
import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from cxr_files.errors import InputError

Result = TypeVar("Result")


@dataclass(frozen=True)
class Processes:
    """This process (``rank``) among all of a run (``world``); by default it is alone."""

    rank: int = 0
    world: int = 1

    @property
    def is_first(self) -> bool:
        """True for the process that logs, saves and writes the model."""
        return self.rank == 0

    def share(self, rows: np.ndarray) -> np.ndarray:
        """The rows of a batch that this process works on: neighbours, as many as the others +-1.

        In the order of ranks the shares are ``rows`` again.
        """
        if len(rows) < self.world:
            raise InputError(
                f"a batch of {len(rows)} samples is too small for {self.world} processes"
            )
        return np.array_split(rows, self.world)[self.rank]

    def gather(self, total: int, *shares: Tensor) -> tuple[list[Tensor], slice]:
        """All ``total`` rows of tensors of whose rows every process holds its share.

        Each of ``shares`` is [own rows, ...]; results are [total, ...], and the slice says where
        the own rows are. Gradients reach every process's rows from all processes.
        """
        if self.world == 1:
            return list(shares), slice(0, total)
        sizes = [len(share) for share in np.array_split(np.arange(total), self.world)]
        begin = sum(sizes[: self.rank])
        gathered = [_Gather.apply(share, sizes, self.rank) for share in shares]
        return gathered, slice(begin, begin + sizes[self.rank])

    def sum(self, values: Tensor) -> Tensor:
        """Add up ``values`` over all processes, in place and without gradient."""
        if self.world > 1:
            dist.all_reduce(values)
        return values

    def totals(self, *counts: int) -> list[int]:
        """The sum of each count over all processes."""
        sums: list[int] = self.sum(torch.tensor(counts)).tolist()
        return sums

    def collect(self, value: Result) -> list[Result]:
        """Gather any object of every process, in the order of ranks."""
        values: list[Any] = [value] * self.world
        if self.world > 1:
            dist.all_gather_object(values, value)
        return values

    def first(self, work: Callable[[], Result]) -> Result | None:
        """Do ``work`` in the first process while the others wait; they get None.

        When it fails, its error is raised there and the others end without a word.
        """
        if self.world == 1:
            return work()
        result, failure = None, None
        if self.is_first:
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 raised below, once the others know
                failure = error
        success = [failure is None]
        dist.broadcast_object_list(success, src=0)
        if failure is not None:
            raise failure
        if not success[0]:
            raise SystemExit(1)
        return result

    def one_voice(self, error: Exception) -> Exception | SystemExit:
        """The error to raise for what all processes found alike: the first one tells it."""
        return error if self.is_first else SystemExit(1)


ALONE = Processes()


@contextlib.contextmanager
def joined() -> Iterator[Processes]:
    """Meet the other processes that torchrun has started, if any; part from them at the end."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        yield ALONE
        return
    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        backend = "cpu:gloo,cuda:nccl"
    dist.init_process_group(backend)
    try:
        processes = Processes(dist.get_rank(), world)
        if not processes.is_first:
            logging.getLogger("cxrflow").setLevel(logging.ERROR)
        yield processes
    finally:
        dist.destroy_process_group()


class _Gather(torch.autograd.Function):
    """The rows of all processes; the gradient of own rows is the sum over all processes."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, sizes: list[int], rank: int) -> Tensor:
        ctx.own = slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
        # Collectives want equal shapes.
        longest = max(sizes)
        padded = rows.new_zeros(longest, *rows.shape[1:])
        padded[: len(rows)] = rows
        padded_by_rank = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(padded_by_rank, padded)
        return torch.cat([rows[:size] for rows, size in zip(padded_by_rank, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient[ctx.own], None, None
