"""Image curation: the choice by margin, against the truth, and the program on a known model."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_fakes import make_store, metrics_of, write_cohort

from command_options import options
from cxr_files.atomic import read_json, write_json
from cxr_files.errors import InputError
from cxrflow.benchmarks.data import curation
from cxrflow.benchmarks.data.curate_images import main
from cxrflow.benchmarks.evaluate import main as evaluate
from cxrflow.data.cohorts.filters import one_per_study
from cxrflow.images.curation import against_truth, decide
from cxrflow.similarity.cosine import Cosine
from cxrflow.similarity.similarity import EncodedTexts

SCORES = pd.DataFrame(
    [
        ("a", "a1", 0.9),
        ("a", "a2", 0.65),
        ("b", "b1", 0.1),
        ("c", "c1", 0.4),
        ("c", "c2", 0.2),
        ("c", "c3", 0.59),
        ("d", "d1", -0.3),
        ("d", "d2", 0.3),
        ("d", "d3", 0.0),
    ],
    columns=["study_id", "image_id", "score"],
)


def test_an_image_stands_for_a_study_if_it_beats_every_other() -> None:
    decided = decide(SCORES.sample(frac=1, random_state=0), 0.2).set_index("image_id")
    said = decided["decision"].to_dict()
    assert said == {
        **{"a1": "best", "a2": "rejected", "b1": "only", "d2": "best"},
        **{"c1": "undecided", "c2": "undecided", "c3": "undecided"},
        **{"d1": "rejected", "d3": "rejected"},
    }
    for study, rows in SCORES.groupby("study_id"):
        best = np.sort(rows["score"])[::-1]
        leads = decided.loc[rows["image_id"], "lead"]
        if len(best) == 1:
            assert leads.isna().all()
        else:
            assert leads.to_numpy() == pytest.approx(best[0] - best[1]), study
    equal = decide(SCORES.assign(score=0.5), 0.0)["decision"]
    assert set(equal) == {"only", "undecided"}


USABLE = pd.Series({name: name not in ("a2", "c1", "d2") for name in SCORES["image_id"]})


def test_against_the_truth() -> None:
    """a is decided rightly, c not at all, d wrongly; b has one image."""
    found = against_truth(decide(SCORES, 0.2), USABLE)
    assert found.index.tolist() == ["a", "c", "d"]
    assert found["rejected"].tolist() == [1, 0, 0] and found["wrong"].tolist() == [0, 0, 1]
    assert found["chance"].tolist() == pytest.approx([1 / 2, 2 / 3, 2 / 3])
    assert found["stands"].tolist() == pytest.approx([1, 2 / 3, 0])
    # c1 (0.4) is spoilt: above c2 (0.2), below c3 (0.59).
    assert found["ranked"].tolist() == [1, 0.5, 0]
    equal = against_truth(decide(SCORES.assign(score=0.5), 0.2), USABLE)
    assert equal["ranked"].tolist() == [0.5] * 3 and (equal["stands"] == equal["chance"]).all()
    assert against_truth(decide(SCORES, 0.2), USABLE.drop(["a2", "d2"])).index.tolist() == ["c"]
    assert against_truth(decide(SCORES, 0.2), USABLE | True).empty


def test_a_random_choice_stands_as_often_as_chance_says() -> None:
    """What ``stands`` and ``chance`` say, by drawing as a cohort does."""
    images = decide(SCORES, 0.2)
    images = images.assign(view="AP", rejected=images["decision"] == "rejected")
    found = against_truth(images, USABLE)
    for columns, expected in ((["rejected"], "chance"), ([], "stands")):
        drawn = [
            one_per_study(images.drop(columns=columns), "random", None, seed) for seed in range(600)
        ]
        stands = pd.concat([one.set_index("study_id")["image_id"].map(USABLE) for one in drawn])
        share = stands.groupby(level=0).mean()[found.index]
        assert share.to_numpy() == pytest.approx(found[expected].to_numpy(), abs=0.08), expected


def counted(folder, decided, truth=None, **settings):
    """What the program counts of these decisions."""
    decided.to_parquet(folder / "curation.parquet")
    said = {"data": {"name": "d", "synthetic": True}, "model": "w", "images": {"best": 2}}
    said |= {"settings": {"margin": 0.2}, "learnt": False}
    write_json(folder / "curation.json", said)
    asked = {"curation": folder, "task": "p/t", "output": folder / "out"}
    if truth is not None:
        truth.to_parquet(folder / "TRUTH.parquet")
        asked["truth"] = folder
    asked["settings"] = {"intervals": {"replicates": 100}, **settings}
    return metrics_of(evaluate, "curation_statistics", **asked)


def test_decisions_are_counted(tmp_path) -> None:
    decided = decide(SCORES, 0.2).assign(subject_id="p", split="train")
    decided["subject_id"] += decided["study_id"]
    alone = counted(tmp_path, decided)
    assert set(alone["metrics"]) == {"studies", "decided"}
    assert alone["metrics"]["studies"]["value"] == 3
    assert alone["metrics"]["decided"]["value"] == pytest.approx(2 / 3)
    assert (alone["task"], alone["protocol"]["margin"]) == ("p/t", 0.2)
    assert alone["learnt"] is False  # what such a model chose is shown as such

    kinds = pd.Series({"a2": "noisy", "c1": "noisy", "d2": "lateral view"})
    truth = pd.DataFrame({"image_id": USABLE.index, "usable": USABLE.to_numpy()})
    truth["kind"] = truth["image_id"].map(kinds)
    metrics = counted(tmp_path, decided, truth)["metrics"]
    values = {name: one["value"] for name, one in metrics.items()}
    assert values["mixed"] == 3 and metrics["rejected/noisy"]["n"] == 2
    assert values["rejected"] == values["wrong"] == pytest.approx(1 / 3)
    assert values["rejected/noisy"] == 0.5 and values["wrong/lateral_view"] == 1
    assert values["stands"] == pytest.approx((1 + 2 / 3) / 3)
    assert values["stands/random"] == values["rejected/random"] == pytest.approx(11 / 18)
    assert values["wrong/random"] == pytest.approx(7 / 18)
    assert values["ranked"] == values["ranked/random"] == 0.5
    assert metrics["rejected"]["low"] < 1 / 3 < metrics["rejected"]["high"]
    # Nothing spoilt: there is nothing to be right about.
    none = counted(tmp_path, decided, truth.assign(usable=True, kind=None))["metrics"]
    assert none["mixed"]["value"] == 0 and "rejected" not in none
    with pytest.raises(InputError, match="no row has split 'test'"):
        counted(tmp_path, decided, split="test")
    with pytest.raises(InputError, match="no study has several images"):
        counted(tmp_path, decided[decided["study_id"] == "b"])


@pytest.fixture
def world(tmp_path, monkeypatch):
    """Six images of four studies; a model that likes what is bright, and one text in four words."""
    pixels = make_store(tmp_path, 6)
    studies = ["s0", "s0", "s1", "s2", "s2", "s3"]
    texts = [["Bright.", "And more."]] * 5 + [["Far too long for the encoder of the test."]]
    table = pd.DataFrame(
        {
            "subject_id": [f"p{study}" for study in studies],
            "split": "train",
            "study_id": studies,
            "image_id": [f"image{n}" for n in (0, 1, 2, 3, 9, 5)],
            "impression_sentences": texts,
        }
    )
    cohort = write_cohort(tmp_path / "cohort", "pairs.parquet", table)
    (tmp_path / "model" / "image").mkdir(parents=True)
    (tmp_path / "model" / "image" / "model.safetensors").write_bytes(b"weights")
    write_json(tmp_path / "model" / "run.json", {"data": {"geometry": "shorter64"}})
    seen = []

    def encode_texts(texts):
        seen.extend(texts)
        return EncodedTexts(torch.ones(len(texts), 2))

    def encode(image, store, images, size, device, patches):
        assert not patches
        bright = store.read(store.rows(images["image_id"])).reshape(len(images), -1).max(1) > 199
        return {"projected": torch.tensor([[0.6, 0.8] if b else [1.0, 0.0] for b in bright])}

    model = SimpleNamespace(
        folder=tmp_path / "model",
        run={"permuted_pairs": {"differs": True}},
        image_encoder=SimpleNamespace(projector=object()),
        text_encoder=SimpleNamespace(config=SimpleNamespace(max_position_embeddings=5)),
        tokenizer=SimpleNamespace(
            encode_batch_fast=lambda texts: [SimpleNamespace(ids=one.split()) for one in texts]
        ),
        encode_texts=encode_texts,
        similarity=Cosine(),
    )
    monkeypatch.setattr(curation.Model, "load", lambda path, device: model)
    monkeypatch.setattr(curation, "encode", encode)
    arguments = options(
        model=tmp_path / "model", cohort=cohort, pixels=pixels, output=tmp_path / "out"
    )
    return SimpleNamespace(folder=tmp_path, arguments=arguments, seen=seen, model=model)


def test_the_program(world) -> None:
    main([*world.arguments, *options(settings={"batch_size": 1})])
    table = pd.read_parquet(world.folder / "out" / "curation.parquet").set_index("image_id")
    # image9 has no pixels, image5 a text too long; cosines of (1, 1) / sqrt 2 differ by 0.283.
    assert table["decision"].to_dict() == {
        **{"image0": "rejected", "image1": "best", "image2": "only", "image3": "only"}
    }
    assert table.loc["image1", "lead"] == pytest.approx((1.4 - 1.0) / 2**0.5)
    assert world.seen == ["Bright. And more."] * 2  # one image has nothing to be compared with
    said = read_json(world.folder / "out" / "curation.json")
    assert said["images"] == {"best": 1, "rejected": 1, "only": 2} and said["learnt"]
    assert (said["studies"], said["studies_with_several"]) == (3, 1)
    assert {drop["reason"]: drop["count"] for drop in said["dropped"]} == {
        "image is not in the pixel store": 1,
        "impression is longer than the encoder takes": 1,
    }
    truth = pd.DataFrame({"image_id": ["image0", "image1"], "usable": [False, True]})
    found = against_truth(table.reset_index(), truth.set_index("image_id")["usable"])
    assert found["rejected"].to_dict() == {"s0": 1}


@pytest.mark.parametrize(
    ("half", "message"),
    [
        ({"image_encoder": None}, "no image encoder in a joint space with text"),
        ({"image_encoder": SimpleNamespace(projector=None)}, "no image encoder in a joint space"),
        ({"text_encoder": None}, "the model has no text encoder"),
    ],
)
def test_a_model_without_a_half(world, half, message) -> None:
    vars(world.model).update(half)
    with pytest.raises(InputError, match=message):
        main(world.arguments)
    assert not (world.folder / "out").exists()


def test_bad_input(world) -> None:
    run, pixels, cohort = (world.arguments[i + 1] for i in (0, 4, 2))
    write_json(world.folder / "model" / "run.json", {"data": {"geometry": "shorter32"}})
    with pytest.raises(InputError, match="geometry is shorter64, but the model was trained on sho"):
        main(world.arguments)
    for place, file in ((pixels, "store.json"), (run, "run.json"), (cohort, "pairs.parquet")):
        Path(place, file).unlink()
        with pytest.raises(InputError, match=file):
            main(world.arguments)
