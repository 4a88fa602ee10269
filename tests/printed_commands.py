"""Commands that the documentation prints: the words of each, by page."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from cxrflow.programs.source_code import PACKAGE

TOP = PACKAGE.parents[1]
PAGES = [
    *(TOP / name for name in ("README.md", "CONTRIBUTING.md", "results/README.md")),
    *sorted((TOP / "docs").glob("*.md")),
    *sorted((TOP / "docs/archive").glob("*.md")),
    *sorted((TOP / "workflow_scripts").glob("*/README.md")),
]
STARTERS = ("cxrflow", "snakemake", "make", "cxr-hospital", "cxr-labels", "python")
FENCED = re.compile(r"^```(\S*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"`([^`\n]+)`")
# What makes a span of running text a command: an option, or a program that needs none.
BEGINNINGS = ("make ", "python -m ", "cxr-hospital ")


def lines_of(page: Path) -> Iterator[str]:
    """Lines of indented and fenced blocks, those that go on joined, and spans that are commands."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = "\n".join(block for language, block in FENCED.findall(text) if not language)
    yield from blocks.splitlines()
    yield from (line for line in text.splitlines() if line.startswith("    "))
    yield from (s for s in SPAN.findall(text) if " -" in s or s.startswith(BEGINNINGS))


def commands() -> dict[str, list[str]]:
    """The words of every command by its line; variables before it and a comment are left out."""
    found = {}
    for page in PAGES:
        name = page.name if page.name != "README.md" else str(page.relative_to(TOP))
        for line in lines_of(page):
            bare = re.sub(r"^\s*(\$ )?(\w+=\S+ +)*", "", line)
            if bare.startswith(tuple(f"{starter} " for starter in STARTERS)) and "<" not in bare:
                found[f"{name}: {bare.strip()}"] = shlex.split(bare, comments=True)
    return found


COMMANDS = commands()


def of(starter: str) -> list[str]:
    """The commands of a starter, at least one of which there is."""
    found = sorted(line for line, words in COMMANDS.items() if words[0] == starter)
    assert found, starter
    return found
