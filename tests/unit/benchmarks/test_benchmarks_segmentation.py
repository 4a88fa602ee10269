"""Segmentation from files to files: maps by prompts and by probes, against the boxes."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_fakes import (
    CELLS,
    QUICK,
    SIZE,
    FakeModel,
    boxes_of,
    classification_samples,
    metrics_of,
    result_of,
    settings_of,
    stored,
    write_cohort,
)
from pydantic import ValidationError
from scipy.special import expit
from torch import nn

from cxr_files.atomic import write_json
from cxr_files.errors import InputError
from cxrflow.benchmarks.classification.labelled_images import class_embedding
from cxrflow.benchmarks.evaluate import main
from cxrflow.benchmarks.grounding import segmentation as program
from cxrflow.benchmarks.grounding.patches import (
    PatchEncoder,
    annotated_cells,
    images_with_boxes,
    one_box_each,
)
from cxrflow.benchmarks.grounding.region import make_window
from cxrflow.benchmarks.grounding.segmentation_scores import ZERO_SHOT
from cxrflow.benchmarks.grounding.settings import SegmentationSettings
from cxrflow.benchmarks.inputs import image_batches
from cxrflow.encoders.image_encoder import ImageEncoder, Patches, save_image_encoder
from cxrflow.encoders.settings import ResNetSettings
from cxrflow.images.geometry import Geometry
from cxrflow.images.store import PixelStore
from cxrflow.metrics.grounding import of_pixels, overlap, signed_cnr

COUNT = 60
PROBE = {
    **QUICK, "fractions": [0.1, 1.0], "probe_seeds": [0, 1, 7],
    "encoder_batch_size": 7, "device": "cpu", "dilate": [False] * 3,
}  # fmt: skip
METRICS = ("iou", "dice", "cnr", "signed_cnr")


class FakeImage(nn.Module):
    """The patches of :class:`FakeModel`: brightness before the projection, its circle after."""

    takes_prior = False

    def __init__(self, unit: float, projects: bool) -> None:
        super().__init__()
        self.unit, self.projector = unit, "some" if projects else None

    def encoder(self, frames):
        bright = nn.functional.avg_pool2d(frames.current, SIZE // CELLS)
        return Patches(torch.cat([bright, torch.ones_like(bright)], dim=1) * self.unit, None)

    def forward(self, frames):
        angle = self.encoder(frames).grid[:, 0] * torch.pi / 2
        patches = torch.stack([angle.cos(), angle.sin()], dim=-1)
        return SimpleNamespace(
            projected_patches=patches, unnormalised_patches=patches, projected_global=None
        )


def samples() -> pd.DataFrame:
    """Every picture, with the box of its bright square; half of them for training."""
    return classification_samples(COUNT).assign(
        boxes=[boxes_of(n) if n % 3 else [] for n in range(COUNT)],
        **{"image_width": 64, "image_height": 96},
        split=["test" if n % 2 else "train" for n in range(COUNT)],
    )


def shifted(table: pd.DataFrame) -> pd.DataFrame:
    """Boxes that are half beside the bright square and reach out of the crop."""
    moved = [
        [[x - 7 + n % 8, y - 22 + n % 5, w + 4, h + 9] for x, y, w, h in boxes]
        for n, boxes in enumerate(table["boxes"])
    ]
    return table.assign(boxes=moved)


def evaluate(pixels, table=None, model=True, projects=True, unit_of=1.0, **values):
    contents = {"image": FakeImage(unit_of, projects), "text_model": FakeModel() if model else None}
    contents |= stored(samples() if table is None else table, pixels)
    return result_of("segmentation", PROBE | values, **contents)


def test_prompts_find_the_bright_squares(pixels):
    """A square covers whole cells, so that a right map is wholly right."""
    result = evaluate(pixels)
    probes = {f"{m}{spread}/{s}" for m in METRICS for spread in ("", "_sd") for s in ("10", "100")}
    zero_shot = {*METRICS, *(f"{m}/size_small" for m in METRICS)}  # 256 of 6144 pixels
    assert set(result.metrics) == probes | zero_shot
    for name in ("iou", "dice", "iou/100", "dice/100", "iou/size_small"):
        assert result.metrics[name].value == 1.0, name
        assert result.metrics[name].n == 20
    assert result.metrics["iou_sd/100"].value == 0
    assert result.metrics["signed_cnr"].value > 3
    assert result.data["samples"] == result.data["images"] == 20
    assert result.data["train_images"] == 20 and result.data["labelled"] == {"10": 2, "100": 20}
    assert result.data["listed_images"] == {"train": 30, "test": 30}
    assert result.data["dropped"] == [] and result.data["unscored"] == {}
    assert result.protocol["start"] == "prompts" and result.protocol["grid"] == [CELLS, CELLS]


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"upsample": "bilinear"},
        {"space": "stored", "outside": "missed"},
        {"map": "positive", "scale": "affine", "threshold": 0.55, "outside": "missed"},
    ],
    ids=str,
)
def test_scores_are_those_of_the_pixels(pixels, values):
    """Made again picture by picture, with the functions of phrase grounding."""
    table = shifted(samples())
    result = evaluate(pixels, table, **values)
    settings = settings_of("segmentation", PROBE | values)
    test = table[(table["split"] == "test") & (table["boxes"].map(len) > 0)]
    model, wanted = FakeModel(), {name: [] for name in METRICS}
    placement = Geometry.parse(f"shorter{SIZE}").place(96, 64)
    for _, images in image_batches(PixelStore(pixels), test, 1):
        present = model.similarity_map(images, ["Findings suggesting pneumonia"])[0].double()
        absent = model.similarity_map(images, ["No evidence of pneumonia"])[0].double()
        grid = 1 / (1 + torch.exp(absent - present))
        if settings.map == "positive":
            grid = (present + 1) / 2
        else:
            grid = (grid - grid.min()) / (grid.max() - grid.min())
        boxes = test["boxes"].iloc[len(wanted["iou"])]
        window = make_window(grid.shape, boxes, placement, settings.upsample, settings.space)
        missed = window.missed if settings.outside == "missed" else 0
        pixels = of_pixels(window.pixels(grid.numpy()), window.mask)
        signed = signed_cnr(*pixels)
        scores = (*overlap(*pixels, settings.threshold, missed), abs(signed), signed)
        for name, score in zip(METRICS, scores, strict=True):
            wanted[name].append(float(score))
    for name, values_M in wanted.items():
        np.testing.assert_allclose(result.predictions[name], values_M, atol=1e-6, err_msg=name)
        assert result.metrics[name].value == pytest.approx(np.nanmean(values_M), abs=1e-6)
        by_seed = [result.predictions[f"{name}_10_seed{seed}"].mean() for seed in (0, 1, 7)]
        assert result.metrics[f"{name}/10"].value == pytest.approx(np.mean(by_seed))
        assert result.metrics[f"{name}_sd/10"].value == pytest.approx(np.std(by_seed, ddof=1))
    assert 0 < result.metrics["iou"].value < 0.9
    assert result.metrics["iou"].low < result.metrics["iou"].value < result.metrics["iou"].high
    assert result.predictions["missed_pixels"].max() > 0


def test_a_probe_held_to_its_start_is_the_zero_shot_map(pixels):
    """But for its bias, which the penalty leaves free."""
    values = {"solver": {"inverse_penalty": 1e-12}, "scale": "affine"}
    settings = settings_of("segmentation", PROBE | values)
    encoder, pixels = PatchEncoder(FakeImage(1.0, True), torch.device("cpu")), PixelStore(pixels)
    train, _ = images_with_boxes(samples().query("split == 'train'"), pixels)
    sides = (settings.negative_prompts, settings.positive_prompts)
    classes = np.stack([class_embedding(FakeModel(), texts, "normalised") for texts in sides])
    held, _, _ = program.train_probes(encoder, pixels, train, classes, settings)
    for share, heads in held.items():
        differences = heads.weight_KFC[..., 1] - heads.weight_KFC[..., 0]
        wanted = torch.from_numpy(classes[1] - classes[0]).float().expand_as(differences)
        torch.testing.assert_close(differences, wanted, atol=1e-5, rtol=0)
        held[share] = heads._replace(bias_KC=torch.zeros_like(heads.bias_KC))
    maps = program.make_maps(encoder, pixels, train, held, FakeModel(), settings)
    least, most = expit([-2, 2])  # those of cosines, which the zero-shot map has at 0 and 1
    zero_shot = least + (most - least) * maps.pop(ZERO_SHOT)
    for probed in maps.values():
        np.testing.assert_allclose(probed, np.broadcast_to(zero_shot, probed.shape), atol=1e-5)


def test_training_turns_round_a_start_that_is_wrong(pixels):
    swapped = {
        "positive_prompts": ["No evidence of pneumonia"],
        "negative_prompts": ["Findings suggesting pneumonia"],
    }
    found = evaluate(pixels, **swapped)
    assert found.metrics["iou"].value == 0.0 and found.metrics["signed_cnr"].value < -3
    assert found.metrics["iou/100"].value == 1.0 and found.metrics["signed_cnr/100"].value > 3
    assert 0 < found.protocol["solution"]["100"]["gradient"] <= 1e-6


def test_a_model_without_text_has_probes_alone(pixels):
    result = evaluate(pixels, model=False, projects=False)
    assert {name.split("/")[-1] for name in result.metrics} == {"10", "100"}
    assert result.metrics["dice/100"].value == 1.0
    assert (result.protocol["features"], result.protocol["start"]) == ("trunk", "zeros")
    with pytest.raises(InputError, match="key 'start' is 'prompts', but the model has no text"):
        evaluate(pixels, model=False, start="prompts")


def test_the_unit_of_the_trunks_features_does_not_matter(pixels):
    """0.25 is exact in half precision, so that nothing but the unit differs."""
    values = {"model": False, "projects": False}
    one, other = (
        evaluate(pixels, shifted(samples()), **values, unit_of=unit).predictions
        for unit in (1.0, 0.25)
    )
    for name in (f"{metric}_100_seed7" for metric in METRICS):
        np.testing.assert_allclose(one[name], other[name], atol=1e-4, err_msg=name)


def test_each_box_can_be_a_sample(pixels):
    table = samples()
    box = boxes_of(5)[0]
    table["boxes"] = [[*boxes, [8, 72, 8, 8]] if boxes else [] for boxes in table["boxes"]]
    result = evaluate(pixels, table, unit="box")
    assert result.data["samples"] == 40 and result.data["images"] == 20
    rows = result.predictions.set_index("sample_id")
    # The bright square is found whole, the other box, which is dark, not at all.
    assert rows.loc["s5/0", "iou"] == 1.0 and rows.loc["s5/1", "iou"] == 0.0
    exploded = one_box_each(table[table["sample_id"] == "s5"])
    assert exploded["boxes"].tolist() == [[box], [[8, 72, 8, 8]]]
    assert result.metrics["iou"].value == pytest.approx(0.5)
    # Drawn by image, both boxes come together: every resample has the same mean.
    assert result.metrics["iou"].low == result.metrics["iou"].high == pytest.approx(0.5)


def test_the_target_of_a_cell_is_its_annotated_part():
    """Cells of 8 pixels on 16 x 16: one whole, one half, one a quarter; the fourth not at all."""
    boxes = [[[0, 0, 12, 8], [0, 8, 4, 4]]]
    table = pd.DataFrame({"image_width": [16], "image_height": [16], "boxes": boxes})
    geometry = Geometry.parse("square16")
    annotated, used = annotated_cells(table, geometry, (2, 2), "original")
    np.testing.assert_array_equal(annotated, [[1, 0.5, 0.25, 0]])
    assert used.all()
    narrow = table.assign(image_width=8, boxes=[[[0, 0, 8, 16]]])
    annotated, used = annotated_cells(narrow, Geometry.parse("longer16"), (2, 4), "original")
    np.testing.assert_array_equal(used, [[False, True, True, False] * 2])
    np.testing.assert_array_equal(annotated, used.astype(float))


def test_what_cannot_be_used_is_counted(pixels):
    table = samples()
    table.loc[1, "image_id"] = "elsewhere"
    table.loc[5, "image_width"] = 65
    table.at[7, "boxes"] = [[0, 0, 64, 10]]  # above the crop
    result = evaluate(pixels, table)
    assert [(one["reason"], one["examples"], one["part"]) for one in result.data["dropped"]] == [
        ("image is not in the pixel store", ["s1"], "test"),
        ("image is not the size that the boxes refer to", ["s5"], "test"),
    ]
    assert result.data["unscored"] == {"no box inside the crop": 1}
    assert result.metrics["iou"].n == 17 and result.metrics["cnr/10"].n == 17
    empty = table.assign(boxes=[[]] * COUNT)
    with pytest.raises(InputError, match="column 'boxes' is empty in all 30 rows of split train"):
        evaluate(pixels, empty)


@pytest.mark.parametrize(("dilate", "grid"), [([False] * 3, 2), ([False, False, True], 4)])
def test_the_program_writes_a_whole_result(pixels, tmp_path, dilate, grid):
    """With the files of a trunk that has been trained on images alone."""
    sizes = ResNetSettings(block="basic", layers=(1, 1, 1, 1), width=8, channels=1)
    torch.manual_seed(0)
    image = ImageEncoder(sizes)
    image.projector = None  # image pretraining keeps the trunk alone
    model = tmp_path / "simclr" / "seed3"
    save_image_encoder(image, model)
    write_json(model / "run.json", {"model": "simclr", "data": {"geometry": f"shorter{SIZE}"}})
    cohort = write_cohort(tmp_path / "cohort", "samples.parquet", samples())
    read = {"model": model, "cohort": cohort, "pixels": pixels}
    asked = {"settings": {**PROBE, "dilate": dilate}, "seed": 3}
    found = metrics_of(main, "segmentation", **read, **asked, output=tmp_path / "out")
    assert (found["benchmark"], found["model"], found["seed"]) == ("segmentation", "simclr", 3)
    assert found["protocol"]["grid"] == [grid, grid]
    assert found["protocol"]["features"] == "trunk"
    assert found["metrics"]["iou/100"]["n"] == 20
    assert len(pd.read_parquet(tmp_path / "out" / "predictions.parquet")) == 20


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"split": "train"}, "split: 'train' is also the train_split"),
        ({"size_limits": [0.2, 0.1]}, "want two shares between 0 and 1"),
        ({"fractions": [0.5, 0.5]}, "want different shares above 0"),
        ({"probe_seeds": [1, 1]}, "want different seeds"),
        ({"dilate": [True, False]}, "dilate"),
        ({"threshold": 1.0}, "threshold"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(values, message):
    with pytest.raises(ValidationError, match=message):
        SegmentationSettings.model_validate(values)
