"""The papers' tables as they were made, checked to be whole and to need nothing from outside."""

import csv
import re
from pathlib import Path
from typing import Any

from markupsafe import Markup

from cxrflow.errors import InputError
from cxrflow.page.inputs import RunFolder

OUTSIDE = re.compile(
    r"""<(script|link|iframe|object|embed)\b|\b(src|srcset|href)\s*=|url\(""", re.I
)


def paper_tables(run: RunFolder) -> list[dict[str, Any]]:
    """Each paper with its tables in the paper's order; first the orders that it claims in them."""
    found = []
    for paper in run.config.papers:
        titles = {name: table.title for name, table in run.config.tables(paper).items()}
        if run.config.orderings(paper):
            titles = {"orderings": "Orders. What the paper claims, and what is found here"} | titles
        folder = run.root / "tables" / paper
        shown = [_table(folder, paper, name, title) for name, title in titles.items()]
        found.append({"paper": paper, "tables": shown})
    return found


def _table(folder: Path, paper: str, name: str, title: str) -> dict[str, Any]:
    short, _, rest = " ".join(title.split()).partition(". ")
    shown = {"id": f"{paper}-{name}", "short": short, "title": rest or short, "html": None}
    path = folder / f"{name}.html"
    if not path.is_file():
        return shown | {"ours": 0, "cells": 0}
    html = path.read_text(encoding="utf-8")
    body = html.strip()
    if not (body.startswith("<section") and body.endswith("</section>")):
        raise InputError(f"{path}: not a whole table; expected one <section> element")
    outside = OUTSIDE.search(body)
    if outside:
        raise InputError(f"{path}: holds '{outside.group()}'; expected a self-contained table")
    column, unit = ("better_ours", "comparisons") if name == "orderings" else ("ours", "cells")
    rows = _csv(folder / f"{name}.csv", column)
    ours = sum(row[column] != "" for row in rows)
    return shown | {"html": Markup(body), "ours": ours, "cells": len(rows), "unit": unit}


def _csv(path: Path, column: str) -> list[dict[str, str]]:
    try:
        with open(path, newline="", encoding="utf-8") as handle:
            reader = csv.DictReader(handle)
            if column not in (reader.fieldnames or []):
                raise InputError(f"{path}: column '{column}' is missing")
            return list(reader)
    except FileNotFoundError:
        raise InputError(f"{path}: file not found, though the table's HTML is there") from None
