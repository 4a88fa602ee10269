"""Captioned pictures: a caption says what its picture shows, and the folder is a hospital's."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from phantom_fixtures import SETTINGS
from scipy.ndimage import center_of_mass, label

from cxr_hospital.writers.captioned_pictures import (
    COLOURS,
    PAIRS,
    caption,
    picture,
    sample_scene,
)
from cxrflow.data.layouts import layout
from cxrflow.data.readers.common_tables import Request
from cxrflow.reports.texts import read_texts

SIDES = {-0.45: "left", 0.45: "right"}
HEIGHTS = {-0.45: {"upper", "top"}, 0.45: {"lower", "bottom"}}
NUMBERS = {1: {"a", "an", "one"}, 2: {"two", "pair"}, 3: {"three"}}
SCENES = [sample_scene(np.random.default_rng([7, number])) for number in range(300)]


@pytest.mark.parametrize("number", range(60))
def test_a_caption_says_all_of_its_scene(number: int) -> None:
    scene = SCENES[number]
    text = caption(scene, np.random.default_rng(number))
    words = set(text.lower().rstrip(".").replace(",", "").split())
    assert text[0].isupper() and text.endswith(".") and "$" not in text and "  " not in text
    assert {scene.colour, scene.surface_colour, scene.surface} <= words
    thing = scene.thing if scene.number == 1 else scene.thing + "es" * (scene.thing == "cross")
    assert any(word.startswith(thing) for word in words)
    assert NUMBERS[scene.number] & words
    across, down = scene.place
    assert {"left", "right"} & words == ({SIDES[across]} if across else set())
    said = {"upper", "top", "lower", "bottom"} & words
    assert said <= HEIGHTS[down] and said if down else not said


@pytest.mark.parametrize("number", range(60))
def test_a_picture_shows_its_scene(number: int) -> None:
    """Pixels of the things' colour are where the caption says, in as many pieces."""
    scene = SCENES[number]._replace(thing="disc", colour="white", surface_colour="blue")
    pixels = picture(scene, np.random.default_rng(number)).astype(float) / 255
    mask = pixels.min(axis=2) > 0.55
    pieces, count = label(mask)
    sizes = np.bincount(pieces.ravel())[1:]
    assert (sizes > 0.3 * sizes.max()).sum() == scene.number
    half = min(mask.shape) / 2
    middle = (np.array(center_of_mass(mask)) - np.array(mask.shape) / 2) / half
    np.testing.assert_allclose(middle[::-1], scene.place, atol=0.12)


def test_colours_of_a_pair_differ_in_grey() -> None:
    """A trunk that reads grey pictures can see the things, on a surface's light and dark parts."""
    grey = {name: np.dot(rgb, (0.299, 0.587, 0.114)) for name, rgb in COLOURS.items()}
    assert len(PAIRS) > 20
    assert all(abs(grey[front] - grey[back]) > 0.15 for front, back in PAIRS)


def test_nothing_of_a_scene_predicts_anything_else() -> None:
    scenes = pd.DataFrame([sample_scene(np.random.default_rng([8, n])) for n in range(3000)])
    for column in ("thing", "number", "surface", "place"):
        counts = pd.crosstab(scenes[column].astype(str), scenes["colour"])
        expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / len(scenes)
        freedom = (counts.shape[0] - 1) * (counts.shape[1] - 1)
        excess = ((counts - expected) ** 2 / expected).to_numpy().sum() - freedom
        assert excess < 4 * np.sqrt(2 * freedom)


def test_the_folder_is_one_that_a_hospital_fills(written: Path) -> None:
    root = written / "captioned_pictures"
    tables = layout("hospital").read(root, Request())
    assert len(tables.images) == SETTINGS.captioned_pictures
    assert tables.images["failure"].isna().all() and not any(tables.dropped["studies"])
    texts = [report.text for report in read_texts("captioned_pictures", root)]
    assert all(text is not None and text.startswith("IMPRESSION: ") for text in texts)
