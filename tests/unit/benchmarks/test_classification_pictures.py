"""Pictures of how well images are classified, of few classes and of many."""

import io
import warnings

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from cxrflow.benchmarks.classification.labelled_images import with_columns
from cxrflow.benchmarks.classification.pictures import ROWS, draw_classes
from cxrflow.benchmarks.classification.settings import ZeroShotClassificationSettings
from cxrflow.metrics.intervals import Estimate

PLAIN = ZeroShotClassificationSettings()


def scored(count: int) -> tuple[pd.DataFrame, dict[str, Estimate]]:
    """Classes c0, c1, …, of which c0 has no positive image, and so no area."""
    names = [f"c{number}" for number in range(count)]
    label_N = np.tile([0.0, 1.0], 6)
    columns = {f"label/{name}": label_N for name in names}
    columns |= {f"score/{name}": np.linspace(0, 1, 12) for name in names}
    columns["label/c0"] = np.zeros(12)
    areas = {f"auroc/{n}": Estimate(0.3 + k / 500, 0.2, 0.9, 12) for k, n in enumerate(names)}
    areas["auroc/c0"] = Estimate(np.nan, np.nan, np.nan, 12)
    table = pd.DataFrame({"sample_id": np.arange(12)})
    return with_columns(table, columns), {"auroc": Estimate(0.6, 0.5, 0.7, 12), **areas}


def test_hundreds_of_columns_are_put_on_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table, _ = scored(193)
    assert list(table)[:3] == ["sample_id", "label/c0", "label/c1"] and table.shape == (12, 387)


@pytest.mark.parametrize("count", [3, 5])
def test_few_classes_have_their_curves(count):
    table, areas = scored(count)
    assert draw_classes(table, {**areas, "auroc/c0": areas["auroc/c1"]}, PLAIN).name == "roc.png"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "best F1 on the evaluated images"),
        ({"threshold": 0.5}, "a score of 0.5"),
        ({"threshold": "best_mcc", "threshold_part": "validate"},
         "best correlation (Matthews) on the images of the part validate"),
    ],
)  # fmt: skip
def test_the_dot_is_the_threshold_of_the_task(values, said):
    settings = ZeroShotClassificationSettings.model_validate(values)
    table = pd.DataFrame({"label": np.tile([0.0, 1.0], 6), "score": np.linspace(0, 1, 12)})
    names = ("auroc", "specificity", "sensitivity", "f1")
    figure = draw_classes(table, dict.fromkeys(names, Estimate(0.6, 0.5, 0.7, 12)), settings)
    assert figure.caption.endswith(f"The dot is the threshold: {said}.")


@pytest.mark.parametrize(
    ("count", "shown", "said"),
    [(14, 13, "is chance."), (193, 2 * ROWS, "The 20 highest and the 20 lowest of 192 classes.")],
)
def test_many_classes_have_their_areas(count, shown, said, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        "matplotlib.axes.Axes.set_yticks", lambda self, places, names, **_: drawn.extend(names)
    )
    figure = draw_classes(*scored(count), PLAIN)
    assert figure.name == "classes.png" and figure.caption.endswith(said)
    assert len(drawn) == shown and "c0" not in drawn  # it has no area
    assert drawn[0] == "c1" and drawn[-1] == f"c{count - 1}"  # the highest on top
    height = Image.open(io.BytesIO(figure.png)).height
    assert height >= 19 * shown  # pixels of a row, enough for its name


def test_without_any_area_the_picture_is_empty():
    table, areas = scored(6)
    nothing = {name: Estimate(np.nan, np.nan, np.nan, 12) for name in areas}
    assert draw_classes(table, nothing, PLAIN).name == "classes.png"
