"""Public names of the package, which are imported when they are asked for."""

import ast
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from cxr_files.extras import naming_extras
from cxrflow.programs.source_code import find_module


def public_name(package: str, name: str) -> Any:
    """Import what a package offers under ``name``; its imports for type checkers say from where.

    Raises:
        AttributeError: the package offers no such name.
        ModuleNotFoundError: a library is missing; the message names the extra that brings it.
    """
    module = _origins(package).get(name)
    if module is None:
        raise AttributeError(f"module '{package}' has no attribute '{name}'")
    with naming_extras():
        if find_module(f"{module}.{name}"):
            return import_module(f"{module}.{name}")
        return getattr(import_module(module), name)


def names_of(package: str) -> list[str]:
    """Return what ``dir`` shows of a package, and TAB completes.

    What needs a library that is not installed is left out, since ``help`` imports all that it sees.
    """
    module = import_module(package)
    names = set(module.__all__)
    if find_spec("torch") is None:
        names -= names if package == "cxrflow.losses" else {"PixelStore", "load"}
    return sorted({*(name for name in vars(module) if name.startswith("__")), *names})


@cache
def _origins(package: str) -> dict[str, str]:
    """The module of each public name."""
    path = find_module(package)
    assert path is not None, package
    blocks = [
        node.body
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    return {
        alias.asname or alias.name: statement.module
        for block in blocks
        for statement in block
        if isinstance(statement, ast.ImportFrom) and statement.module
        for alias in statement.names
    }
