"""Commands that the documentation shows: each is accepted by the program that it starts.

The programs of this package parse their options and stop there, so nothing is run. Of Snakemake
and make the options, targets, files and keys are looked up. What takes seconds is run elsewhere:
the notebooks (test_notebook.py, integration/test_notebooks.py), the labeller, the configuration.
"""

import argparse
import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from cxrflow.config.schema import Values
from cxrflow.programs.registry import PROGRAMS
from cxrflow.programs.source_code import PACKAGE, full_name

TOP = PACKAGE.parents[1]
PAGES = [TOP / "README.md", TOP / "CONTRIBUTING.md", *sorted((TOP / "docs").glob("*.md"))]
STARTERS = ("cxrflow", "snakemake", "make")
FENCED = re.compile(r"^```\n(.*?)^```", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"`([^`\n]+)`")
# Files of the reader's own that a command may name.
OWN = {"elsewhere.yaml", "mine.yaml", "my_losses.yaml", "my_method.yaml", "my_shares.yaml"}
OWN |= {"other_images.yaml", "released.yaml", "three_rows.yaml", "twelve_epochs.yaml"}


def lines_of(page: Path) -> Iterator[str]:
    """Lines of indented and fenced blocks, those that go on joined, and spans with options."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = "\n".join(FENCED.findall(text))
    yield from blocks.splitlines()
    yield from (line for line in text.splitlines() if line.startswith("    "))
    yield from (span for span in SPAN.findall(text) if " -" in span or span.startswith("make "))


def commands() -> dict[str, list[str]]:
    """The words of every command by its line; variables before it and a comment are left out."""
    found = {}
    for page in PAGES:
        for line in lines_of(page):
            bare = re.sub(r"^\s*(\$ )?(\w+=\S+ +)*", "", line)
            if bare.startswith(tuple(f"{starter} " for starter in STARTERS)) and "<" not in bare:
                found[f"{page.name}: {bare.strip()}"] = shlex.split(bare, comments=True)
    return found


COMMANDS = commands()


def of(starter: str) -> list[str]:
    """The commands of a starter, at least one of which there is."""
    return sorted(line for line, words in COMMANDS.items() if words[0] == starter)


class Parsed(Exception):
    """Raised in place of what a program does after it has read its options."""


@pytest.fixture
def parse_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs stop when they have parsed their options."""
    parse = argparse.ArgumentParser.parse_args

    def parsed(self, *words, **more):
        parse(self, *words, **more)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parsed)


@pytest.mark.parametrize("line", of("cxrflow"))
def test_a_program_accepts_its_options(line: str, parse_alone, capsys) -> None:
    _, name, *words = COMMANDS[line]
    if "--help" in (name, *words) and name not in PROGRAMS:
        assert name in ("--help", "COMMAND")
        return
    if name in ("stages", "completion"):  # of the command itself: test_command_line.py
        assert not words
        return
    module = import_module(full_name(PROGRAMS[name]))
    if not hasattr(module, "main"):
        module = import_module(f"{module.__name__}.__main__")
    # Three dots for options that are left out: those that are there are looked up.
    shortened = words[0] == "…"
    try:
        module.main(["--help"] if shortened else words)
    except Parsed:
        return
    except SystemExit as end:
        said = capsys.readouterr()
        assert end.code == 0, said.err
        assert all(word in said.out for word in words if word.startswith("--")), line
    else:
        pytest.fail("it did not parse its options")


def test_snakemake_accepts_its_options_targets_and_keys() -> None:
    from snakemake.cli import get_argument_parser

    parser = get_argument_parser()
    rules = "".join(file.read_text(encoding="utf-8") for file in (TOP / "rules").rglob("*.smk"))
    rules += (TOP / "Snakefile").read_text(encoding="utf-8")
    papers = {file.stem: file.read_text(encoding="utf-8") for file in PACKAGE.glob("papers/*.yaml")}
    for line in of("snakemake"):
        options = parser.parse_args(COMMANDS[line][1:])
        for target in options.targets:
            if target.startswith("results/tables/"):
                paper, table = Path(target).parts[-2:]
                assert f"\n  {Path(table).stem}:" in papers[paper], line
            elif target.startswith("results/cohorts/"):
                paper, cohort = Path(target).parts[-3:-1]
                assert f"\n  {cohort}:" in papers[paper], line
            else:
                known = target in papers or re.search(rf"^rule {target}:", rules, re.MULTILINE)
                assert known or f"{target}.yaml" in OWN, line
        for name in options.configfile or ():
            assert (TOP / name).is_file() or str(name) in OWN, line
        for entry in options.config or ():
            assert entry.partition("=")[0] in Values.model_fields, line


def test_make_knows_its_targets_and_variables() -> None:
    makefile = (TOP / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    for line in of("make"):
        for word in COMMANDS[line][1:]:
            name, given, _ = word.partition("=")
            assert (
                (f"$({name}" in makefile or f"{name} ?=" in makefile)
                if given
                else (name in targets)
            ), line
