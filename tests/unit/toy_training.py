"""A small program trained by the real engine in a process of its own; the tests kill it."""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from cxrflow.command import run
from cxrflow.training.engine import Engine
from cxrflow.training.order import batch_rows, batches_per_epoch
from cxrflow.training.program import Losses
from cxrflow.training.settings import OptimiserSettings, StoppingSettings, TrainingSettings


class Toy:
    """Regression with dropout and batch statistics, so that hidden state would show."""

    def __init__(self, pause: float, break_at: int, exhaust_at: int) -> None:
        self.pause, self.break_at, self.exhaust_at = pause, break_at, exhaust_at
        generator = torch.Generator().manual_seed(0)
        self.inputs = torch.randn(203, 8, generator=generator)
        self.targets = self.inputs @ torch.randn(8, 2, generator=generator)
        torch.manual_seed(0)
        self.model = nn.Sequential(
            nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(0.3), nn.ReLU(), nn.Linear(16, 2)
        )
        self.modules: dict[str, nn.Module] = {"model": self.model}
        self.batches_per_epoch = batches_per_epoch(203, 20)

    def batch_ids(self, epoch: int, index: int) -> Sequence[str]:
        return [f"sample-{row}" for row in batch_rows(203, 20, 0, epoch, index)]

    def losses(self, epoch: int, index: int, part: int, parts: int) -> Losses:
        time.sleep(self.pause)
        rows = batch_rows(203, 20, 0, epoch, index)
        loss = (self.model(self.inputs[rows]) - self.targets[rows]).square().mean()
        step = epoch * self.batches_per_epoch + index
        if step == self.break_at:
            loss = loss * float("nan")
        if step == self.exhaust_at:
            torch.empty(2**48)
        return Losses(loss, {"square": loss.detach()}, len(rows), 0)

    def validate(self) -> dict[str, float]:
        loss = (self.model(self.inputs) - self.targets).square().mean()
        return {"loss": float(loss)}

    def export(self, folder: Path) -> None:
        torch.save(self.model.state_dict(), folder / "weights.pt")


def main(argv: Sequence[str] | None = None) -> None:
    state, output, text = sys.argv[1:]
    options = json.loads(text)
    settings = TrainingSettings(
        batch_size=20,
        epochs=20,
        optimiser=OptimiserSettings(learning_rate=options.get("learning_rate", 0.01)),
        stopping=StoppingSettings(keep="best"),
        save_minutes=options.get("save_minutes", 0.0005),
        log_steps=5,
        precision="fp32",
        device="cpu",
    )
    toy = Toy(options.get("pause", 0.0), options.get("break_at", -1), options.get("exhaust_at", -1))
    chosen = {"training": settings.model_dump(mode="json")}
    identity = {"model": "toy", "seed": 0, "settings": chosen}
    remedies = ("a smaller training.batch_size", "a smaller length")
    Engine(toy, settings, 0, identity, remedies).run(state, output)


if __name__ == "__main__":
    run(main)
