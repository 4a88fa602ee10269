"""ReXVal: errors of radiologists as counts of pairs of texts, and the agreement of metrics."""

from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmark_fakes import metrics_of, result_of
from cohort_fixtures import make
from data_fixtures import write_csv
from phantom_fixtures import SETTINGS
from scipy.stats import kendalltau

from cxr_files.errors import InputError
from cxr_hospital.draw import writer
from cxrflow.benchmarks.data.settings import MetricAgreementSettings
from cxrflow.benchmarks.evaluate import main as evaluate
from cxrflow.data.readers import rexval
from cxrflow.data.readers.common_tables import Request
from cxrflow.metrics.correlation import kendall_tau

REPORTS = "50_samples_gt_and_candidates.csv"
ERRORS = "6_valid_raters_per_rater_error_categories.csv"
HEADER = ("study_number", "candidate_type", "rater_index", "error_category",
          "clinically_significant", "num_errors")  # fmt: skip
KEYWORDS: dict[str, Any] = {"tagger": "keywords", "intervals": {"replicates": 100}}


def written(
    root: Path, *errors: tuple[object, ...], studies: tuple[object, ...] = (91, 92)
) -> Path:
    columns = ("study_id", "gt", *rexval.CANDIDATES)
    rows = [
        (n, f"Report {n}.", *(f"{name} of {n}." for name in rexval.CANDIDATES)) for n in studies
    ]
    write_csv(root / REPORTS, columns, rows)
    write_csv(root / ERRORS, HEADER, errors)
    return root


def pairs(root: Path) -> dict[str, tuple[str, str, float, float]]:
    table = rexval.read(root, Request()).sentence_pairs.set_index("sample_id")
    values = table[["premise", "hypothesis", "significant", "all"]]
    return {
        str(name): tuple(row) for name, row in zip(values.index, values.to_numpy(), strict=True)
    }


def test_errors_are_means_over_the_readers(tmp_path: Path) -> None:
    errors = [
        (0, "bleu", 0, 1, True, 2), (0, "bleu", 0, 2, False, 1), (0, "bleu", 1, 1, True, 1),
        (1, "radgraph", 0, 1, False, 3), (1, "radgraph", 1, 1, True, 0),
    ]  # fmt: skip
    expected = {
        "0|bleu": ("Report 91.", "bleu of 91.", 1.5, 2.0),
        "1|radgraph": ("Report 92.", "radgraph of 92.", 0.0, 1.5),
    }
    assert pairs(written(tmp_path / "rows", *errors)) == expected
    by_id = written(tmp_path / "ids", *((row[0] + 91, *row[1:]) for row in errors))
    assert [*pairs(by_id).values()] == [*expected.values()]
    assert "values of study_id" in rexval.read(by_id, Request()).notes[0]


def test_damage_is_counted_or_named(tmp_path: Path) -> None:
    root = written(
        tmp_path,
        (0, "bleu", 0, 1, "maybe", 2), (0, "bleu", 1, 1, True, 2), (1, "bleu", 0, 1, True, 1),
        (1, "s_emb", 0, 1, True, ""), (7, "bleu", 0, 1, True, 1), (0, "rouge", 0, 1, True, 1),
    )  # fmt: skip
    tables = rexval.read(root, Request())
    assert tables.sentence_pairs["sample_id"].tolist() == ["1|bleu"]
    drops = {drop.reason: drop.count for drop in tables.dropped["sentence_pairs"]}
    assert drops["errors of a candidate that is not in the list of reports"] == 2
    assert drops[f"{ERRORS}: a count is negative, or not said to be significant"] == 2
    assert drops[f"{ERRORS}: num_errors is not a number"] == 1
    text = (root / REPORTS).read_text().replace("bleu of 91.", "")
    (root / REPORTS).write_text(text)
    with pytest.raises(InputError, match="as studies are numbered by rows"):
        rexval.read(root, Request())
    (root / REPORTS).write_text(text.replace("gt", "truth"))
    with pytest.raises(InputError, match="column 'gt' or 'gt_report' is missing"):
        rexval.read(root, Request())


def test_tau_is_that_of_scipy_on_repeated_samples() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 5, 40), rng.integers(0, 4, 40)
    counts = rng.multinomial(40, np.full(40, 1 / 40), 3).astype(float)
    for tau, repeats in zip(kendall_tau(x, y, counts), counts.astype(int), strict=True):
        assert tau == pytest.approx(kendalltau(np.repeat(x, repeats), np.repeat(y, repeats))[0])
    assert np.isnan(kendall_tau(x, np.zeros(40), counts)).all()


def test_metrics_agree_with_whoever_counts_what_they_count(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {
            "premise": ["Right effusion is new. Heart is enlarged."] * 4,
            "hypothesis": [
                "Right effusion is new. Heart is enlarged.",
                "Right effusion is new. Heart is normal.",
                "No effusion. Heart is normal.",
                "Tube in place.",
            ],
            "pair_id": [*"aabb"],
            "split": "test",
            "significant": [0.0, 1.0, 2.0, 3.0],
            "all": [3.0, 2.0, 1.0, 0.0],
        }
    ).assign(sample_id=[*"1234"])
    cohort = tmp_path / "cohort"
    cohort.mkdir()
    table.to_parquet(cohort / "samples.parquet")
    (cohort / "flow.json").write_text('{"dataset": "tiny", "synthetic": true}')
    result = result_of(
        "metric_agreement", MetricAgreementSettings.model_validate(KEYWORDS),
        Namespace(cohort=cohort),
    )  # fmt: skip
    rows = result.predictions
    assert rows["label_f1"].tolist() == pytest.approx([1, 2 / 3, 0, 0])
    assert rows["tem"].tolist() == pytest.approx([1, 2 / 3, 0, 0]) and rows["rouge_l"].iloc[0] == 1
    assert result.metrics["tau_significant/rouge_l"].value == 1
    assert result.metrics["tau_all/rouge_l"].value == -1
    expected = kendalltau(rows["label_f1"], -rows["significant"])[0]
    assert result.metrics["tau_significant/label_f1"].value == pytest.approx(expected)


def test_the_copy_is_scored_by_command(tmp_path: Path) -> None:
    assert writer("rexval")(SETTINGS, tmp_path / "root", 1)
    flow = make(tmp_path / "out", "--layout", "rexval", "--root", tmp_path / "root", kind="nli")
    assert flow["synthetic"] and flow["splits"]["test"]["samples"] == 200
    scored = {"cohort": tmp_path / "out", "settings": KEYWORDS, "output": tmp_path / "scores"}
    metrics = metrics_of(evaluate, "metric_agreement", **scored)["metrics"]
    for name in ("bleu_2", "rouge_l", "label_f1"):
        assert metrics[f"tau_all/{name}"]["low"] > 0.1
