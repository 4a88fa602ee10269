"""Attention rollout: against its equations, the true pose, and attention that is known."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_fakes import TWO_IMAGES, metrics_of, store_of, write_cohort
from PIL import Image
from speed.registration_recipe import true_alignment

from cxr_files.atomic import write_json
from cxr_hospital.acquisition import sample_acquisition
from cxr_hospital.settings import HospitalSettings
from cxrflow.benchmarks.evaluate import main
from cxrflow.benchmarks.temporal import attention_rollout as program
from cxrflow.benchmarks.temporal.rollout_places import PriorTransforms, Rollouts
from cxrflow.benchmarks.temporal.settings import AttentionRolloutSettings
from cxrflow.encoders.attention_rollout import attention_weights, block_attention, rollout
from cxrflow.encoders.image_encoder import Frames, ImageEncoder, save_image_encoder
from cxrflow.encoders.settings import MultiImageSettings
from cxrflow.images.geometry import Geometry

SIZE = 128


def encoder() -> ImageEncoder:
    """With weights of a size that attention is not even."""
    torch.manual_seed(0)
    image = ImageEncoder(MultiImageSettings.model_validate(TWO_IMAGES))
    for name, parameter in image.named_parameters():
        if "vit_pooler" in name:
            torch.nn.init.normal_(parameter, mean=float("norm" in name), std=0.5)
    return image.double().eval()


# --- the weights, and their product -------------------------------------------------------------


def test_the_weights_give_what_fused_attention_gives() -> None:
    attention = encoder().encoder.vit_pooler.blocks[0].attn
    tokens = torch.randn(3, 10, 16, dtype=torch.float64)
    weights = attention_weights(attention, tokens)
    assert weights.shape == (3, 4, 10, 10)
    values = attention.proj_v(tokens).unflatten(2, (4, 4))
    context = torch.einsum("bhij,bjhd->bihd", weights, values).flatten(2)
    torch.testing.assert_close(attention.proj(context), attention(tokens))


def test_blocks_are_watched_and_left_as_they_are() -> None:
    trunk = encoder().encoder
    current, prior = torch.rand(2, 3, 1, 64, 96, dtype=torch.float64)
    frames = Frames(current, prior)
    plain = trunk(frames).grid
    found = block_attention(trunk, frames)
    patches = plain.shape[2] * plain.shape[3]
    assert [one.shape for one in found] == [(3, 2 * patches, 2 * patches)] * 2
    assert not any(block.attn._forward_pre_hooks for block in trunk.vit_pooler.blocks)
    assert torch.equal(trunk(frames).grid, plain)
    # What the second block is given follows from the first, whose input is the patches.
    given: list[torch.Tensor] = []
    hook = trunk.vit_pooler.blocks[1].attn.register_forward_pre_hook(
        lambda _, i: given.append(i[0])
    )
    trunk(frames)
    hook.remove()
    wanted = attention_weights(trunk.vit_pooler.blocks[1].attn, given[0]).mean(1)
    torch.testing.assert_close(found[1], wanted)


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_rollout_is_the_product_written_out(share: float) -> None:
    rng = np.random.default_rng(0)
    blocks = [rng.dirichlet(np.ones(8), size=(2, 8)) for _ in range(3)]
    found = rollout([torch.from_numpy(one) for one in blocks], share).numpy()
    for study in range(2):
        total = np.eye(8)
        for block in blocks:
            weights = block[study].copy()
            count = round(share * weights.size)
            least = np.sort(weights.ravel())[::-1][count - 1]
            weights[weights < least] = 0
            flow = weights + np.eye(8)
            total = (flow / flow.sum(axis=1, keepdims=True)) @ total
        np.testing.assert_allclose(found[study], total[:4], atol=1e-12)
    np.testing.assert_allclose(found.sum(-1), 1)


# --- places -------------------------------------------------------------------------------------


@pytest.mark.parametrize("geometry", ["shorter128crop112", "shorter128", "longer96"])
def test_places_of_the_prior_are_the_hospitals(geometry: str) -> None:
    settings = HospitalSettings(spoilt_share=0.0)
    prior, current = (
        sample_acquisition(np.random.default_rng(seed), settings, name, "AP")
        for seed, name in ((1, "prior"), (2, "current"))
    )
    shapes = {"prior": (300, 256), "current": (256, 320)}
    truth = pd.DataFrame(
        [
            {"image_id": one.image_id, "shift_x": one.shift_x, "shift_y": one.shift_y,
             "scale": one.scale, "rotation": one.rotation}
            for one in (prior, current)
        ]
    ).set_index("image_id")  # fmt: skip
    placed = {name: Geometry.parse(geometry).place(*shape) for name, shape in shapes.items()}
    both = list(placed)
    store = SimpleNamespace(
        rows=lambda names: [both.index(name) for name in names],
        placement=lambda row: placed[both[row]],
    )
    pair = pd.DataFrame({"image_id": ["current"], "prior_image_id": ["prior"]})
    ways = program.true_transforms(pair, truth, store)
    points = np.random.default_rng(0).uniform(50, 200, (20, 2))  # of the current image, in pixels
    back = true_alignment(prior, current, 128)
    middle = {name: np.array(shape[::-1]) / 2 for name, shape in shapes.items()}
    wanted = back.apply(points - middle["current"]) + middle["prior"]

    def stored(name: str, xy: np.ndarray) -> np.ndarray:
        at = placed[name].boxes(np.hstack([xy, np.ones_like(xy)]))[:, :2] - placed[name].size / 2
        return at[:, 0] + 1j * at[:, 1]

    here, there = stored("current", points), stored("prior", wanted)
    np.testing.assert_allclose(ways(here[None])[0], there, atol=0.6)  # sizes are whole pixels
    np.testing.assert_allclose(ways.back(ways(here[None]))[0], here, atol=1e-9)


def test_rotation_moves_places_as_it_moves_pixels() -> None:
    image = torch.zeros(1, 1, 65, 65)
    image[0, 0, 20, 50] = 1  # 18 to the right of the middle, 12 above it
    for angle in (-30.0, 30.0, 90.0):
        turned = program.rotated(image, angle)[0, 0].numpy()
        rows, columns = np.indices(turned.shape)
        found = ((columns + 1j * rows) * turned).sum() / turned.sum() - (32 + 32j)
        assert found == pytest.approx((18 - 12j) * np.exp(1j * np.deg2rad(angle)), abs=0.1)


def test_cells_and_their_points() -> None:
    assert program.cell_places(64, (2, 4)).tolist() == [
        x + 1j * y for y in (-16, 16) for x in (-24, -8, 8, 24)
    ]
    points = program.cell_places(64, (2, 4), 8)
    np.testing.assert_allclose(points.mean(1), program.cell_places(64, (2, 4)))
    box = np.array([[0.0, 0.0, 24.0, 32.0]])  # the first cell and half of the second
    covered = program.inside(points.reshape(1, -1), box, 64).reshape(8, -1).mean(1)
    assert covered.tolist() == [1, 0.5, 0, 0, 0, 0, 0, 0]


# --- what is counted ----------------------------------------------------------------------------


def known_maps(
    follows: bool, grid: tuple[int, int], start: int
) -> tuple[dict[float, Rollouts], PriorTransforms]:
    """Attention on one cell of the prior, the start's place; it turns with the prior, or stays."""
    patches = grid[0] * grid[1]
    centres = program.cell_places(SIZE, grid)
    maps = {}
    for angle in (0.0, -90.0, 90.0):
        place = centres[start] * np.exp(1j * np.deg2rad(angle if follows else 0))
        own = np.zeros((1, 2 * patches))
        own[0, start] = 0.6
        own[0, patches + int(np.abs(centres - place).argmin())] = 0.4
        maps[angle] = Rollouts(own, np.full((1, patches), 1 / patches))
    return maps, PriorTransforms.identity(1)


