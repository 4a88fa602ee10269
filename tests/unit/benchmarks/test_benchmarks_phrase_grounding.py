"""The phrase grounding program from files to files, with a model that sees bright squares."""

import io
import json
from argparse import Namespace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_fakes import (
    CATEGORIES,
    FakeModel,
    grounding_samples,
    metrics_of,
    result_of,
    settings_of,
    stored,
    studies_of,
    write_cohort,
)
from PIL import Image
from torch.nn import Conv2d

from cxr_files.atomic import write_json
from cxr_files.errors import InputError
from cxrflow.benchmarks.evaluate import main
from cxrflow.benchmarks.figures.maps import heat_map, scale_of
from cxrflow.benchmarks.figures.sheet import BOX_COLOUR, GAP
from cxrflow.benchmarks.grounding.phrase_grounding import chosen_rescaling
from cxrflow.benchmarks.grounding.pictures import PANEL, choose_examples, draw_pair
from cxrflow.encoders.image_encoder import ImageEncoder
from cxrflow.encoders.settings import ResNetSettings

COUNT = 30


def settings(**values):
    return settings_of("phrase_grounding", {"categories": list(CATEGORIES), **values})


def evaluate(pixels, table=None, model=None, **values):
    table = grounding_samples(COUNT) if table is None else table
    contents = {"model": model or FakeModel(), **stored(table, pixels)}
    return result_of("phrase_grounding", settings(**values), **contents)


def test_the_program_writes_a_whole_result(pixels, tmp_path, monkeypatch):
    monkeypatch.setattr("cxrflow.models.model.Model.load", lambda *_: FakeModel())
    cohort = write_cohort(tmp_path / "cohort", "samples.parquet", grounding_samples(COUNT))
    output = tmp_path / "out"
    write_json(tmp_path / "run.json", {"model": "fake"})
    asked = {"settings": settings(figures=5).model_dump(mode="json"), "seed": 3}
    read = {"model": tmp_path, "cohort": cohort, "pixels": pixels}
    found = metrics_of(main, "phrase_grounding", **read, **asked, output=output)
    assert (found["benchmark"], found["model"], found["seed"]) == ("phrase_grounding", "fake", 3)
    assert found["data"]["synthetic"] is True and found["data"]["name"] == "tiny"
    assert found["protocol"]["outside"] == "ignore" and found["protocol"]["grid"] == [8, 8]
    assert found["data"]["categories_scored"] == ["pneumonia", "edema", "lung_opacity"]
    metrics = found["metrics"]
    each = [metrics[f"cnr/{name}"]["value"] for name in ("pneumonia", "edema", "lung_opacity")]
    assert metrics["cnr"]["value"] == pytest.approx(np.mean(each))
    assert metrics["cnr"]["low"] <= metrics["cnr"]["value"] <= metrics["cnr"]["high"]
    assert metrics["cnr"]["value"] > 3 and metrics["cnr"]["n"] == 20
    assert sum(metrics[f"cnr/{slug}"]["n"] for slug in ("pneumonia", "edema", "lung_opacity")) == 20
    predictions = pd.read_parquet(output / "predictions.parquet")
    assert len(predictions) == 20 and "phrase" not in predictions
    assert metrics["cnr_micro"]["value"] == pytest.approx(predictions["cnr"].mean())
    examples = json.loads((output / "figures" / "examples.json").read_text())
    assert [example["order"] for example in examples] == [0, 1, 2, 3, 4]
    for example in examples:
        picture = output / "figures" / example["file"]
        assert Image.open(picture).format == "PNG"
        assert "secret" not in json.dumps(example)  # phrases are report text


class Blind(FakeModel):
    """It is given the prior, and ignores it."""

    takes_prior = True


class Blended(Blind):
    """It sees the prior through the current image."""

    def encode_image(self, frames):
        pixels = frames.current.clone()
        if frames.prior is not None:
            rows = slice(None) if frames.rows is None else frames.rows
            pixels[rows] = (pixels[rows] + frames.prior) / 2
        return super().encode_image(frames._replace(current=pixels))


