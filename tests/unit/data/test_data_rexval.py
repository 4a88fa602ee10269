"""ReXVal and RadEval: errors of radiologists by pair of texts, and the agreement of metrics."""

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
from cxrflow.data.readers import radeval, rexval
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


@pytest.mark.parametrize(
    ("name", "samples", "metrics"),
    [
        ("rexval", 200, ("bleu_2", "rouge_l", "label_f1")),
        ("radeval", 148, ("rouge_l",)),  # of 150, two annotations are not whole
    ],
)
def test_the_copies_are_scored_by_command(tmp_path, name, samples, metrics):
    assert writer(name)(SETTINGS, tmp_path / "root", 1)
    flow = make(tmp_path / "out", "--layout", name, "--root", tmp_path / "root", kind="nli")
    assert flow["synthetic"] and flow["splits"]["test"]["samples"] == samples
    scored = {"cohort": tmp_path / "out", "settings": KEYWORDS, "output": tmp_path / "scores"}
    values = metrics_of(evaluate, "metric_agreement", **scored)["metrics"]
    for metric in metrics:
        assert values[f"tau_all/{metric}"]["low"] > 0.1


KINDS = ("False prediction of finding", "Omission of finding", "Incorrect location/position", "x",
         "Mention of comparison: not in the reference", "y", "Inarticulate report")  # fmt: skip


def annotation(*counts: object, headings: tuple[str, str] = ("Significant:", "**Insignificant**")):
    """What a reader of RadEval's candidates says: twice seven counts."""
    lines = [f"{n % 7 + 1}. {KINDS[n % 7]}: {count}" for n, count in enumerate(counts)]
    return "\n".join([headings[0], *lines[:7], "", headings[1], *lines[7:]])


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (annotation(1, 0, 2, 0, 0, 0, 0, *[0] * 6, 4), (3, 4)),
        (
            annotation(*[0] * 14, headings=("insignificant", "Clinically significant errors:")),
            (0, 0),
        ),
        (annotation(1, 0, "", 0, 0, 0, 0, *[1] * 7), (None, 7)),  # no count is not none
        (annotation(1, 0, "one", 0, 0, 0, 0, *[1] * 7), (None, 7)),
        (annotation(*[1] * 7, *[0] * 6), (7, None)),
        (annotation(*[1] * 14, headings=("Significant", "significant")), (None, None)),
        (annotation(*[1] * 14) + "\n7. Inarticulate report: 2", (None, None)),
        ("", (None, None)),
        ("three errors", (None, None)),
    ],
)
def test_radeval_counts_what_is_said_of_each_kind(
    said: str, expected: tuple[object, object]
) -> None:
    assert radeval.error_counts(said) == expected


def test_radeval_is_read_by_candidate_and_patient(tmp_path: Path) -> None:
    whole, broken = annotation(*[1] * 7, *[0] * 7), annotation(*[1] * 7)
    columns = ("annotator", "type", "ground_truth", "images_path")
    header = (*columns, *(f"{name}{n}" for name in ("prediction", "annotation") for n in (1, 2, 3)))
    rows = [
        ("a", "Findings", "Clear.", "files/p10/p10000032/s5/x.jpg", "One.", "Two.", "Three.",
         whole, broken, whole),
        ("b", "impression", "Edema.", "train/patient00012/study1/view1.jpg", "One.", "Two.", "",
         whole, whole, whole),
        ("b", "impression", "Mass.", "elsewhere/1.jpg", "One.", "Two.", "3", whole, "", whole),
    ]  # fmt: skip
    write_csv(tmp_path / "reader_study_final_with_annotationsv3.csv", header, rows)
    tables = radeval.read(tmp_path, Request())
    pairs = tables.sentence_pairs.sort_values("sample_id")
    assert pairs["sample_id"].tolist() == ["0|1", "0|3", "1|1", "1|2", "2|1", "2|3"]
    patients = ["p10000032", "patient00012", "elsewhere/1.jpg"]
    assert pairs["pair_id"].tolist() == [each for each in patients for _ in range(2)]
    assert pairs["subset"].tolist() == ["findings"] * 2 + ["impression"] * 4
    assert pairs["hypothesis"].tolist() == ["One.", "Three.", "One.", "Two.", "One.", "3"]
    assert (pairs["significant"] == 7).all() and (pairs["all"] == 7).all()
    blank, unsaid = tables.dropped["sentence_pairs"]
    assert (blank.count, unsaid.count) == (1, 2) and "candidate is blank" in blank.reason
