"""Which code of this package defines what a program computes, found without importing any.

The workflow gives a rule the digest of that code as a parameter, so that an edit reruns the stages
it can change and no others. A program's code is its module and every module that this imports, at
any depth; what it imports by name at run time (readers, terms, encoders) the rule adds. Comments,
docstrings and the fields of settings do not count: settings reach a stage as parameters, defaults
included. Left out is what all programs share without a say in their results (:data:`FRAME`), and
what maps names to things (:data:`REGISTRIES`): whoever uses a thing names it.
"""

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import yaml

PACKAGE: Final = Path(__file__).parent
ROOT: Final = PACKAGE.parent
FRAME: Final = {"cxrflow.command", "cxrflow.errors", "cxrflow.files", "cxrflow.progress"}
REGISTRIES: Final = {"cxrflow.benchmarks.registry", "cxrflow.data.layouts"}


@cache
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


@dataclass(frozen=True)
class _Module:
    """What is known of a file of Python: what it imports, and a digest of what it computes."""

    imports: frozenset[str]
    typing: frozenset[str]
    logic: str


@cache
def _read(path: Path) -> _Module:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imports, typing = (frozenset(_imported(tree, typing)) for typing in (False, True))
    content = ast.dump(_Logic(path.name.endswith("settings.py")).visit(tree))
    return _Module(imports, typing, hashlib.sha256(content.encode()).hexdigest())


def _imported(tree: ast.AST, typing: bool) -> Iterator[str]:
    for statement in _statements(tree, typing):
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        elif statement.module and not statement.level:
            inner = [f"{statement.module}.{alias.name}" for alias in statement.names]
            names = [name for name in inner if find_module(name)]
            # ``from cxrflow import __version__`` and the like import nothing that computes.
            if any(not find_module(name) and ".__" not in name for name in inner):
                names.append(statement.module)
        else:
            names = []
        yield from (name for name in names if name.split(".")[0] == "cxrflow")


def imported_by(path: Path, typing: bool = False) -> frozenset[str]:
    """Modules of this package that a file imports, by dotted name.

    ``typing`` adds those that only a type checker imports.
    """
    return _read(path).typing if typing else _read(path).imports


@cache
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
    """The files behind ``names``: programs (``text.tokens``) or patterns (``page/*.jinja``).

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
            found |= {modules[module] for module in modules.keys() - FRAME - REGISTRIES}
    return sorted(found)


def code_digest(*names: str) -> str:
    """A short digest of the code behind ``names`` (see :func:`source_files`)."""
    total = hashlib.sha256()
    for path in source_files(*names):
        total.update(f"{path.relative_to(PACKAGE)} {_logic(path)}\n".encode())
    return total.hexdigest()[:16]


@cache
def _logic(path: Path) -> str:
    """What of a file can change a result, as a digest."""
    if path.suffix == ".py":
        return _read(path).logic
    content = path.read_bytes()
    if path.suffix == ".yaml":
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        content = repr(yaml.load(content, loader)).encode()
    return hashlib.sha256(content).hexdigest()


class _Logic(ast.NodeTransformer):
    """Takes docstrings and imports out of a module, and of settings the fields and empty classes.

    A changed import shows in the modules that are imported, or in the names that are used.
    """

    def __init__(self, settings: bool) -> None:
        self.settings = settings

    def visit_Import(self, node: ast.Import) -> None:
        return None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        return None

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if isinstance(node.value, ast.Constant) else node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef | None:
        self.generic_visit(node)
        if self.settings:
            node.body = [item for item in node.body if not isinstance(item, ast.AnnAssign)]
            if not node.body:
                return None
        return node
