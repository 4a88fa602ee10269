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
from cxr_hospital.truth import TABLES
from cxrflow.data.true_boxes import BOX_COLUMNS, TrueBoxMasks
from cxrflow.images.augment import Augmentation, StoredPixels
from cxrflow.images.settings import AugmentationSettings
from cxrflow.images.store import PixelStore

__all__ = ["folder"]


def test_masks_are_the_boxes_in_stored_pixels(tmp_path: Path) -> None:
    store = PixelStore(make_store(tmp_path, 4))  # pictures of 64 x 96 pixels
    boxes = [("image2", "Edema", 10, 30, 20, 10), ("image2", "Edema", 40, 50, 8, 8),
             ("image1", "Edema", 0, 0, 64, 96), ("elsewhere", "Edema", 0, 0, 9, 9)]  # fmt: skip
    pd.DataFrame(boxes, columns=list(BOX_COLUMNS)).to_parquet(tmp_path / TABLES["boxes"].file)
    rows = store.rows(["image2", "image3", "image1"])
    true = TrueBoxMasks(tmp_path, store, rows)
    masks = true.masks(np.array([0, 1, 2, 0]), ["Edema", "Edema", "Edema", "Fracture"])
    expected = np.zeros((store.size, store.size), dtype=np.uint8)
    for x, y, w, h in store.placement(int(rows[0])).boxes([b[2:] for b in boxes[:2]]).round():
        expected[int(y) : int(y + h), int(x) : int(x + w)] = 255
    assert np.array_equal(masks[0], expected) and expected.any()
    assert not masks[1].any() and (masks[2] == 255).all() and not masks[3].any()
    for number in (float("nan"), float("inf"), "12O", None):
        wrong = [*boxes[1:], ("image2", "Edema", 10, 30, number, 10)]
        pd.DataFrame(wrong, columns=list(BOX_COLUMNS)).astype({"width": str}).to_parquet(
            tmp_path / TABLES["boxes"].file
        )
        with pytest.raises(InputError, match="a box holds what is no finite number"):
            TrueBoxMasks(tmp_path, store, rows)


def test_boxes_move_as_the_image_does() -> None:
    moving = {"size": 24, "angle": 20, "shear": 5, "translation": 0.1, "scaling": [0.8, 1.2]}
    pixels = torch.randint(256, (3, 32, 32), dtype=torch.uint8)
    stored = StoredPixels(pixels, torch.tensor([4, 9, 2]))
    plain = {"brightness": 0, "contrast": 0, **moving}
    augmentation = Augmentation(AugmentationSettings.model_validate(plain))
    assert torch.equal(augmentation.moved(stored, 1, 2), augmentation(stored, 1, 2))
    bright = Augmentation(AugmentationSettings.model_validate({**moving, "noise": 0.1}))
    assert torch.equal(bright.moved(stored, 1, 2), augmentation.moved(stored, 1, 2))


def test_masks_are_shown_as_the_first_view(tmp_path: Path) -> None:
    plain = {"augmentation": {"angle": 0, "shear": 0, "brightness": 0, "contrast": 0}}
    program = program_of(write_text_model(tmp_path), **plain)
    views: Any = views_of(program)
    asked: list[Any] = []

    def masks(samples: np.ndarray) -> np.ndarray:
        asked.append(samples.tolist())
        mask = np.zeros((len(samples), 64, 64), dtype=np.uint8)
        mask[0, :32, :16] = 255
        return mask

    shown = views.shown_masks([1, 3], masks)
    assert asked == [ROWS[[1, 3]].tolist()]
    cells = torch.nn.functional.adaptive_avg_pool2d(shown, 2)[:, 0]
    torch.testing.assert_close(cells[0], torch.tensor([[0.5, 0.0], [0.0, 0.0]]))
    assert not cells[1].any()


def test_boxes_are_of_the_image_that_stands_for_a_study(tmp_path: Path) -> None:
    """Where a sample is a study of several images, one is drawn; its number is not the study's."""
    program: Any = program_of(write_text_model(tmp_path))
    images, asked = program.images["train"], []
    take = images.take
    images.drawn = lambda rows, seed, epoch: (rows + seed + epoch) % SAMPLES
    images.take = lambda rows: asked.append(rows.tolist()) or take(rows)

    def masks(rows: np.ndarray) -> np.ndarray:
        asked.append(rows.tolist())
        return np.zeros((len(rows), 64, 64), dtype=np.uint8)

    views: Any = views_of(program)
    views.shown_masks([1, 3], masks)
    drawn = (ROWS[[1, 3]] + views.batch.seed + views.batch.epoch) % SAMPLES
    assert asked == [drawn.tolist()] * 2 and drawn.tolist() != ROWS[[1, 3]].tolist()


def test_the_control_mixes_the_boxes(folder: Path) -> None:
    """The part of each cell that lies in the boxes: here a quarter of the first two columns."""
    program, asked = variant(folder, control="true_boxes"), []
    term, views = term_of(program), mixing_views(program)

    def masks(rows: np.ndarray, names: list[str]) -> np.ndarray:
        asked.append(list(zip(rows.tolist(), names, strict=True)))
        mask = np.zeros((len(rows), 64, 64), dtype=np.uint8)
        mask[:, ::2, :32:2] = 255
        return mask

    def shown(places: list[int], masks_of: Any) -> torch.Tensor:
        return torch.from_numpy(masks_of(np.array(places)))[:, None] / 255

    views.shown_masks = shown  # type: ignore[method-assign]
    term.true_boxes = SimpleNamespace(masks=masks)
    loss = term.loss(views)
    assert loss.isfinite() and loss > 0
    ((*sources,),) = asked
    logged = term.logged()
    assert logged["mixed"] == pytest.approx(0.125)
    for name in {name for _, name in sources}:
        assert logged[f"pairs/{name}"] == sum(of == name for _, of in sources)
