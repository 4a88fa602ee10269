"""What the jobs of one run of the workflow tell each other, in a folder of the run.

A job that was refused is not tried again. Snakemake tries a failed job again whatever the reason
was. Wrong input, a wrong setting or a loss that is not finite would be found again after the same
wait; a full disk may be free by then. So a program leaves the reason in the folder, and the next
attempt at the same command ends at once. A new start of Snakemake has a new folder and tries anew.
"""

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cxr_files.atomic import atomic_path
from cxr_files.errors import InputError, PassingError

#: Names the folder; the workflow sets it, and its jobs inherit it, those of Slurm as well.
FOLDER = "CXRFLOW_REFUSED"


def _of_run(name: str) -> Path | None:
    """A file of this run; None outside of the workflow."""
    folder = os.environ.get(FOLDER)
    return Path(folder, name) if folder else None


def note(name: str, records: Sequence[Any]) -> None:
    """Write down dataclasses for the jobs of this run, under a name."""
    path = _of_run(f"{name}.json")
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps([asdict(record) for record in records]), encoding="utf-8")


def noted(name: str) -> list[dict[str, Any]]:
    """The fields of what the run has written down; none outside of the workflow."""
    path = _of_run(f"{name}.json")
    if path is None or not path.is_file():
        return []
    records: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return records


def _reason() -> Path | None:
    """Where the reason stands why this command was refused; None outside of the workflow."""
    command = "\0".join(sys.argv).encode("utf-8", "surrogateescape")
    return _of_run(f"{hashlib.sha256(command).hexdigest()[:16]}.txt")


def refuse_again() -> None:
    """Raise an InputError where this run has refused this command before."""
    path = _reason()
    if path is not None and path.is_file():
        reason = path.read_text(encoding="utf-8", errors="replace").strip()
        raise PassingError(f"not tried again, since it would fail as it did before: {reason}")


def keep(error: InputError) -> None:
    """Remember why this command was refused, unless another attempt may find it otherwise."""
    path = _reason()
    if path is not None and not isinstance(error, PassingError):
        with contextlib.suppress(OSError), atomic_path(path) as temporary:
            temporary.write_text(f"{error}\n", encoding="utf-8", errors="replace")
