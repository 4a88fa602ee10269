"""IFCC's two trainings, what they refuse, and the recipe."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmark_fakes import make_store
from pydantic import ValidationError
from rival_config import config_of
from rivals import ifcc
from rivals.fact_ent import Facts, entity_match
from rivals.ifcc import (
    BertScore,
    IfccSettings,
    MeshedMemoryTransformer,
    SelfCritical,
)
from rivals.radnli_baseline import SentencePairModel
from rivals.tests.test_ifcc import CPU, KIND, SIZES
from rivals.tests.test_r2gen import REPORTS, WORDS, write_pairs
from torch import Tensor

import cxrflow
from command_options import options
from cxr_files.errors import InputError
from cxrflow.encoders.weights import read_weights
from cxrflow.images.store import PixelStore
from cxrflow.metrics.cider import Cider
from cxrflow.pretrain.caption import main as pretrain_caption
from cxrflow.pretrain.settings import CaptionTrainingSettings
from cxrflow.text.tokenizer import SPECIAL_TOKENS, write_tokenizer
from cxrflow.text.words import words_of

TERM = "rivals.ifcc:SelfCritical"


def settings_of(**values: Any) -> dict[str, Any]:
    """Of a small trunk and its captioner; ``values`` of the training."""
    training = {
        **{"batch_size": 6, "log_steps": 10, "validations": 1, "stopping": {"keep": "last"}},
        "optimiser": {"name": "adam", "learning_rate": 3e-3, "weight_decay": 0},
    }
    sizes = {"mesh": "code", "layers": 1, "width": 32, "heads": 4, "feed_forward": 32}
    return {
        "encoder": {"block": "basic", "layers": [1, 1, 1, 1], "width": 8, "channels": 1},
        "decoder": {**SIZES, **sizes},
        "terms": {"report_likelihood": {}},
        "augmentation": {"angle": 0, "shear": 0, "brightness": 0, "contrast": 0},
        "training": {**training, **values},
    }


def rewarded(**values: Any) -> dict[str, Any]:
    """Of the second stage: nothing but entities, unless ``values`` of the term say otherwise."""
    term = {"kind": TERM, "entities": 1.0, "likelihood": "word", **values}
    settings = settings_of(steps=6, log_steps=1, save_minutes=1e-9)
    return {
        **settings,
        "decoder_start": "image",
        "terms": {"report_likelihood": {"weight": 0.01}, "self_critical": term},
    }


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Six pairs of images and reports, and a vocabulary."""
    folder = tmp_path_factory.mktemp("ifcc")
    pixels = make_store(folder, 6)
    write_pairs(folder / "cohort")
    (folder / "vocabulary").mkdir()
    write_tokenizer(folder / "vocabulary", [*SPECIAL_TOKENS, *WORDS], lowercase=True)
    given = {"pairs": folder / "cohort/pairs.parquet", "pixels": pixels}
    return given | {"vocabulary": folder / "vocabulary", "seed": 0}


def train(places: dict[str, Any], output: Path, settings: Any, **more: Any) -> Path:
    where = {"model": output.name, "state": output.parent / f"{output.name}_state"}
    pretrain_caption(options(**places, settings=settings, output=output, **where, **more))
    return output


@pytest.fixture(scope="module")
def first_stage(places: dict[str, Any]) -> Path:
    settings = settings_of(steps=150)
    return train(places, places["vocabulary"].parent / "first", settings)


def metrics_of(folder: Path, name: str) -> list[float]:
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [entry[name] for entry in map(json.loads, lines) if name in entry]


def weights_of(folder: Path) -> dict[str, Tensor]:
    files = [folder / "decoder/model.safetensors", folder / "image/model.safetensors"]
    return {f"{n}/{k}": v for n, file in enumerate(files) for k, v in read_weights(file).items()}


