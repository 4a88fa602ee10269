"""`input.code` of every rule names the files that its program is made of, and data they read."""

import ast
import re
from pathlib import Path

import pytest

from cxrflow.source_files import FRAME, PACKAGE, ROOT, program_modules, source_files

RULES = ROOT.parent / "rules"
RULE = re.compile(r"^rule (\w+):\n(.*?)(?=^rule |\Z)", re.M | re.S)


def rules() -> dict[str, tuple[str, list[str]]]:
    """By rule: the program it runs, and what its ``source(...)`` names."""
    found = {}
    for file in sorted(RULES.rglob("*.smk")):
        for name, body in RULE.findall(file.read_text(encoding="utf-8")):
            # A training is started by another program, which is no part of what it computes.
            program = re.search(r"(?:python -m | {12})cxrflow\.(?!training\.launch)([\w.]+)", body)
            named = re.search(r"code=source\(([^()]*)\)", body)
            assert program and named, f"{file}: rule {name} runs no program or names no source"
            found[name] = program[1], ast.literal_eval(f"[{named[1]}]")
    return found


@pytest.mark.parametrize("rule", rules())
def test_a_rule_watches_all_its_program_is_made_of(rule: str) -> None:
    program, named = rules()[rule]
    watched = set(source_files(*named))
    assert set(source_files(program)) <= watched


def test_there_is_a_rule_for_every_stage() -> None:
    assert len(rules()) >= 17


def test_data_files_are_watched() -> None:
    """YAML rules and templates; papers reach the stages as parameters and `input.paper`."""
    watched = {path for _, named in rules().values() for path in source_files(*named)}
    data = {
        path
        for path in PACKAGE.rglob("*")
        if path.suffix in (".yaml", ".txt", ".jinja", ".css", ".js")
    }
    assert {str(p) for p in data - watched if PACKAGE / "papers" not in p.parents} == set()


def test_what_a_program_is_made_of() -> None:
    """Imports inside functions count, those for type checkers, settings and the frame do not."""
    text = {str(path.relative_to(PACKAGE)) for path in source_files("pretrain.text")}
    assert {"pretrain/text.py", "text/masking.py", "training/engine.py", "keyed_random.py"} <= text
    assert not {"pretrain/settings.py", "files.py", "pretrain/__init__.py"} & text
    assert not {"encoders/resnet.py", "images/augment.py", "objectives/simclr.py"} & text
    image = {str(path.relative_to(PACKAGE)) for path in source_files("pretrain.image")}
    assert {"encoders/resnet.py", "images/augment.py", "objectives/simclr.py"} <= image
    assert not {"encoders/cxr_bert.py", "text/masking.py"} & image


def test_the_frame_exists() -> None:
    assert set(program_modules("pretrain.text")) >= FRAME


@pytest.mark.parametrize("name", ["pretrain.nothing", "reports/rules/*.toml"])
def test_a_wrong_name_is_refused(name: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=re.escape(str(Path(name).name.split(".")[-1]))):
        source_files(name)
