"""Retrieval as the low-data study measures it: AUROC over all pairs of test images and reports."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_fakes import QUICK, FakeModel, studies_of, write_cohort
from retrieval_fixtures import bright_and_dark
from sklearn.metrics import roc_auc_score

import cxrflow
from command_options import options
from cxr_files.atomic import read_json
from cxr_files.errors import InputError
from cxrflow.benchmarks.evaluate import main as evaluate
from cxrflow.benchmarks.model_pixels import ModelPixels
from cxrflow.benchmarks.retrieval import retrieval_auroc
from cxrflow.benchmarks.study_images import encode_studies
from cxrflow.encoders.word_aggregation import Words
from cxrflow.objectives.local_alignment import Matching, local_similarity
from cxrflow.similarity import pairs
from cxrflow.similarity.local import Local, LocalSettings
from cxrflow.similarity.similarity import EncodedTexts

NUMBER, WORDS = 30, ("edema", "mild", "left", "new")
DIRECTIONS = ("image_to_text", "text_to_image")
UNIT = {
    "temp1": 4, "temp2": 5, "word_softmax": False, "match": "dot", "aggregation": "sum",
    "normalised": True,
}  # fmt: skip


class Tokenizer:
    """A piece a word with a letter, between two special ones."""

    def encode_batch_fast(self, texts: list[str]) -> list[SimpleNamespace]:
        words = [re.findall("[a-z]+", text) for text in texts]
        return [SimpleNamespace(special_tokens_mask=[1, *[0] * len(w), 1]) for w in words]


def vectors_of(words: list[str]) -> torch.Tensor:
    """A direction a word, the same whenever it is met."""
    seeds = [sum(map(ord, word)) for word in words]
    return torch.tensor(np.stack([np.random.default_rng(s).normal(size=2) for s in seeds])).float()


def encode_texts(model: FakeModel, texts: list[str], batch_size: int) -> EncodedTexts:
    """Words in directions of their own, and their sum."""
    each = [vectors_of(text.split()) for text in texts]
    padded = torch.nn.utils.rnn.pad_sequence(each, batch_first=True)
    sums = torch.stack([words.sum(0) for words in each])
    return EncodedTexts(sums, Words(padded, [len(words) for words in each]))


def encode_different(
    model: FakeModel, texts: list[str], batch_size: int
) -> tuple[list[EncodedTexts], list[int]]:
    """Each different text once, in batches of equal lengths."""
    different = sorted(set(texts), key=len)
    batches = [encode_texts(model, different[n : n + 3], 0) for n in range(0, len(different), 3)]
    return batches, [different.index(text) for text in texts]


def studies() -> pd.DataFrame:
    """Two studies a patient, four texts of one to four words; the last three are of training."""
    texts = [" ".join(WORDS[: n % len(WORDS) + 1]) for n in range(NUMBER)]
    return studies_of(texts, split=["test"] * (NUMBER - 3) + ["train"] * 3)


@pytest.fixture
def given(pixels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A cohort, its pixels and a model of brightness, as options."""
    cohort = write_cohort(tmp_path / "cohort", "pairs.parquet", studies())
    model = FakeModel()
    model.tokenizer = Tokenizer()
    model.similarity = Local(LocalSettings(**UNIT))
    monkeypatch.setattr("cxrflow.models.model.Model.load", lambda *_: model)
    monkeypatch.setattr(retrieval_auroc, "encode_different", encode_different)
    monkeypatch.setattr(pairs, "BLOCK", 8)
    settings = {**QUICK, "batch_size": 7}
    return options(cohort=cohort, pixels=pixels, settings=settings, output=tmp_path / "scores")


def scored(given: list[str], *row: str) -> tuple[dict, pd.DataFrame]:
    """The result, and the predictions, of a model or a reference row."""
    evaluate(["retrieval_auroc", *row, *given])
    folder = Path(given[-1])
    return read_json(folder / "metrics.json"), pd.read_parquet(folder / "predictions.parquet")


def test_global_and_local_matching_of_all_pairs(given: list[str], tmp_path: Path) -> None:
    """Against scikit-learn on the whole matrices; the mean over words differs by their number."""
    result, table = scored(given, "--model", str(tmp_path))
    count = len(table)
    assert result["data"]["samples"] == count and result["data"]["texts"] == 4
    rows = studies().set_index("image_id").loc[table["sample_id"]]
    model = cxrflow.load(None, None)
    store = ModelPixels(Path(given[3]), model.geometry, {})
    pixels = encode_studies(model, store, rows.reset_index(), 7)
    texts = encode_texts(FakeModel(), rows["impression"].tolist(), 7)
    unit = torch.nn.functional.normalize
    cosine_NN = pixels["projected"].double() @ unit(texts.projection, dim=1).double().T
    total_NN, mean_NN = (
        local_similarity(
            unit(pixels["patches"].flatten(1, 2), dim=2),
            unit(texts.words.word_BWD, dim=2),
            texts.words.lengths,
            Matching(4, 5, False, "dot", aggregation),
        )
        for aggregation in ("sum", "mean")
    )
    matrices = {"global": cosine_NN, "local": total_NN, "local_mean": mean_NN}
    for name, scores_NN in matrices.items():
        scores = np.round(scores_NN.numpy().astype("float64"), 5)
        expected = roc_auc_score(np.eye(count).ravel(), scores.ravel())
        assert result["metrics"][f"auroc/{name}"]["value"] == pytest.approx(expected, abs=2e-3)
        control = result["metrics"][f"other_study/auroc/{name}"]
        assert control["low"] <= 0.5 <= control["high"]
        for direction in DIRECTIONS:
            assert f"query_auroc/{direction}/{name}" in result["metrics"]
    assert result["metrics"]["auroc/local"] != result["metrics"]["auroc/local_mean"]
    assert result["metrics"]["recall/10/text_to_image/global"]["n"] == count


