"""The code of our packages that determines what a program computes, found by parsing alone.

Each rule has the digest of its code as a parameter, so an edit reruns exactly the stages that it
can change. The code of a program is its module and all modules that it imports, directly or not.
The rule adds what is imported by name at run time, such as readers and terms. These do not count:

- comments, docstrings, and the place of an import;
- modules that all programs share and that change no result (:data:`FRAME`);
- registries, which map names to modules: a rule names the modules it uses;
- the public names of a package that imports each when it is asked for (``__getattr__``).

Of a settings module only the used definitions count. Fields and validators do not, because the
values they give are a parameter of the stage. Properties and methods count, also those of the
classes of fields, except in a list of terms or of kinds, of which a model uses only some. The
values that a field admits do not count.
"""

import ast
import hashlib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import yaml

from cxrflow.programs.outside_code import outside_files

PACKAGE: Final = Path(__file__).parents[1]
#: The folders of the packages whose code counts, by name; a light install lacks some.
PACKAGES: Final = {
    name: Path(spec.origin).parent
    for name in ("cxrflow", "cxr_files", "cxr_hospital", "cxr_labels")
    if (spec := find_spec(name)) is not None and spec.origin is not None
}
FRAME: Final = {
    "cxrflow.kinds",
    "cxrflow.programs.source_code",
    *(
        f"cxr_files.{name}"
        for name in (
            *("atomic", "errors", "extras", "outputs", "program", "progress", "reading"),
            *("settings", "weights", "yaml_file"),
        )
    ),
}
REGISTRIES: Final = {"cxrflow.data.layouts"}  # and every module called registry
TERMS: Final = "Terms"  # base of the classes that list terms
KINDS: Final = "OneKind("  # in the definition of a union that lists kinds
PUBLIC: Final = ("__getattr__", "__dir__", "__all__")  # of a package, at its top
VALIDATORS: Final = {"field_validator", "model_validator"}


@cache
def find_module(name: str) -> Path | None:
    """Return the file of a module of our packages by its dotted name, or None."""
    package, *rest = name.split(".")
    if package not in PACKAGES:
        return None
    path = PACKAGES[package].joinpath(*rest)
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


def is_settings(module: str) -> bool:
    """True for a module of settings, of which only the used definitions count."""
    return module.endswith("settings")


def _counts(module: str) -> bool:
    return not (module in FRAME | REGISTRIES or module.endswith(".registry"))


# --- what a file imports --------------------------------------------------------------------------