def test_maps_move_with_the_prior_only_if_the_model_reads_it(pixels):
    table = grounding_samples(COUNT)
    priors = table["image_id"].shift(4).where(np.arange(len(table)) % 3 > 0)
    table = table.assign(prior_image_id=priors)
    assert not any(name.startswith("map_shift") for name in evaluate(pixels, table).metrics)
    blind, blended = (evaluate(pixels, table, model).metrics for model in (Blind(), Blended()))
    for name in ("map_shift/no_prior", "map_shift/other_prior"):
        assert blind[name].value == pytest.approx(0, abs=1e-12)
        assert blended[name].value > 0.02
        assert 5 < blended[name].n < COUNT
    assert blind["map_shift/other_image"].value > 0.1
    without = evaluate(pixels, table, Blended(), controls=False).metrics
    assert "map_shift/no_prior" not in without


def test_phrases_that_stand_in_training_reports_are_scored_apart(pixels, tmp_path, monkeypatch):
    """But for case and punctuation, in either section; a test report does not count."""
    monkeypatch.setattr("cxrflow.models.model.Model.load", lambda *_: FakeModel())
    table = grounding_samples(COUNT)
    known, other = "A bright area", "Another phrase"
    table["phrase"] = [known if row % 3 else other for row in range(len(table))]
    reports = studies_of(
        [None, "Nothing new.", None],
        findings=["Heart is normal. " + known.upper(), None, other],
        findings_sentences=[["Heart is normal.", f"{known.upper()}!"], [], [other]],
        impression_sentences=[[], ["Nothing new."], []],
        split=["train", "train", "test"],
    )
    training = write_cohort(tmp_path / "reports", "pairs.parquet", reports)
    cohort = write_cohort(tmp_path / "cohort", "samples.parquet", table)
    options = Namespace(model=tmp_path, cohort=cohort, pixels=pixels, training=training)
    result = result_of("phrase_grounding", settings(), options)
    verbatim = result.predictions["verbatim"].to_numpy()
    assert verbatim.tolist() == (table["phrase"] == known).tolist()
    for name, part in (("verbatim", verbatim), ("new_words", ~verbatim)):
        mean = result.predictions["signed_cnr"][part].mean()
        assert result.metrics[f"signed_cnr/{name}"].value == pytest.approx(mean)
        assert result.metrics[f"signed_cnr/{name}"].n == part.sum()
    assert "signed_cnr/verbatim" not in evaluate(pixels).metrics


def test_a_stage_of_the_trunk_can_be_dilated(pixels, tmp_path, monkeypatch):
    model = FakeModel()
    sizes = ResNetSettings(block="basic", layers=(1, 1, 1, 1), width=8, channels=1)
    model.image_encoder = ImageEncoder(sizes)
    monkeypatch.setattr("cxrflow.models.model.Model.load", lambda *_: model)
    cohort = write_cohort(tmp_path, "samples.parquet", grounding_samples(COUNT))
    options = Namespace(cohort=cohort, model=tmp_path, pixels=pixels, training=None)
    strides = []
    for last in (False, True):
        result = result_of("phrase_grounding", settings(dilate=[False, False, last]), options)
        assert result.protocol["dilate"] == [False, False, last]
        trunk = model.image_encoder.encoder
        strides.append([part.stride for part in trunk.modules() if isinstance(part, Conv2d)])
    assert strides[0].count((2, 2)) == strides[1].count((2, 2)) + 2  # one convolution, one shortcut


def test_thresholded_maps_find_the_squares(pixels):
    """Dark patches have a cosine near 0.2 with the phrase, bright ones near 1."""
    result = evaluate(pixels, thresholds=[0.6])
    assert result.metrics["miou"].value == 1.0
    blind = evaluate(pixels, thresholds=[1.5])
    assert blind.metrics["miou"].value == 0.0


def test_the_score_falls_when_the_boxes_are_wrong(pixels):
    table = grounding_samples(COUNT)
    boxes = table["boxes"].tolist()
    moved = table.assign(boxes=boxes[7:] + boxes[:7])
    right, wrong = evaluate(pixels), evaluate(pixels, moved)
    assert wrong.metrics["cnr"].high < right.metrics["cnr"].low
    assert right.metrics["signed_cnr"].value == pytest.approx(right.metrics["cnr"].value)
    assert wrong.metrics["signed_cnr"].value < wrong.metrics["cnr"].value


