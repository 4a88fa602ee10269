"""``metrics.json`` is read through one schema: what cannot be is one line that names it."""

import json
from typing import Any

import pytest

from cxr_files.errors import InputError
from cxrflow.benchmarks.metric_names import METRICS
from cxrflow.metrics.intervals import Estimate
from cxrflow.metrics.record import RANGES, read_metrics

SCORE = {"value": 0.7, "low": 0.6, "high": 0.8, "n": 9}
RECORD: dict[str, Any] = {
    "task": "t", "benchmark": "linear_probe", "model": "m", "seed": 0, "learnt": True,
    "data": {"name": "d", "synthetic": True, "classes": ["edema"]},
    "protocol": {"intervals": {"level": 0.9, "unit": "subject"}, "interval_over": "samples"},
    "metrics": {"auroc": SCORE, "f1_sd": {"value": 0.1, "low": None, "high": None, "n": 9}},
}  # fmt: skip


def read(folder, content):
    path = folder / "metrics.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return read_metrics(path)


def test_a_record_comes_back_as_it_is(tmp_path):
    assert read(tmp_path, RECORD) == RECORD


@pytest.mark.parametrize(
    ("metric", "values", "said"),
    [
        ("auroc", {"value": 1.7, "high": 2.0}, "metric 'auroc': value is 1.7; expected 0 to 1"),
        ("auroc/edema", {"value": -0.1, "low": -1}, "value is -0.1; expected 0 to 1"),
        ("f1_sd", {"value": -0.1, "low": None}, "value is -0.1; expected 0 or more"),
        ("cnr", {"value": -1.0, "low": -2.0}, "value is -1; expected 0 or more"),
        ("kappa/edema", {"value": 1.5, "high": 2.0}, "value is 1.5; expected -1 to 1"),
        ("auroc", {"low": 0.9}, "low, value and high are 0.9, 0.7 and 0.8"),
        ("auroc", {"low": 0.8, "high": 0.6}, "low, value and high are 0.8, 0.7 and 0.6"),
        ("auroc", {"value": 0.95}, "expected low ≤ value ≤ high"),
        ("auroc", {"value": "=1+1"}, "metric 'auroc': value is '=1+1'; expected a number"),
        ("auroc", {"value": True}, "value is True; expected a number"),
        ("auroc", {"n": -1}, "field 'metrics.auroc.n' is -1"),
        ("auroc", {"n": 1.5}, "field 'metrics.auroc.n' is 1.5"),
        ("auroc", {"positives": "x"}, "field 'metrics.auroc.positives' is 'x'"),
        ("auroc", {"positives": 3, "negatives": 4}, "'positive_patients' is missing"),
    ],
)
def test_a_number_that_cannot_be_is_refused(tmp_path, metric, values, said):
    with pytest.raises(InputError) as error:
        read(tmp_path, RECORD | {"metrics": {metric: SCORE | values}})
    assert said in str(error.value) and str(tmp_path / "metrics.json") in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("seed", [0]), ("seed", -1), ("learnt", "x"), ("model", None), ("drawn", "no"),
        ("data", {"name": "d"}), ("data", {"name": "d", "synthetic": "no"}),
        ("data", {"name": "d", "synthetic": True, "classes": [1]}),
        ("data", {"name": "d", "synthetic": True, "classes": "edema"}),
        ("data", {"name": "d", "synthetic": True, "external": 3}),
        ("protocol", {"intervals": 0.95}), ("protocol", {"intervals": {"level": 95}}),
        ("protocol", {"interval_over": "patients"}), ("protocol", {"rare": 1}),
        ("protocol", {"rows_missing": {"train": "x"}}), ("metrics", {"auroc": 0.7}),
    ],
)  # fmt: skip
def test_a_field_of_another_shape_is_refused(tmp_path, field, value):
    with pytest.raises(InputError, match=f"metrics.json: field '{field}"):
        read(tmp_path, RECORD | {field: value})


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("0.7", "NaN", "NaN is no finite number"),
        ("0.7", "1e999", "1e999 is no finite number"),
        ("0.7", "9" * 400, "is no finite number"),
        ('"seed": 0', '"seed": 0, "seed": 1', "key 'seed' stands twice"),
        ('"low"', '"value": 0.8, "low"', "key 'value' stands twice"),
    ],
)
def test_what_json_allows_and_no_product_has_is_refused(tmp_path, before, after, said):
    with pytest.raises(InputError, match=said):
        read(tmp_path, json.dumps(RECORD).replace(before, after, 1))


def test_a_benchmark_from_outside_has_its_own_unit(tmp_path):
    """Its recall may be in per cent; its interval holds the value all the same."""
    percent = {"value": 70.0, "low": 60.0, "high": 80.0, "n": 9}
    own = RECORD | {"benchmark": "own:Recall", "metrics": {"recall": percent}}
    assert read(tmp_path, own) == own
    with pytest.raises(InputError, match="low ≤ value ≤ high"):
        read(tmp_path, own | {"metrics": {"recall": percent | {"low": 75.0}}})


def test_an_interval_as_written_holds_its_value(tmp_path):
    """Resampling may shift a statistic beyond the value on all samples."""
    shifted = Estimate(0.5, 0.52, 0.7, 4).as_json()
    assert shifted["low"] == 0.5 and shifted["high"] == 0.7
    assert read(tmp_path, RECORD | {"metrics": {"f1": shifted}})
    assert Estimate(0.5, float("nan"), 0.7, 4).as_json()["low"] is None


def test_ranges_are_of_metrics_that_a_benchmark_has():
    names = {name for of_benchmark in METRICS.values() for name in of_benchmark}
    of_labels = ("agreement", "kappa", "macro_kappa", "micro_", "macro_", "studies")
    assert {name for name in RANGES if not name.startswith(of_labels)} <= names
