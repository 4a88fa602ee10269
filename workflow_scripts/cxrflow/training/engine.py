"""The training loop: exact under failure, the same for every program (design, section 5).

Killed at any instant and started again, a run ends with the weights of an undisturbed one, bit for
bit on a CPU: batches, masks, augmentation and dropout are functions of (seed, step) alone, and what
is left (weights, optimiser, best score, counters) is in the state. SIGTERM saves and exits with 75.
"""

import contextlib
import logging
import math
import os
import signal
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from cxrflow import __version__
from cxrflow.errors import InputError, InterruptedRun
from cxrflow.files import atomic_folder, fingerprint, naming, read_json, write_json
from cxrflow.training import optimiser as optimisers
from cxrflow.training.data_clock import DataClock
from cxrflow.training.memory import explained, peak_memory_mb
from cxrflow.training.metrics_log import MetricsLog
from cxrflow.training.precision import (
    autocast,
    choose_device,
    choose_precision,
    measure_roof,
)
from cxrflow.training.program import Program
from cxrflow.training.schedule import learning_rate_factor
from cxrflow.training.settings import TrainingSettings
from cxrflow.training.state import StateFolder, differences, without_operations
from cxrflow.training.work import PARAMETER_BYTES, Work, efficiency, in_words

log = logging.getLogger("cxrflow")


