"""What an extra of the package brings, and public names that are imported when they are asked for.

``pip install .`` in a checkout installs what the labeller and the metrics need. Everything else
names the extra that it lacks (docs/library.md).
"""

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any, Final

from cxrflow.files.source_code import find_module

MODELS: Final = (
    *("PIL", "gdcm", "matplotlib", "pydicom", "safetensors", "tokenizers", "torch"),
    "transformers",
)
WORKFLOW: Final = (
    *("SimpleITK", "jinja2", "markupsafe", "rich", "sklearn", "snakemake", "stanza"),
    "tensorboard",
)
#: The extra of pyproject.toml that brings a library, by the name under which it is imported.
EXTRAS: Final = dict.fromkeys(MODELS, "models") | dict.fromkeys(WORKFLOW, "workflow")


def lacking(error: ImportError) -> str | None:
    """Name the library that an import lacked and the extra that brings it; None if none does."""
    library = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(library)
    return extra and (
        f"{library} is not installed; the extra '{extra}' brings it: "
        f"pip install '.[{extra}]' in a checkout of cxrflow"
    )


@contextmanager
def naming_extras() -> Iterator[None]:
    """Let an import that lacks a library fail with the name of the extra that brings it."""
    try:
        yield
    except ModuleNotFoundError as error:
        line = lacking(error)
        if line is None:
            raise
        raise ModuleNotFoundError(line, name=error.name) from None


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
