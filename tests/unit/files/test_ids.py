"""Where ids may not be named, logs and records count; errors name what is at fault."""

import pytest

from cxr_files.drops import Drop, Tally
from cxr_files.errors import InputError
from cxr_files.ids import HIDDEN, IDS, entry, in_brackets, shown


@pytest.fixture(params=[None, "", HIDDEN])
def hidden(request, monkeypatch):
    """Whether the workflow has said that ids are not named."""
    monkeypatch.delenv(IDS, raising=False)
    if request.param is not None:
        monkeypatch.setenv(IDS, request.param)
    return request.param == HIDDEN


def test_ids_stand_where_they_may(hidden):
    assert shown(["a", "b"]) == ([] if hidden else ["a", "b"])
    assert in_brackets(["a", "b"]) == ("" if hidden else " (a, b)")
    assert in_brackets([]) == ""
    assert entry("study", "s5") == ({} if hidden else {"study": "s5"})


def test_a_drop_is_counted_and_an_error_names_it(hidden):
    tally = Tally("reports read", "reports", 1, [Drop.of("not UTF-8", ["s5", "s6"], failed=True)])
    (dropped,) = tally.as_json()["dropped"]
    assert dropped["count"] == 2
    assert dropped["examples"] == ([] if hidden else ["s5", "s6"])
    with pytest.raises(InputError, match="not UTF-8, e.g. s5, s6"):
        tally.require_few("reports", 0.1)
