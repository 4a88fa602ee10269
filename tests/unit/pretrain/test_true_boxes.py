"""True boxes of findings in place of regions: where they lie in stored images and their views."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_fakes import make_store
from small_cutmix import folder, term_of, variant
from small_cutmix import views_of as mixing_views
from small_text import write_text_model
from test_additional_supervision import ROWS, SAMPLES, program_of, views_of

from cxr_files.errors import InputError
from cxrflow.images.augment import Augmentation, StoredPixels
from cxrflow.images.settings import AugmentationSettings
from cxrflow.images.store import PixelStore
from cxrflow.images.true_boxes import COLUMNS, FILE, TrueBoxes
from cxrflow.pretrain.image_text_pairs import PairViews

__all__ = ["folder"]


def test_masks_are_the_boxes_in_stored_pixels(tmp_path: Path) -> None:
    store = PixelStore(make_store(tmp_path, 4))  # pictures of 64 x 96 pixels
    boxes = [("image2", "Edema", 10, 30, 20, 10), ("image2", "Edema", 40, 50, 8, 8),
             ("image1", "Edema", 0, 0, 64, 96), ("elsewhere", "Edema", 0, 0, 9, 9)]  # fmt: skip
    pd.DataFrame(boxes, columns=list(COLUMNS)).to_parquet(tmp_path / FILE)
    rows = store.rows(["image2", "image3", "image1"])
    true = TrueBoxes(tmp_path, store, rows)
    masks = true.masks(np.array([0, 1, 2, 0]), ["Edema", "Edema", "Edema", "Fracture"])
    expected = np.zeros((store.size, store.size), dtype=np.uint8)
    for x, y, w, h in store.placement(int(rows[0])).boxes([b[2:] for b in boxes[:2]]).round():
        expected[int(y) : int(y + h), int(x) : int(x + w)] = 255
    assert np.array_equal(masks[0], expected) and expected.any()
    assert not masks[1].any() and (masks[2] == 255).all() and not masks[3].any()
    for number in (float("nan"), float("inf"), "12O", None):
        wrong = [*boxes[1:], ("image2", "Edema", 10, 30, number, 10)]
        pd.DataFrame(wrong, columns=list(COLUMNS)).astype({"width": str}).to_parquet(
            tmp_path / FILE
        )
        with pytest.raises(InputError, match="a box holds what is no finite number"):
            TrueBoxes(tmp_path, store, rows)


def test_boxes_move_as_the_image_does() -> None:
    moving = {"size": 24, "angle": 20, "shear": 5, "translation": 0.1, "scaling": [0.8, 1.2]}
    pixels = torch.randint(256, (3, 32, 32), dtype=torch.uint8)
    stored = StoredPixels(pixels, torch.tensor([4, 9, 2]))
    plain = {"brightness": 0, "contrast": 0, **moving}
    augmentation = Augmentation(AugmentationSettings.model_validate(plain))
    assert torch.equal(augmentation.moved(stored, 1, 2), augmentation(stored, 1, 2))
    bright = Augmentation(AugmentationSettings.model_validate({**moving, "noise": 0.1}))
    assert torch.equal(bright.moved(stored, 1, 2), augmentation.moved(stored, 1, 2))


def test_regions_are_the_parts_of_cells_in_boxes(tmp_path: Path) -> None:
    plain = {"augmentation": {"angle": 0, "shear": 0, "brightness": 0, "contrast": 0}}
    program = program_of(write_text_model(tmp_path), **plain)
    views: Any = views_of(program)
    with pytest.raises(InputError, match="expected `truth: true` in the recipe"):
        views.true_regions([1], ["Edema"], (2, 2))
    asked: list[Any] = []

    def masks(samples: np.ndarray, names: list[str]) -> np.ndarray:
        asked.append((samples.tolist(), names))
        mask = np.zeros((len(samples), 64, 64), dtype=np.uint8)
        mask[0, :32, :16] = 255
        return mask

    program.true_boxes = SimpleNamespace(masks=masks)  # type: ignore[assignment]
    regions = views.true_regions([1, 3], ["Edema", "Fracture"], (2, 2))
    assert asked == [(ROWS[[1, 3]].tolist(), ["Edema", "Fracture"])]
    torch.testing.assert_close(regions[0], torch.tensor([[0.5, 0.0], [0.0, 0.0]]))
    assert not regions[1].any()


def test_boxes_are_of_the_image_that_stands_for_a_study(tmp_path: Path) -> None:
    """Where a sample is a study of several images, one is drawn; its number is not the study's."""
    program: Any = program_of(write_text_model(tmp_path))
    images, asked = program.images["train"], []
    take = images.take
    images.drawn = lambda rows, seed, epoch: (rows + seed + epoch) % SAMPLES
    images.take = lambda rows: asked.append(rows.tolist()) or take(rows)

    def masks(rows: np.ndarray, names: list[str]) -> np.ndarray:
        asked.append(rows.tolist())
        return np.zeros((len(rows), 64, 64), dtype=np.uint8)

    program.true_boxes = SimpleNamespace(masks=masks)
    views: Any = views_of(program)
    views.true_regions([1, 3], ["Edema", "Fracture"], (2, 2))
    drawn = (ROWS[[1, 3]] + views.batch.seed + views.batch.epoch) % SAMPLES
    assert asked == [drawn.tolist()] * 2 and drawn.tolist() != ROWS[[1, 3]].tolist()


def test_the_control_mixes_the_boxes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def regions(views: PairViews, places: Any, names: Any, grid: Any) -> torch.Tensor:
        given.append((list(places), list(names)))
        return torch.full((len(places), *grid), 0.25)

    monkeypatch.setattr(PairViews, "true_regions", regions)
    program = variant(folder, control="true_boxes")
    loss = term_of(program).loss(mixing_views(program))
    assert loss.isfinite() and loss > 0
    ((places, names),) = given
    logged = term_of(program).logged()
    assert logged["mixed"] == pytest.approx(0.25)
    assert sum(logged[f"pairs/{name}"] for name in set(names)) == len(places)
