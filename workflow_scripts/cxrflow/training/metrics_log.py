"""``metrics.jsonl`` and TensorBoard: every number of a run, without repeats after a resume."""

import json
import logging
import os
import shutil
import time
from hashlib import sha256
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from cxr_files.atomic import atomic_path

log = logging.getLogger("cxrflow")


class MetricsLog:
    """Appends one JSON object a line; after a resume, lines past the saved step are dropped.

    ``digest`` is what :meth:`flush` gave when that step was saved; other lines are reported.
    """

    def __init__(self, folder: Path, last_step: int, digest: str | None = None) -> None:
        self.path = folder / "metrics.jsonl"
        self._tensorboard = folder / "tensorboard"
        lines, damaged = [], 0
        if self.path.is_file():
            text = self.path.read_text(encoding="utf-8", errors="replace")
            *complete, _ = text.split("\n")  # the last line may be half written by a killed process
            for line in complete:
                step = _step_of(line)
                damaged += step is None
                if step is not None and step <= last_step:
                    lines.append(line)
        if damaged:
            log.warning("%s: %d damaged lines are left out", self.path, damaged)
        text = "".join(f"{line}\n" for line in lines)
        self._digest = sha256(text.encode())
        if digest is not None and self._digest.hexdigest() != digest:
            log.warning(
                "%s: damaged, its lines up to step %d are not those that were saved with that "
                "step; the training goes on, but its curves are not to be trusted",
                *(self.path, last_step),
            )
        with atomic_path(self.path) as temporary:
            temporary.write_text(text, encoding="utf-8")
        self._handle = open(self.path, "a", encoding="utf-8")  # noqa: SIM115 closed in close()
        self._events = EventFile(self._tensorboard, last_step + 1)

    def write(self, split: str, step: int, values: dict[str, float]) -> None:
        """Record ``values`` of ``split`` ("train" or "validate") after ``step`` updates."""
        line = json.dumps({"step": step, "split": split, **values}) + "\n"
        self._digest.update(line.encode())
        self._handle.write(line)
        self._handle.flush()
        self._events.add({f"{split}/{name}": value for name, value in values.items()}, step)

    def flush(self) -> str:
        """Force everything to disk and return its SHA-256; called with every saved state."""
        os.fsync(self._handle.fileno())
        return self._digest.hexdigest()

    def export(self, folder: Path) -> None:
        """Close, and copy both logs beside the model."""
        self.close()
        shutil.copy(self.path, folder / "metrics.jsonl")
        shutil.copytree(self._tensorboard, folder / "tensorboard")

    def close(self) -> None:
        """Close both files; again is no harm."""
        self._handle.close()
        self._events.close()


def _step_of(line: str) -> int | None:
    """The step of a line; None where the line is damaged."""
    try:
        step = json.loads(line)["step"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return step if isinstance(step, int) else None


class EventFile:
    """A TensorBoard event file of one start of a run; steps from ``first`` on replace older ones.

    Written at once and by this thread, unlike torch's SummaryWriter, whose thread prints a
    traceback and leaves a later flush waiting for ever when the disk is full.
    """

    def __init__(self, folder: Path, first: int) -> None:
        folder.mkdir(exist_ok=True)
        name = f"events.out.tfevents.{time.time_ns() // 1000}.{os.getpid()}"
        self._file = open(folder / name, "ab")  # noqa: SIM115 closed in close()
        self._records = RecordWriter(self._file)
        self._write(Event(file_version="brain.Event:2"))
        self._write(Event(step=first, session_log=SessionLog(status=SessionLog.START)))

    def add(self, values: dict[str, float], step: int) -> None:
        """Record numbers by name after ``step`` updates."""
        numbers = [Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._write(Event(step=step, summary=Summary(value=numbers)))

    def _write(self, event: Event) -> None:
        event.wall_time = time.time()
        self._records.write(event.SerializeToString())
        self._records.flush()

    def close(self) -> None:
        self._file.close()
