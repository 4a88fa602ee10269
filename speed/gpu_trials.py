"""What could make the papers' trainings faster on one GPU: each gain is tried, in a table.

    python -m speed.gpu_trials --minutes 9

A trial is a training as ``speed.training_cost`` runs it, some steps at its paper's size on invented
data, with other settings under ``training`` or with tricks applied from outside
(``speed.gpu_tricks``). Trials stand in blocks, the ones worth most first. A row goes to
``gpu_trials.jsonl`` as soon as it is there, and ``gpu_trials.md`` is written anew: seconds a step,
how many times as fast as the same training as it is, samples a second, MFU, peak memory, and by how
much the losses of the first steps differ from those of the training as it is.

A trial that fails is a row with its error, and the next one goes on. What stands in the file by the
same code, on the same machine, is not run again, so the work can be done in pieces; a trial in
which the process ended twice is left out. To run a trial again, delete its line.
"""

import argparse
import gc
import inspect
import json
import logging
import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import torch

from cxr_files.atomic import fingerprint
from cxr_files.errors import InterruptedRun
from cxrflow.config import load_config
from cxrflow.config.models import Models
from cxrflow.names import paper_of
from cxrflow.programs.source_code import code_digest
from cxrflow.training.engine import Engine
from cxrflow.training.state import StateFolder
from cxrflow.training.step import StepValues
from speed import gpu_tricks as tricks
from speed import kernel_profile, training_cost
from speed.gpu_tricks import Trick
from speed.race import machine
from speed.training_cost import MODELS, Invented, cost

log = logging.getLogger("cxrflow")
BASE = "base"
WARM_UP, GRAPH_WARM_UP = 4, 16  # steps; a CUDA graph is recorded for each length of the texts
PROFILED = 2  # steps
TRIES = 2  # of a trial in which the process ends
FIRST = 4  # steps whose losses are compared

PHASE2, SIMCLR, BIOVIL = "biovil/cxr_bert_phase2", "biovil/simclr", "biovil/biovil"
GLORIA, TEMPORAL, DECODER = "biovil/gloria", "biovil_t/biovil_t", "biovil_t/report_biovil_t"
CONVIRT, SMALL_SIMCLR, DECLIP = "convirt/convirt", "convirt/simclr", "low_data/ours"
MGCA, CUTMIX = "medcutmix/mgca", "medcutmix/medcutmix_50"
COMPILED = {"compile": True}
#: What tricks are made of.
MEANS = (tricks.Calls, tricks.replaced, tricks.compiled, tricks.compiler_options)
DROPOUT, NARROW = "other dropout", "bf16 for float32"
TF32 = "TF32 for float32"


class Trial(NamedTuple):
    """A named variant of a model's training."""

    name: str
    model: str
    training: Mapping[str, Any] = {}  # laid over the settings' key `training`
    tricks: Sequence[Trick] = ()
    changes: str = ""  # what it changes in the numbers; nothing: it may only round otherwise
    warm_up: int = WARM_UP
    profiled: bool = False


class Block(NamedTuple):
    """Trials that answer one question, and the minutes that all of them may take."""

    number: int
    name: str
    minutes: float
    trials: Sequence[Trial]


def bases(*models: str) -> list[Trial]:
    """The trainings as they are."""
    return [Trial(BASE, model) for model in models]


SEVEN = (PHASE2, BIOVIL, TEMPORAL, MGCA, CUTMIX, DECLIP, CONVIRT)
WIDE_COMPILER = "compiled, own random numbers"
NARROW_COMPILER = f"{WIDE_COMPILER}, norms in bf16"
NARROWED = {
    "training": COMPILED,
    "tricks": (tricks.own_random, tricks.norms_in_bf16),
    "changes": f"{DROPOUT}, {NARROW}",
}


def _small_batches(model: str) -> Iterator[Trial]:
    """Launches are what small batches wait for."""
    graphs = {"training": COMPILED, "warm_up": GRAPH_WARM_UP}
    few = (tricks.one_length, tricks.cuda_graphs)
    yield Trial(BASE, model)
    yield Trial("compiled", model, COMPILED)
    yield Trial("CUDA graphs", model, tricks=(tricks.cuda_graphs,), **graphs)
    yield Trial("CUDA graphs, few lengths", model, tricks=few, changes=DROPOUT, **graphs)
    alone = (*few, tricks.no_thread)
    yield Trial(
        "CUDA graphs, few lengths, no thread", model, tricks=alone, changes=DROPOUT, **graphs
    )


