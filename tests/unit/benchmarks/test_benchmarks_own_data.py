"""What is measured on a hospital's own pairs: image-text retrieval, findings that reports name."""

import json
import statistics
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmark_fakes import QUICK, FakeModel, studies_of, write_cohort
from retrieval_fixtures import bright_and_dark

from command_options import options
from cxrflow.benchmarks.evaluate import main as evaluate
from cxrflow.benchmarks.retrieval import pair_retrieval
from cxrflow.benchmarks.retrieval.pair_retrieval import score_studies
from cxrflow.benchmarks.rows.pairs import by_frequency
from cxrflow.metrics.intervals import weighted_median
from cxrflow.metrics.retrieval import ranks

NUMBER, CUTOFFS = 30, [1, 5, 10]
RNG = np.random.default_rng(4)


def own_rank(scores: list[float], own: int) -> float:
    """Place of one candidate in an order, from its definition: mean over orders of its equals."""
    before = sum(score > scores[own] for score in scores)
    equals = sum(score == scores[own] for score in scores)
    return statistics.mean(range(before + 1, before + equals + 1))


def test_ranking_holds_no_further_matrix_of_all_pairs() -> None:
    table, scores_NN = samples(2000), np.ones((2000, 2000))
    tracemalloc.start()
    score_studies(table, scores_NN, CUTOFFS)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < scores_NN.nbytes / 2


@pytest.mark.parametrize("levels", [1, 3, 1000])
def test_ranks_are_those_of_the_definition(levels: int) -> None:
    scores_QC = RNG.integers(0, levels, (NUMBER, NUMBER)).astype(np.float64)
    own_Q = RNG.permutation(NUMBER)
    expected = [own_rank(list(row), own) for row, own in zip(scores_QC, own_Q, strict=True)]
    assert ranks(scores_QC, own_Q).tolist() == expected


@pytest.mark.parametrize("number", [1, 2, 7, 8])
def test_the_median_is_that_of_values_as_often_as_drawn(number: int) -> None:
    values = RNG.integers(0, 9, number).astype(np.float64)
    counts = RNG.integers(0, 3, (50, number)).astype(np.float64)
    counts[0] = 0
    found = weighted_median(counts, values)
    assert np.isnan(found[0])
    for row, value in zip(counts[1:], found[1:], strict=True):
        drawn = np.repeat(values, row.astype(int))
        assert (np.isnan(value) and not len(drawn)) or value == np.median(drawn)
    missing = np.append(values, np.nan)
    with_missing = np.append(counts, np.ones((50, 1)), axis=1)
    np.testing.assert_array_equal(weighted_median(with_missing, missing), found)


def studies(count: int = NUMBER) -> pd.DataFrame:
    """Two studies a patient; pneumonia in every third."""
    words = ["Pneumonia", "No pneumonia", "The heart is normal"]
    texts = [f"{words[n % 3]} of kind {n}." for n in range(count)]
    return studies_of(texts, split=["test"] * (count - 3) + ["train"] * 3)


def samples(count: int = NUMBER) -> pd.DataFrame:
    """The same as they are scored, each with a text that no other has."""
    table = studies(count)
    return table.assign(sample_id=table["image_id"], text=table["impression"])


@pytest.mark.parametrize("block", [7, 256])
def test_recall_and_median_rank_of_both_directions(block: int, monkeypatch) -> None:
    """Against a loop over queries; a control with another patient's counterpart is at chance."""
    monkeypatch.setattr(pair_retrieval, "BLOCK", block)
    scores_NN = RNG.normal(size=(NUMBER, NUMBER)) + 2 * np.eye(NUMBER)
    predictions = score_studies(samples(), scores_NN, CUTOFFS)
    for direction, scores in (("image_to_text", scores_NN), ("text_to_image", scores_NN.T)):
        places = [own_rank(list(scores[n]), n) for n in range(NUMBER)]
        assert predictions[f"median_rank/{direction}"].tolist() == places
        for k in CUTOFFS:
            hits = [place <= k for place in places]
            assert predictions[f"recall/{k}/{direction}"].tolist() == hits
        found = predictions[f"other_study/recall/10/{direction}"]
        assert found.notna().all() and abs(found.mean() - 1 / 3) < 0.3
    settings = pair_retrieval.PairRetrievalSettings()
    metrics = pair_retrieval.statistic(predictions, settings)(np.ones((1, NUMBER)))
    own = predictions["recall/5/image_to_text"].mean()
    assert metrics["recall/5/image_to_text"] == pytest.approx(own)
    places = predictions["median_rank/text_to_image"]
    assert metrics["median_rank/text_to_image"] == places.median()


