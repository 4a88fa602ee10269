"""The command lines of the training programs, and how they hand a program to the engine."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cxrflow.files.source_code import code_digest
from cxrflow.pretrain.registry import TRAINING_PROGRAMS
from cxrflow.programs.program import parser, seed_number
from cxrflow.settings import modules_of, read_settings

if TYPE_CHECKING:
    from cxrflow.pretrain.objective import Run, TermsProgram


def training_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with the pairs, the run's name and seed, and where its state and model go."""
    made = parser(description)
    made.add_argument(
        "--pairs", type=Path, required=True, help="pairs.parquet, or samples.parquet, of the cohort"
    )
    made.add_argument("--model", required=True, help="name of this model")
    made.add_argument(
        "--seed",
        type=seed_number,
        required=True,
        help="of new weights, batches, augmentation, masks and dropout",
    )
    made.add_argument("--state", type=Path, required=True, help="folder of the resumable state")
    made.add_argument("--output", type=Path, required=True, help="model folder to write")
    return made


def image_text_parser(description: str | None) -> argparse.ArgumentParser:
    """That of a program on images and texts, which starts from a model of either."""
    made = training_parser(description)
    made.add_argument("--pixels", type=Path, required=True, help="pixel store")
    made.add_argument("--text", type=Path, required=True, help="text model folder to start from")
    made.add_argument("--image", type=Path, help="image model folder to start from")
    return made


class Prepared(NamedTuple):
    """A program that is ready to be trained."""

    program: "TermsProgram"
    data: dict[str, Any]  # what run.json says of its inputs, which must not change between starts
    remedies: Sequence[str]  # what needs less memory


def run_training(
    name: str,
    options: argparse.Namespace,
    prepare: Callable[[argparse.Namespace, Any, "Run"], Prepared],
) -> None:
    """Train this process's share of the program called ``name``, which ``prepare`` makes."""
    settings: Any = read_settings(options.settings, TRAINING_PROGRAMS[name].settings)

    import torch

    from cxrflow.pretrain.objective import Run
    from cxrflow.training.engine import Engine
    from cxrflow.training.precision import choose_device
    from cxrflow.training.processes import joined

    with joined() as processes:
        torch.manual_seed(options.seed)  # of the initial weights
        device = choose_device(settings.training.device)
        program, data, remedies = prepare(options, settings, Run(options.seed, device, processes))
        identity = {
            "model": options.model,
            "program": name,
            "seed": options.seed,
            "settings": settings.record(),
            "data": data,
        }
        code = code_digest(*code_of(program, name))
        engine = Engine(
            program, settings.training, options.seed, identity, remedies, processes, code
        )
        engine.run(options.state, options.output)


def code_of(program: "TermsProgram", name: str) -> list[str]:
    """The modules behind a training: its program, and what that imports by name.

    What ``Models.code_of`` of the configuration says of a recipe.
    """
    terms = [f"pretrain.terms.{term}" for term in program.settings.terms.named()]
    return [f"pretrain.{name}", *terms, *modules_of(program.settings)]