BLOCKS = (
    Block(
        1,
        "base and profile",
        6,
        [
            *bases(*SEVEN),
            *(Trial("base again", model) for model in (PHASE2, BIOVIL)),
            *(Trial("profile", model, profiled=True) for model in SEVEN),
        ],
    ),
    Block(2, "what never ran on a GPU", 1, bases(MGCA, CUTMIX, DECODER)),
    Block(
        3,
        "compiled",
        7,
        [
            *bases(BIOVIL, TEMPORAL, MGCA, CUTMIX),
            *(Trial("compiled", model, COMPILED) for model in (BIOVIL, MGCA, CUTMIX)),
            Trial("compiled", TEMPORAL, {}, (tricks.compiled_for_any_number,)),
            Trial(WIDE_COMPILER, BIOVIL, COMPILED, (tricks.own_random,), DROPOUT),
            *(Trial(NARROW_COMPILER, model, **NARROWED) for model in (BIOVIL, MGCA)),
            Trial("products in TF32", BIOVIL, tricks=(tricks.tf32_products,), changes=TF32),
        ],
    ),
    Block(
        4,
        "batches prepared ahead",
        3,
        [
            trial
            for model in (BIOVIL, SMALL_SIMCLR, TEMPORAL, PHASE2)
            for trial in (Trial(BASE, model), Trial("no thread", model, tricks=(tricks.no_thread,)))
        ],
    ),
    Block(
        5,
        "phase II",
        6,
        [
            *bases(PHASE2),
            Trial("compiled", PHASE2, COMPILED),
            Trial("compiled, one length", PHASE2, COMPILED, (tricks.one_length,), DROPOUT),
            Trial(
                f"{WIDE_COMPILER}, one length",
                PHASE2,
                COMPILED,
                (tricks.one_length, tricks.own_random),
                DROPOUT,
            ),
            Trial("norms in bf16", PHASE2, tricks=(tricks.norms_in_bf16,), changes=NARROW),
            Trial(
                f"{NARROW_COMPILER}, one length",
                PHASE2,
                COMPILED,
                (tricks.one_length, tricks.own_random, tricks.norms_in_bf16),
                f"{DROPOUT}, {NARROW}",
            ),
            Trial("cuDNN's attention", PHASE2, tricks=(tricks.cudnn_attention,), changes=DROPOUT),
            Trial(
                f"{NARROW_COMPILER}, one length, cuDNN's attention",
                PHASE2,
                COMPILED,
                (
                    *(tricks.one_length, tricks.own_random),
                    *(tricks.norms_in_bf16, tricks.cudnn_attention),
                ),
                f"{DROPOUT}, {NARROW}",
            ),
            Trial("products in TF32", PHASE2, tricks=(tricks.tf32_products,), changes=TF32),
        ],
    ),
    Block(
        6,
        "local alignment",
        5,
        [
            trial
            for model in (GLORIA, TEMPORAL)
            for trial in (
                Trial(BASE, model),
                Trial("alignment in TF32", model, {}, (tricks.alignment_in_tf32,), TF32),
                Trial("alignment in bf16", model, {}, (tricks.alignment_in_bf16,), NARROW),
                Trial("alignment compiled", model, {}, (tricks.alignment_compiled,)),
            )
        ],
    ),
    Block(7, "small batches", 6, [*_small_batches(CONVIRT), *_small_batches(DECLIP)]),
    Block(
        8,
        "SimCLR at 512 pixels",
        3,
        [
            *bases(SIMCLR),
            Trial("compiled", SIMCLR, COMPILED),
            Trial("augmentation compiled", SIMCLR, {}, (tricks.compiled_augmentation,)),
            Trial("compiled, augmentation too", SIMCLR, COMPILED, (tricks.compiled_augmentation,)),
            Trial("products in TF32", SIMCLR, tricks=(tricks.tf32_products,), changes=TF32),
        ],
    ),
    Block(
        9,
        "where images lie",
        2,
        [
            trial
            for model in (BIOVIL, SIMCLR)
            for trial in (
                Trial(BASE, model),
                Trial("read by batches", model, tricks=(tricks.images_read_by_batches,)),
            )
        ],
    ),
)


