"""``metrics.jsonl`` and TensorBoard: every number of a run, without repeats after a resume."""

import json
import os
import shutil
from pathlib import Path

from torch.utils.tensorboard import SummaryWriter


class MetricsLog:
    """Appends one JSON object a line; after a resume, lines past the saved step are dropped."""

    def __init__(self, folder: Path, last_step: int) -> None:
        self.path = folder / "metrics.jsonl"
        self._tensorboard = folder / "tensorboard"
        kept = []
        if self.path.is_file():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                # The last line may be half written when the process was killed.
                if line.endswith("}") and json.loads(line)["step"] <= last_step:
                    kept.append(line)
        self.path.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
        self._handle = open(self.path, "a", encoding="utf-8")  # noqa: SIM115 closed in close()
        self._writer = SummaryWriter(str(self._tensorboard), purge_step=last_step + 1)

    def write(self, split: str, step: int, values: dict[str, float]) -> None:
        """Record ``values`` of ``split`` ("train" or "validate") after ``step`` updates."""
        self._handle.write(json.dumps({"step": step, "split": split, **values}) + "\n")
        self._handle.flush()
        for name, value in values.items():
            self._writer.add_scalar(f"{split}/{name}", value, step)

    def flush(self) -> None:
        """Force everything to disk; called with every saved state."""
        os.fsync(self._handle.fileno())
        self._writer.flush()

    def export(self, folder: Path) -> None:
        """Close, and copy both logs beside the model."""
        self._handle.close()
        self._writer.close()
        shutil.copy(self.path, folder / "metrics.jsonl")
        shutil.copytree(self._tensorboard, folder / "tensorboard")
