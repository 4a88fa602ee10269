"""Inputs that the report page refuses: damaged ones, and products of other settings."""

from pathlib import Path

import pandas as pd
import pytest
from page_fixtures import build, edit

from cxrflow.errors import InputError
from cxrflow.files.atomic import read_json, write_json

RUN = "models/biovil/biovil/seed0/run.json"


LABELS = "benchmarks/label_agreement/mimic_cxr/chexpert"


DAMAGE = {
    "half a file": (RUN, lambda path: path.write_text('{"model": "bio'), "not valid JSON"),
    "a list": (RUN, lambda path: path.write_text("[]"), "expected a JSON object, found a list"),
    "wrong encoding": (RUN, lambda path: path.write_bytes(b'{"a": "\xff"}'), "not valid JSON"),
    "another model": (RUN, lambda path: edit(path, model="other"), "'model' is 'other'"),
    "another seed": (RUN, lambda path: edit(path, seed=3), "'seed' is 3, expected 0"),
    "a log cut off": (
        "models/biovil/biovil/seed0/metrics.jsonl",
        lambda path: path.write_text('{"step": 1, "split": "train"}\n{"step": 2'),
        "line 2 is not a JSON object",
    ),
    "no log": ("models/biovil/biovil/seed0/metrics.jsonl", Path.unlink, "file not found"),
    "no field": (
        "benchmarks/biovil/phrase_grounding/biovil/biovil/seed0/metrics.json",
        lambda path: path.write_text("{}"),
        "field 'task' is missing",
    ),
    "another task": (
        "benchmarks/biovil/phrase_grounding/biovil/biovil/seed0/metrics.json",
        lambda path: edit(path, task="else"),
        "'task' is 'else'",
    ),
    "half a picture": (
        "benchmarks/biovil/phrase_grounding/biovil/biovil/seed0/figures/08_consolidation_worst.png",
        lambda path: path.write_bytes(path.read_bytes()[:500]),
        "not a whole PNG",
    ),
    "half a table": (
        "tables/biovil/table5.html",
        lambda path: path.write_text(path.read_text()[:900]),
        "not a whole table",
    ),
    "a table that loads": (
        "tables/biovil/table5.html",
        lambda path: path.write_text('<section><img src="x.png"></section>'),
        "expected a self-contained table",
    ),
    "a cohort of another data set": (
        "cohorts/biovil/rsna/flow.json",
        lambda path: edit(path, dataset="nih"),
        "'dataset' is 'nih'",
    ),
    "half a prediction file": (
        "benchmarks/biovil/zero_shot_classification/biovil/biovil/seed0/predictions.parquet",
        lambda path: path.write_bytes(path.read_bytes()[:100]),
        "not a readable Parquet file",
    ),
    "one class": (
        "benchmarks/biovil/zero_shot_classification/biovil/biovil/seed0/predictions.parquet",
        lambda path: pd.DataFrame({"label": [1, 1], "score": [0.1, 0.2]}).to_parquet(path),
        "holds one class",
    ),
    "labels of another data set": (
        f"{LABELS}/metrics.json",
        lambda path: edit(path, data={"name": "x", "synthetic": True}),
        "'name' is 'x', expected 'mimic_cxr'",
    ),
    "labels without their protocol": (
        f"{LABELS}/metrics.json",
        lambda path: edit(path, protocol={"reference": "chexpert", "findings": []}),
        "field 'protocol.classes' is missing",
    ),
    "no confusion": (f"{LABELS}/confusion.csv", Path.unlink, "file not found"),
    "half a confusion": (
        f"{LABELS}/confusion.csv",
        lambda path: path.write_text("finding,ours,given\nEdema,blank,blank\n"),
        "column 'studies' is missing",
    ),
    "disagreements without rules": (
        f"{LABELS}/disagreements.parquet",
        lambda path: pd.DataFrame({"rank": [1]}).to_parquet(path),
        "column 'study_id' is missing",
    ),
    "a metric without interval": (
        "benchmarks/biovil/mask_prediction/biovil/biovil/seed0/metrics.json",
        lambda path: edit(path, metrics={"mask_accuracy": {"value": 1.0}}),
        "field 'metrics.mask_accuracy.low' is missing",
    ),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_input_is_named(results, case):
    name, damage, message = DAMAGE[case]
    path = results / name
    damage(path)
    with pytest.raises(InputError) as caught:
        build(results)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_products_of_other_settings_are_refused(results):
    path = results / "report/config.json"
    record = read_json(path)
    training = record["resolved"]["models"]["biovil/biovil"]["settings"]["training"]
    used = training["batch_size"]
    training["batch_size"] = used + 1
    write_json(path, record)
    said = rf"run\.json: 'settings\.training\.batch_size' is {used}, the configuration has"
    with pytest.raises(InputError, match=said):
        build(results)
    training["batch_size"] = used
    record["resolved"]["cohorts"]["biovil/rsna"]["seed"] = 9
    write_json(path, record)
    with pytest.raises(InputError, match=r"rsna/flow\.json: 'settings\.seed' is 0"):
        build(results)
