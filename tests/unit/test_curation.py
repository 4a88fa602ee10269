"""Image curation: the choice by margin, against the truth, and the program on a known model."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_fakes import make_store, write_cohort

from cxrflow.benchmarks import curation
from cxrflow.benchmarks.curate_images import main
from cxrflow.errors import InputError
from cxrflow.files import read_json, write_json
from cxrflow.images.curation import against_truth, decide

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


def test_against_the_truth() -> None:
    usable = pd.Series({name: True for name in SCORES["image_id"]})
    usable[["a2", "c1", "d2"]] = False
    found = against_truth(decide(SCORES, 0.2), usable)
    assert found == {"studies": 3, "rejected": pytest.approx(1 / 3), "wrong": pytest.approx(1 / 3)}
    assert against_truth(decide(SCORES, 0.2), usable.drop(["a2", "d2"]))["studies"] == 1
    none = against_truth(decide(SCORES, 0.2), pd.Series(True, index=SCORES["image_id"]))
    assert none == {"studies": 0, "rejected": None, "wrong": None}


@pytest.fixture
def world(tmp_path, monkeypatch):
    """Six images of four studies; a model that likes what is bright, and one text in four words."""
    pixels = make_store(tmp_path, 6)
    studies = ["s0", "s0", "s1", "s2", "s2", "s3"]
    texts = [["Bright.", "And more."]] * 5 + [["Far too long for the encoder of the test."]]
    table = pd.DataFrame(
        {
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

    def encode_text(texts):
        seen.extend(texts)
        return torch.nn.functional.normalize(torch.ones(len(texts), 2), dim=1)

    def encode(image, store, images, size, device):
        bright = store.read(store.rows(images["image_id"])).reshape(len(images), -1).max(1) > 199
        return {"projected": torch.tensor([[0.6, 0.8] if b else [1.0, 0.0] for b in bright])}

    model = SimpleNamespace(
        folder=tmp_path / "model",
        image_encoder=SimpleNamespace(projector=object()),
        text_encoder=SimpleNamespace(config=SimpleNamespace(max_position_embeddings=5)),
        tokenizer=SimpleNamespace(
            encode_batch_fast=lambda texts: [SimpleNamespace(ids=one.split()) for one in texts]
        ),
        encode_text=encode_text,
    )
    monkeypatch.setattr(curation.Model, "load", lambda path, device: model)
    monkeypatch.setattr(curation, "encode", encode)
    arguments = ["--model", str(tmp_path / "model"), "--cohort", str(cohort)]
    arguments += ["--pixels", str(pixels), "--output", str(tmp_path / "out")]
    return SimpleNamespace(folder=tmp_path, arguments=arguments, seen=seen, model=model)


def test_the_program(world) -> None:
    truth = pd.DataFrame({"image_id": ["image0", "image1"], "usable": [False, True]})
    truth.to_parquet(world.folder / "TRUTH.parquet")
    main(
        [*world.arguments, "--truth", str(world.folder / "TRUTH.parquet")]
        + ["--settings", json.dumps({"batch_size": 1})]
    )
    table = pd.read_parquet(world.folder / "out" / "curation.parquet").set_index("image_id")
    # image9 has no pixels, image5 a text too long; cosines of (1, 1) / sqrt 2 differ by 0.283.
    assert table["decision"].to_dict() == {
        **{"image0": "rejected", "image1": "best", "image2": "only", "image3": "only"}
    }
    assert table.loc["image1", "lead"] == pytest.approx((1.4 - 1.0) / 2**0.5)
    assert world.seen == ["Bright. And more."] * 2  # one image has nothing to be compared with
    said = read_json(world.folder / "out" / "curation.json")
    assert said["images"] == {"best": 1, "rejected": 1, "only": 2}
    assert (said["studies"], said["studies_with_several"]) == (3, 1)
    assert {drop["reason"]: drop["count"] for drop in said["dropped"]} == {
        "image is not in the pixel store": 1,
        "impression is longer than the encoder takes": 1,
    }
    assert said["truth"] == {"studies": 1, "rejected": 1.0, "wrong": 0.0}


def test_a_model_without_a_half(world) -> None:
    world.model.image_encoder = None
    with pytest.raises(InputError, match="no image half in a joint space"):
        main(world.arguments)
