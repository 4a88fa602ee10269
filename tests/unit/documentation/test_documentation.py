"""What the documentation names exists: programs, files, make targets, keys of the configuration."""

import importlib.util
import re
import textwrap
from itertools import takewhile
from pathlib import Path

import pytest

from cxr_files.commands import OWN
from cxrflow.config import load_config
from cxrflow.config.schema import Values
from cxrflow.programs.registry import PROGRAMS
from cxrflow.programs.source_code import PACKAGE, PACKAGES, find_module

TOP = PACKAGE.parents[1]
PAGES = [
    TOP / "README.md",
    TOP / "CONTRIBUTING.md",
    TOP / "results/README.md",
    *sorted((TOP / "docs").glob("*.md")),
    *sorted((TOP / "docs/archive").glob("*.md")),
]
PROGRAM = re.compile(r"python -m (cxr[a-z_.]*)")
COMMAND = re.compile(r"(?:^ {4,}(?:\$ )?(?:\w+=\S+ )?|`)cxrflow ([a-z_]+)", re.MULTILINE)
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)*/?")
SUFFIXES = {".py", ".md", ".yaml", ".smk", ".jinja", ".txt", ".toml", ".sh"}
# Files that are named but belong to a data set, a product of a run or a reader's own configuration.
ELSEWHERE = {
    "ILSVRC2012_validation_ground_truth.txt",
    "SHA256SUMS.txt",
    *("mine.yaml", "three_rows.yaml", "twelve_epochs.yaml"),  # that a page's reader writes
    "vocab.txt",
    "txt/section_parser.py",
} | {
    *(f"labels/{part}_COVIDx4.txt" for part in ("train", "test")),
    *(f"{part}_list.txt" for part in ("train", "val", "train_val", "test")),
}


def programs() -> list[str]:
    """Every program named in a page or a rule."""
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    texts += [rule.read_text(encoding="utf-8") for rule in (TOP / "rules").rglob("*.smk")]
    return sorted({name.rstrip(".") for text in texts for name in PROGRAM.findall(text)})


@pytest.mark.parametrize("name", programs())
def test_named_programs_exist(name: str) -> None:
    if importlib.util.find_spec(f"{name}.__main__" if is_package(name) else name) is None:
        pytest.fail(f"there is no program {name}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_commands_exist(page: Path) -> None:
    assert set(COMMAND.findall(page.read_text(encoding="utf-8"))) <= PROGRAMS.keys() | {*OWN}


# Folders of results whose next level is a paper's, by what stands there in the path grammar.
OF_PAPERS = (
    "models|state|cohorts|curation|pixels|registration|features|vocabulary|tokens|benchmarks"
)
LABELS = "label_agreement"  # which no paper has


def test_paths_of_results_begin_with_their_paper() -> None:
    """In pages, in the docstrings and the help of programs."""
    wrong = re.compile(rf"(?:results>?|^\| `)/?(?:{OF_PAPERS})/(?!<paper>/|{LABELS}/)<\w+>", re.M)
    files = [*PAGES, TOP / "Snakefile", *PACKAGE.rglob("*.py")]
    found = {str(file): wrong.findall(file.read_text(encoding="utf-8")) for file in files}
    assert {file: lines for file, lines in found.items() if lines} == {}


def is_package(name: str) -> bool:
    found = find_module(name)
    return found is not None and found.name == "__init__.py"


def exists(named: str) -> bool:
    """Whether a path is there, from the top, from the package, or of that name anywhere in them."""
    packages = tuple(PACKAGES.values())
    parents = (package.parent for package in packages)
    if any((folder / named).exists() for folder in (TOP, *parents, *packages)):
        return True
    return "/" not in named and any(any(f.rglob(named)) for f in (*packages, TOP / "tests"))


def named_files(page: Path) -> set[str]:
    """Paths in code spans that look like files of this repository."""
    found = set()
    for span in CODE.findall(page.read_text(encoding="utf-8")):
        own = span.startswith(("workflow_scripts/", "rules/", "tests/", "docs/", "envs/", "slurm/"))
        if PATH.fullmatch(span) and (own or Path(span).suffix in SUFFIXES):
            found.add(span)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_files_exist(page: Path) -> None:
    missing = {
        name
        for name in named_files(page) - ELSEWHERE
        if not exists(name) and not name.startswith("results/")
    }
    assert missing == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tables_are_whole(page: Path) -> None:
    """A blank line would end a table, and leave the rows behind it as text."""
    lines = page.read_text(encoding="utf-8").splitlines()
    broken = [
        row
        for blank, row, next_row in zip(lines, lines[1:], [*lines[2:], ""], strict=False)
        if not blank and row.startswith("|") and not re.fullmatch(r"\|[-:| ]+\|", next_row)
    ]
    assert broken == []


def test_every_page_is_linked() -> None:
    texts = {page: page.read_text(encoding="utf-8") for page in PAGES}
    for page in (TOP / "docs").glob("*.md"):
        others = "".join(text for other, text in texts.items() if other != page)
        assert page.name in others, f"docs/{page.name} is named on no other page"


def test_named_make_targets_exist() -> None:
    targets = re.findall(r"^([a-z]+):", (TOP / "Makefile").read_text(encoding="utf-8"), re.M)
    for page in PAGES:
        for span in CODE.findall(page.read_text(encoding="utf-8")):
            if match := re.match(r"make ([a-z]+)", span):
                assert match[1] in targets, f"{page.name}: {span}"


def test_every_key_of_the_configuration_is_explained() -> None:
    explained = (TOP / "docs/configuration.md").read_text(encoding="utf-8")
    for key in Values.model_fields:
        assert f"`{key}`" in explained, key


def test_the_example_of_own_data_is_a_configuration(tmp_path: Path) -> None:
    page = (TOP / "docs/configuration.md").read_text(encoding="utf-8")
    section = page.partition("## Your own data\n")[2].partition("\n## ")[0]
    lines = section.partition("    # mine.yaml\n")[2].splitlines()
    block = "\n".join(takewhile(lambda line: line.startswith("    "), lines))
    mine = tmp_path / "mine.yaml"
    mine.write_text(textwrap.dedent(block), encoding="utf-8")
    config = load_config([TOP / "config.yaml", mine], check_roots=False)
    assert config.datasets == ["my_hospital"]
    assert config.models["biovil/biovil"].trainable
