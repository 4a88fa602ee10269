"""The files of code outside of the package, which a user's settings name as ``module:Class``."""

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path


def outside_files(kind: str) -> list[Path]:
    """The file of ``module:Class`` and all files of its package that it imports, in order.

    The package of a single file is the folder that it lies in, unless that is Python's own for all
    libraries.

    Raises:
        ModuleNotFoundError: there is no such module.
    """
    first = kind.partition(":")[0]
    spec = find_spec(first)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"no module {first}", name=first)
    path = Path(spec.origin)
    is_package = path.name == "__init__.py"
    root = path.parents[first.count(".") + is_package]
    alone = "." not in first and not is_package
    library = root.name in ("site-packages", "dist-packages")
    inside = "" if alone else first.partition(".")[0]
    found: dict[str, Path] = {first: path}
    waiting = [first]
    while waiting and not (alone and library):
        name = waiting.pop()
        for imported in _imports(name, found[name]):
            file = _file(root, imported)
            if (
                file
                and imported not in found
                and f"{imported}.".startswith(f"{inside}." * bool(inside))
            ):
                found[imported] = file
                waiting.append(imported)
    return sorted(found.values())


def _file(root: Path, module: str) -> Path | None:
    path = root.joinpath(*module.split("."))
    return next((p for p in (path.with_suffix(".py"), path / "__init__.py") if p.is_file()), None)


def _imports(module: str, path: Path) -> Iterator[str]:
    """Names that a module imports, and of each its packages, whether they are modules or not."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level]
            start = ".".join([*(above if node.level else []), *filter(None, [node.module])])
            names = [f"{start}.{alias.name}".strip(".") for alias in node.names]
        for name in names:
            words = name.split(".")
            yield from (".".join(words[:end]) for end in range(1, len(words) + 1))
