"""Small joint trainings with MedCutMix, always of the same weights."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from small_programs import IMAGE, image_text_program
from small_text import TEXT
from stored_pictures import Unchanged
from test_diagnostic_sentences import CLASSES, SENTENCES, WORDS
from torch import Tensor

from cxrflow.encoders.cxr_bert import CXRBert
from cxrflow.pretrain.objective import Batch
from cxrflow.pretrain.pairs.images_and_texts import ImageTextProgram, PairViews
from cxrflow.pretrain.settings import JointPretrainingSettings
from cxrflow.pretrain.terms.cutmix import Cutmix
from cxrflow.text.tokenizer import SPECIAL_TOKENS, write_tokenizer
from cxrflow.training.processes import ALONE
from cxrflow.training.samples import SampleTable
from cxrflow.training.step import DataClock, Step

CUTMIX = {"classes": CLASSES[:2], "pairs": 8, "warmup_epochs": 1, "layer": 3, "layers": 2}
LABELS = np.array([[1, 0, 0], [1, 0, 0], [1, 1, 0], [0, -1, 0], [np.nan, 1, 0], [1, 1, 0]])
COUNT = 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text")
    write_tokenizer(path, [*SPECIAL_TOKENS, *WORDS], lowercase=True)
    return path


BIOVIL = {"global_alignment": {}, "mlm": {"forward": "shared"}}
GLORIA = {"global_alignment": {"temperature": 0.1}, "local_alignment": {"layers": 2}}


def make(folder: Path, terms: dict[str, Any], **changes: Any) -> ImageTextProgram:
    """A program of small encoders, always the same weights."""
    labels = changes.pop("labels", np.tile(LABELS, (4, 1)))
    settings = JointPretrainingSettings.model_validate(
        {
            "training": {"batch_size": 12, "epochs": 3, "optimiser": {"name": "sgd"}},
            "augmentation": {},
            "terms": terms,
            "encoder": IMAGE,
            "length": 24,
            **changes,
        }
    )
    torch.manual_seed(0)
    text = CXRBert.build(TEXT, len(SPECIAL_TOKENS) + len(WORDS), 0)
    text.set_dropout(0.2, 0.2)
    pairs = pd.DataFrame({"impression_sentences": SENTENCES * 4, "findings": [""] * COUNT})
    table = SampleTable(
        [str(n) for n in range(COUNT)],
        labels=labels,
        classes=tuple(CLASSES),
        patients=np.array([str(n // 2) for n in range(COUNT)]),
    )
    return image_text_program(settings, pairs, text, folder, table, Unchanged())


def views_of(program: ImageTextProgram, epoch: int = 1) -> PairViews:
    rows = np.arange(12)
    batch = Batch(rows, 0, epoch, ALONE, program.samples["train"])
    return program.views("train", batch)


def term_of(program: ImageTextProgram) -> Any:
    term = program.terms["cutmix"]
    assert isinstance(term, Cutmix)
    return term.train()


def contrast(program: ImageTextProgram) -> Tensor:
    loss: Tensor = term_of(program).loss(views_of(program))
    return loss


def variant(folder: Path, length: int = 24, **changes: Any) -> ImageTextProgram:
    terms = {"global_alignment": {}, "cutmix": {**CUTMIX, **changes}}
    program = make(folder, terms, length=length)
    program.text.set_dropout(0.0, 0.0)
    program.image.eval()
    return program


def trained(program: ImageTextProgram, steps: int) -> Iterator[dict[str, float]]:
    """Train and yield the values of each step."""
    step = Step(program, program.settings.training, 0, 6, torch.device("cpu"), "fp32", ALONE)
    for module in program.modules.values():
        module.train()
    for number in range(steps):
        values, *_ = step(number, DataClock([]))
        yield values.read()


def weights(program: ImageTextProgram) -> dict[str, Tensor]:
    return {
        f"{half}.{name}": value.clone()
        for half in ("text", "image")
        for name, value in program.modules[half].state_dict().items()
    }


def equal(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> bool:
    return ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in ours)
