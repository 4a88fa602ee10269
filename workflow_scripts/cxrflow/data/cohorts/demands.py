"""What a run asks of the rows of a cohort, checked as soon as they are known and before a training.

The trainings and evaluations of a run are known before it starts. Its main process notes for each
cohort that the run builds what they ask of it; the program that builds the cohort checks the notes.
A cohort that is there answers at the start of the run. What is asked is said where it is needed:
``<room>.demands`` calls the functions with which a training and a benchmark read their rows, so a
rule stands in one place, and holds as well for a program that is called alone.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from cxr_files import attempts
from cxr_files.errors import InputError, one_line

log = logging.getLogger("cxrflow")

ASKER = "{asker}"  # in a remedy: the first model or task that asks
NAMED = 8  # askers in a message


@dataclass(frozen=True)
class Demand:
    """What models or tasks, the ``askers``, ask of a cohort.

    ``name``: of the program (room pretrain) or of the benchmark (room benchmarks); ``more``:
    further arguments of the room's ``require_rows``.
    """

    room: Literal["pretrain", "benchmarks"]
    name: str
    settings: dict[str, Any]
    askers: list[str]
    more: dict[str, Any] = field(default_factory=dict)


class UnmetError(InputError):
    """A demand that a line of the configuration would mend; ``remedy`` is that line."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


def other_split(folder: Path) -> str:
    """The line that gives a cohort other parts."""
    shares = "{train: 0.8, validate: 0.1, test: 0.1}"
    cohort = "/".join(folder.parts[-2:])
    return f"cohorts: {{{cohort}: {{splits: {{method: patients, shares: {shares}}}}}}}"


def note(cohort: str, demands: Sequence[Demand]) -> None:
    """Write down what this run asks of a cohort that it will build."""
    attempts.note(f"demands/{cohort}", demands)


def check_noted(folder: Path) -> None:
    """Check a cohort that has been built; see :func:`check`."""
    cohort = "/".join(folder.absolute().parts[-2:])
    check(folder, [Demand(**values) for values in attempts.noted(f"demands/{cohort}")])


def check(folder: Path, demands: Sequence[Demand]) -> None:
    """Check that the rows of the cohort in ``folder`` are what is asked for.

    Raises:
        InputError: names the cohort, who asks, what is wrong, and the lines that mend it.
    """
    refused: dict[str, tuple[list[str], str]] = {}
    unchecked = []
    logging.disable(logging.WARNING)  # trainings and evaluations will say what they leave out
    try:
        for demand in demands:
            try:
                require_rows = import_module(f"cxrflow.{demand.room}.demands").require_rows
                require_rows(folder, demand.name, demand.settings, **demand.more)
            except InputError as error:
                remedy = getattr(error, "remedy", "").replace(ASKER, demand.askers[0])
                askers, _ = refused.setdefault(located(folder, error), ([], remedy))
                askers += demand.askers
            except Exception as error:  # of a library that is not here, of code from elsewhere
                unchecked.append((demand.askers[0], one_line(error)))
    finally:
        logging.disable(logging.NOTSET)
    for asker, reason in unchecked:
        log.warning("%s: what %s needs of its rows is not checked: %s", folder, asker, reason)
    if not refused:
        return
    (message, (askers, remedy)), *further = refused.items()
    first, *more = dict.fromkeys(askers)
    askers_of_all = list(
        dict.fromkeys([*askers, *(name for _, (names, _) in further for name in names)])
    )
    asks = f"{first} and {len(more)} more need it" if more else f"{first} needs it"
    besides = (
        f" ({len(askers_of_all) - 1 - len(more)} others need something else)" if further else ""
    )
    lines = f"`{remedy}` or " if remedy else ""
    excerpt = ", ".join(askers_of_all[:NAMED]) + (", ..." if len(askers_of_all) > NAMED else "")
    raise InputError(
        f"{message}; {asks}{besides}, so nothing is trained; expected {lines}"
        f"`leave_out: [{excerpt}]` in the configuration"
    )


def located(folder: Path, error: InputError) -> str:
    """What is wrong, with the cohort's folder, which not every message names."""
    message = str(error)
    return message if str(folder) in message else f"{folder}: {message}"
