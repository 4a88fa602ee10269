"""Report generation: decoders, retrieval, scores, controls and reference rows."""

import json
import re
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_fakes import result_of, settings_of, studies_of, write_cohort

from cxr_files.errors import InputError
from cxrflow.benchmarks.generation import report_retrieval
from cxrflow.benchmarks.generation.report_generation import (
    exchanged,
    read_studies,
    with_verbatim,
)
from cxrflow.benchmarks.generation.report_retrieval import best, retrieve, sentence_corpus
from cxrflow.benchmarks.generation.report_scores import Scorer, statistic
from cxrflow.benchmarks.rows.texts import reference_reports
from cxrflow.benchmarks.runner import inputs_of
from cxrflow.encoders.image_encoder import Frames
from cxrflow.encoders.settings import ReportDecoderSettings
from cxrflow.images.store import PixelStore
from cxrflow.metrics.factuality import factuality
from cxrflow.reports.entities.taggers import Entity
from cxrflow.similarity.cosine import Cosine
from cxrflow.similarity.similarity import EncodedTexts

SETTINGS = settings_of("report_generation", {"tagger": "keywords", "device": "cpu"})
TRUTH = [
    "New left pleural effusion. No pneumothorax.",
    "The lungs are clear.",
    "Worsening edema. Cardiomegaly is unchanged.",
    "Improved consolidation.",
]
TOLD = [
    "New right pleural effusion. No pneumothorax.",
    "The lungs are clear.",
    "Edema is stable. Possible cardiomegaly.",
    "Left pleural effusion.",
]


def pairs(count: int = 12) -> pd.DataFrame:
    """Two studies a patient, the later one with the earlier as prior; the last four are tested."""
    table = studies_of([TRUTH[number % 4] for number in range(count)])
    table["split"] = (["train"] * 6 + ["validate"] * 2 + ["test"] * count)[:count]
    is_later = pd.Series(np.arange(count) % 2 == 1)
    for name in ("study_id", "image_id"):
        table[f"prior_{name}"] = table[name].shift().where(is_later, None)
    return table


class Tagger:
    """Knows a few words, in lower case only."""

    TYPES: ClassVar = {
        "pleural": "ANATOMY",
        "left": "ANATOMY_MODIFIER",
        "effusion": "OBSERVATION",
        "picc line": "OBSERVATION",
        "edema": "OBSERVATION",
        "new": "OBSERVATION_MODIFIER",
        "stable": "OBSERVATION_MODIFIER",
        "small": "OBSERVATION_MODIFIER",
        "may": "UNCERTAINTY",
    }

    def tag(self, texts: Sequence[str]) -> list[list[Entity]]:
        pattern = re.compile("|".join(self.TYPES))
        return [
            [Entity(m.group(), self.TYPES[m.group()], *m.span()) for m in pattern.finditer(text)]
            for text in texts
        ]


class Model:
    """Sees how bright an image is, writes that, and remembers what it was given."""

    def __init__(self, decoder: bool = True) -> None:
        self.folder, self.geometry, self.takes_prior = Path("fake"), "shorter64", True
        self.decoder = SimpleNamespace(settings=ReportDecoderSettings()) if decoder else None
        self.given: list[str | None] = []
        self.device = torch.device("cpu")
        self.similarity = Cosine()
        self.run: dict[str, Any] = {}

    def generate_report(self, frames, prior_reports, beams, length_penalty) -> list[str]:
        self.given += prior_reports
        means = frames.current.mean((1, 2, 3)).tolist()
        return [
            f"{TOLD[int(mean * 1e6) % 4]} {text or ''}"
            for mean, text in zip(means, prior_reports, strict=True)
        ]


@pytest.fixture
def options(pixels: Path, tmp_path: Path) -> Namespace:
    cohort = write_cohort(tmp_path / "cohort", "pairs.parquet", pairs())
    return Namespace(model=tmp_path, cohort=cohort, pixels=pixels, stanza=None)


def without_model(options: Namespace) -> Namespace:
    """The folders of a reference row."""
    return Namespace(**vars(options) | {"model": None})


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Model:
    """A model of any folder."""
    model = Model()
    monkeypatch.setattr("cxrflow.models.model.Model.load", lambda *_: model)
    return model


def predictions_of(truth: list[str], told: list[str], scorer: Scorer | None = None) -> pd.DataFrame:
    """What is kept of reports, which all have a prior."""
    scorer = scorer or Scorer(SETTINGS, None)
    table = pd.DataFrame(scorer.columns(truth, told))
    return table.assign(reference_labels=scorer.labels(truth), with_prior=True)


def scored(truth: list[str], told: list[str], scorer: Scorer | None = None) -> dict[str, float]:
    predictions = predictions_of(truth, told, scorer)
    values = statistic(predictions, SETTINGS)(np.ones((1, len(truth))))
    return {name: float(value[0]) for name, value in values.items()}


