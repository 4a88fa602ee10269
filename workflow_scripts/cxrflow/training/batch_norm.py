"""Batch normalisation whose statistics do not depend on the number of processes.

Two kinds (``convert`` chooses): statistics of the whole global batch over all processes, and
statistics of groups of a fixed number of samples ("ghost batches", Hoffer et al. 2017). With the
group that one GPU held in a paper, the second is what that paper trained with: under plain
distributed training each GPU normalises by its own samples (Goyal et al. 2017, section 2.3).

Each process's loss is its share of the global loss, a sum over processes, and the gradients of
parameters are summed over processes; the backward pass here is right for exactly that. A forward
pass in training mode and its backward pass communicate: every process must take part in both, one
whose share of the batch is empty too.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm


def convert(module: nn.Module, group: int | None) -> nn.Module:
    """``module`` itself, its ``nn.BatchNorm1d`` and ``nn.BatchNorm2d`` layers changed in place.

    ``group`` None: statistics of the whole global batch. Otherwise of groups of so many samples,
    counted from the first of each process's share. Parameters and buffers stay the objects they
    are, under the same names. A layer converted before takes the new ``group``.
    """
    if group is not None and group < 1:
        raise ValueError(f"batch normalisation: group {group}; expected at least 1 sample")
    for layer in module.modules():
        if type(layer) in REPLACEMENTS:
            layer.__class__ = REPLACEMENTS[type(layer)]
        if isinstance(layer, _GlobalBatchNorm):
            layer.group = group
    return module


def revert(module: nn.Module) -> None:
    """Undo :func:`convert`: statistics of this process's samples alone, without a message."""
    plain: dict[type, type] = {changed: kind for kind, changed in REPLACEMENTS.items()}
    for layer in module.modules():
        if type(layer) in plain:
            layer.__class__ = plain[type(layer)]


@contextmanager
def kept_statistics(module: nn.Module) -> Iterator[None]:
    """Running statistics stay as they are: for a pass in training mode that only reads."""
    layers = [layer for layer in module.modules() if isinstance(layer, _BatchNorm)]
    momenta = [layer.momentum for layer in layers]
    for layer in layers:
        layer.momentum = 0.0
    try:
        yield
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum


class _GlobalBatchNorm(_BatchNorm):
    """The base of both layers; ``convert`` makes them of existing ones."""

    group: int | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Normalised ``x`` [samples, channels, ...], of the same data type and memory format.

        Evaluation mode uses the running statistics, as in ``nn.BatchNorm2d``. ValueError if the
        samples are not whole groups (in a single process the last one may be smaller), or if there
        is only one value per channel.
        """
        # On the meta device only shapes are asked for, by one process for itself.
        if not self.training or x.is_meta:
            return super().forward(x)
        processes = distributed.get_world_size() if distributed.is_initialized() else 1
        if processes == 1 and self.group is None:
            return super().forward(x)
        self._check_input_dim(x)
        if self.group is None:
            return self._by_global_batch(x, processes)
        if processes > 1 and len(x) % self.group:
            raise ValueError(
                f"batch normalisation: {len(x)} samples in process {distributed.get_rank()}; "
                f"expected a multiple of the group of {self.group} samples"
            )
        return self._by_group(x, self.group, processes)

    def _by_global_batch(self, x: Tensor, processes: int) -> Tensor:
        with torch.no_grad():
            count, mean_C, variance_C = _moments(x, processes)
            # Only a process with next to nothing needs to look at the others' number.
            if x.numel() <= x.shape[1] and count.item() <= 1:
                raise ValueError(
                    f"batch normalisation: {count.item():.0f} value(s) per channel in the whole "
                    "batch; expected more than 1"
                )
            self._update_running(mean_C, variance_C * (count / (count - 1)))
        inverse_C = (variance_C + self.eps).rsqrt()
        return _Normalise.apply(x, self.weight, self.bias, count, mean_C, inverse_C)

    def _by_group(self, x: Tensor, group: int, processes: int) -> Tensor:
        groups = x.split(group)
        if self.running_mean is None or self.running_var is None:
            return _joined([self._normalised(samples, None, None) for samples in groups])
        # With momentum 1, "running statistics" are those of the group: to be averaged over groups.
        mean_GC = self.running_mean.new_zeros(len(groups), len(self.running_mean))
        variance_GC = torch.zeros_like(mean_GC)
        rows = zip(groups, mean_GC, variance_GC, strict=True)
        y = _joined([self._normalised(samples, mean_C, var_C) for samples, mean_C, var_C in rows])
        # An empty share is split into one empty group, which is none.
        number = mean_GC.new_full((1,), len(groups) if len(x) else 0)
        sums = torch.cat([number, mean_GC.sum(0), variance_GC.sum(0)])
        if processes > 1:
            distributed.all_reduce(sums)
        mean_C, variance_C = (sums[1:] / sums[0]).chunk(2)
        self._update_running(mean_C, variance_C)
        return y

    def _normalised(self, x: Tensor, mean_C: Tensor | None, variance_C: Tensor | None) -> Tensor:
        """One group by torch's own kernel, which leaves its statistics in the last two."""
        return F.batch_norm(x, mean_C, variance_C, self.weight, self.bias, True, 1.0, self.eps)

    @torch.no_grad()
    def _update_running(self, mean_C: Tensor, variance_C: Tensor) -> None:
        """One step of the running statistics, as in torch: the variance is the unbiased one."""
        if self.running_mean is None or self.running_var is None:
            return
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        # Without a momentum: the mean of all batches so far.
        step = self.momentum
        if step is None:
            step = 1 / float(self.num_batches_tracked)
        for running_C, new_C in ((self.running_mean, mean_C), (self.running_var, variance_C)):
            running_C.mul_(1 - step).add_(new_C.to(running_C.dtype), alpha=step)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, group={self.group}"


