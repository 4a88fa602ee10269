"""The package without its workflow engine: every module imports, every program starts.

The programs run inside rules, but also by hand, in notebooks and on machines that have no
Snakemake; only ``Snakefile`` and ``rules/`` may know it.
"""

import ast
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from command_options import run_to_end
from cxrflow.files.source_code import PACKAGE, ROOT

# In an interpreter of its own: a finder before all others that knows no snakemake, then every
# program's help, and which of the libraries that take seconds to import it has imported, then every
# module. Prints what was imported and what each program said.
CODE = """
import contextlib, importlib, io, json, pkgutil, runpy, sys

class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0].startswith("snakemake"):
            raise ModuleNotFoundError(f"{name} is hidden", name=name)

sys.meta_path.insert(0, Without())
try:
    import snakemake
except ModuleNotFoundError:
    hidden = True

def fail(name):
    raise

said, slow = {}, {}
for name in sys.argv[1:]:
    text, sys.argv = io.StringIO(), [name, "--help"]
    with contextlib.redirect_stdout(text):
        try:
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        except SystemExit as end:
            said[name] = [end.code, text.getvalue()]
    slow[name] = sorted({"torch", "transformers", "pandas", "sklearn", "stanza"} & set(sys.modules))

import cxrflow
packages = pkgutil.walk_packages(cxrflow.__path__, "cxrflow.", onerror=fail)
modules = [importlib.import_module(found.name).__name__ for found in packages]
print(json.dumps({"hidden": hidden, "modules": modules, "said": said, "slow": slow}))
"""


def name_of(path: Path) -> str:
    """The module a file holds, as imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
PROGRAMS = {  # what `python -m` can run
    name.removesuffix(".__main__")
    for name, text in MODULES.items()
    if 'if __name__ == "__main__":' in text
}


@pytest.fixture(scope="module")
def started() -> dict[str, Any]:
    """What the interpreter without snakemake printed."""
    done = run_to_end(
        [sys.executable, "-W", "ignore", "-c", CODE, *sorted(PROGRAMS)], cwd=ROOT, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_every_module_imports(started: dict[str, Any]) -> None:
    assert started["hidden"]
    assert {"cxrflow", *started["modules"]} == set(MODULES)


def test_every_program_starts(started: dict[str, Any]) -> None:
    assert set(started["said"]) == PROGRAMS
    for name, (code, text) in started["said"].items():
        assert not code and text.startswith("usage: cxrflow "), name


def test_help_does_not_wait_for_imports(started: dict[str, Any]) -> None:
    """Nor does a mistake in the arguments; a library once imported counts for those after it."""
    assert {name: slow for name, slow in started["slow"].items() if slow} == {}


def test_no_module_imports_it_not_even_inside_a_function() -> None:
    for module, text in MODULES.items():
        for node in ast.walk(ast.parse(text)):
            named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            named += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in named if name.startswith("snakemake")], module
