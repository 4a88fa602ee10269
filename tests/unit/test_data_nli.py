"""RadNLI and MedNLI as cohorts: files as published, damaged files, labels that are missing."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from cohort_fixtures import cohort

from cxrflow.data.layouts import layout
from cxrflow.data.readers.common_tables import Request
from cxrflow.errors import InputError

FIRST = {
    "pair_id": "a1",
    "sentence1": "Heart size is normal.",
    "sentence2": "The heart is enlarged.",
    "gold_label": "contradiction",
}
NAMES = ("radnli_dev_v1.jsonl", "radnli_test_v1.jsonl")


def radnli(root: Path, *lines: Any) -> Path:
    """A RadNLI whose development file has these lines (objects or bytes), its test file one."""
    root.mkdir()
    made = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in lines]
    (root / NAMES[0]).write_bytes(b"\n".join(made) + b"\n")
    (root / NAMES[1]).write_text(json.dumps(FIRST | {"sentence2": "Cardiomegaly."}) + "\n")
    return root


def make(output: Path, name: str, root: Path, **settings: Any) -> tuple[dict, pd.DataFrame]:
    return cohort(output, "--layout", name, "--root", root, **({"kind": "nli"} | settings))


def test_the_synthetic_sets_are_read_whole(written: Path, tmp_path: Path) -> None:
    flow, rows = make(tmp_path / "rad", "radnli", written / "radnli")
    assert list(rows) == ["sample_id", "pair_id", "premise", "hypothesis", "label", "split"]
    assert rows["sample_id"].is_unique and set(rows["split"]) == {"validate", "test"}
    assert flow["synthetic"] and flow["steps"][0]["dropped"] == []
    assert flow["splits"]["test"]["samples"] == (rows["split"] == "test").sum()
    assert flow["checks"][0] == {
        "name": "sentence pair in one split",
        "passed": True,
        "detail": "0 pairs of sentences stand in several of the published splits",
    }
    assert sum(flow["labels"].values()) == len(rows)
    flow, _ = make(tmp_path / "med", "mednli", written / "mednli")
    assert set(flow["splits"]) == {"train", "validate", "test"}


def test_what_cannot_be_used_is_counted_with_its_reason(tmp_path: Path) -> None:
    root = radnli(
        tmp_path / "root",
        FIRST,
        FIRST | {"gold_label": "-"},
        FIRST | {"gold_label": "maybe"},
        FIRST | {"sentence2": "  "},
        {key: value for key, value in FIRST.items() if key != "pair_id"},
        b'{"pair_id": "cut',
        b'["a list"]',
        b'{"pair_id": "\xff"}',
        b"",
        FIRST,
        FIRST | {"sentence1": FIRST["sentence2"], "sentence2": FIRST["sentence1"]},
        FIRST | {"sentence1": "A line\u2028end of another kind."},
    )
    flow, rows = make(tmp_path / "out", "radnli", root, max_failed_share=0.9)
    name, drops = NAMES[0], flow["steps"][0]["dropped"]
    assert {drop["reason"]: drop["count"] for drop in drops} == {
        f"{name}: gold_label is -": 1,
        f"{name}: gold_label is none of entailment, neutral, contradiction": 1,
        f"{name}: sentence2 is missing or blank": 1,
        f"{name}: pair_id is missing or blank": 1,
        f"{name}: not valid JSON": 1,
        f"{name}: not a JSON object": 1,
        f"{name}: not UTF-8": 1,
        "the same line again": 1,
    }
    chosen = {drop["reason"]: drop["failed"] for drop in drops}
    assert not chosen[f"{name}: gold_label is -"] and chosen[f"{name}: not valid JSON"]
    assert f"{root / name}:6" in {example for drop in drops for example in drop["examples"]}
    assert rows["sample_id"].tolist() == ["validate-1", "validate-11", "validate-12", "test-1"]
    assert "\u2028" in rows["premise"][2]


def test_too_much_damage_ends_the_program(tmp_path: Path) -> None:
    root = radnli(tmp_path / "root", FIRST, b"{")
    with pytest.raises(InputError, match="1 of 3 samples failed at 'pairs .*not valid JSON"):
        make(tmp_path / "out", "radnli", root)
    assert not (tmp_path / "out").exists()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    root = radnli(tmp_path / "root", FIRST)
    (root / NAMES[1]).unlink()
    with pytest.raises(InputError, match=NAMES[1]):
        layout("radnli").read(root, Request())


def test_a_pair_in_two_splits_is_recorded(tmp_path: Path) -> None:
    swapped = FIRST | {"sentence1": "Cardiomegaly.", "sentence2": FIRST["sentence1"]}
    flow, _ = make(tmp_path / "out", "radnli", radnli(tmp_path / "root", FIRST, swapped))
    assert flow["checks"][0]["passed"] is False
    assert flow["checks"][0]["detail"].startswith("1 pairs")


def test_other_splits_are_refused(tmp_path: Path) -> None:
    root = radnli(tmp_path / "root", FIRST)
    with pytest.raises(InputError, match="kind nli: expected official or auto"):
        make(tmp_path / "out", "radnli", root, splits={"method": "patients"})
    with pytest.raises(InputError, match="makes cohorts of kind nli, settings ask for pairs"):
        make(tmp_path / "out", "radnli", root, kind="pairs")
