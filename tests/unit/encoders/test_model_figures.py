"""Figures of several models side by side: t-SNE of features, gradient saliency."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_fakes import write_cohort
from PIL import Image
from retrieval_fixtures import CANDIDATES, CATEGORIES, QUERIES, category_features, write_retrieval
from sklearn.neighbors import NearestNeighbors
from table_fixtures import write_result

from command_options import options
from cxr_files.atomic import file_digest, write_json
from cxr_files.errors import InputError
from cxrflow.benchmarks.classification.saliency import image_of, saliency, shown
from cxrflow.benchmarks.draw_figure import main
from cxrflow.benchmarks.features import weights_file, write_features
from cxrflow.benchmarks.retrieval.embedding_map import own_category
from cxrflow.encoders.image_encoder import Frames, ImageEncoder, save_image_encoder
from cxrflow.encoders.settings import ResNetSettings

SIZES = {"block": "basic", "layers": [1, 1, 1, 1], "width": 8, "projection": 8}
CLASSES = ["Atelectasis", "Edema"]


def small_encoder(seed):
    torch.manual_seed(seed)
    return ImageEncoder(ResNetSettings.model_validate(SIZES)).eval()


def columns(*names):
    return [{"label": name.upper(), "model": f"toy/{name}"} for name in names]


def write_models(folder, names):
    models = []
    for seed, name in enumerate(names):
        model = folder / name / "seed0"
        save_image_encoder(small_encoder(seed), model)
        write_json(model / "run.json", {"model": f"toy/{name}"})
        models.append(model)
    return models


def test_maps_are_drawn_of_the_columns_in_their_order(tmp_path):
    names = ("random", "trained")
    models = write_models(tmp_path, names)
    results, features = [], []
    for name, model, noise in zip(names, models, (9.0, 0.1), strict=True):
        found = category_features(noise)
        said = {"weights": file_digest(weights_file(model))[:16], "geometry": "shorter64"}
        record = {**said, "pixels": "p"}
        write_features(tmp_path / name / "features", found.encoded, found.by_kind, record)
        features.append(tmp_path / name / "features")
        results.append(tmp_path / name / "result")
        results[-1].mkdir()
        write_result(results[-1] / "metrics.json", "toy/images", f"toy/{name}", 0, {})
    cohort = write_retrieval(tmp_path / "cohort")
    settings = {"title": "T", "task": "toy/images", "categories": list(CATEGORIES)}
    settings["columns"] = columns("trained", "random", "absent")
    given = {"results": results, "models": models, "features": features, "cohort": cohort}
    output = tmp_path / "map.png"

    def draw(settings, **given):
        main(["t_sne", *options(settings=settings, **given, output=output)])

    draw(settings, **given)
    content = json.loads(output.with_suffix(".json").read_text())
    assert content["shows"] == [] and content["data"]["synthetic"] is True
    trained, random = content["lines"]
    said = f"of the 10 nearest of {CANDIDATES} candidates have its category"
    assert trained == f"TRAINED: 100% {said}"
    assert random.endswith(said) and 20 < int(random.split()[1].strip("%")) < 50  # 33 by chance
    assert Image.open(output).size[0] > 800
    before = output.read_bytes()
    draw(settings, **given)
    assert output.read_bytes() == before
    with pytest.raises(InputError, match="key 'categories' names 'Gout'; the candidates have"):
        draw({**settings, "categories": ["Edema", "Gout"]}, **given)
    none = {**settings, "columns": columns("absent")}
    with pytest.raises(InputError, match="expected one of toy/absent"):
        draw(none, **given)
    with pytest.raises(SystemExit):
        draw(none, results=results, models=models, cohort=cohort)


def test_neighbours_are_counted_as_scikit_learn_finds_them():
    rng = np.random.default_rng(1)
    vectors, categories = rng.normal(size=(40, 5)), rng.choice(["a", "b", "c"], size=40)
    found = NearestNeighbors(n_neighbors=10, metric="cosine").fit(vectors)
    nearest = found.kneighbors(return_distance=False)  # of what was fitted: itself is left out
    expected = (categories[nearest] == categories[:, None]).mean()
    assert own_category(vectors, categories, 10) == pytest.approx(expected)


def test_saliency_is_the_absolute_gradient_of_the_logit():
    image, rng = small_encoder(3).double(), np.random.default_rng(0)
    head = torch.tensor(rng.normal(size=image.encoder.features))
    pixels = torch.tensor(rng.uniform(size=(48, 48)))
    found = saliency(image, head, pixels)
    assert found.shape == (48, 48)

    def logit(changed):
        with torch.no_grad():
            return float(image.encoder(Frames(changed[None, None])).pooled[0] @ head)

    for row, column in ((0, 0), (13, 40), (30, 7)):
        step = torch.zeros_like(pixels)
        step[row, column] = 1e-6
        expected = abs(logit(pixels + step) - logit(pixels - step)) / 2e-6
        assert float(found[row, column]) == pytest.approx(expected, rel=1e-4, abs=1e-9)


def test_the_greatest_gradients_are_white():
    drawn = shown(np.linspace(0, 1, 1000).reshape(20, 50))
    assert drawn.min() == 0 and (drawn == 255).sum() >= 5 and drawn.dtype == np.uint8
    assert shown(np.zeros((4, 4))).max() == 0


@pytest.fixture
def scored(pixels, tmp_path):
    """Two models with heads of two shares, and their images."""
    names = ("a", "b")
    models = write_models(tmp_path, names)
    count = CANDIDATES + QUERIES
    table = pd.DataFrame(
        {
            "sample_id": [f"s{n}" for n in range(count)],
            "subject_id": None,
            "group_id": None,
            "image_id": [f"image{n}" for n in range(count)],
            "labels": [[float(n % 2), float(n % 3 == 0)] for n in range(count)],
            "subgroup": None,
            "split": ["test" if n % 2 else "train" for n in range(count)],
        }
    )
    cohort = write_cohort(tmp_path / "cohort", "samples.parquet", table)
    said = {"dataset": "tiny", "synthetic": True, "classes": CLASSES}
    write_json(cohort / "flow.json", said)
    results = []
    for name in names:
        folder = tmp_path / name / "result"
        folder.mkdir()
        size = (2, 3, small_encoder(0).encoder.features + 1, 2)
        np.save(folder / "heads.npy", np.random.default_rng(0).normal(size=size))
        protocol = {"fractions": [0.01, 1.0], "geometry": "shorter64", "split": "test"}
        data = {"name": "tiny", "synthetic": True, "classes": CLASSES}
        path = folder / "metrics.json"
        write_result(path, "toy/classes", f"toy/{name}", 0, {}, protocol=protocol, data=data)
        results.append(folder)
    read = {"results": results, "models": models, "pixels": [pixels] * 2, "cohort": cohort}
    return read, table


def draw_saliency(scored, tmp_path, **settings):
    given, _ = scored
    plain = {"title": "T", "task": "toy/linear", "classes": CLASSES, "columns": columns("a", "b")}
    output = tmp_path / "saliency.png"
    main(["saliency", *options(settings=plain | settings, **given, output=output)])
    return output


def test_an_image_of_each_class_is_drawn_with_every_models_map(scored, tmp_path, monkeypatch):
    drawn: list[str] = []

    def chosen(*given):
        drawn.append(image_of(*given))
        return drawn[-1]

    monkeypatch.setattr("cxrflow.benchmarks.classification.saliency.image_of", chosen)
    output = draw_saliency(scored, tmp_path)
    content = json.loads(output.with_suffix(".json").read_text())
    assert content["shows"] == ["radiographs"]
    by_image = scored[1].set_index("image_id")
    for number, (line, name) in enumerate(zip(content["lines"], CLASSES, strict=True)):
        row = by_image.loc[drawn[number]]
        assert line == name and row["labels"][number] == 1 and row["split"] == "test"
    assert Image.open(output).size[0] > 3 * 168
    first = output.read_bytes()
    assert draw_saliency(scored, tmp_path, share="100").read_bytes() != first


def test_shares_and_classes_that_no_head_has_are_refused(scored, tmp_path):
    with pytest.raises(InputError, match="key 'share' names '10'; .* has 1, 100"):
        draw_saliency(scored, tmp_path, share="10")
    with pytest.raises(InputError, match="key 'classes' names 'Gout'; the cohort has Atelectasis"):
        draw_saliency(scored, tmp_path, classes=["Gout"])
