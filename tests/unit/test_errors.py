"""What another library says, on a line."""

import pytest

from cxrflow.errors import one_line


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("two\n  lines", "two lines"),
        ("", "ValueError"),
        ("value 'MONO\x03IROME2', \x80, \u202e", r"value 'MONO\x03IROME2', \x80, \u202e"),
        ("größe – 3 µm", "größe – 3 µm"),
        ("x" * 300, "x" * 200),
    ],
)
def test_an_error_is_one_printable_line(said: str, line: str) -> None:
    assert one_line(ValueError(said)) == line and line.isprintable()