def test_a_model_that_tells_nothing_apart_is_at_chance() -> None:
    """Equal scores give what a random order gets in the mean, not the first place."""
    same = score_studies(samples(), np.ones((NUMBER, NUMBER)), CUTOFFS)
    any_order = score_studies(samples(), None, CUTOFFS)
    assert set(same["median_rank/image_to_text"]) == {(NUMBER + 1) / 2}
    assert same["median_rank/image_to_text"].equals(any_order["median_rank/image_to_text"])
    assert any_order["recall/5/text_to_image"].tolist() == [5 / NUMBER] * NUMBER
    assert set(same["recall/10/image_to_text"]) == {0}


def rank_among_others(scores: list[float], texts: list[str], own: int) -> float:
    """Place of a candidate among those of other texts, from its definition."""
    others = [n for n, text in enumerate(texts) if text != texts[own]]
    before = sum(scores[n] > scores[own] for n in others)
    return 1 + before + sum(scores[n] == scores[own] for n in others) / 2


def test_equal_reports_do_not_count_against_one_another() -> None:
    """Against loops; 7 texts, of which an image searches each once."""
    table = samples()
    texts = [f"Text {n % 7}" for n in range(NUMBER)]
    table["text"] = [text.upper() if n % 2 else f" {text}" for n, text in enumerate(texts)]
    scores_NN = RNG.integers(0, 9, (NUMBER, NUMBER)).astype(np.float64)
    scores_NN = scores_NN[:, [texts.index(text) for text in texts]]  # equal texts score alike
    predictions = score_studies(table, scores_NN, CUTOFFS)
    firsts = [texts.index(text) for text in dict.fromkeys(texts)]
    of_images = [
        rank_among_others(
            [scores_NN[n, c] for c in firsts], [texts[c] for c in firsts], firsts.index(n % 7)
        )
        for n in range(NUMBER)
    ]
    of_texts = [rank_among_others(list(scores_NN[:, n]), texts, n) for n in range(NUMBER)]
    assert predictions["median_rank/image_to_text"].tolist() == of_images
    assert predictions["median_rank/text_to_image"].tolist() == of_texts
    assert predictions["recall/5/text_to_image"].tolist() == [rank <= 5 for rank in of_texts]
    any_order = score_studies(table, None, CUTOFFS)
    assert any_order["recall/5/image_to_text"].tolist() == [5 / 7] * NUMBER
    copies = np.array([texts.count(text) for text in texts])
    expected = 5 / (NUMBER - copies + 1)
    np.testing.assert_allclose(any_order["recall/5/text_to_image"], expected)
    flat = score_studies(table, np.zeros_like(scores_NN), CUTOFFS)
    np.testing.assert_allclose(flat["median_rank/text_to_image"], 1 + (NUMBER - copies) / 2)


