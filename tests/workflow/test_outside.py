"""Repositories of others (tests/outside) beside a finished run: what exists is not made again."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from safetensors.torch import save_file

from cxrflow.data.layouts import layout
from released_files import drawn, rad_dino_shapes

from .conftest import Checkout, models_of
from .test_extending import python
from .test_reruns import as_if_finished

pytestmark = pytest.mark.slow
OUTSIDE = Path(__file__).parents[1] / "outside"
WEIGHTS: dict[str, Any] = {"path": "weights", "geometry": "square32"}
# What each needs in the configuration, and what it adds to the models that are trained.
REPOSITORIES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "rad_dino": ({"weights": {"rad_dino/rad_dino": WEIGHTS}}, {"rad_dino/from_rad_dino"}),
    "carzero": ({}, {"carzero/carzero"}),
    "brax": ({"datasets": {"brax": {"root": "brax", "layout": "brax:Brax"}}}, set()),
}
# What the benchmarks wrote, beside the model's own similarity of the same images and texts.
SCORED = """
import json
from pathlib import Path
import numpy, pandas, torch
import carzero
import cxrflow
from cxrflow.images.store import PixelStore
from cxrflow.metrics.retrieval import ranks, without_rounding
from cxrflow.text.report_prompts import report_texts

RESULTS = Path("results")
model = cxrflow.load(RESULTS / "models/carzero/carzero/seed0")
assert type(model.similarity).__module__ == "carzero"

def folder(task):
    return RESULTS / f"benchmarks/toy/{task}/carzero/carzero/seed0"

def pixels(cohort, ids):
    store = PixelStore(RESULTS / "pixels" / cohort / "shorter64")
    return torch.from_numpy(store.read(store.rows(ids))).reshape(-1, 1, 64, 64).float() / 255

def agree(written, ours):
    assert numpy.ptp(ours) > 0
    numpy.testing.assert_allclose(written, ours, rtol=1e-3, atol=1e-4)

rows = pandas.read_parquet(folder("zero_shot_classification") / "predictions.parquet")
said = json.loads((folder("zero_shot_classification") / "metrics.json").read_text())
for side in ("positive", "negative"):
    prompts = list(said["protocol"][f"{side}_prompts"])
    scores = model.similarities(pixels("biovil/rsna", rows["image_id"]), prompts)
    agree(rows[f"cosine_{side}"], scores.mean(1).numpy())

rows = pandas.read_parquet(RESULTS / "cohorts/biovil/ms_cxr/samples.parquet")
scored = pandas.read_parquet(folder("phrase_grounding") / "predictions.parquet")
rows = rows.set_index("sample_id").loc[scored["sample_id"]]
maps = model.similarity_map(pixels("biovil/ms_cxr", rows["image_id"]), rows["phrase"].tolist())
agree(numpy.load(folder("phrase_grounding") / "grids.npy"), maps.numpy())

rows = pandas.read_parquet(folder("pairs") / "predictions.parquet")
pairs = pandas.read_parquet(RESULTS / "cohorts/biovil/mimic_cxr/pairs.parquet")
pairs = pairs.set_index("image_id").loc[rows["sample_id"]]
texts = report_texts(pairs, ("impression",))
scores = model.similarities(pixels("biovil/mimic_cxr", rows["sample_id"]), texts).double().numpy()
ranked = ranks(without_rounding(scores), numpy.arange(len(rows)))
numpy.testing.assert_array_equal(rows["median_rank/image_to_text"], ranked)
"""


def write_data(folder: Path) -> None:
    """What the repositories read: published weights, and images with a list."""
    (folder / "weights").mkdir()
    save_file(drawn(rad_dino_shapes(64, 2, 8, 4)), folder / "weights/model.safetensors")
    (folder / "brax/images").mkdir(parents=True)
    rows, generator = [], np.random.default_rng(0)
    for number in range(24):
        pixels = generator.integers(0, 255, (40, 40), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"brax/images/{number}.png")
        ids = {"PngPath": f"images/{number}.png", "PatientID": number, "AccessionNumber": number}
        labels = dict.fromkeys(layout("chexpert").classes) | {"Cardiomegaly": number % 2}
        rows.append({**ids, "ViewPosition": "PA", **labels})
    pd.DataFrame(rows).to_csv(folder / "brax/master_spreadsheet_update.csv", index=False)


def beside(checkout: Checkout) -> dict[str, Checkout]:
    """The checkout with each repository beside it, and with all of them."""
    write_data(checkout.folder)
    checkouts, merged = {}, dict[str, Any]()
    for name, (values, _) in REPOSITORIES.items():
        shutil.copytree(OUTSIDE / name, checkout.folder, dirs_exist_ok=True)
        papers = {"papers": ["toy.yaml", f"{name}.yaml"]}
        checkouts[name] = checkout.write(f"with_{name}.yaml", {**papers, **values})
        merged |= values
    papers = {"papers": ["toy.yaml", *(f"{name}.yaml" for name in REPOSITORIES)]}
    return checkouts | {"all": checkout.write("with_all.yaml", {**merged, **papers})}


def test_what_is_new_is_all_that_is_made(checkout: Checkout) -> None:
    for name in ("tiny.yaml", "toy.yaml"):
        shutil.copy2(Path(__file__).with_name(name), checkout.folder / name)
    tiny = checkout.with_overlay("tiny.yaml")
    as_if_finished(tiny, "all")
    added = beside(tiny)
    for name, (_, models) in REPOSITORIES.items():
        jobs = added[name].plan()
        assert models_of(jobs) == models
        outputs = [path for job in jobs for path in job.output]
        assert outputs and not [path for path in outputs if (checkout.folder / path).exists()]


def test_the_workflow_makes_it(finished_copy: Checkout, quick: dict[str, str]) -> None:
    """Its jobs find the code of each repository; a model is scored by the similarity it keeps."""
    checkout = beside(finished_copy)["all"]
    places = ("rad_dino/grounding", "carzero/compared", "brax/neighbours")
    tables = [f"results/tables/{place}.html" for place in places]
    done = checkout.snakemake("--cores", "2", "--show-failed-logs", *tables, **quick)
    assert done.returncode == 0, done.stdout[-6000:]
    python(checkout.folder, "-c", SCORED)
    rows = pd.read_csv(checkout.folder / "results/tables/brax/neighbours.csv")
    assert rows["row"].tolist() == ["joint", "images", "any"] and rows["ours"].notna().all()