class GlobalBatchNorm1d(_GlobalBatchNorm, nn.BatchNorm1d):
    """``nn.BatchNorm1d`` with statistics of the global batch or of groups."""


class GlobalBatchNorm2d(_GlobalBatchNorm, nn.BatchNorm2d):
    """``nn.BatchNorm2d`` with statistics of the global batch or of groups."""


REPLACEMENTS: dict[type, type[_GlobalBatchNorm]] = {
    nn.BatchNorm1d: GlobalBatchNorm1d,
    nn.BatchNorm2d: GlobalBatchNorm2d,
}


def _joined(groups: list[Tensor]) -> Tensor:
    return torch.cat(groups) if len(groups) > 1 else groups[0]


def _dims(x: Tensor) -> list[int]:
    """The dimensions a channel's values lie in: all but the second."""
    return [0, *range(2, x.dim())]


def _moments(x: Tensor, processes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Values per channel [1], mean [C] and biased variance [C] over all processes; fp32 or fp64.

    Every process centres its values by its own mean; then the parts are combined (Chan et al.
    1979). Sums of squares that are not centred would lose the digits of a small variance.
    """
    channels = x.shape[1]
    wide = torch.promote_types(x.dtype, torch.float32)
    moments = torch.zeros(1 + 2 * channels, dtype=wide, device=x.device)
    if x.numel():
        moments[0] = x.numel() // channels
        moments[1:] = torch.cat(torch.var_mean(x.to(wide), _dims(x), correction=0))
    moments_by_process = moments.new_empty(processes, len(moments))
    distributed.all_gather(list(moments_by_process.unbind()), moments)
    counts_P1, variance_PC, mean_PC = moments_by_process.split([1, channels, channels], dim=1)
    count = counts_P1.sum(0)
    mean_C = (counts_P1 * mean_PC).sum(0) / count
    variance_C = (counts_P1 * (variance_PC + (mean_PC - mean_C).square())).sum(0) / count
    return count, mean_C, variance_C


class _Normalise(torch.autograd.Function):
    """(x - mean) / deviation * weight + bias, and its gradient through the statistics as well."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight_C: Tensor | None,
        bias_C: Tensor | None,
        count: Tensor,
        mean_C: Tensor,
        inverse_C: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(x, weight_C, count, mean_C, inverse_C)
        shape = [-1] + [1] * (x.dim() - 2)
        scale_C = inverse_C if weight_C is None else inverse_C * weight_C
        y = (x - mean_C.view(shape)).mul_(scale_C.view(shape))
        if bias_C is not None:
            y.add_(bias_C.view(shape))
        return y.to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight_C, count, mean_C, inverse_C = ctx.saved_tensors
        dims, shape = _dims(x), [-1] + [1] * (x.dim() - 2)
        gradient = gradient.to(mean_C.dtype)
        unit = (x - mean_C.view(shape)).mul_(inverse_C.view(shape))
        bias_gradient_C, weight_gradient_C = gradient.sum(dims), (gradient * unit).sum(dims)
        x_gradient = None
        if ctx.needs_input_grad[0]:
            # Every value, on whichever process, has a part in the statistics of all the others.
            sums_2C = torch.stack([bias_gradient_C, weight_gradient_C])
            distributed.all_reduce(sums_2C)
            mean_gradient_C, mean_product_C = sums_2C / count
            scale_C = inverse_C if weight_C is None else inverse_C * weight_C
            x_gradient = gradient - unit.mul_(mean_product_C.view(shape))
            x_gradient.sub_(mean_gradient_C.view(shape)).mul_(scale_C.view(shape))
        return (
            x_gradient,
            weight_gradient_C if ctx.needs_input_grad[1] else None,
            bias_gradient_C if ctx.needs_input_grad[2] else None,
            None,
            None,
            None,
        )
