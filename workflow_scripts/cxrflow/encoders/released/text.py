"""Text encoders as their authors publish them: CXR-BERT, ClinicalBERT, PubMedBERT.

BioViL section 2.1 releases CXR-BERT (general: after phase II, specialized: after joint training)
and compares it with ClinicalBERT and PubMedBERT. All are folders in the layout of transformers:
``config.json``, ``pytorch_model.bin`` or ``model.safetensors``, a vocabulary. Names of parameters
are ours already, but for what :func:`our_names` maps.

Shapes: D width, P positions, V pieces of the vocabulary.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from cxr_files.errors import InputError
from cxrflow.encoders.bert import BertConfig
from cxrflow.encoders.cxr_bert import TIED, CXRBert, read_config
from cxrflow.encoders.released.checkpoints import Shape, drop, read_checkpoint
from cxrflow.encoders.released.settings import TEXT_WEIGHTS, WHOLE, ImportSettings
from cxrflow.encoders.settings import BiovilHeadSettings
from cxrflow.encoders.weights import load_weights, require_fit

PROJECTION = "cls_projection_head."
TOKENS = "cls.predictions."
# Names of a layer normalisation's two vectors in files that were converted from TensorFlow.
OLD_NAMES = {"gamma": "weight", "beta": "bias"}
OLD = re.compile(r"(.*\bLayerNorm\.)(gamma|beta)")
MODEL_PARTS = ("embeddings", "encoder", "pooler")  # of a BERT that was saved without its heads


class ReleasedTextConfig(BertConfig):
    """The fields of ``config.json`` that count; the names of its author's code do not."""

    model_type: Literal["cxr-bert", "bert"] | None = None
    projection_size: int | None = Field(None, ge=2)  # type: ignore[assignment]  # BERT's have none

    @property
    def projects(self) -> bool:
        """True for the sizes of a CXR-BERT, ours included: it projects [CLS]."""
        return self.model_type == "cxr-bert" or self.projection_size is not None

    def as_bert(self, settings: ImportSettings) -> BertConfig:
        """The configuration of the encoder; ``settings`` say what projection the file lacks."""
        head = self.projection_head if self.projects else settings.projection_head
        size = self.projection_size or settings.projection
        projection = {"projection_size": size, "projection_head": head.model_dump()}
        return BertConfig.model_validate(self.model_dump() | projection)


def text_weights_file(folder: Path) -> Path:
    """The file of a folder that holds its weights."""
    for name in TEXT_WEIGHTS:
        if (folder / name).is_file():
            return folder / name
    raise InputError(f"{folder}: holds no weights; expected {' or '.join(WHOLE)}")


def our_names(weights: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
    """``weights`` under our names, tied ones under both of theirs.

    Raises:
        InputError: two names mean the same parameter, or tied parameters differ.
    """
    bare = not any(name.startswith("bert.") for name in weights)
    renamed: dict[str, Tensor] = {}
    problems = []
    for name, value in weights.items():
        old = OLD.fullmatch(name)
        ours = f"{old[1]}{OLD_NAMES[old[2]]}" if old else name
        if bare and ours.split(".")[0] in MODEL_PARTS:
            ours = f"bert.{ours}"
        if ours in renamed:
            problems.append(f"{ours} is there under two names")
        renamed[ours] = value
    for name, source in TIED.items():
        if name in renamed and source in renamed:
            if not torch.equal(renamed[name], renamed[source]):
                problems.append(f"{name} differs from {source}, to which it is tied")
        elif source in renamed:
            renamed[name] = renamed[source]
        elif name in renamed and source.startswith(TOKENS):
            renamed[source] = renamed[name]
    require_fit(problems, path)
    return renamed


def unused_names(config: BertConfig) -> dict[str, Shape]:
    """Shapes of what files hold besides: counters, pooler, head of next-sentence prediction."""
    width, positions = config.hidden_size, config.max_position_embeddings
    return {
        "bert.embeddings.position_ids": (1, positions),
        "bert.embeddings.token_type_ids": (1, positions),
        "bert.pooler.dense.weight": (width, width),
        "bert.pooler.dense.bias": (width,),
        "cls.seq_relationship.weight": (2, width),
        "cls.seq_relationship.bias": (2,),
    }


def read_released_text(
    folder: Path, cxr_bert: bool, complete: bool, settings: ImportSettings, seed: int
) -> tuple[CXRBert, list[str]]:
    """A published text encoder, and the names of the parameters that are new, drawn from ``seed``.

    ``cxr_bert`` asks for a CXR-BERT, ``complete`` for one with its projection.

    Raises:
        InputError: a file is missing or damaged, or its parameters are not those of its sizes.
    """
    config = read_config(folder, ReleasedTextConfig)
    if config.projects != cxr_bert and (cxr_bert or config.model_type == "cxr-bert"):
        expected = "CXR-BERT (model_type cxr-bert, or projection_size)" if cxr_bert else "BERT"
        raise InputError(
            f"{folder / 'config.json'}: key 'model_type' is {config.model_type!r} and "
            f"'projection_size' {config.projection_size!r}, expected a {expected}; the other kind "
            f"is '{'bert' if cxr_bert else 'cxr_bert'}'"
        )
    path = text_weights_file(folder)
    weights = our_names(read_checkpoint(path), path)
    sizes = config.as_bert(settings)
    weights = drop(weights, unused_names(sizes), path, required=False)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        text = CXRBert(sizes)
    names = text.state_dict().keys()
    optional = [] if complete else [{name for name in names if name.startswith(PROJECTION)}]
    tied = "cls.predictions.decoder.weight"
    token_head = {name for name in names if name.startswith(TOKENS) and name != tied}
    if settings.new_token_head:
        optional.append(token_head)
    elif token_head == names - weights.keys() - {name for group in optional for name in group}:
        raise InputError(
            f"{path}: {min(token_head)} is missing, and the rest of the masked-token head; "
            "expected it there, or the setting `new_token_head: true`, by which a new one is made"
        )
    return text, load_weights(text, weights, path, optional)


def released_config(config: BertConfig) -> dict[str, Any]:
    """``config.json`` of the released CXR-BERT layout for an encoder of ours.

    With another projection than CXR-BERT's it is a plain BERT for readers that do not know ours.
    """
    sizes = config.model_dump(exclude={"is_decoder", "add_cross_attention"})
    # The published code of CXR-BERT has its own projection alone.
    cxr_bert = isinstance(config.projection_head, BiovilHeadSettings)
    published = {
        "architectures": ["CXRBertModel" if cxr_bert else "BertModel"],
        "model_type": "cxr-bert" if cxr_bert else "bert",
        "torch_dtype": "float32",
    }
    return sizes | published
