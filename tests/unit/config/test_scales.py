"""Scales: a share of the labels is learnt from in as many updates as all of them."""

import numpy as np
import pytest
from pydantic import ValidationError

from cxrflow.benchmarks.heads.early_stopping import HeadRun, interval_batches, new_head
from cxrflow.papers.recipes import Recipe, Task

FEW = {"name": "few_shot", "seeds": [0]}
STEPS = {"epochs": None, "steps": 30}
LINEAR = {"benchmark": "linear_classification", "cohort": "convirt/rsna"}
TUNED = {"benchmark": "fine_tuned_classification", "cohort": "convirt/rsna"}
TEMPORAL = {
    "benchmark": "temporal_classification",
    "cohort": "biovil_t/progression",
    "settings": {"learning": {"name": "few_shot"}},
}


@pytest.mark.parametrize(
    ("task", "forgetful", "whole"),
    [
        (TEMPORAL, {"learning": FEW}, {"learning": FEW | {"training": STEPS}}),
        (LINEAR, {"learning_rate": 0.1}, {"validate_steps": 5}),
        (TUNED, {"warmup_steps": 1}, {"training": STEPS}),
    ],
)
def test_a_scale_says_how_many_updates_a_share_gets(task, forgetful, whole):
    with pytest.raises(ValidationError, match=r"scales.demo: it learns from a share.* epochs"):
        Task.model_validate({**task, "scales": {"demo": forgetful}})
    Task.model_validate({**task, "scales": {"demo": whole}})
    Task.model_validate(task)  # the paper's own size, whose epochs are the paper's
    if "learning_rate" in forgetful:  # all labels are no share
        Task.model_validate(
            {**task, "settings": {"fractions": [1.0]}, "scales": {"demo": forgetful}}
        )


def test_so_does_the_scale_of_a_model_with_a_training_share():
    recipe = {
        "program": "joint", "text": "p/text", "cohort": "p/pairs", "geometry": "shorter512",
        "settings": {"training_share": 0.01, "training": {"epochs": 50}},
    }  # fmt: skip
    Recipe.model_validate(recipe)
    with pytest.raises(ValidationError, match=r"scales.demo: it learns from a share"):
        Recipe.model_validate({**recipe, "scales": {"demo": {"settings": {"length": 48}}}})
    Recipe.model_validate({**recipe, "scales": {"demo": {"settings": {"training": STEPS}}}})


def test_an_interval_of_updates_goes_through_the_rows_as_often_as_it_takes():
    run = HeadRun(np.arange(10), 3, new_head(4, 1, 0))
    whole = [rows for epoch in range(4) for rows in interval_batches([run], 4, epoch, None)]
    assert [len(rows[0]) for rows in whole[:3]] == [4, 4, 2]
    parts = [rows for number in range(3) for rows in interval_batches([run], 4, number, 4)]
    assert len(parts) == len(whole) == 12
    for ours, theirs in zip(parts, whole, strict=True):
        assert ours.tolist() == theirs.tolist()