@pytest.mark.parametrize("follows", [True, False])
def test_numbers_of_attention_that_is_known(follows: bool) -> None:
    grid, start = (8, 8), 10
    maps, ways = known_maps(follows, grid, start)
    boxes = np.array([[16.0, 0.0, 32.0, 32.0]])  # 2 x 2 cells, the start in them
    settings = AttentionRolloutSettings(angles=[-90, 90])
    rows = program.measure(maps, ways, boxes, np.array([start]), grid, SIZE)
    found = {n: v.item() for n, v in program.statistic(rows, settings)(np.ones((1, 1))).items()}
    assert found["in_box"] == found["same_place"] == found["current_in_box"] == 1
    assert found["uniform"] == found["other_patch"] == pytest.approx(4 / 64)
    assert found["prior_share"] == pytest.approx(0.4)
    assert found["followed"] == pytest.approx(float(follows), abs=1e-9)
    assert found["followed/other_patch"] == pytest.approx(0, abs=1e-9)
    # With the prior shown 40 pixels further right the box is another place of it.
    moved = program.measure(
        maps, PriorTransforms(ways.turn, ways.shift + 40), boxes, np.array([start]), grid, SIZE
    )
    assert moved["in_box"].item() == 0 and moved["same_place"].item() == 1


@pytest.mark.parametrize("angles", [[0.0, 30.0], [30.0, 30.0]])
def test_angles_turn_and_stand_once(angles: list[float]) -> None:
    with pytest.raises(ValueError, match="expected each once, and not 0"):
        AttentionRolloutSettings(angles=angles)


