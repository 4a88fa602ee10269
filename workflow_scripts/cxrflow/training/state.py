"""The resumable state of a run, in a folder of its own that the workflow does not know.

Two newest states are kept. Each is written whole and carries a checksum, so that a run killed
while saving resumes from the previous one. A lock keeps a second process out, a fingerprint keeps a
run from going on with other settings or data than it began with.
"""

import contextlib
import fcntl
import io
import logging
import os
import shutil
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

from cxr_files.atomic import atomic_path, read_json, write_json
from cxr_files.errors import InputError, PassingError, one_line
from cxr_files.outputs import claim_folder, remove_folder
from cxr_files.settings import deciding_settings
from cxr_files.weights import unreadable

log = logging.getLogger("cxrflow")
CHECKSUM_BYTES = 32


def without_operations(identity: dict[str, Any]) -> dict[str, Any]:
    """The identity less the settings that cannot change a weight, so they may change mid-run."""
    return {**identity, "settings": deciding_settings(identity["settings"] or {})}


def differences(before: Any, now: Any, key: str = "") -> list[str]:
    """Keys whose values differ between two nested settings, as ``key: before -> now``."""
    if isinstance(before, dict) and isinstance(now, dict):
        changes = []
        for name in sorted(before.keys() | now.keys()):
            inner = f"{key}.{name}" if key else str(name)
            changes += differences(before.get(name), now.get(name), inner)
        return changes
    return [] if before == now else [f"{key}: {before!r} -> {now!r}"]


class StateFolder:
    """``results/state/<paper>/<model>/seed<k>``."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        claim_folder(self.path, "training state")
        self._named: dict[Path, int] = {}  # by state, the step of the best weights it names

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for this process alone; a second one leaves with a clear line."""
        with open(self.path / "lock", "a+") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                handle.seek(0)
                raise PassingError(
                    f"{self.path}: another process ({handle.read().strip() or 'unknown'}) is "
                    "training this run; wait for it or end it"
                ) from None
            handle.truncate(0)
            handle.write(f"process {os.getpid()} on {os.uname().nodename}")
            handle.flush()
            for left_over in self.path.glob(".*.partial"):  # by whoever held the lock before
                left_over.unlink()
            yield

    def claim(self, identity: dict[str, Any]) -> None:
        """Tie the folder to settings and data; refuse to resume with others.

        Before the first state is saved there is nothing to protect, and the claim is renewed.
        """
        path = self.path / "identity.json"
        if path.is_file() and self._files():
            try:
                before = read_json(path)
            except InputError as error:
                raise InputError(f"{error}. Delete {self.path} to start afresh") from None
            changed = differences(before, identity)
            if changed:
                raise InputError(
                    f"{self.path}: holds the state of a run with other settings or data: "
                    f"{'; '.join(changed)}. Delete the folder to start afresh"
                )
        else:
            (self.path / "metrics.jsonl").unlink(missing_ok=True)
            write_json(path, identity)

    def _files(self) -> list[Path]:
        return sorted(self.path.glob("step-*.pt"), reverse=True)

    def save(self, step: int, state: dict[str, Any]) -> None:
        """Write the state of ``step`` atomically and drop all but the two newest."""
        try:
            write_checked(self.path / f"step-{step:09d}.pt", state)
        except OSError as error:
            raise PassingError(
                f"{self.path}: cannot save the state of step {step}: {error.strerror}; "
                "the state before it is kept"
            ) from None
        for old in self._files()[2:]:
            old.unlink()

    def save_best(self, step: int, modules: dict[str, Any]) -> None:
        """Write the best weights so far, those after ``step``, whole or not at all."""
        write_checked(self._best(step), modules)

    def load_best(self, step: int) -> dict[str, Any]:
        """The weights after ``step`` that were written as the best.

        Raises:
            InputError: they are damaged; no state can bring them back.
        """
        path = self._best(step)
        modules = read_checked(path)
        if modules is None:
            raise InputError(
                f"{path}: missing or damaged, its SHA-256 is not the one it begins with; delete"
                f" {self.path} to train afresh"
            )
        return modules

    def keep_best(self, step: int) -> None:
        """Drop the best weights that no saved state names; ``step``: those that the newest names.

        While it is not known which an older one names, after a resume, all stay.
        """
        states = self._files()
        self._named[states[0]] = step
        if not all(state in self._named for state in states):
            return
        named_paths = {self._best(self._named[state]) for state in states}
        for path in self.path.glob("best-*.pt"):
            if path not in named_paths:
                path.unlink()

    def _best(self, step: int) -> Path:
        return self.path / f"best-{step:09d}.pt"

    @property
    def checkpoints(self) -> Path:
        """Folder of the series of checkpoints, a model folder each."""
        return self.path / "checkpoints"

    def checkpoint(self, step: int) -> Path:
        """Model folder of the checkpoint after ``step``."""
        return self.checkpoints / str(step)

    def drop_checkpoints(self, after: int) -> None:
        """Drop those later than the state a run resumes from, which writes them again."""
        for path in self.checkpoints.glob("*"):
            if not path.name.isdigit() or int(path.name) > after:  # a kill may have left a part
                shutil.rmtree(path)

    def load(self) -> dict[str, Any] | None:
        """The newest intact state, or None. A damaged one is named and left out."""
        for path in self._files():
            state = read_checked(path)
            if state is not None:
                return state
            log.warning("%s is damaged; going back to the state before it", path)
            path.unlink()
        return None

    def clear(self) -> None:
        """Remove everything once the run's product is written."""
        remove_folder(self.path)


def write_checked(path: Path, content: Any) -> None:
    """Write tensors and plain values behind their SHA-256, whole or not at all."""
    # Through memory, because torch's own writer hides why a disk refused.
    buffer = io.BytesIO()
    torch.save(content, buffer)
    with atomic_path(path) as temporary:
        temporary.write_bytes(sha256(buffer.getbuffer()).digest() + buffer.getbuffer())


def read_checked(path: Path) -> Any:
    """Read what :func:`write_checked` wrote; None where it is absent or damaged.

    Raises:
        InputError: its checksum is right, but it holds no tensors and plain values.
    """
    if not path.is_file():
        return None
    content = memoryview(path.read_bytes())
    if sha256(content[CHECKSUM_BYTES:]).digest() != content[:CHECKSUM_BYTES]:
        return None
    try:
        return torch.load(
            io.BytesIO(content[CHECKSUM_BYTES:]), map_location="cpu", weights_only=True
        )
    except Exception as error:  # bytes that are no pickle fail anyhow
        raise InputError(f"{path}: {unreadable(path, error)}; delete it") from None


@contextlib.contextmanager
def fitting(path: Path) -> Iterator[None]:
    """InputError naming a file whose checksum is right, where its content is not what is read."""
    try:
        yield
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: does not hold what this code writes there ({one_line(error)}); delete it"
        ) from error
