"""Retrieval of images by image and by text: scores, controls, reference rows, bad input."""

import math
from argparse import Namespace

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_fakes import QUICK, CosineModel, metrics_of, result_of, settings_of
from feature_fakes import fake_features, write_fake
from retrieval_fixtures import (
    CANDIDATES,
    CATEGORIES,
    QUERIES,
    category_features,
    retrieval_samples,
    retrieval_texts,
    write_retrieval,
)
from small_text import WORDS

from command_options import options
from cxr_files.atomic import read_json
from cxr_files.errors import InputError
from cxrflow.benchmarks.evaluate import main as evaluate
from cxrflow.benchmarks.paired_tests import Inference, read_predictions
from cxrflow.benchmarks.retrieval.precision import statistic
from cxrflow.benchmarks.retrieval.settings import ImageRetrievalSettings
from cxrflow.benchmarks.settings import PairedTestSettings
from cxrflow.metrics.retrieval import cosines, precision, ranking
from cxrflow.text.tokenizer import SPECIAL_TOKENS, read_tokenizer, write_tokenizer

CUT = {**QUICK, "cutoffs": [1, 5, 12]}
BY_IMAGE = settings_of("image_retrieval", CUT)


class Words(CosineModel):
    """Embeds a text as the direction of the category that it begins with."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def encode_text(self, texts):
        by_category = np.random.default_rng(2).normal(size=(len(CATEGORIES), 16))
        rows = [next(n for n, c in enumerate(CATEGORIES) if t.startswith(c)) for t in texts]
        return torch.nn.functional.normalize(torch.tensor(by_category[rows]), dim=1)


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    write_tokenizer(folder, [*SPECIAL_TOKENS, *WORDS], lowercase=True)
    return Words(read_tokenizer(folder))


def by_image(folder, features, settings=BY_IMAGE, **more):
    folders = Namespace(cohort=write_retrieval(folder, **more))
    return result_of("image_retrieval", settings, folders, features=features)


def by_text(model, folder, features, **more):
    folders = Namespace(cohort=write_retrieval(folder, **more))
    return result_of("text_retrieval", CUT, folders, features=features, model=model)


def values(result):
    return {name: estimate.value for name, estimate in result.metrics.items()}


def literal(queries, candidates, labels, categories, k):
    """Precision at k of each query as the paper's words have it, one candidate at a time."""
    precisions = []
    for query, category in zip(queries, labels, strict=True):
        scored = []
        for number, candidate in enumerate(candidates):
            dot = sum(a * b for a, b in zip(query, candidate, strict=True))
            length = math.sqrt(sum(a * a for a in query)) * math.sqrt(sum(a * a for a in candidate))
            scored.append((-round(dot / length, 9), number))
        best = [categories[number] for _, number in sorted(scored)[:k]]
        precisions.append(best.count(category) / k)
    return precisions


def by_hand(features, kind, queries, wanted, k):
    """The same of the candidates in the order of their ids."""
    table = retrieval_samples()
    candidates = table[table["part"] == "candidate"].sort_values("image_id")
    vectors = features.by_kind[kind].double().numpy()[candidates.index]
    return literal(queries, vectors, wanted, candidates["category"].tolist(), k)


def test_images_find_their_category_as_a_literal_loop_says(tmp_path):
    features, table = category_features(noise=2.0), retrieval_samples()
    result = by_image(tmp_path, features)
    own = table["part"] == "query"
    vectors = features.by_kind["pooled"][torch.tensor(own.to_numpy())].double().numpy()
    for k in BY_IMAGE.cutoffs:
        expected = by_hand(features, "pooled", vectors, table["category"][own], k)
        assert result.predictions[f"precision/{k}"].tolist() == pytest.approx(expected)
        assert values(result)[f"precision/{k}"] == pytest.approx(np.mean(expected))
    edema = result.predictions["category"] == "Edema"
    assert values(result)["precision/5/edema"] == pytest.approx(
        result.predictions["precision/5"][edema].mean()
    )
    assert result.metrics["precision/5"].n == QUERIES
    assert result.metrics["precision/5/edema"].n == 3
    assert result.metrics["precision/5"].low < result.metrics["precision/5"].value
    assert values(result)["chance"] == pytest.approx(1 / 3)
    assert result.data["candidates"] == dict.fromkeys(sorted(CATEGORIES), 12)
    # Candidates 34 and 35 share a patient; the first query, image36, does with none.
    assert result.data["queries_of_patients_among_candidates"] == 0


