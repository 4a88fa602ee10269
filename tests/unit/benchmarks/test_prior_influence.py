"""What masked words gain by the prior: against loops, one sentence at a time, and known answers."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_fakes import QUICK, TWO_IMAGES, metrics_of, store_of, write_cohort
from PIL import Image
from pydantic import ValidationError
from small_text import write_text_model
from torch.nn.functional import log_softmax

from cxr_files.atomic import write_json
from cxrflow.benchmarks.evaluate import main
from cxrflow.benchmarks.temporal import prior_influence as program
from cxrflow.benchmarks.temporal.settings import WORDS, PriorInfluenceSettings
from cxrflow.encoders.cxr_bert import load_text_encoder
from cxrflow.encoders.guided_text import GuidedText, save_guidance
from cxrflow.encoders.image_encoder import ImageEncoder, save_image_encoder
from cxrflow.encoders.settings import MultiImageSettings
from cxrflow.reports.entities.temporal import temporal_words
from cxrflow.text.tokenizer import read_tokenizer

# Table F.4, its examples.
EXAMPLES = {
    "progression": ["bigger", "cleared", "new"],
    "support_devices": ["nasogastric", "pacemaker", "cannula"],
    "other": ["can", "relevant", "overall"],
    "stop_word": ["the", "no", "of"],
    "positional": ["right", "lower", "bilateral"],
    "meta": ["evidence", "radiograph", "study"],
    "anatomy": ["pulmonary", "chest", "mediastinal"],
    "descriptive": ["layering", "focal", "patchy"],
    "size_or_degree": ["extensive", "moderate", "severe"],
    "finding": ["edema", "penumonia", "pneumothorax"],
    "uncertain": ["may", "possible", "concerning"],
}
FIGURE_4 = ["persist", "improving", "remains", "unchanged", "residual"]
OWN = {"progression": ["large"], "stop_word": ["no", "is"], "anatomy": ["heart", "pleural"]}


def test_categories_are_the_papers_with_its_words() -> None:
    found = PriorInfluenceSettings().categories
    assert list(found) == list(EXAMPLES)
    assert all(set(words) <= set(found[name]) for name, words in EXAMPLES.items())
    prompted = [word for words in WORDS.values() for word in words]  # Table F.3
    assert {*temporal_words(), *prompted, *FIGURE_4} <= set(found["progression"])
    with pytest.raises(ValidationError, match="only once, not so: no"):
        PriorInfluenceSettings(categories={"a": ["no"], "b": ["no", "is"]})


# --- what is masked -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of text, of two images, and of text beside them."""
    folder = write_text_model(tmp_path_factory.mktemp("model"))
    torch.manual_seed(0)
    image = ImageEncoder(MultiImageSettings.model_validate(TWO_IMAGES))
    for name, parameter in image.named_parameters():
        if "vit_pooler" in name or "missing" in name:
            torch.nn.init.normal_(parameter, mean=float("norm" in name), std=0.5)
    save_image_encoder(image, folder)
    guided = GuidedText(load_text_encoder(folder), 8, 2, own_token=True)
    for parameter in guided.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    save_guidance(guided, folder)
    write_json(folder / "run.json", {"model": "tiny/model", "data": {"geometry": "shorter64"}})
    return folder


def reports() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "findings_sentences": [["Heart is large .", "no effusion ."], ["is is large ."]],
            "impression_sentences": [["large pleural nodule ."], []],
        }
    )