def test_scores_in_a_file_are_those_that_were_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "BLOCK", 8)
    count = 21
    scores_NN = np.random.default_rng(0).normal(size=(count, count)).astype(np.float32)
    file = pairs.ScoreFile(count)
    for start in range(0, count, 8):
        file.append(scores_NN[start : start + 8])
    for rows in (slice(0, 8), slice(8, 21), slice(3, 18), slice(20, 21)):
        assert np.array_equal(file.of_images(rows), scores_NN[rows])
        assert np.array_equal(file.of_texts(rows), scores_NN.T[rows])
    place_N = np.random.default_rng(1).permutation(count)
    assert np.array_equal(file.pairs(place_N), scores_NN[np.arange(count), place_N])


def test_a_copy_of_the_reports_under_other_studies_changes_no_score(given, tmp_path):
    """The order of the originals among themselves is as it was; a copy ties with its original."""
    _, before = scored(given, "--model", str(tmp_path))
    rows = studies()
    copies = rows.assign(study_id="copy" + rows["study_id"], subject_id="copy" + rows["subject_id"])
    pd.concat([rows, copies]).to_parquet(tmp_path / "cohort/pairs.parquet")
    given[-1] = str(tmp_path / "twice")
    _, after = scored(given, "--model", str(tmp_path))
    for direction in DIRECTIONS:
        name = f"query_auroc/{direction}/global"
        np.testing.assert_allclose(after[name][: len(before)], before[name], atol=1e-12)


def test_a_text_without_a_word_is_left_out_and_counted(given, tmp_path):
    rows = studies()
    rows.loc[4, "impression"] = "___"
    rows.to_parquet(tmp_path / "cohort/pairs.parquet")
    result, _ = scored(given, "--model", str(tmp_path))
    reasons = {drop["reason"]: drop["count"] for drop in result["data"]["dropped"]}
    assert reasons["text has no word"] == 1


def test_one_study_is_not_enough(given, tmp_path):
    studies()[:1].to_parquet(tmp_path / "cohort/pairs.parquet")
    with pytest.raises(InputError, match=r"pairs\.parquet: 1 study .*; expected 2 or more"):
        scored(given, "--model", str(tmp_path))


def test_what_knows_nothing_is_at_one_half(given: list[str]) -> None:
    result, _ = scored(given, "--reference", "nothing")
    assert result["metrics"]["auroc/global"]["value"] == 0.5
    assert result["metrics"]["query_auroc/image_to_text/global"]["value"] == 0.5


@pytest.mark.parametrize("name", ["thumbnail", "length"])
def test_small_pictures_let_expect_words_and_their_number(given, tmp_path, name):
    rows = bright_and_dark(Path(given[3]), studies())
    rows.to_parquet(tmp_path / "cohort/pairs.parquet")
    result, _ = scored(given, "--reference", name)
    assert result["metrics"]["auroc/global"]["value"] > 0.51
    rows["split"] = ["train"] + ["test"] * (NUMBER - 1)
    rows.to_parquet(tmp_path / "cohort/pairs.parquet")
    with pytest.raises(InputError, match="1 training studies; the reference row"):
        scored(given, "--reference", name)


def test_an_oracle_of_labels_counts_the_classes_that_agree(given, tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.choice([1, 0, -1, np.nan], size=(NUMBER, 3))
    rows = studies()
    with pytest.raises(InputError, match="column 'labels' is missing; the reference row 'labels'"):
        scored(given, "--reference", "labels")
    rows.assign(labels=list(labels)).to_parquet(tmp_path / "cohort/pairs.parquet")
    result, table = scored(given, "--reference", "labels")
    known = labels[rows["image_id"].isin(table["sample_id"])]
    agree = (known[:, None] == known) | (np.isnan(known)[:, None] & np.isnan(known))
    expected = roc_auc_score(np.eye(len(known)).ravel(), agree.sum(axis=2).ravel())
    assert result["metrics"]["auroc/global"]["value"] == pytest.approx(expected)


def test_an_oracle_of_states_is_the_most_that_can_be_reached(given, tmp_path):
    """A pair of equal states cannot be told from the own one; all others can."""
    (tmp_path / "truth").mkdir()
    state_of = {f"t{n}": ["", "edema mild", "edema severe", "mass"][n % 4] for n in range(NUMBER)}
    known = pd.DataFrame({"study_id": list(state_of), "state": list(state_of.values())})
    known[1:].to_parquet(tmp_path / "truth/TRUTH_STATES.parquet")
    truth = ["--truth", str(tmp_path / "truth")]
    with pytest.raises(
        InputError, match="TRUTH_STATES.parquet: has no study t0 of .*pairs.parquet"
    ):
        scored(given, "--reference", "states", *truth)
    known.to_parquet(tmp_path / "truth/TRUTH_STATES.parquet")
    result, table = scored(given, "--reference", "states", *truth)
    states = table["study_id"].map(state_of).to_numpy()
    equal = states[:, None] == states
    rivals = equal.sum() - len(states)
    expected = 1 - rivals / (len(states) * (len(states) - 1)) / 2
    assert result["metrics"]["auroc/global"]["value"] == pytest.approx(expected)
    with pytest.raises(SystemExit):
        scored(given, "--reference", "states")
