"""The similarity in a model folder: ``config.json`` and ``model.safetensors`` in ``similarity/``.

A folder without them compares by cosine, as every published model does.
"""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import torch
from pydantic import ValidationError

from cxr_files.atomic import read_object, require_whole
from cxr_files.errors import InputError
from cxr_files.settings import explain
from cxrflow.encoders.weights import load_weights, read_weights, save_weights
from cxrflow.similarity.cosine import Cosine
from cxrflow.similarity.similarity import Similarity
from cxrflow.similarity.words import WordReader

FOLDER = "similarity"
TABLES = ("words.continues", "words.dropped")  # of the vocabulary, beside the weights


def save_similarity(similarity: Similarity, folder: Path) -> None:
    """Write what :func:`load_similarity` reads."""
    kind = type(similarity).__module__.rpartition(".")[2]
    words = similarity.words
    config = {
        "kind": kind,
        "word_layers": None if words is None else words.layers,
        "config": similarity.config.model_dump(mode="json"),
    }
    weights = similarity.state_dict()
    if words is not None:
        weights |= dict(zip(TABLES, (words.continues_V, words.dropped_V), strict=True))
    save_weights(folder / FOLDER, config, weights)


def load_similarity(folder: Path) -> Similarity:
    """The similarity of a model folder, in evaluation mode.

    Raises:
        InputError: a file is missing or damaged, or of a kind that this package has not.
    """
    source = folder / FOLDER / "config.json"
    require_whole(source)  # without it the model would compare by the cosine
    if not source.is_file():
        return Cosine()
    config = read_object(source, ("kind", "word_layers", "config"))
    kind = class_of(str(config["kind"]), source)
    path = source.with_name("model.safetensors")
    weights = read_weights(path)
    words = None
    if config["word_layers"] is not None:
        missing = [name for name in TABLES if name not in weights]
        if missing:
            raise InputError(f"{path}: '{missing[0]}' is missing; expected it of words")
        words = WordReader(config["word_layers"], *(weights.pop(name) for name in TABLES))
    try:
        values = kind.Config.model_validate(config["config"])
    except ValidationError as error:
        raise InputError(explain(error, str(source))) from None
    with torch.random.fork_rng(devices=[]):
        similarity = kind(values, words)
    load_weights(similarity, weights, path)
    return similarity.eval()


def class_of(kind: str, source: Path) -> type[Similarity]:
    """The class of a kind; ``source`` names it, for the error."""
    module = f"cxrflow.similarity.{kind}"
    if not kind.isidentifier() or find_spec(module) is None:
        raise InputError(f"{source}: kind is '{kind}', which this package has not")
    similarity = getattr(import_module(module), kind.title().replace("_", ""), None)
    if similarity is None:
        raise InputError(f"{source}: kind is '{kind}', which is no similarity")
    return similarity