def test_whole_words_of_a_category_are_masked_one_at_a_time(folder: Path) -> None:
    tokenizer = read_tokenizer(folder)
    settings = PriorInfluenceSettings(categories=OWN)
    sentences = program.read_sentences(reports(), tokenizer, 40, settings)
    found = []
    for numbers, ids, places, targets in program.masked_batches(sentences, 4, size=3):
        for number, row, place, target in zip(numbers, ids, places, targets, strict=True):
            words = [tokenizer.id_to_token(int(one)) for one in row if one >= 0]
            assert words[place] == "[MASK]" and words.count("[MASK]") == 1
            found.append((sentences[number].study, " ".join(words), tokenizer.id_to_token(target)))
    # "nodule" and "effusion" are several pieces, of which "no" and others are no words.
    assert sorted(found) == sorted(
        [
            (0, "[CLS] [MASK] is large . [SEP]", "heart"),
            (0, "[CLS] heart [MASK] large . [SEP]", "is"),
            (0, "[CLS] heart is [MASK] . [SEP]", "large"),
            (0, "[CLS] [MASK] eff ##usion . [SEP]", "no"),
            (0, "[CLS] [MASK] pleural no ##dule . [SEP]", "large"),
            (0, "[CLS] large [MASK] no ##dule . [SEP]", "pleural"),
            (1, "[CLS] [MASK] is large . [SEP]", "is"),
            (1, "[CLS] is [MASK] large . [SEP]", "is"),
            (1, "[CLS] is is [MASK] . [SEP]", "large"),
        ]
    )


def test_losses_are_those_of_one_sentence_at_a_time(folder: Path) -> None:
    import cxrflow
    from cxrflow.encoders.guided_text import load_guidance

    model = cxrflow.load(folder)
    guided = load_guidance(folder, model.text_encoder)
    settings = PriorInfluenceSettings(categories=OWN)
    sentences = program.read_sentences(reports(), model.tokenizer, 40, settings)
    generator = torch.Generator().manual_seed(0)
    patches = {name: torch.randn(2, 5, 8, generator=generator) for name in ("none", "prior")}
    losses = program.token_losses(model, guided, sentences, patches, size=4)
    assert len(losses) == 9
    seen = []
    for sentence_number, sentence in enumerate(sentences):
        for place in sentence.places:
            ids = sentence.ids.clone()
            ids[place] = 4
            row = {"sentence": sentence_number, "token": int(sentence.ids[place])}
            for name, both in patches.items():
                with torch.inference_mode():
                    hidden = guided.states(
                        model.text_encoder,
                        ids[None],
                        torch.ones_like(ids)[None],
                        both[sentence.study][None],
                    )
                    logits = model.text_encoder.predict_tokens(hidden, torch.tensor([place]))
                row[name] = -float(log_softmax(logits[0], 0)[sentence.ids[place]])
            seen.append(row)
    keys = ["sentence", "token", "none"]
    wanted = pd.DataFrame(seen).sort_values(keys, ignore_index=True)
    ours = losses[wanted.columns].sort_values(keys, ignore_index=True)
    np.testing.assert_allclose(ours.to_numpy(), wanted.to_numpy(), rtol=1e-4, atol=1e-5)
    assert (ours["none"] - ours["prior"]).abs().min() > 1e-4


# --- what is counted ----------------------------------------------------------------------------


def test_gains_are_the_means_of_the_equation() -> None:
    """Eq. 5 in loops: by sentence, then over the sentences of a token, then over tokens."""
    rng = np.random.default_rng(0)
    count = 400
    losses = pd.DataFrame(
        {
            "study": rng.integers(0, 12, count),
            "sentence": rng.integers(0, 3, count),
            "token": rng.integers(0, 9, count),
            **{name: rng.gamma(2, size=count) for name in ("none", "prior", "other")},
        }
    )
    losses["sentence"] += 3 * losses["study"]
    owner = dict(enumerate(["progression", "stop_word", "anatomy"] * 3))
    found = program.gains(losses)
    found["category"] = found["token"].map(owner)
    settings = PriorInfluenceSettings(
        categories={name: [name] for name in set(owner.values())}, least_sentences=25
    )
    weights = np.vstack([np.ones(12), rng.integers(0, 3, 12)])
    metrics = program.statistic(found, settings)(weights[:, found["study"]].astype(float))
    for draw, weight in enumerate(weights):
        for gain, before in (("delta_prior", "none"), ("over_other", "other")):
            by_token = {}
            for token in range(9):
                total = number = whole = 0.0
                for _, rows in losses[losses["token"] == token].groupby("sentence"):
                    times = weight[rows["study"].iloc[0]]
                    total += times * (rows[before] - rows["prior"]).mean()
                    number += times
                    whole += 1
                if whole >= 25:
                    by_token[token] = total / number
            assert 3 < len(by_token) < 9
            for name in {*owner.values(), "others"}:
                own = [
                    value
                    for token, value in by_token.items()
                    if owner[token] == name or (name == "others" and owner[token] != "progression")
                ]
                assert metrics[f"{gain}/{name}"][draw] == pytest.approx(np.mean(own))
                assert metrics[f"tokens/{name}"][draw] == len(own)


