"""Python that tutorials and pages show runs as it stands; what it prints is what they say."""

import re
import textwrap

import pytest

from cxrflow.programs.source_code import PACKAGE

DOCS = PACKAGE.parents[1] / "docs"
BLOCK = re.compile(r"^ *```python\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[str]:
    """The Python blocks of a page."""
    text = (DOCS / f"{page}.md").read_text("utf-8")
    return [textwrap.dedent(block) for block in BLOCK.findall(text)]


def test_the_librarys_examples_run() -> None:
    names: dict[str, object] = {}
    _, first, second = blocks("library")  # the model: integration/test_printed_commands.py
    exec(first, names)
    assert names["labels"]["Pleural Effusion"][0] == 1.0  # type: ignore[index]
    assert names["labels"]["Pneumothorax"][0] == 0.0  # type: ignore[index]
    exec(second, names)
    assert names["words"].grad.abs().sum() > 0  # type: ignore[attr-defined]


@pytest.mark.parametrize("page", ["labels", "synthetic_hospital"])
def test_what_is_printed_is_what_the_page_says(
    page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = blocks(page)
    exec(block, {})
    said = capsys.readouterr().out
    assert said.strip()
    expected = re.findall(r"^# (.*)$", block, re.MULTILINE)
    assert not expected or said.splitlines() == expected
