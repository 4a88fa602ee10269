"""One training step: forward, backward, update, and the rate of each update.

Everything else is in the engine around it.
"""

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from cxrflow.training import optimiser as optimisers
from cxrflow.training.precision import Precision, autocast
from cxrflow.training.processes import Processes
from cxrflow.training.program import Losses, Program
from cxrflow.training.settings import ScheduleSettings, TrainingSettings


class Step:
    """Does the steps of a run of ``steps``; each depends on its number, weights and moments."""

    def __init__(
        self,
        program: Program,
        settings: TrainingSettings,
        seed: int,
        steps: int,
        device: torch.device,
        precision: Precision,
        processes: Processes,
    ) -> None:
        self.program, self.settings, self.seed, self.steps = program, settings, seed, steps
        self.processes = processes
        self._mixed_precision = autocast(device, precision)
        rules = program.parameter_rules
        self.optimiser = optimisers.build(settings.optimiser, program.modules, rules)
        self._feed = Feed(self._prepared, steps, ahead=device.type == "cuda")
        self._objective: Any = None

    def __call__(
        self, number: int, clock: "DataClock", plateaus: int = 0
    ) -> tuple["StepValues", int, int]:
        """Step ``number`` (from 0): its values, and this process's samples and tokens.

        ``plateaus``: how often the learning rate has fallen to a plateau schedule.
        """
        settings, program = self.settings, self.program
        if self._objective is None:  # now the weights are on their device, and resumed
            self._objective = _objective(program, self.processes)
        self._seed(number)
        self._set_rates(learning_rate_factor(settings.schedule, number, self.steps, plateaus))
        self.optimiser.zero_grad(set_to_none=True)

        terms: dict[str, Tensor] = {}
        samples = tokens = 0
        with clock.waiting():
            batch = self._feed.take(number)
        for micro_batch in range(settings.accumulate):
            with self._gradient_exchange(micro_batch == settings.accumulate - 1):
                with self._mixed_precision, clock.running():
                    total, losses = self._objective(batch, micro_batch, settings.accumulate)
                total.backward()
            for name, value in {**losses.terms, "loss": losses.total}.items():
                terms[name] = terms[name] + value if name in terms else value
            samples, tokens = samples + losses.samples, tokens + losses.tokens

        self._drop_resting_gradients(number // program.batches_per_epoch)
        parameters = [p for group in self.optimiser.param_groups for p in group["params"]]
        if settings.gradient_limit is not None:
            nn.utils.clip_grad_value_(parameters, settings.gradient_limit)
        if settings.gradient_clip is not None:
            nn.utils.clip_grad_norm_(parameters, settings.gradient_clip)
        if settings.optimiser.lars:
            optimisers.apply_lars(self.optimiser, settings.optimiser.lars_trust)
        self.optimiser.step()
        with torch.no_grad():
            program.after_update()
        return StepValues(number, terms, self.processes), samples, tokens

    def close(self) -> None:
        """Part from the other processes' gradients, before the processes part.

        Whoever lets go of a process group last waits for its threads. DistributedDataParallel would
        do so while it holds Python's lock, for which one of those threads may be waiting.
        """
        self._objective = None
        self._feed.close()

    def _prepared(self, number: int) -> Any:
        return self.program.prepare(*divmod(number, self.program.batches_per_epoch))

    def _drop_resting_gradients(self, epoch: int) -> None:
        """Remove the gradients of resting parameters, so that weight decay spares them, too."""
        for group in self.optimiser.param_groups:
            if epoch < group.get("rest", 0):  # a state may be older than the key
                for parameter in group["params"]:
                    parameter.grad = None

    def _seed(self, number: int) -> None:
        """Dropout and every other torch draw of a step depend on nothing before it."""
        place = [self.seed, number]
        if self.processes.world > 1:
            place += [self.processes.rank, self.processes.world]
        digest = sha256(f"[{','.join(map(str, place))}]".encode()).digest()
        torch.manual_seed(int.from_bytes(digest[:8]) % (1 << 63))

    def _set_rates(self, factor: float) -> None:
        for group in self.optimiser.param_groups:
            group["lr"] = self.settings.optimiser.learning_rate * factor * group["rate"]

    def _gradient_exchange(self, last: bool) -> contextlib.AbstractContextManager[None]:
        """Around a part of a batch: processes sum gradients only in the last one."""
        if self.processes.world == 1 or last:
            return contextlib.nullcontext()
        without: contextlib.AbstractContextManager[None] = self._objective.no_sync()
        return without


def _objective(program: Program, processes: Processes) -> nn.Module:
    """The program's objective as a module whose gradients are summed over processes."""
    objective = _Objective(program, processes.world)
    if processes.world == 1:
        return objective
    on_gpu = any(parameter.is_cuda for parameter in objective.parameters())
    return DistributedDataParallel(
        objective,
        device_ids=[torch.cuda.current_device()] if on_gpu else None,
        gradient_as_bucket_view=True,
        find_unused_parameters=program.skips,
    )


class _Objective(nn.Module):
    """The module that DistributedDataParallel wraps.

    That one averages gradients over processes, while each of them computes its share of the
    objective: their number times the share makes the average a sum.
    """

    def __init__(self, program: Program, world: int) -> None:
        super().__init__()
        self.parts = nn.ModuleDict(program.modules)
        self._program, self._world = program, world

    def forward(self, batch: Any, micro_batch: int, micro_batches: int) -> tuple[Tensor, Losses]:
        losses = self._program.losses(batch, micro_batch, micro_batches)
        return losses.total * self._world, losses._replace(total=losses.total.detach())


class StepValues:
    """The objective and its terms of a step, summed over its parts and over processes.

    On a GPU they are copied to the host while it goes on with the next step; :meth:`read` waits for
    the copy alone.
    """

    def __init__(self, number: int, terms: Mapping[str, Tensor], processes: Processes) -> None:
        self.number, self.names = number, list(terms)
        values = processes.sum(torch.stack([value.detach().double() for value in terms.values()]))
        self._copied: torch.cuda.Event | None = None
        if values.is_cuda:
            self._values = torch.empty(len(values), dtype=values.dtype, pin_memory=True)
            self._values.copy_(values, non_blocking=True)
            self._copied = torch.cuda.Event()
            self._copied.record()
        else:
            self._values = values

    def read(self) -> dict[str, float]:
        if self._copied is not None:
            self._copied.synchronize()
        return dict(zip(self.names, self._values.tolist(), strict=True))


def learning_rate_factor(
    settings: ScheduleSettings, step: int, steps: int, plateaus: int = 0
) -> float:
    """Factor on the base rate for the update numbered ``step`` (from 0) of ``steps`` (BioViL E.1).

    Rises linearly over the warm-up (its first update is already above zero), then, if linear or
    cosine, falls so that the update after the last would be zero. ``plateaus``: how often
    validation has found one (training/monitor.py).
    """
    warmup = settings.warmup_steps
    if warmup is None:
        warmup = round(settings.warmup * steps)
    if step < warmup:
        return (step + 1) / warmup
    progress = (step - warmup) / max(1, steps - warmup)
    match settings.decay:
        case "linear":
            return 1.0 - progress
        case "cosine":
            return 0.5 * (1 + math.cos(math.pi * progress))
        case "plateau":
            return settings.factor**plateaus
        case "multistep":
            passed = sum(step >= round(share * steps) for share in settings.milestones)
            return settings.factor**passed
        case "noam":
            return math.sqrt(max(warmup, 1) / (step + 1))
        case "constant":
            return 1.0


class DataClock:
    """Seconds the objective spends on getting batches ready, before and between its modules.

    Counted is the time from the start of an objective, or from the return of a module, until a
    module is given data: tensors none of which has a gradient, as a batch's pixels or token ids
    are and what other modules have computed is not. Losses, which come after the modules, are not
    data. It is the host's time: a GPU that is still busy with the step before waits for less.

    Only the modules themselves and two levels below are watched, which costs microseconds a step.
    """

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        self.seconds = 0.0
        modules = list(modules)
        # A hook would cut a compiled part in pieces.
        compiled = {
            id(inner)
            for module in modules
            for submodule in module.modules()
            if submodule._compiled_call_impl is not None
            for inner in submodule.modules()
        }
        self._since: float | None = None  # None outside of an objective
        self._depth = 0  # modules that are running, one within the other
        self._hooks = [
            hook
            for module in modules
            for name, submodule in module.named_modules()
            if name.count(".") <= 1 and id(submodule) not in compiled
            for hook in (
                submodule.register_forward_pre_hook(self._enter, with_kwargs=True),
                submodule.register_forward_hook(self._leave),
            )
        ]

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """The time of one objective."""
        self._since, self._depth = time.perf_counter(), 0
        try:
            yield
        finally:
            self._since = None

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """The time of getting a batch."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - begun

    def _enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._since is None:
            return
        self._depth += 1
        tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
        if self._depth == 1 and not any(value.requires_grad for value in tensors):
            self.seconds += time.perf_counter() - self._since

    def _leave(self, module: nn.Module, args: tuple[Any, ...], output: object) -> None:
        if self._since is not None:
            self._since, self._depth = time.perf_counter(), self._depth - 1

    def close(self) -> None:
        for hook in self._hooks:
            hook.remove()


class Feed:
    """Gives each of a run's ``steps`` the batch that ``prepare`` makes of the step's number.

    ``ahead``: in a thread, one batch ahead of the steps, as on a GPU. What a step reads of no
    weights is a pure function of seed, epoch and batch: rows, texts, masks and augmented images,
    whose random numbers are keyed (``compute/keyed_random.py``). So it does not matter which thread
    prepares a batch or when, and a resumed run prepares what an undisturbed one does. The thread
    launches on the stream of the steps, which reads a batch after what wrote it.
    """

    def __init__(self, prepare: Callable[[int], Any], steps: int, ahead: bool) -> None:
        self._prepare, self._steps, self._thread = prepare, steps, None
        self._next: tuple[int, Future[Any]] | None = None
        if ahead:
            # The current GPU is each thread's own; a new one's would be the first of the machine.
            on_gpu = torch.cuda.is_available()
            start = partial(torch.cuda.set_device, torch.cuda.current_device()) if on_gpu else None
            self._thread = ThreadPoolExecutor(1, "feed", initializer=start)

    def take(self, step: int) -> Any:
        """The batch of ``step``; an error of its preparation is raised here."""
        if self._thread is None:
            return self._prepared(step)
        if self._next is None or self._next[0] != step:
            self._next = step, self._thread.submit(self._prepared, step)
        batch = self._next[1].result()
        self._next = None
        if step + 1 < self._steps:
            self._next = step + 1, self._thread.submit(self._prepared, step + 1)
        return batch

    def close(self) -> None:
        """Wait for what the thread is at, and end it."""
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)

    @torch.no_grad()
    def _prepared(self, step: int) -> Any:
        return self._prepare(step)
