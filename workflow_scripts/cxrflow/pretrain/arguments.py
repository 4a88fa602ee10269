"""The command lines of the training programs, and how they hand a program to the engine."""

import argparse
import logging
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cxr_files.errors import InputError
from cxr_files.program import parser, seed_number
from cxr_files.settings import read_settings
from cxrflow.kinds import modules_of
from cxrflow.models.run_record import learnt, learnt_in_words, read_run
from cxrflow.pretrain.registry import TRAINING_PROGRAMS
from cxrflow.programs.source_code import code_digest
from cxrflow.similarity.settings import module_of

if TYPE_CHECKING:
    from cxrflow.pretrain.inputs import Run
    from cxrflow.pretrain.objective import TermsProgram

#: Models that a training starts from, by option.
STARTS = {
    "start": "model folder",
    "text": "text model folder",
    "image": "image model folder",
}


def training_parser(name: str, description: str | None) -> argparse.ArgumentParser:
    """The options of a program, by its registry entry: its inputs, its run, and where that goes."""
    program, options = TRAINING_PROGRAMS[name], parser(description)
    add = options.add_argument
    cohort = "pairs.parquet, or samples.parquet, of the cohort"
    add("--pairs", type=Path, required=True, help=cohort)
    if "image" in program.offers:
        add("--pixels", type=Path, required=True, help="pixel store")
    for option, content in STARTS.items():
        if option in program.accepts:
            required = option in program.requires
            add(f"--{option}", type=Path, required=required, help=f"{content} to start from")
    if "vocabulary" in program.accepts:
        add("--vocabulary", type=Path, required=True, help="tokenizer folder")
    if "corpora" in program.accepts:
        add("--tokens", type=Path, nargs="+", default=[], help="token folders (phase II)")
    if "truth" in program.accepts:
        add("--truth", type=Path, help="folder of the synthetic hospital's reports, for a control")
    if "selection" in program.accepts:
        add("--selection", type=Path, help="cohort of a task whose score validates, too")
        add("--selection-pixels", type=Path, help="its pixel store")
        add("--selection-task", help="its benchmark")
        add("--selection-settings", default="{}", help="the benchmark's settings")
    if "joint" in program.offers:
        add("--twins", type=Path, help="folder that keeps what untrained starts score")
        trained = "models of the same recipe, trained on shuffled pairs, that are twins as well"
        add("--shuffled-twins", type=Path, nargs="+", default=[], help=trained)
    add("--model", required=True, help="name of this model")
    seed_help = "of new weights, batches, augmentation, masks and dropout"
    add("--seed", type=seed_number, required=True, help=seed_help)
    add("--state", type=Path, required=True, help="folder of the resumable state")
    add("--output", type=Path, required=True, help="model folder to write")
    return options


log = logging.getLogger("cxrflow")


class Prepared(NamedTuple):
    """A program that is ready to be trained."""

    program: "TermsProgram"
    data: dict[str, Any]  # what run.json says of its inputs, which must not change between starts
    memory_advice: Sequence[str]  # what needs less memory
    draw: "Callable[[], TermsProgram] | None" = None  # makes the program again, of images and texts


def run_training(
    name: str,
    description: str | None,
    argv: Sequence[str] | None,
    prepare: Callable[[argparse.Namespace, Any, "Run"], Prepared],
) -> None:
    """Train this process's share of the program called ``name``, which ``prepare`` makes."""
    options = training_parser(name, description).parse_args(argv)
    settings: Any = read_settings(options.settings, TRAINING_PROGRAMS[name].settings)
    chosen_by = getattr(options, "selection", None)
    if chosen_by is None and getattr(options, "selection_task", None) is not None:
        raise InputError("--selection is missing; --selection-task needs the task's cohort")

    import torch

    from cxrflow.pretrain.inputs import Run
    from cxrflow.training.engine import Engine
    from cxrflow.training.precision import choose_device, choose_precision
    from cxrflow.training.processes import joined

    with joined() as processes:
        torch.manual_seed(options.seed)  # of the initial weights
        device = choose_device(settings.training.device, processes)
        prepared = prepare(options, settings, Run(options.seed, device, processes))
        program, data, memory_advice, draw = prepared
        if chosen_by is not None:
            selection = import_module("cxrflow.pretrain.validation.selection")
            data = {**data, "selection": selection.select_by(program, options)}
        identity = {
            "model": options.model,
            "program": name,
            "seed": options.seed,
            "settings": settings.record(),
            "data": data,
        }
        code = code_digest(*code_of(program, name))
        if draw is not None:
            validation = import_module("cxrflow.pretrain.validation.twins")
            decides = {
                **validation.deciding(settings.record(), data),
                "program": [name, code, torch.__version__],
                "machine": [device.type, choose_precision(settings.training.precision, device)],
            }
            shuffled = validation.shuffled_ranks(options.shuffled_twins, settings.record(), data)
            program.shuffled_twins = shuffled
            program.twins = validation.Twins(draw, decides, options.twins, processes)
        engine = Engine(
            program, settings.training, options.seed, identity, memory_advice, processes, code
        )
        engine.run(options.state, options.output)
        if processes.is_first:
            record = read_run(options.output)
            level = logging.WARNING if learnt(record) is False else logging.INFO
            log.log(level, "%s: %s", options.model, learnt_in_words(record))


def code_of(program: "TermsProgram", name: str) -> list[str]:
    """The modules behind a training: its program, and what that imports by name.

    What ``Models.code_of`` of the configuration says of a recipe.
    """
    terms = program.settings.terms
    modules = [f"pretrain.terms.{term}" for term in terms.modules] + modules_of(program.settings)
    similarity = [] if terms.similarity is None else [module_of(terms.similarity)]
    return [f"pretrain.{name}", *modules, *similarity]
