"""Retrieval, prompts and probes of pairs with a model that is loaded from its folder."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_fakes import SIZE, write_cohort
from small_text import write_text_model
from torch import nn

from command_options import options
from cxr_files.atomic import read_json, write_json
from cxrflow.benchmarks.evaluate import main as evaluate
from cxrflow.encoders.cxr_bert import load_text_encoder
from cxrflow.encoders.image_encoder import ImageEncoder, save_image_encoder
from cxrflow.encoders.settings import ResNetSettings
from cxrflow.pretrain.terms.local_alignment import LocalAlignment
from cxrflow.pretrain.terms.settings import LocalAlignmentSettings
from cxrflow.similarity.folder import save_similarity
from cxrflow.text.tokenizer import VocabularyInfo

TEXTS = ["no pleural effusions .", "nodule", "heart is large . no effusion"]
NUMBER = 30


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Both encoders and a local similarity as a term makes it."""
    folder = tmp_path / "model"
    folder.mkdir()
    torch.manual_seed(0)
    write_text_model(folder)
    sizes = {"block": "basic", "layers": [1, 1, 1, 1], "width": 8, "channels": 1}
    head = {"projection": 8, "projection_head": {"kind": "linear"}}
    save_image_encoder(ImageEncoder(ResNetSettings.model_validate(sizes | head)), folder)
    write_json(folder / "run.json", {"data": {"geometry": f"shorter{SIZE}"}})
    text = load_text_encoder(folder)
    image = SimpleNamespace(settings=SimpleNamespace(projection=text.config.projection_size))
    program = SimpleNamespace(text=text, vocabulary=VocabularyInfo.from_folder(folder), image=image)
    settings = LocalAlignmentSettings(model_similarity=True, layers=1)
    term = LocalAlignment(settings, program)  # type: ignore[arg-type]
    for parameter in term.parameters():
        nn.init.normal_(parameter)
    save_similarity(term.eval().similarity(), folder)
    return folder


@pytest.fixture
def cohort(tmp_path: Path) -> Path:
    """Studies of two a patient with labels of a table."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {
            "subject_id": [f"p{n // 2}" for n in range(NUMBER)],
            "study_id": [f"t{n}" for n in range(NUMBER)],
            "image_id": [f"image{n}" for n in range(NUMBER)],
            "split": "test",
            "findings": None,
            "impression": [TEXTS[n % 3] for n in range(NUMBER)],
            "labels": list(rng.integers(0, 2, (NUMBER, 1)).astype(float)),
        }
    )
    return write_cohort(tmp_path / "cohort", "pairs.parquet", rows)


@pytest.mark.parametrize(
    ("benchmark", "settings", "metrics"),
    [
        ("retrieval_auroc", {}, ["auroc/global", "auroc/local", "auroc/local_mean"]),
        (
            "fold_probe",
            {"label_source": "cohort", "classes": ["Pneumonia"]},
            ["balanced_accuracy", "auroc"],
        ),
        (
            "zero_shot_findings",
            {"label_source": "cohort", "classes": ["Pneumonia"], "matching": "global"},
            ["auroc"],
        ),
    ],
)
def test_a_model_folder_is_scored(model, cohort, pixels, tmp_path, benchmark, settings, metrics):
    settings = {"intervals": {"replicates": 100}, **settings}
    output = tmp_path / "scores"
    given = options(model=model, cohort=cohort, pixels=pixels, settings=settings, output=output)
    evaluate([benchmark, *given])
    found = read_json(output / "metrics.json")["metrics"]
    for name in metrics:
        if name == "balanced_accuracy":  # of too few patients for an interval
            assert found[name]["low"] is None and 0 <= found[name]["value"] <= 1
            continue
        assert 0 <= found[name]["low"] <= found[name]["value"] <= found[name]["high"] <= 1
