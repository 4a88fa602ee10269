"""Every benchmark that compares images with texts asks the model's own similarity.

That similarity is code outside of the package here, with a sign as its only setting: a model that
compares by the opposite must score otherwise in each of them.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmark_fakes import (
    QUICK,
    boxes_of,
    grounding_samples,
    make_store,
    metrics_of,
    pairs_of_studies,
    write_cohort,
)
from feature_fakes import write_both_encoders
from retrieval_fixtures import retrieval_samples, write_retrieval

from command_options import options
from cxrflow.benchmarks.evaluate import main as evaluate
from cxrflow.benchmarks.extract_features import main as extract_features
from cxrflow.benchmarks.registry import BENCHMARKS
from cxrflow.kinds import TRUSTED
from cxrflow.programs.source_code import PACKAGE
from cxrflow.similarity.folder import save_similarity

NUMBER = 45
TEXTS = ["no pleural effusions .", "nodule", "heart is large . no effusion", "pleural nodule ."]
DIRECTIONS = ["no", "pleural", "heart", "is", "large"]  # words that the tokenizer knows
PROMPTS = {"positive_prompts": TEXTS[1:2], "negative_prompts": TEXTS[:1]}
PAIRS = {**QUICK, "label_source": "cohort", "classes": ["Pneumonia"]}
#: The settings that each comparing benchmark is run with, at the smallest size.
SMALLEST: dict[str, dict[str, Any]] = {
    "phrase_grounding": QUICK,
    "zero_shot_classification": {**QUICK, **PROMPTS, "prompt_pairs": []},
    "zero_shot_findings": {**PAIRS, **PROMPTS, "prompt_pairs": []},
    "zero_shot_findings of wholes": {**PAIRS, **PROMPTS, "prompt_pairs": [], "matching": "global"},
    "segmentation": {**QUICK, **PROMPTS, "fractions": [1.0], "probe_seeds": [0, 1]},
    "text_retrieval": {**QUICK, "cutoffs": [5]},
    "pair_retrieval": {**QUICK, "equal_texts": "tied"},
    "retrieval_auroc": QUICK,
    "temporal_zero_shot": QUICK,
    "report_generation": {**QUICK, "tagger": "keywords"},
}
# They read both encoders, but the first attends as a term of MedCutMix does (Eq. 2), whatever the
# model's similarity, and the second runs another benchmark.
COMPARES_NOT = {"mixed_pairs", "checkpoint_series"}

SIGNED = '''
import torch
from torch.nn.functional import normalize

from cxrflow.similarity.settings import SimilaritySettings
from cxrflow.similarity.similarity import Similarity


class SignedSettings(SimilaritySettings):
    sign: float


class Signed(Similarity):
    """The mean over patches of their cosine with the text, or its opposite."""

    settings: SignedSettings

    def forward(self, images, texts):
        patches = normalize(images.patches.flatten(1, 2), dim=2)
        text = normalize(texts.projection, dim=1)
        return self.settings.sign * torch.einsum("nmp,tp->nt", patches, text) / patches.shape[1]

    def maps(self, images, texts):
        patches, text = normalize(images.patches, dim=3), normalize(texts.projection, dim=1)
        text = text.expand(len(patches), -1)
        return self.settings.sign * torch.einsum("nhwp,np->nhw", patches, text)
'''


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The module of that similarity, where Python finds it."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "signed_similarity.py").write_text(SIGNED)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv(TRUSTED, "signed_similarity")
        yield __import__("signed_similarity")
    sys.modules.pop("signed_similarity", None)


@pytest.fixture(scope="module")
def models(signed: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two models that differ in the sign of their similarity alone."""
    folders = {}
    for name, sign in (("model", 1.0), ("opposite", -1.0)):
        folders[name] = write_both_encoders(tmp_path_factory.mktemp(name))
        save_similarity(signed.Signed(signed.SignedSettings(sign=sign)), folders[name])
    return folders