def test_nothing_depends_on_the_batch_size(pixels):
    one, all_ = (evaluate(pixels, batch_size=size) for size in (1, 64))
    pd.testing.assert_frame_equal(one.predictions, all_.predictions, rtol=1e-5)


def test_options_reach_the_score(pixels):
    plain = evaluate(pixels).metrics["cnr"].value
    assert evaluate(pixels, rescale="minmax").metrics["cnr"].value == pytest.approx(plain)
    assert evaluate(pixels, rescale="minmax").metrics["miou"].value > 0.9
    assert evaluate(pixels, smoothing_sigma=1.5).metrics["cnr"].value < plain
    assert evaluate(pixels, upsample="bilinear").metrics["cnr"].value < plain
    assert evaluate(pixels, space="stored").metrics["cnr"].value == pytest.approx(plain, rel=0.1)


def test_a_box_outside_the_crop_is_counted_and_not_scored(pixels):
    table = grounding_samples(COUNT)
    table.at[0, "boxes"] = [[0, 0, 10, 8]]  # the crop begins at row 16
    result = evaluate(pixels, table)
    assert result.data["unscored"] == {"no box inside the crop": 1}
    assert np.isnan(result.predictions["cnr"][0]) and result.metrics["cnr"].n == 19
    assert result.predictions["missed_pixels"][0] == 80
    assert evaluate(pixels, table, outside="missed").predictions["miou"][0] == 0.0


def test_what_cannot_be_scored_is_left_out_with_its_reason(pixels):
    table = grounding_samples(COUNT)
    table.loc[0, "image_id"] = "absent"
    table.loc[1, "category"] = "Rib fracture"
    table.loc[2, "image_height"] = 64
    result = evaluate(pixels, table)
    dropped = [(drop["count"], drop["examples"]) for drop in result.data["dropped"]]
    assert dropped == [(1, ["s2"]), (1, ["s1"]), (1, ["s4"])]
    assert result.metrics["cnr"].n == 17
    with pytest.raises(InputError, match="no sample is left"):
        evaluate(pixels, table, categories=["Nothing"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, "geometry is shorter64.*trained on shorter512"),
        ({"settings": {"split": "validate"}}, r"no row has split 'validate'; found \['test'\]"),
        ({"cohort": Path("absent")}, "flow.json: file not found"),
        ({"boxes": False}, "column 'boxes' is missing"),
    ],
)
def test_wrong_input_is_named(pixels, tmp_path, monkeypatch, change, message):
    monkeypatch.setattr(
        "cxrflow.models.model.Model.load", lambda *_: FakeModel(geometry="shorter512")
    )
    table = grounding_samples(COUNT)
    table = table if change.pop("boxes", True) else table.drop(columns="boxes")
    read = {"model": ".", "cohort": write_cohort(tmp_path, "samples.parquet", table)} | change
    with pytest.raises(InputError, match=message):
        metrics_of(main, "phrase_grounding", **read, pixels=pixels, output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_examples_are_the_best_the_median_and_the_worst():
    scores = pd.DataFrame(
        {
            "sample_id": list("abcdefgh"),
            "category": ["Edema"] * 5 + ["Pneumonia"] * 3,
            "cnr": [1.0, 5.0, 3.0, 2.0, np.nan, 0.1, 0.3, 0.2],
        }
    )
    edema = [(1, "best"), (3, "median"), (0, "worst")]
    assert choose_examples(scores, 6) == [*edema, (6, "best"), (7, "median"), (5, "worst")]
    assert choose_examples(scores, 2) == edema[:2]
    assert choose_examples(scores.assign(cnr=np.nan), 3) == []


def test_a_map_lets_the_picture_through_and_is_drawn_with_contour_boxes_and_bar():
    """Beside the plain radiograph: where the map is low it is grey, at the top it has colour."""
    heat = np.tile(np.linspace(-0.5, 0.9, PANEL), (PANEL, 1))
    png = draw_pair(np.full((PANEL, PANEL), 90, np.uint8), heat, np.array([[20, 30, 40, 50.0]]))
    drawn = np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)
    row = drawn[drawn.shape[0] - 60]
    left, right = (GAP + number * (PANEL + GAP) for number in range(2))
    assert (row[left : left + PANEL] == 90).all()
    over = row[right : right + PANEL]
    assert (over[0] == 90).all() and np.ptp(over[-1]) > 80
    assert np.abs(np.diff(over.sum(1))[:150]).max() < 12  # without steps
    assert np.flatnonzero((over == 255).all(1)) == pytest.approx(0.75 * PANEL, abs=2)
    box = (drawn[:, right : right + PANEL] == BOX_COLOUR).all(2)
    assert box.any() and not (drawn[:, left : left + PANEL] == BOX_COLOUR).all(2).any()
    bar = drawn[:, right + PANEL + GAP + 2]
    assert len({*map(tuple, bar)}) > 100
    values = np.full((4, 4), np.nan)
    values[1:3] = 0.5
    assert scale_of([values, values - 1]) == (-0.5, 0.5) and scale_of([values]) == (0.5, 1.5)
    grey = np.full((4, 4), 7, np.uint8)
    assert (heat_map(values, grey, (0.0, 2.0))[[0, 3]] == 7).all()


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ({}, "none"),
        ({"settings": {"terms": {"global_alignment": {"weight": 1.0}}}}, "none"),
        ({"settings": {"terms": {"local_alignment": {"weight": 0.5}}}}, "minmax"),
    ],
)
def test_maps_of_models_with_a_local_loss_are_rescaled(pixels, run, expected):
    """Appendix A.3; the protocol says which, and both can be asked for by name."""
    result = evaluate(pixels, model=FakeModel(run=run))
    assert result.protocol["rescale"] == expected
    assert result.protocol["rescale_setting"] == "auto"
    named = evaluate(pixels, rescale=expected)
    assert named.protocol["rescale"] == named.protocol["rescale_setting"] == expected
    assert result.metrics["miou"] == named.metrics["miou"]
    assert chosen_rescaling("minmax", {}) == "minmax" and chosen_rescaling("none", run) == "none"