class Engine:
    """Trains one program. ``identity`` is what must not change between two starts of a run:
    model name, seed, settings and data fingerprints. ``work`` is that of one sample, and
    ``remedies`` say what to change when memory runs out."""

    def __init__(
        self,
        program: Program,
        settings: TrainingSettings,
        seed: int,
        identity: dict[str, Any],
        work: Work,
        remedies: Sequence[str],
    ) -> None:
        self.program, self.settings, self.seed, self.identity = program, settings, seed, identity
        self.work, self.remedies = work, remedies
        if program.batches_per_epoch < 1:
            raise InputError("no training samples are left: the cohort's train split is empty")
        self.device = choose_device(settings.device)
        self.precision = choose_precision(settings.precision, self.device)
        self.steps = settings.steps or (settings.epochs or 0) * program.batches_per_epoch
        self.epochs = math.ceil(self.steps / program.batches_per_epoch)
        self.optimiser = optimisers.build(settings.optimiser, program.modules.values())
        self.step = 0
        self.best: dict[str, Any] = {"loss": math.inf, "step": 0, "failures": 0}
        self.totals: dict[str, float] = {"seconds": 0.0, "samples": 0, "tokens": 0, "data": 0.0}
        self._stop = False

    def run(self, state_folder: str | Path, output: str | Path) -> None:
        """Train to the end, resuming what ``state_folder`` holds, and write ``output`` whole.

        An output that this very run has already written is left as it is: a kill between its
        last act and the end of the process must not cost the run.
        """
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))
        folder = StateFolder(state_folder)
        with naming(folder.path), folder.locked():
            if self._finished(Path(output)):
                log.info("%s is finished already; delete it to train again", output)
                folder.clear()
                return
            # "auto" may mean other arithmetic on another node: a run stays with what it began in.
            machine = {"precision": self.precision, "device": self.device.type}
            folder.claim({**without_operations(self.identity), **machine})
            previous = signal.signal(signal.SIGTERM, self._ask_to_stop)
            try:
                self.roof = measure_roof(self.device, self.precision)
                with explained(self.identity["model"], self.device, self.remedies):
                    self._resume(folder)
                    with contextlib.closing(MetricsLog(folder.path, self.step)) as metrics:
                        self._loop(folder, metrics)
                        self._finish(folder, metrics, Path(output))
            finally:
                signal.signal(signal.SIGTERM, previous)

    def _finished(self, output: Path) -> bool:
        path = output / "run.json"
        if not path.is_file():
            return False
        run = read_json(path)
        found = {key: run.get(key) for key in self.identity}
        return not differences(without_operations(found), without_operations(self.identity))

    def _ask_to_stop(self, number: int, frame: object) -> None:
        self._stop = True

    def _resume(self, folder: StateFolder) -> None:
        state = folder.load()
        if state is None:
            log.info("starting: %d steps on %s in %s", self.steps, self.device, self.precision)
            return
        for name, module in self.program.modules.items():
            module.load_state_dict(state["modules"][name])
        self.optimiser.load_state_dict(state["optimiser"])
        self.step, self.best = state["step"], state["best"]
        self.totals |= state["totals"]
        log.info("resuming at step %d of %d", self.step, self.steps)

    def _save(self, folder: StateFolder, metrics: MetricsLog) -> None:
        metrics.flush()
        modules = {name: module.state_dict() for name, module in self.program.modules.items()}
        counters = {"step": self.step, "best": self.best, "totals": self.totals}
        content = {"modules": modules, "optimiser": self.optimiser.state_dict(), **counters}
        folder.save(self.step, content)
        for path in folder.path.glob("best-*.pt"):
            if path.name != self._best_name():
                path.unlink()

    def _best_name(self) -> str:
        return f"best-{self.best['step']:09d}.pt"

    def _loop(self, folder: StateFolder, metrics: MetricsLog) -> None:
        settings, per_epoch = self.settings, self.program.batches_per_epoch
        every = per_epoch * math.ceil(self.epochs / settings.validations)
        clock = DataClock(self.program.modules.values())
        saved = logged = begun = time.monotonic()
        before = dict(self.totals)
        recent: dict[str, list[float]] = {}
        bar = tqdm(
            total=self.steps,
            initial=self.step,
            desc=self.identity["model"],
            unit="step",
            disable=not sys.stderr.isatty(),
        )
        for module in self.program.modules.values():
            module.train()
        while self.step < self.steps and not self._out_of_patience():
            epoch, index = divmod(self.step, per_epoch)
            for name, value in self._update(epoch, index, clock).items():
                recent.setdefault(name, []).append(value)
            self.step += 1
            bar.update()
            now = time.monotonic()
            self.totals["seconds"] = before["seconds"] + now - begun
            self.totals["data"] = before["data"] + clock.seconds
            if self.step % settings.log_steps == 0 or self.step == self.steps:
                values = {name: sum(items) / len(items) for name, items in recent.items()}
                bar.set_postfix(loss=f"{values['loss']:.3f}")
                metrics.write("train", self.step, self._describe(values))
                recent = {}
                if bar.disable and (now - logged > 10 or self.step == self.steps):
                    log.info("%s", self._line(values))
                    logged = now
            if self.step % every == 0 or self.step == self.steps:
                self._validate(folder, metrics)
            if self._stop:
                self._save(folder, metrics)
                raise InterruptedRun(
                    f"state of step {self.step} of {self.steps} saved in {folder.path}; "
                    "start the same command again to go on"
                )
            if now - saved > settings.save_minutes * 60:
                self._save(folder, metrics)
                saved = now
        bar.close()
        clock.close()
        self._save(folder, metrics)

    def _update(self, epoch: int, index: int, clock: DataClock) -> dict[str, float]:
        """One optimiser step; returns the objective and its terms."""
        settings = self.settings
        # Dropout and every other torch draw of this step depend on nothing before it.
        torch.manual_seed(int(fingerprint([self.seed, self.step]), 16) % (1 << 63))
        factor = learning_rate_factor(settings.schedule, self.step, self.steps)
        for group in self.optimiser.param_groups:
            group["lr"] = settings.optimiser.learning_rate * factor
        self.optimiser.zero_grad(set_to_none=True)
        values: dict[str, float] = {}
        for part in range(settings.accumulate):
            with autocast(self.device, self.precision), clock.running():
                losses = self.program.losses(epoch, index, part, settings.accumulate)
            shown = {**losses.terms, "loss": losses.total.detach()}
            for name, value in shown.items():
                number = float(value)
                if not math.isfinite(number):
                    ids = ", ".join(list(self.program.batch_ids(epoch, index))[:20])
                    raise InputError(
                        f"{self.identity['model']}: term '{name}' is {number} at step {self.step}; "
                        f"the batch begins with samples {ids}"
                    )
                values[name] = values.get(name, 0.0) + number
            losses.total.backward()
            self.totals["samples"] += losses.samples
            self.totals["tokens"] += losses.tokens
        if settings.gradient_clip is not None:
            torch.nn.utils.clip_grad_norm_(
                [p for group in self.optimiser.param_groups for p in group["params"]],
                settings.gradient_clip,
            )
        if settings.optimiser.lars:
            optimisers.apply_lars(self.optimiser, settings.optimiser.lars_trust)
        self.optimiser.step()
        return values

    @torch.no_grad()
    def _validate(self, folder: StateFolder, metrics: MetricsLog) -> None:
        for module in self.program.modules.values():
            module.eval()
        torch.manual_seed(self.seed)
        with autocast(self.device, self.precision):
            values = self.program.validate()
        for module in self.program.modules.values():
            module.train()
        metrics.write("validate", self.step, self._describe(values))
        log.info("validation after step %d: loss %.4f", self.step, values["loss"])
        if values["loss"] < self.best["loss"]:
            self.best = {"loss": values["loss"], "step": self.step, "failures": 0}
            if self.settings.stopping.keep == "best":
                modules = {name: m.state_dict() for name, m in self.program.modules.items()}
                folder.save_best(self._best_name(), modules)
        else:
            self.best["failures"] += 1

    def _out_of_patience(self) -> bool:
        patience = self.settings.stopping.patience
        return patience is not None and self.best["failures"] >= patience

    def _describe(self, values: dict[str, float]) -> dict[str, float]:
        return {
            "epoch": self.step / self.program.batches_per_epoch,
            "time": round(self.totals["seconds"], 3),
            "learning_rate": self.optimiser.param_groups[0]["lr"],
            **values,
        }

    def _line(self, values: dict[str, float]) -> str:
        terms = " ".join(f"{name} {value:.4f}" for name, value in values.items())
        rate = self.totals["samples"] / max(self.totals["seconds"], 1e-9)
        left = self.totals["seconds"] / self.step * (self.steps - self.step)
        return f"step {self.step}/{self.steps} {terms} {rate:.0f} samples/s, {left:.0f} s left"

    def _finish(self, folder: StateFolder, metrics: MetricsLog, output: Path) -> None:
        """Write the model, then drop the state; killed in between, the next start does it again."""
        if self.settings.stopping.keep == "best" and self.best["step"]:
            best = torch.load(folder.path / self._best_name(), weights_only=True)
            for name, module in self.program.modules.items():
                module.load_state_dict(best[name])
        for module in self.program.modules.values():
            module.eval()
        facts = self._facts()
        with atomic_folder(output) as temporary:
            self.program.export(temporary)
            metrics.export(temporary)
            write_json(temporary / "run.json", {**self.identity, **facts})
        folder.clear()
        log.info("%s", in_words(facts))
        log.info("wrote %s", output)

    def _facts(self) -> dict[str, Any]:
        """What ``run.json`` says beside the identity."""
        seconds, samples = max(self.totals["seconds"], 1e-9), max(self.totals["samples"], 1)
        best = self.settings.stopping.keep == "best"
        parameters = sum(p.numel() for m in self.program.modules.values() for p in m.parameters())
        steps = Work(0.0, PARAMETER_BYTES * parameters * self.step / samples)
        return {
            "code_version": __version__,
            "torch_version": torch.__version__,
            "device": str(self.device),
            "precision": self.precision,
            "threads": torch.get_num_threads(),
            "steps": self.step,
            "epochs": self.step / self.program.batches_per_epoch,
            "kept_step": self.best["step"] if best else self.step,
            "seconds": round(self.totals["seconds"], 2),
            "samples_per_second": round(self.totals["samples"] / seconds, 2),
            "tokens_per_second": round(self.totals["tokens"] / seconds, 2),
            "peak_memory_mb": peak_memory_mb(self.device),
            **efficiency(self.work + steps, self.roof, samples, seconds, self.totals["data"]),
            "parameters": parameters,
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        }