def test_a_model_that_knows_the_category_finds_nothing_else_and_the_control_falls(tmp_path, words):
    features = category_features(noise=0.01)
    for result in (by_image(tmp_path / "a", features), by_text(words, tmp_path / "b", features)):
        found = values(result)
        assert [found[f"precision/{k}"] for k in (1, 5, 12)] == [1, 1, 1]
        assert [found[f"other_category/{k}"] for k in (1, 5, 12)] == [0, 0, 0]
    noise = category_features(noise=1000.0)
    found = values(by_image(tmp_path / "c", noise))
    assert found["precision/12"] == pytest.approx(1 / 3, abs=0.15)
    assert found["other_category/12"] == pytest.approx(1 / 3, abs=0.15)


def test_texts_find_their_category_as_a_literal_loop_says(tmp_path, words):
    features, texts = category_features(noise=2.0), retrieval_texts()
    result = by_text(words, tmp_path, features)
    vectors = words.encode_text(texts["text"].tolist()).numpy()
    expected = by_hand(features, "projected", vectors, texts["category"], 5)
    assert result.predictions["precision/5"].tolist() == pytest.approx(expected)
    assert result.predictions["sample_id"].tolist() == texts["query_id"].tolist()
    assert result.metrics["precision/5"].n == len(texts)
    # Other words are other data.
    other = texts.assign(text=texts["text"] + " indeed")
    again = by_text(words, tmp_path / "other", features, texts=other)
    assert again.data["fingerprint"] != result.data["fingerprint"]


def test_equal_candidates_stand_in_the_order_of_their_ids(tmp_path):
    features = category_features(noise=0.0)
    features.by_kind["pooled"][:] = 1.0
    table = retrieval_samples()
    first = table[table["part"] == "candidate"].sort_values("image_id")["category"].iloc[:5]
    result = by_image(tmp_path, features)
    expected = [(first == category).mean() for category in result.predictions["category"]]
    assert result.predictions["precision/5"].tolist() == expected
    shuffled = table.sample(frac=1, random_state=3).reset_index(drop=True)
    again = by_image(tmp_path / "again", features, samples=shuffled)
    assert values(again) == pytest.approx(values(result))


def test_projected_vectors_can_be_compared_and_must_be_there(tmp_path):
    features = category_features(noise=2.0)
    settings = BY_IMAGE.model_copy(update={"features": "projected"})
    # A length of one changes no cosine.
    assert values(by_image(tmp_path, features, settings)) == values(by_image(tmp_path, features))
    del features.by_kind["projected"]
    with pytest.raises(InputError, match="'projected' is missing; found pooled"):
        by_image(tmp_path, features, settings)


def test_queries_that_would_find_themselves_are_left_out_and_counted(tmp_path):
    samples = retrieval_samples()
    twice = samples[samples["image_id"].isin(["image36", "image37"])].assign(part="candidate")
    lost = samples.iloc[:1].assign(image_id="nowhere", sample_id="nowhere")
    table = pd.concat([samples, twice, twice.iloc[:1], lost], ignore_index=True)
    result = by_image(tmp_path, category_features(noise=2.0), samples=table)
    reasons = {one["reason"]: one["count"] for one in result.data["dropped"]}
    assert reasons == {
        "query stands among the candidates": 2,
        "candidate is not in the pixel store": 1,
        "candidate is listed before": 1,
    }
    assert len(result.predictions) == QUERIES - 2
    assert sum(result.data["candidates"].values()) == CANDIDATES + 2


def test_a_query_of_a_category_without_candidates_is_refused(tmp_path, words):
    features, samples = category_features(noise=1.0), retrieval_samples()
    samples.loc[samples.index[-1], "category"] = "Gout"
    expected = "category 'Gout' have no candidate; expected a category of the candidates: Edema"
    with pytest.raises(InputError, match=expected):
        by_image(tmp_path, features, samples=samples)
    texts = retrieval_texts().replace({"category": {"Edema": "Gout"}})
    with pytest.raises(InputError, match=expected):
        by_text(words, tmp_path, features, texts=texts)


def test_no_queries_no_candidates_and_too_many_asked_for_are_refused(tmp_path, words):
    features, samples = category_features(noise=1.0), retrieval_samples()
    for part, left in (("query", "candidate"), ("candidate", "query")):
        with pytest.raises(InputError, match=f"samples.parquet: column 'part' has no '{part}'"):
            by_image(tmp_path, features, samples=samples[samples["part"] == left])
    with pytest.raises(InputError, match=r"queries.parquet: the table is empty"):
        by_text(words, tmp_path, features, texts=retrieval_texts().iloc[:0])
    settings = BY_IMAGE.model_copy(update={"cutoffs": [5, 37]})
    with pytest.raises(InputError, match="key 'cutoffs' has 37; there are 36 candidates"):
        by_image(tmp_path, features, settings)
    for wrong in ([], [10, 5], [0, 5]):
        with pytest.raises(ValueError, match="cutoffs"):
            ImageRetrievalSettings(cutoffs=wrong)