@dataclass(frozen=True)
class Import:
    """An imported module of our packages and the imported name; None for the module itself."""

    module: str
    name: str | None = None


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _statements(tree: ast.AST, typing: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield import statements, also inside functions; those for type checkers on request."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif not isinstance(node, ast.expr) and (typing or not _is_for_type_checkers(node)):
            yield from _statements(node, typing)


def _is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _imports(statements: Iterable[ast.Import | ast.ImportFrom]) -> frozenset[Import]:
    """Return the imports from our packages of these statements."""
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
    return frozenset(item for item in imports if item.module.split(".")[0] in PACKAGES)


def imported_by(path: Path, typing: bool = False) -> frozenset[str]:
    """Return the modules of our packages that a file imports, by dotted name.

    ``typing`` adds those that only a type checker imports.
    """
    statements = _statements(ast.parse(_text(path)), typing)
    return frozenset(item.module for item in _imports(statements))


# --- a program's code -----------------------------------------------------------------------------


def full_name(program: str) -> str:
    """Return the module of a program: ``text.tokens`` is ``cxrflow.text.tokens``."""
    return program if program.split(".")[0] in PACKAGES else f"cxrflow.{program}"


@cache
def _code_of(program: str) -> dict[Path, str]:
    """Return the digest of each file behind a program (``pretrain.text``, ``module:Class``)."""
    if ":" in program:
        modules = {path: _module(_text(path)) for path in outside_files(program)}
        ours = _code_behind({item for module in modules.values() for item in module.imports})
        return {**ours, **{path: module.logic for path, module in modules.items()}}
    name = full_name(program)
    if hasattr(sys.modules.get(name), "stands_for"):
        return {}  # its code is that of a kind, which is named beside it
    return _code_behind({Import(f"{name}.__main__" if find_module(f"{name}.__main__") else name)})


def _code_behind(imports: set[Import]) -> dict[Path, str]:
    """Return the digest of each file behind these imports of our packages."""
    waiting = set(imports)
    visited: set[Import] = set()
    logic_by_file: dict[Path, set[str]] = {}
    while waiting:
        item = waiting.pop()
        if item in visited or not _counts(item.module):
            continue
        visited.add(item)
        path = find_module(item.module)
        if path is None:
            raise ModuleNotFoundError(f"no module {item.module} in {', '.join(PACKAGES)}")
        # Importing a module runs its packages, the outermost of which computes nothing.
        parents = item.module.split(".")[:-1]
        waiting |= {Import(".".join(parents[:end])) for end in range(2, len(parents) + 1)}
        module = _module(_text(path))
        if not is_settings(item.module):
            logic_by_file.setdefault(path, set()).add(module.logic)
            waiting |= module.imports
            continue
        definitions = _definitions(_text(path))
        if item.name is None:
            waiting |= {Import(item.module, name) for name in definitions}
            continue
        # What is not defined there is imported there from elsewhere.
        logic, uses = "", frozenset([item.name])
        if item.name in definitions:
            logic, uses = definitions[item.name].logic, definitions[item.name].uses
        if logic:
            logic_by_file.setdefault(path, set()).add(logic)
        imported = {statement.name: statement for statement in module.imports}
        waiting |= {imported.get(name, Import(item.module, name)) for name in uses}
    return {path: "".join(sorted(digests)) for path, digests in logic_by_file.items()}


def source_files(*names: str) -> list[Path]:
    """Return the files behind programs (``text.tokens``) or patterns (``page/*.jinja``).

    Raises:
        ModuleNotFoundError: there is no such program, or no file fits a pattern.
    """
    return sorted(_digests(*names))


def code_digest(*names: str) -> str:
    """Return a short digest of the code behind ``names`` (see :func:`source_files`)."""
    total = hashlib.sha256()
    digests = ((_place(path), digest) for path, digest in _digests(*names).items())
    for place, digest in sorted(digests):
        total.update(f"{place} {digest}\n".encode())
    return total.hexdigest()[:16]


@cache
def _place(path: Path) -> Path:
    """Return where a file lies in its package; of one outside of all the name alone."""
    for name, folder in PACKAGES.items():
        if path.is_relative_to(folder):
            return Path(name, path.relative_to(folder))
    return Path(path.name)


def _fitting(pattern: str) -> Iterator[Path]:
    """Yield the files of a pattern: below the package that it names first, or below cxrflow."""
    package, _, rest = pattern.partition("/")
    folder, pattern = (PACKAGES[package], rest) if package in PACKAGES else (PACKAGE, pattern)
    yield from folder.glob(pattern)


def _digests(*names: str) -> dict[Path, str]:
    digests: dict[Path, str] = {}
    for name in names:
        if "/" not in name:
            for path, digest in _code_of(name).items():
                digests[path] = digests.get(path, "") + digest
            continue
        fitting = {path: _logic(_text(path), path.suffix) for path in _fitting(name)}
        if not fitting:
            raise ModuleNotFoundError(f"no file fits {name}")
        digests |= fitting
    return digests


# --- what of a file can change a result -----------------------------------------------------------


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


_ABSENT: Final = object()


def _dump(node: object) -> str:
    """Return a syntax tree as ``ast.dump`` of Python 3.11 does, whatever Python this is.

    3.12 gives functions and classes ``type_params``, 3.13 leaves out empty lists: code would seem
    edited to a run that another Python has begun.
    """
    if isinstance(node, list):
        return f"[{', '.join(map(_dump, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    kind, shown = type(node), []
    for name in node._fields:
        value = getattr(node, name, _ABSENT)
        if value is _ABSENT or (name == "type_params" and value == []):
            continue
        if value is not None or getattr(kind, name, ...) is not None:
            shown.append(f"{name}={_dump(value)}")
    return f"{kind.__name__}({', '.join(shown)})"


@dataclass(frozen=True)
class _Module:
    """The imports of a module from our packages, and the digest of its logic."""

    imports: frozenset[Import]
    logic: str


def _is_public(node: ast.stmt) -> bool:
    """True of what only names a package's public names, to all but type checkers or to all."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "not TYPE_CHECKING":
        return all(map(_is_public, node.body))
    return _defined(node) in PUBLIC


@cache
def _module(text: str) -> _Module:
    """Parse a module; its syntax tree is not kept."""
    tree = ast.parse(text)
    # To walk a tree takes as long as to parse it.
    if PUBLIC[0] in text and any(
        getattr(node, "name", None) == PUBLIC[0] for node in ast.walk(tree)
    ):
        tree.body = [node for node in tree.body if not _is_public(node)]
    statements = list(_statements(tree, typing=False))
    names = sorted({name for statement in statements for name in _names(statement)})
    logic = _digest(f"{names} {_dump(_Logic().generic_visit(tree))}".encode())
    return _Module(_imports(statements), logic)


@cache
def _logic(text: str, suffix: str) -> str:
    """Return the digest of what can change a result in a file."""
    if suffix == ".py":
        return _module(text).logic
    if suffix == ".yaml":
        text = repr(yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    return _digest(text.encode())


def _names(statement: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """Yield the imported names that can change what is computed."""
    module = getattr(statement, "module", None) or ""
    if module not in ("typing", "collections.abc") and not is_settings(module):
        yield from (f"{module}.{alias.name} {alias.asname}" for alias in statement.names)


def _defined(node: ast.stmt) -> str | None:
    """Return the name of a function, or that a value is assigned to."""
    if isinstance(node, ast.Assign):
        return ast.unparse(node.targets[0])
    return getattr(node, "name", None)


class _Logic(ast.NodeTransformer):
    """Removes docstrings and imports, which count wherever they are."""

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
    """A class, function or constant of a settings module: digest of its logic, names it uses."""

    logic: str
    uses: frozenset[str]


@cache
def _definitions(text: str) -> dict[str, _Definition]:
    """Return the definitions of a settings module by name."""
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
    text = "".join(_dump(source) for source in logic if source is not None)
    digest = _digest(f"{name} {text}".encode()) if text else ""
    return _Definition(digest, frozenset(uses - {name}))


def _names_in(nodes: Iterable[ast.AST]) -> set[str]:
    return {name.id for node in nodes for name in ast.walk(node) if isinstance(name, ast.Name)}


def _validates(item: ast.stmt) -> bool:
    """True for a validator: its effect is already in the values."""
    decorators = getattr(item, "decorator_list", [])
    return any(ast.unparse(decorator).partition("(")[0] in VALIDATORS for decorator in decorators)