class Bench(NamedTuple):
    """Where and how trials are run."""

    config: Models
    invented: Invented
    work: Path
    steps: int
    changes: Mapping[str, Any]  # laid over `training` of all

    def start(self, model: str) -> None:
        """Make what ``model`` starts from, where it is not there: shapes count, values do not."""
        models = self.config.models
        for parent in models[model].parents.values():
            kind = models[parent].recipe.program
            alike = [n for n in MODELS if n in models and models[n].recipe.program == kind]
            # Of texts any will do: all have BERT's sizes.
            start = parent if parent in MODELS and kind != "text" else next(iter(alike), None)
            if start is None or (self.starts / start).is_dir():
                continue
            self.start(start)
            few = {"batch_size": 16, "accumulate": 1, **self.changes}
            with steps_alone():
                cost(self.config, start, self.invented, self.starts, 1, 1, few, self.starts)

    @property
    def starts(self) -> Path:
        return self.work / "starts"

    def run(self, trial: Trial) -> dict[str, Any]:
        """The figures of a trial. RuntimeError if a trick of it was never reached."""
        self.start(trial.model)
        folder = self.work / "trial"
        shutil.rmtree(folder, ignore_errors=True)
        changes = {**self.changes, **trial.training}
        steps = PROFILED if trial.profiled else self.steps
        with ExitStack() as stack:
            stack.enter_context(steps_alone())
            calls = {apply: stack.enter_context(apply()) for apply in trial.tricks}
            losses = stack.enter_context(recorded_losses())
            if trial.profiled:
                recorder = kernel_profile.profiled(trial.warm_up, PROFILED)
                profile = stack.enter_context(recorder)
            row = cost(
                *(self.config, trial.model, self.invented, folder),
                *(steps, trial.warm_up, changes, self.starts),
            )
        for apply, made in calls.items():
            if not made.number:
                raise RuntimeError(f"{apply.__name__}: this training never calls what it replaces")
        row["losses"] = losses
        if trial.profiled:
            row["profile"] = profile.summary
        return row

    def code(self, trial: Trial) -> str:
        """Digest of what the figures of a trial hang on."""
        sources = [inspect.getsource(apply) for apply in (*trial.tricks, *MEANS)]
        settings = self.config.models[trial.model].settings.model_dump(mode="json")
        variant = [trial.name, trial.training, trial.warm_up, trial.profiled]
        where = {key: machine()[key] for key in ("gpu", "cpu", "torch")}
        return fingerprint(
            [package_code(), sources, settings, variant, self.steps, self.changes, where]
        )


@cache
def package_code() -> str:
    """Digest of the code of trainings, and of what runs them here."""
    parts = ("pretrain", "training", "encoders", "objectives", "images", "compute", "text")
    code = code_digest(*(f"{part}/**/*.py" for part in parts))
    return fingerprint([code, *map(inspect.getsource, (training_cost, kernel_profile))])


@contextmanager
def steps_alone() -> Iterator[None]:
    """No validation and no saved state, which would take longer than the steps of a trial."""

    def nothing(*given: Any) -> None:
        pass

    states = patch.multiple(StateFolder, save=nothing, keep_best=nothing)
    with patch.object(Engine, "_validate", nothing), states:
        yield


@contextmanager
def recorded_losses() -> Iterator[list[float]]:
    """The losses of a training's first steps, in their order."""
    losses: list[float] = []
    read = StepValues.read

    def reading(values: StepValues) -> dict[str, float]:
        found = read(values)
        if len(losses) < FIRST:
            losses.append(found["loss"])
        return found

    with patch.object(StepValues, "read", reading):
        yield losses


class Ledger:
    """The rows of trials, in a file of JSON lines and in a table."""

    def __init__(self, folder: Path) -> None:
        self.path, self.table = folder / "gpu_trials.jsonl", folder / "gpu_trials.md"
        folder.mkdir(parents=True, exist_ok=True)
        text = self.path.read_text(encoding="utf-8") if self.path.is_file() else ""
        # What a killed process was writing is no row.
        ended = text[: text.rfind("\n") + 1]
        if ended != text:
            self.path.write_text(ended, encoding="utf-8")
        self.rows: list[dict[str, Any]] = [json.loads(line) for line in ended.splitlines()]

    def add(self, row: dict[str, Any]) -> None:
        """Write a row, and the table anew."""
        self.rows.append(row)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        self.table.write_text(markdown(self.latest(), machine()), encoding="utf-8")

    def settled(self, code: str) -> bool:
        """Whether the trial of this code has ended, or has ended the process too often."""
        lines = [row for row in self.rows if row["code"] == code]
        return any("begun" not in row for row in lines) or len(lines) >= TRIES

    def latest(self) -> dict[tuple[str, str], dict[str, Any]]:
        """The last row of each trial by model and name; of one without an end, its beginning."""
        return {(row["model"], row["trial"]): row for row in self.rows}


