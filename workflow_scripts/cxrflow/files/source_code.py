"""Which code of this package defines what a program computes, found without importing any.

The workflow gives a rule the digest of that code as a parameter, so that an edit reruns the stages
it can change and no others. A program's code is its module and every module that this imports, at
any depth; what it imports by name at run time (readers, terms) the rule adds. Comments, docstrings
and where an import stands do not count, nor does what all programs share without a say in their
results (:data:`FRAME`) or what maps names to things (registries): whoever uses a thing names it.

Of a settings module only what is used counts, and of a class there neither fields nor validators:
the values that follow from them are a parameter of the stage. Its properties and methods do count,
and so do those of its fields' classes, but not of a list of terms or of kinds: a model uses some of
them. What values a field admits does not count.
"""

import ast
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import yaml

PACKAGE: Final = Path(__file__).parents[1]
ROOT: Final = PACKAGE.parent
FRAME: Final = {
    f"cxrflow.{name}"
    for name in (
        "programs.program",
        "compute.progress",
        "errors",
        "files.atomic",
        "files.outputs",
        "files.source_code",
        "files.yaml_file",
        "settings",
    )
}
REGISTRIES: Final = {"cxrflow.data.layouts"}  # and every module called registry
TERMS: Final = "Terms"  # base of the classes that list terms
KINDS: Final = "OneKind("  # in the definition of a union that lists kinds
VALIDATORS: Final = {"field_validator", "model_validator"}


