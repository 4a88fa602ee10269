"""Retrieval, prompts and probes of pairs with a model that is loaded from its folder."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from benchmark_fakes import QUICK, metrics_of, pairs_of_studies, write_cohort
from feature_fakes import write_both_encoders
from torch import nn

from cxrflow.benchmarks.evaluate import main as evaluate
from cxrflow.encoders.cxr_bert import load_text_encoder
from cxrflow.pretrain.terms.local_alignment import LocalAlignment
from cxrflow.pretrain.terms.settings import LocalAlignmentSettings
from cxrflow.similarity.folder import save_similarity
from cxrflow.text.tokenizer import VocabularyInfo

TEXTS = ["no pleural effusions .", "nodule", "heart is large . no effusion"]
NUMBER = 30
LABELS = {"label_source": "cohort", "classes": ["Pneumonia"]}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Both encoders and a local similarity as a term makes it."""
    folder = write_both_encoders(tmp_path / "model")
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
    labels = np.random.default_rng(0).integers(0, 2, (NUMBER, 1)).astype(float)
    rows = pairs_of_studies(labels, [TEXTS[n % 3] for n in range(NUMBER)])
    return write_cohort(tmp_path / "cohort", "pairs.parquet", rows)


@pytest.mark.parametrize(
    ("benchmark", "settings", "metrics"),
    [
        ("retrieval_auroc", {}, ["auroc/global", "auroc/local", "auroc/local_mean"]),
        ("fold_probe", LABELS, ["balanced_accuracy", "auroc"]),
        ("zero_shot_findings", {**LABELS, "matching": "global"}, ["auroc"]),
    ],
)
def test_a_model_folder_is_scored(model, cohort, pixels, tmp_path, benchmark, settings, metrics):
    given = {"model": model, "cohort": cohort, "pixels": pixels, "settings": QUICK | settings}
    found = metrics_of(evaluate, benchmark, **given, output=tmp_path / "scores")["metrics"]
    for name in metrics:
        if name == "balanced_accuracy":  # of too few patients for an interval
            assert found[name]["low"] is None and 0 <= found[name]["value"] <= 1
            continue
        assert 0 <= found[name]["low"] <= found[name]["value"] <= found[name]["high"] <= 1
