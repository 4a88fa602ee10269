"""Figures of grounded phrases: which examples, what stands beside them, what is refused."""

import io
import json
import shutil

import numpy as np
import pandas as pd
import pytest
from benchmark_fakes import (
    CATEGORIES,
    FakeModel,
    grounding_samples,
    make_store,
    result_of,
    stored,
    write_cohort,
)
from PIL import Image

from command_options import options
from cxr_files.atomic import read_json, write_json
from cxr_files.errors import InputError
from cxrflow.benchmarks.draw_figure import main
from cxrflow.benchmarks.figures.sheet import Strip, draw_sheet, panel
from cxrflow.benchmarks.grounding.comparison import choose_rows
from cxrflow.benchmarks.grounding.phrase_grounding import score_samples
from cxrflow.benchmarks.grounding.settings import GroundingFigureSettings, PhraseGroundingSettings
from cxrflow.images.store import PixelStore

COUNT = 30
FIGURE = {
    "title": "Figure 1. Tiny.", "task": "t", "by": "fake", "rank": "best",
    "each_finding": True, "count": 8,
    "columns": [
        {"label": "Other", "model": "other"},
        {"label": "Absent", "reason": "for a reason"},
        {"label": "Untrained", "model": "untrained"},
        {"label": "Fake", "model": "fake"},
    ],
}  # fmt: skip


