"""Which of five sentences fits two images: scored by sets, as CheXTemporal's authors do."""

from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_fakes import result_of, settings_of, write_cohort
from test_benchmarks_temporal import options, samples_of, world

from cxr_files.errors import InputError
from cxrflow.benchmarks.registry import BENCHMARKS
from cxrflow.benchmarks.temporal.temporal_zero_shot import answer_sets, statistic
from cxrflow.data.cohorts.progression import FIVE_DIRECTIONS
from cxrflow.images.store import PixelStore
from cxrflow.similarity.similarity import EncodedImages, EncodedTexts

__all__ = ["world"]
SETTINGS = settings_of("temporal_zero_shot")


def set_match(scores: list[float], truth: set[str]) -> tuple[float, float]:
    """The authors' equation, of one finding: the set score, and the share of rows that are hit."""
    ranked = sorted(FIVE_DIRECTIONS, key=lambda name: -scores[FIVE_DIRECTIONS.index(name)])
    answer = {*ranked[: len(truth)]}
    return len(answer & truth) / len(answer | truth), (ranked[0] in truth) / len(truth)


def predictions(rows: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"finding": rng.choice(["Edema", "Pleural Other"], rows)})
    table["subject_id"] = [f"p{row // 2}" for row in range(rows)]
    sizes = rng.choice([1, 1, 1, 2, 3], rows)
    sets = [rng.choice(FIVE_DIRECTIONS, size, replace=False) for size in sizes]
    table["label"] = [";".join(name for name in FIVE_DIRECTIONS if name in one) for one in sets]
    for test in ("own_prior", "other_prior"):
        for name in FIVE_DIRECTIONS:
            table[f"{test}_{name}"] = rng.random(rows).round(1)  # with ties
    return table


def test_sets_are_scored_as_the_authors_score_them() -> None:
    table = predictions()
    measured = statistic(table, SETTINGS)
    values = {name: float(value[0]) for name, value in measured(np.ones((1, len(table)))).items()}
    own = table[[f"own_prior_{name}" for name in FIVE_DIRECTIONS]].to_numpy()
    sets = [{*label.split(";")} for label in table["label"]]
    scored = [set_match(list(row), true) for row, true in zip(own, sets, strict=True)]
    rows = sum(map(len, sets))
    assert values["set_score"] == pytest.approx(np.mean([score for score, _ in scored]))
    hits = sum(share * len(true) for (_, share), true in zip(scored, sets, strict=True))
    assert values["accuracy"] == pytest.approx(hits / rows)
    assert measured.size("accuracy") == rows > measured.size("set_score") == len(table)
    edema = table["finding"] == "Edema"
    assert values["set_score/edema"] == pytest.approx(
        np.mean([score for (score, _), one in zip(scored, edema, strict=True) if one])
    )
    has_new = [one for one, true in enumerate(sets) if "new" in true]
    said = answer_sets(own, np.array([len(true) for true in sets]))[:, 3]
    assert values["recall/new"] == pytest.approx(said[has_new].mean())
    assert measured.size("recall/new") == len(has_new)
    recalls = [values[f"recall/{name}"] for name in FIVE_DIRECTIONS]
    assert values["macro_recall"] == pytest.approx(np.mean(recalls))


def test_a_finding_without_a_direction_in_a_resample_counts_for_nothing() -> None:
    table = predictions(4).assign(label=["new", "stable", "stable", "stable"])
    counts = np.array([[0.0, 1, 1, 2]])
    values = statistic(table, SETTINGS)(counts)
    assert np.isnan(values["recall/new"][0])
    assert values["macro_recall"][0] == values["recall/stable"][0] == values["set_score"][0]


CHANGES = {"resolved": -0.09, "improving": -0.06, "stable": 0.0, "worsening": 0.06, "new": 0.09}


class Direction:
    """A model that reads the change of the grey in the middle, and five words."""

    takes_prior = True

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.similarity = SimpleNamespace(reads_patches=False, scores=self.compare)

    def encode_image(self, frames: Any) -> Any:
        change = frames.current.mean((1, 2, 3)) - frames.prior.mean((1, 2, 3))
        return SimpleNamespace(projected_global=change[:, None], unnormalised_patches=None)

    def encode_texts(self, texts: list[str]) -> EncodedTexts:
        self.prompts += texts
        return EncodedTexts(torch.tensor([[CHANGES[text.split()[-1]]] for text in texts]))

    def compare(self, images: EncodedImages, texts: EncodedTexts) -> torch.Tensor:
        return -(images.embedding - texts.projection.T).abs()


@pytest.fixture
def five(world: Path, tmp_path: Path) -> Namespace:
    """The world's pairs, of which those that get worse have new findings in a third."""
    _, table = samples_of(world)
    worse = np.flatnonzero(table["label"] == "worsening")
    table.loc[worse[::3], "label"] = "worsening;new"
    given = options(world, None, tmp_path)
    given.cohort = write_cohort(tmp_path / "five", "samples.parquet", table, FIVE_DIRECTIONS)
    return given


def test_a_model_is_asked_in_words_of_each_finding(five: Namespace) -> None:
    model = Direction()
    five.model = Path("model")
    contents = {"model": model, "pixels": PixelStore(five.pixels)}
    result = result_of("temporal_zero_shot", SETTINGS, five, **contents)
    assert "edema is improving" in model.prompts and "consolidation is resolved" in model.prompts
    assert result.metrics["set_score"].value == 1
    several = int((result.predictions["label"] == "worsening;new").sum())
    rows = len(result.predictions) + several
    assert several and result.metrics["accuracy"].value == pytest.approx(1 - several / rows)
    assert result.metrics["accuracy"].n == rows
    assert result.metrics["other_prior"].value < 0.7
    assert result.protocol["directions"] == list(FIVE_DIRECTIONS)


def test_rows_that_read_no_prompt(five: Namespace) -> None:
    rows = {
        name: result_of("temporal_zero_shot", SETTINGS, five, name).metrics
        for name in BENCHMARKS["temporal_zero_shot"].references
    }
    assert rows["oracle"]["set_score"].value == 1 == rows["oracle"]["macro_recall"].value
    assert rows["brightness"]["set_score"].value > 0.7 > rows["random"]["set_score"].value
    assert rows["nothing"]["recall/stable"].value == 1


def test_three_directions_are_asked_of_a_cohort_of_three(five: Namespace) -> None:
    probe = {"findings": ["Edema"], "learning": {"name": "probe"}}
    with pytest.raises(InputError, match="new, resolved; expected a cohort of `directions: three`"):
        result_of("temporal_classification", probe, five, "nothing")
