"""Which cohorts a run compares by their pictures: noted by its main process, read by its stores."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from cxr_files.attempts import FOLDER


@dataclass(frozen=True)
class Compared:
    """Two cohorts of different data sets, and the models that learn from one, scored by the other.

    ``scored``, ``learnt``: names of the cohorts.
    """

    scored: str
    learnt: str
    learners: Sequence[str]


def note(pairs: Sequence[Compared]) -> None:
    """Write down which cohorts this run compares."""
    path = _file()
    if path is not None and pairs:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps([asdict(pair) for pair in pairs]), encoding="utf-8")


def noted() -> list[Compared]:
    """What the run has written down; nothing outside of the workflow."""
    path = _file()
    if path is None or not path.is_file():
        return []
    return [Compared(**values) for values in json.loads(path.read_text(encoding="utf-8"))]


def _file() -> Path | None:
    folder = os.environ.get(FOLDER)
    return Path(folder, "copies.json") if folder else None
