"""CXR-RePaiR-Sel: CLIP's loss, the corpus, what is nearest, and the selection."""

import math
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_fakes import make_store, result_of, write_cohort
from pydantic import ValidationError
from rivals import cxr_repair
from rivals.cxr_repair import (
    ClipPairs,
    ClipPairsSettings,
    SelectionSettings,
    corpus_of,
    nearest,
    select,
)
from torch import Tensor
from transformers.models.clip.modeling_clip import image_text_contrastive_loss

from cxr_files.errors import InputError
from cxrflow.benchmarks.generation import report_retrieval
from cxrflow.benchmarks.generation.settings import ReportGenerationSettings
from cxrflow.images.store import PixelStore
from cxrflow.similarity.cosine import Cosine
from cxrflow.similarity.similarity import EncodedTexts
from cxrflow.training.processes import ALONE

TERM, SELECTION = "rivals.cxr_repair:ClipPairs", "rivals.cxr_repair:Selection"
NORMAL, EFFUSION, EDEMA = "No acute process.", "Left pleural effusion.", "Mild edema."
DRAWN = torch.Generator().manual_seed(0)


def settings_of(**values: Any) -> SelectionSettings:
    return SelectionSettings.model_validate({"intervals": {"replicates": 100}, **values})


# --- the loss -------------------------------------------------------------------------------------


def views_of(image_NP: Tensor, text_NP: Tensor) -> Any:
    """What the term reads of a batch in one process."""
    return SimpleNamespace(
        images=[SimpleNamespace(projected_global=image_NP)],
        texts={"intact": SimpleNamespace(projected=text_NP)},
        batch=SimpleNamespace(gather=lambda *parts: ALONE.gather(len(image_NP), *parts)),
    )


def term_of(**values: Any) -> ClipPairs:
    encoders: Any = None
    return ClipPairs(ClipPairsSettings(kind=TERM, **values), encoders)


def test_the_loss_is_clips_and_its_temperature_is_learnt() -> None:
    image_NP, text_NP = (torch.randn(5, 7, generator=DRAWN) for _ in range(2))
    term = term_of()
    loss = term.loss(views_of(image_NP, text_NP))
    cosine_NN = torch.nn.functional.cosine_similarity(image_NP[:, None], text_NP[None], dim=2)
    scaled_NN = cosine_NN / 0.07
    by_hand = sum(-scores.log_softmax(1).diagonal().mean() for scores in (scaled_NN, scaled_NN.T))
    torch.testing.assert_close(loss, torch.as_tensor(by_hand) / 2)
    torch.testing.assert_close(loss, image_text_contrastive_loss(scaled_NN.T))
    loss.backward()
    assert term.log_scale.grad is not None and term.log_scale.grad != 0
    comparisons = term.comparisons(views_of(image_NP, text_NP))
    torch.testing.assert_close(comparisons.groups[0].score_KK, scaled_NN)


def test_the_scale_stops_at_its_limit() -> None:
    for largest, expected in ((100.0, 100.0), (None, math.exp(9))):
        term = term_of(largest_scale=largest)
        with torch.no_grad():
            term.log_scale.fill_(9.0)
            term.after_update()
        assert float(term.logged()["scale"]) == pytest.approx(expected, rel=1e-5)


# --- the corpus -----------------------------------------------------------------------------------


def pairs() -> pd.DataFrame:
    """Studies out of order; a test report, a number, and a sentence in capitals."""
    sentences = [[EDEMA], [NORMAL, "1."], [NORMAL.upper(), EFFUSION], [EFFUSION], ["Secret."]]
    return pd.DataFrame(
        {
            "study_id": ["s3", "s1", "s2", "s4", "s0"],
            "split": ["validate", "train", "train", "train", "test"],
            "impression_sentences": sentences,
            "impression": [" ".join(report) for report in sentences],
            "findings": None,
        }
    )


def test_the_corpus_is_of_training_and_validation_in_order_of_studies() -> None:
    texts, counts_S = corpus_of(pairs(), settings_of())
    assert texts == [NORMAL, EFFUSION, EDEMA] and counts_S.tolist() == [1, 1, 1]
    texts, counts_S = corpus_of(pairs(), settings_of(distinct=False))
    assert texts == [NORMAL, NORMAL.upper(), EFFUSION, EDEMA]
    assert counts_S.tolist() == [1, 1, 2, 1]
    texts, _ = corpus_of(pairs(), settings_of(corpus="reports"))
    assert texts == [f"{NORMAL} 1.", f"{NORMAL.upper()} {EFFUSION}", EDEMA, EFFUSION]
    with pytest.raises(InputError, match="have no impression; expected a text"):
        corpus_of(pairs().query("split == 'test'"), settings_of())


