"""Inputs that the report page refuses: damaged ones, and products of other settings."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from page_fixtures import build, edit

from cxr_files.atomic import CHECKSUMS, read_json, write_json
from cxr_files.errors import InputError
from cxrflow.show.tables.text import write_texts

Damage = Callable[[Path], object]
RUN = "models/biovil/biovil/seed0/run.json"


SCORES = "benchmarks/biovil"
LOG = "models/biovil/biovil/seed0/metrics.jsonl"
GROUNDING = f"{SCORES}/phrase_grounding/biovil/biovil/seed0"
PREDICTIONS = f"{SCORES}/zero_shot_classification/biovil/biovil/seed0/predictions.parquet"
MASKED = f"{SCORES}/mask_prediction/biovil/biovil/seed0/metrics.json"
LABELS = "benchmarks/label_agreement/mimic_cxr/chexpert"
TABLE = "tables/biovil/table5.html"
ONE_CLASS = pd.DataFrame({"label": [1, 1], "score": [0.1, 0.2]})


def text(content: str) -> Damage:
    return lambda path: path.write_text(content)


def cut(size: int) -> Damage:
    return lambda path: path.write_bytes(path.read_bytes()[:size])


def changed(**fields: Any) -> Damage:
    return lambda path: edit(path, **fields)


DAMAGE: dict[str, tuple[str, Damage, str]] = {
    "half a file": (RUN, text('{"model": "bio'), "not valid JSON"),
    "a list": (RUN, text("[]"), "expected a JSON object, found a list"),
    "wrong encoding": (RUN, lambda path: path.write_bytes(b'{"a": "\xff"}'), "not valid JSON"),
    "another model": (RUN, changed(model="other"), "'model' is 'other'"),
    "another seed": (RUN, changed(seed=3), "'seed' is 3, expected 0"),
    "a log cut off": (
        LOG,
        text('{"step": 1, "split": "train"}\n{"step": 2'),
        "line 2 is not a JSON object",
    ),
    "no log": (LOG, Path.unlink, "file not found"),
    "no field": (f"{GROUNDING}/metrics.json", text("{}"), "field 'task' is missing"),
    "another task": (f"{GROUNDING}/metrics.json", changed(task="else"), "'task' is 'else'"),
    "half a picture": (
        f"{GROUNDING}/figures/08_consolidation_worst.png",
        cut(500),
        "not a whole PNG",
    ),
    "half a table": (TABLE, cut(900), "damaged, it does not end with its SHA-256"),
    "a table that loads": (
        TABLE,
        lambda path: write_texts(
            str(path.with_suffix("")), {".html": '<section><img src="x.png"></section>'}
        ),
        "expected a self-contained table",
    ),
    "a cohort of another data set": (
        "cohorts/biovil/rsna/flow.json",
        changed(dataset="nih"),
        "'dataset' is 'nih'",
    ),
    "half a prediction file": (PREDICTIONS, cut(100), "not a readable Parquet file"),
    "one class": (PREDICTIONS, ONE_CLASS.to_parquet, "holds one class"),
    "labels of another data set": (
        f"{LABELS}/metrics.json",
        changed(data={"name": "x", "synthetic": True}),
        "'name' is 'x', expected 'mimic_cxr'",
    ),
    "labels without their protocol": (
        f"{LABELS}/metrics.json",
        changed(protocol={"reference": "chexpert", "findings": []}),
        "field 'protocol.classes' is missing",
    ),
    "no confusion": (f"{LABELS}/confusion.csv", Path.unlink, "file not found"),
    "half a confusion": (
        f"{LABELS}/confusion.csv",
        text("finding,ours,given\nEdema,blank,blank\n"),
        "column 'studies' is missing",
    ),
    "disagreements without rules": (
        f"{LABELS}/disagreements.parquet",
        pd.DataFrame({"rank": [1]}).to_parquet,
        "column 'study_id' is missing",
    ),
    "a metric without interval": (
        MASKED,
        changed(metrics={"mask_accuracy": {"value": 1.0}}),
        "field 'metrics.mask_accuracy.low' is missing",
    ),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_input_is_named(results, case):
    name, damage, message = DAMAGE[case]
    path = results / name
    (path.parent / CHECKSUMS).unlink(missing_ok=True)  # which would name the file, but not why
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
