"""The notebooks of the documentation: their cells, and how a test runs them."""

import json
from typing import Any

from cxrflow.programs.source_code import PACKAGE

NOTEBOOKS = sorted((PACKAGE.parents[1] / "docs/notebooks").glob("*.ipynb"))


def cells_of(name: str) -> list[dict[str, Any]]:
    """The cells of a notebook."""
    (file,) = (notebook for notebook in NOTEBOOKS if notebook.stem == name)
    cells: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["cells"]
    return cells


def code_of(name: str) -> list[str]:
    """The code cells of a notebook."""
    return ["".join(cell["source"]) for cell in cells_of(name) if cell["cell_type"] == "code"]


def run_cells(name: str, **sizes: int) -> dict[str, Any]:
    """Run all cells in order; ``sizes`` replace those that the first cell sets."""
    names: dict[str, Any] = {}
    for number, code in enumerate(code_of(name)):
        exec(compile(code, f"{name}.ipynb", "exec"), names)
        if not number:
            assert sizes.keys() <= names.keys()
            names |= sizes
    return names
