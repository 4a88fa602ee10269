"""The verdict of a recorded comparison, and what would decide it."""

import csv
import io

import pytest
from scipy.stats import t

from cxr_files.errors import InputError
from cxrflow.metrics.crossed import Spread, half_width
from cxrflow.show.tables.text import csv_text
from cxrflow.show.tables.verdicts import (
    COLUMNS,
    HOLDS,
    NOT_SHOWN,
    OPPOSITE,
    Comparison,
    lines,
    read_comparisons,
)


def comparison(**more) -> Comparison:
    """A difference of 1 (-2 to 4) between rows of three trainings each."""
    values = {
        "claim": "a, above b", "table": "Table 1", "column": "cnr", "digits": 2,
        "smaller": False, "margin": None, "factor": None,
        "better": "a", "better_ours": 3.0, "better_low": 1.0, "better_high": 5.0,
        "better_published": "1.03", "worse": "b", "worse_ours": 2.0, "worse_low": 0.0,
        "worse_high": 4.0, "worse_published": None, "difference": 1.0, "low": -2.0, "high": 4.0,
        "between": 1.0, "common": 0.0, "patients": 100.0, "trained": 3, "seeds": 3,
        "seeds_in_order": 2,
    }  # fmt: skip
    return Comparison(**values | more)


def test_what_is_recorded_is_read_back(tmp_path) -> None:
    given = [comparison(), comparison(margin=0.5, is_equivalent=False, trained=None)]
    path = tmp_path / "orderings.csv"
    path.write_text(csv_text(COLUMNS, lines(given)))
    assert read_comparisons(path) == given


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("low", "wide", "key 'low' is 'wide': Input should be a valid number"),
        ("smaller", "perhaps", "key 'smaller' is 'perhaps': Input should be a valid boolean"),
        ("digits", "", "key 'digits' is None: Input should be a valid integer"),
        ("low", "0.5", "verdict is 'not shown'; its values give 'holds'"),
    ],
)
def test_a_changed_value_is_named_with_its_line(tmp_path, column, value, said) -> None:
    (row,) = csv.DictReader(io.StringIO(csv_text(COLUMNS, lines([comparison()]))))
    path = tmp_path / "orderings.csv"
    path.write_text(csv_text(COLUMNS, [[*(row | {column: value}).values()]]))
    with pytest.raises(InputError, match=said) as error:
        read_comparisons(path)
    assert str(error.value).startswith(f"{path}:2: ")


def test_other_columns_are_another_schema(tmp_path) -> None:
    path = tmp_path / "orderings.csv"
    path.write_text("claim,table,found\n")
    with pytest.raises(InputError, match="column .column. is missing; found claim, table, found"):
        read_comparisons(path)
    with pytest.raises(InputError, match="absent.csv: file not found"):
        read_comparisons(tmp_path / "absent.csv")


@pytest.mark.parametrize(
    ("ends", "verdict"), [((0.1, 2), HOLDS), ((-2, -0.1), OPPOSITE), ((-1, 2), NOT_SHOWN)]
)
def test_only_an_interval_beyond_zero_decides(ends, verdict) -> None:
    difference = sum(ends) / 2
    low, high = ends
    ours = {"better_ours": 2.0 + difference, "difference": difference}
    assert comparison(low=low, high=high, **ours).verdict == verdict
    # Smaller values are better: the same values the other way round.
    ours = {"better_ours": 2.0 - difference, "difference": -difference}
    assert comparison(low=-high, high=-low, smaller=True, **ours).verdict == verdict


def test_a_margin_is_exceeded_only_surely() -> None:
    within = comparison(margin=5.0, is_equivalent=True)
    assert within.verdict == HOLDS
    beyond = comparison(margin=0.5, low=0.6, high=1.4, is_equivalent=False)
    assert beyond.verdict == OPPOSITE
    assert comparison(margin=0.5, low=0.4, high=1.4, is_equivalent=False).verdict == NOT_SHOWN


def test_seeds_that_would_decide_are_those_of_students_interval() -> None:
    number = next(n for n in range(3, 99) if t.ppf(0.975, n - 1) / n**0.5 < 1)
    assert number == 7 and comparison().decided_by == "7 seeds"
    wider = next(n for n in range(3, 99) if t.ppf(0.975, n - 1) / n**0.5 < 0.5)
    assert comparison(difference=0.5).decided_by == f"{wider} seeds"
    # Of equality the distance to the margin counts.
    equal = comparison(margin=1.5, is_equivalent=False)
    assert equal.decided_by == f"{wider} seeds"


def test_what_more_seeds_do_not_make_smaller_takes_patients() -> None:
    half = t.ppf(0.975, 99) * 0.5**0.5
    assert half > 1 > t.ppf(0.975, 199) * 0.25**0.5
    assert comparison(between=0.0, common=0.5).decided_by == "2 times the patients"
    assert comparison(between=0.0, common=40.0).decided_by.startswith("cannot be shown here")
    both = comparison(between=1.0, common=0.5).decided_by
    assert both == "10 seeds and 4 times the patients"
    assert half_width(Spread(1.0, 0.5), 9, 100, 4) > 1 > half_width(Spread(1.0, 0.5), 10, 100, 4)


def test_few_trainings_are_decided_by_three_and_a_verdict_by_nothing() -> None:
    assert comparison(trained=1).judged == (NOT_SHOWN, "one seed")
    assert comparison(trained=1).decided_by == "3 seeds"
    assert comparison(low=0.5, high=1.5).decided_by == ""
    assert comparison(between=None).decided_by == ""