def test_texts_without_tokens_are_left_out_and_counted(tmp_path, words):
    texts = retrieval_texts()
    texts.loc[[0, 3], "text"] = ["\u200b", "  "]
    result = by_text(words, tmp_path, category_features(noise=1.0), texts=texts)
    [dropped] = result.data["dropped"]
    assert (dropped["reason"], dropped["count"]) == ("text has no tokens", 2)
    assert len(result.predictions) == 4
    with pytest.raises(InputError, match="no sample is left: text has no tokens"):
        by_text(words, tmp_path, category_features(1.0), texts=texts.assign(text="\u200b"))


def test_the_program_scores_a_model_and_rows_that_know_nothing(pixels, tmp_path):
    cohort = write_retrieval(tmp_path / "cohort")
    model, features = write_fake(tmp_path, fake_features(pixels), has_text=False)
    given = {"cohort": cohort, "settings": CUT}
    read = {"model": model, "features": features, "output": tmp_path / "scores/model"}
    evaluate(["image_retrieval", *options(**given, **read)])
    asked = [("image_retrieval", name) for name in ("nothing", "intensity", "thumbnail", "random")]
    for benchmark, name in (*asked, ("text_retrieval", "nothing")):
        output = tmp_path / "scores" / benchmark / name
        row = {"reference": name, "pixels": pixels, "output": output}
        said = metrics_of(evaluate, benchmark, **row, **given)
        assert said["benchmark"] == benchmark and said["model"] == f"reference/{name}"
        assert all(0 <= one["value"] <= 1 for one in said["metrics"].values())
        if name == "nothing":
            whole = [f"{kind}/{k}" for kind in ("precision", "other_category") for k in (1, 5, 12)]
            assert [said["metrics"][one]["value"] for one in whole] == pytest.approx([1 / 3] * 6)
    # Rows are tested against each other, query by query.
    files = [tmp_path / "scores" / part for part in ("model", "image_retrieval/nothing")]
    metric = {"metric": "precision/5", "reference_metric": "precision/5"}
    models = {"model": "fake", "reference_model": "reference/nothing"}
    settings = {"comparisons": [{"task": "image_retrieval", **models, **metric}], "replicates": 100}
    runs = read_predictions([folder / "predictions.parquet" for folder in files])
    [found] = Inference(runs, PairedTestSettings.model_validate(settings)).comparisons()
    own, nothing = (read_json(f / "metrics.json")["metrics"]["precision/5"] for f in files)
    assert found["reason"] is None
    assert found["difference"] == pytest.approx(own["value"] - nothing["value"])


def test_queries_of_one_patient_are_drawn_together(tmp_path):
    result = by_image(tmp_path, category_features(noise=2.0))
    counts = np.zeros((1, QUERIES))
    counts[0, [1, 4]] = 1, 3
    found = statistic(result.predictions, BY_IMAGE)(counts)["precision/5"]
    first, second = result.predictions["precision/5"].iloc[[1, 4]]
    assert found == pytest.approx([(first + 3 * second) / 4])
    alone = result.metrics["precision/5"]
    one = retrieval_samples()
    one.loc[one["part"] == "query", "subject_id"] = "the same"
    together = by_image(tmp_path / "one", category_features(noise=2.0), samples=one)
    assert np.isnan(together.metrics["precision/5"].low) and alone.value > alone.low


@pytest.mark.parametrize("seed", [0, 1])
def test_precision_is_that_of_a_literal_loop(seed):
    rng = np.random.default_rng(seed)
    candidates = rng.normal(size=(40, 5))
    candidates[20:30] = candidates[:10] * 2.5  # equal directions: ties
    queries = np.concatenate([rng.normal(size=(11, 5)), candidates[:3]])
    categories = rng.choice(list("abc"), size=40)
    labels = rng.choice(list("abc"), size=14)
    order = ranking(cosines(queries, candidates))
    relevant = categories[order] == labels[:, None]
    precisions = precision(relevant, [1, 5, 10, 40])
    for column, k in enumerate([1, 5, 10, 40]):
        expected = literal(queries.tolist(), candidates.tolist(), labels, categories.tolist(), k)
        assert precisions[:, column].tolist() == pytest.approx(expected, abs=1e-12)


def test_equal_candidates_keep_their_order():
    candidates = np.tile(np.random.default_rng(0).normal(size=7), (200, 1))
    candidates *= np.linspace(0.1, 9, 200)[:, None]
    order = ranking(cosines(np.random.default_rng(1).normal(size=(3, 7)), candidates))
    assert (order == np.arange(200)).all()


def test_a_vector_of_length_zero_is_like_nothing():
    assert cosines(np.zeros((1, 3)), np.eye(3)).tolist() == [[0, 0, 0]]
