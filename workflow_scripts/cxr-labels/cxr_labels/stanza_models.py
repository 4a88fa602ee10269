"""Stanza's models: loading them from a local folder, and training small ones.

Never goes to the network. A folder holds ``resources.json`` and ``en/<processor>/<model>.pt``, as a
stanza download does, or as ``train_sentence_splitter`` and ``train_entity_tagger`` write.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from cxr_files.errors import InputError
from cxr_files.weights import no_plain_numbers, unreadable


class StanzaPipeline:
    """Some processors of a stanza folder; ``processors``: the model of each, by its name.

    Raises:
        InputError: a model is missing or cannot be loaded.
    """

    def __init__(self, folder: str | Path, processors: Mapping[str, str]):
        folder = Path(folder)
        models = [folder / "en" / kind / f"{name}.pt" for kind, name in processors.items()]
        for path in (folder / "resources.json", *models):
            if not path.is_file():
                raise InputError(f"{path}: not found; expected a stanza model folder")
        for path in (*models, *sorted(folder.glob("en/pretrain/*.pt"))):
            _require_finite(path)
        import stanza

        self._stanza = stanza
        try:
            self.pipeline = stanza.Pipeline(
                "en",
                dir=str(folder),
                package=None,
                processors=dict(processors),
                download_method=None,
                use_gpu=False,
                verbose=False,
            )
        except Exception as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise InputError(f"{models[-1]}: stanza cannot load it ({reason})") from None

    def read(self, texts: Sequence[str]) -> list[Any | None]:
        """Stanza's document of each text; None for a text without a letter."""
        filled = [i for i, text in enumerate(texts) if text.strip()]
        documents: list[Any | None] = [None] * len(texts)
        if filled:
            inputs = [self._stanza.Document([], text=texts[i]) for i in filled]
            for i, document in zip(filled, self.pipeline.bulk_process(inputs), strict=True):
                documents[i] = document
        return documents


def _loaded(path: Path) -> Any:
    """What a model file holds. Raises InputError unless it can be read."""
    import torch

    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # bytes that are no pickle fail anyhow
        raise InputError(f"{path}: {unreadable(path, error)}") from None


def _require_finite(path: Path) -> None:
    """Raise InputError unless a file holds a model whose numbers are all finite.

    With others every sentence would have some end, and every word some tag.
    """
    import torch

    waiting = [_loaded(path)]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Mapping):
            waiting += item.values()
        elif isinstance(item, list | tuple):
            waiting += item
        elif isinstance(item, torch.Tensor) and (what := no_plain_numbers(item)) is not None:
            raise InputError(f"{path}: holds a tensor that is {what}; expected dense ones")
        elif isinstance(item, torch.Tensor) and not item.isfinite().all():
            broken = int((~item.isfinite()).sum())
            raise InputError(
                f"{path}: a tensor holds {broken} of {item.numel()} numbers that are not finite"
            )


def train_model(kind: str, model: Path, text: Path, options: Mapping[str, object]) -> None:
    """Train a model by stanza's own program ``stanza.models.<kind>``, on the CPU.

    Of paths among the options, which stanza keeps with the weights, the model has the names alone:
    the folders are those of an unfinished product, with the machine and the process in their names.

    Raises:
        InputError: it fails or writes no model; ``text`` is the folder that it was trained on.
    """
    command = [sys.executable, "-m", f"stanza.models.{kind}", "--cpu", "--mode", "train"]
    options = {**options, "save_dir": model.parent, "save_name": model.name}
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    # More threads make so small a model several times slower.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if process.returncode != 0:
        last = (process.stderr.strip().splitlines() or ["no message"])[-1]
        raise InputError(f"{text}: stanza's training ended with {process.returncode}: {last}")
    if not model.is_file():
        raise InputError(f"{text}: stanza wrote no model; see the log")
    import torch

    kept = _loaded(model)  # stanza goes on where it could not write it whole
    paths = {name for name, value in options.items() if isinstance(value, Path)} | {"save_name"}
    kept["config"] |= {
        name: Path(kept["config"][name]).name for name in paths & kept["config"].keys()
    }
    content = BytesIO()
    torch.save(kept, content)
    model.write_bytes(content.getvalue())  # whose errors are the system's