def compared(row: Mapping[str, Any], base: Mapping[str, Any] | None) -> dict[str, float | None]:
    """How many times as fast as the training as it is, MFU, and the largest relative difference of
    the first steps' losses. None where the training as it is has not been timed.

    The work of a training is what it is without tricks: padding that one adds is none, and the
    counter of FLOPs does not know all kernels.
    """
    if base is None or "seconds_per_step" not in base:
        return {"ratio": None, "mfu": row["mfu"], "difference": None}
    pairs = list(zip(row["losses"], base["losses"], strict=False))
    difference = max(abs(one - other) / max(abs(other), 1e-12) for one, other in pairs)
    ratio = base["seconds_per_step"] / row["seconds_per_step"]
    return {"ratio": ratio, "mfu": base["mfu"] and base["mfu"] * ratio, "difference": difference}


def in_words(row: Mapping[str, Any], base: Mapping[str, Any] | None) -> str:
    """A row as a line of the console."""
    title = f"{row['block']} {row['model']}, {row['trial']}"
    if "failed" in row:
        return f"{title}: FAILED {row['failed']}"
    there = compared(row, base)
    line = (
        f"{title}: {row['seconds_per_step']:.4f} s a step, {_number(there['ratio'], '.2f')} times "
        f"as fast, {row['samples_per_second']:.1f} samples/s, MFU {_number(there['mfu'], '.1%')}, "
        f"{row['peak_memory_gb']:.1f} GB, losses differ by {_number(there['difference'], '.0e')}"
    )
    if (profile := row.get("profile")) is None:
        return line
    shares = ", ".join(f"{kind} {took:g}" for kind, took in profile["milliseconds"].items())
    return (
        f"{title}: busy {profile['busy_share']:.0%}, {profile['launches']} launches a step; "
        f"ms a step: {shares}"
    )


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else f"{value:{form}}"


