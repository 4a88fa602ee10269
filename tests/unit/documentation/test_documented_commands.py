"""Commands that the documentation shows: each is accepted by the program that it starts.

The programs of this package parse their options and stop there, so nothing is run. Of Snakemake
and make the options, targets, files and keys are looked up. What takes seconds is run elsewhere:
commands for what a demonstration leaves (integration/test_printed_commands.py), the notebooks
(test_notebook.py, integration/test_notebooks.py).
"""

import argparse
import re
import runpy
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import pytest

from cxr_files.commands import OWN as OWN_NAMES
from cxr_hospital.__main__ import PROGRAMS as OF_HOSPITAL
from cxr_labels.command import main as label_texts
from cxrflow.config.configuration import Config
from cxrflow.config.schema import Values
from cxrflow.programs.registry import PROGRAMS
from cxrflow.programs.source_code import PACKAGE, full_name
from printed_commands import COMMANDS, TOP, of

# Files of the reader's own that a command may name.
OWN = {"elsewhere.yaml", "mine.yaml", "my_losses.yaml", "my_method.yaml", "my_shares.yaml"}
OWN |= {"other_images.yaml", "released.yaml", "three_rows.yaml", "twelve_epochs.yaml"}


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
    if name in OWN_NAMES:  # of the command itself: test_command_line.py
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


@pytest.mark.parametrize("line", [*of("cxr-hospital"), *of("cxr-labels")])
def test_the_other_packages_accept_their_options(line: str, parse_alone) -> None:
    words = COMMANDS[line][1:]
    main = label_texts
    if COMMANDS[line][0] == "cxr-hospital":
        main = import_module(OF_HOSPITAL[words.pop(0)]).main
    if words:  # else the command is only named
        with pytest.raises(Parsed):
            main(words)


@pytest.mark.parametrize("line", of("python"))
def test_python_finds_what_it_starts(line: str, parse_alone, monkeypatch) -> None:
    _, option, *words = COMMANDS[line]
    if option == "-c":
        compile(words[0], line, "exec")
    elif words[:1] == ["pytest"]:
        markers = tomllib.loads((TOP / "pyproject.toml").read_text())["tool"]["pytest"]
        known = {text.partition(":")[0] for text in markers["ini_options"]["markers"]}
        for before, word in pairwise(words):
            assert word.startswith("-") or before in ("-m", "-n") or (TOP / word).exists(), line
            assert before != "-m" or word in known, line
    elif option != "-m" or words != ["cxrflow"]:  # which needs a command
        name, *words = words if option == "-m" else (option, *words)
        monkeypatch.setattr(sys, "argv", [name, *words])
        monkeypatch.syspath_prepend(TOP)
        with pytest.raises(Parsed):
            if option == "-m":
                runpy.run_module(name, run_name="__main__")
            else:
                runpy.run_path(str(TOP / name), run_name="__main__")


def test_snakemake_accepts_its_options_targets_and_keys() -> None:
    from snakemake.cli import get_argument_parser

    parser = get_argument_parser()
    rules = "".join(file.read_text(encoding="utf-8") for file in (TOP / "rules").rglob("*.smk"))
    rules += (TOP / "Snakefile").read_text(encoding="utf-8")
    papers = {file.stem: file.read_text(encoding="utf-8") for file in PACKAGE.glob("papers/*.yaml")}
    for line in of("snakemake"):
        options = parser.parse_args(COMMANDS[line][1:])
        for target in options.targets:
            if target.startswith("results/models/"):
                paper, model = Path(target).parts[2:4]
                assert f"\n  {model}:" in papers[paper], line
            elif target.startswith("results/tables/"):
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


def read_by(words: list[str]) -> Iterator[str]:
    """What of this run's results a command reads."""
    for option, word in pairwise(["", *words]):
        if word.startswith("results/") and option != "--output":
            yield word


def test_what_a_command_reads_the_demonstration_leaves_or_its_page_makes(
    overlay: Callable[..., Config],
) -> None:
    """Results of other configurations lie in folders of theirs, such as results/study."""
    run = overlay({})
    whole = run.needs(*((paper, "headline") for paper in run.library.chosen))
    left = {f"results/models/{model}/seed0" for model in whole.models}
    left |= {f"results/cohorts/{name}" for name in whole.cohorts}
    left |= {f"results/pixels/{name}/{geometry}" for name, geometry in whole.stores}
    left |= {"results/report/config.json"}
    roots = {Path(place).parts[1] for place in left}
    read = 0
    for line in of("cxrflow"):
        page = line.partition(":")[0]
        made = [
            word
            for other, words in COMMANDS.items()
            if words[0] == "snakemake" and other.startswith(f"{page}:")
            for word in words
        ]
        for place in read_by(COMMANDS[line]):
            if Path(place).parts[1:2] and Path(place).parts[1] in roots:
                read += 1
                assert place in left or any(word.startswith(f"{place}/") for word in made), line
    assert read > 8


def test_a_file_from_elsewhere_trains_nothing_that_the_demonstration_has_not(
    overlay: Callable[..., Config], paper: Callable[..., str]
) -> None:
    text = (TOP / "docs/external_models.md").read_text(encoding="utf-8")
    for example in re.findall(r"    # elsewhere\.yaml\n((?:    .*\n)+)", text):
        demonstration = overlay({})
        left = demonstration.needs(*((name, "headline") for name in demonstration.library.chosen))
        run = overlay({"papers": [paper(textwrap.dedent(example), "elsewhere.yaml")]})
        asked = run.needs(("elsewhere", "headline"))
        assert asked.models and set(asked.models) <= set(left.models)
        assert any(
            model.startswith("elsewhere/") for _, model in run.results["elsewhere"].all("headline")
        )


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
