"""The figure of phrases with the prior and without: which rows, what is on it, what is refused."""

import io
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmark_fakes import (
    CATEGORIES,
    DATA,
    FakeModel,
    grounding_samples,
    make_store,
    result_of,
    write_cohort,
)
from config_overlays import real
from PIL import Image

from command_options import options
from cxrflow.benchmarks.draw_figure import main
from cxrflow.benchmarks.figures.sheet import GAP
from cxrflow.benchmarks.grounding.comparison import PANEL
from cxrflow.benchmarks.grounding.settings import PhraseGroundingSettings
from cxrflow.benchmarks.inputs import Cohort
from cxrflow.errors import InputError
from cxrflow.files.atomic import read_json, write_json
from cxrflow.images.store import PixelStore

COUNT = 30
FIGURE = {"title": "Both.", "task": "b/t", "alone": "b/a", "model": "b/m", "count": 2}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model's results of one cohort, in which some images have a prior, in two orders."""
    root = tmp_path_factory.mktemp("priors")
    pixels, table = make_store(root, COUNT), grounding_samples(COUNT)
    # The image before; of some there is none, of one it is not stored.
    priors = ["image0" if number % 2 else None for number in range(len(table))]
    priors[1] = "lost"
    write_cohort(root / "cohort", "samples.parquet", table.assign(prior_image_id=priors))
    settings = PhraseGroundingSettings(categories=list(CATEGORIES), intervals={"replicates": 100})
    for name, rows in (("beside", table), ("alone", table.iloc[::-1].reset_index(drop=True))):
        contents = {"cohort": Cohort(rows, DATA), "pixels": PixelStore(pixels)}
        result = result_of("phrase_grounding", settings, model=FakeModel(), **contents)
        result.write(root / name, "b/m", 0)
    return root


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    shutil.copytree(made, tmp_path / "made", ignore=shutil.ignore_patterns("figures"))
    return tmp_path / "made"


def drawn(root: Path, *more: str) -> dict:
    read = {"results": [root / "beside", root / "alone"], "pixels": [root / "pixels"] * 2}
    read |= {"cohort": root / "cohort", "settings": FIGURE}
    main(["priors", *options(**read, output=root / "figure.png"), *more])
    return read_json(root / "figure.json")


def test_the_median_of_each_finding_among_images_with_a_prior(root: Path) -> None:
    said = drawn(root)
    scores = pd.read_parquet(root / "beside" / "predictions.parquet").set_index("sample_id")
    table = pd.read_parquet(root / "cohort" / "samples.parquet").set_index("sample_id")
    able = scores[table["prior_image_id"].reindex(scores.index).eq("image0")]
    assert 0 < len(able) < len(scores) and len(said["lines"]) == 2
    for line, finding in zip(said["lines"], CATEGORIES, strict=False):
        known = able[able["category"] == finding].reset_index()
        known = known.sort_values(["signed_cnr", "sample_id"], ascending=[False, True])
        value = known["signed_cnr"].iloc[(len(known) - 1) // 2]
        # The same model in both tasks, although the rows stand in another order.
        both = f"One image {value:+.2f}, With the prior {value:+.2f}"
        assert line == f"{finding}: signed CNR {both}"
    assert said["shows"] == ["radiographs"] and "secret" not in str(said)
    assert said["data"]["synthetic"] is True
    assert Image.open(root / "figure.png").width > 4 * 150


def test_panels_are_before_now_and_two_maps(root: Path) -> None:
    """With another prior only the first panel changes; with other grids only the last."""

    def columns() -> list[np.ndarray]:
        image = Image.open(io.BytesIO((root / "figure.png").read_bytes())).convert("RGB")
        starts = [GAP + number * (PANEL + GAP) for number in range(4)]
        return [np.asarray(image)[:, start : start + PANEL] for start in starts]

    assert drawn(root, "--phrases")["shows"] == ["radiographs", "phrases"]
    drawn(root)
    before = columns()
    table = pd.read_parquet(root / "cohort" / "samples.parquet")
    other = table["prior_image_id"].replace("image0", "image3")
    table.assign(prior_image_id=other).to_parquet(root / "cohort" / "samples.parquet")
    drawn(root)
    same = [np.array_equal(*pair) for pair in zip(before, columns(), strict=True)]
    assert same == [False, True, True, True]
    before = columns()
    np.save(root / "beside" / "grids.npy", -np.load(root / "beside" / "grids.npy"))
    drawn(root)
    same = [np.array_equal(*pair) for pair in zip(before, columns(), strict=True)]
    assert same == [True, True, True, False]


def test_what_is_refused(root: Path) -> None:
    table = pd.read_parquet(root / "cohort" / "samples.parquet")
    table.assign(prior_image_id=None).to_parquet(root / "cohort" / "samples.parquet")
    with pytest.raises(InputError, match="no phrase on an image with a prior has a score"):
        drawn(root)
    table.iloc[1:].to_parquet(root / "cohort" / "samples.parquet")
    with pytest.raises(InputError, match=r"sample 's1' of the results is not in the cohort"):
        drawn(root)
    metrics = root / "alone" / "metrics.json"
    write_json(metrics, read_json(metrics) | {"model": "b/other"})
    with pytest.raises(InputError, match=r"is of b/other, seed 0; expected b/m, seed 0"):
        drawn(root)
    with pytest.raises(InputError, match="--results: expected two, with priors and without"):
        drawn(root, "--results", str(root / "beside"), "--pixels", str(root / "pixels"))
    with pytest.raises(SystemExit):
        drawn(root, "--pixels", str(root / "pixels"))


def test_privacy_decides_whether_it_is_drawn(overlay) -> None:
    paper = {"papers": ["biovil_t"], "extent": "all"}
    assert "with_prior" in overlay(paper).figures("biovil_t", "headline")
    hidden = overlay(paper | {"privacy": {"show_images": False}})
    assert "with_prior" not in hidden.figures("biovil_t")
    names = ("mimic_cxr", "mimic_cxr_jpg", "ms_cxr", "ms_cxr_t", "chest_imagenome")
    published = paper | {"datasets": real(*names)}
    assert "with_prior" not in overlay(published, check_roots=False).figures("biovil_t")
    shown = overlay(published | {"privacy": {"show_images": True}}, check_roots=False)
    assert "with_prior" in shown.figures("biovil_t")
    task = shown.figures("biovil_t")["with_prior"].task
    assert shown.shows("images", task) and not shown.shows("text", task)