def test_the_nearest_are_those_of_a_corpus_with_every_copy() -> None:
    generator = np.random.default_rng(0)
    counts_S = np.array([2, 1, 3, 1])
    score_BS = generator.normal(size=(6, 4)).astype(np.float32)
    copies = np.repeat(np.arange(4), counts_S)
    for many in (1, 3, 6, 9):
        for row, found in zip(score_BS, nearest(score_BS, counts_S, many), strict=True):
            ranked = copies[np.argsort(-row[copies], kind="stable")]
            assert found.tolist() == ranked[:many].tolist()


# --- the selection --------------------------------------------------------------------------------


def test_a_normal_sentence_stands_alone_and_others_bring_five_more() -> None:
    chosen = [[NORMAL, EDEMA, EFFUSION], [EFFUSION, NORMAL, EDEMA]]
    index = pd.Index([7, 3])
    written, few = select(chosen, index, settings_of())
    assert written.to_dict() == {7: NORMAL, 3: f"{EFFUSION} {NORMAL} {EDEMA}"} and few == 1
    written, few = select(chosen, index, settings_of(selects=False))
    assert written.tolist() == [" ".join(texts) for texts in chosen] and few == 0


def test_few_must_be_fewer() -> None:
    assert settings_of(few=6, selects=False)
    with pytest.raises(ValidationError, match="few is 6; expected fewer than many, 6"):
        settings_of(few=6)


class Joint:
    """Images in turn lie where each text does; texts nearly so."""

    takes_prior, decoder, similarity = False, None, Cosine()
    geometry, folder, device = "shorter64", Path("fake"), torch.device("cpu")
    run: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts

    def encode_image(self, frames: Any) -> SimpleNamespace:
        places = torch.arange(len(frames.current)) % len(self.texts)
        embedding = torch.eye(len(self.texts))[places]
        return SimpleNamespace(projected_global=embedding, unnormalised_patches=None)


def encode_texts(model: Joint, texts: list[str], batch_size: int) -> EncodedTexts:
    nearness = torch.eye(len(model.texts)) + torch.linspace(0.1, 0.3, len(model.texts))
    return EncodedTexts(torch.stack([nearness[model.texts.index(text)] for text in texts]))


@pytest.fixture
def folders(tmp_path: Path) -> Namespace:
    reports = [[NORMAL], [EFFUSION, EDEMA], ["Cardiomegaly."], [NORMAL, "No effusion."]] * 3
    table = pd.DataFrame(
        {
            "subject_id": [f"p{n}" for n in range(12)],
            "study_id": [f"s{n:02}" for n in range(12)],
            "image_id": [f"image{n}" for n in range(12)],
            "split": ["train"] * 6 + ["validate"] * 2 + ["test"] * 4,
            "findings": None,
            "impression": [" ".join(report) for report in reports],
            "impression_sentences": reports,
            "prior_study_id": None,
            "prior_image_id": None,
        }
    )
    cohort = write_cohort(tmp_path / "cohort", "pairs.parquet", table)
    return Namespace(cohort=cohort, pixels=make_store(tmp_path / "pictures", 12), stanza=None)


def test_it_is_report_generation_with_what_is_found(
    folders: Namespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cxr_repair, "encode_texts", encode_texts)
    texts = [NORMAL, EFFUSION, EDEMA, "Cardiomegaly.", "No effusion."]
    inputs = {"model": Joint(texts), "pixels": PixelStore(folders.pixels)}
    result = result_of(SELECTION, settings_of(), folders, **inputs)
    written = result.predictions["generated"].tolist()
    assert written[0] == NORMAL and result.data["with_few_texts"] == 1
    assert all(sorted(text.split(". ")) != sorted(NORMAL.split(". ")) for text in written[1:])
    assert written[1].startswith(EFFUSION) and len(written[1]) > len(EFFUSION)
    assert result.metrics["bleu_2"].n == 4 and "bleu_2/other_image" in result.metrics
    assert result.protocol["writes"] == "retrieval"
    result.write(tmp_path / "scores", "fake", 0)
    assert EFFUSION not in (tmp_path / "scores/metrics.json").read_text()
    # Without the selection it is the package's retrieval of sentences, CXR-RePaiR-2.
    monkeypatch.setattr(report_retrieval, "encode_texts", encode_texts)
    two = settings_of(selects=False, many=2)
    ours = result_of(SELECTION, two, folders, **inputs)
    theirs = result_of(
        "report_generation",
        ReportGenerationSettings.model_validate(
            {
                **two.model_dump(include={"sections", "tagger", "intervals"}),
                **{"method": "sentences", "sentences": 2},
            }
        ),
        folders,
        **inputs,
    )
    assert ours.predictions["generated"].tolist() == theirs.predictions["generated"].tolist()
    assert ours.metrics["label_f1_macro"] == theirs.metrics["label_f1_macro"]


@pytest.mark.parametrize("row", ["most_frequent", "typical", "random", "prior_report"])
def test_floors_are_of_impressions(row: str, folders: Namespace) -> None:
    result = result_of(SELECTION, settings_of(), folders, reference=row)
    assert len(result.predictions) == 4 and result.protocol["writes"] == row
    assert "with_few_texts" not in result.data