def test_samples_without_a_value_are_no_part_of_the_number_behind_it() -> None:
    grid, starts = (8, 8), np.array([10, 10, 10])
    maps, ways = known_maps(True, grid, 10)
    boxes = np.array([[16.0, 0.0, 32.0, 32.0]] * 3)
    three = {
        angle: Rollouts(np.repeat(one.from_start, 3, 0), np.repeat(one.from_outside, 3, 0))
        for angle, one in maps.items()
    }
    for angle, one in three.items():
        one.from_start[1, 64:] = 0  # the second never looks at the prior,
        if angle:
            one.from_start[2, 64:] = 0  # the third not at a rotated one
    ways = PriorTransforms(np.repeat(ways.turn, 3), np.repeat(ways.shift, 3))
    rows = program.measure(three, ways, boxes, starts, grid, SIZE)
    settings = AttentionRolloutSettings(angles=[-90, 90])
    measured = program.statistic(rows, settings)
    found = {name: measured.size(name) for name in measured(np.ones((1, 3)))}
    with_all = ("uniform", "other_patch", "current_in_box", "prior_share", "followed/other_patch")
    assert found == {
        **dict.fromkeys(with_all, 3),
        **dict.fromkeys(("in_box", "same_place", "above_other_patch"), 2),
        "followed": 1,
    }
    assert program.unscored(rows) == {"no attention on the prior": 1}


# --- the program --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rollout")
    (folder / "root").mkdir()
    rng = np.random.default_rng(0)
    rows, truth = [], []
    for patient in range(6):
        for name in ("prior", "current"):
            image = f"{name}{patient}"
            pixels = rng.integers(0, 256, (160, 140)).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"root/{image}.png")
            pose = {"shift_x": 0.05 * patient, "shift_y": 0.0, "scale": 1.0, "rotation": 0.0}
            truth.append({"image_id": image, "usable": image != "prior5", **pose})
        boxes = [[20, 40, 10, 10], [60, 60, 40, 30]]
        rows.append(
            {"sample_id": f"s{patient}", "subject_id": f"p{patient}",
             "image_id": f"current{patient}",
             "prior_image_id": f"prior{patient}" if patient else None, "category": "Edema",
             "boxes": boxes, "split": "test"}
        )  # fmt: skip
    store_of(folder, (image["image_id"] for image in truth))
    write_cohort(folder / "cohort", "samples.parquet", pd.DataFrame(rows))
    (folder / "truth").mkdir()
    pd.DataFrame(truth).to_parquet(folder / "truth/TRUTH.parquet")
    save_image_encoder(encoder().float(), folder / "model")
    record = {"model": "tiny/model", "settings": {}, "data": {"geometry": "shorter64"}}
    write_json(folder / "model/run.json", record)
    return folder


@pytest.mark.parametrize("truth", [True, False])
def test_the_program_counts_and_draws(world: Path, tmp_path: Path, truth: bool) -> None:
    found = metrics_of(
        main,
        "attention_rollout",
        **{name: world / name for name in ("model", "cohort", "pixels")},
        truth=world / "truth" if truth else None,
        settings={"figures": 3, "intervals": {"replicates": 100}},
        output=tmp_path / "out",
    )
    reasons = {one["reason"]: one["count"] for one in found["data"]["dropped"]}
    spoilt = "an image is spoilt: the chest's place in it is not known"
    assert reasons == {"no prior": 1, **({spoilt: 1} if truth else {})}
    rows = pd.read_parquet(tmp_path / "out/predictions.parquet")
    assert len(rows) == found["data"]["samples"] == (4 if truth else 5)
    assert found["metrics"]["in_box"]["n"] == len(rows) and found["data"]["unscored"] == {}
    value = found["metrics"]["in_box"]["value"]
    assert value == pytest.approx(rows["in_box"].mean()) and 0 <= value <= 1
    # Both images of a patient have one pose, so that the true place is the same place.
    np.testing.assert_allclose(rows["in_box"], rows["same_place"])
    [figure] = json.loads((tmp_path / "out/figures/examples.json").read_text())
    assert Image.open(tmp_path / "out/figures" / figure["file"]).size[0] > 4 * 160
