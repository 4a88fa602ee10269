"""Counting what a stage leaves out: one shape, one limit."""

import pytest

from cxrflow.errors import InputError
from cxrflow.files.drops import Drop, Tally


def test_a_tally_adds_up_by_reason_and_keeps_the_first_examples() -> None:
    tally = Tally("rows read", "rows", 3, [Drop.of("blank", []), Drop.of("old", [1])])
    tally.drop("old", range(2, 9))
    tally.drop("old", ["x"], failed=True)
    old = {"reason": "old", "count": 8, "examples": ["1", "2", "3", "4", "5"], "failed": False}
    assert tally.as_json() == {
        **{"name": "rows read", "unit": "rows", "kept": 3},
        "dropped": [old, {"reason": "old", "count": 1, "examples": ["x"], "failed": True}],
    }
    assert tally.failed == 1
    assert Drop.of("old", "ab", part="test").as_json()["part"] == "test"


def test_too_much_damage_ends_the_stage_and_choice_does_not_count() -> None:
    tally = Tally("rows read", "rows", 6)
    tally.drop("not wanted", range(2))
    tally.drop("cut off", ["a:3"], failed=True)
    tally.drop("blank id", ["a:5", "a:7", "a:9"], failed=True)
    tally.require_few("a.csv", 4 / 12)
    with pytest.raises(InputError) as error:
        tally.require_few("a.csv", 0.3)
    assert str(error.value) == (
        "a.csv: 4 of 12 rows failed at 'rows read', more than max_failed_share 0.3 allows; "
        "most often (3): blank id, e.g. a:5, a:7"
    )
