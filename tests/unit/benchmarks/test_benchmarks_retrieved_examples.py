"""Figure 6 and the second Figure 7 of the low-data study: neighbours of texts, retrieved images."""

import io
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_fakes import DATA, make_store, studies_of, write_cohort
from config_overlays import real
from page_fixtures import load
from PIL import Image
from table_fixtures import write_result

import cxrflow.benchmarks.retrieval.retrieved_images as retrieved
import cxrflow.benchmarks.retrieval.text_neighbours as neighbours
from cxr_files.atomic import read_json, write_json
from cxr_files.errors import InputError
from cxrflow.benchmarks.draw_figure import main
from cxrflow.similarity.cosine import Cosine
from cxrflow.similarity.similarity import EncodedImages, EncodedTexts

TASK, MODEL = "low_data/retrieval", "low_data/ours"
ANGLES = (0.0, 10.0, 25.0, 60.0, 120.0, 180.0)  # degrees of text n, and of image n but for two
IMAGES = (170.0, 11.0, 25.0, 63.0, 0.0, 179.0)


def vectors(degrees) -> torch.Tensor:
    radians = torch.deg2rad(torch.tensor(degrees, dtype=torch.float64))
    return torch.stack([radians.cos(), radians.sin()], dim=1).float()


class Fake:
    """Embeds the text "finding n" at the angle n."""

    similarity = Cosine()
    text_encoder = SimpleNamespace(config=SimpleNamespace(max_position_embeddings=8))
    tokenizer = SimpleNamespace(
        encode_batch_fast=lambda texts: [
            SimpleNamespace(ids=[100, int(text.split()[-1].strip(".")), 101]) for text in texts
        ]
    )

    def encode_tokens(self, pieces):
        return EncodedTexts(2.5 * vectors([ANGLES[ids[1]] for ids in pieces]))


@pytest.fixture
def world(tmp_path: Path, monkeypatch) -> Path:
    """Results and a model folder; the model is a fake."""
    folder = tmp_path / f"benchmarks/{TASK}/{MODEL}/seed0"
    folder.mkdir(parents=True)
    write_result(folder / "metrics.json", TASK, MODEL, 0, {}, data=DATA)
    data = {"geometry": "shorter64"}
    (tmp_path / "model").mkdir()
    write_json(tmp_path / "model/run.json", {"data": data, "settings": {}})
    for module in (neighbours, retrieved):
        monkeypatch.setattr(module, "load", lambda path: Fake())
    return tmp_path


def drawn(world: Path, kind: str, settings: dict, *options: str) -> dict:
    columns = [{"label": "Ours", "model": MODEL}]
    file, output = world / "settings.json", world / f"{kind}.png"
    write_json(file, {"title": "Figure.", "task": TASK, "columns": columns, **settings})
    given = ["--results", str(world / f"benchmarks/{TASK}/{MODEL}/seed0")]
    given += ["--models", str(world / "model"), "--cohort", str(world / "cohort"), *options]
    main([kind, "--settings", str(file), *given, "--output", str(output)])
    return read_json(output.with_suffix(".json"))


def test_a_neighbour_is_the_nearest_text_of_another_study_in_other_words(world):
    words = tuple(f"Finding {n}" for n in range(6))
    table = studies_of((*words, "finding  1", "Finding 3.", ""), split="train")
    # The last but one is another text of the study t3, the next nearest of which is 2.
    table.loc[7, "study_id"] = "t3"
    other = studies_of(("Finding 0",), study_id="unseen")
    write_cohort(world / "cohort", "pairs.parquet", pd.concat([table, other]))
    content = drawn(world, "neighbours", {"count": 24})
    assert content["shows"] == ["reports"] and not (world / "neighbours.png").exists()
    assert content["columns"] == ["Original impression", "Ours"]
    shown = {row["texts"][0][0][0]: (row["texts"][1][0][0], row["note"]) for row in content["rows"]}
    near = {"Finding 0": 10, "Finding 2": 15, "Finding 3": 35, "Finding 4": 60, "Finding 5": 60}
    for text, angle in near.items():
        assert shown[text][1] == f"cosine {np.cos(np.deg2rad(angle)):.2f}"
    assert shown["Finding 3"][0] == "Finding 2" and shown["finding  1"][0] == "Finding 0"
    assert "Of 8 impressions, the nearest of 8 of training" in content["caption"]
    assert len(drawn(world, "neighbours", {"count": 3})["rows"]) == 3

    few = studies_of(("Finding 1",) * 3, split="train")
    write_cohort(world / "cohort", "pairs.parquet", few)
    with pytest.raises(InputError, match="1 different texts of training; expected 2 or more"):
        drawn(world, "neighbours", {})


def test_a_report_stands_beside_its_own_the_nearest_and_the_farthest_image(world, monkeypatch):
    words = tuple(f"Finding {n}" for n in range(6))
    write_cohort(world / "cohort", "pairs.parquet", studies_of(words))
    store = make_store(world / "store", 6)

    def encoded(model, pixels, table, batch_size):
        numbers = table["image_id"].str.removeprefix("image").astype(int)
        yield EncodedImages(vectors([IMAGES[n] for n in numbers]))

    monkeypatch.setattr(retrieved, "encoded_batches", encoded)
    content = drawn(world, "retrieved", {"count": 6}, "--pixels", str(store))
    cosine_NN = np.cos(np.deg2rad(np.subtract.outer(ANGLES, IMAGES)))
    for line in content["lines"]:
        own = int(line.split("Finding ")[1][0])
        rank = 1 + int((cosine_NN[own] > cosine_NN[own, own] + 1e-9).sum())
        order = np.argsort(-cosine_NN[own])
        assert line.startswith(f"rank {rank} of 6, {cosine_NN[own, own]:.2f}: “Finding {own}”")
        places = zip(("most similar", "second", "least similar"), order[[0, 1, -1]], strict=True)
        for name, place in places:
            assert f"{name}, {cosine_NN[own, place]:.2f}: “Finding {place}”" in line
    ranks = [int(line.split()[1]) for line in content["lines"]]
    assert ranks == sorted(ranks) and ranks[-1] > 1  # in the order of the rank, failures too
    assert content["shows"] == ["radiographs", "reports"]
    picture = Image.open(io.BytesIO((world / "retrieved.png").read_bytes()))
    assert picture.width >= 4 * 170 and picture.height >= len(ranks) * 256


def test_figures_of_texts_and_images_need_leave_to_show_them():
    shown = load(papers=["low_data"])
    assert {"figure6", "figure7_examples"} <= shown.results["low_data"].figures().keys()
    hidden = load(papers=["low_data"], datasets=real("mimic_cxr", "mimic_cxr_jpg"))
    assert not {"figure6", "figure7_examples"} & hidden.results["low_data"].figures().keys()