def test_a_report_like_its_reference_has_every_score() -> None:
    perfect = scored(TRUTH, TRUTH)
    assert perfect["label_f1_macro"] < perfect["label_f1_weighted"] == 1  # few of 14 are there
    others = {n: v for n, v in perfect.items() if not n.startswith(("label_f1_macro", "cider_d"))}
    assert set(others.values()) == {1.0}


def test_scores_are_those_of_the_metrics() -> None:
    scorer = Scorer(SETTINGS, None)
    scorer.read([*TRUTH, *TOLD])
    labels = [np.array(scorer.labels(side)) for side in (TRUTH, TOLD)]
    found = scored(TRUTH, TOLD)
    for average, expected in factuality(labels[0], labels[1], np.ones(4)).items():
        assert found[f"label_f1_{average}"] == pytest.approx(float(expected))
    assert 0 < found["tem"] < 1 and "nem" not in found  # words alone name no entity


def test_entities_count_as_in_tem_and_nem() -> None:
    """TEM: {new} of {new}; {} of {stable}; {} of {}. "worse" is a word, but no entity here.

    NEM: {new, effusion, edema} of {new, small, effusion, edema}; {} of {stable, effusion};
    {picc line} of {picc line}.
    """
    truth = [
        "new small left pleural effusion, new edema",
        "Stable heart, worse effusion",
        "PICC  line may remain",
    ]
    told = ["new pleural effusion and pleural edema", "heart enlarged", "PICC  line"]
    scorer = Scorer(SETTINGS, None)
    scorer.tagger, scorer.by_keywords = Tagger(), False
    found = scored(truth, told, scorer)
    assert found["tem"] == pytest.approx(2 / 3)  # precision 1, recall 1/2
    assert found["nem"] == pytest.approx(8 / 11)  # precision 1, recall 4/7


def test_sentences_are_tagged_once_in_the_form_in_which_a_decoder_writes() -> None:
    seen: list[str] = []

    class Noted:
        def tag(self, texts: Sequence[str]) -> list[list[Entity]]:
            seen.extend(texts)
            return [[] for _ in texts]

    scorer = Scorer(SETTINGS, None)
    scorer.tagger, scorer.by_keywords = Noted(), False
    scorer.read(["Ill-defined edema.", "No effusion. ill - defined edema."])
    scorer.read(["No effusion. New edema."])
    assert seen == ["ill-defined edema.", "no effusion.", "new edema."]  # a sentence once
    scorer.by_keywords = True
    scorer.read(["Improved/resolved."])
    assert seen[-1] == "Improved/resolved."


def test_resampled_reports_score_as_their_copies() -> None:
    predictions = predictions_of(TRUTH, TOLD)
    counts = np.array([[2.0, 0.0, 1.0, 1.0]])
    copies = predictions.iloc[[0, 0, 2, 3]]
    drawn = statistic(predictions, SETTINGS)(counts)
    for name, value in statistic(copies, SETTINGS)(np.ones((1, 4))).items():
        assert drawn[name] == pytest.approx(value), name


def test_a_decoder_is_scored_with_its_controls(options, model, tmp_path):
    result = result_of("report_generation", SETTINGS, options)
    assert result.data["samples"] == 4 and result.data["with_prior_image"] == 2
    priors = [text for text in model.given[:4] if text]
    assert priors == [TRUTH[0], TRUTH[2]]  # of the studies' own priors
    controls = {"bleu_4/with_prior", "bleu_4/other_image", "tem/other_prior"}
    assert {"bleu_4", "tem", *controls} <= set(result.metrics)
    assert result.metrics["bleu_4/with_prior"].n == 2
    assert result.protocol["writes"] == "decoder"
    result.write(tmp_path / "scores", "fake", 0)
    said = (tmp_path / "scores" / "metrics.json").read_text()
    assert not any(text.lower() in said.lower() for text in (*TRUTH, *TOLD))
    json.loads(said)
    kept = pd.read_parquet(tmp_path / "scores" / "predictions.parquet")
    again = statistic(kept, SETTINGS)(np.ones((1, len(kept))))
    assert float(again["rouge_l"][0]) == pytest.approx(result.metrics["rouge_l"].value)


def test_a_model_that_sees_nothing_earlier_has_no_control_of_it(options, model):
    model.takes_prior = False
    model.decoder.settings = ReportDecoderSettings(prior_report=False)
    names = result_of("report_generation", SETTINGS, options).metrics
    assert "bleu_4/other_image" in names and "bleu_4/other_prior" not in names


def test_a_decoder_of_other_sections_is_refused(options, model):
    with pytest.raises(InputError, match="writes findings and impression, but settings.sections"):
        impression = SETTINGS.model_copy(update={"sections": ("impression",)})
        result_of("report_generation", impression, options)