@cache
def find_module(name: str) -> Path | None:
    """The file of a module of this package by its dotted name, None when there is none."""
    path = ROOT.joinpath(*name.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


def is_settings(module: str) -> bool:
    """Whether it is a module of settings, of which only the used part counts."""
    return module.endswith("settings")


def _counts(module: str) -> bool:
    return not (module in FRAME | REGISTRIES or module.endswith(".registry"))


# --- what a file imports --------------------------------------------------------------------------


@dataclass(frozen=True)
class Import:
    """A module of this package, and the name that is imported from it; None: the module itself."""

    module: str
    name: str | None = None


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _statements(tree: ast.AST, typing: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """Import statements, those inside functions included, those for type checkers on request."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif not isinstance(node, ast.expr) and (typing or not _is_for_type_checkers(node)):
            yield from _statements(node, typing)


def _is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _imports(statements: Iterable[ast.Import | ast.ImportFrom]) -> frozenset[Import]:
    """What import statements import from this package."""
    imports: set[Import] = set()
    for statement in statements:
        if isinstance(statement, ast.Import):
            imports |= {Import(alias.name) for alias in statement.names}
        elif statement.module and not statement.level:
            for alias in statement.names:
                inner = f"{statement.module}.{alias.name}"
                # ``from cxrflow import __version__`` and the like import nothing that computes.
                if find_module(inner):
                    imports.add(Import(inner))
                elif not alias.name.startswith("__"):
                    imports.add(Import(statement.module, alias.name))
    return frozenset(item for item in imports if item.module.split(".")[0] == "cxrflow")


def imported_by(path: Path, typing: bool = False) -> frozenset[str]:
    """Modules of this package that a file imports, by dotted name.

    ``typing`` adds those that only a type checker imports.
    """
    statements = _statements(ast.parse(_text(path)), typing)
    return frozenset(item.module for item in _imports(statements))


# --- a program's code -----------------------------------------------------------------------------


@cache
def _code_of(program: str) -> dict[Path, str]:
    """Digests of what counts of a program (``pretrain.text``), by file."""
    name = f"cxrflow.{program}"
    waiting = {Import(f"{name}.__main__" if find_module(f"{name}.__main__") else name)}
    visited: set[Import] = set()
    logic_by_file: dict[Path, set[str]] = {}
    while waiting:
        item = waiting.pop()
        if item in visited or not _counts(item.module):
            continue
        visited.add(item)
        path = find_module(item.module)
        if path is None:
            raise ModuleNotFoundError(f"no module {item.module} in {ROOT}")
        # Importing a module runs its packages, the outermost of which computes nothing.
        parents = item.module.split(".")[:-1]
        waiting |= {Import(".".join(parents[:end])) for end in range(2, len(parents) + 1)}
        if is_settings(item.module) and item.name is not None:
            definition = _definitions(_text(path)).get(item.name)
            if definition is None:  # imported there from elsewhere
                waiting |= {
                    item_imported
                    for item_imported in _module(_text(path)).imports
                    if item_imported.name == item.name
                }
                continue
            if definition.logic:
                logic_by_file.setdefault(path, set()).add(definition.logic)
            imported = {
                item_imported.name: item_imported for item_imported in _module(_text(path)).imports
            }
            waiting |= {
                imported.get(name_used, Import(item.module, name_used))
                for name_used in definition.uses
            }
        elif is_settings(item.module):
            waiting |= {Import(item.module, name_used) for name_used in _definitions(_text(path))}
        else:
            logic_by_file.setdefault(path, set()).add(_module(_text(path)).logic)
            waiting |= _module(_text(path)).imports
    return {path: "".join(sorted(digests)) for path, digests in logic_by_file.items()}


def source_files(*names: str) -> list[Path]:
    """The files behind ``names``: programs (``text.tokens``) or patterns (``page/*.jinja``).

    Raises:
        ModuleNotFoundError: there is no such program, or no file fits a pattern.
    """
    return sorted(_digests(*names))


def code_digest(*names: str) -> str:
    """A short digest of the code behind ``names`` (see :func:`source_files`)."""
    total = hashlib.sha256()
    for path, digest in sorted(_digests(*names).items()):
        total.update(f"{path.relative_to(PACKAGE)} {digest}\n".encode())
    return total.hexdigest()[:16]


def _digests(*names: str) -> dict[Path, str]:
    digests: dict[Path, str] = {}
    for name in names:
        if "/" not in name:
            for path, digest in _code_of(name).items():
                digests[path] = digests.get(path, "") + digest
            continue
        fitting = {path: _logic(_text(path), path.suffix) for path in PACKAGE.glob(name)}
        if not fitting:
            raise ModuleNotFoundError(f"no file fits {PACKAGE / name}")
        digests |= fitting
    return digests


# --- what of a file can change a result -----------------------------------------------------------


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class _Module:
    """What a module imports from this package, and what of it can change a result, as a digest."""

    imports: frozenset[Import]
    logic: str


@cache
def _module(text: str) -> _Module:
    """What counts of a module with this text; its syntax tree is not kept."""
    tree = ast.parse(text)
    statements = list(_statements(tree, typing=False))
    names = sorted({name for statement in statements for name in _names(statement)})
    logic = _digest(f"{names} {ast.dump(_Logic().generic_visit(tree))}".encode())
    return _Module(_imports(statements), logic)


@cache
def _logic(text: str, suffix: str) -> str:
    """What of a file can change a result, as a digest."""
    if suffix == ".py":
        return _module(text).logic
    if suffix == ".yaml":
        text = repr(yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    return _digest(text.encode())


def _names(statement: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """What an import binds that can decide what is computed."""
    module = getattr(statement, "module", None) or ""
    if module not in ("typing", "collections.abc") and not is_settings(module):
        yield from (f"{module}.{alias.name} {alias.asname}" for alias in statement.names)


class _Logic(ast.NodeTransformer):
    """Takes docstrings out of a module, and imports, which count wherever they stand."""

    def visit(self, node: ast.AST) -> ast.AST | None:
        return node if isinstance(node, ast.expr) else super().visit(node)  # quick: no statement

    def visit_Import(self, node: ast.Import) -> None:
        return None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        return None

    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if _is_for_type_checkers(node) else self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)


@dataclass(frozen=True)
class _Definition:
    """A class, function or constant of a settings module: a digest of what counts, names used."""

    logic: str
    uses: frozenset[str]


@cache
def _definitions(text: str) -> dict[str, _Definition]:
    """What a settings module defines, by name."""
    nodes: dict[str, ast.stmt] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            nodes[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign) and KINDS not in ast.unparse(node):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            nodes |= {target.id: node for target in targets if isinstance(target, ast.Name)}
    imports = {item.name for item in _module(text).imports}
    classes = {name for name, node in nodes.items() if isinstance(node, ast.ClassDef)}
    return {
        name: _definition(name, node, {*nodes, *imports}, {*classes, *imports})
        for name, node in nodes.items()
    }


def _definition(
    name: str, node: ast.stmt, names: set[str | None], classes: set[str | None]
) -> _Definition:
    counted: list[ast.AST] = [node]
    name_sources: list[ast.AST] = [node]
    annotations: list[ast.AST] = []
    if isinstance(node, ast.ClassDef):
        fields = [item for item in node.body if isinstance(item, ast.AnnAssign)]
        counted = [item for item in node.body if item not in fields and not _validates(item)]
        name_sources = [*counted, *node.bases]
        if TERMS not in map(ast.unparse, node.bases):
            annotations = [field.annotation for field in fields]
    uses = _names_in(name_sources) & names | _names_in(annotations) & classes
    logic = [_Logic().visit(source) for source in counted]
    text = "".join(ast.dump(source) for source in logic if source is not None)
    digest = _digest(f"{name} {text}".encode()) if text else ""
    return _Definition(digest, frozenset(uses - {name}))


def _names_in(nodes: Iterable[ast.AST]) -> set[str | None]:
    return {part.id for node in nodes for part in ast.walk(node) if isinstance(part, ast.Name)}


def _validates(item: ast.stmt) -> bool:
    """Whether it is a validator: what it makes of values is in the values."""
    decorators = getattr(item, "decorator_list", [])
    return any(ast.unparse(decorator).partition("(")[0] in VALIDATORS for decorator in decorators)
