"""One update of the weights: learning rate, objective, gradients, optimiser."""

import torch
from torch import Tensor

from cxrflow.files import fingerprint
from cxrflow.training import optimiser as optimisers
from cxrflow.training.data_clock import DataClock
from cxrflow.training.gradients import Gradients
from cxrflow.training.precision import Precision, autocast
from cxrflow.training.processes import Processes
from cxrflow.training.program import Program
from cxrflow.training.schedule import learning_rate_factor
from cxrflow.training.settings import TrainingSettings
from cxrflow.training.step_values import StepValues


class Update:
    """Does the updates of a run of ``steps``; each depends on its number, weights and moments."""

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
        self.device, self.precision, self.processes = device, precision, processes
        self.optimiser = optimisers.build(settings.optimiser, program.modules.values())
        self._gradients: Gradients | None = None

    def __call__(self, step: int, clock: DataClock) -> tuple[StepValues, int, int]:
        """Update number ``step`` (from 0): its values, and this process's samples and tokens."""
        settings = self.settings
        if self._gradients is None:  # now the weights are on their device, and resumed
            self._gradients = Gradients(self.program, self.processes)
        self._seed(step)
        factor = learning_rate_factor(settings.schedule, step, self.steps)
        for group in self.optimiser.param_groups:
            group["lr"] = settings.optimiser.learning_rate * factor
        self.optimiser.zero_grad(set_to_none=True)
        epoch, index = divmod(step, self.program.batches_per_epoch)
        terms: dict[str, Tensor] = {}
        samples = tokens = 0
        for part in range(settings.accumulate):
            with self._gradients.part(last=part == settings.accumulate - 1):
                with autocast(self.device, self.precision), clock.running():
                    total, losses = self._gradients.objective(
                        epoch, index, part, settings.accumulate
                    )
                total.backward()
            for name, value in {**losses.terms, "loss": losses.total}.items():
                terms[name] = terms[name] + value if name in terms else value
            samples, tokens = samples + losses.samples, tokens + losses.tokens
        if settings.gradient_clip is not None:
            torch.nn.utils.clip_grad_norm_(
                [p for group in self.optimiser.param_groups for p in group["params"]],
                settings.gradient_clip,
            )
        if settings.optimiser.lars:
            optimisers.apply_lars(self.optimiser, settings.optimiser.lars_trust)
        self.optimiser.step()
        return StepValues(step, terms, self.processes), samples, tokens

    def _seed(self, step: int) -> None:
        """Dropout and every other torch draw of a step depend on nothing before it."""
        place = [self.seed, step]
        if self.processes.world > 1:
            place += [self.processes.rank, self.processes.world]
        torch.manual_seed(int(fingerprint(place), 16) % (1 << 63))