def test_what_is_exchanged_is_another_patients(options: Namespace) -> None:
    inputs = inputs_of("report_generation", without_model(options), SETTINGS)
    samples, _ = read_studies(inputs, SETTINGS)
    own = samples.set_index("sample_id")
    images = exchanged(samples, "other_image").set_index("sample_id")
    patient = pairs().set_index("image_id")["subject_id"]
    for sample, row in images.iterrows():
        assert patient[row["image_id"]] != own.loc[sample, "subject_id"]
        assert row["prior_report"] == own.loc[sample, "prior_report"]
    lent = exchanged(samples, "other_prior").set_index("sample_id")
    together = {(r["prior_image_id"], r["prior_report"]) for _, r in own.iterrows()}
    for sample, row in lent.iterrows():
        assert row["image_id"] == sample
        assert (row["prior_image_id"], row["prior_report"]) in together


def test_of_equally_near_texts_the_first_is_found() -> None:
    assert best(np.array([[0.5, 0.9, 0.9, 0.1]], np.float32), 2).tolist() == [[1, 2]]


def test_sentences_are_those_of_impressions_once() -> None:
    table = pd.DataFrame({"impression_sentences": [["A b.", "1 2."], ["a B.", "C."]]})
    assert sentence_corpus(table) == ["a B.", "C."]


class Joint(Model):
    """Images and texts in a space of their own: an image lies where the text of its number does."""

    def __init__(self, texts: list[str]) -> None:
        super().__init__(decoder=False)
        self.texts = texts

    def encode_image(self, frames: Frames[Any]) -> SimpleNamespace:
        places = torch.arange(len(frames.current)) % len(self.texts)
        embedding = torch.eye(len(self.texts))[places]
        return SimpleNamespace(projected_global=embedding, unnormalised_patches=None)


def test_the_nearest_report_and_sentences_are_found(options, monkeypatch):
    def encode_texts(model: Joint, texts: list[str], batch_size: int) -> EncodedTexts:
        nearness = torch.eye(len(model.texts)) + 0.1
        return EncodedTexts(torch.stack([nearness[model.texts.index(text)] for text in texts]))

    monkeypatch.setattr(report_retrieval, "encode_texts", encode_texts)
    store = PixelStore(options.pixels)
    inputs = inputs_of("report_generation", without_model(options), SETTINGS)
    (samples, _), table = read_studies(inputs, SETTINGS), inputs.cohort.table
    found = retrieve(Joint(TRUTH), table, samples, store, SETTINGS)
    assert found == TRUTH  # of the training part, which has each
    table = table.assign(impression_sentences=table["impression"].str.split(". "))
    sentences = sentence_corpus(table)
    chosen = SETTINGS.model_copy(update={"method": "sentences"})
    found = retrieve(Joint(sentences), table, samples, store, chosen)
    assert found[0].startswith(sentences[0]) and len(found[0]) > len(sentences[0])


def test_reference_rows_know_training_reports_alone(options: Namespace) -> None:
    training = ["Normal chest.", "No effusion is seen.", "Normal chest.", "No effusion was seen."]
    samples = pd.DataFrame({"prior_report": ["A.", ""]})
    written = {
        name: reference_reports(name, training, samples)
        for name in ("most_frequent", "typical", "random", "prior_report")
    }
    assert written["most_frequent"] == ["Normal chest."] * 2
    assert set(written["random"]) <= set(training)
    assert written["prior_report"] == ["A.", ""]
    result = result_of("report_generation", SETTINGS, without_model(options), "most_frequent")
    assert result.predictions["generated"].nunique() == 1
    assert result.metrics["rouge_l"].n == 4


def test_sentences_that_stand_in_training_reports_are_counted() -> None:
    """Word for word, whatever their capitals and blanks; each with the number of sentences."""
    table = pd.DataFrame({"reference": TRUTH, "generated": TOLD}).assign(
        generated_other_image=[None, "no pneumothorax .", None, "Nothing."]
    )
    scorer = Scorer(SETTINGS, None)
    training = ["No pneumothorax. Worsening edema.", "The lungs are clear."]
    counted, distinct = with_verbatim(table, scorer, training)
    assert counted["verbatim_reference"].tolist() == [[1, 2], [1, 1], [1, 2], [0, 1]]
    assert counted["verbatim"].tolist() == [[1, 2], [1, 1], [0, 2], [0, 1]]
    assert counted["verbatim_other_image"].dropna().tolist() == [[1, 1], [0, 1]]
    assert distinct == {"distinct_sentences": 6, "distinct_sentences_in_training": 3}
    scores = predictions_of(TRUTH, TOLD, scorer).join(counted)
    scores = scores.drop(columns="verbatim_other_image")
    values = statistic(scores, SETTINGS)(np.array([[1.0, 1.0, 1.0, 1.0], [2.0, 0.0, 0.0, 0.0]]))
    assert values["verbatim_reference"] == pytest.approx([3 / 6, 1 / 2])
    assert values["verbatim"] == pytest.approx([2 / 6, 1 / 2])
    assert with_verbatim(table, scorer, [])[1] == {}
