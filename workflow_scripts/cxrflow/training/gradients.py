"""The backward pass of a program, with gradients summed over processes."""

import contextlib
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from cxrflow.training.processes import Processes
from cxrflow.training.program import Losses, Program


class Objective(nn.Module):
    """A program's objective as a module, which is what DistributedDataParallel wraps.

    That one averages gradients over processes, while each of them computes its share of the
    objective: their number times the share makes the average a sum.
    """

    def __init__(self, program: Program, world: int) -> None:
        super().__init__()
        self.parts = nn.ModuleDict(program.modules)
        self._program, self._world = program, world

    def forward(self, epoch: int, index: int, part: int, parts: int) -> tuple[Tensor, Losses]:
        losses = self._program.losses(epoch, index, part, parts)
        return losses.total * self._world, losses._replace(total=losses.total.detach())


class Gradients:
    """Computes objectives and leaves their gradients, the same in all processes, in parameters."""

    def __init__(self, program: Program, processes: Processes) -> None:
        self._objective: Any = Objective(program, processes.world)
        self._distributed = processes.world > 1
        if self._distributed:
            on_gpu = any(parameter.is_cuda for parameter in self._objective.parameters())
            self._objective = DistributedDataParallel(
                self._objective,
                device_ids=[torch.cuda.current_device()] if on_gpu else None,
                gradient_as_bucket_view=True,
            )

    def objective(self, epoch: int, index: int, part: int, parts: int) -> tuple[Tensor, Losses]:
        """What to call :meth:`backward` with, and this process's share for the log."""
        found: tuple[Tensor, Losses] = self._objective(epoch, index, part, parts)
        return found

    def part(self, last: bool) -> contextlib.AbstractContextManager[None]:
        """Around a part of a batch: processes only talk in the last one."""
        if self._distributed and not last:
            synchronising: contextlib.AbstractContextManager[None] = self._objective.no_sync()
            return synchronising
        return contextlib.nullcontext()
