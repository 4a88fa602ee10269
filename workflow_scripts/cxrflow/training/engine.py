"""The training loop: exact under failure, the same for every program (design, section 5).

Killed at any instant and started again, a run ends with the weights of an undisturbed one, bit for
bit on a CPU: batches, masks, augmentation and dropout are functions of (seed, step) alone, and what
is left (weights, a method's own state, optimiser, best value, plateaus, counters) is in the state.
SIGTERM saves and exits with 75. The step itself is in ``training/step.py``.
"""

import contextlib
import logging
import math
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import nn
from tqdm import tqdm

from cxr_files.atomic import atomic_folder, naming, read_json, write_json
from cxr_files.errors import InputError, InterruptedRun
from cxr_files.ids import shown
from cxr_files.outputs import require_own_folder
from cxrflow import __version__
from cxrflow.kinds import REHEARSAL
from cxrflow.training.compilation import compile_modules
from cxrflow.training.memory import explained, keep_freed_memory, left_by_steps, peak_memory_mb
from cxrflow.training.metrics_log import MetricsLog
from cxrflow.training.misfits import require_best, require_state
from cxrflow.training.monitor import Monitor
from cxrflow.training.precision import autocast, choose_device, choose_kernels, choose_precision
from cxrflow.training.processes import ALONE, Processes
from cxrflow.training.program import Program
from cxrflow.training.settings import TrainingSettings
from cxrflow.training.speed import flop_counter, speed, speed_in_words
from cxrflow.training.state import StateFolder, differences, without_operations
from cxrflow.training.step import DataClock, Step, StepValues

log = logging.getLogger("cxrflow")