def test_studies_without_a_token_that_counts_are_not_behind_a_value() -> None:
    rows = [
        ("s1", "grown", "progression", 2), ("s1", "heart", "anatomy", 1),
        ("s2", "grown", "progression", 1), ("s2", "rare", "anatomy", 1),
        ("s3", "heart", "anatomy", 2), ("s4", "rare", "anatomy", 1),
    ]  # fmt: skip
    predictions = pd.DataFrame(rows, columns=["sample_id", "token", "category", "sentences"])
    predictions = predictions.assign(delta_prior=1.0, over_other=1.0)
    settings = PriorInfluenceSettings(
        categories={"progression": ["grown"], "anatomy": ["heart", "rare"]}, least_sentences=3
    )
    assert program.sizes(predictions, settings) == {
        "progression": 2, "anatomy": 2, "others": 2, "": 3
    }  # fmt: skip


# --- the program --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    (folder / "root").mkdir()
    rng = np.random.default_rng(0)
    images = []
    for patient in range(5):
        for name in ("prior", "current"):
            pixels = rng.integers(0, 256, (64, 64)).astype(np.uint8)
            images.append(f"{name}{patient}")
            Image.fromarray(pixels).save(folder / f"root/{images[-1]}.png")
    store_of(folder, images)
    number = range(5)
    texts = reports().iloc[[n % 2 for n in number]].reset_index(drop=True)
    table = texts.assign(
        **{"subject_id": [f"p{n}" for n in number], "study_id": [f"s{n}" for n in number]},
        **{"image_id": images[1::2], "prior_image_id": [None, *images[2::2]], "split": "test"},
    )
    write_cohort(folder / "cohort", "pairs.parquet", table)
    return folder


def test_the_program_scores_and_draws(folder: Path, world: Path, tmp_path: Path) -> None:
    settings = {**QUICK, "categories": OWN, "least_sentences": 2}
    asked = {"cohort": world / "cohort", "pixels": world / "pixels", "settings": settings}
    found = metrics_of(main, "prior_influence", model=folder, output=tmp_path / "out", **asked)
    assert found["data"]["studies"] == 4 and found["data"]["dropped"][0]["count"] == 1
    rows = pd.read_parquet(tmp_path / "out/predictions.parquet")
    assert not rows[["sample_id", "token"]].duplicated().any()
    assert found["data"]["unscored"] == {}
    of_large = rows[rows["token"] == "large"]["sample_id"].nunique()
    assert 0 < of_large == found["metrics"]["delta_prior/progression"]["n"]
    assert (rows[["delta_prior", "over_other"]].abs() > 1e-6).all(axis=None)
    twice = rows[(rows["sample_id"] == "s1") & (rows["token"] == "is")]
    assert twice["sentences"].tolist() == [1]  # both in one sentence
    large = rows[rows["token"] == "large"]
    mean = large["delta_prior"].sum() / large["sentences"].sum()
    assert found["metrics"]["delta_prior/progression"]["value"] == pytest.approx(mean)
    [figure] = json.loads((tmp_path / "out/figures/examples.json").read_text())
    assert "large" in figure["caption"]
    # A model that is not told of what the image shows gains nothing by it.
    blind = shutil.copytree(folder, tmp_path / "blind")
    guided = GuidedText(load_text_encoder(folder), 8, 2, own_token=True)
    with torch.no_grad():
        guided.cross.patches.weight.zero_()
    save_guidance(guided, blind)
    metrics_of(main, "prior_influence", model=blind, output=tmp_path / "none", **asked)
    rows = pd.read_parquet(tmp_path / "none/predictions.parquet")
    np.testing.assert_allclose(rows[["delta_prior", "over_other"]], 0, atol=1e-6)
