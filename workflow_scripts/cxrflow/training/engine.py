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
from cxrflow.files import atomic_folder, naming, read_json, write_json
from cxrflow.training.compilation import compile_modules
from cxrflow.training.data_clock import DataClock
from cxrflow.training.flops import flop_counter, peak_flops
from cxrflow.training.memory import explained, peak_memory_mb
from cxrflow.training.metrics_log import MetricsLog
from cxrflow.training.precision import autocast, choose_device, choose_kernels, choose_precision
from cxrflow.training.processes import ALONE, Processes
from cxrflow.training.program import Program
from cxrflow.training.settings import TrainingSettings
from cxrflow.training.state import StateFolder, differences, without_operations
from cxrflow.training.step_values import StepValues, not_finite
from cxrflow.training.update import Update

log = logging.getLogger("cxrflow")


class Engine:
    """Trains one program. ``identity`` is what must not change between two starts of a run:
    model name, seed, settings and data fingerprints. ``remedies`` say what to change when memory
    runs out. Of several ``processes`` the first one speaks, saves and writes for all."""

    def __init__(
        self,
        program: Program,
        settings: TrainingSettings,
        seed: int,
        identity: dict[str, Any],
        remedies: Sequence[str],
        processes: Processes = ALONE,
    ) -> None:
        self.program, self.settings, self.seed, self.identity = program, settings, seed, identity
        self.remedies, self.processes = remedies, processes
        if program.batches_per_epoch < 1:
            raise InputError("no training samples are left: the cohort's train split is empty")
        self.device = choose_device(settings.device)
        self.precision = choose_precision(settings.precision, self.device)
        self.steps = settings.steps or (settings.epochs or 0) * program.batches_per_epoch
        self.epochs = math.ceil(self.steps / program.batches_per_epoch)
        self.update = Update(
            program, settings, seed, self.steps, self.device, self.precision, processes
        )
        self.step = 0
        self.best: dict[str, Any] = {"loss": math.inf, "step": 0, "failures": 0}
        self.flops: int | None = None  # of one step, in all processes
        self.totals: dict[str, float] = {"seconds": 0.0, "samples": 0, "tokens": 0, "data": 0.0}
        self._stop = False
        self._unread: list[StepValues] = []
        self._recent: dict[str, list[float]] = {}

    def run(self, state_folder: str | Path, output: str | Path) -> None:
        """Train to the end, resuming what ``state_folder`` holds, and write ``output`` whole.

        An output that this very run has already written is left as it is: a kill between its
        last act and the end of the process must not cost the run.
        """
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))
        choose_kernels(self.settings.deterministic)
        folder = StateFolder(state_folder)
        with naming(folder.path), contextlib.ExitStack() as stack:
            self.processes.first(lambda: stack.enter_context(folder.locked()))
            if self._finished(Path(output)):
                log.info("%s is finished already; delete it to train again", output)
                self.processes.first(folder.clear)
                return
            # "auto" may mean other arithmetic on another node: a run stays with what it began in.
            # Each process draws its own dropout.
            machine = {
                "precision": self.precision,
                "device": self.device.type,
                "processes": self.processes.world,
            }
            identity = {**without_operations(self.identity), **machine}
            self.processes.first(lambda: folder.claim(identity))
            previous = signal.signal(signal.SIGTERM, self._ask_to_stop)
            try:
                with explained(self.identity["model"], self.device, self.remedies):
                    self._resume(folder)
                    if self.settings.compile:
                        compile_modules(self.program.modules, self.device)
                    with self._metrics(folder) as metrics:
                        self._loop(folder, metrics)
                        self.processes.first(lambda: self._finish(folder, metrics, Path(output)))
            finally:
                signal.signal(signal.SIGTERM, previous)

    def _metrics(self, folder: StateFolder) -> contextlib.AbstractContextManager[MetricsLog | None]:
        if not self.processes.is_first:
            return contextlib.nullcontext()
        return contextlib.closing(MetricsLog(folder.path, self.step))

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
        # The first process leaves out what is damaged, the others then find the same state.
        state = self.processes.first(folder.load)
        if not self.processes.is_first:
            state = folder.load()
        if state is None:
            log.info("starting: %d steps on %s in %s", self.steps, self.device, self.precision)
            return
        for name, module in self.program.modules.items():
            module.load_state_dict(state["modules"][name])
        self.update.optimiser.load_state_dict(state["optimiser"])
        self.step, self.best, self.flops = state["step"], state["best"], state["flops"]
        self.totals |= state["totals"]
        log.info("resuming at step %d of %d", self.step, self.steps)

    def _save(self, folder: StateFolder, metrics: MetricsLog | None) -> None:
        if metrics is None:
            return
        metrics.flush()
        modules = {name: module.state_dict() for name, module in self.program.modules.items()}
        counters = {
            "step": self.step,
            "best": self.best,
            "flops": self.flops,
            "totals": self.totals,
        }
        content = {"modules": modules, "optimiser": self.update.optimiser.state_dict(), **counters}
        folder.save(self.step, content)
        for path in folder.path.glob("best-*.pt"):
            if path.name != self._best_name():
                path.unlink()

    def _best_name(self) -> str:
        return f"best-{self.best['step']:09d}.pt"

    def _loop(self, folder: StateFolder, metrics: MetricsLog | None) -> None:
        settings, per_epoch = self.settings, self.program.batches_per_epoch
        every = per_epoch * math.ceil(self.epochs / settings.validations)
        clock = DataClock(self.program.modules.values())
        saved = logged = begun = time.monotonic()
        before = dict(self.totals)
        bar = tqdm(
            total=self.steps,
            initial=self.step,
            desc=self.identity["model"],
            unit="step",
            disable=metrics is None or not sys.stderr.isatty(),
        )
        for module in self.program.modules.values():
            module.train()
        while self.step < self.steps and not self._out_of_patience():
            values, samples, tokens = self._update(clock)
            self._unread.append(values)
            self.step += 1
            bar.update()
            now = time.monotonic()
            late = now - saved > settings.save_minutes * 60
            samples, tokens, stop, save = self._agree(samples, tokens, self._stop, late)
            self.totals["samples"] += samples
            self.totals["tokens"] += tokens
            self.totals["seconds"] = before["seconds"] + now - begun
            self.totals["data"] = before["data"] + clock.seconds
            last = self.step == self.steps
            show, validate = (last or self.step % n == 0 for n in (settings.log_steps, every))
            self._read(all_of_them=show or validate or bool(stop or save))
            if show:
                means = {name: sum(items) / len(items) for name, items in self._recent.items()}
                bar.set_postfix(loss=f"{means['loss']:.3f}")
                self._record(metrics, "train", means)
                self._recent = {}
                if metrics is not None and bar.disable and (now - logged > 10 or last):
                    log.info("%s", self._line(means))
                    logged = now
            if validate:
                self._validate(folder, metrics)
            if stop:
                self._save(folder, metrics)
                raise self.processes.one_voice(
                    InterruptedRun(
                        f"state of step {self.step} of {self.steps} saved in {folder.path}; "
                        "start the same command again to go on"
                    )
                )
            if save:
                self._save(folder, metrics)
                saved = now
        bar.close()
        clock.close()
        self._save(folder, metrics)

    def _update(self, clock: DataClock) -> tuple[StepValues, int, int]:
        """One step; the FLOPs of a run's first one are counted."""
        if self.flops is not None:
            return self.update(self.step, clock)
        with flop_counter(self.settings.compile) as counter:
            result = self.update(self.step, clock)
        self.flops = self.processes.total(counter.get_total_flops())
        return result

    def _agree(self, samples: int, tokens: int, stop: bool, save: bool) -> list[int]:
        """Counts over all processes; whether one is asked to stop; whether the first would save."""
        own = [samples, tokens, int(stop), int(save and self.processes.is_first)]
        numbers: list[int] = self.processes.sum(torch.tensor(own)).tolist()
        return numbers

    def _read(self, all_of_them: bool) -> None:
        """Take in the values of steps; those of a GPU's last step only when they are wanted."""
        left = 0 if all_of_them or self.device.type == "cpu" else 1
        while len(self._unread) > left:
            one = self._unread.pop(0)
            values = one.read()
            name = not_finite(values)
            if name is not None:
                ids = self.program.batch_ids(*divmod(one.step, self.program.batches_per_epoch))
                raise self.processes.one_voice(
                    InputError(
                        f"{self.identity['model']}: term '{name}' is {values[name]} at step "
                        f"{one.step}; the batch begins with samples {', '.join(list(ids)[:20])}"
                    )
                )
            for name, value in values.items():
                self._recent.setdefault(name, []).append(value)

    def _record(self, metrics: MetricsLog | None, split: str, values: dict[str, float]) -> None:
        if metrics is not None:
            metrics.write(split, self.step, self._describe(values))

    @torch.no_grad()
    def _validate(self, folder: StateFolder, metrics: MetricsLog | None) -> None:
        for module in self.program.modules.values():
            module.eval()
        torch.manual_seed(self.seed)
        with autocast(self.device, self.precision):
            values = self.program.validate()
        for module in self.program.modules.values():
            module.train()
        self._record(metrics, "validate", values)
        log.info("validation after step %d: loss %.4f", self.step, values["loss"])
        if values["loss"] < self.best["loss"]:
            self.best = {"loss": values["loss"], "step": self.step, "failures": 0}
            if self.settings.stopping.keep == "best" and metrics is not None:
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
            "learning_rate": self.update.optimiser.param_groups[0]["lr"],
            **values,
        }

    def _line(self, values: dict[str, float]) -> str:
        terms = " ".join(f"{name} {value:.4f}" for name, value in values.items())
        rate = self.totals["samples"] / max(self.totals["seconds"], 1e-9)
        left = self.totals["seconds"] / self.step * (self.steps - self.step)
        return f"step {self.step}/{self.steps} {terms} {rate:.0f} samples/s, {left:.0f} s left"

    def _finish(self, folder: StateFolder, metrics: MetricsLog | None, output: Path) -> None:
        """Write the model, then drop the state; killed in between, the next start does it again."""
        if self.settings.stopping.keep == "best" and self.best["step"]:
            best = torch.load(folder.path / self._best_name(), weights_only=True)
            for name, module in self.program.modules.items():
                module.load_state_dict(best[name])
        for module in self.program.modules.values():
            module.eval()
        facts = self._facts()
        with atomic_folder(output, "model") as temporary:
            self.program.export(temporary)
            if metrics is not None:
                metrics.export(temporary)
            write_json(temporary / "run.json", {**self.identity, **facts})
        folder.clear()
        log.info(
            "%.4g samples/s, %.4g TFLOP/s%s; waited for data %.1f %% of the time; %d MB at most",
            facts["samples_per_second"],
            facts["flops_per_second"] / 1e12,
            "" if facts["mfu"] is None else f" (MFU {facts['mfu']:.1%})",
            facts["data_wait_share"] * 100,
            facts["peak_memory_mb"],
        )
        log.info("wrote %s", output)

    def _facts(self) -> dict[str, Any]:
        """What ``run.json`` says beside the identity."""
        seconds = max(self.totals["seconds"], 1e-9)
        best = self.settings.stopping.keep == "best"
        parameters = sum(p.numel() for m in self.program.modules.values() for p in m.parameters())
        peak = peak_flops(self.device, self.precision)
        rate = (self.flops or 0) * self.step / seconds
        return {
            "code_version": __version__,
            "torch_version": torch.__version__,
            "device": str(self.device),
            "precision": self.precision,
            "processes": self.processes.world,
            "threads": torch.get_num_threads(),
            "steps": self.step,
            "epochs": self.step / self.program.batches_per_epoch,
            "kept_step": self.best["step"] if best else self.step,
            "seconds": round(self.totals["seconds"], 2),
            "samples_per_second": round(self.totals["samples"] / seconds, 2),
            "tokens_per_second": round(self.totals["tokens"] / seconds, 2),
            "peak_memory_mb": peak_memory_mb(self.device),
            "data_wait_share": round(self.totals["data"] / seconds, 4),
            "flops_per_step": self.flops,
            "flops_per_second": float(f"{rate:.4g}"),
            "peak_flops_per_second": None if peak is None else peak * self.processes.world,
            "mfu": None if peak is None else round(rate / (peak * self.processes.world), 4),
            "parameters": parameters,
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        }