class Engine:
    """Trains one program. ``identity`` is what must not change between two starts of a run:
    model name, seed, settings and data fingerprints. ``memory_advice`` says what to change when
    memory runs out. Of several ``processes`` rank 0 logs, saves and writes for all. ``code`` is a
    digest of the code: with another one a run goes on, and says so."""

    def __init__(
        self,
        program: Program,
        settings: TrainingSettings,
        seed: int,
        identity: dict[str, Any],
        memory_advice: Sequence[str],
        processes: Processes = ALONE,
        code: str | None = None,
    ) -> None:
        self.program, self.settings, self.seed, self.identity = program, settings, seed, identity
        self.memory_advice, self.processes = memory_advice, processes
        self.codes = [code] if code else []  # that have trained this run, in their order
        per_epoch = program.batches_per_epoch
        if per_epoch < 1:
            raise InputError("no training samples are left: the cohort's train split is empty")
        self.device = choose_device(settings.device, processes)
        self.precision = choose_precision(settings.precision, self.device)
        self.steps = settings.steps or (settings.epochs or 0) * per_epoch
        epochs = math.ceil(self.steps / per_epoch)
        interval = per_epoch * math.ceil(epochs / settings.validations)
        self.validate_steps = settings.validate_steps or interval
        self.train_step = Step(
            program, settings, seed, self.steps, self.device, self.precision, processes
        )
        self.step = 0  # how many are done
        self.monitor = Monitor()
        self.metrics_digest: str | None = None  # of the log, when the state was saved
        self.flops: int | None = None  # of one step, in all processes
        self.totals: dict[str, float] = {"seconds": 0.0, "samples": 0, "tokens": 0, "data": 0.0}
        self._stop = False
        self._unread: list[StepValues] = []
        self._recent: dict[str, list[float]] = {}  # since the last line of the log

    def run(self, state_folder: str | Path, output: str | Path) -> None:
        """Train to the end, resuming what ``state_folder`` holds, and write ``output`` whole.

        An output that this very run has already written is left as it is: a kill between its
        last act and the end of the process must not cost the run.
        """
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))
        choose_kernels(self.settings.deterministic, self.program.steady)
        keep_freed_memory()
        require_own_folder(Path(output), "model")  # now, and not after a week of training
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
                with explained(self.identity["model"], self.device, self.memory_advice):
                    self._resume(folder)
                    if self.settings.compile:
                        compile_modules(self.program.modules, self.device)
                    with self._metrics(folder) as metrics:
                        self._loop(folder, metrics)
                        self.processes.first(lambda: self._finish(folder, metrics, Path(output)))
            finally:
                self.train_step.close()
                signal.signal(signal.SIGTERM, previous)

    def _metrics(self, folder: StateFolder) -> contextlib.AbstractContextManager[MetricsLog | None]:
        if not self.processes.is_first:
            return contextlib.nullcontext()
        return contextlib.closing(MetricsLog(folder.path, self.step, self.metrics_digest))

    def _finished(self, output: Path) -> bool:
        path = output / "run.json"
        if not path.is_file():
            return False
        run = read_json(path)
        identity = {key: run.get(key) for key in self.identity}
        return not differences(without_operations(identity), without_operations(self.identity))

    def _ask_to_stop(self, number: int, frame: object) -> None:
        self._stop = True

    def _resume(self, folder: StateFolder) -> None:
        # The first process leaves out what is damaged, the others then find the same state.
        state = self.processes.first(folder.load)
        if not self.processes.is_first:
            state = folder.load()
        if state is not None:
            optimiser = self.train_step.optimiser
            require_state(state, self._content(None), optimiser, folder.path)
        self.processes.first(lambda: folder.drop_checkpoints(0 if state is None else state["step"]))
        if state is None:
            log.info("starting: %d steps on %s in %s", self.steps, self.device, self.precision)
            return
        self._take_codes(state.get("codes") or ["not recorded"], state["step"], folder)
        self._load_modules(state["modules"])
        self.train_step.optimiser.load_state_dict(state["optimiser"])
        self.step, self.flops, self.totals = state["step"], state.get("flops"), state["totals"]
        self.monitor, self._recent = Monitor(**state["monitor"]), state["recent"]
        self.program.validation_state = state.get("validation", {})
        self.metrics_digest = state.get("metrics")
        if self.settings.stopping.keep == "best" and self.monitor.step:
            self._best(folder)  # damage would only be found at the end
        self.processes.first(lambda: folder.keep_best(self.monitor.step))
        log.info("resuming at step %d of %d", self.step, self.steps)

    def _take_codes(self, before: list[str], step: int, folder: StateFolder) -> None:
        """Follow the code that a state was made by: days of training outweigh an edit."""
        if self.codes == before[-1:]:
            self.codes = before
        elif self.codes:
            log.warning(
                "%s: its state of step %d was made by other code (%s, now %s); going on with it. "
                "Delete the folder to start afresh",
                *(folder.path, step, before[-1], self.codes[0]),
            )
            self.codes = [*before, *self.codes]

    def _save(self, folder: StateFolder, metrics: MetricsLog | None) -> None:
        if metrics is None:
            return
        folder.save(self.step, self._content(metrics.flush()))
        folder.keep_best(self.monitor.step)

    def _content(self, metrics: str | None) -> dict[str, Any]:
        """What a state holds; ``metrics``: the digest of the log."""
        return {
            "metrics": metrics,
            "modules": self._module_states(),
            "optimiser": self.train_step.optimiser.state_dict(),
            "step": self.step,
            "codes": self.codes,
            "flops": self.flops,
            "totals": self.totals,
            "recent": self._recent,
            "monitor": asdict(self.monitor),
            "validation": self.program.validation_state,
        }

    def _modules(self) -> list[nn.Module]:
        return list(self.program.modules.values())

    def _module_states(self) -> dict[str, dict[str, Any]]:
        return {name: module.state_dict() for name, module in self.program.modules.items()}

    def _best(self, folder: StateFolder) -> dict[str, Any]:
        """The best weights so far, of a run that has some."""
        modules = folder.load_best(self.monitor.step)
        require_best(modules, self._module_states(), folder.path)
        return modules

    def _load_modules(self, states: dict[str, dict[str, Any]]) -> None:
        for name, module in self.program.modules.items():
            module.load_state_dict(states[name])

    def _loop(self, folder: StateFolder, metrics: MetricsLog | None) -> None:
        settings, monitor = self.settings, self.monitor
        clock = DataClock(self._modules())
        saved = logged = begun = time.monotonic()
        before, settled = dict(self.totals), self.device.type != "cuda"
        bar = tqdm(
            total=self.steps,
            initial=self.step,
            desc=self.identity["model"],
            unit="step",
            disable=metrics is None or not sys.stderr.isatty(),
        )
        for module in self._modules():
            module.train()
        while self.step < self.steps and not monitor.out_of_patience(settings):
            with self._counting_flops():
                values, samples, tokens = self.train_step(self.step, clock, monitor.plateaus)
            self._unread.append(values)
            self.step += 1
            if not settled:
                self.program.settle(left_by_steps(self.device))
                settled = True
            bar.update()
            now = time.monotonic()
            late = self.processes.is_first and now - saved > settings.save_minutes * 60
            # Over all processes; one is asked to stop, the first would save.
            counts = (samples, tokens, int(self._stop), int(late))
            samples, tokens, stop, save = self.processes.totals(*counts)
            self.totals["samples"] += samples
            self.totals["tokens"] += tokens
            self.totals["seconds"] = before["seconds"] + now - begun
            self.totals["data"] = before["data"] + clock.seconds
            last = self.step == self.steps
            show = last or self.step % settings.log_steps == 0
            validate = last or self.step % self.validate_steps == 0
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

    @contextlib.contextmanager
    def _counting_flops(self) -> Iterator[None]:
        """Around a step; those of a run's first one are counted, without terms that begin later."""
        if self.flops is not None:
            yield
            return
        with flop_counter(self.settings.compile) as counter:
            yield
        (self.flops,) = self.processes.totals(counter.get_total_flops())

    def _read(self, all_of_them: bool) -> None:
        """Take in the values of steps; those of a GPU's last step only when they are wanted."""
        pending = 0 if all_of_them or self.device.type == "cpu" else 1
        while len(self._unread) > pending:
            step = self._unread.pop(0)
            values = step.read()
            name = next((name for name, x in values.items() if not math.isfinite(x)), None)
            if name is not None:
                epoch, batch = divmod(step.number, self.program.batches_per_epoch)
                ids = ", ".join(shown(list(self.program.batch_ids(epoch, batch))[:20]))
                raise self.processes.one_voice(
                    InputError(
                        f"{self.identity['model']}: term '{name}' is {values[name]} at step "
                        f"{step.number}; the batch "
                        + (f"begins with samples {ids}" if ids else f"is {batch} of epoch {epoch}")
                    )
                )
            for name, value in values.items():
                self._recent.setdefault(name, []).append(value)

    def _record(self, metrics: MetricsLog | None, split: str, values: dict[str, float]) -> None:
        if metrics is None:
            return
        place = {
            "epoch": self.step / self.program.batches_per_epoch,
            "time": round(self.totals["seconds"], 3),
            "data_wait": round(self.totals["data"], 3),
            "learning_rate": self.train_step.optimiser.param_groups[0]["lr"],
        }
        metrics.write(split, self.step, place | values)

    @torch.no_grad()
    def _validate(self, folder: StateFolder, metrics: MetricsLog | None) -> None:
        for module in self._modules():
            module.eval()
        torch.manual_seed(self.seed)
        with autocast(self.device, self.precision):
            values = self.program.validate()
        self._record(metrics, "validate", values)
        message = ", ".join(f"{name} {value:.4f}" for name, value in values.items())
        log.info("validation after step %d: %s", self.step, message)
        try:
            better = self.monitor.take(values, self.step, self.settings)
        except InputError as error:
            raise self.processes.one_voice(error) from None
        keep_best = self.settings.stopping.keep == "best"
        if better or not keep_best:
            self.monitor.record = self.program.validation_record()
        if better and keep_best and metrics is not None:
            folder.save_best(self.step, self._module_states())
        interval = self.settings.checkpoint_validations
        if interval is not None and self.step % (interval * self.validate_steps) == 0:
            self.processes.first(lambda: self._checkpoint(folder.checkpoint(self.step), values))
        for module in self._modules():
            module.train()

    def _checkpoint(self, path: Path, values: dict[str, float]) -> None:
        """The model as it is now, for itself."""
        with atomic_folder(path, "model") as temporary:
            self.program.export(temporary)
            finite_values = {name: x if math.isfinite(x) else None for name, x in values.items()}
            write_json(temporary / "validation.json", {"step": self.step, **finite_values})

    def _line(self, values: dict[str, float]) -> str:
        # A line has no room for what a term counts by class or reason; metrics.jsonl has it.
        terms = " ".join(f"{k} {value:.4f}" for k, value in values.items() if k.count("/") < 2)
        rate = self.totals["samples"] / max(self.totals["seconds"], 1e-9)
        remaining = self.totals["seconds"] / self.step * (self.steps - self.step)
        return f"step {self.step}/{self.steps} {terms} {rate:.0f} samples/s, {remaining:.0f} s left"

    def _finish(self, folder: StateFolder, metrics: MetricsLog | None, output: Path) -> None:
        """Write the model, then drop the state; killed in between, the next start does it again."""
        if self.settings.stopping.keep == "best" and self.monitor.step:
            self._load_modules(self._best(folder))
        for module in self._modules():
            module.eval()
        facts = self._facts()
        with atomic_folder(output, "model") as temporary:
            self.program.export(temporary)
            if folder.checkpoints.is_dir():
                shutil.copytree(folder.checkpoints, temporary / folder.checkpoints.name)
            if metrics is not None:
                metrics.export(temporary)
            write_json(temporary / "run.json", {**self.identity, **facts})
        folder.clear()
        log.info("%s", speed_in_words(facts))
        log.info("wrote %s", output)

    def _facts(self) -> dict[str, Any]:
        """The entries of ``run.json`` beside the identity."""
        best, world = self.settings.stopping.keep == "best", self.processes.world
        return {
            "code_version": __version__,
            "codes": self.codes,
            "torch_version": torch.__version__,
            "device": str(self.device),
            "precision": self.precision,
            "processes": world,
            "threads": torch.get_num_threads(),
            "steps": self.step,
            "epochs": self.step / self.program.batches_per_epoch,
            "kept_step": (best and self.monitor.step) or self.step,
            **self.monitor.record,
            "seconds": round(self.totals["seconds"], 2),
            "parameters": sum(p.numel() for m in self._modules() for p in m.parameters()),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "peak_memory_mb": peak_memory_mb(self.device),
            **speed(self.totals, self.step, self.flops, world, self.device, self.precision),
            **({"rehearsal": True} if os.environ.get(REHEARSAL) else {}),
        }