@pytest.fixture(scope="module")
def cohorts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A cohort of each kind of the same pictures, and their store."""
    folder = tmp_path_factory.mktemp("cohorts")
    labels = np.random.default_rng(0).integers(0, 2, (NUMBER, 1)).astype(float)
    pairs = pairs_of_studies(labels, [TEXTS[n % len(TEXTS)] for n in range(NUMBER)])
    pairs["split"] = ["train" if n % 3 == 0 else "test" for n in range(NUMBER)]
    pairs = pairs.assign(prior_study_id=None, prior_image_id=None)
    names = pairs["image_id"].tolist()
    samples = pairs[["image_id", "subject_id", "split", "labels"]].assign(
        **{"sample_id": names, "group_id": None, "subgroup": None},
        **{"boxes": [boxes_of(n) for n in range(NUMBER)], "image_width": 64, "image_height": 96},
    )
    phrases = grounding_samples(NUMBER)
    phrases["phrase"] = [TEXTS[n % len(TEXTS)] for n in range(len(phrases))]
    texts = [(f"q{n}", row, TEXTS[n]) for n, row in enumerate(retrieval_samples()["category"][:3])]
    queries = pd.DataFrame(texts, columns=["query_id", "category", "text"])
    changes = samples[["sample_id", "image_id", "subject_id"]][1:].assign(
        **{"prior_image_id": names[:-1], "prior_study_id": "t", "split": "test", "quality": None},
        **{"finding": "Edema", "label": [DIRECTIONS[n % 5] for n in range(NUMBER - 1)]},
    )
    return {
        "pixels": make_store(folder / "store", NUMBER),
        "grounding": write_cohort(folder / "grounding", "samples.parquet", phrases),
        "pairs": write_cohort(folder / "pairs", "pairs.parquet", pairs),
        "classification": write_cohort(folder / "labelled", "samples.parquet", samples),
        "retrieval": write_retrieval(folder / "retrieval", texts=queries),
        "progression": write_cohort(
            folder / "changes", "samples.parquet", changes, classes=DIRECTIONS
        ),
    }


def metrics(name: str, model: Path, cohorts: dict[str, Path], folder: Path) -> dict[str, float]:
    """What a benchmark of the registry measures of a model."""
    benchmark = name.partition(" ")[0]
    entry, pixels = BENCHMARKS[benchmark], cohorts["pixels"]
    assert entry.kind is not None
    given: dict[str, Any] = {"model": model, "cohort": cohorts[entry.kind]}
    if entry.reads == "features":
        extract_features(options(**given, pixels=pixels, output=folder / "features"))
        given["features"] = folder / "features"
    else:
        given["pixels"] = pixels
    given |= {"settings": SMALLEST[name], "output": folder / "scores"}
    result = metrics_of(evaluate, benchmark, **given)
    return {metric: entry["value"] for metric, entry in result["metrics"].items()}


def test_each_benchmark_that_compares_is_run() -> None:
    comparing = {name for name, entry in BENCHMARKS.items() if entry.compares}
    assert comparing == {name.partition(" ")[0] for name in SMALLEST}
    both_halves = {n for n, entry in BENCHMARKS.items() if entry.needs & {"joint", "checkpoints"}}
    assert both_halves - comparing == COMPARES_NOT
    asks = re.compile(r"similarity\.(?:\w*scores|\w*maps|pairs|whole\.pairs)\b|similarity\(")
    for name, entry in BENCHMARKS.items():
        path = PACKAGE / f"{entry.code(entry.program).replace('.', '/')}.py"
        assert entry.compares or not asks.search(path.read_text("utf-8")), name


def test_no_benchmark_and_no_command_knows_a_kind_of_similarity() -> None:
    """They ask the object that the model keeps, and compare no embeddings by a way of their own."""
    for room in ("benchmarks", "commands"):
        for path in (PACKAGE / room).rglob("*.py"):
            kinds = re.findall(r"cxrflow\.similarity\.(\w+)", path.read_text("utf-8"))
            assert set(kinds) <= {"similarity", "settings", "pairs", "folder", "words"}, path


@pytest.mark.parametrize("name", SMALLEST)
def test_the_opposite_similarity_scores_otherwise(name, models, cohorts, tmp_path):
    ours, opposite = (
        metrics(name, folder, cohorts, tmp_path / model) for model, folder in models.items()
    )
    assert ours.keys() == opposite.keys()
    moved = [n for n in ours if ours[n] is not None and ours[n] != opposite[n]]
    assert moved, f"{name} does not ask the model's similarity"
    for n in moved:
        if n == "auroc" or n == "auroc/global":
            assert ours[n] == pytest.approx(1 - opposite[n], abs=1e-6)
