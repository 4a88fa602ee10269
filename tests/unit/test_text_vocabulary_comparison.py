"""Tables 1 and 3: a case worked out by hand, and what is refused."""

from pathlib import Path

import pandas as pd
import pytest
from benchmark_fakes import metrics_of

from cxrflow.benchmarks.measure_data import main
from cxrflow.errors import InputError
from cxrflow.text.tokenizer import SPECIAL_TOKENS, write_tokenizer


@pytest.fixture
def cohort(tmp_path: Path) -> Path:
    folder = tmp_path / "cohort"
    folder.mkdir()
    rows = [
        ("1", "p1", "Small effusion.", "validate"),  # 3 words
        ("2", "p1", "Effusion, small (small).", "validate"),  # 7 words
        ("3", "p2", None, "validate"),
        ("4", "p3", "small small small", "train"),
    ]
    table = pd.DataFrame(rows, columns=["study_id", "subject_id", "findings", "split"])
    table.assign(impression=None).to_parquet(folder / "pairs.parquet")
    (folder / "flow.json").write_text('{"dataset": "invented", "synthetic": true}')
    for name, pieces in {
        "whole": ["small", "effusion", ".", ",", "(", ")"],
        "cut": ["small", "ef", "##fu", "##sion", ".", ","],
    }.items():
        (tmp_path / name).mkdir()
        write_tokenizer(tmp_path / name, [*SPECIAL_TOKENS, *pieces], lowercase=True)
    return folder / "pairs.parquet"


def compare(pairs: Path, *more: Path, **settings: object) -> dict:
    root = pairs.parent.parent
    read = {"vocabulary": [root / "whole", root / "cut", *more], "cohort": pairs.parent}
    return metrics_of(main, "vocabulary", **read, settings=settings, output=root / "out")


def test_by_hand(cohort):
    comparison = compare(cohort, words=["effusion", "small", "opacity"])
    metrics = {name: entry["value"] for name, entry in comparison["metrics"].items()}
    assert metrics["words"] == 5.0
    assert metrics["tokens/whole"] == 5.0 and metrics["increase/whole"] == 0.0
    assert metrics["tokens/cut"] == 7.0 and metrics["increase/cut"] == pytest.approx(0.4)
    assert metrics["unknown/cut"] == pytest.approx(2 / 14) and metrics["unknown/whole"] == 0
    assert metrics["size/whole"] == 11 and metrics["pieces/cut/effusion"] == 3
    assert metrics["spelling/cut/effusion"] == "ef-fu-sion"
    assert metrics["spelling/whole/effusion"] == "✓"
    assert metrics["spelling/whole/opacity"] == "[UNK]"
    assert comparison["benchmark"] == "vocabulary" and comparison["data"]["synthetic"] is True
    entry = comparison["metrics"]["increase/cut"]
    assert entry["n"] == 2 and entry["low"] is entry["high"] is None  # both of one patient
    empty = {"reason": "no findings text", "count": 1, "examples": ["3"], "failed": False}
    assert comparison["protocol"]["dropped"] == [empty]
    counts = pd.read_parquet(cohort.parent.parent / "out" / "predictions.parquet")
    assert counts["study_id"].tolist() == ["1", "2"] and counts["words"].tolist() == [3, 7]
    assert counts["tokens/cut"].tolist() == [5, 9]
    assert all(counts[name].dtype.kind == "i" for name in counts if name != "study_id")


def test_only_the_given_split_is_counted(cohort):
    assert compare(cohort, split="train")["metrics"]["words"]["value"] == 3.0
    assert compare(cohort, split=None)["metrics"]["words"]["n"] == 3
    with pytest.raises(InputError, match="no row has split 'test'"):
        compare(cohort, split="test")


def test_the_result_does_not_change_from_run_to_run(cohort):
    assert compare(cohort) == compare(cohort)


def test_two_vocabularies_of_one_name(cohort):
    with pytest.raises(InputError, match="the folders' names are the results'; two are 'cut'"):
        compare(cohort, Path("elsewhere/cut"))