def test_scores_by_the_size_of_the_boxes(pixels):
    """Boxes of 16 x 16 in 96 x 64 pixels are 4.2 % of the image; some are made larger."""
    table = grounding_samples(COUNT)
    table.at[0, "boxes"] = [[0, 16, 32, 32]]  # 16.7 %
    table.at[1, "boxes"] = [[0, 16, 16, 16], [32, 48, 16, 16], [8, 16, 16, 16]]  # 6.3 %: a union
    table.at[2, "boxes"] = [[0, 20, 20, 20]]  # 6.5 %
    result = evaluate(pixels, table)
    scores = result.predictions["cnr"]
    for name, rows in (("large", [0]), ("medium", [1, 2]), ("small", range(3, 20))):
        found = result.metrics[f"cnr/size_{name}"]
        assert found.n == len(rows) and found.value == pytest.approx(scores[list(rows)].mean())
        assert f"miou/size_{name}" in result.metrics
    # No finding is called that, and the macro average is of findings alone.
    each = [result.metrics[f"cnr/{name}"].value for name in result.data["categories_scored"]]
    assert result.metrics["cnr"].value == pytest.approx(np.mean(each))
    wide = evaluate(pixels, table, size_limits=[0.2, 0.5])
    assert "cnr/size_medium" not in wide.metrics and wide.metrics["cnr/size_small"].n == 20
    with pytest.raises(ValueError, match="want two shares between 0 and 1, the smaller first"):
        settings(size_limits=[0.5, 0.2])


def test_punctuation_reaches_the_model_unless_it_is_stripped(pixels, monkeypatch):
    asked = []
    monkeypatch.setattr(
        FakeModel, "encode_text", lambda self, texts: asked.extend(texts) or torch.eye(2)[[1]]
    )
    table = grounding_samples(COUNT).assign(phrase="Small effusion. ")[:2]
    for strip in (False, True):
        evaluate(pixels, table, strip_punctuation=strip, batch_size=1, controls=False)
    assert asked == ["Small effusion. "] * 2 + ["Small effusion"] * 2