def test_by_cross_entropy_it_learns_its_reports(places: dict[str, Any], first_stage: Path) -> None:
    losses = metrics_of(first_stage, "loss")
    assert losses[0] > 1.5 and losses[-1] < 0.3 * losses[0]
    model = cxrflow.load(first_stage)
    assert isinstance(model.decoder, MeshedMemoryTransformer)
    store = PixelStore(places["pixels"])
    rows = store.rows(np.array([f"image{number}" for number in range(6)], dtype=object))
    written = model.generate_report(torch.from_numpy(store.read(rows)).unsqueeze(1).float() / 255)
    said = [text.replace(" .", ".") for text in written]
    assert sum(a == b.replace(" .", ".") for a, (b, _) in zip(said, REPORTS, strict=True)) >= 4


def test_the_second_stage_goes_on_from_the_first(
    places: dict[str, Any], first_stage: Path, tmp_path: Path
) -> None:
    settings = rewarded()
    settings["training"]["optimiser"]["learning_rate"] = 1e-12
    again = train(places, tmp_path / "second", settings, image=first_stage)
    before, after = weights_of(first_stage), weights_of(again)
    for name, weight in before.items():
        if "running" not in name and "num_batches" not in name:
            torch.testing.assert_close(after[name], weight, rtol=0, atol=1e-9)
    greedy = metrics_of(again, "self_critical/greedy")
    assert len(greedy) == 6 and all(0 < value <= 1 for value in greedy)
    assert np.mean(metrics_of(again, "self_critical/drawn")) < np.mean(greedy)


