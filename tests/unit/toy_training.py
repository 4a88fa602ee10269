"""A small program trained by the real engine in a process of its own; the tests kill it."""

import json
import sys
import time
from collections.abc import Sequence
from copy import deepcopy
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from cxr_files.errors import InputError
from cxr_files.program import run
from cxrflow.training.batch_norm import convert
from cxrflow.training.engine import Engine
from cxrflow.training.processes import ALONE, Processes
from cxrflow.training.program import Losses, ParameterRule, Program
from cxrflow.training.sampler import choose_sampler
from cxrflow.training.samples import SampleTable
from cxrflow.training.settings import TrainingSettings

SAMPLES, BATCH = 203, 20
SETTINGS: dict[str, Any] = {
    "batch_size": BATCH,
    "epochs": 12,
    "sampler": {"name": "of_kinds", "shares": 5},
    "optimiser": {"name": "sgd", "learning_rate": 0.02},
    "schedule": {"decay": "plateau", "factor": 0.5, "patience": 2},
    "stopping": {"keep": "best", "monitor": "score", "mode": "max"},
    "validate_steps": 7,
    "checkpoint_validations": 5,
    "save_minutes": 0.0005,
    "log_steps": 5,
    "precision": "fp32",
    "device": "cpu",
}


class Toy(Program):
    """Regression with dropout, batch statistics, another network that follows and a queue of
    outputs, so that hidden state would show."""

    parameter_rules = (ParameterRule("model.4.*", rate=0.5, decay=False),)

    def __init__(
        self, settings: TrainingSettings, options: dict[str, Any], processes: Processes = ALONE
    ) -> None:
        self.options, self.processes = options, processes
        generator = torch.Generator().manual_seed(0)
        self.inputs = torch.randn(SAMPLES, 8, generator=generator)
        self.targets = self.inputs @ torch.randn(8, 2, generator=generator)
        torch.manual_seed(0)
        width = options.get("width", 16)
        self.model = nn.Sequential(
            nn.Linear(8, width),
            nn.BatchNorm1d(width),
            nn.Dropout(options.get("dropout", 0.3)),
            nn.ReLU(),
            nn.Linear(width, 2),
        )
        if processes.world > 1:
            convert(self.model, None)
        self.follower = deepcopy(self.model).requires_grad_(False)
        self.follower.register_buffer("queue", torch.zeros(30, 2))
        self.modules: dict[str, nn.Module] = {"model": self.model, "follower": self.follower}
        samples = SampleTable(range(SAMPLES), with_prior=np.arange(SAMPLES) % 3 == 0)
        self.sampler = choose_sampler(settings.sampler, samples, BATCH, 0, processes.world)
        self.batches_per_epoch = self.sampler.batches_per_epoch

    def batch_ids(self, epoch: int, index: int) -> Sequence[str]:
        return [f"sample-{row}" for row in self.sampler.rows(epoch, index)]

    def prepare(self, epoch: int, index: int) -> tuple[int, np.ndarray]:
        step = epoch * self.batches_per_epoch + index
        if step == self.options.get("unprepared"):
            raise InputError(f"step {step} cannot be prepared")
        return step, self.processes.share(self.sampler.rows(epoch, index))

    def losses(self, batch: tuple[int, np.ndarray], part: int, parts: int) -> Losses:
        time.sleep(self.options.get("pause", 0.0))
        step, rows = batch
        output = self.model(self.inputs[rows])
        (self.outputs,), _ = self.processes.gather(BATCH, output.detach())
        square = (output - self.targets[rows]).square().sum() / (2 * BATCH)
        apart = (output - self.follower(self.inputs[rows])).square().sum() / BATCH
        apart = apart + (output - self.follower.queue.mean(0)).square().sum() / BATCH
        if step == self.options.get("break_at"):
            square = square * float("nan")
        if step == self.options.get("exhaust_at"):
            torch.empty(2**48)
        terms = {"square": square.detach(), "apart": apart.detach()}
        return Losses(square + 0.01 * apart, terms, len(rows), 0)

    def after_update(self) -> None:
        for own, trained in zip(self.follower.parameters(), self.model.parameters(), strict=True):
            own.mul_(0.9).add_(trained, alpha=0.1)
        self.follower.queue.copy_(torch.cat([self.follower.queue, self.outputs])[-30:])

    def validate(self) -> dict[str, float]:
        loss = (self.model(self.inputs) - self.targets).square().mean()
        earlier = self.validation_state.get("losses", [])
        self.validation_state = {"losses": [*earlier, float(loss)]}
        return {"loss": float(loss), "score": 1 - float(loss) / float(self.targets.var())}

    def validation_record(self) -> dict[str, Any]:
        return {"permuted_pairs": {"losses": self.validation_state["losses"]}}

    def export(self, folder: Path) -> None:
        states = {name: module.state_dict() for name, module in self.modules.items()}
        torch.save(states, folder / "weights.pt")


def train(folder: Path, **options: Any) -> None:
    """Train in ``folder``: the state beside the finished run."""
    settings = TrainingSettings(**{**SETTINGS, **options.pop("settings", {})})
    chosen = {"training": settings.model_dump(mode="json")}
    identity = {"model": "toy", "seed": 0, "settings": chosen}
    memory_advice = ("a smaller training.batch_size", "a smaller length")
    code = options.pop("code", None)
    engine = Engine(Toy(settings, options), settings, 0, identity, memory_advice, code=code)
    engine.run(folder / "state-run", folder / "run")


def train_and_tell(begun: Event, folder: Path) -> None:
    """Train slowly, the event being set at the beginning."""
    begun.set()
    train(folder, pause=0.05)


def main(argv: Sequence[str] | None = None) -> None:
    folder, options = sys.argv[1:]
    train(Path(folder), **json.loads(options))


if __name__ == "__main__":
    run(main)
