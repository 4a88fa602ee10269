"""Which files of this package define what a program computes, found without importing any.

The workflow gives them to a rule as `input.code`, so that an edit reruns the stages it can change
and no others. A program's files are its module and every module that this imports, at any depth.
Left out are settings (they reach a stage as parameters, defaults included) and what all programs
share without a say in their results (:data:`FRAME`).
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).parent
ROOT: Final = PACKAGE.parent
FRAME: Final = {"cxrflow.command", "cxrflow.data.layouts", "cxrflow.errors", "cxrflow.files"}


def find_module(name: str) -> Path | None:
    """The file of a module of this package by its dotted name, None when there is none."""
    path = ROOT.joinpath(*name.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


def _statements(tree: ast.AST, typing: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """Import statements, those inside functions included, those for type checkers on request."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif not (
            isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not typing
        ):
            yield from _statements(node, typing)


@cache
def imported_by(path: Path, typing: bool = False) -> frozenset[str]:
    """Modules of this package that a file imports, by dotted name.

    ``typing`` adds those that only a type checker imports. ``from cxrflow import __version__`` and
    the like import nothing that computes.
    """
    found = set()
    for statement in _statements(ast.parse(path.read_text(encoding="utf-8")), typing):
        if isinstance(statement, ast.Import):
            found |= {alias.name for alias in statement.names}
        elif statement.module and not statement.level:
            for alias in statement.names:
                inner = f"{statement.module}.{alias.name}"
                if find_module(inner):
                    found.add(inner)
                elif not alias.name.startswith("__"):
                    found.add(statement.module)
    return frozenset(name for name in found if name.split(".")[0] == "cxrflow")


def program_modules(program: str) -> dict[str, Path]:
    """A program (``pretrain.text``) and all it imports, by dotted name, with their files."""
    name = f"cxrflow.{program}"
    waiting = [f"{name}.__main__" if find_module(f"{name}.__main__") else name]
    found: dict[str, Path] = {}
    while waiting:
        name = waiting.pop()
        path = find_module(name)
        if path is None:
            raise ModuleNotFoundError(f"no module {name} in {ROOT}")
        if name not in found:
            found[name] = path
            # Importing a module runs its packages, the outermost of which computes nothing.
            parents = name.split(".")[:-1]
            waiting += [".".join(parents[:end]) for end in range(2, len(parents) + 1)]
            waiting += imported_by(path)
    return found


def source_files(*names: str) -> list[Path]:
    """The files behind ``names``: programs (``text.tokens``) or patterns (``report/*.jinja``).

    Raises:
        ModuleNotFoundError: there is no such program, or no file fits a pattern.
    """
    found: set[Path] = set()
    for name in names:
        if "/" in name:
            fitting = set(PACKAGE.glob(name))
            if not fitting:
                raise ModuleNotFoundError(f"no file fits {PACKAGE / name}")
            found |= fitting
        else:
            modules = program_modules(name)
            found |= {path for module, path in modules.items() if module not in FRAME}
    return sorted(
        path for path in found if not path.name.endswith("settings.py") and not _only_says(path)
    )


@cache
def _only_says(path: Path) -> bool:
    """Whether a module is nothing but its docstring, as most packages' are."""
    if path.suffix != ".py":
        return False
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in body)