def markdown(latest: Mapping[tuple[str, str], Mapping[str, Any]], where: Mapping[str, Any]) -> str:
    """All trials as tables, those with a profile in one of their own."""
    lines = [
        f"{where['gpu'] or where['cpu']}, {where['cores']} cores, torch {where['torch']}",
        "",
        "| block | training | trial | s a step | times as fast | samples/s | MFU | GB | losses "
        "differ by | changes |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    kinds = (*kernel_profile.CLASSES, kernel_profile.OTHER)
    profiles = [
        "| training | busy | launches a step | "
        + " | ".join(f"{kind}, ms" for kind in kinds)
        + " |",
        "| --- " * (len(kinds) + 3) + "|",
    ]
    for (model, name), row in latest.items():
        head = f"| {row['block']} | {model} | {name} |"
        if "begun" in row or "failed" in row:
            said = row.get("failed", "did not end").replace("|", "/")
            lines.append(f"{head} {said} | | | | | | |")
        elif (profile := row.get("profile")) is not None:
            took = " | ".join(f"{profile['milliseconds'][kind]:.1f}" for kind in kinds)
            profiles.append(
                f"| {model} | {profile['busy_share']:.0%} | {profile['launches']} | {took} |"
            )
        else:
            there = compared(row, latest.get((model, BASE)))
            figures = (
                f"{row['seconds_per_step']:.4f}",
                _number(there["ratio"], ".2f"),
                f"{row['samples_per_second']:.1f}",
                _number(there["mfu"], ".1%"),
                f"{row['peak_memory_gb']:.1f}",
                _number(there["difference"], ".0e"),
                row["changes"] or "rounding",
            )
            lines.append(f"{head} {' | '.join(figures)} |")
    return "\n".join([*lines, "", *profiles, ""])


class Clock:
    """The minutes that are left of those given."""

    def __init__(self, minutes: float) -> None:
        self.until = time.monotonic() + 60 * minutes

    @property
    def left(self) -> float:
        return (self.until - time.monotonic()) / 60


def run_blocks(
    bench: Bench, blocks: Iterable[Block], ledger: Ledger, clock: Clock
) -> tuple[list[str], bool]:
    """Run what is not done; the blocks that were left, and whether the GPU can still be used."""
    left: list[str] = []
    for block in blocks:
        waiting = [t for t in block.trials if not ledger.settled(bench.code(t))]
        minutes = block.minutes * len(waiting) / len(block.trials)
        if left or minutes > clock.left:
            if waiting:
                left.append(f"{block.number} {block.name} ({minutes:.1f} min)")
            continue
        for number, trial in enumerate(waiting):
            if clock.left <= 0:
                rest = len(waiting) - number
                left.append(f"{block.number} {block.name} (its last {rest} trials)")
                break
            if not ledger.settled(bench.code(trial)):  # a base stands in several blocks
                _run(bench, block, trial, ledger)
                if not usable():
                    return left, False
    return left, True


def _run(bench: Bench, block: Block, trial: Trial, ledger: Ledger) -> None:
    about = {
        **{"block": block.number, "model": trial.model, "trial": trial.name},
        **{"changes": trial.changes, "code": bench.code(trial)},
    }
    begun = time.time()
    ledger.add({**about, "begun": begun})
    try:
        row = bench.run(trial)
    except InterruptedRun:  # asked to stop by SIGTERM
        raise
    except Exception as error:
        said = next((line for line in str(error).splitlines() if line.strip()), "")
        row = {"failed": f"{type(error).__name__}: {said}"[:300]}
        log.exception("%s, %s", trial.model, trial.name)
    row = {**about, **row, "seconds": round(time.time() - begun, 1)}
    ledger.add(row)
    print(in_words(row, ledger.latest().get((trial.model, BASE))), flush=True)
    torch.compiler.reset()
    gc.collect()


def usable() -> bool:
    """Whether the GPU still works for this process: some errors of a kernel end that."""
    if not torch.cuda.is_available():
        return True
    try:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    except RuntimeError:
        return False
    return True


def prepared(work: Path, images: int, processes: int) -> Invented:
    """Invented data in ``work``, written whole or not at all."""
    root = work / "invented"
    if not root.is_dir():
        unfinished = work / "unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        work.mkdir(parents=True, exist_ok=True)
        Invented(unfinished, images, processes).write()
        unfinished.rename(root)
    return Invented(root, images, processes)


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point; see the module's docstring."""
    parser = argparse.ArgumentParser(
        prog="python -m speed.gpu_trials",
        description=(__doc__ or "").replace("``", "`"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    files = ["config.yaml", "paper.yaml"]
    numbers = [block.number for block in BLOCKS]
    named = ", ".join(f"{block.number} {block.name}" for block in BLOCKS)
    add("--blocks", nargs="+", type=int, choices=numbers, default=numbers, help=f"of {named}")
    add("--minutes", type=float, default=40, help="a block that no longer fits is left (40)")
    add("--configfile", nargs="+", default=files, help=f"default: {' '.join(files)}")
    add("--steps", type=int, default=8, help="steps that are timed (default: 8)")
    add("--set", type=json.loads, default={}, help="JSON that is laid over `training` of all")
    add("--images", type=int, default=640, help="images that are invented (default: 640)")
    add("--processes", type=int, default=os.cpu_count(), help="processes that store the images")
    add("--output", type=Path, default=Path("results/bench"), help="folder of gpu_trials.*")
    add("--work", type=Path, help="folder of models and invented data, kept (output/gpu_trials)")
    words = list(sys.argv[1:] if argv is None else argv)
    given = parser.parse_args(words)
    clock = Clock(given.minutes)
    os.environ.setdefault("CXR_DATA", "/unused")
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    papers = f"papers={json.dumps(sorted({*map(paper_of, MODELS)}))}"
    config = load_config(given.configfile, check_roots=False, typed=[papers])
    work = given.work or given.output / "gpu_trials"
    invented = prepared(work, given.images, given.processes)
    bench = Bench(config, invented, work, given.steps, given.set)
    blocks = [block for block in BLOCKS if block.number in given.blocks]
    ledger = Ledger(given.output)
    left, is_usable = run_blocks(bench, blocks, ledger, clock)
    if not is_usable:  # another process goes on with what is not done
        rest = [*words, "--minutes", f"{clock.left:.2f}"]
        os.execv(sys.executable, [sys.executable, "-m", "speed.gpu_trials", *rest])
    print(f"left for lack of time: {', '.join(left) or 'nothing'}; table: {ledger.table}")


if __name__ == "__main__":
    main()
