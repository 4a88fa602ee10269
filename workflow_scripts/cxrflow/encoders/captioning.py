"""Captioners: decoders that write the report of an image from the patches of its trunk.

They are ConVIRT's baselines (its section 4.3); only the trunk is kept for other tasks. A kind is a
module ``cxrflow.encoders.<kind>`` with a class ``Decoder`` of the shape below. They lie where a
report decoder lies, in ``decoder/`` of a model folder, and are searched as it is.

Shapes: B images, M patches of F features, L tokens, N predicted tokens, V vocabulary, D width of
what is read, R = B*K sequences, K beams of each image.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from pydantic import Field
from torch import Tensor, nn

from cxr_files.atomic import read_object
from cxr_files.settings import Settings, from_record
from cxrflow.compute.device_copy import sent
from cxrflow.encoders.decoding import Search, follow
from cxrflow.encoders.report_decoder import FOLDER
from cxrflow.encoders.settings import Captioning, ReportDecoderSettings
from cxrflow.encoders.weights import load_weights, read_weights, save_weights


class CaptionerConfig(Settings):
    """``config.json`` of a captioner."""

    captioning: Captioning
    features: int = Field(ge=1, description="F, of the trunk")
    vocab_size: int = Field(ge=1)
    vocabulary: str = Field(description="fingerprint of its pieces")


class Caption(NamedTuple):
    """The predictions for texts whose tokens are given."""

    logits: Tensor  # [N, V]
    attended: Tensor | None  # [B, M], attention of a patch over all words, where it is soft


class Reading(Protocol):
    """The state of sequences being read; beams of an image are neighbours and share its patches."""

    def next(self, token_R: Tensor) -> Tensor:
        """Read a token of every sequence, and give its states [R, D]."""

    def take(self, rows_R: Tensor, images_B: Tensor | None = None) -> None:
        """Go on with these sequences, and with these images where not with all."""


class Captioner(nn.Module, ABC):
    """Predicts each next token of a text beside its image's patches."""

    cls: nn.Module  # [..., D] to logits [..., V]

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__()
        self.config = config

    @property
    def settings(self) -> ReportDecoderSettings:
        """The texts it reads and writes, as settings of a report decoder."""
        return self.config.captioning.report

    @abstractmethod
    def forward(self, input_ids_BL: Tensor, patches_BMF: Tensor, positions_N: Tensor) -> Caption:
        """Of the tokens after ``positions_N``, flat indices into B*L; padding is on the right."""

    @abstractmethod
    def reading(self, patches_BMF: Tensor) -> Reading:
        """To write of B images, from the first token on."""

    @torch.inference_mode()
    def write(
        self, prompts: Sequence[Sequence[int]], patches_BMF: Tensor, search: Search
    ) -> list[list[int]]:
        """The ids that follow the one token of each of B prompts, without the end."""
        reading: Any = self.reading(patches_BMF)
        first_B = torch.tensor([first for (first,) in prompts])
        hidden_BD = reading.next(sent(first_B, patches_BMF.device))
        return follow(self, reading, hidden_BD, search)


def patches_of(grid_BFhw: Tensor) -> Tensor:
    """The trunk's grid as patches [B, M, F]."""
    return grid_BFhw.flatten(2).transpose(1, 2)


def build_captioner(config: CaptionerConfig) -> Captioner:
    """A captioner of the kind and sizes of ``config``, randomly initialised."""
    captioner: Captioner = config.captioning.code("Decoder")(config)
    return captioner


def save_captioner(captioner: Captioner, folder: Path) -> None:
    """Write ``decoder/config.json`` and ``decoder/model.safetensors``."""
    save_weights(folder / FOLDER, captioner.config.model_dump(mode="json"), captioner.state_dict())


def load_captioner(folder: Path) -> Captioner:
    """Read ``decoder/`` of a model folder; an :class:`InputError` names what is wrong."""
    source = folder / FOLDER
    path = source / "config.json"
    config: CaptionerConfig = from_record(CaptionerConfig, read_object(path), str(path))
    captioner, path = build_captioner(config), source / "model.safetensors"
    load_weights(captioner, read_weights(path), path)
    return captioner.eval()