def test_killed_and_resumed_it_has_the_same_weights(
    places: dict[str, Any], first_stage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = rewarded(cider_d=0.1)
    whole = train(places, tmp_path / "whole", settings, image=first_stage)
    calls, loss = [], SelfCritical.loss

    def killed(self: SelfCritical, views: Any) -> Tensor:
        calls.append(views)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return loss(self, views)

    monkeypatch.setattr(SelfCritical, "loss", killed)
    with pytest.raises(KeyboardInterrupt):
        train(places, tmp_path / "broken", settings, image=first_stage)
    monkeypatch.undo()
    broken = train(places, tmp_path / "broken", settings, image=first_stage)
    ours, theirs = weights_of(broken), weights_of(whole)
    assert all(torch.equal(ours[name], weight) for name, weight in theirs.items())
    assert any(not torch.equal(w, ours[n]) for n, w in weights_of(first_stage).items())
    for name in ("self_critical/drawn", "self_critical", "loss"):
        assert metrics_of(broken, name) == metrics_of(whole, name)


def test_rewards_are_the_weighted_scores_of_what_is_written(
    places: dict[str, Any],
    first_stage: Path,
    reader: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the program's own reports, each score alone, and none of a part without weight."""
    made: list[ifcc.Rewards] = []
    rewards = ifcc.Rewards.__init__

    def kept(self: ifcc.Rewards, *values: Any) -> None:
        rewards(self, *values)
        made.append(self)

    monkeypatch.setattr(ifcc.Rewards, "__init__", kept)
    weights = {"cider_d": 0.2, "bert_score": 0.3, "entities": 0.5}
    settings = rewarded(**weights, bert_layer=2)
    settings["training"]["steps"] = 1
    folder = train(places, tmp_path / "all", settings, image=first_stage, text=reader)
    assert not any("bert" in name for name in weights_of(folder))
    (ours,) = made
    findings = [findings for findings, _ in REPORTS]
    others = findings[1:] + findings[:1]
    cider = Cider([words_of(text) for text in findings])
    parts = {
        "cider_d": cider.cider_d(*([words_of(t) for t in side] for side in (findings, others))),
        "bert_score": BertScore(reader, 2, CPU)(findings, others),
        "entities": np.array(
            [
                entity_match(*both, False)
                for both in Facts(None)([[text] for text in findings], [[text] for text in others])
            ]
        ),
    }
    assert all(part.std() > 0 for part in parts.values())
    total = sum(weights[name] * part for name, part in parts.items())
    np.testing.assert_allclose(ours(findings, others), total)


# --- what is refused ------------------------------------------------------------------------------


def test_what_is_missing_is_said(places: dict[str, Any], first_stage: Path, tmp_path: Path) -> None:
    without_text = rewarded(bert_score=0.5)
    with pytest.raises(InputError, match="'bert_score' is set; expected --text beside it"):
        train(places, tmp_path / "a", without_text, image=first_stage)
    with pytest.raises(InputError, match="'inferred' is set; expected --text beside it"):
        train(places, tmp_path / "d", rewarded(inferred="model"), image=first_stage)
    with pytest.raises(InputError, match="'program' is 'caption'; expected sentence_pairs"):
        SentencePairModel(first_stage, CPU)
    with pytest.raises(InputError, match="'decoder_start' is 'image', but there is no --image"):
        train(places, tmp_path / "b", rewarded())
    wider = rewarded()
    wider["decoder"] = {**wider["decoder"], "feed_forward": 40}
    with pytest.raises(InputError, match=r"decoder/config.json: key 'captioning' is .*; expected"):
        train(places, tmp_path / "c", wider, image=first_stage)


def test_a_recipe_names_it() -> None:
    common = {"augmentation": {}, "training": {"steps": 1}, "terms": {"report_likelihood": {}}}
    settings = CaptionTrainingSettings.model_validate({**common, "decoder": SIZES})
    assert isinstance(settings.decoder, IfccSettings) and settings.decoder.mesh == "equations"
    assert settings.record()["decoder"] == {**SIZES, **settings.decoder.record()}
    assert "decoder_start" not in settings.record()  # older models have been made so
    for wrong, message in {"heads": 5, "mesh": "mean", "kind": "rivals.ifcc:BertScore"}.items():
        with pytest.raises(ValidationError):
            CaptionTrainingSettings.model_validate({**common, "decoder": {**SIZES, wrong: message}})


# --- the recipe -----------------------------------------------------------------------------------


def test_the_recipe_has_the_published_sizes() -> None:
    models = config_of("ifcc", "paper", "radnli_baseline").models
    first, second = (models[f"ifcc/{name}"] for name in ("ifcc_likelihood", "ifcc"))
    sizes = {"layers": 1, "report_length": 128, "attention_dropout": 0.1, "mesh": "code"}
    published = IfccSettings.model_validate({"kind": KIND, **sizes, "sections": ["findings"]})
    assert (published.width, published.heads, published.memory) == (512, 8, 40)
    for model in (first, second):
        assert model.settings.decoder == published and model.settings.image_rate == 1
        assert (model.settings.training.epochs, model.settings.training.batch_size) == (32, 24)
    training = first.settings.training
    assert training.optimiser.learning_rate == pytest.approx((512 * 2000) ** -0.5, rel=1e-4)
    assert (training.schedule.decay, training.schedule.warmup_steps) == ("noam", 2000)
    assert second.parents == {"image": "ifcc/ifcc_likelihood", "text": "radnli_baseline/classifier"}
    terms = second.settings.terms.named()
    weights = [terms["report_likelihood"].weight]
    weights += [terms["self_critical"].bert_score, terms["self_critical"].entities]
    assert weights == [0.01, 0.495, 0.495] and terms["self_critical"].weight == 1
    assert terms["self_critical"].inferred == "model"
    classifier = models["radnli_baseline/classifier"]
    assert classifier.parents == {"start": "low_data/bert_base"}
    assert classifier.settings.training.optimiser.learning_rate == 2e-5
    assert second.settings.training.optimiser.learning_rate == 5e-6
    assert second.settings.training.schedule.decay == "constant"


def test_the_demonstration_starts_where_convirts_models_do() -> None:
    models = config_of("ifcc", "demo", "radnli_baseline").models
    assert models["ifcc/ifcc_likelihood"].parents == {"image": "convirt/imagenet_pretraining"}
    ifcc = models["ifcc/ifcc"]
    assert ifcc.parents == {"image": "ifcc/ifcc_likelihood", "text": "low_data/bert_base"}
    assert ifcc.settings.terms.named()["self_critical"].inferred == "states"
    trunks = [models[name].settings for name in ("ifcc/ifcc", "convirt/imagenet_pretraining")]
    assert trunks[0].encoder == trunks[1].encoder and trunks[0].decoder.width == 64
