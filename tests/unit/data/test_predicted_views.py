"""Views that no list says: predicted from the picture, with errors that are stated and measured."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cohort_fixtures import make, step
from data_fixtures import corpus
from PIL import Image
from test_data_rexgradient import entry, written

from cxr_files.errors import InputError
from cxrflow.data.cohorts.predicted_views import PREDICTED_LATERAL
from cxrflow.data.cohorts.settings import CohortSettings

PATIENTS = 120
UNSAID = 20  # the first patients, whose lists say no view


def picture(is_frontal: bool, rng: np.random.Generator) -> np.ndarray:
    """Two dark halves beside a bright middle, or one dark field before a bright back; noise."""
    values = rng.normal(3000, 400, (48, 48))
    middle, back = slice(18, 30), slice(36, 48)
    values[:, middle if is_frontal else back] += 6000
    return np.clip(values, 0, 2**16 - 1).astype(np.uint16)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A frontal and a lateral image of each patient; of the first the lists say no view.

    Of the patients after them ten have their views exchanged, so that the classifier errs. Of the
    last ones a third image, which is frontal, is said to be SUPINE.
    """
    rng = np.random.default_rng(0)
    entries = []
    for number in range(PATIENTS):
        views = ["PA", "LATERAL"] if number >= UNSAID else ["UNKNOWN", ""]
        entries.append(entry(number, 1, [*views, "SUPINE"] if number >= 70 else views))
    written(tmp_path / "rex", "train", *entries)
    for number, one in enumerate(entries):
        for place, is_frontal in zip(one["ImagePath"], (True, False, True), strict=False):
            shown = is_frontal != (UNSAID <= number < UNSAID + 10)
            file = tmp_path / "rex/metadata" / place
            Image.fromarray(picture(shown, rng)).save(file)
    corpus(tmp_path / "corpus", [one["StudyInstanceUid"] for one in entries])
    return tmp_path


def build(root: Path, **settings: Any) -> tuple[dict[str, Any], pd.DataFrame]:
    options = ["--layout", "rexgradient", "--root", root / "rex", "--corpus", root / "corpus"]
    flow = make(root / "out", *options, **settings)
    return flow, pd.read_parquet(root / "out/pairs.parquet")


def test_images_without_a_view_are_left_out_unless_it_is_predicted(root: Path) -> None:
    flow, rows = build(root)
    assert len(rows) == PATIENTS - UNSAID and "predicted_views" not in flow
    assert step(flow, "frontal view", "images")[1]["view not known"] == 2 * UNSAID


def test_views_are_predicted_and_the_error_is_that_of_other_patients(root: Path) -> None:
    """Exchanged views are errors, of about a tenth of the patients that are tested on."""
    flow, rows = build(root, unsaid_views="predicted")
    new = rows[rows["view"] == "FRONTAL"]
    assert {*new["subject_id"]} == {f"P{number}" for number in range(UNSAID)}
    assert new["image_id"].str.endswith(".0").all()  # the first image of each study is frontal
    account = flow["predicted_views"]
    counts = {name: account[name] for name in ("images", "frontal", "lateral", "unreadable")}
    assert counts == {"images": 2 * UNSAID, "frontal": UNSAID, "lateral": UNSAID, "unreadable": 0}
    sizes = {name: account[name]["frontal"] for name in ("learnt", "tested")}
    assert sum(sizes.values()) == PATIENTS - UNSAID and sizes["tested"] >= 10
    errors = [account["frontal_called_lateral"], account["lateral_called_frontal"]]
    exchanged = errors[0] * account["tested"]["frontal"]
    assert exchanged == pytest.approx(round(exchanged)) and 0 < exchanged <= 10
    assert errors[0] == errors[1]  # each exchanged patient has one of either
    assert step(flow, "frontal view", "images")[1][f"view {PREDICTED_LATERAL}"] == UNSAID
    (note,) = [note for note in flow["notes"] if "have no view: " in note]
    assert f"{UNSAID} are predicted to be frontal" in note and f"{errors[0]:.1%} of" in note


def test_an_image_that_cannot_be_read_keeps_no_view(root: Path) -> None:
    place = entry(0, 1, [""])["ImagePath"][0]
    (root / "rex/metadata" / place).write_bytes(b"no picture")
    flow, rows = build(root, unsaid_views="predicted")
    assert flow["predicted_views"]["unreadable"] == 1
    assert step(flow, "frontal view", "images")[1]["view not known"] == 1
    assert "P0" not in {*rows["subject_id"]}


def test_too_few_images_of_a_class_are_one_clear_error(root: Path) -> None:
    entries = [entry(number, 1, ["PA"] if number else [""]) for number in range(PATIENTS)]
    written(root / "rex", "train", *entries)
    said = "view is said 0 are lateral to be learnt; expected at least 50, or 'left_out'"
    with pytest.raises(InputError, match=f"'predicted', but of the images whose {said}"):
        build(root, unsaid_views="predicted")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"views": ["AP"]}, "unsaid_views: predicted needs FRONTAL in views"),
        ({"kind": "grounding"}, "unsaid_views of a cohort of kind grounding: expected left_out"),
    ],
)
def test_settings_that_do_not_fit_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CohortSettings.model_validate({"unsaid_views": "predicted", **values})
