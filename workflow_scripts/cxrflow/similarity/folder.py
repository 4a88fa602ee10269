"""The similarity in a model folder: ``config.json`` and ``model.safetensors`` in ``similarity/``.

A folder without them compares by cosine, as every published model does.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from pydantic import ValidationError

from cxr_files.atomic import read_object, require_whole
from cxr_files.errors import InputError
from cxr_files.settings import explain
from cxrflow.encoders.weights import load_weights, read_weights, save_weights
from cxrflow.kinds import is_outside, outside_class, outside_settings, require_trusted
from cxrflow.similarity.cosine import Cosine
from cxrflow.similarity.settings import SimilaritySettings
from cxrflow.similarity.similarity import Similarity
from cxrflow.similarity.words import WordReader

FOLDER = "similarity"
BASE = "cxrflow.similarity.similarity:Similarity"
TABLES = ("words.continues", "words.dropped")  # of the vocabulary, beside the weights


def save_similarity(similarity: Similarity, folder: Path) -> None:
    """Write what :func:`load_similarity` reads."""
    words = similarity.words
    config = {
        "kind": kind_of(similarity),
        "word_layers": None if words is None else words.layers,
        "config": similarity.settings.model_dump(mode="json"),
    }
    weights = similarity.state_dict()
    if words is not None:
        weights |= dict(zip(TABLES, (words.continues_V, words.dropped_V), strict=True))
    save_weights(folder / FOLDER, config, weights)


def kind_of(similarity: Similarity) -> str:
    """The name of a kind: its module below ``cxrflow.similarity``, or ``module:Class``."""
    cls = type(similarity)
    package, _, module = cls.__module__.rpartition(".")
    return module if package == __package__ else f"{cls.__module__}:{cls.__qualname__}"


def require_loadable(similarity: Similarity, source: str) -> None:
    """Refuse a similarity that a model folder could not be loaded with, before it is trained.

    ``source`` is whose it is, for the error: one line that says what to change.
    """
    kind = kind_of(similarity)
    module, _, name = kind.partition(":")
    if is_outside(kind) and (not name.isidentifier() or not _is_importable(module)):
        raise InputError(
            f"{source}: its similarity {kind} could not be loaded again; expected a class at the "
            "top of a module that Python imports by name"
        )
    with TemporaryDirectory() as folder:
        try:
            save_similarity(similarity, Path(folder))
            again = load_similarity(Path(folder))
        except (InputError, TypeError, RuntimeError) as error:  # the last of shared tensors
            reason = str(error).replace(folder, "model").strip().splitlines()[0]
            raise InputError(
                f"{source}: its similarity {kind} could not be loaded again: {reason}; expected a "
                "constructor of its `settings` and words, which keeps no other size"
            ) from None
    if again.settings != similarity.settings:
        raise InputError(
            f"{source}: its similarity {kind} could not be loaded again: {similarity.settings!r} "
            f"is {again.settings!r} when read from JSON; expected settings that are kept"
        )


def _is_importable(module: str) -> bool:
    """Whether another process finds a module by its name, as this one did or not."""
    package = module.rpartition(".")[0]
    loaded = getattr(sys.modules.get(module), "__file__", None)
    paths = getattr(sys.modules.get(package), "__path__", None) if package else None
    specs = (finder.find_spec(module, paths) for finder in sys.meta_path)
    spec = next(filter(None, specs), None)
    return spec is not None and loaded is not None and spec.origin == loaded


def load_similarity(folder: Path) -> Similarity:
    """The similarity of a model folder, in evaluation mode.

    Raises:
        InputError: a file is missing or damaged, or of a kind that this package has not, or that is
            outside of it and not trusted.
    """
    source = folder / FOLDER / "config.json"
    require_whole(source)  # without it the model would compare by the cosine
    if not source.is_file():
        return Cosine()
    config = read_object(source, ("kind", "word_layers", "config"))
    kind, settings = class_of(str(config["kind"]), source)
    path = source.with_name("model.safetensors")
    weights = read_weights(path)
    words = None
    if config["word_layers"] is not None:
        missing = [name for name in TABLES if name not in weights]
        if missing:
            raise InputError(f"{path}: '{missing[0]}' is missing; expected it of words")
        words = WordReader(config["word_layers"], *(weights.pop(name) for name in TABLES))
    try:
        values = settings.model_validate(config["config"])
    except ValidationError as error:
        raise InputError(explain(error, str(source))) from None
    with torch.random.fork_rng(devices=[]):
        similarity = kind(values, words)
    load_weights(similarity, weights, path)
    return similarity.eval()


def class_of(kind: str, source: Path) -> tuple[type[Similarity], type[SimilaritySettings]]:
    """The class of a kind and that of its settings; ``source`` names it, for the error.

    Code outside of the package is imported where it is trusted (:data:`cxrflow.kinds.TRUSTED`).
    """
    settings: Any
    if is_outside(kind):
        try:
            require_trusted(kind)
            similarity: Any = outside_class(kind, BASE)
            settings = outside_settings(similarity, SimilaritySettings)
        except ValueError as error:
            raise InputError(f"{source}: kind {error}") from None
    else:
        module = f"{__package__}.{kind}"
        if not kind.isidentifier() or find_spec(module) is None:
            raise InputError(f"{source}: kind is '{kind}', which this package has not")
        similarity = getattr(import_module(module), kind.title().replace("_", ""), None)
        settings = getattr(similarity, "__annotations__", {}).get("settings")
    if settings is None or not issubclass(similarity, Similarity):
        raise InputError(f"{source}: kind is '{kind}', which is no similarity")
    return similarity, settings