@pytest.fixture
def given(pixels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A cohort, its pixels and a model of brightness and the word "no", as options."""
    rows = studies()
    rows.loc[4, "impression"] = " ".join(rows.loc[1, "impression"].upper().split()) + "\n"
    rows.loc[6, "impression"] = None
    cohort = write_cohort(tmp_path / "cohort", "pairs.parquet", rows)
    monkeypatch.setattr("cxrflow.models.model.Model.load", lambda *_: FakeModel())
    monkeypatch.setattr(
        pair_retrieval, "encode_texts", lambda model, texts, _: model.encode_texts(texts)
    )
    return options(cohort=cohort, pixels=pixels, settings=QUICK, output=tmp_path / "scores")


def scored(*words: str) -> dict:
    """metrics.json of a benchmark with these options, of which the last names its folder."""
    evaluate([*words])
    return json.loads((Path(words[-1]) / "metrics.json").read_text())


def test_pair_retrieval_of_a_cohort(given: list[str], tmp_path: Path) -> None:
    model = scored("pair_retrieval", "--model", str(tmp_path), *given)
    reasons = {drop["reason"]: drop["count"] for drop in model["data"]["dropped"]}
    assert reasons["another study has the same text"] == 1
    assert reasons["no text in impression"] == 1
    count = model["data"]["samples"]
    assert count == NUMBER - 3 - 2 - reasons.get("image is not in the pixel store", 0)
    one = model["metrics"]["recall/1/image_to_text"]
    assert one["low"] <= one["value"] <= one["high"] and one["n"] == count
    given[-1] = str(tmp_path / "any")
    chance = scored("pair_retrieval", "--reference", "nothing", *given)["metrics"]
    assert chance["recall/10/image_to_text"]["value"] == pytest.approx(10 / count)
    assert chance["median_rank/text_to_image"]["value"] == (count + 1) / 2


def test_the_commonest_training_texts_come_first_for_every_image() -> None:
    training = pd.DataFrame({"text": ["Normal.", "normal. ", "Edema.", "Rare."]})
    table = pd.DataFrame({"text": ["Edema.", "Normal.", "Unread."]})
    assert by_frequency(training, table).tolist() == [[1, 2, 0]] * 3


@pytest.mark.parametrize("name", ["thumbnail", "length"])
def test_reference_rows_learn_from_the_training_pairs(
    given: list[str], tmp_path: Path, name: str
) -> None:
    """A linear map of thumbnails finds reports whose words, or length, the image lets expect."""
    rows = bright_and_dark(Path(given[3]), studies())
    rows.to_parquet(tmp_path / "cohort/pairs.parquet")
    result = scored("pair_retrieval", "--reference", name, *given)["metrics"]
    chance = (NUMBER / 2 + 1) / 2
    assert result["median_rank/image_to_text"]["value"] < chance


def test_findings_are_those_of_the_report(given: list[str], tmp_path: Path) -> None:
    model = scored("zero_shot_findings", "--model", str(tmp_path), *given)
    assert model["benchmark"] == "zero_shot_findings"
    assert model["protocol"]["reference"] == "labels of the studies' own reports"
    predictions = pd.read_parquet(tmp_path / "scores/predictions.parquet")
    rows = studies().set_index("image_id").loc[predictions["sample_id"]]
    says = rows["impression"].str.startswith("Pneumonia").to_numpy()
    np.testing.assert_array_equal(predictions["label/pneumonia"] == 1, says)
    # Brightness is what this model answers to, whatever the finding.
    scores = predictions["score/pneumonia"].to_numpy()
    positive, negative = scores[says], scores[~says]
    pairs = positive[:, None] - negative
    area = ((pairs > 0) + (pairs == 0) / 2).mean()
    assert model["metrics"]["auroc/pneumonia"]["value"] == pytest.approx(area)
    assert model["metrics"]["auroc/edema"]["value"] is None


def test_findings_are_read_in_the_sentences_that_the_corpus_cut(given, tmp_path):
    """Lines without a stop are sentences there, where their text alone would be one."""
    rows, cut = studies(), ["No pneumothorax", "Pneumonia"]
    rows["impression_sentences"] = [[text] for text in rows["impression"]]
    rows.at[8, "impression"], rows.at[8, "impression_sentences"] = "\n".join(cut), cut
    rows.to_parquet(tmp_path / "cohort/pairs.parquet")
    evaluate(["zero_shot_findings", "--model", str(tmp_path), *given])
    predictions = pd.read_parquet(tmp_path / "scores/predictions.parquet")
    found = predictions.set_index("sample_id").loc[rows.at[8, "image_id"]]
    assert (found["label/pneumonia"], found["label/pneumothorax"]) == (1, 0)