class Blind(FakeModel):
    """Sees the opposite of what is asked for."""

    def encode_text(self, texts):
        return super().encode_text(texts).flip(1)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Cohort, pixels and the results of two models."""
    root = tmp_path_factory.mktemp("figures")
    pixels, table = make_store(root, COUNT), grounding_samples(COUNT)
    write_cohort(root / "cohort", "samples.parquet", table)
    for name, model in (("fake", FakeModel()), ("other", Blind())):
        contents, settings = stored(table, pixels), {"categories": list(CATEGORIES)}
        result = result_of("phrase_grounding", settings, **contents, model=model)
        result.write(root / name, name, 0)
    return root


@pytest.fixture
def root(made, tmp_path):
    """A copy that a test may damage."""
    shutil.copytree(made, tmp_path / "made", ignore=shutil.ignore_patterns("figures"))
    return tmp_path / "made"


def draw(root, *more, results=("other", "fake"), **changes):
    output = root / "figures" / "figure1.png"
    read = {"cohort": root / "cohort", "results": [root / name for name in results]}
    read |= {"pixels": [root / "pixels"] * len(results), "settings": FIGURE | changes}
    main(["grounding", *options(**read), *more, *options(output=output)])
    return Image.open(output), read_json(output.with_suffix(".json"))


SCORES = pd.DataFrame(
    {
        "sample_id": list("abcdefgh"),
        "category": ["Edema", "Edema", "Edema", "Pneumonia", "Pneumonia", "Edema", "Atelectasis",
                     "Edema"],
        "signed_cnr": [0.5, 2.0, -1.0, 0.1, 0.3, np.nan, 0.2, 2.0],
    }
)  # fmt: skip


@pytest.mark.parametrize(
    ("rank", "count", "findings", "expected"),
    [
        ("best", 8, ["Pneumonia", "Edema", "Nothing"], "eb"),  # b and h are equal: by id
        ("worst", 8, ["Edema", "Pneumonia", "Atelectasis"], "cdg"),
        ("median", 8, ["Edema"], "h"),  # of b h a c the lower middle place of the ranking
        ("best", 1, ["pneumonia", "Edema"], "e"),
        ("best", 3, None, "bha"),
        ("worst", 2, None, "cd"),
        ("median", 3, None, "aeg"),  # of b h a e g d c
        ("worst", 99, None, "cdgeahb"),
    ],
)
def test_the_rule_that_chooses(rank, count, findings, expected):
    rows = choose_rows(SCORES, rank, count, findings)
    assert "".join(SCORES["sample_id"][rows]) == expected


def test_a_figure_and_what_is_on_it(made):
    picture, content = draw(made)
    assert picture.format == "PNG"
    # Three examples, two beside each other; each is the radiograph and two maps.
    assert picture.width > 2 * 3 * 176 and picture.height > 2 * 176
    assert [example["category"] for example in content["examples"]] == list(CATEGORIES)
    assert content["columns"] == [
        {"label": "Other", "model": "other", "seed": 0},
        {"label": "Fake", "model": "fake", "seed": 0},
    ]
    assert content["left_out"] == [
        {"label": "Absent", "reason": "for a reason"},
        {"label": "Untrained", "reason": "not trained in this run"},
    ]
    assert content["data"]["synthetic"] is True
    assert content["caption"].endswith(
        "Without a column: Absent (for a reason); Untrained (not trained in this run)."
    )
    assert content["lines"][0].startswith(f"{CATEGORIES[0]}: signed CNR Other −".replace("−", "-"))
    scores = pd.read_parquet(made / "fake/predictions.parquet")
    for example in content["examples"]:
        best = scores[scores["category"] == example["category"]]["signed_cnr"].max()
        other, fake = example["scores"]
        assert (other["label"], fake["label"]) == ("Other", "Fake")
        assert fake["signed_cnr"] == pytest.approx(best)
        assert other["signed_cnr"] < 0 < other["cnr"]


def test_phrases_are_written_only_when_asked_for(made):
    quiet, content = draw(made)
    assert content["shows"] == ["radiographs"] and "secret" not in json.dumps(content)
    loud, content = draw(made, "--phrases")
    assert content["shows"] == ["radiographs", "phrases"]
    assert all("secret" in example["phrase"] for example in content["examples"])
    assert quiet.tobytes() != loud.tobytes()


def test_the_worst_of_all_phrases(made):
    _, content = draw(made, rank="worst", each_finding=False, count=4)
    lowest = pd.read_parquet(made / "fake/predictions.parquet")["signed_cnr"].nsmallest(4)
    found = [example["scores"][1]["signed_cnr"] for example in content["examples"]]
    assert found == pytest.approx(lowest.tolist())


def test_grids_are_kept_and_are_those_that_were_scored(made):
    grids = np.load(made / "fake/grids.npy", allow_pickle=False)
    table, pixels = grounding_samples(COUNT), PixelStore(made / "pixels")
    assert grids.dtype == np.float32 and grids.shape == (len(table), 8, 8)
    settings = PhraseGroundingSettings(categories=list(CATEGORIES))
    again = score_samples(grids.astype(float), table, pixels.geometry, settings, "none")
    kept = pd.read_parquet(made / "fake/predictions.parquet")
    np.testing.assert_allclose(again["signed_cnr"], kept["signed_cnr"], rtol=1e-4)


def meant(root):
    """Changed by somebody who means it: without checksums."""
    (root / "fake/SHA256SUMS").unlink()


def shorten_grids(root):
    meant(root)
    np.save(root / "fake/grids.npy", np.zeros((3, 8, 8), np.float32))


def shorten_cohort(root):
    write_cohort(root / "cohort", "samples.parquet", grounding_samples(COUNT)[5:])


def edit(root, **fields):
    path = root / "fake/metrics.json"
    meant(root)
    content = read_json(path)
    write_json(path, content | fields | {"data": content["data"] | fields.get("data", {})})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda root: (root / "fake/grids.npy").write_bytes(b"nothing"), "npy: damaged, its SHA"),
        (shorten_grids, r"grids.npy: shape is \[3, 8, 8\], expected \[20, h, w\]"),
        (lambda root: (root / "fake/grids.npy").unlink(), "grids.npy: file not found"),
        (lambda root: edit(root, benchmark="other"), "'benchmark' is 'other', expected 'phrase_"),
        (lambda root: edit(root, data={"fingerprint": "9"}), "data.fingerprint is not that of"),
        (lambda root: edit(root, data={"pictures": "9"}), "data.pictures is not that of"),
        (lambda root: edit(root, model="third"), "there is none of the model 'fake'"),
        (shorten_cohort, "of the results is not in the cohort"),
    ],
)
def test_what_does_not_fit_is_named(root, damage, message):
    damage(root)
    with pytest.raises(InputError, match=message):
        draw(root)
    assert not (root / "figures").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"by": "nobody"}, "must be one of the columns' models"),
        ({"columns": [{"label": "Neither"}]}, "want either a model or a reason"),
        ({"columns": [{"label": "Middle", "model": "reference/centre"}]}, "centre' is no model"),
        ({"rank": "first"}, "best"),
    ],
)
def test_a_figure_that_makes_no_sense_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        GroundingFigureSettings.model_validate(FIGURE | changes)


def test_a_sheet_holds_every_panel_in_its_place():
    """Four grey squares of their own shade, two strips of two on a line."""
    shades = (40, 90, 140, 190)
    views = [panel(np.full((20, 20), shade, np.uint8)) for shade in shades]
    strips = [Strip("", views[:2], ["", ""]), Strip("", views[2:], ["", ""])]
    sheet = np.asarray(Image.open(io.BytesIO(draw_sheet(strips, 2))).convert("L")).astype(int)
    middle = sheet[sheet.shape[0] // 2]
    steps = [int(value) for value in middle if value < 230]
    order = list(dict.fromkeys(steps))
    assert len(steps) == 80 and order == sorted(order)
    np.testing.assert_allclose(order, shades, atol=4)
