"""Small trainings of images and texts, always alike, without a pixel store."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from stored_pictures import Pictures
from torch import nn

from cxrflow.encoders.cxr_bert import CXRBert
from cxrflow.encoders.image_encoder import ImageEncoder
from cxrflow.pretrain.inputs import Run
from cxrflow.pretrain.objective import Term, TermsProgram
from cxrflow.pretrain.pairs.images_and_texts import ImageTextProgram
from cxrflow.pretrain.pairs.tables import pair_texts
from cxrflow.pretrain.settings import JointPretrainingSettings, TextPretrainingSettings
from cxrflow.text.tokenizer import read_tokenizer
from cxrflow.training.processes import ALONE
from cxrflow.training.samples import SampleTable

IMAGE: dict[str, Any] = {
    **{"block": "basic", "layers": [1, 1, 1, 1], "width": 8, "channels": 1},
    **{"projection": 8, "projection_head": {"kind": "linear"}, "dilate": [False, True, True]},
}


def image_text_program(
    settings: JointPretrainingSettings,
    reports: pd.DataFrame,
    text: CXRBert,
    folder: Path,
    samples: SampleTable | None = None,
    augmentation: Callable[..., Any] | None = None,
    images: Any = None,
) -> ImageTextProgram:
    """The program of a new image encoder and ``text``, whose tokenizer is in ``folder``.

    Both splits are the same ``reports``. ``augmentation`` None: that of the settings.
    """
    image = ImageEncoder(settings.encoder)
    texts = pair_texts(settings, reports, read_tokenizer(folder), training=True)
    inputs = (
        samples or SampleTable(range(len(reports))),
        images or Pictures(len(reports)),
        texts,
    )
    splits: Any = [dict.fromkeys(("train", "validate"), each) for each in inputs]
    run = Run(0, torch.device("cpu"), ALONE)
    program = ImageTextProgram(settings, run, *splits, image, text, folder)
    if augmentation is not None:
        program.augmentation = augmentation  # type: ignore[assignment]
    return program


def replace_terms(monkeypatch: pytest.MonkeyPatch, kinds: Mapping[str, type[Term]]) -> None:
    """Programs find these classes by the names of terms, and no others."""
    module = type("module", (), {n.title().replace("_", ""): kind for n, kind in kinds.items()})
    monkeypatch.setattr("cxrflow.pretrain.terms.import_module", lambda name: module)


def terms_program(
    monkeypatch: pytest.MonkeyPatch,
    samples: Mapping[str, SampleTable],
    kinds: Mapping[str, type[Term]],
    terms: Mapping[str, Any] | None = None,
    **training: Any,
) -> TermsProgram:
    """A program of a layer with ``kinds`` in the place of the terms ``mlm`` and others.

    ``terms``: their settings; None: the defaults.
    """
    replace_terms(monkeypatch, kinds)
    settings = TextPretrainingSettings(
        training={"batch_size": 4, "epochs": 1, **training},
        terms=terms or {name: {} for name in kinds},
    )
    run = Run(0, torch.device("cpu"), ALONE)
    return TermsProgram(settings, run, {"text": nn.Linear(1, 1)}, samples)
