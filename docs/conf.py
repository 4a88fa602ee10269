"""The documentation site: the pages and notebooks of this folder, and the API from docstrings.

The pages are plain Markdown, as any code host shows them. Three things are made of them when they
are read: a notebook becomes Markdown, the sections of ``index.md`` become the table of contents,
and the name of the labeller's page in ``labels.md`` becomes a link to it where it is built.
"""

import json
import re
from typing import Any

from sphinx.application import Sphinx

import cxrflow

project = "cxrflow"
release = version = cxrflow.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
source_suffix = {".md": "markdown", ".ipynb": "markdown"}
exclude_patterns = ["archive"]  # what was tried, which the site gives as files
myst_heading_anchors = 4
html_theme = "furo"
html_title = "cxrflow"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
maximum_signature_line_length = 90
autodoc_inherit_docstrings = False
napoleon_use_ivar = True

# A heading of the index, and the pages that its list links to.
SECTION = re.compile(r"^## (.+)\n((?:(?!## ).*\n)+)", re.MULTILINE)
PAGE = re.compile(r"\]\(([\w/]+)\.(?:md|ipynb)\)")
LABELLER = "label/index.html"  # which `make docs` builds into the site
ARCHIVED = re.compile(r"\]\((archive/[\w.]+)(?:#[\w-]+)?\)")


def contents(index: str) -> str:
    """Return a hidden table of contents of each section that links to pages."""
    tables = []
    for title, body in SECTION.findall(index):
        if pages := dict.fromkeys(PAGE.findall(body)):
            tables += ["```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```", ""]
    return "\n".join(tables)


def markdown(cell: dict[str, Any]) -> str:
    """Return a cell of a notebook with its outputs: text and pictures."""
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    blocks = [f"```python\n{source}\n```"]
    for output in cell["outputs"]:
        if text := "".join(output.get("text", "")):
            blocks.append(f"```text\n{text}```")
        elif picture := output.get("data", {}).get("image/png"):
            data = "".join("".join(picture).split())
            blocks.append(f"![output of the cell](data:image/png;base64,{data})")
    return "\n\n".join(blocks)


def read(app: Sphinx, name: str, source: list[str]) -> None:
    """Replace what Sphinx has read by what it is to parse."""
    if app.env.doc2path(name).suffix == ".ipynb":
        source[0] = "\n\n".join(markdown(cell) for cell in json.loads(source[0])["cells"])
    elif name == "index":
        source[0] += "\n" + contents(source[0])
    elif name == "labels":
        app.env.note_dependency(app.outdir / LABELLER, docname=name)
        if (app.outdir / LABELLER).exists():
            named = f"`build/docs/{LABELLER}`"
            source[0] = source[0].replace(named, f'<a href="{LABELLER}">a page of this site</a>')
    source[0] = ARCHIVED.sub(r"](path:\1)", source[0])


def setup(app: Sphinx) -> None:
    """Connect to Sphinx."""
    app.connect("source-read", read)
