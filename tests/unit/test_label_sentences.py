"""Hand-written sentences and the labels that the scope engine should give them.

Each sentence of ``label_sentences/development.tsv`` is a test; ``measurement.tsv`` is only scored,
so that the score says how well the rules do on sentences that nobody wrote them for.
"""

import csv
import math
from functools import cache
from pathlib import Path

import pytest
from held_out_wording import CODES, read_codes

from cxrflow.reports.labels.observations import OBSERVATIONS
from cxrflow.reports.labels.scope.labeller import ScopeLabeller
from cxrflow.reports.sentences import RuleSplitter

FOLDER = Path(__file__).parent / "label_sentences"
LEAST_SHARE_RIGHT = 0.90


def read(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


DEVELOPMENT, MEASUREMENT = read("development.tsv"), read("measurement.tsv")


@cache
def labeller() -> ScopeLabeller:
    return ScopeLabeller()


def labels_read(sentence: str) -> dict[str, int]:
    """What the engine reads in a sentence, No Finding left out."""
    values = labeller().label([RuleSplitter().split_one(sentence)])[0]
    named = dict(zip(OBSERVATIONS, values, strict=True))
    return {name: int(v) for name, v in named.items() if name in CODES and not math.isnan(v)}


def test_both_files_are_large_and_share_no_sentence() -> None:
    sentences = [row["sentence"].lower() for row in DEVELOPMENT + MEASUREMENT]
    assert min(len(DEVELOPMENT), len(MEASUREMENT)) >= 200
    assert len(set(sentences)) == len(sentences)
    groups = [{row["phenomenon"] for row in rows} for rows in (DEVELOPMENT, MEASUREMENT)]
    assert groups[0] == groups[1]
    for row in DEVELOPMENT + MEASUREMENT:
        names = [name for name, _ in read_codes(row["labels"])]
        assert len(set(names)) == len(names), row["sentence"]


@pytest.mark.parametrize("row", DEVELOPMENT, ids=lambda row: row["sentence"])
def test_development_sentence(row: dict[str, str]) -> None:
    assert labels_read(row["sentence"]) == dict(read_codes(row["labels"]))


def test_measurement_sentences() -> None:
    right = sum(labels_read(r["sentence"]) == dict(read_codes(r["labels"])) for r in MEASUREMENT)
    share = right / len(MEASUREMENT)
    assert share >= LEAST_SHARE_RIGHT, f"{right} of {len(MEASUREMENT)} sentences wholly right"
